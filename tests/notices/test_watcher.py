"""The watcher: what it remembers, says and survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arc_toolkit.notices import Notice, NoticeKind, Watcher, watch
from arc_toolkit.notices.metadata import SourceTrouble
from arc_toolkit.notices.sources.notice_file import VARIABLE
from arc_toolkit.notices.sources.sigterm import Sigterm
from tests.notices.metadata_service import azure_answers, azure_event, metadata_service


class Script:
    """A source that gives one answer after the other, and the last one for ever."""

    name = "script"
    period = 0.01

    def __init__(self, *answers: list[Notice] | Exception) -> None:
        self.answers = list(answers)

    def poll(self) -> list[Notice]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


PREEMPT = Notice(NoticeKind.PREEMPT, "script", "a", deadline=4e9)
SOONER = Notice(NoticeKind.REBOOT, "script", "b", deadline=3e9)
FREEZE = Notice(NoticeKind.FREEZE, "script", "c", deadline=1e9)


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def started() -> Iterator[Callable[..., tuple[Watcher, list[str]]]]:
    watchers = []

    def start(*sources: Script) -> tuple[Watcher, list[str]]:
        said: list[str] = []
        watcher = Watcher(sources, report=said.append)
        watchers.append(watcher)
        return watcher, said

    yield start
    for watcher in watchers:
        watcher.stop()


def test_a_notice_is_pending_until_it_is_withdrawn(
    started: Callable[..., tuple[Watcher, list[str]]],
) -> None:
    source = Script([PREEMPT])
    watcher, said = started(source)
    assert not watcher.pending()
    watcher.start()
    assert until(watcher.pending)
    assert watcher.deadline == 4e9
    source.answers = [[]]
    assert until(lambda: not watcher.pending() and watcher.deadline is None)
    assert said[-1] == "notices: preempt of script is not announced any more"


def test_the_notice_with_the_least_time_counts(
    started: Callable[..., tuple[Watcher, list[str]]],
) -> None:
    watcher, _ = started(Script([PREEMPT, FREEZE]), Script([SOONER]))
    watcher.start()
    assert until(lambda: len(watcher.notices) == 3)
    assert watcher.notice is SOONER


def test_a_notice_that_comes_too_late_may_still_leave_time(
    started: Callable[..., tuple[Watcher, list[str]]],
) -> None:
    """Its time is the one before which nothing happens. One whose time passes while it is known keeps it."""
    now = time.time()

    def late() -> Notice:
        return Notice(NoticeKind.PREEMPT, "script", "late", deadline=now - 5)

    def timely() -> Notice:
        return Notice(NoticeKind.REBOOT, "script", "timely", deadline=now + 1.5)

    source = Script([late()], [late(), timely()])
    watcher, said = started(source)
    watcher.start()
    assert until(lambda: len(watcher.notices) == 2)
    source.answers = [[late(), timely()]]
    time.sleep(2.0)
    source.answers = [[late(), timely()]]
    assert until(lambda: source.answers[0][0].deadline is None)  # type: ignore[index]
    assert [notice.deadline for notice in watcher.notices] == [None, now + 1.5]
    assert said[0] == "notices: script announces preempt, at any moment"


def test_a_clock_that_is_set_after_the_notice_changes_nothing(
    started: Callable[..., tuple[Watcher, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS says an absolute time, and says it again at every poll."""
    deadline = time.time() + 100

    class Repeated(Script):
        def poll(self) -> list[Notice]:
            return [Notice(NoticeKind.PREEMPT, "script", "a", deadline=deadline)]

    watcher, _ = started(Repeated([]))
    watcher.start()
    assert until(watcher.pending)
    true_time = time.time
    monkeypatch.setattr(time, "time", lambda: true_time() + 3600)
    time.sleep(0.1)
    notice = watcher.notice
    assert notice is not None
    assert notice.seconds_left() == pytest.approx(100, abs=5)


def test_a_freeze_alone_is_not_pending(started: Callable[..., tuple[Watcher, list[str]]]) -> None:
    watcher, said = started(Script([FREEZE]))
    watcher.start()
    assert until(lambda: bool(said))
    assert not watcher.pending()


def test_callbacks_are_called_once_per_notice_and_may_fail(
    started: Callable[..., tuple[Watcher, list[str]]],
) -> None:
    source = Script([PREEMPT], [PREEMPT], [PREEMPT, SOONER])
    watcher, said = started(source)
    calls: list[str] = []

    def fails(notice: Notice) -> None:
        raise RuntimeError("no")

    watcher.on_notice(fails)
    watcher.on_notice(lambda notice: calls.append(notice.id))
    watcher.start()
    assert until(lambda: calls == ["a", "b"])
    time.sleep(0.05)
    assert calls == ["a", "b"]
    assert "notices: a callback failed (RuntimeError: no)" in said


def test_trouble_is_said_once_and_the_notice_stays(
    started: Callable[..., tuple[Watcher, list[str]]],
) -> None:
    blocked = SourceTrouble("nothing answers", blocked=True)
    odd = SourceTrouble("odd answer")
    source = Script([PREEMPT], blocked, blocked, blocked, odd, odd, ValueError("bug"), [PREEMPT])
    watcher, said = started(source)
    watcher.start()
    assert until(lambda: len(source.answers) <= 2)
    assert watcher.pending()
    assert sum("nothing answers" in line for line in said) == 1
    assert sum("odd answer" in line for line in said) == 1


def test_a_source_that_fails_is_asked_again(
    started: Callable[..., tuple[Watcher, list[str]]],
) -> None:
    watcher, said = started(Script(ZeroDivisionError("odd"), [PREEMPT]))
    watcher.start()
    assert until(watcher.pending)
    assert "ZeroDivisionError: odd" in said[0]


def test_watching_a_cloud_through_its_metadata_service() -> None:
    with metadata_service() as service:
        azure_answers(service, [azure_event(seconds=20)])
        watcher = watch("azure", endpoint=service.url, report=lambda text: None)
        try:
            assert until(watcher.pending)
            assert watcher.notice is not None
            assert watcher.notice.source == "azure"
        finally:
            watcher.stop()


def test_a_supervised_process_watches_the_file_of_its_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "notice"))
    watcher = watch("azure", endpoint="http://127.0.0.1:9", report=lambda text: None)
    try:
        (tmp_path / "notice").write_text("5")
        assert until(watcher.pending)
    finally:
        watcher.stop()


def test_an_unknown_cloud_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="use auto, none, azure"):
        watch("Azure")


def test_sigterm_is_a_notice_and_the_handler_before_it_still_runs() -> None:
    called: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: called.append(number))
    try:
        source = Sigterm(grace=25)
        assert source.poll() == []
        os.kill(os.getpid(), signal.SIGTERM)
        (notice,) = source.poll()
        assert notice.seconds_left() == pytest.approx(25, abs=2)
        assert called == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_import_needs_no_heavy_module() -> None:
    heavy = ("json", "http", "typing", "dataclasses")
    code = (
        f"import sys, arc_toolkit.notices; print([name for name in {heavy} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
