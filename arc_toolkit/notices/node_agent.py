"""What runs once per node: on a notice it drains the node, and undoes that if the notice is withdrawn."""

from __future__ import annotations

import signal
import sys
import time

from arc_toolkit.errors import ArcError
from arc_toolkit.notices.run_log import run_line
from arc_toolkit.notices.watcher import Watcher

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    class Drain(Protocol):
        """What can be done with a node; see `cluster/drain.py`."""

        def cordon(self, id: str) -> None: ...
        def uncordon(self) -> bool: ...
        def evict(self, deadline: float, say: Callable[[str], None]) -> Sequence[object]: ...


_STOPS = {signal.SIGTERM, signal.SIGINT}
_TICK = 0.2
_RETRY_SECONDS = 2.0


class NodeAgent:
    """Watches until it is stopped. Trouble with the API server is reported and tried again."""

    def __init__(self, drain: Drain, watcher: Watcher, *, node: str, grace: float) -> None:
        self._drain, self._watcher = drain, watcher
        self._node, self._grace = node, grace
        self._drained = ""  # the notice for which the node was drained
        self._retry = 0.0

    def run(self) -> int:
        """0 after SIGTERM or SIGINT."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        self._watcher.start()
        _say(run_line("start", node=self._node, command="drain-node"))
        try:
            while signal.sigtimedwait(_STOPS, _TICK) is None:
                if time.monotonic() >= self._retry:
                    self._act()
            return 0
        finally:
            self._watcher.stop()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _act(self) -> None:
        notice = self._watcher.notice
        try:
            if notice is not None and notice.id != self._drained:
                _say(run_line("notice", kind=notice.kind.value, source=notice.source, node=self._node))
                self._drain.cordon(notice.id)
                deadline = notice.deadline if notice.deadline is not None else time.time() + self._grace
                evicted = self._drain.evict(deadline, lambda text: _say(f"arc-toolkit: {text}"))
                self._drained = notice.id
                _say(run_line("drained", node=self._node, pods=len(evicted)))
            elif notice is None and self._drained:
                if self._drain.uncordon():
                    _say(run_line("withdrawn", node=self._node))
                self._drained = ""
        except ArcError as error:
            _say(f"arc-toolkit: {error}")
            self._retry = time.monotonic() + _RETRY_SECONDS


def _say(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        return  # nobody reads it any more
