"""Once per node: on a notice it drains the node, and undoes that if it is withdrawn."""

from __future__ import annotations

import signal
import time

from arc_toolkit.errors import ArcError
from arc_toolkit.notices.run_log import run_line
from arc_toolkit.notices.sources.sigterm import wait_for_signal
from arc_toolkit.notices.watcher import Watcher
from arc_toolkit.stderr import say

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    class PodOutcome(Protocol):
        """What became of a pod."""

        @property
        def problem(self) -> str: ...

    class Drain(Protocol):
        """What can be done with a node; see `cluster/drain.py`."""

        def is_cordoned(self) -> bool: ...
        def cordon(self, id: str) -> None: ...
        def uncordon(self) -> bool: ...
        def evict(
            self, deadline: float, say: Callable[[str], None], go_on: Callable[[], bool]
        ) -> Sequence[PodOutcome]: ...


_STOPS = frozenset({signal.SIGTERM, signal.SIGINT})
_TICK = 0.2
_RETRY_SECONDS = 2.0


class NodeAgent:
    """Watches until it is stopped. Trouble with the API server is reported and tried again."""

    def __init__(self, drain: Drain, watcher: Watcher, *, node: str, grace: float) -> None:
        self._drain, self._watcher = drain, watcher
        self._node, self._grace = node, grace
        self._drained = ""  # the notice for which the node was drained
        # By us; not known at first, because the machine may have been restarted.
        self._is_cordoned: bool | None = None
        self._retry = 0.0

    def run(self) -> int:
        """0 after SIGTERM or SIGINT."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        self._watcher.start()
        say(run_line("start", node=self._node, command="drain-node"))
        try:
            while wait_for_signal(_STOPS, _TICK) is None:
                if time.monotonic() >= self._retry:
                    self._act()
            return 0
        finally:
            self._watcher.stop()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _act(self) -> None:
        notice = self._watcher.notice
        try:
            if self._is_cordoned is None:
                self._is_cordoned = self._drain.is_cordoned()
            if notice is not None and notice.id != self._drained:
                say(
                    run_line(
                        "notice", kind=notice.kind.value, source=notice.source, node=self._node
                    )
                )
                self._drain.cordon(notice.id)
                self._is_cordoned = True
                deadline = (
                    notice.deadline if notice.deadline is not None else time.time() + self._grace
                )
                outcomes = self._drain.evict(
                    deadline, lambda text: say(f"arc-toolkit: {text}"), self._is_wanted
                )
                self._drained = notice.id
                say(
                    run_line(
                        "drained",
                        node=self._node,
                        pods=sum(not outcome.problem for outcome in outcomes),
                    )
                )
            elif notice is None and self._is_cordoned and self._watcher.has_answer:
                if self._drain.uncordon():
                    say(run_line("withdrawn", node=self._node))
                self._drained, self._is_cordoned = "", False
        except ArcError as error:
            say(f"arc-toolkit: {error}")
            self._retry = time.monotonic() + _RETRY_SECONDS

    def _is_wanted(self) -> bool:
        """Pods may take minutes; until then the notice may be withdrawn or this process stopped."""
        return self._watcher.pending() and not signal.sigpending() & _STOPS
