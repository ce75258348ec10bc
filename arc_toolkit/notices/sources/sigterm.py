"""SIGTERM as a notice: Kubernetes sends it at the start of the grace period.

The handler only notes the time, so the process goes on and has to end by itself.
"""

from __future__ import annotations

import signal
import time

from arc_toolkit.notices.notice import Notice, NoticeKind

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Set
    from types import FrameType


# Kubernetes' default is 30 s, of which some go to noticing and to the end itself.
GRACE_SECONDS = 25.0


class Sigterm:
    """Takes over SIGTERM of this process (main thread only), and calls a former handler too."""

    name = "sigterm"
    period = 1.0

    def __init__(self, grace: float = GRACE_SECONDS) -> None:
        self._grace = grace
        self._received: float | None = None
        self._before = signal.signal(signal.SIGTERM, self._handle)

    def poll(self) -> list[Notice]:
        if self._received is None:
            return []
        deadline = self._received + self._grace
        return [
            Notice(
                NoticeKind.STOP,
                self.name,
                "sigterm",
                deadline=deadline,
                description="SIGTERM was received",
            )
        ]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._received = self._received or time.time()
        if callable(self._before):
            self._before(number, frame)


def wait_for_signal(numbers: Set[int], seconds: float) -> int | None:
    """The signal of these that came first; None if there was none in this time.

    If the process was stopped and continued (Ctrl-Z and `fg`, a paused container) and the time is
    over by then, CPython 3.11 to 3.14 gives what was in memory by chance instead of None.
    """
    info = signal.sigtimedwait(numbers, seconds)
    return info.si_signo if info is not None and info.si_signo in numbers else None
