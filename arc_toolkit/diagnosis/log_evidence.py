"""Evidence in what a job printed: errors of its GPU, and the exception with which it ended."""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.diagnosis.gpu_messages import GpuProof
from arc_toolkit.diagnosis.log_endings import LastWords
from arc_toolkit.diagnosis.log_paths import locate
from arc_toolkit.diagnosis.model import CauseKind, Evidence, EvidenceSource, PrsEvidence
from arc_toolkit.diagnosis.scan import LogScan
from arc_toolkit.diagnosis.xids import HARDWARE_XIDS, xid_reason
from arc_toolkit.notices.run_log import RunRecord
from arc_toolkit.text import plural

_FAULTS = (GpuProof.HARDWARE, GpuProof.DRIVER)
_LAST_WORDS: dict[LastWords, tuple[CauseKind | None, str]] = {
    LastWords.OWN_ERROR: (CauseKind.USER, "and nothing caught it; there is no exit code"),
    LastWords.CHILD_KILLED: (None, "because a process that it had started was killed"),
    LastWords.DISK_ERROR: (None, "because a disk or a mount reported an input/output error"),
    LastWords.STOPPED: (None, "because it was asked to stop; the log does not say by whom"),
    LastWords.PEER_LOST: (None, "because another process went away first"),
    LastWords.COMMAND_FAILED: (
        None,
        "which fetches something, failed; the log does not say whose fault that was",
    ),
    LastWords.MOUNT_LOST: (None, "because a mount went away"),
    LastWords.STORAGE: (
        None,
        "because a file system was full or read-only; the log does not say whose",
    ),
}
# What the notice that `arc-toolkit run` saw means. A request to stop does not say who asked.
_NOTICES = {
    "preempt": CauseKind.SPOT,
    "terminate": CauseKind.DRAIN,
    "redeploy": CauseKind.DRAIN,
    "reboot": CauseKind.DRAIN,
}
NOTICED = "eviction notice"


def steps_lost(run: RunRecord) -> str:
    """What was saved and what is lost, to be added to a sentence."""
    lost = run.steps_lost
    saved = "; nothing is known of a save" if run.saved is None else f"; step {run.saved} was saved"
    return saved if lost is None else f"{saved}, {plural(lost, 'step')} lost"


def noticed(run: RunRecord, path: str, rank: str | None = None) -> PrsEvidence | None:
    """The notice for which a process ended: seen by itself, and so proved."""
    is_withdrawn = run.reason == "withdrawn"
    if not run.notice or not (run.is_evicted or is_withdrawn):
        return None
    ended = "and ended the process" if run.end is not None else "and its log ends there"
    ended += ", before it was withdrawn" if is_withdrawn else ""
    text = f"`run` saw the notice {run.notice} of {run.notice_source} {ended}{steps_lost(run)}"
    evidence = Evidence(EvidenceSource.LOG, NOTICED, text, run.notice_time)
    return PrsEvidence(path, evidence, rank, _NOTICES.get(run.notice))


def evidence_in(scans: Iterable[LogScan]) -> list[PrsEvidence]:
    """The evidence in logs, tied to the job and its attempt by the path."""
    rows = []
    for scan in scans:
        if scan.xids or scan.gpu_messages or scan.last_words or scan.run:
            rank = locate(scan.path).rank
            rows += evidence_in_log(scan, rank)
            if scan.run is not None and (notice := noticed(scan.run, scan.path, rank)):
                rows.append(notice)
    return rows


def evidence_in_log(scan: LogScan, rank: str | None = None) -> list[PrsEvidence]:
    """What the job itself printed."""
    rows = []
    numbers = [number for number in scan.xids if number in HARDWARE_XIDS]
    facts = [(xid_reason(number), HARDWARE_XIDS[number], True) for number in numbers]
    facts += [(str(proof), text, proof in _FAULTS) for proof, text in scan.gpu_messages]
    if scan.last_words:
        words, name = scan.last_words
        kind, why = _LAST_WORDS[words]
        evidence = Evidence(EvidenceSource.LOG, words, f"its log ends with {name}, {why}")
        rows.append(PrsEvidence(scan.path, evidence, rank, kind))
    for reason, text, fault in facts:
        evidence = Evidence(EvidenceSource.LOG, reason, f"the job printed: {text}")
        rows.append(PrsEvidence(scan.path, evidence, rank, CauseKind.NODE_FAULT if fault else None))
    return rows
