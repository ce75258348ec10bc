"""Why a run does not begin: its checkpoints cannot be read now, or none of them is valid.

The process ends, because to go on would mean a silent start at step 0. These are `SystemExit`s: a
training script that catches every `Exception` does not start anew either.
"""

from __future__ import annotations

import os
import time

from arc_toolkit.durations import parse_seconds

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable

# As in sysexits.h. A supervisor should retry the first one and tell a person about the others.
UNREADABLE_EXIT_CODE = 75  # EX_TEMPFAIL
DAMAGED_EXIT_CODE = 65  # EX_DATAERR
UNUSABLE_EXIT_CODE = 2  # as for any other mistake in the command or the configuration

DEFAULT_PATIENCE = "10m"
_VARIABLE = "ARC_TOOLKIT_CHECKPOINT_PATIENCE"
_LONGEST_PAUSE = 30.0
_LOOK_SECONDS = 0.2
_FIRST_REPORT_SECONDS, _REPORT_SECONDS = 5.0, 10.0


class UnusablePlace(OSError):
    """Nothing can be read at a folder or URL, now or later."""


class StoreUnavailable(SystemExit):
    """The run must not begin; `code` is the exit code of the process."""

    exit_code = UNUSABLE_EXIT_CODE

    def __init__(self, message: str) -> None:
        super().__init__(self.exit_code)
        self.message = message

    def __str__(self) -> str:
        return self.message


class StoreUnusable(StoreUnavailable):
    """A mistake in the configuration: there can be no checkpoint at this place."""


class StoreUnreadable(StoreUnavailable):
    """The checkpoints cannot be read now, or another rank does not answer: worth a retry."""

    exit_code = UNREADABLE_EXIT_CODE


class StoreDamaged(StoreUnavailable):
    """There are checkpoints, and none of them is valid."""

    exit_code = DAMAGED_EXIT_CODE


def patience_seconds(patience: float | str | None) -> float:
    """The argument, or what the environment says, or 10 minutes."""
    value = os.environ.get(_VARIABLE) or DEFAULT_PATIENCE if patience is None else patience
    try:
        return parse_seconds(value) if isinstance(value, str) else float(value)
    except ValueError as error:
        raise ValueError(f"{_VARIABLE if patience is None else 'patience'}: {error}") from None


class Patience:
    """Waits between the attempts of one start, longer each time, up to a limit.

    `check` is called meanwhile, and raises if the process is to end for another reason.
    """

    def __init__(
        self, limit: float, report: Callable[[str], None], check: Callable[[], None]
    ) -> None:
        self.limit, self._report, self._check = limit, report, check
        self._end = time.monotonic() + limit
        self._attempts = 0
        self._next_report = time.monotonic() + _FIRST_REPORT_SECONDS

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def wait(self, problem: str) -> bool:
        """Report the attempt and wait; False if the time is over."""
        self._attempts += 1
        seconds_left = self.seconds_left
        if not seconds_left:
            return False
        pause = min(2.0 ** (self._attempts - 1), _LONGEST_PAUSE, seconds_left)
        self._report(
            f"{problem}; attempt {self._attempts}, next one in {pause:.0f} s, "
            f"giving up in {seconds_left:.0f} s"
        )
        self.sleep(pause)
        return True

    def sleep(self, seconds: float, problem: str = "") -> None:
        """`problem`: what is waited for in many short sleeps; said every ten seconds."""
        if problem and time.monotonic() >= self._next_report:
            self._next_report = time.monotonic() + _REPORT_SECONDS
            self._report(f"{problem}; waiting, giving up in {self.seconds_left:.0f} s")
        end = time.monotonic() + seconds
        while (seconds_left := end - time.monotonic()) > 0:
            self._check()
            time.sleep(min(seconds_left, _LOOK_SECONDS))
