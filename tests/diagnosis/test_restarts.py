"""Restarts in metrics: the rule, each guard against false hits, and what cannot be read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis.assemble.restarts import restarts_in, scan_metrics
from arc_toolkit.diagnosis.read.sources.metric_points import Point, read_points
from arc_toolkit.errors import ArcError

START = 1_700_000_000.0


def log(
    steps: Iterable[int],
    start: float = START,
    every: float = 1.0,
    keys: Iterable[str] = ("loss", "accuracy"),
) -> list[Point]:
    """Each key logged at each step, one step every few seconds."""
    return [
        Point(key, step, start + index * every, 1.0)
        for index, step in enumerate(steps)
        for key in keys
    ]


def end(points: list[Point]) -> float:
    return max(point.time for point in points)


def after(
    points: list[Point], seconds: float, steps: Iterable[int], every: float = 1.0, **more: object
) -> list[Point]:
    """The same run, going on with these steps after a silence."""
    return points + log(steps, end(points) + seconds, every, **more)  # type: ignore[arg-type]


# --- the rule ---------------------------------------------------------------------------------------------------


def test_resume_from_a_checkpoint_gives_lost_steps_and_lost_time() -> None:
    # Checkpoint every 50, crash at 212, resume at 201: the overlap is 201-212.
    [restart] = restarts_in("run", after(log(range(213)), 90, range(201, 300)))
    assert restart.kind == "resumed"
    assert (restart.last_step, restart.first_step, restart.lost_steps) == (212, 201, 11)
    assert restart.gap_seconds == 90
    assert restart.lost_seconds == 11 + 90  # from step 201 to the crash, and the silence
    assert restart.keys == ("accuracy", "loss")
    assert restart.confidence == "high"


def test_restart_from_scratch_loses_everything_since_the_first_step() -> None:
    [restart] = restarts_in("run", after(log(range(0, 1000, 10)), 300, range(0, 500, 10)))
    assert (restart.kind, restart.lost_steps) == ("from-scratch", 990)
    assert restart.lost_seconds == 99 + 300


def test_start_within_one_log_interval_of_the_first_step_is_from_scratch() -> None:
    [restart] = restarts_in("run", after(log(range(10, 500, 10)), 120, range(20, 300, 10)))
    assert restart.kind == "from-scratch"


def test_same_step_logged_again_after_a_gap_is_a_restart_that_lost_no_steps() -> None:
    [restart] = restarts_in("run", after(log(range(101)), 90, range(100, 200)))
    assert (restart.kind, restart.lost_steps, restart.lost_seconds) == ("resumed", 0, 90)


def test_two_restarts_each_lose_the_work_of_their_own_segment() -> None:
    points = after(after(log(range(100)), 100, range(50, 61)), 100, range(50, 200))
    first, second = restarts_in("run", points)
    assert (first.lost_steps, second.lost_steps) == (49, 10)
    assert (
        second.lost_seconds == 10 + 100
    )  # since the second segment reached 50, not since the first did


def test_second_restart_from_before_the_first_checkpoint_counts_from_the_older_segment() -> None:
    points = after(after(log(range(100)), 100, range(50, 60)), 100, range(40, 200))
    second = restarts_in("run", points)[1]
    assert second.lost_seconds == second.time - (START + 40)


def test_gap_limit_is_a_minute_or_five_intervals_whichever_is_longer() -> None:
    def one_key(pause: float, every: float) -> list[Point]:
        """Two keys that go back need no pause."""
        return after(
            log(range(100), every=every, keys=["loss"]), pause, range(50, 200), every, keys=["loss"]
        )

    for pause, every, confidence in (
        (60, 1, "low"),
        (61, 1, "medium"),
        (500, 100, "low"),
        (501, 100, "medium"),
    ):
        assert [item.confidence for item in restarts_in("run", one_key(pause, every))] == [
            confidence
        ]


def test_order_of_the_points_in_the_store_does_not_matter() -> None:
    points = after(log(range(213)), 90, range(201, 300))
    assert restarts_in("run", reversed(points)) == restarts_in("run", points)


# --- guards against false hits ----------------------------------------------------------------------------------


def test_long_pause_without_a_step_backwards_is_not_a_restart() -> None:
    assert not restarts_in("run", after(log(range(100)), 3600, range(100, 200)))


def test_step_that_starts_again_with_each_epoch_is_not_a_restart() -> None:
    points = log(range(100))
    for _ in range(4):
        points = after(points, 120, range(100))  # validation takes two minutes
    assert not restarts_in("run", points)


def test_restart_in_the_middle_of_an_epoch_is_found_among_epoch_resets() -> None:
    points = log(range(100))
    for length in (100, 37, 100, 100):
        points = after(points, 120, range(length))
    [restart] = restarts_in("run", points)
    assert restart.last_step == 36
    assert (
        restart.confidence == "low"
    )  # a counter that starts with each epoch hides where the run went on


def epochs_logged(lengths: list[int], numbers: list[int], pause: float = 120) -> list[Point]:
    """Per-epoch steps with the epoch logged beside them."""
    points: list[Point] = []
    for length, number in zip(lengths, numbers, strict=True):
        start = end(points) + pause if points else START
        part = log(range(length), start)
        points += part + [
            Point("epoch", point.step, point.time, float(number)) for point in part[::2]
        ]
    return points


def test_epoch_that_goes_on_tells_an_epoch_reset_from_a_restart() -> None:
    assert not restarts_in("run", epochs_logged([100, 100], [0, 1]))
    [restart] = restarts_in("run", epochs_logged([100, 100], [0, 0]))
    assert restart.kind == "from-scratch"


def test_job_that_dies_at_the_same_step_again_and_again_is_found_when_the_epoch_goes_back() -> None:
    points = epochs_logged([100, 100, 100, 100, 100], [0, 1, 0, 1, 0])
    assert [restart.kind for restart in restarts_in("run", points)] == [
        "from-scratch",
        "from-scratch",
    ]


def test_several_ranks_writing_one_key_are_not_a_restart_even_with_a_straggler() -> None:
    points: list[Point] = []
    for step in range(50):
        for rank, lag in enumerate((0.0, 0.4, 0.9, 85.0)):
            points.append(Point("loss", step, START + 600 * step + lag + rank / 1000, 1.0))
    assert not restarts_in("run", points)


def test_restart_is_found_although_several_ranks_write_one_key() -> None:
    points = [
        Point("loss", step, base + offset + rank / 10, 1.0)
        for base, steps in ((START, range(200)), (START + 500, range(150, 300)))
        for offset, step in enumerate(steps)
        for rank in range(4)
    ]
    [restart] = restarts_in("run", points)
    assert (restart.last_step, restart.first_step) == (199, 150)


def test_batches_that_arrive_out_of_order_are_not_a_restart() -> None:
    shuffled = [
        Point("loss", step, START + 10 * step + (25 if step % 7 == 0 else 0), 1.0)
        for step in range(300)
    ]
    assert not restarts_in("run", shuffled)


def test_values_that_go_up_and_down_are_not_a_restart() -> None:
    points = [
        Point("lr", step, START + step * 30 + (200 if step > 150 else 0), math.cos(step / 10))
        for step in range(300)
    ]
    assert not restarts_in("run", points)


def test_all_zero_steps_use_the_epoch_series() -> None:
    epochs = [0, 1, 2, 3, 4, 2, 3, 4, 5]
    gaps = [0, 1, 1, 1, 1, 6, 1, 1, 1]
    time, points = START, []
    for epoch, gap in zip(epochs, gaps, strict=True):
        time += gap * 100
        points += [Point("epoch", 0, time, float(epoch)), Point("loss", 0, time, 0.5)]
    [restart] = restarts_in("run", points)
    assert (restart.kind, restart.last_step, restart.first_step, restart.keys) == (
        "resumed",
        4,
        2,
        ("epoch",),
    )
    assert restart.confidence == "medium"


def test_one_key_alone_does_not_make_a_restart_when_another_denies_it() -> None:
    loss = after(log(range(200), keys=["loss"]), 90, range(150, 400), keys=["loss"])
    steady = log(range(540), keys=["accuracy"])
    assert not restarts_in(
        "run", loss + [point for point in steady if point.step <= 199 or point.time > START + 289]
    )
    assert restarts_in("run", loss)


def test_key_that_is_logged_too_seldom_to_see_the_restart_does_not_deny_it() -> None:
    loss = after(log(range(200), keys=["loss"]), 90, range(150, 400), keys=["loss"])
    seldom = [Point("val", 100, START + 100, 1.0), Point("val", 200, START + 340, 1.0)]
    assert len(restarts_in("run", loss + seldom)) == 1


@settings(max_examples=60, deadline=None)
@given(
    crash=st.integers(60, 400),
    back=st.integers(1, 50),
    gap=st.floats(61, 5000),
    every=st.sampled_from([0.5, 1.0, 10.0]),
    keys=st.integers(1, 3),
)
def test_any_restart_deeper_than_a_step_is_found_exactly_once(
    crash: int, back: int, gap: float, every: float, keys: int
) -> None:
    names = [f"m{number}" for number in range(keys)]
    gap = max(gap, 5 * every + 1)
    points = after(
        log(range(crash), every=every, keys=names),
        gap,
        range(crash - back, crash + 200),
        every,
        keys=names,
    )
    [restart] = restarts_in("run", points)
    assert (restart.last_step, restart.first_step) == (crash - 1, crash - back)
    assert restart.lost_steps == back - 1
    assert len(restart.keys) == keys


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.01, 5000), min_size=2, max_size=120), st.integers(1, 100))
def test_steps_that_only_rise_never_make_a_restart(gaps: list[float], stride: int) -> None:
    time, points = START, []
    for index, gap in enumerate(gaps):
        time += gap
        points.append(Point("loss", index * stride, time, 1.0))
    assert not restarts_in("run", points)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["loss", "epoch", "lr"]),
            st.integers(-(2**40), 2**40),
            st.floats(-1e12, 1e12),
            st.floats(allow_nan=True, allow_infinity=True),
        ),
        max_size=60,
    )
)
def test_any_points_at_all_give_an_answer_with_sane_figures(
    points: list[tuple[str, int, float, float]],
) -> None:
    for restart in restarts_in("run", [Point(*point) for point in points]):
        assert restart.lost_steps is None or restart.lost_steps >= 0
        assert restart.lost_seconds >= restart.gap_seconds >= 0


# --- reading ----------------------------------------------------------------------------------------------------

RESUMED = after(log(range(213)), 90, range(201, 300))


def test_long_csv_with_milliseconds_and_several_runs(tmp_path: Path) -> None:
    rows = ["run_id,key,value,timestamp,step"]
    rows += [f"calm,{p.key},{p.value},{int(p.time * 1000)},{p.step}" for p in log(range(300))]
    rows += [f"shaken,{p.key},{p.value},{int(p.time * 1000)},{p.step}" for p in RESUMED]
    path = tmp_path / "metrics.csv"
    path.write_text("\n".join(rows))
    [restart] = scan_metrics(str(path)).restarts
    assert (restart.run, restart.lost_steps, restart.source) == ("shaken", 11, str(path))


def test_wide_csv_with_iso_times_blank_cells_and_a_text_column(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    rows = ["\ufeffStep,Time,loss,val_loss,host"]
    for point in RESUMED[::2]:
        when = datetime.fromtimestamp(point.time, UTC).isoformat()
        rows.append(f"{point.step},{when},0.5,,worker")
    path = tmp_path / "job_7.csv"
    path.write_text("\r\n".join(rows), encoding="utf-8")
    [restart] = scan_metrics(str(path)).restarts
    assert (restart.run, restart.keys) == ("job_7", ("loss",))


@pytest.mark.parametrize("shape", ["list", "rest", "by key", "lines"])
def test_json_shapes(tmp_path: Path, shape: str) -> None:
    points = [
        {"key": p.key, "value": 1, "timestamp": int(p.time * 1000), "step": p.step} for p in RESUMED
    ]
    by_key: dict[str, list[object]] = {}
    for point in points:
        by_key.setdefault(str(point["key"]), []).append(point)
    text = {
        "list": json.dumps(points),
        "rest": json.dumps({"run_id": "abc", "metrics": points}),
        "by key": json.dumps({"run_id": "abc", "metrics": by_key}),
        "lines": "\n".join(json.dumps(point) for point in points),
    }[shape]
    path = tmp_path / "abc.json"
    path.write_text(text)
    [restart] = scan_metrics(str(path)).restarts
    assert (restart.run, restart.lost_steps) == ("abc", 11)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no metrics"),
        ("step,loss\n1,2\n", "bad.csv:2: no time"),
        ("timestamp,loss\n1,2\n", "bad.csv:2: no step"),
        ("step,timestamp,loss\nx,1,2\n", "bad.csv:2: the step 'x' is not a number"),
        ("step,timestamp,loss\n1,yesterday,2\n", "neither a number nor ISO 8601"),
        ("step,timestamp,loss\n1,nan,2\n", "neither a number nor ISO 8601"),
        ("step,timestamp,loss\ninf,1,2\n", "is not a number"),
        ('{"step": 1', "not JSON"),
        ('{"step": 1}\nnonsense', "bad.csv:2: not JSON"),
        ("[1, 2]", "is not an object"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ArcError, match=r"bad\.csv") as caught:
        scan_metrics(str(path))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=80, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=300), st.text(alphabet='{}[]",:step timestamp01\n', max_size=300)
    )
)
def test_any_text_gives_points_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.csv"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    sentence = ""
    try:
        read_points(str(path))
    except ArcError as error:
        sentence = str(error)
    assert "\n" not in sentence


def test_mlflow_source_without_a_run_says_how_to_name_one() -> None:
    with pytest.raises(ArcError, match="mlflow:URI#RUN_ID"):
        scan_metrics("mlflow:sqlite:///mlflow.db")


def test_mlflow_store_that_does_not_exist_is_reported_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(ArcError, match="does not exist"):
        scan_metrics(f"mlflow:sqlite:///{tmp_path}/typo.db#8a1f")
    assert not list(tmp_path.iterdir())


def steps(*parts: tuple[float, list[int]]) -> list[Point]:
    """One key: each part after a silence, its steps ten seconds apart."""
    time, points = 0.0, []
    for silence, part in parts:
        time += silence
        for step in part:
            points.append(Point("loss", step, time, 1.0))
            time += 10
    return points


def test_a_large_reset_without_a_pause_is_an_epoch_and_hides_no_later_restart() -> None:
    [restart] = restarts_in("r", steps((0, [*range(10), *range(10)]), (200, [5, 6, 7, 8, 9, 10])))
    assert (restart.last_step, restart.first_step) == (9, 5)


def test_a_small_step_back_at_the_start_is_disorder_and_the_same_later_is_not_a_restart() -> None:
    assert restarts_in("r", steps((0, [0, 1, 2, 1, *range(3, 20)]), (200, [18, 19, 20, 21]))) == []
