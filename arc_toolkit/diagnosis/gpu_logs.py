"""Errors of a GPU's hardware in what a job printed: Xid numbers of NVIDIA's driver, and CUDA's own messages.

The error of a program (an illegal address, memory of the GPU that is full) is not one of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.diagnosis.log_paths import locate
from arc_toolkit.diagnosis.model import CauseKind, Evidence, EvidenceSource, PrsEvidence
from arc_toolkit.diagnosis.scan import LogScan
from arc_toolkit.diagnosis.xids import HARDWARE_XIDS


def evidence_in(scans: Iterable[LogScan]) -> list[PrsEvidence]:
    """The evidence in logs, tied to the job and its attempt by the path."""
    found = []
    for scan in scans:
        if not (scan.xids or scan.cuda_errors):
            continue
        facts = [(f"Xid {number}", HARDWARE_XIDS[number]) for number in scan.xids if number in HARDWARE_XIDS]
        facts += [("CUDA error", text) for text in scan.cuda_errors]
        rank = locate(scan.path).rank
        for reason, text in facts:
            evidence = Evidence(EvidenceSource.LOG, reason, f"the job printed: {text}")
            found.append(PrsEvidence(scan.path, evidence, rank, CauseKind.NODE_FAULT))
    return found
