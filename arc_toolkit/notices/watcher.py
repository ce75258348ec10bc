"""Ask the sources in the background, and remember what they announced."""

from __future__ import annotations

import threading
import time

from arc_toolkit.notices.metadata import SourceTrouble
from arc_toolkit.notices.notice import Notice, earliest
from arc_toolkit.notices.sources import CLOUDS, cloud_source, find_cloud
from arc_toolkit.notices.sources.notice_file import NoticeFile, notice_file
from arc_toolkit.stderr import say

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from arc_toolkit.notices.sources import NoticeSource


class Watcher:
    """The notices of several sources. Every source has its own thread, because one may hang."""

    def __init__(
        self, sources: Sequence[NoticeSource], *, report: Callable[[str], None] | None = None
    ) -> None:
        self._sources = tuple(sources)
        self._report = report or say
        self._notices: dict[int, list[Notice]] = {}  # by the place of the source
        self._late: set[str] = set()
        self._callbacks: list[Callable[[Notice], None]] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> Watcher:
        for place, source in enumerate(self._sources):
            name = f"notices-{source.name}"
            threading.Thread(
                target=self._watch, args=(place, source), name=name, daemon=True
            ).start()
        return self

    def stop(self) -> None:
        self._stopped.set()

    @property
    def has_answer(self) -> bool:
        """Whether every source has answered: before that, having no notice proves nothing."""
        with self._lock:
            return len(self._notices) == len(self._sources)

    @property
    def notices(self) -> list[Notice]:
        """Everything that is announced now, also what does not end the process."""
        with self._lock:
            return [notice for notices in self._notices.values() for notice in notices]

    @property
    def notice(self) -> Notice | None:
        """The one that leaves the least time to this process."""
        return earliest(self.notices)

    @property
    def deadline(self) -> float | None:
        """When the process ends, as of `time.time()`; None without a notice or a known time."""
        notice = self.notice
        return notice.deadline if notice is not None else None

    def pending(self) -> bool:
        """Whether the end of this process is announced, and not withdrawn."""
        return self.notice is not None

    def on_notice(self, callback: Callable[[Notice], None]) -> None:
        """Call this with every new notice, in the thread of its source."""
        self._callbacks.append(callback)

    def _watch(self, place: int, source: NoticeSource) -> None:
        is_in_trouble, reported = False, set[str]()
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                self._update(place, source.poll())
                if is_in_trouble:
                    self._report(f"notices: {source.name} answers again")
                is_in_trouble = False
            except SourceTrouble as trouble:
                # What was announced holds until an answer takes it back.
                if trouble.blocked and not is_in_trouble:
                    self._report(
                        f"notices: {trouble}: evictions will not be noticed while that is so"
                    )
                    is_in_trouble = True
                elif not trouble.blocked and str(trouble) not in reported and len(reported) < 10:
                    self._report(f"notices: {trouble}")
                    reported.add(str(trouble))
            except Exception as error:  # the training run must not end because of this
                if not is_in_trouble:
                    self._report(
                        f"notices: {source.name} failed "
                        f"({type(error).__name__}: {error}); trying again"
                    )
                is_in_trouble = True
            # Whatever happened: a notice leaves 30 seconds, and none of them is for a pause.
            self._stopped.wait(max(0.0, began + source.period - time.monotonic()))

    def _update(self, place: int, notices: list[Notice]) -> None:
        with self._lock:
            before = self._notices.get(place, [])
            # An equal notice is the same one: it knows how much time was left at first.
            former = {_facts(notice): notice for notice in before}
            notices = [former.get(_facts(notice), notice) for notice in notices]
            known_ids, listed = {notice.id for notice in before}, {notice.id for notice in notices}
            # A deadline in the past is when the eviction may begin: there may still be time.
            self._late |= {
                notice.id
                for notice in notices
                if notice.id not in known_ids and notice.seconds_left() == 0
            }
            for notice in notices:
                notice.deadline = None if notice.id in self._late else notice.deadline
            self._notices[place] = notices
        for notice in before:
            if notice.id not in listed:
                self._report(
                    f"notices: {notice.kind.value} of {notice.source} is not announced any more"
                )
        for notice in notices:
            if notice.id in known_ids:
                continue
            self._report(
                f"notices: {notice.source} announces {notice.kind.value}{_time_text(notice)}"
            )
            for callback in self._callbacks:
                try:
                    callback(notice)
                except Exception as error:
                    self._report(f"notices: a callback failed ({type(error).__name__}: {error})")


def watch(
    cloud: str = "auto",
    *,
    file: str | os.PathLike[str] | None = None,
    sigterm: bool = False,
    endpoint: str | None = None,
    report: Callable[[str], None] | None = None,
) -> Watcher:
    """Watch the notices of this machine in the background.

    `cloud`: `auto` asks the firmware; `none` for no metadata service. A process under `arc-toolkit
    run` watches the supervisor's file instead of asking again. `sigterm=True` takes SIGTERM for a
    notice: the process then has to end by itself.
    """
    if cloud not in ("auto", "none", *CLOUDS):
        raise ValueError(f"cloud {cloud!r}: use auto, none, {', '.join(CLOUDS)}")
    sources: list[NoticeSource] = []
    supervised = notice_file()
    if supervised is not None:
        sources.append(supervised)
    elif (name := find_cloud() if cloud == "auto" else cloud) in CLOUDS:
        sources.append(cloud_source(name, endpoint))
    if file is not None:
        sources.append(NoticeFile(file))
    if sigterm:
        from arc_toolkit.notices.sources.sigterm import Sigterm

        sources.append(Sigterm())
    return Watcher(sources, report=report).start()


def _facts(notice: Notice) -> tuple[object, ...]:
    return notice.id, notice.kind, notice.deadline, notice.step, notice.agreed


def _time_text(notice: Notice) -> str:
    seconds = notice.seconds_left()
    return ", at any moment" if seconds is None else f" in {seconds:.0f} s"
