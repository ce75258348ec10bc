"""SIGTERM as a notice: Kubernetes sends it at the start of the grace period.

The handler only notes the time, so the process goes on and has to end by itself.
"""

from __future__ import annotations

import signal
import time

from arc_toolkit.notices.notice import Notice, NoticeKind

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from types import FrameType

# Kubernetes' default is 30 s, of which some go to noticing and to the end itself.
GRACE_SECONDS = 25.0


class Sigterm:
    """Takes over SIGTERM of this process (main thread only); a handler that was there is called as well."""

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
