"""The temporary folder of an agent. What an agent that was killed left behind is removed by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_PREFIX = "arc-toolkit-agent-"
_LOCK = ".lock"
_YOUNG_SECONDS = 60.0  # its agent may be about to lock it


class AgentFolder:
    """Locked while its process lives, which others can see even from another PID namespace."""

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(root: Path) -> None:
    for path in root.glob(f"{_PREFIX}*"):
        with contextlib.suppress(
            OSError
        ):  # another user's, in use, or just removed by somebody else
            if time.time() - path.stat().st_mtime < _YOUNG_SECONDS:
                continue
            handle = os.open(path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)
