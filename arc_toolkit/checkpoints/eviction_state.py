"""Whether this process is about to end: the notice, and whether a save was made for it."""

from __future__ import annotations

import time
from contextlib import suppress

from arc_toolkit.notices.notice import Notice, NoticeKind
from arc_toolkit.notices.sources.notice_file import StepFile, notice_file

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class NoticeReader(Protocol):
        """Any source of notices: a `notices.Watcher`, or the file of `arc-toolkit run`."""

        @property
        def notice(self) -> Notice | None: ...


_LOOK_SECONDS = 0.005
# Without a notice: a look costs 50 µs after a step that used the processor's caches.
_CALM_SECONDS = 0.05
_RESERVE_SECONDS = 0.5  # of the time that is left, not to be waited for other ranks


class EvictionState:
    """Notices of a reader, of `arc-toolkit run`, and of the training code itself."""

    def __init__(self, notices: NoticeReader | None = None) -> None:
        # Under `arc-toolkit run` the supervisor tells of an end, and wants to know the step.
        supervised = notice_file()
        self._reader: NoticeReader | None = notices or supervised
        self._progress: StepFile | None = None
        if supervised is not None:
            with suppress(OSError):
                self._progress = StepFile(supervised.path)
        self._announced: Notice | None = None
        self._next_look = 0.0  # as of the monotonic clock
        # The notice for which a save was made, so that it is made once.
        self.saved_for: str | None = None

    @property
    def is_watched(self) -> bool:
        """Whether an eviction would be noticed at all."""
        return self._reader is not None

    @property
    def notice(self) -> Notice | None:
        return self._announced or (self._reader.notice if self._reader is not None else None)

    def final_notice(self, step: int) -> Notice | None:
        """The notice after whose save this process ends, at the step that all ranks agreed on."""
        notice = self.notice
        if notice is None or notice.step is None:
            return notice
        return notice if notice.agreed and step >= notice.step else None

    def notice_after(
        self, step: int, fits: Callable[[float], bool], samples: int = 0
    ) -> Notice | None:
        """As `final_notice`, once this step is done; the supervisor learns of the step.

        A rank waits at a proposed step until all others have read of it, or another one is
        proposed: without that, one that has already passed the step would go on alone. It does not
        wait for longer than a save `fits`.
        """
        if self._announced is None and time.monotonic() < self._next_look:
            self._tell_step(step, None, samples)
            return None
        while True:
            notice = self.notice
            self._next_look = time.monotonic() + _CALM_SECONDS if notice is None else 0.0
            self._tell_step(step, notice.step if notice is not None else None, samples)
            samples = 0
            if notice is None or notice.step is None:
                return notice
            if step < notice.step or (step > notice.step and not notice.agreed):
                return None
            seconds_left = notice.seconds_left()
            if notice.agreed or (
                seconds_left is not None and not fits(seconds_left - _RESERVE_SECONDS)
            ):
                notice.agreed = True  # or there is no time left to wait for others
                return notice
            time.sleep(_LOOK_SECONDS)

    def announce(self, seconds: float) -> None:
        deadline = time.time() + seconds
        self._announced = Notice(
            NoticeKind.STOP, "announce", f"announced-{deadline}", deadline=deadline
        )

    def _tell_step(self, step: int, proposal: int | None, samples: int) -> None:
        """For the supervisor, if there is one."""
        if self._progress is not None:
            try:  # noqa: SIM105  (in every step)
                self._progress.write(step, proposal, samples)
            except OSError:
                pass

    def tell_saved(self, step: int) -> None:
        """The same for the step of the newest checkpoint."""
        if self._progress is not None:
            with suppress(OSError):
                self._progress.write_saved(step)
