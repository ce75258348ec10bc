"""Evidence in what a job printed: errors of its GPU, and the exception with which it ended."""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.diagnosis.identities import locate
from arc_toolkit.diagnosis.model import CauseKind, Evidence, EvidenceSource, FileEvidence
from arc_toolkit.diagnosis.read.gpu_messages import HARDWARE_XIDS, GpuProof, xid_reason
from arc_toolkit.diagnosis.read.log_endings import LogEndingKind
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.notices.run_log import RunRecord
from arc_toolkit.text import plural

# A rank that says so was not the first to fail.
PEER_REASONS = GpuProof.PEER, LogEndingKind.PEER_LOST
_FAULTS = (GpuProof.HARDWARE, GpuProof.DRIVER)
_ENDING_TEXTS: dict[LogEndingKind, tuple[CauseKind | None, str]] = {
    LogEndingKind.OWN_ERROR: (CauseKind.USER, "and nothing caught it"),
    LogEndingKind.CHILD_KILLED: (
        CauseKind.OWN_MEMORY,
        "because a process that it had started was killed, most likely for memory",
    ),
    LogEndingKind.DISK_ERROR: (None, "because a disk or a mount reported an input/output error"),
    LogEndingKind.STOPPED: (None, "because it was asked to stop; the log does not say by whom"),
    LogEndingKind.PEER_LOST: (None, "because another process went away first"),
    LogEndingKind.COMMAND_FAILED: (
        None,
        "which fetches something, failed; the log does not say whose fault that was",
    ),
    LogEndingKind.MOUNT_LOST: (None, "because a mount went away"),
    LogEndingKind.STORAGE: (
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


def notice_evidence(run: RunRecord, path: str, rank: str | None = None) -> FileEvidence | None:
    """The notice for which a process ended: seen by itself, and so proved."""
    is_withdrawn = run.reason == "withdrawn"
    if not run.notice or not (run.is_evicted or is_withdrawn):
        return None
    ended = "and ended the process" if run.end is not None else "and its log ends there"
    ended += ", before it was withdrawn" if is_withdrawn else ""
    text = f"`run` saw the notice {run.notice} of {run.notice_source} {ended}{steps_lost(run)}"
    evidence = Evidence(EvidenceSource.LOG, NOTICED, text, run.notice_time)
    return FileEvidence(path, evidence, rank, _NOTICES.get(run.notice))


def evidence_in(scans: Iterable[LogScan]) -> list[FileEvidence]:
    """The evidence in logs, tied to the job and its attempt by the path."""
    rows = []
    for scan in scans:
        if scan.xids or scan.gpu_messages or scan.ending or scan.run:
            rank = locate(scan.path).rank
            rows += evidence_in_log(scan, rank)
            if scan.run is not None and (notice := notice_evidence(scan.run, scan.path, rank)):
                rows.append(notice)
    return rows


def evidence_in_log(scan: LogScan, rank: str | None = None) -> list[FileEvidence]:
    """What the job itself printed."""
    rows = []
    numbers = [number for number in scan.xids if number in HARDWARE_XIDS]
    facts = [(xid_reason(number), HARDWARE_XIDS[number], True) for number in numbers]
    facts += [(str(proof), text, proof in _FAULTS) for proof, text in scan.gpu_messages]
    if scan.ending:
        words, name = scan.ending
        kind, meaning = _ENDING_TEXTS[words]
        message = f"its log ends with {name}, {meaning}"
        evidence = Evidence(EvidenceSource.LOG, words, message, path=scan.path)
        rows.append(FileEvidence(scan.path, evidence, rank, kind))
    for reason, text, fault in facts:
        evidence = Evidence(EvidenceSource.LOG, reason, f"the job printed: {text}", path=scan.path)
        rows.append(
            FileEvidence(scan.path, evidence, rank, CauseKind.NODE_FAULT if fault else None)
        )
    return rows
