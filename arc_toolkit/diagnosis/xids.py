"""Xid numbers of NVIDIA's driver: which speak for a fault of the GPU, and which for an error of the program on it.

From the columns "immediate action" and "description" of NVIDIA's Xid catalogue for Ampere and newer,
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (read in November 2026). Numbers in neither table
prove nothing. Harmless are 63, a row of memory was remapped; 92, many corrected errors; 154, a note about another Xid.
"""

from __future__ import annotations

import re

# The GPU, its memory, its link, its firmware or its power; a reset or a repair is needed, or memory was lost (94).
HARDWARE_XIDS = {
    46: "the GPU stopped processing",
    48: "double-bit ECC error",
    54: "the GPU has no auxiliary power",
    62: "internal micro-controller halt",
    64: "a row of GPU memory could not be remapped",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "timeout of the GPU's system processor",
    120: "error of the GPU's system processor",
    136: "a link of the GPU could not be trained",
    140: "unrecovered ECC error",
    143: "the GPU could not be initialised",
    158: "fatal timeout of the GPU",
    167: "fatal timeout of the GPU's PCIe",
    171: "uncorrectable error of the GPU's DRAM",
    172: "uncorrectable error of the GPU's SRAM",
}
# Those that the program on the GPU causes: an illegal address, an assertion, a killed process.
APPLICATION_XIDS = frozenset({8, 13, 31, 32, 43, 45, 68, 69, 109})
# Those with which the program goes on (`IGNORE`), although AKS's check reports some of them.
HARMLESS_XIDS = frozenset({63, 92, 154})
_XID_CODES = re.compile(r"XID error-codes found: ([\d, ]+)|Xid \([^)]*\): (\d+)")


def xid_reason(number: int) -> str:
    """The reason of an evidence."""
    return f"Xid {number}"


XID_REASONS = frozenset(map(xid_reason, HARDWARE_XIDS))


def xids_in(message: str) -> set[int]:
    """The Xids that a health check reports, or that a line of the kernel's log has."""
    return {
        int(code)
        for match in _XID_CODES.finditer(message)
        for code in re.findall(r"\d+", match[1] or match[2])
    }


def without_hardware_xids(message: str) -> bool:
    """Whether all Xids that a health check reports are of the program, or harmless."""
    codes = xids_in(message)
    return bool(codes) and codes <= APPLICATION_XIDS | HARMLESS_XIDS
