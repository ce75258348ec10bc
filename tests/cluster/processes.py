"""Server processes of the tests: on free loopback ports, logged to files, and stopped for certain."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on; held together so that all differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _die_with_parent() -> None:
    # Also after kill -9 of the test run: the kernel ends the child then.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """One child process. Its own session, so that Ctrl-C reaches pytest only, which then stops it in order."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.name = Path(command[0]).name
        self.log = log
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool], seconds: float = 60) -> None:
        """Return when it is ready; fail with the end of its log when it ended or takes too long."""
        end = time.monotonic() + seconds
        while not ready():
            if self._process.poll() is not None or time.monotonic() > end:
                state = "ended" if self._process.poll() is not None else "is not ready"
                tail = self.log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{self.name} {state}; its log ends with:\n{tail}")
            time.sleep(0.05)

    def stop(self, signal_number: int = signal.SIGTERM, seconds: float = 15) -> None:
        """End it and wait until it is gone."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal_number)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
