"""One save at a time in the background, which can be abandoned."""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable

    from arc_toolkit.checkpoints.save_folder import SaveFolder

_PIECE = 16 * 1024 * 1024


class Abandoned(Exception):
    """A save in the background would not be done before the announced end."""


class BackgroundSave:
    """The thread of a save; whatever it raises is raised in the thread that waits for it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """How long the save under way has taken until now."""
        return time.monotonic() - self._began

    def start(self, call: Callable[[], None]) -> None:
        """Only after `wait`. Without a thread (too many, or Python is ending) it saves at once."""
        self._stop.clear()
        self._began = time.monotonic()
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

    def write(self, folder: SaveFolder, name: str, content: bytes) -> None:
        """Raises `Abandoned` if the save is not wanted any more."""
        with folder.stream(name) as stream:
            for start in range(0, len(content), _PIECE):
                if self._stop.is_set():
                    raise Abandoned
                stream.write(memoryview(content)[start : start + _PIECE])

    def _run(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            self._error = error
