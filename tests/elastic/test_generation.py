"""All ranks stop after the same step, errors are not lost nodes, and the history outlives a controller."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from arc_toolkit.checkpoints import Store
from arc_toolkit.elastic.generation import Agreement, FailureBudget, Generation, StopRequest
from arc_toolkit.elastic.rank_placement import Placement
from arc_toolkit.elastic.throughput import Throughput
from arc_toolkit.elastic.timeline import OutputLog, Timeline
from arc_toolkit.notices.notice import Notice, NoticeKind
from arc_toolkit.notices.sources.notice_file import (
    VARIABLE,
    NoticeFile,
    ProgressRecord,
    read_progress,
)


def record(step: int, proposal: int = -2, samples: int = 0) -> ProgressRecord:
    return ProgressRecord(step, 0, proposal=proposal, samples=samples)


def test_a_proposal_is_final_when_all_ranks_know_it() -> None:
    agreement = Agreement([record(10), record(9)], 3.3)
    assert (agreement.step, agreement.is_final) == (13, False)  # 0.6 s of steps, and one
    assert not agreement.update({0: record(11, 13), 1: record(11)}, [0, 1], 3.3)
    assert not agreement.update({0: record(12, 13)}, [0, 1], 3.3), (
        "the other one has not done a step"
    )
    assert agreement.update({0: record(13, 13), 1: record(12, 13)}, [0, 1], 3.3)
    assert (agreement.step, agreement.is_final) == (13, True)
    assert not agreement.update({0: record(20), 1: record(20)}, [0, 1], 3.3)


@pytest.mark.parametrize("passed", [record(14), record(13), record(14, 13)])
def test_a_rank_that_has_passed_a_proposal_makes_another_necessary(passed: ProgressRecord) -> None:
    agreement = Agreement([record(10), record(9)], 3.3)
    assert agreement.update({0: record(13, 13), 1: passed}, [0, 1], 3.3)
    assert not agreement.is_final
    assert agreement.step > passed.step


def test_ranks_that_have_ended_are_not_waited_for() -> None:
    agreement = Agreement([record(5), record(5)], 0.0)
    assert agreement.update({0: record(6, 6), 1: record(5)}, [0], 0.0)
    assert agreement.is_final


def test_before_the_first_step_nothing_is_agreed() -> None:
    agreement = Agreement([], 0.0)
    assert not agreement.update({}, [0, 1], 0.0)
    assert agreement.update({0: record(100, -1)}, [0, 1], 0.0)
    assert (agreement.step, agreement.is_final) == (101, False)


@pytest.mark.parametrize("seed", range(6))
def test_ranks_of_any_speed_stop_after_the_same_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Four ranks of which none is more than a few steps ahead, each with a store; from the first steps on, or later."""
    chance = random.Random(seed)
    ends: dict[int, int] = {}
    files = [NoticeFile(tmp_path / f"notice-{rank}") for rank in range(4)]
    threads = []
    for rank in range(4):
        monkeypatch.setenv(VARIABLE, files[rank].path)
        monkeypatch.setenv("RANK", str(rank))
        store = Store(tmp_path / "checkpoints", report=lambda _: None)
        pause = chance.choice([0, 1, 4, 20])
        thread = threading.Thread(
            target=_train, args=(store, rank, pause, ends, files), daemon=True
        )
        threads.append(thread)
    for thread in threads:
        thread.start()
    time.sleep(chance.choice([0.0, 0.01, 0.1]))
    agreement = None
    end = time.monotonic() + 60
    while len(ends) < 4:
        assert time.monotonic() < end
        progress = {
            rank: known for rank, file in enumerate(files) if (known := read_progress(file.path))
        }
        running = [rank for rank in range(4) if rank not in ends]
        is_new = agreement is None
        agreement = agreement or Agreement(progress.values(), 0.0)
        if is_new or agreement.update(progress, running, 0.0):
            for file in files:
                file.write(_request(agreement.step, agreement.is_final))
                time.sleep(chance.choice([0.0, 0.01]))
    for thread in threads:
        thread.join()
    assert agreement is not None
    assert ends == dict.fromkeys(range(4), agreement.step)
    latest = Store(tmp_path / "checkpoints").latest()
    assert latest is not None
    assert latest.step == agreement.step


def _request(step: int, agreed: bool, seconds: float = 60) -> Notice:
    return Notice(
        NoticeKind.STOP, "elastic", "x", deadline=time.time() + seconds, step=step, agreed=agreed
    )


def _train(
    store: Store,
    rank: int,
    milliseconds: int,
    ends: dict[int, int],
    files: Sequence[NoticeFile] = (),
) -> None:
    step = -1
    try:
        for step in store.steps(10**6, every=10**6):
            time.sleep(milliseconds / 1000)
            while any(
                (known := read_progress(file.path)) is None or known.step < step - 5
                for file in files
            ):
                time.sleep(0.001)
                if step < 5:
                    break
            if store.due(step):
                with store.save(step) as folder:
                    (folder / "x").write_text("")
    except SystemExit as error:
        ends[rank] = step if error.code == 143 else -1


def test_without_time_a_rank_saves_although_nothing_is_agreed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = NoticeFile(tmp_path / "notice")
    monkeypatch.setenv(VARIABLE, file.path)
    store, ends = Store(tmp_path / "checkpoints", report=lambda _: None), dict[int, int]()
    file.write(_request(3, False, seconds=1.5))
    _train(store, 0, 1, ends)
    assert ends == {0: 3}


def test_a_save_before_the_agreement_does_not_stand_for_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = NoticeFile(tmp_path / "notice")
    monkeypatch.setenv(VARIABLE, file.path)
    store = Store(tmp_path / "checkpoints", report=lambda _: None)
    store.begin(1)
    file.write(_request(3, False))
    assert store.due(5)  # by the interval: the proposal was passed before it was known
    with store.save(5):
        pass
    store.exit_if_evicted(5)
    file.write(_request(7, True))
    assert store.due(7)
    with store.save(7):
        pass
    with pytest.raises(SystemExit):
        store.exit_if_evicted(7)


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_notice_after_due_is_for_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str
) -> None:
    """Otherwise the others would leave after a step for which the first rank has not saved."""
    file = NoticeFile(tmp_path / "notice")
    monkeypatch.setenv(VARIABLE, file.path)
    monkeypatch.setenv("RANK", rank)
    store = Store(tmp_path / "saved", report=lambda text: None)
    steps = store.steps(100, every=1000)
    assert not store.due(next(steps))
    file.write(Notice(NoticeKind.STOP, "elastic", "1", deadline=time.time() + 60, step=0))
    time.sleep(0.06)
    assert next(steps) == 1
    assert store.due(1) == (rank == "0")


def test_a_notice_is_not_looked_for_in_every_short_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, poll, looks = NoticeFile(tmp_path / "notice"), NoticeFile.poll, list[str]()

    def counted(self: NoticeFile) -> list[Notice]:
        looks.append(self.path)
        return poll(self)

    monkeypatch.setattr(NoticeFile, "poll", counted)
    monkeypatch.setenv(VARIABLE, file.path)
    store = Store(tmp_path / "saved", report=lambda text: None)
    began, step = time.monotonic(), -1
    for step in store.steps(1000, every=10**6):
        assert not store.due(step)
    assert 1 <= len(looks) <= 2 + (time.monotonic() - began) / 0.05
    written = read_progress(file.path)
    assert written is not None
    assert written.step == 999, "but the supervisor knows of every step"
    file.write(Notice(NoticeKind.STOP, "elastic", "1", deadline=time.time() + 60))
    began = time.monotonic()
    while not store.due(step):
        assert time.monotonic() - began < 10
    store.announce(60)
    assert store.due(step), "what the script itself announces is known at once"


def test_the_step_samples_and_save_of_a_rank_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, os.fspath(tmp_path / "notice"))
    store = Store(tmp_path / "checkpoints")
    for step in store.steps(3, every=1):
        if store.due(step, samples=10):
            with store.save(step):
                pass
    known = read_progress(os.fspath(tmp_path / "notice"))
    assert known is not None
    assert known.fields() == (2, 0, 2, -2, 30)


def test_a_lost_node_excuses_the_error_of_its_peer() -> None:
    timeline = Timeline("x")
    budget = FailureBudget(1, timeline)
    budget.broke(["a", "b"], 100.0, (0, 1))
    assert not budget.is_settled(100.1)
    assert budget.is_settled(101.0)
    assert (timeline.failures, timeline.evictions) == (1, 0)
    budget.note_loss("b", 103.5)
    assert (timeline.failures, timeline.evictions) == (0, 1)
    budget.note_loss("b", 103.6)
    budget.note_loss("c", 103.6)
    assert (timeline.failures, timeline.evictions) == (0, 1)
    assert [event["event"] for event in timeline.events] == ["failed", "excused"]


def test_the_last_error_ends_the_run_only_when_no_node_was_lost() -> None:
    timeline = Timeline("x")
    budget = FailureBudget(0, timeline)
    budget.broke(["a", "b"], 100.0, (0, 7))
    assert not budget.is_settled(102.0)
    budget.note_loss("a", 104.0)
    assert budget.is_settled(104.0)
    assert (budget.exit_code, timeline.failures, timeline.evictions) == (None, 0, 1)
    budget.broke(["b"], 200.0, (0, 7))
    assert budget.is_settled(206.0)
    assert (budget.exit_code, timeline.failures) == (7, 1)
    budget.note_loss("b", 207.0)
    assert timeline.evictions == 1, "too late to have been the cause"


def test_a_notice_and_the_loss_after_it_are_one_eviction() -> None:
    timeline = Timeline("x")
    timeline.evict("a")
    timeline.evict("a")
    assert timeline.evictions == 1
    timeline.withdraw("a")
    timeline.evict("a")
    assert timeline.evictions == 2


def test_what_looked_like_a_failure_was_a_lost_node() -> None:
    now = [100.0]
    timeline = Timeline("x", clock=lambda: now[0])
    timeline.progress(0, 0)
    timeline.stall("failure")
    timeline.stall("lost node")
    timeline.stall("growing")
    now[0] = 102.0
    timeline.progress(0, 0)
    assert timeline.totals.lost == {"start": 0.0, "lost node": 2.0}


def test_a_node_with_a_notice_whose_ranks_have_stopped_may_go() -> None:
    generation = Generation(1, Placement(("a", "b", "b")), 90.0, takes_part=True)
    generation.stop = StopRequest("eviction", 120.0, 120.0, 0.0, Agreement([], 0.0))
    generation.note_exit(1, 143, 100.0)
    assert generation.stop.until == pytest.approx(100.3)
    assert not generation.has_left("b")
    generation.note_exit(2, 143, 101.0)
    assert generation.has_left("b")
    assert not generation.has_left("a")
    assert generation.stop.until == pytest.approx(100.3)
    assert generation.running == [0]
    assert not generation.is_done
    generation.note_exit(0, 0, 102.0)
    assert not generation.is_done, "not all of them have ended with 0"
    assert Generation(1, Placement(("a",)), 90.0, exits={0: 0}).is_done


def test_the_history_outlives_a_controller(tmp_path: Path) -> None:
    now = [100.0]
    timeline = Timeline("x", clock=lambda: now[0], path=tmp_path / "run" / "history.json")
    timeline.add("start", generation=4, workers=2)
    timeline.progress(0, 0)
    now[0] = 103.0
    timeline.progress(1, 0)
    timeline.evict("a")
    timeline.fail(1, 5)
    now[0] = 110.0
    other = Timeline("x", clock=lambda: now[0], path=tmp_path / "run" / "history.json")
    other.restore()
    assert other.totals == timeline.totals
    assert (other.last_generation, other.failures, other.evictions) == (4, 1, 1)
    other.evict("a")
    assert other.evictions == 1
    other.progress(9, 0)
    assert other.summary("running", 0, {2: 3.0}, "samples")["seconds_trained"] == 10.0


def test_a_history_that_cannot_be_read_is_a_new_beginning(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text('{"began": 1, "unknown": 2}')
    timeline = Timeline("x", clock=lambda: 7.0, path=tmp_path / "history.json")
    timeline.restore()
    assert timeline.totals.began == 7.0
    unwritable = Timeline("x", path=tmp_path / "history.json" / "below.json")
    unwritable.add("start", generation=1)
    assert unwritable.last_generation == 1


def test_a_client_reads_the_output_once() -> None:
    log = OutputLog(max_lines=3)
    assert log.lines_since(0) == []
    for number in range(2):
        log.add(0, str(number))
    assert [text for _, text in log.lines_since(0)] == ["0", "1"]
    assert [text for _, text in log.lines_since(1)] == ["1"]
    assert log.lines_since(2) == []
    for number in range(2, 6):
        log.add(0, str(number))
    assert [text for _, text in log.lines_since(2)] == ["3", "4", "5"]
    assert [text for _, text in log.lines_since(5)] == ["5"]
    assert log.count == 6


def test_throughput_is_that_of_all_workers_in_samples_or_steps() -> None:
    throughput = Throughput()
    throughput.begin(2)
    throughput.update({0: record(5)}, 100.0)
    assert throughput.measured_seconds == 0.0, "the second worker has not done a step"
    throughput.update({0: record(9), 1: record(9)}, 100.9999)
    throughput.update({0: record(10), 1: record(9)}, 101.0)
    assert throughput.steps_per_second == 0.0, (
        "one step in no time is not a speed of 10,000 steps/s"
    )
    throughput.begin(2)
    for now, step in ((101.0, 10), (103.0, 20), (111.0, 60)):
        throughput.update({0: record(step), 1: record(step)}, now)
    assert (throughput.rates, throughput.unit) == ({2: 10.0}, "steps")
    assert throughput.measured_seconds == 10.0
    throughput.begin(3)
    assert throughput.steps_per_second == 0.0
    for now, step in ((200.0, 10), (202.0, 12), (210.0, 20)):
        throughput.update({rank: record(step, samples=step * 8) for rank in range(3)}, now)
    assert (throughput.rates, throughput.unit) == ({3: 24.0}, "samples"), (
        "steps and samples are not compared"
    )
    assert throughput.steps_per_second == 1.0


def test_a_long_step_is_measured_at_its_end() -> None:
    throughput = Throughput()
    throughput.begin(1)
    for now in range(100, 130):  # steps of 4 s, reported every second
        throughput.update({0: record((now - 100) // 4)}, now)
        assert throughput.rates in ({}, {1: 0.25})
    assert throughput.rates == {1: 0.25}
    assert throughput.measured_seconds == 28.0


def test_each_write_of_a_notice_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system may have one time for all writes within some milliseconds, and proposals have the same size."""
    moments = iter((1_000_000_001, 1_000_000_002))
    monkeypatch.setattr("time.time_ns", lambda: next(moments))
    writer, reader = NoticeFile(tmp_path / "notice"), NoticeFile(tmp_path / "notice")
    for step in (11, 12):
        writer.write(_request(step, False))
        assert os.stat(writer.path).st_mtime_ns % 10 == step - 10
        assert reader.notice is not None
        assert reader.notice.step == step
