"""The end of a log: how the process ended, and what it said about its GPU when it did.

Position decides. An exception ends a process only if nothing but the rest of its message and the
usual epilogue of Python, CUDA, launchers and AzureML follows. A message about a GPU counts only in
that final exception or, without one, in the last message of the runtime; a line of the kernel only
if the program did not go on after it. A quotation, a denial, a warning or a handled error elsewhere
in the log proves nothing. That the program ended is one question, and whether by itself another: it
may have been asked to stop, lost a peer, or lost its storage. Of an exception only the name of its
class is kept: messages may contain secrets. How launchers, shells and other programs end is in
log_endings.py.
"""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from arc_toolkit.diagnosis.read import log_endings
from arc_toolkit.diagnosis.read.gpu_messages import GpuProof, kernel_xid, messages_in
from arc_toolkit.diagnosis.read.log_endings import LogEndingKind
from arc_toolkit.notices.run_log import PREFIX as RUN_PREFIX

TRACEBACK = b"Traceback "  # with colours the rest of the line is not one literal
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
# A logger's warning before a traceback: the program caught the exception and goes on. Not if the
# logger is that of a library in the background, of torchrun, or of Spark's JVM.
_LOGGED = re.compile(r"\bWARN(?:ING)?\b|\bERROR\b.*(?i:retry|again|skip|continu|fall|ignor)")
_OTHER_LOGGER = re.compile(
    r"WARNING:(?:tensorflow|absl)|wandb: |.*torch[./]distributed[./]elastic"
    r"|\d\d/\d\d/\d\d [\d:]{8} WARN \w+: "
)
# `+ Exception Group Traceback (most recent call last):`, and the frames beside it
_GROUP = re.compile(r"^ *\+ Exception Group Traceback \(most recent call last\):$")
_GROUP_LINE = re.compile(r"^ *(?:\| ?|\+[-+]+(?: .*)?$)")
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
    r"|: [\w.$]{1,200}(?:Exception|Error)\b|Caused by: |Driver stacktrace:"
    r"|\d\d/\d\d/\d\d [\d:]{8} \w+ (?:ShutdownHook|SparkContext|SparkUI|MemoryStore|BlockManager"
    r"|MapOutputTracker|OutputCommit|\w*SchedulerBackend|\w*ShutdownHook)"
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


# A final exception of these classes is the program's, whatever words its message quotes.
_OF_PROGRAM = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
) - {"RuntimeError", "OSError", "SystemError", "Exception"}
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,120}(?:Error|Exception|Failure)\w{0,40}(?:\(\w+\))?: ")
# An exception that an error of a GPU may have raised; GPU memory that is full is the program's.
_OF_GPU = re.compile(r"CUDA|cuda|NCCL|nccl|CUDNN|cuDNN|CUBLAS|NVML|GPU|XlaRuntime|Accelerator")
_GPU_MEMORY = re.compile(r"OutOfMemoryError|out of memory|RESOURCE_EXHAUSTED")
MAX_MESSAGE_LINES = 4  # of an exception without a traceback, besides the epilogue


class LogEnd(NamedTuple):
    """What the end of a log says."""

    ending: tuple[LogEndingKind, str] | None = None  # with the exception's class
    gpu_messages: tuple[tuple[GpuProof, str], ...] = ()
    xids: tuple[int, ...] = ()  # of kernel lines, in order, without repeats


class _Exception(NamedTuple):
    """An exception: the first traceback of its chain, its last traceback, and its line."""

    start: int
    header: int
    at: int
    name: str


def log_end(tail: bytes) -> LogEnd:
    """From the last bytes of a log."""
    text = _COLOUR.sub("", tail.decode("utf-8", "replace"))
    # `run` writes after the process has ended.
    printed = (line for line in text.splitlines() if RUN_PREFIX not in line)
    unprefixed = [line[_end_of_prefix(line) :] for line in map(_message, printed)]
    xids = [(kernel_xid(line), index) for index, line in enumerate(unprefixed) if "NVRM: " in line]
    kernel_lines = {index: xid for xid, index in xids if xid is not None}
    program_lines = [line for index, line in enumerate(unprefixed) if index not in kernel_lines]
    lines = _drop_ignored(_unbox(program_lines))
    while lines and not lines[-1].strip():
        lines.pop()
    uncaught = _uncaught_exception(lines)
    ending = _python_ending(lines, uncaught) if uncaught else None
    if ending is None and log_endings.has_mark(tail):
        ending = log_endings.ending(lines, _GOES_ON)
    final = _first_of_children(lines, uncaught) if uncaught else _untraced_exception(lines)
    is_programs = final is not None and not _may_be_of_gpu(lines[final.at], final.name)
    begin = final.start if final else max(len(lines) - 1, 0)
    messages = [hit for line in lines[begin:] for hit in _gpu_messages(line)]
    for line in lines[_last_message(lines, begin) : begin]:
        # A lost peer may raise any exception, a broken GPU does not.
        messages += [
            hit for hit in _gpu_messages(line) if not is_programs or hit[0] is GpuProof.PEER
        ]
    survived = -1
    for index in range(len(unprefixed) - 1, min(kernel_lines, default=len(unprefixed)), -1):
        if _is_progress(unprefixed[index]):
            survived = index
            break
    return LogEnd(
        ending,
        tuple(dict.fromkeys(messages)),
        ()
        if is_programs
        else tuple(dict.fromkeys(xid for at, xid in kernel_lines.items() if at > survived)),
    )


def _gpu_messages(line: str) -> list[tuple[GpuProof, str]]:
    """Not in the source lines of a traceback, nor in an exception that only quotes the words."""
    match = _NAME.match(line)
    if match and match[1].rpartition(".")[2] in _OF_PROGRAM:
        return []
    is_source = line.startswith("  ") and not line.lstrip().startswith("what(): ")
    return [] if is_source else messages_in(line)


def _may_be_of_gpu(line: str, name: str) -> bool:
    """Whether an error of a GPU may have raised it; a launcher only reports that a process ended."""
    if name == _LAUNCHER or name in _RAN_ANOTHER:
        return True
    return (
        (name not in _OF_PROGRAM or name == "AssertionError")  # `expected 8 GPUs, found 7`
        and _OF_GPU.search(line) is not None
        and _GPU_MEMORY.search(line) is None
    )


def _is_progress(line: str) -> bool:
    return _GOES_ON.search(line) is not None and _EPILOGUE.match(line) is None


def _uncaught_exception(lines: list[str]) -> _Exception | None:
    """The exception of the last traceback, if the program printed nothing after it."""
    # A progress bar before it in the same line does not matter, a logger's prefix does.
    headers = [index for index, line in enumerate(lines) if line.endswith(_HEADER)]
    begin = headers[-1] + 1 if headers else len(lines)
    at = _after_frames(lines, begin)
    # A log that several processes write may have lost the header of the launcher's own traceback.
    at = max(
        (index for index, line in enumerate(lines) if index > at and _LAUNCHER_LINE.match(line)),
        default=at,
    )
    match = _NAME.match(lines[at]) if at < len(lines) else None
    if match is None or _is_logged(lines, headers):
        return None
    name = match[1].rpartition(".")[2]
    frames = [line for line in lines[begin:at] if line.startswith("  File ")]
    of_library = "." in match[1] or bool(frames and _LIBRARY_FRAME.match(frames[-1]))
    bars = {match[1] for line in lines[:at] if (match := _BAR.search(line))}
    after = [
        line for line in lines[at + 1 :] if not ((bar := _BAR.search(line)) and bar[1] in bars)
    ]
    if any(_is_more(line, of_library and name != _LAUNCHER) for line in after):
        return None
    return _Exception(_start_of_chain(lines, headers), begin - 1, at, name)


def _untraced_exception(lines: list[str]) -> _Exception | None:
    """An exception at the end that was printed without a traceback."""
    message_lines = 0
    for at in range(len(lines) - 1, -1, -1):
        if _EXCEPTION.match(lines[at]) and (match := _NAME.match(lines[at])):
            return _Exception(at, at, at, match[1].rpartition(".")[2])
        message_lines += _EPILOGUE.match(lines[at]) is None
        if message_lines >= MAX_MESSAGE_LINES or _is_progress(lines[at]):
            break
    return None


def _first_of_children(lines: list[str], uncaught: _Exception) -> _Exception:
    """Of a launcher, the first exception of its processes after the last progress."""
    if uncaught.name != _LAUNCHER and uncaught.name not in _RAN_ANOTHER:
        return uncaught
    for header, line in enumerate(lines[: uncaught.header]):
        at = _after_frames(lines, header + 1) if line.endswith(_HEADER) else len(lines)
        match = _NAME.match(lines[at]) if at < len(lines) else None
        if match and not any(map(_is_progress, lines[at + 1 :])):
            return _Exception(header, header, at, match[1].rpartition(".")[2])
    return uncaught


def _last_message(lines: list[str], start: int) -> int:
    """Where the runtime's last message begins, directly before the final exception or line."""
    while start and (
        _EPILOGUE.match(lines[start - 1])
        or lines[start - 1].startswith("+ ")  # bash -x
        or (_OF_GPU.search(lines[start - 1]) and not _is_progress(lines[start - 1]))
    ):
        start -= 1
    return start


def _python_ending(lines: list[str], uncaught: _Exception) -> tuple[LogEndingKind, str] | None:
    name, before = uncaught.name, lines[: uncaught.header + 1]
    if name == _LAUNCHER:
        return _process_ending(before, _launcher_ending(lines[uncaught.at + 1 :]))
    answer = _kind(name, lines[uncaught.at :], lines[uncaught.start :]), name
    return _process_ending(before, answer) if name in _RAN_ANOTHER else answer


def _process_ending(
    lines: list[str], answer: tuple[LogEndingKind, str] | None
) -> tuple[LogEndingKind, str] | None:
    """A launcher reports the end of a process whose own log may show another cause."""
    if answer is None or answer[0] is not LogEndingKind.OWN_ERROR:
        return answer
    kinds = set()
    for index, line in enumerate(lines):
        if line.endswith(_HEADER):
            at = _after_frames(lines, index + 1)
            match = _NAME.match(lines[at]) if at < len(lines) else None
            if match and not _line_after(lines, at).startswith(_CHAINED):
                kinds.add(_kind(match[1].rpartition(".")[2], lines[at : at + 1], []))
    if not kinds and any(map(log_endings.LOST_PEER.search, lines)):
        return LogEndingKind.PEER_LOST, answer[1]
    outside = kinds & {LogEndingKind.PEER_LOST, LogEndingKind.MOUNT_LOST}
    return (min(outside), answer[1]) if outside and kinds == outside else answer


def _after_frames(lines: list[str], start: int) -> int:
    """The line of the exception, after the frames of its traceback."""
    while start < len(lines) and lines[start].startswith(" "):
        start += 1
    return start


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
        at = _after_frames(lines, header + 1) + 1  # the line after the exception
    return result


def _end_of_prefix(line: str) -> int:
    match = _PREFIX.match(line)
    return match.end() if match else 0


def _unbox(lines: list[str]) -> list[str]:
    """The tracebacks of rich and of exception groups as Python writes them."""
    result, inside, in_group = [], False, False
    for line in lines:
        if _GROUP.match(line):
            result.append(_HEADER)
            in_group = True
        elif in_group and (match := _GROUP_LINE.match(line)):
            if framed := line[match.end() :]:
                result.append(framed)
        elif _BOX_TOP.match(line.strip()):
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
