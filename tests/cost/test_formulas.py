"""Expected time and price against hand computation, the table of published figures, and the simulation."""

from __future__ import annotations

import math

import pytest

from arc_toolkit.checkpoints.interval import (
    best_interval,
    daly_interval,
    mean_seconds,
)
from arc_toolkit.cost.formulas import break_even, expected_run
from arc_toolkit.cost.simulation import _outage, mean_of, quantile, simulate
from arc_toolkit.cost.training_job import MissingCapacity, TrainingJob
from arc_toolkit.errors import ArcError

HOUR = 3600.0


def first_order_waste(
    save_seconds: float, interval: float, restart_seconds: float, mean: float, noticed: float = 0.0
) -> float:
    """Wasted time per unit of work, to first order: saves, work done again, and restarts."""
    saves = save_seconds / interval
    redone = 0.0 if noticed == 1 else (1 - noticed) * interval / 2 / mean
    return saves + redone + (restart_seconds + noticed * save_seconds) / mean


@pytest.mark.parametrize(
    ("save", "rate", "nodes", "mean_hours", "minutes", "waste", "with_notice"),
    [  # save, rate, nodes, M, tau, waste in %, waste in % if a notice save of 5 s always works; restart 60 s
        (5, 0.05, 1, 19.5, 14.0, 1.3, 0.1),
        (5, 0.20, 8, 0.56, 2.4, 10.0, 3.2),
        (15, 0.05, 8, 2.44, 8.6, 6.5, 0.7),
        (15, 0.20, 8, 0.56, 4.1, 15.2, 3.2),
        (60, 0.20, 8, 0.56, 8.2, 27.4, None),
    ],
)
def test_the_table_of_intervals_computed_before_the_code(
    save: float,
    rate: float,
    nodes: int,
    mean_hours: float,
    minutes: float,
    waste: float,
    with_notice: float | None,
) -> None:
    mean = mean_seconds(rate, nodes)
    interval = best_interval(save, mean)
    assert mean / HOUR == pytest.approx(mean_hours, abs=0.05 if mean_hours > 10 else 0.005)
    assert interval / 60 == pytest.approx(minutes, abs=0.06)
    assert 100 * first_order_waste(save, interval, 60, mean) == pytest.approx(waste, abs=0.05)
    if with_notice is not None:
        assert 100 * first_order_waste(5, math.inf, 60, mean, noticed=1) == pytest.approx(
            with_notice, abs=0.05
        )


def test_young_and_daly_by_hand() -> None:
    # M = 8773.1 s, C = 15 s: sqrt(2 C M) = 513.02; x = sqrt(C / 2M) = 0.02924;
    # 513.02 (1 + x/3 + x^2/9) - 15 = 503.07
    mean = mean_seconds(0.05, 8)
    assert best_interval(15, mean) == pytest.approx(513.02, abs=0.01)
    assert daly_interval(15, mean) == pytest.approx(503.07, abs=0.01)
    assert best_interval(15, mean, noticed=0.9) == pytest.approx(513.02 * math.sqrt(10), abs=0.02)
    assert daly_interval(50, 20) == 20  # Daly: a save that takes longer than 2 M is made every M
    assert math.isinf(best_interval(15, mean, noticed=1))
    assert math.isinf(daly_interval(15, mean, noticed=1))


@pytest.mark.parametrize(
    ("save", "rate", "nodes", "noticed", "ratio"),
    [  # by numeric integration over the moment of the eviction; the last part of the 40 h ends without a save
        (15, 0.05, 8, 0.0, 1.068023),
        (15, 0.05, 8, 0.9, 1.026145),
        (5, 0.20, 8, 0.0, 1.106304),
        (60, 0.20, 8, 0.0, 1.328995),
        (5, 0.05, 1, 0.9, 1.004644),
    ],
)
def test_time_and_simulation_agree_with_numeric_integration(
    save: float, rate: float, nodes: int, noticed: float, ratio: float
) -> None:
    job = TrainingJob(40 * HOUR, nodes, rate, save, 60, noticed)
    result = expected_run(job)
    assert result
    assert 1 + result.slower == pytest.approx(ratio, abs=1e-5)
    runs = simulate(job, 3000, seed=1)
    assert mean_of(runs.elapsed) / HOUR == pytest.approx(40 * ratio, rel=0.02)
    # 2 % of the time would hide an error in the waste: that agrees within 5 % too.
    assert mean_of(runs.elapsed) / job.work_seconds - 1 == pytest.approx(ratio - 1, rel=0.05)
    assert mean_of([float(count) for count in runs.evictions]) == pytest.approx(
        result.evictions, rel=0.03
    )


def test_a_notice_that_always_works_needs_no_periodic_save() -> None:
    # 1 + (R' + C) / M with R' = M (e^(60/M) - 1) = 60.21, M = 8773.1: 1.008572
    job = TrainingJob(40 * HOUR, 8, 0.05, 15, 60, noticed=1.0)
    result = expected_run(job)
    assert result
    assert 1 + result.slower == pytest.approx(1.008572, abs=1e-5)
    assert result.redone == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("minutes", "restart", "noticed"), [(5, 60, 0.0), (15, 60, 0.0), (15, 1200, 0.9), (1, 60, 0.5)]
)
def test_short_jobs_have_no_save_after_their_end(
    minutes: float, restart: float, noticed: float
) -> None:
    job = TrainingJob(60 * minutes, 8, 0.20, 60, restart, noticed)
    result = expected_run(job)
    assert result
    if (minutes, noticed) == (
        5,
        0.0,
    ):  # one part, M = 2016.64 s: M e^(60/M) (e^(300/M) - 1) = 333.23 s
        assert result.elapsed == pytest.approx(333.23, abs=0.01)
    assert mean_of(simulate(job, 20_000, seed=4).elapsed) == pytest.approx(result.elapsed, rel=0.02)


def test_missing_capacity_adds_waits_and_idle_nodes() -> None:
    # Every other eviction waits 1 h on average: 0.5 h each. Idle nodes are paid for at most 10 min:
    # 0.5 x 3600 (1 - e^(-1/6)) = 276.33 s each, of 7 nodes.
    job = TrainingJob(40 * HOUR, 8, 0.05, 15, 60, 0.9, MissingCapacity(0.5, HOUR))
    result, runs = expected_run(job), simulate(job, 4000, seed=2)
    assert result
    assert result.waits == pytest.approx(result.evictions * 1800)
    assert result.idle_nodes == pytest.approx(7 * result.evictions * 276.33, rel=1e-4)
    assert mean_of(runs.elapsed) == pytest.approx(result.elapsed, rel=0.02)
    assert mean_of(runs.prices(0.5, None, 8)) == pytest.approx(result.price(0.5, 8), rel=0.02)


def test_nodes_that_are_evicted_together_stop_the_job_once() -> None:
    # M1 = 70185 s; 4 of 8 nodes at once: M = 4 x 70185 / 8 = 35092 s, as of 2 nodes that go one by one.
    waves = TrainingJob(40 * HOUR, 8, 0.05, 15, 60, 0.0, MissingCapacity(0.5, HOUR), together=4)
    few = TrainingJob(40 * HOUR, 2, 0.05, 15, 60, 0.0, MissingCapacity(0.5, HOUR))
    assert waves.mean == pytest.approx(35092, abs=1)
    result, other, runs = expected_run(waves), expected_run(few), simulate(waves, 4000, seed=8)
    assert result
    assert other
    assert (result.elapsed, result.evictions) == pytest.approx((other.elapsed, other.evictions))
    assert result.idle_nodes == pytest.approx(
        4 * other.idle_nodes
    )  # 4 nodes wait for 4, instead of 1 for 1
    assert mean_of(runs.elapsed) == pytest.approx(result.elapsed, rel=0.02)
    assert mean_of(runs.prices(1.0, None, 8)) == pytest.approx(result.price(1.0, 8), rel=0.02)


def test_the_price_by_hand() -> None:
    # 40 h x 1.068023 x 8 nodes x 0.444433 = 151.89; dedicated: 40 x 8 x 3.673 = 1175.36
    job = TrainingJob(40 * HOUR, 8, 0.05, 15, 60, 0.0)
    result = expected_run(job)
    assert result
    assert result.price(0.444433, 8) == pytest.approx(151.89, abs=0.01)


def test_break_even_is_where_the_prices_meet() -> None:
    job = TrainingJob(40 * HOUR, 8, 0.05, 60, 600, 0.0)
    rate = break_even(job, 3.0, 1.0)
    assert rate is not None
    result = expected_run(job.with_rate(rate))
    assert result
    assert result.price(1.0, 8) == pytest.approx(3.0 * 8 * 40, rel=1e-6)
    # Spot at the price of dedicated never pays; almost free it always does.
    assert break_even(job, 1.0, 1.0) == pytest.approx(0.0, abs=1e-6)
    assert break_even(TrainingJob(HOUR, 1, 0.0, 1, 1, 0.0), 1.0, 0.01) is None


def test_without_evictions_spot_takes_no_longer() -> None:
    job = TrainingJob(HOUR, 4)
    result = expected_run(job)
    assert result
    assert (result.elapsed, result.evictions) == (HOUR, 0)
    assert simulate(job, 3).elapsed == (HOUR,) * 3


def test_evictions_in_a_restart_count() -> None:
    # M = 2016.6 s, a restart of 20 min: e^(1200/M) = 1.813 evictions for each one during work.
    job = TrainingJob(40 * HOUR, 8, 0.20, 15, 1200, 0.9)
    result, runs = expected_run(job), simulate(job, 2000, seed=6)
    assert result
    assert mean_of([float(count) for count in runs.evictions]) == pytest.approx(
        result.evictions, rel=0.02
    )
    assert result.restarts / result.evictions == pytest.approx(
        job.mean * (1 - 1 / 1.8130), rel=1e-3
    )


def test_an_outage_by_hand() -> None:
    # On demand after 10 min. Back after 5 min: only a wait. Back after 60 min: 50 min on demand, of which the restart
    # (1 min) and the save before it moves (15 s) are not work. 20 min left: done on demand.
    job = TrainingJob(
        10 * HOUR, 2, 0.30, 15, 60, 0.0, MissingCapacity(1.0, HOUR, fallback_seconds=600)
    )
    assert _outage(job, 9000, 300) == (300, 0, 9000)
    assert _outage(job, 9000, 3600) == (600, 3000, 9000 - (3000 - 60 - 15))
    assert _outage(job, 1200, 3600) == (600, 60 + 1200, 0)
    assert _outage(job, 9000, 630) == (
        600,
        30,
        9000,
    )  # back before the restart was over: nothing is done


def test_a_hopeless_job_is_known_as_such() -> None:
    # Saves of 1 h with an eviction every 98 s: a part of the work is never saved.
    assert expected_run(TrainingJob(40 * HOUR, 8, 0.99, 3600, 10, 0.0)) is None
    assert expected_run(TrainingJob(40 * HOUR, 100, 0.9, 60, 600, 0.0)) is None
    with pytest.raises(ArcError, match="hardly makes progress"):
        simulate(TrainingJob(40 * HOUR, 100, 0.9, 60, 600, 0.0), 1)


def test_fallback_on_demand_by_hand() -> None:
    # After every eviction spot is missing "for ever": 10 min of waiting, then a restart and the rest on demand.
    missing = MissingCapacity(1.0, 1e12, fallback_seconds=600)
    job = TrainingJob(10 * HOUR, 2, 0.30, 0, 60, 1.0, missing)
    runs = simulate(job, 500, seed=3)
    for elapsed, spot, dear, idle, evictions in zip(
        runs.elapsed, runs.spot, runs.on_demand, runs.idle, runs.evictions, strict=True
    ):
        assert evictions in (0, 1)
        if evictions:
            assert elapsed == pytest.approx(10 * HOUR + 600 + 60)
            assert spot + dear == pytest.approx(10 * HOUR + 60)
            assert idle == 600
        else:
            assert (elapsed, dear, idle) == (10 * HOUR, 0, 0)
    # 2 nodes at 30 %: e^(2 x 10 x ln 0.7) = 0.08 % meet none.
    assert sum(runs.evictions) >= 495


def test_the_same_seed_gives_the_same_runs_and_another_gives_others() -> None:
    job = TrainingJob(10 * HOUR, 4, 0.2)
    assert simulate(job, 20, 5) == simulate(job, 20, 5)
    assert simulate(job, 20, 5) != simulate(job, 20, 6)


@pytest.mark.parametrize("rate", [1.0, -0.1, math.nan])
def test_a_rate_is_a_probability_below_1(rate: float) -> None:
    with pytest.raises(ArcError, match="less than 100%"):
        TrainingJob(HOUR, rate=rate)


def test_quantiles_by_hand() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([5.0], 0.95) == 5.0
    assert quantile([0.0, 10.0], 0.05) == pytest.approx(0.5)
