"""How a Python program ends: an exception that nothing caught, at the end of its log.

A handled exception looks the same, but the program goes on and prints more, or its logger wrote a
line before it. So a traceback counts only if nothing but the rest of its message and the usual
epilogue of Python, CUDA, launchers and AzureML follows. That the program ended is one question, and
whether by itself another: it may have been asked to stop, lost a peer, or lost its storage. Of an
exception only the name of its class is kept: messages may contain secrets. How programs in other
languages and launchers end is in log_endings.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress

from arc_toolkit.diagnosis.read import log_endings
from arc_toolkit.diagnosis.read.log_endings import LogEndingKind
from arc_toolkit.notices.run_log import PREFIX as RUN_PREFIX

MARK = b"Traceback "  # with colours the rest of the line is not one literal
_HEADER = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# When a line was collected, the stream of a container, and the rank: `[rank2]: `, torchrun
# `[default0]:`, mpirun `[1,0]<stderr>:`, horovodrun `[0]<stderr>:`, `kubectl logs --prefix`, Ray
# `(train pid=7, ip=10.0.0.4) `.
_PREFIX = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? )?(?:std(?:out|err) [FP] )?"
    r"(?:\[[\w.-]{1,40}\]: ?|\[[\d,]{1,12}\]<std(?:err|out)>: ?|\[pod/[\w./-]{1,200}\] "
    r"|\([^()]{0,80}\bpid=[^()]{1,60}\) )?"
)
# Ray: RayTaskError(ValueError)
_NAME = re.compile(r"([A-Za-z_][\w.]{0,120})(?:\(\w{1,80}\))?(?::|$)")
# A logger's line before a traceback: the program caught the exception and reported it. Not if the
# logger is that of a library in the background, of torchrun, or of Spark's JVM.
_LOGGED = re.compile(r"\b(?:ERROR|WARN(?:ING)?|CRITICAL)\b")
_OTHER_LOGGER = re.compile(
    r"WARNING:(?:tensorflow|absl)|wandb: |.*torch[./]distributed[./]elastic"
    r"|\d\d/\d\d/\d\d [\d:]{8} (?:ERROR|WARN) \w+: "
)
# rich.traceback draws a box: the header in its upper edge, the exception after its lower edge.
_BOX_TOP = re.compile(r"^[^\w\s]{2,} Traceback \(most recent call last\) [^\w\s]{2,}$")
_BOX_SIDE, _BOX_END = ("│", "|", "❱"), ("╰", "└", "+--")
# What may follow an uncaught exception. torch: c10/cuda/CUDAException.cpp;
# distributed/elastic/multiprocessing; its DataLoader, whose errors are chained;
# deepspeed/launcher/launch.py; azureml.core's job wrapper; `conda run`; Hydra;
# multiprocessing/resource_tracker.py; Open MPI; wandb; the shell that started it.
_EPILOGUE = re.compile(
    r"\s|$|[WE]\d{4} [\d:.]{8,15} .*torch/distributed/elastic/multiprocessing/"
    r"|\[[\d ,:-]+\] \[\w+\] \[launch\.py:"
    r"|The above exception was the direct|RuntimeError: DataLoader worker \(pid"
    r"|CUDA kernel errors might|For debugging consider"
    r"|Compile with `TORCH_USE|Search for `cudaError"
    r"|=+$|-+$|[\w./-]+ FAILED$|Failures:$|Root Cause |\[\d+\]:$"
    r"|Exception ignored in|Error in atexit|/.*: UserWarning: resource_tracker"
    r"|Cleaning up all outstanding Run|\d+ items? cleaning up|Cleanup took"
    r"|\[?[\w:. -]*\]? ?Finished context manager"
    r"|.*The experiment failed\. Finalizing run|.* User program failed with "
    r"|Stack trace:$|Exception raised from "
    r"|ERROR conda\.cli\.main_run|Set the environment variable HYDRA_FULL_ERROR"
    r"|wandb: |COMET |\[neptune\]|sys:1: "
    r"|.*View (?:run|experiment) .*at: "
    r"|Primary job +terminated normally|a non-zero exit code"
    r"|mpirun detected|the job to be terminated"
    r"|.*ProcessGroupNCCL\.cpp|.*Watchdog caught collective operation timeout"
    r"|terminate called after throwing"
    r"|frame #\d|.*\(core dumped\)|Aborted$|Segmentation fault$"
    r"|\[[\d:]{8}\] +WARNING +Sending process"
    r"|\[[\d:]{8}\] +ERROR +failed \(exitcode: |.*torch\.distributed\.elastic\.multiprocessing"
    r"|For simplicity, JAX has removed|You can suppress this exception and fall back"
)
# The message of a library's exception may have several lines; that of a program seldom has.
_LIBRARY_FRAME = re.compile(r'^  File "[^"]*/(?:site|dist)-packages/')
# The program goes on: its logger, a progress bar, a metric, or words of progress.
_GOES_ON = re.compile(
    r"^\W{0,3}\d{4}-\d\d-\d\d[T ]\d\d:|^\W{0,3}\d\d:\d\d:\d\d|^\W{0,3}\d\d/\d\d/\d\d"
    r"|^[IWE]\d{4} |%\||\bit/s\b"
    r"|\b(?:INFO|DEBUG|WARN(?:ING)?|ERROR)\b"
    r"|(?i:^\W*(?:saved?|saving|done|finish\w*|complet\w*|resum\w*|success\w*|ignor\w*"
    r"|start\w*|load\w*|writ\w*|wrote"
    r"|next|will|using|trying|attempt \d|train\w*|upload\w*|download\w*|all|ok|model"
    r"|results?|stored|end|exit\w*"
    r"|total|best|final\w*)\b"
    r"|\b(?:epoch|step|iter(?:ation)?|loss|acc(?:uracy)?)\W{1,3}\d"
    r"|\b(?:retry(?:ing)?|continu(?:e|ing)|fall(?:s|ing)? back|skip(?:ped|ping)?)\b)"
)
# A progress bar that is drawn again when the program ends does not show that it went on.
_BAR = re.compile(r"%\|.*\| *(\S+/\S+) ")
# Exceptions that do not end the program: in a destructor, a thread, a callback, a child.
_IGNORED = re.compile(
    r"Exception ignored (?:in|on)|Error in atexit|--- Logging error ---"
    r"|Exception in thread (?!\"main\")"
    r"|Task exception was never retrieved|Process \S+:$|Exception in callback"
)
# Somebody else ended the program: a signal.
_STOPPED = frozenset({"KeyboardInterrupt", "SignalException", "SIGTERMException", "GracefulExit"})
_STOPPED_MESSAGE = re.compile(r"\bSIGTERM\b|got signal: (?:15|2)\b|[Ss]ignal 15\b|\bSIGINT\b")
# Another process went away first.
_PEER_LOST = frozenset(
    {
        "DistBackendError",
        "DistNetworkError",
        "DistStoreError",
        "RendezvousConnectionError",
        "RendezvousTimeoutError",
        "RendezvousClosedError",
        "ConnectionResetError",
        "ConnectionAbortedError",
        "BrokenPipeError",
        "BrokenProcessPool",
        "HorovodInternalError",
        "HostsUpdatedInterrupt",
        "ActorDiedError",
        "ActorUnavailableError",
        "RayActorError",
        "WorkerCrashedError",
        "NodeDiedError",
        "OwnerDiedError",
        "KilledWorker",
        "CommClosedError",
    }
)
_PEER_MESSAGE = re.compile(
    r"NCCL|Gloo|gloo|[Cc]onnection (?:closed|reset) by (?:remote )?peer"
    r"|Socket (?:Timeout|closed|recv|send)\b"
    r"|Horovod has been shut down|failed to pass monitoredBarrier"
    r"|Collective ops is aborted|heartbeat timeout"
    r"|coordination service|ExecutorLostFailure|failed to connect to all addresses|Broken pipe"
)
# A lost mount: not connected, stale, remote I/O error. A full or read-only disk may be the job's.
_MOUNT_MESSAGE = re.compile(
    r"\[Errno (?:107|112|116|121)\]|Transport endpoint is not connected"
    r"|Stale (?:NFS )?file handle|Remote I/O error"
)
_STORAGE_MESSAGE = re.compile(
    r"\[Errno (?:28|30|122)\]|No space left on device|Read-only file system|[Qq]uota exceeded"
)
_DISK_ERROR = re.compile(r"\[Errno 5\]|Input/output error")
# torch: utils/data/_utils/signal_handling.py, multiprocessing/spawn.py; subprocess; loky.
_CHILD_KILLED = re.compile(r"killed by signal: Killed|\bSIGKILL\b")
_LAUNCHER = "ChildFailedError"  # torchrun reports how the first of its processes ended
_LAUNCHER_LINE = re.compile(r"(?:torch\.[\w.]+\.)?ChildFailedError: ?$")
# `accelerate launch`, `mp.spawn`
_RAN_ANOTHER = frozenset({"CalledProcessError", "ProcessRaisedException"})
_EXIT_CODE = re.compile(r"^ *exitcode *: (-?\d{1,3})\b")


def log_ending(tail: bytes) -> tuple[LogEndingKind, str] | None:
    """What the end of a log says, with the exception's class; None if nothing certain."""
    text = _COLOUR.sub("", tail.decode("utf-8", "replace"))
    # `run` writes after the process has ended.
    printed = (line for line in text.splitlines() if RUN_PREFIX not in line)
    lines = [line[_end_of_prefix(line) :] for line in map(_message, printed)]
    lines = _drop_ignored(_unbox(lines))
    while lines and not lines[-1].strip():
        lines.pop()
    return _python_ending(lines) or log_endings.ending(lines, _GOES_ON)


def _python_ending(lines: list[str]) -> tuple[LogEndingKind, str] | None:
    # A progress bar before it in the same line does not matter, a logger's prefix does.
    headers = [index for index, line in enumerate(lines) if line.endswith(_HEADER)]
    begin = headers[-1] + 1 if headers else len(lines)
    at = begin
    while at < len(lines) and lines[at].startswith(" "):
        at += 1
    # A log that several processes write may have lost the header of the launcher's own traceback.
    at = max(
        (index for index, line in enumerate(lines) if index > at and _LAUNCHER_LINE.match(line)),
        default=at,
    )
    match = _NAME.match(lines[at]) if at < len(lines) else None
    if match is None or _is_logged(lines, headers):
        return None
    name = match[1].rpartition(".")[2]
    if name == _LAUNCHER:
        answer = (
            _launcher_ending(lines[at + 1 :])
            if all(map(_EPILOGUE.match, lines[at + 1 :]))
            else None
        )
        return _process_ending(lines[:begin], answer)
    frames = [line for line in lines[begin:at] if line.startswith("  File ")]
    of_library = "." in match[1] or bool(frames and _LIBRARY_FRAME.match(frames[-1]))
    bars = {match[1] for line in lines[:at] if (match := _BAR.search(line))}
    after = [
        line for line in lines[at + 1 :] if not ((bar := _BAR.search(line)) and bar[1] in bars)
    ]
    if any(_is_more(line, of_library) for line in after):
        return None
    chain = lines[_start_of_chain(lines, headers) :]
    answer = _kind(name, lines[at:], chain), name
    return _process_ending(lines[:begin], answer) if name in _RAN_ANOTHER else answer


def _process_ending(
    lines: list[str], answer: tuple[LogEndingKind, str] | None
) -> tuple[LogEndingKind, str] | None:
    """A launcher reports the end of a process whose own log may show another cause."""
    if answer is None or answer[0] is not LogEndingKind.OWN_ERROR:
        return answer
    kinds = set()
    for index, line in enumerate(lines):
        if line.endswith(_HEADER):
            at = next(
                (at for at in range(index + 1, len(lines)) if not lines[at].startswith(" ")),
                len(lines),
            )
            match = _NAME.match(lines[at]) if at < len(lines) else None
            if match and not _line_after(lines, at).startswith(_CHAINED):
                kinds.add(_kind(match[1].rpartition(".")[2], lines[at : at + 1], []))
    if not kinds and any(map(log_endings.LOST_PEER.search, lines)):
        return LogEndingKind.PEER_LOST, answer[1]
    outside = kinds & {LogEndingKind.PEER_LOST, LogEndingKind.MOUNT_LOST}
    return (min(outside), answer[1]) if outside and kinds == outside else answer


def _line_after(lines: list[str], index: int) -> str:
    return next((line for line in lines[index + 1 :] if line.strip()), "")


def _is_more(line: str, of_library: bool) -> bool:
    """The program printed this line after its exception."""
    return _EPILOGUE.match(line) is None and (not of_library or _GOES_ON.search(line) is not None)


def _kind(name: str, message: list[str], chain: list[str]) -> LogEndingKind:
    """Whether the program ended by itself, from the exception and its message."""

    def matches(pattern: re.Pattern[str], lines: Iterable[str] = message) -> bool:
        return any(map(pattern.search, lines))

    if matches(_CHILD_KILLED, chain):
        return LogEndingKind.CHILD_KILLED
    if matches(_DISK_ERROR, message[:1]):
        return LogEndingKind.DISK_ERROR
    if name in _STOPPED or matches(_STOPPED_MESSAGE, message[:1]):
        return LogEndingKind.STOPPED
    if matches(_MOUNT_MESSAGE, message[:1]):
        return LogEndingKind.MOUNT_LOST
    if name in _PEER_LOST or matches(_PEER_MESSAGE):
        return LogEndingKind.PEER_LOST
    return LogEndingKind.STORAGE if matches(_STORAGE_MESSAGE) else LogEndingKind.OWN_ERROR


def _message(line: str) -> str:
    """The line in `{"log": "...\\n", "stream": "stderr", "time": "..."}` of a container runtime."""
    if line.startswith('{"log":'):
        with suppress(ValueError, KeyError, AttributeError):
            return str(json.loads(line)["log"]).rstrip("\n")
    return line


def _drop_ignored(lines: list[str]) -> list[str]:
    """Without the tracebacks that Python prints of exceptions that it ignores."""
    result: list[str] = []
    at = 0
    while at < len(lines):
        header = next(
            (index for index in range(at + 1, min(at + 5, len(lines))) if lines[index] == _HEADER),
            None,
        )
        if header is None or not _IGNORED.match(lines[at]):
            result.append(lines[at])
            at += 1
            continue
        at = header + 1
        while at < len(lines) and lines[at].startswith(" "):
            at += 1
        at += 1  # the exception
    return result


def _end_of_prefix(line: str) -> int:
    match = _PREFIX.match(line)
    return match.end() if match else 0


def _unbox(lines: list[str]) -> list[str]:
    """The tracebacks of rich as Python writes them."""
    result, inside = [], False
    for line in lines:
        if _BOX_TOP.match(line.strip()):
            result.append(_HEADER)
            inside = True
        elif inside and line.strip().startswith(_BOX_SIDE):
            result.append("  " + line)
        elif inside and line.strip().startswith(_BOX_END):
            inside = False
        else:
            result.append(line)
    return result


def _start_of_chain(lines: list[str], headers: list[int]) -> int:
    """The first traceback of the exceptions that led to the last one."""
    for header in reversed(headers):
        if not _line_before(lines, header).startswith(_CHAINED):
            return header
    return 0


def _line_before(lines: list[str], index: int) -> str:
    return next((line for line in reversed(lines[:index]) if line.strip()), "")


def _is_logged(lines: list[str], headers: list[int]) -> bool:
    """The line before the first traceback of a chain, or its beginning, is a logger's."""
    if not headers:
        return False
    first = _start_of_chain(lines, headers)
    before = lines[first].removesuffix(_HEADER).strip() or _line_before(lines, first)
    return _LOGGED.search(before) is not None and _OTHER_LOGGER.match(before) is None


def _launcher_ending(report: list[str]) -> tuple[LogEndingKind, str] | None:
    """The exit code of the process that failed first; a signal is negative."""
    codes = [int(match[1]) for line in report if (match := _EXIT_CODE.match(line))]
    return log_endings.code_ending(codes[-1], _LAUNCHER) if codes else None
