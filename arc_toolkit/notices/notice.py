"""What a notice is: which machine event was announced, by whom, and until when there is time."""

from __future__ import annotations

import enum
import time

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from typing import Any


EVICTED_EXIT_CODE = 143  # "evicted, resumable": 128 + SIGTERM


class NoticeKind(enum.Enum):
    """What was announced. The value is the word in files, logs and JSON."""

    PREEMPT = "preempt"  # a spot or low-priority machine is evicted
    TERMINATE = "terminate"  # the machine is deleted or stopped
    REDEPLOY = "redeploy"  # it moves to another host: processes and the temporary disk are lost
    REBOOT = "reboot"
    FREEZE = "freeze"  # it pauses for some seconds and goes on
    REBALANCE = "rebalance"  # AWS: the risk is higher than usual; nothing is decided yet
    STOP = "stop"  # someone asked the process to stop: SIGTERM, a file, another scheduler

    @property
    def ends_process(self) -> bool:
        """Whether the process will not survive it."""
        return self not in (NoticeKind.FREEZE, NoticeKind.REBALANCE)


class Notice:
    """One announcement. `deadline` is as of `time.time()`, or None: at any moment.

    How much time is left goes by the monotonic clock from the first sight of the notice on: the
    other one may be set right meanwhile.
    """

    __slots__ = ("_end", "agreed", "deadline", "description", "id", "kind", "source", "step")

    def __init__(
        self,
        kind: NoticeKind,
        source: str,
        id: str,
        *,
        deadline: float | None = None,
        description: str = "",
        step: int | None = None,
        agreed: bool = True,
    ) -> None:
        self.kind, self.source, self.id = kind, source, id
        self.deadline, self.description = deadline, description
        self._end = 0.0 if deadline is None else deadline - time.time() + time.monotonic()
        # After which step every rank of an elastic run stops, so that all have the same state.
        # Until all have read of it (`agreed`) the step is a proposal.
        self.step, self.agreed = step, agreed

    def __repr__(self) -> str:
        return (
            f"Notice({self.kind.value} from {self.source}, id={self.id!r}, "
            f"deadline={self.deadline})"
        )

    def seconds_left(self) -> float | None:
        """Until the deadline, at least 0; None if it is not known."""
        return None if self.deadline is None else max(0.0, self._end - time.monotonic())

    def to_json(self) -> dict[str, Any]:
        """The fields of the notice file and of log lines."""
        return {
            "schema": "arc-toolkit/notice/v1",
            "kind": self.kind.value,
            "source": self.source,
            "id": self.id,
            "deadline": self.deadline,
            "description": self.description,
            "step": self.step,
            "agreed": self.agreed,
        }


def earliest(notices: list[Notice]) -> Notice | None:
    """The most urgent notice that ends the process; one without a deadline is first."""
    ending = [notice for notice in notices if notice.kind.ends_process]
    return min(ending, key=lambda notice: notice.seconds_left() or 0.0, default=None)
