"""A log of `arc-toolkit run` that is not part of a job's folder: standard error in a file, or `kubectl logs`.

The supervisor writes where and when each process started and how it ended, so every start is an attempt, and its cause
needs nothing else. Such a file is a job of its own: which other files belong to the same one is not known.
"""

from __future__ import annotations

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.drafts import AttemptDraft
from arc_toolkit.diagnosis.log_endings import LastWords
from arc_toolkit.diagnosis.log_evidence import NOTICED, evidence_in_log, noticed, steps_lost
from arc_toolkit.diagnosis.log_paths import PIPE, LogIdentity
from arc_toolkit.diagnosis.model import (
    LOG_NAME,
    CauseKind,
    Evidence,
    EvidenceSource,
    PrsEvidence,
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
                    own_evidence=(*_of_record(record, scan.path), *_not_known(printed, record)),
                )
            )
    return drafts


def _outcome(record: RunRecord) -> RunOutcome:
    """Without an end and a notice the process may still run, or its machine was lost."""
    if record.reason == "finished":
        return RunOutcome.SUCCEEDED
    return RunOutcome.FAILED if record.end is not None or record.is_evicted else RunOutcome.UNKNOWN


def _of_record(record: RunRecord, path: str) -> list[PrsEvidence]:
    if notice := noticed(record, path):
        return [notice]
    if record.end is None or record.reason == "finished":
        return []
    if record.reason == INTERRUPTED:
        text = f"`run` was interrupted (SIGINT){steps_lost(record)}"
        evidence = Evidence(EvidenceSource.LOG, INTERRUPTED, text, record.end)
        return [PrsEvidence(path, evidence, kind=CauseKind.CANCELLED)]
    if record.reason == "evicted":
        text = f"`run` ended the process for a notice whose line is not in this log{steps_lost(record)}"
        return [PrsEvidence(path, Evidence(EvidenceSource.LOG, NOTICED, text, record.end))]
    known = signals.table().get((EvidenceSource.EXIT_CODE, str(record.code)))
    text = known.message if known else "the process ended with an error of its own"
    kind = known.kind if known else CauseKind.USER
    evidence = Evidence(
        EvidenceSource.EXIT_CODE, str(record.code), text + steps_lost(record), record.end
    )
    return [PrsEvidence(path, evidence, kind=kind if record.code is not None else None)]


def _not_known(printed: list[PrsEvidence], record: RunRecord) -> list[PrsEvidence]:
    """The end of the program's own log, unless the exit code says the same."""
    return [
        item
        for item in printed
        if record.code is None or item.evidence.reason != LastWords.OWN_ERROR
    ]
