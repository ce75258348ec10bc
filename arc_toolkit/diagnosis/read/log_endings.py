"""How shells, launchers, C++ and Spark report an end, at the end of a log.

One row per message: the line with which it begins, and what may follow it. In the middle of a log,
where the program went on, a message does not count.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple


class LogEndingKind(StrEnum):
    """What the end of a log says; the value is the reason that is shown."""

    OWN_ERROR = "uncaught exception"
    CHILD_KILLED = "child killed"  # a process that the program had started got SIGKILL
    DISK_ERROR = "input/output error"  # EIO: a disk, or a mount
    STOPPED = "asked to stop"  # SIGTERM or SIGINT: who sent it is not known
    PEER_LOST = "peer lost"  # another process or rank went away first
    # one that fetches something: its fault, the network's, or a server's
    COMMAND_FAILED = "command failed"
    MOUNT_LOST = "mount lost"  # what provided a mount went away
    # full or read-only: the job's own limit, its share, or the node's disk
    STORAGE = "storage refused"


class LogEnding(NamedTuple):
    """`first` matches the line with which the message begins, `following` every line after it;
    None: any line that does not show that the program went on. `before`: a line before it has to
    match. `words` None: its code or signal decides."""

    first: re.Pattern[str]
    following: re.Pattern[str] | None
    words: LogEndingKind | None
    name: str
    before: re.Pattern[str] | None = None


# The shell and the launcher that started the process.
_AFTER = (
    r"\s*$|-+$|.*\(core dumped\)|Aborted$|exit status \d+$|make: \*\*\*|\+ "
    r"|.*torch/distributed/elastic/multiprocessing/"
)


def _ending(
    first: str,
    following: str | None,
    words: LogEndingKind | None,
    name: str,
    before: str | None = None,
) -> LogEnding:
    after = (
        None if following is None else re.compile(f"{_AFTER}|{following}" if following else _AFTER)
    )
    return LogEnding(re.compile(first), after, words, name, re.compile(before) if before else None)


_OWN, _ANY, _NOTHING = LogEndingKind.OWN_ERROR, None, ""
_IN_SHELL = r"(?:\S+: line \d+: +\d+ )?"
_SIGNALS = "Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception"
_MPI = r"(?:mpirun|mpiexec(?:\.\w+)?|prterun|orterun|prun)"
_BY_MPI = "an error that mpirun reports"
# The first row that fits decides, so those that explain others come first.
ENDINGS = (
    # deepspeed/launcher/launch.py reports the first of its processes that failed, in its last line
    _ending(
        r"\[[\d ,:-]+\] \[\w+\] \[launch\.py:\d+:sigkill_handler\] "
        r".* exits with return code = (?P<code>-?\d{1,3})$",
        _NOTHING,
        None,
        "an error that DeepSpeed's launcher reports",
    ),
    # libstdc++: std::terminate; PyTorch adds frames
    _ending(
        r"terminate called "
        r"(?:after throwing an instance of '(?P<name>[\w:]+)'|without an active exception)",
        r"\s|Exception raised from |frame #\d|terminate (?:called )?recursively|.*ProcessGroupNCCL",
        _OWN,
        "an exception of C++",
    ),
    # CPython: Python/pylifecycle.c, faulthandler
    _ending(
        r"Fatal Python error: ",
        r"\s|Current thread |Thread 0x|Python runtime state|Extension modules"
        r"|<no Python frame>|Segmentation fault$",
        _OWN,
        "a fatal error of Python",
    ),
    # glog and TensorFlow: `F0000 00:00:00.0 7 a.cc:1] Check failed: ...`,
    # `2026-01-01 00:00:00.0: F tensorflow/...`
    _ending(
        r"(?:F\d{4} [\d:.]+ |[\d-]+ [\d:.]+: F ).*Check fail", r"\s|\*\*\* ", _OWN, "a failed check"
    ),
    # AzureML runs R too (microsoft/MLOpsPython 336)
    _ending(r"Execution halted$", _NOTHING, _OWN, "an error of R"),
    # what spark-submit prints
    _ending(
        r'Exception in thread "main" ',
        r"\s|Caused by: |Suppressed: |.* INFO ShutdownHookManager",
        _OWN,
        "an exception of Java",
    ),
    # torchrun's agent, without the report that follows
    _ending(
        r".*torch[./]distributed[./]elastic[./]multiprocessing.* failed \(exitcode: (?P<code>-?\d+)\)",
        r".*Sending process|traceback : Signal",
        None,
        "an error that torchrun reports",
    ),
    _ending(
        r".*Signal (?P<signal>\d+) \(SIG\w+\) received by PID \d+",
        r"=+$",
        None,
        "an error that torchrun reports",
    ),
    # Open MPI (orterun, PRRTE) and MPICH's hydra, also in Intel's MPI
    _ending(
        rf"{_MPI} noticed that process rank .* exited on signal (?P<signal>\d+)",
        _NOTHING,
        None,
        _BY_MPI,
    ),
    _ending(
        rf"{_MPI} detected that one or more processes exited with non-zero",
        r"the job to be terminated|\s",
        _OWN,
        _BY_MPI,
    ),
    _ending(r"MPI_ABORT was invoked on rank", _ANY, _OWN, "MPI_Abort"),
    _ending(
        r"(?:ORTE|PRRTE|PRTE) has lost communication with",
        _ANY,
        LogEndingKind.PEER_LOST,
        "a lost daemon",
    ),
    _ending(
        r"=\s+(?:KILLED BY SIGNAL: (?P<signal>\d+)|EXIT CODE: (?P<code>\d+))",
        r"=|YOUR APPLICATION TERMINATED|This typically refers|Please see|Intel\(R\) MPI",
        None,
        _BY_MPI,
    ),
    # the interpreter, its parser, and argparse, which print no traceback
    _ending(r"\S*python[\d.]*: can't open file ", _NOTHING, _OWN, "a program that does not exist"),
    _ending(r"\S*python[\d.]*: No module named", _NOTHING, _OWN, "a module that does not exist"),
    _ending(r"[\w./ -]+: error: ", _NOTHING, _OWN, "a wrong argument", before=r"usage: "),
    _ending(
        r"(?:Syntax|Indentation|Tab)Error: ",
        _NOTHING,
        _OWN,
        "an error of syntax",
        before=r'  File "',
    ),
    # bash and sh
    _ending(rf"{_IN_SHELL}(?:{_SIGNALS})(?: .*)?$", _NOTHING, _OWN, "a signal"),
    _ending(rf"{_IN_SHELL}Killed(?: {{2,}}.*)?$", _NOTHING, LogEndingKind.CHILD_KILLED, "a signal"),
    _ending(rf"{_IN_SHELL}Terminated(?: {{2,}}.*)?$", _NOTHING, LogEndingKind.STOPPED, "a signal"),
    _ending(
        r"\S*sh: (?:line )?\d+: .*(?:not found|Permission denied|No such file or directory)$",
        _NOTHING,
        _OWN,
        "a command that cannot be run",
    ),
    # what fetches packages and files; pip adds a notice about its version
    _ending(
        r"ERROR: (?:No matching distribution|Could not find a version"
        r"|ResolutionImpossible|Could not open req)",
        r"\[notice\]|WARNING: |ERROR: |For help visit",
        _OWN,
        "a package that does not exist",
    ),
    _ending(
        r"curl: \(\d+\) |wget: |fatal: |E: ",
        r"\[notice\]|WARNING: ",
        LogEndingKind.COMMAND_FAILED,
        "a command",
    ),
    # Lightning's signal connector, torchrun's agent
    _ending(
        r"(?:\[rank: \d+\] )?Received SIGTERM: 15",
        r".*Received SIGTERM",
        LogEndingKind.STOPPED,
        "a signal",
    ),
    _ending(
        r".*Received (?:Signals\.SIGTERM|15|2) death signal",
        r".*Sending process",
        LogEndingKind.STOPPED,
        "a signal",
    ),
)
# Every such log has one of these in its last bytes, and most others have none.
LAUNCH_MARK = b"gkill_handler]"
MARKS = (
    b"terminate ",
    b"Fatal Python",
    b"Check fail",
    b"\tat ",
    b"ERROR: ",
    b"curl: (",
    b"wget: ",
    b"fatal: ",
    b"\nE: ",
    b"tion in thread",
    b"Execution halted",
    b"core dumped",
    b"tion fault",
    b"Bus error",
    b"Aborted",
    b"mpirun ",
    b"mpiexec",
    b"prterun ",
    b"MPI_ABORT",
    b"KILLED BY SIGNAL",
    b"EXIT CODE: ",
    b"can't open file",
    b"No module named",
    b": error: ",
    b"xError: ",
    b"nError: ",
    b"bError: ",
    b"Killed",
    b"Terminated",
    b"sh: ",
    b"SIGTERM: 15",
    b"death signal",
    b"(exitcode: ",
    b"received by PID",
)
MARKS_BYTES = 600
_MOST_LINES = 200
# The watchdog of a process ends it because of a peer, with SIGABRT.
LOST_PEER = re.compile(
    r"ProcessGroupNCCL|Watchdog caught collective"
    r"|Dist(?:Backend|Network|Store)Error|ncclRemoteError"
)


def has_mark(tail: bytes) -> bool:
    """Whether the last bytes of a log may have such an ending."""
    last = tail[-MARKS_BYTES:]
    return LAUNCH_MARK in last or any(mark in last for mark in MARKS)


def ending(lines: list[str], goes_on: re.Pattern[str]) -> tuple[LogEndingKind, str] | None:
    """What the last lines say; None if they are not the end of a process."""
    for row in ENDINGS:
        for at in range(len(lines) - 1, max(len(lines) - _MOST_LINES, -1), -1):
            match = row.first.match(lines[at])
            if match is None:
                continue
            if row.before and not any(map(row.before.match, lines[max(at - 30, 0) : at])):
                break
            after = lines[at + 1 :]
            if row.following is None and any(map(goes_on.search, after)):
                break
            if row.following is not None and not all(map(row.following.match, after)):
                break
            answer = _meaning(row, match)
            if (
                answer
                and answer[0] is LogEndingKind.OWN_ERROR
                and any(map(LOST_PEER.search, lines[-_MOST_LINES:]))
            ):
                return LogEndingKind.PEER_LOST, row.name
            return answer
    return None


def _meaning(row: LogEnding, match: re.Match[str]) -> tuple[LogEndingKind, str] | None:
    if row.words is not None:
        return row.words, row.name
    parts = match.groupdict()
    if parts.get("signal"):
        return code_ending(-int(parts["signal"]), row.name)
    code = int(parts.get("code") or 0)
    # a shell adds 128 to the signal
    return code_ending(128 - code if 128 < code < 160 else code, row.name)


def code_ending(code: int, name: str) -> tuple[LogEndingKind, str] | None:
    """From the exit code of a process; a signal is negative."""
    if code in (-15, -2):
        return LogEndingKind.STOPPED, name
    if code == -9:
        return LogEndingKind.CHILD_KILLED, name
    return (LogEndingKind.OWN_ERROR, name) if code else None
