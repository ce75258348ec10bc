"""The processes of one agent: standbys that wait, and ranks that run."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arc_toolkit.notices.notice import Notice
from arc_toolkit.notices.sources.notice_file import (
    VARIABLE,
    NoticeFile,
    ProgressRecord,
    read_progress,
    takes_part,
)

_END_SECONDS = 5.0


@dataclass(eq=False)
class RankProcess:
    """A standby (`rank` is None), or a rank of a generation. The handles are our ends of pipes."""

    commands: int  # it reads what to run
    answers: int  # it writes that it is ready, and its exit code
    output: int
    life: int  # the maker writes its process ID, and its exit code
    pid: int | None = None  # not known yet
    rank: int | None = None
    generation: int = -1
    size: int = 0  # of its generation
    is_ready: bool = False
    notice: NoticeFile | None = None
    code: int | None = None
    is_asked_by: str = ""  # the notice for which it was asked to end
    signals: list[int] = field(default_factory=list)  # for a process that is not there yet
    buffers: dict[int, bytes] = field(default_factory=dict)

    @property
    def handles(self) -> tuple[int, ...]:
        return self.answers, self.output, self.life

    def lines(self, handle: int) -> list[bytes] | None:
        """What arrived on a pipe, in whole lines; None at its end."""
        try:
            data = os.read(handle, 1 << 16)
        except OSError:
            return None
        pending = self.buffers.pop(handle, b"")
        if not data:
            return [pending] if pending else None
        *lines, pending = (pending + data).split(b"\n")
        self.buffers[handle] = pending
        return lines

    def run(self, generation: int, rank: int, job: dict[str, Any], folder: Path) -> None:
        """Become a rank. `BrokenPipeError` if the process has ended."""
        self.generation, self.rank = generation, rank
        self.size = int(job["environment"]["WORLD_SIZE"])
        self.notice = NoticeFile(folder / f"notice-{generation}-{rank}")
        job["environment"][VARIABLE] = self.notice.path
        saves = job["environment"].get("ADAPTDL_CHECKPOINT_PATH", "")
        if saves and "://" not in saves:  # AdaptDL's library expects the folder
            with contextlib.suppress(OSError):
                os.makedirs(saves, exist_ok=True)
        os.write(self.commands, json.dumps(job).encode() + b"\n")

    @property
    def progress(self) -> ProgressRecord | None:
        """How far it is; None if the script does not say."""
        return read_progress(self.notice.path) if self.notice is not None else None

    @property
    def takes_part(self) -> bool:
        """Whether the script reports its steps, even if it has done none yet."""
        return self.notice is not None and takes_part(self.notice.path)

    def stop(self, notice: Notice) -> None:
        """Ask it to save and to end: by the notice file if it reads it, otherwise by SIGTERM."""
        if self.notice is None:
            return
        if self.takes_part:
            self.notice.write(notice)
        elif self.is_asked_by != notice.id:
            self.signal(signal.SIGTERM)
        self.is_asked_by = notice.id

    def kill(self) -> None:
        """End it and everything that it started."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """A request is for it alone, as in a pod: it needs its data loaders to save."""
        if self.pid is None:
            self.signals.append(number)
            return
        send = os.killpg if number == signal.SIGKILL else os.kill
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(self.pid, number)

    def born(self, pid: int) -> None:
        self.pid = pid
        for number in self.signals:
            self.signal(number)

    def close(self) -> None:
        for handle in (self.commands, *self.handles):
            with contextlib.suppress(OSError):
                os.close(handle)


class Template:
    """The process that all standbys of a node come from; see `standby.py`."""

    def __init__(self, folder: Path, modules: list[str], environment: dict[str, str]) -> None:
        self._control, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # What an import prints goes to the log of the node.
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "arc_toolkit.elastic.standby", str(child_socket.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=2,
            cwd=folder,
            env={**os.environ, **environment},
            pass_fds=(child_socket.fileno(),),
            start_new_session=True,
        )
        child_socket.close()
        self._control.send(json.dumps(modules).encode())
        self.is_warm = False
        self.forks = False  # a standby costs no import

    def fileno(self) -> int:
        return self._control.fileno()

    def start_standby(self) -> RankProcess:
        """It comes when the template has imported everything. `OSError` if the template is gone."""
        their_commands, commands = os.pipe()
        answers, their_answers = os.pipe()
        output, their_output = os.pipe()
        life, their_life = os.pipe()
        child_handles = [their_commands, their_answers, their_output, their_life]
        process = RankProcess(commands, answers, output, life)
        try:
            socket.send_fds(self._control, [b"standby"], child_handles)
        except OSError:
            process.close()
            raise
        finally:
            for handle in child_handles:
                os.close(handle)
        for handle in process.handles:
            os.set_blocking(handle, False)
        return process

    def receive(self) -> bool:
        """Read what it says; False if it is gone."""
        try:
            word = self._control.recv(16)
        except OSError:
            return False
        self.is_warm, self.forks = bool(word), word == b"forks"
        return self.is_warm

    def close(self) -> int:
        """End it, and all processes that came from it."""
        # Before it says that it is warm, nothing came from it, and it does not listen.
        if not self.is_warm and not (
            select.select([self._control], [], [], 0)[0] and self.receive()
        ):
            self._process.kill()
        self._control.close()
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
