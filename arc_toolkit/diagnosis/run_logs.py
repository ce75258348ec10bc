"""A log of `arc-toolkit run` outside a job's folder: standard error, or `kubectl logs`.

The supervisor writes where and when each process started and how it ended, so every start is an
attempt, and its cause needs nothing else. Such a file is a job of its own: which other files belong
to the same one is not known.
"""

from __future__ import annotations

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.identities import PIPE, LogIdentity
from arc_toolkit.diagnosis.log_endings import LogEndingKind
from arc_toolkit.diagnosis.log_evidence import NOTICED, evidence_in_log, notice_evidence, steps_lost
from arc_toolkit.diagnosis.matching import AttemptDraft
from arc_toolkit.diagnosis.model import (
    LOG_NAME,
    CauseKind,
    Evidence,
    EvidenceSource,
    FileEvidence,
    RunOutcome,
)
from arc_toolkit.diagnosis.scan import LogScan
from arc_toolkit.notices.run_log import RunRecord

_SUFFIXES = (".gz", ".log", ".txt", ".err")
INTERRUPTED = "interrupted"


def is_run_log(scan: LogScan) -> bool:
    """Has lines of `run` and no node line; a bootstrap log belongs to the job of its folder."""
    return bool(scan.runs) and not scan.path.rpartition("/")[2].startswith(LOG_NAME)


def locate_run_log(path: str) -> LogIdentity:
    """The job is the file, without the usual endings of its name."""
    name = path.rpartition("/")[2]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix) or name
    return LogIdentity(path, path if path.startswith(PIPE) else name, 0, None)


def drafts_of_run_log(scan: LogScan) -> list[AttemptDraft]:
    """One per start; several pods in one log are ranks."""
    writers = scan.runs or {}
    drafts = []
    for pod, records in writers.items():
        for number, record in enumerate(records):
            is_last = number == len(records) - 1
            printed = evidence_in_log(scan) if is_last and len(writers) == 1 else []
            drafts.append(
                AttemptDraft(
                    number=number,
                    rank=pod or None,
                    node=record.node,
                    start=record.start,
                    start_exact=True,
                    end=record.end
                    if record.end is not None or not record.is_evicted
                    else record.notice_time,
                    size=scan.size,
                    digest=scan.digest,
                    failure=scan.failure if is_last else None,
                    sources=(scan.path,),
                    notes=(scan.note,) if scan.note else (),
                    outcome=_outcome(record),
                    own_evidence=(
                        *_record_evidence(record, scan.path),
                        *_unexplained_evidence(printed, record),
                    ),
                )
            )
    return drafts


def _outcome(record: RunRecord) -> RunOutcome:
    """Without an end and a notice the process may still run, or its machine was lost."""
    if record.reason == "finished":
        return RunOutcome.SUCCEEDED
    return RunOutcome.FAILED if record.end is not None or record.is_evicted else RunOutcome.UNKNOWN


def _record_evidence(record: RunRecord, path: str) -> list[FileEvidence]:
    if notice := notice_evidence(record, path):
        return [notice]
    if record.end is None or record.reason == "finished":
        return []
    if record.reason == INTERRUPTED:
        text = f"`run` was interrupted (SIGINT){steps_lost(record)}"
        evidence = Evidence(EvidenceSource.LOG, INTERRUPTED, text, record.end)
        return [FileEvidence(path, evidence, kind=CauseKind.CANCELLED)]
    if record.reason == "evicted":
        text = (
            "`run` ended the process for a notice whose line is not in this log"
            f"{steps_lost(record)}"
        )
        return [FileEvidence(path, Evidence(EvidenceSource.LOG, NOTICED, text, record.end))]
    signal = signals.table().get((EvidenceSource.EXIT_CODE, str(record.code)))
    text = signal.message if signal else "the process ended with an error of its own"
    kind = signal.kind if signal else CauseKind.USER
    evidence = Evidence(
        EvidenceSource.EXIT_CODE, str(record.code), text + steps_lost(record), record.end
    )
    return [FileEvidence(path, evidence, kind=kind if record.code is not None else None)]


def _unexplained_evidence(printed: list[FileEvidence], record: RunRecord) -> list[FileEvidence]:
    """The end of the program's own log, unless the exit code says the same."""
    return [
        item
        for item in printed
        if record.code is None or item.evidence.reason != LogEndingKind.OWN_ERROR
    ]
