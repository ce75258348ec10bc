"""Wait for a signal that is blocked."""

from __future__ import annotations

import signal

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Set


def wait_for_signal(numbers: Set[int], seconds: float) -> int | None:
    """The signal of these that came first; None if there was none in this time.

    If the process was stopped and continued (Ctrl-Z and `fg`, a paused container) and the time is over by then, CPython
    3.11 to 3.14 gives what was in memory by chance instead of None.
    """
    info = signal.sigtimedwait(numbers, seconds)
    return info.si_signo if info is not None and info.si_signo in numbers else None
