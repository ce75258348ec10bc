"""Run one process: announce evictions, wait for its save, end it, report by exit code.

143 means evicted and resumable; every other code is that of the process. A process takes part if it
uses `arc_toolkit.checkpoints` (it then writes its step beside the notice file), or if the caller
says how to notify it. Any other gets SIGTERM at once, which is what frameworks with a handler of
their own expect.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import suppress

from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import reason
from arc_toolkit.notices.notice import EVICTED_EXIT_CODE, Notice, NoticeKind, earliest
from arc_toolkit.notices.run_log import run_line, utc
from arc_toolkit.notices.sources.notice_file import (
    VARIABLE,
    NoticeFile,
    clear_progress,
    read_progress,
    read_saved,
    takes_part,
)
from arc_toolkit.notices.sources.sigterm import wait_for_signal
from arc_toolkit.notices.watcher import Watcher
from arc_toolkit.stderr import say

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Not passed on: what nobody can catch, what the kernel sends for a fault of `run` itself, and what
# stops a job of a terminal, which reaches the process too.
_OWN = {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGPIPE,
    signal.SIGXFSZ,
}
_FAULTS = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGSYS,
    signal.SIGABRT,
}
_WAITED = frozenset(signal.valid_signals()) - _OWN - _FAULTS
_TICK = 0.2
# SIGTERM and SIGKILL before the deadline: log and exit code must leave the machine.
_LAST_SECONDS = 3.0
_KILL_SECONDS = 1.0
# After its save a process may end by itself.
_AFTER_SAVE_SECONDS = 2.0
_LONGEST_PAUSE = 30.0
_SAME_SECONDS = 1.5
# Processes that wait for a disk or a driver end only then.
_ORPHAN_SECONDS = 10.0
_ORPHAN_LOOK_SECONDS = 0.01
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class Supervisor:
    """One command, restarted within a budget. `saved`: the newest checkpoint's step since then."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        watcher: Watcher,
        folder: str,
        grace: float = 25.0,
        max_restarts: int = 0,
        notify_signal: int | None = None,
        cooperative: bool = False,
        saved: Callable[[float], int | None] = lambda since: None,
        node: str = "",
        environment: dict[str, str] | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._command = list(command)
        self._watcher, self._file = watcher, NoticeFile(os.path.join(folder, "notice"))
        self._grace, self._budget = grace, max_restarts
        self._notify_signal, self._cooperative = (
            notify_signal,
            cooperative or notify_signal is not None,
        )
        self._saved, self._node = saved, node or os.uname().nodename
        self._log = log or say
        self._environment = environment or {}
        self._restarts = 0
        self._child = 0
        self._former_children: set[int] = set()
        # On a terminal the process stays in our group, so that Ctrl-C and Ctrl-Z reach it.
        self._own_group = not _is_on_terminal()
        self._stop: Notice | None = None  # SIGTERM to this process
        self._interrupted = False
        self._notified: Notice | None = None
        self._notified_at_wall = 0.0  # as of the clock on the wall, like the times of checkpoints
        # the same and all others as of the monotonic clock, which nobody sets
        self._notified_at = 0.0
        self._deadline = 0.0  # of that notice
        self._saved_at: float | None = None
        self._saved_before: int | None = None
        self._signalled: signal.Signals | None = None

    def run(self) -> int:
        """Until the process has ended for good; its exit code, or 143."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
        # Of a script that began with other processes and ended with `exec arc-toolkit run`.
        self._former_children = _child_processes()
        _adopt_orphans()
        self._watcher.start()
        try:
            while True:
                code = self._run_once()
                result = self._result(code)
                if result is not None:
                    return result
                if (result := self._pause()) is not None:
                    return result
        finally:
            self._watcher.stop()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    # --- one process ------------------------------------------------------------------------------

    def _run_once(self) -> int:
        self._notified, self._saved_at, self._signalled = None, None, None
        self._file.withdraw()
        clear_progress(self._file.path)
        self._start()
        while (code := self._reap()) is None:
            self._handle_notice()
            self._take_signal(_TICK)
        self._end_orphans()
        return code

    def _end_orphans(self) -> None:
        """What the process left running would hold the GPU and the port of the next one. All of it
        is, or becomes, a child of this process: see `_adopt_orphans`."""
        if self._own_group:
            self._kill(signal.SIGKILL)
        end = time.monotonic() + _ORPHAN_SECONDS
        while orphans := _child_processes() - self._former_children:
            for pid in orphans:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            if time.monotonic() > end:
                numbers = ",".join(map(str, sorted(orphans)))
                self._log(run_line("trouble", message=f"processes do not end: {numbers}"))
                return
            time.sleep(_ORPHAN_LOOK_SECONDS)

    def _start(self) -> None:
        environment = {
            **os.environ,
            **self._environment,
            VARIABLE: self._file.path,
            "ARC_TOOLKIT_RESTARTS": str(self._restarts),
        }
        group = 0 if self._own_group else os.getpgrp()
        try:
            self._child = os.posix_spawnp(
                self._command[0],
                self._command,
                environment,
                setpgroup=group,
                setsigmask=(),
                setsigdef=(
                    signal.SIGPIPE,
                    signal.SIGXFSZ,
                ),  # Python ignores them; the process has the usual way
            )
        except OSError as error:
            raise ArcError(f"cannot run {self._command[0]}: {reason(error)}") from None
        name = os.path.basename(self._command[0])
        self._log(
            run_line(
                "start", node=self._node, pid=self._child, restart=self._restarts, command=name
            )
        )

    def _reap(self) -> int | None:
        """The exit code of the process once it has ended. PID 1 also collects orphans."""
        code = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return code
            if pid == 0:
                return code
            if pid == self._child:
                ended = os.waitstatus_to_exitcode(status)
                code = ended if ended >= 0 else 128 - ended

    def _take_signal(self, seconds: float) -> None:
        """Wait for a signal; what another program sends goes on to the process."""
        number = wait_for_signal(_WAITED, seconds)
        if number is None or number == signal.SIGCHLD:
            return
        if number == signal.SIGTERM:
            if self._stop is None:
                deadline = time.time() + self._grace
                self._stop = Notice(NoticeKind.STOP, "sigterm", "sigterm", deadline=deadline)
        elif number == signal.SIGINT:
            self._interrupted = True
            if self._own_group:
                self._kill(signal.SIGINT)
        else:
            self._kill(number)

    def _kill(self, number: int) -> None:
        """A signal to the process, and to all that it started if it has its own group."""
        try:
            if self._own_group:
                os.killpg(self._child, number)
            else:
                os.kill(self._child, number)
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.EPERM):
                raise

    # --- notices ----------------------------------------------------------------------------------

    def _handle_notice(self) -> None:
        notice = earliest([*self._watcher.notices, *([self._stop] if self._stop else [])])
        if self._notified is None:
            if notice is not None:
                self._notified_at_wall, self._notified_at = time.time(), time.monotonic()
                self._saved_before = read_saved(self._file.path)
                self._announce(notice)
                self._notify()
        elif notice is None and self._signalled is None:
            self._log(
                run_line("withdrawn", kind=self._notified.kind.value, source=self._notified.source)
            )
            self._file.withdraw()
            self._notified = None
        else:
            # A second one leaves less time. The time of the same one is not known to the second.
            if notice is not None and self._deadline_of(notice) < self._deadline - _SAME_SECONDS:
                self._announce(notice)
            self._end_in_time()

    def _deadline_of(self, notice: Notice) -> float:
        seconds_left = notice.seconds_left()
        return time.monotonic() + (seconds_left if seconds_left is not None else self._grace)

    def _announce(self, notice: Notice) -> None:
        self._notified, self._deadline = notice, self._deadline_of(notice)
        deadline = utc(notice.deadline) if notice.deadline is not None else None
        self._log(
            run_line(
                "notice",
                kind=notice.kind.value,
                source=notice.source,
                deadline=deadline,
                step=self._step(),
            )
        )
        try:
            self._file.write(notice)
        except OSError as error:
            self._log(
                run_line("trouble", message=f"the notice file cannot be written: {reason(error)}")
            )

    def _notify(self) -> None:
        if self._notify_signal is not None:
            self._kill(self._notify_signal)
        elif not self._cooperative and not takes_part(self._file.path):
            self._signal(signal.SIGTERM)

    def _end_in_time(self) -> None:
        """SIGTERM after the save or shortly before the deadline, then SIGKILL."""
        now, end = time.monotonic(), self._deadline
        if self._saved_at is None and (step := self._saved_since_notice()) is not None:
            self._saved_at = now
            self._log(run_line("saved", step=step, seconds=f"{now - self._notified_at:.1f}"))
        is_late = now >= end - _LAST_SECONDS
        is_done = self._saved_at is not None and now >= self._saved_at + _AFTER_SAVE_SECONDS
        if self._signalled is None and (is_late or is_done):
            self._signal(signal.SIGTERM)
        elif self._signalled is signal.SIGTERM and now >= end - _KILL_SECONDS:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        self._signalled = number
        self._log(run_line("signal", name=number.name))
        self._kill(number)

    def _step(self) -> int | None:
        progress = read_progress(self._file.path)
        return progress.step if progress is not None else None

    def _saved_since_notice(self) -> int | None:
        """The step of the save for the notice: as the process says, or as its folder shows."""
        step = read_saved(self._file.path)
        return (
            step if step not in (None, self._saved_before) else self._saved(self._notified_at_wall)
        )

    # --- what the end means -----------------------------------------------------------------------

    def _result(self, code: int) -> int | None:
        """The exit code of `run`; None if the process is started again."""
        notified, step = self._notified, self._step()
        if (
            notified is not None
            and self._saved_at is None
            and (late := self._saved_since_notice()) is not None
        ):
            self._log(
                run_line("saved", step=late, seconds=f"{time.monotonic() - self._notified_at:.1f}")
            )
        saved_steps = [
            number
            for number in (self._saved(0.0), read_saved(self._file.path))
            if number is not None
        ]
        fields = {"code": code, "step": step, "saved": max(saved_steps, default=None)}
        is_done = code == 0 and self._signalled is None and takes_part(self._file.path)
        if notified is not None and not is_done:
            # Only a process that uses the library says with 0 that it has finished. Of any other,
            # Kubernetes would take a half-trained model for a finished one.
            is_over = self._stop is None and self._watcher.notice is None
            self._log(run_line("end", reason="withdrawn" if is_over else "evicted", **fields))
            return None if is_over else EVICTED_EXIT_CODE
        if code == 0:
            self._log(run_line("end", reason="finished", **fields))
            return 0
        if self._interrupted:
            self._log(run_line("end", reason="interrupted", **fields))
            return 128 + signal.SIGINT
        if code == EVICTED_EXIT_CODE or self._restarts >= self._budget:
            self._log(
                run_line(
                    "end", reason="stopped" if code == EVICTED_EXIT_CODE else "failed", **fields
                )
            )
            return code
        self._restarts += 1
        self._log(
            run_line("end", reason="failed", **fields, restarts_left=self._budget - self._restarts)
        )
        return None

    def _pause(self) -> int | None:
        """Wait before the next start, longer each time; the exit code if an end was announced."""
        until = time.monotonic() + min(2.0 ** max(self._restarts - 1, 0), _LONGEST_PAUSE)
        while time.monotonic() < until:
            self._take_signal(_TICK)
            if self._interrupted:
                self._log(run_line("end", reason="interrupted", step=self._step()))
                return 128 + signal.SIGINT
            if self._stop is not None or self._watcher.pending():
                self._log(run_line("end", reason="evicted", step=self._step()))
                return EVICTED_EXIT_CODE
        return None


def _adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends, whatever its session
    is: torchrun starts each worker in a new one. PID 1 is that anyway."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _child_processes() -> set[int]:
    """Those of this process that have not ended. Empty without /proc."""
    children = set()
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as stream:
                    # after the name of the program, which may have any characters: state, parent
                    state, parent = stream.read().rpartition(b")")[2].split()[:2]
                    if int(parent) == os.getpid() and state not in (b"Z", b"X"):
                        children.add(int(name))
    return children


def _is_on_terminal() -> bool:
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
