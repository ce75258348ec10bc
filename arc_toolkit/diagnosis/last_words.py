"""How a program says that it ends: the traceback of an exception that nothing caught, at the end of its log.

A handled exception looks the same, but the program goes on and prints more, or its logger wrote a line before it. So a
traceback counts only if nothing but the usual epilogue of Python, CUDA, launchers and AzureML follows. Of an exception
only the name of its class is kept: messages may contain secrets.
"""

from __future__ import annotations

import re
from enum import StrEnum

MARK = b"Traceback (most"
_HEADER = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


class LastWords(StrEnum):
    """What the end of a log says; the value is the reason that is shown."""

    OWN_ERROR = "uncaught exception"
    CHILD_KILLED = "child killed"  # a process that the program had started got SIGKILL
    DISK_ERROR = "input/output error"  # EIO: a disk, or a mount


# When a line was collected, the stream of a container, and the rank (`[rank2]: `, torchrun `[default0]:`).
_PREFIX = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? )?(?:std(?:out|err) [FP] )?(?:\[[\w.-]{1,40}\]: ?)?"
)
_NAME = re.compile(r"([A-Za-z_][\w.]{0,120})(?::|$)")
# A logger's line before a traceback: the program caught the exception and reported it.
_LOGGED = re.compile(r"\b(?:ERROR|WARN(?:ING)?|CRITICAL)\b")
# What may follow an uncaught exception. torch: c10/cuda/CUDAException.cpp; distributed/elastic/multiprocessing; its
# DataLoader, whose errors are chained; deepspeed/launcher/launch.py; azureml.core's job wrapper; `conda run`;
# Hydra; multiprocessing/resource_tracker.py; Open MPI; wandb.
_EPILOGUE = re.compile(
    r"\s|$|[WE]\d{4} [\d:.]{8,15} .*torch/distributed/elastic/multiprocessing/|\[[\d ,:-]+\] \[\w+\] \[launch\.py:"
    r"|The above exception was the direct|RuntimeError: DataLoader worker \(pid"
    r"|CUDA kernel errors might|For debugging consider|Compile with `TORCH_USE|Search for `cudaError"
    r"|=+$|-+$|[\w./-]+ FAILED$|Failures:$|Root Cause |\[\d+\]:$"
    r"|Exception ignored in|Error in atexit|/.*: UserWarning: resource_tracker"
    r"|Cleaning up all outstanding Run|\d+ items? cleaning up|Cleanup took|\[?[\w:. -]*\]? ?Finished context manager"
    r"|ERROR conda\.cli\.main_run|Set the environment variable HYDRA_FULL_ERROR|wandb: "
    r"|Primary job +terminated normally|a non-zero exit code|mpirun detected|the job to be terminated"
    r"|.*ProcessGroupNCCL\.cpp|.*Watchdog caught collective operation timeout|terminate called after throwing"
)
# Somebody else ended the program, or another rank went away first.
_FROM_OUTSIDE = frozenset(
    {
        "KeyboardInterrupt",
        "SignalException",
        "DistBackendError",
        "DistNetworkError",
        "DistStoreError",
        "ConnectionResetError",
        "ConnectionAbortedError",
        "BrokenPipeError",
        "BrokenProcessPool",
    }
)
# Peers again, and what a disk or a mount does: disk full, read-only, not connected, stale, remote I/O error.
_OUTER_MESSAGE = re.compile(
    r"NCCL|Gloo|gloo|[Cc]onnection (?:closed|reset) by peer|Socket Timeout|\[Errno (?:28|30|107|116|121)\]"
)
_DISK_ERROR = re.compile(r"\[Errno 5\]")
_CHILD_KILLED = re.compile(r"killed by signal: Killed")  # torch/utils/data/_utils/signal_handling.py
_LAUNCHER = "ChildFailedError"  # torchrun reports how the first of its processes ended
_LAUNCHER_LINE = re.compile(r"(?:torch\.[\w.]+\.)?ChildFailedError: ?$")
_EXIT_CODE = re.compile(r"^ *exitcode *: (-?\d{1,3})\b")
# deepspeed/launcher/launch.py reports the first of its processes that failed.
LAUNCH_MARK = b"gkill_handler]"
_RETURN_CODE = re.compile(r"\[launch\.py:\d+:sigkill_handler\] .* exits with return code = (-?\d{1,3})$")
_DEEPSPEED = "an error that DeepSpeed's launcher reports"


def last_words(tail: bytes) -> tuple[LastWords, str] | None:
    """What the end of a log says, with the name of the exception's class; None if it says nothing certain."""
    lines = [line[_end_of_prefix(line) :] for line in tail.decode("utf-8", "replace").splitlines()]
    headers = [index for index, line in enumerate(lines) if line == _HEADER]
    at = headers[-1] + 1 if headers else len(lines)
    while at < len(lines) and lines[at].startswith(" "):
        at += 1
    # A log that several processes write may have lost the header of the launcher's own traceback.
    at = max((index for index, line in enumerate(lines) if index > at and _LAUNCHER_LINE.match(line)), default=at)
    match = _NAME.match(lines[at]) if at < len(lines) else None
    if match is None or _is_logged(lines, headers):
        return _of_deepspeed(lines)
    if not all(map(_EPILOGUE.match, lines[at + 1 :])):
        return None
    name = match[1].rpartition(".")[2]
    if name == _LAUNCHER:
        return _of_launcher(lines[at + 1 :])
    if any(map(_CHILD_KILLED.search, lines[_start_of_chain(lines, headers) :])):
        return LastWords.CHILD_KILLED, name
    if _DISK_ERROR.search(lines[at]):
        return LastWords.DISK_ERROR, name
    if name in _FROM_OUTSIDE or _OUTER_MESSAGE.search(lines[at]):
        return None
    return LastWords.OWN_ERROR, name


def _end_of_prefix(line: str) -> int:
    match = _PREFIX.match(line)
    return match.end() if match else 0


def _start_of_chain(lines: list[str], headers: list[int]) -> int:
    """The first traceback of the exceptions that led to the last one."""
    for header in reversed(headers):
        if not _line_before(lines, header).startswith(_CHAINED):
            return header
    return 0


def _line_before(lines: list[str], index: int) -> str:
    return next((line for line in reversed(lines[:index]) if line.strip()), "")


def _is_logged(lines: list[str], headers: list[int]) -> bool:
    """The line before the first traceback of a chain is a logger's."""
    return bool(headers) and _LOGGED.search(_line_before(lines, _start_of_chain(lines, headers))) is not None


def _of_launcher(report: list[str]) -> tuple[LastWords, str] | None:
    """The exit code of the process that failed first; a signal is negative."""
    codes = [int(match[1]) for line in report if (match := _EXIT_CODE.match(line))]
    if codes and codes[-1] == -9:
        return LastWords.CHILD_KILLED, _LAUNCHER
    return (LastWords.OWN_ERROR, _LAUNCHER) if codes and codes[-1] > 0 else None


def _of_deepspeed(lines: list[str]) -> tuple[LastWords, str] | None:
    """The same, if the process itself left no traceback: a signal ended it, or it called exit."""
    while lines and not lines[-1].strip():
        lines.pop()
    match = _RETURN_CODE.search(lines[-1]) if lines else None
    if match is None:
        return None
    code = int(match[1])
    if code == -9:
        return LastWords.CHILD_KILLED, _DEEPSPEED
    return (LastWords.OWN_ERROR, _DEEPSPEED) if code > 0 else None
