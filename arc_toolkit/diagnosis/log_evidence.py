"""Evidence in what a job printed: errors of its GPU, and the exception with which it ended."""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.diagnosis.gpu_messages import GpuProof
from arc_toolkit.diagnosis.last_words import LastWords
from arc_toolkit.diagnosis.log_paths import locate
from arc_toolkit.diagnosis.model import CauseKind, Evidence, EvidenceSource, PrsEvidence
from arc_toolkit.diagnosis.scan import LogScan
from arc_toolkit.diagnosis.xids import HARDWARE_XIDS, xid_reason

_FAULTS = (GpuProof.HARDWARE, GpuProof.DRIVER)
_LAST_WORDS: dict[LastWords, tuple[CauseKind | None, str]] = {
    LastWords.OWN_ERROR: (CauseKind.USER, "which nothing caught; there is no exit code"),
    LastWords.CHILD_KILLED: (None, "because a process that it had started was killed"),
}


def evidence_in(scans: Iterable[LogScan]) -> list[PrsEvidence]:
    """The evidence in logs, tied to the job and its attempt by the path."""
    rows = []
    for scan in scans:
        if not (scan.xids or scan.gpu_messages or scan.last_words):
            continue
        numbers = [number for number in scan.xids if number in HARDWARE_XIDS]
        facts = [(xid_reason(number), HARDWARE_XIDS[number], True) for number in numbers]
        facts += [(str(proof), text, proof in _FAULTS) for proof, text in scan.gpu_messages]
        rank = locate(scan.path).rank
        if scan.last_words:
            words, name = scan.last_words
            kind, why = _LAST_WORDS[words]
            evidence = Evidence(EvidenceSource.LOG, words, f"its log ends with {name}, {why}")
            rows.append(PrsEvidence(scan.path, evidence, rank, kind))
        for reason, text, fault in facts:
            evidence = Evidence(EvidenceSource.LOG, reason, f"the job printed: {text}")
            rows.append(PrsEvidence(scan.path, evidence, rank, CauseKind.NODE_FAULT if fault else None))
    return rows
