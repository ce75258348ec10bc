"""Errors of a GPU in texts: Xids of NVIDIA's driver, and messages of CUDA, NVML and NCCL.

Where such a text counts in the log of a job is decided in log_end.py. The texts are those of
cudaGetErrorString and nvmlErrorString, of `nvidia-smi` and of PyTorch. Errors of the program (an
illegal address, GPU memory that is full, a driver too old for the image) are not among them.
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
_XID_CODES = re.compile(
    r"XID error-codes found: ([\d, ]+)|Xid \([^)]*\): (\d+)|(GPU has fallen off the bus)"
)
OFF_THE_BUS = 79  # the kernel also writes this text without a number (NVIDIA/NVSentinel 155)
# A line of the kernel's log, as dmesg (`[ 812.1] `, `[Thu Oct 15 00:41:50 2026] `) and syslog write
# it: `NVRM: Xid (PCI:0000:0b:00): 79, pid=1, ...`, `NVRM: GPU 0000:0b:00.0: GPU has fallen off ...`
_KERNEL_LINE = re.compile(
    r"(?:<\d{1,3}>)?(?:\w{3} +\d{1,2} [\d:]{8} \S{1,80} |[\dT:.+-]{19,35} \S{1,80} )?(?:kernel: ?)?"
    r"(?:\[ *\d+\.\d+\] ?|\[\w{3} \w{3} +\d+ [\d:]{8} \d{4}\] ?)?"
    r"NVRM: (?:Xid \((?:PCI:)?[0-9a-fA-F:.]{4,20}\): (\d{1,4})\b"
    r"|GPU (?:at )?(?:PCI:)?[0-9a-fA-F:.]{4,20}: (GPU has fallen off the bus))"
)


def xid_reason(number: int) -> str:
    """The reason of an evidence."""
    return f"Xid {number}"


XID_REASONS = frozenset(map(xid_reason, HARDWARE_XIDS))


def xids_in(message: str) -> set[int]:
    """The Xids that a health check reports, or that a line of the kernel's log has."""
    return {
        int(code)
        for match in _XID_CODES.finditer(message)
        for code in re.findall(r"\d+", match[1] or match[2] or str(OFF_THE_BUS))
    }


def kernel_xid(line: str) -> int | None:
    """The Xid of a line that has the shape of a kernel line, and not only its words."""
    match = _KERNEL_LINE.match(line)
    return int(match[1] or OFF_THE_BUS) if match else None


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
    """`pattern` is searched for in a line; what is before it must not deny, quote or weaken it."""

    pattern: re.Pattern[str]
    meaning: str
    proof: GpuProof


def _message(pattern: str, meaning: str, proof: GpuProof) -> GpuMessage:
    return GpuMessage(re.compile(pattern), meaning, proof)


MESSAGES = (
    # cudaErrorECCUncorrectable (214), cudaErrorNvlinkUncorrectable (220)
    _message(
        "uncorrectable ECC error encountered",
        "uncorrectable ECC error encountered",
        GpuProof.HARDWARE,
    ),
    _message(
        "uncorrectable NVLink error detected",
        "uncorrectable NVLink error detected",
        GpuProof.HARDWARE,
    ),
    # NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED; nvidia-smi for a GPU that does not answer
    _message(r"(?:^|: |\. )GPU is lost", "the GPU is lost", GpuProof.HARDWARE),
    _message(r"(?:^|: |\. )GPU requires reset", "the GPU requires a reset", GpuProof.HARDWARE),
    _message(
        "determine the device handle for G[pP][uU]", "a GPU does not answer", GpuProof.HARDWARE
    ),
    # cudaErrorSystemNotReady (802), the fabric manager:
    # "verify ... all required driver daemons are actively running"
    _message(
        "(?i:cuda|802).{0,200}system not yet initialized",
        "CUDA error 802: the node's driver daemons (fabric manager) are not ready",
        GpuProof.DRIVER,
    ),
    _message(
        "initialize NVML: Driver/library version mismatch",
        "driver and library of the node do not fit",
        GpuProof.DRIVER,
    ),
    # github.com/NVIDIA/nvidia-docker/issues/1730: the GPUs went when systemd was reloaded
    _message(
        "initialize NVML: Unknown Error", "the container lost access to its GPUs", GpuProof.DRIVER
    ),
    _message(
        r"communicate with the NVIDIA driver\. Make",
        "the driver does not answer",
        GpuProof.DRIVER,
    ),
    # cudaErrorNoDevice (100), cudaErrorDevicesUnavailable (46), torch.cuda
    _message(
        r"(?:no )?CUDA-capable device(?: is detected|\(s\) is/are busy|s are busy)",
        "CUDA found no GPU",
        GpuProof.MISSING,
    ),
    _message("No CUDA GPUs are available", "CUDA found no GPU", GpuProof.MISSING),
    _message("Found no NVIDIA driver", "CUDA found no driver", GpuProof.MISSING),
    # ncclRemoteError: "a network error or a remote process exiting prematurely"
    _message("ncclRemoteError", "a peer of this rank went away", GpuProof.PEER),
    # torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
    _message(
        "Watchdog caught collective operation timeout",
        "a peer of this rank did not answer",
        GpuProof.PEER,
    ),
)
# Every log with such a text at its end has one of these there.
MARKS = (
    *(b"VRM: ", b"uncorrectable ", b"GPU is lost", b"requires reset", b"device handle for"),
    *(b"not yet initialized", b"ize NVML: ", b"A driver. Make", b"-capable device"),
    *(b"No CUDA GPUs", b"Found no NVIDIA", b"ncclRemoteError", b"Watchdog caught "),
)
# The line denies the error, quotes it, warns of it, or says that it was handled.
_DENIED = re.compile(
    r"(?i:\b(?:no|not|without|never|zero|0|if|when|caught|handled|ignor\w+|retr(?:y|ied|ying)|recover\w*"
    r"|warn\w*|\w*warning|info|debug|e\.g\.)[\s:,(])"
    r"|(?:^|[\s(\[{:=])[\"'`](?!\w+\.\w+:)|^\++ |^[#>|{]"
)
_QUOTED_BY_NCCL = "Cuda failure '"  # NCCL quotes CUDA's own text


def is_of_hardware(reason: str) -> bool:
    """Whether the reason of an evidence is a broken GPU: one of these messages, or an Xid."""
    return reason == GpuProof.HARDWARE or reason in XID_REASONS


def messages_in(line: str) -> list[tuple[GpuProof, str]]:
    """What the messages in a line, or in the text of an event, prove."""
    result = []
    for message in MESSAGES:
        match = message.pattern.search(line)
        if match is None:
            continue
        before = line[: match.start()]
        if before.endswith(_QUOTED_BY_NCCL) or not _DENIED.search(before):
            result.append((message.proof, message.meaning))
    return result
