"""One save at a time in the background, which can be abandoned."""

from __future__ import annotations

import threading

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PIECE = 16 * 1024 * 1024


class Abandoned(Exception):
    """A save in the background would not be done before the announced end."""


class BackgroundSave:
    """The thread of a save; whatever it raises is raised in the thread that waits for it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stop = threading.Event()

    def start(self, call: Callable[[], None]) -> None:
        """Only after `wait`. Without a thread (too many, or Python is ending) the save is done at once."""
        self._stop.clear()
        thread = threading.Thread(target=self._run, args=(call,), name="checkpoint")
        try:
            thread.start()
        except RuntimeError:
            call()
            return
        self._thread = thread

    def wait(self, timeout: float | None = None) -> bool:
        """Until no save is under way; whether that is so."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return True

    def abandon(self) -> None:
        self._stop.set()

    def write(self, path: Path, content: bytes) -> None:
        """Raises `Abandoned` if the save is not wanted any more."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb", buffering=0) as stream:
            rest = memoryview(content)
            while len(rest):
                if self._stop.is_set():
                    raise Abandoned
                rest = rest[stream.write(rest[:_PIECE]) :]

    def _run(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            self._error = error
