"""Errors of a GPU in logs: Xids of NVIDIA's driver, and messages of CUDA, NVML and NCCL.

The texts are those of cudaGetErrorString and nvmlErrorString, of `nvidia-smi` and of PyTorch.
Errors of the program (an illegal address, GPU memory that is full, a driver too old for the image)
are not among them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

# NVIDIA's Xid catalogue for Ampere and newer, "immediate action" and "description" (November 2026):
# https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
# GPU, memory, link, firmware or power: a reset or repair is needed, or memory was lost (94).
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
HARMLESS_XIDS = frozenset({63, 92, 154})  # memory remapped, corrected errors, a note
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


def has_no_hardware_xid(message: str) -> bool:
    """Whether all Xids that a health check reports are of the program, or harmless."""
    codes = xids_in(message)
    return bool(codes) and codes <= APPLICATION_XIDS | HARMLESS_XIDS


class GpuProof(StrEnum):
    """What a message proves; the value is the reason that is shown."""

    HARDWARE = "CUDA error"  # the GPU is broken, whoever uses it
    DRIVER = "GPU driver"  # of the node; of the image, if it fails on other nodes too
    MISSING = "no GPU found"  # the node's fault only if the same job finds one on another node
    PEER = "NCCL error"  # another rank went away first


class GpuMessage(NamedTuple):
    """`anchor` is searched for, `pattern` has to match there, `near` before it in the line.

    An anchor does not start like a word that logs are full of (CUDA, NVIDIA), as literals in
    scan.py.
    """

    anchor: bytes
    pattern: re.Pattern[bytes]
    meaning: str
    proof: GpuProof
    near: re.Pattern[bytes] | None = None


def _message(anchor: str, suffix: str, meaning: str, proof: GpuProof, near: str = "") -> GpuMessage:
    pattern = re.compile(re.escape(anchor.encode()) + suffix.encode())
    return GpuMessage(
        anchor.encode(), pattern, meaning, proof, re.compile(near.encode()) if near else None
    )


MESSAGES = (
    # cudaErrorECCUncorrectable (214), cudaErrorNvlinkUncorrectable (220)
    _message(
        "uncorrectable ",
        "ECC error encountered",
        "uncorrectable ECC error encountered",
        GpuProof.HARDWARE,
    ),
    _message(
        "uncorrectable ",
        "NVLink error detected",
        "uncorrectable NVLink error detected",
        GpuProof.HARDWARE,
    ),
    # NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED; nvidia-smi for a GPU that does not answer
    _message("GPU is lost", "", "the GPU is lost", GpuProof.HARDWARE),
    _message("GPU requires reset", "", "the GPU requires a reset", GpuProof.HARDWARE),
    _message(
        "determine the device handle for ", "G[pP][uU]", "a GPU does not answer", GpuProof.HARDWARE
    ),
    # cudaErrorSystemNotReady (802), the fabric manager:
    # "verify ... all required driver daemons are actively running"
    _message(
        "system not yet initialized",
        "",
        "CUDA error 802: the node's driver daemons (fabric manager) are not ready",
        GpuProof.DRIVER,
        "(?i:cuda|802)",
    ),
    _message(
        "ize NVML: ",
        "Driver/library version mismatch",
        "driver and library of the node do not fit",
        GpuProof.DRIVER,
        "initial$",
    ),
    # github.com/NVIDIA/nvidia-docker/issues/1730: the GPUs went when systemd was reloaded
    _message(
        "ize NVML: ",
        "Unknown Error",
        "the container lost access to its GPUs",
        GpuProof.DRIVER,
        "initial$",
    ),
    _message(
        "A driver. Make",
        "",
        "the driver does not answer",
        GpuProof.DRIVER,
        "communicate with the NVIDI$",
    ),
    # cudaErrorNoDevice (100), cudaErrorDevicesUnavailable (46), torch.cuda
    _message(
        "-capable device",
        r"(?: is detected|\(s\) is/are busy|s are busy)",
        "CUDA found no GPU",
        GpuProof.MISSING,
        "CUDA$",
    ),
    _message("No CUDA GPUs are available", "", "CUDA found no GPU", GpuProof.MISSING),
    _message("Found no NVIDIA driver", "", "CUDA found no driver", GpuProof.MISSING),
    # ncclRemoteError: "a network error or a remote process exiting prematurely"
    _message("ncclRemoteError", "", "a peer of this rank went away", GpuProof.PEER),
    # torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
    _message(
        "Watchdog caught ",
        "collective operation timeout",
        "a peer of this rank did not answer",
        GpuProof.PEER,
    ),
)
ANCHORS = tuple(dict.fromkeys(message.anchor for message in MESSAGES))


def is_of_hardware(reason: str) -> bool:
    """Whether the reason of an evidence is a broken GPU: one of these messages, or an Xid."""
    return reason == GpuProof.HARDWARE or reason in XID_REASONS


def message_at(data: bytearray, at: int, end: int, anchor: bytes) -> tuple[GpuProof, str] | None:
    """What the message at the anchor proves, and what it says."""
    for message in MESSAGES:
        if message.anchor != anchor or not message.pattern.match(data, at, end):
            continue
        line = max(data.rfind(b"\n", max(at - 500, 0), at) + 1, at - 500, 0)
        if message.near is None or message.near.search(data, line, at):
            return message.proof, message.meaning
    return None


def messages_in(text: str) -> list[tuple[GpuProof, str]]:
    """What the messages in a short text prove, such as that of an event."""
    data = bytearray(text.encode())
    places = ((anchor, data.find(anchor)) for anchor in ANCHORS)
    readings = (message_at(data, at, len(data), anchor) for anchor, at in places if at >= 0)
    return [message for message in readings if message is not None]
