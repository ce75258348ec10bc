"""What CUDA, NVML and NCCL print about a GPU that does not work, or about a peer that is gone, and what it proves.

The texts are those of cudaGetErrorString and nvmlErrorString, of `nvidia-smi` and of PyTorch. Errors of the program
(an illegal address, memory of the GPU that is full, a driver too old for the image) are not among them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from arc_toolkit.diagnosis.xids import XID_REASONS


class GpuProof(StrEnum):
    """What a message proves; the value is the reason that is shown."""

    HARDWARE = "CUDA error"  # the GPU is broken, whoever uses it
    DRIVER = "GPU driver"  # of the node, in a pod with a GPU; of the image, if it fails on other nodes too
    MISSING = "no GPU found"  # the node's fault only if the same job finds one on another node
    PEER = "NCCL error"  # another rank went away first


class GpuMessage(NamedTuple):
    """`anchor` is searched for, `pattern` has to match there, and `near` before it in the same line.

    An anchor does not start like a word that logs are full of (CUDA, NVIDIA), as literals in scan.py.
    """

    anchor: bytes
    pattern: re.Pattern[bytes]
    meaning: str
    proof: GpuProof
    near: re.Pattern[bytes] | None = None


def _message(anchor: str, rest: str, meaning: str, proof: GpuProof, near: str = "") -> GpuMessage:
    pattern = re.compile(re.escape(anchor.encode()) + rest.encode())
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
    # cudaErrorSystemNotReady (802): "verify ... all required driver daemons are actively running", the fabric manager
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
    # github.com/NVIDIA/nvidia-docker/issues/1730: the container lost its GPUs when systemd was reloaded
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
    """Whether the reason of an evidence is a broken GPU: one of these messages, or an Xid of xids.py."""
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
