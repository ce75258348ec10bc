"""The processes of one agent: standbys that wait, and ranks that run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
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


@dataclass(eq=False)
class RankProcess:
    """A standby (`rank` is None), or a rank of a generation."""

    process: subprocess.Popen[bytes]
    commands: int  # the end of the pipe that it reads
    answers: int  # the end of the pipe that it writes
    end: int  # readable when the process has ended
    rank: int | None = None
    generation: int = -1
    size: int = 0  # of its generation
    is_ready: bool = False
    notice: NoticeFile | None = None
    code: int | None = None
    is_asked_by: str = ""  # the notice for which it was asked to end
    buffers: dict[int, bytes] = field(default_factory=dict)

    @property
    def output(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def lines(self, handle: int) -> list[bytes] | None:
        """What arrived on a pipe, in whole lines; None at its end."""
        try:
            data = os.read(handle, 1 << 16)
        except OSError:
            return None
        rest = self.buffers.pop(handle, b"")
        if not data:
            return [rest] if rest else None
        *lines, rest = (rest + data).split(b"\n")
        self.buffers[handle] = rest
        return lines

    def run(self, generation: int, rank: int, job: dict[str, Any], folder: Path) -> None:
        """Become a rank. `BrokenPipeError` if the process has ended."""
        self.generation, self.rank = generation, rank
        self.size = int(job["environment"]["WORLD_SIZE"])
        self.notice = NoticeFile(folder / f"notice-{generation}-{rank}")
        job["environment"][VARIABLE] = self.notice.path
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
        """Ask it to save and to end: by the notice file if it reads it, by one SIGTERM otherwise."""
        if self.notice is None:
            return
        if self.takes_part:
            self.notice.write(notice)
        elif self.is_asked_by != notice.id:
            self.kill(signal.SIGTERM)
        self.is_asked_by = notice.id

    def kill(self, number: int = signal.SIGKILL) -> None:
        """A signal to it and to everything that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        for handle in (self.commands, self.answers, self.end):
            with contextlib.suppress(OSError):
                os.close(handle)
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_standby(folder: Path, modules: list[str], environment: dict[str, str]) -> RankProcess:
    """A process that imports the modules and waits."""
    their_commands, commands = os.pipe()
    answers, their_answers = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "arc_toolkit.elastic.standby", str(their_commands), str(their_answers)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env={**os.environ, **environment},
        pass_fds=(their_commands, their_answers),
        start_new_session=True,
    )
    os.close(their_commands)
    os.close(their_answers)
    os.write(commands, json.dumps({"modules": modules}).encode() + b"\n")
    os.set_blocking(answers, False)
    os.set_blocking(process.stdout.fileno(), False)  # type: ignore[union-attr]
    return RankProcess(process, commands, answers, os.pidfd_open(process.pid))
