"""Policies under a deadline: by hand on a fixed course of capacity, and compared with each other."""

from __future__ import annotations

import math

import pytest

from arc_toolkit.cost.mix import MixPolicy, MixRun, cheapest_mix, evaluate, uniform_progress
from arc_toolkit.cost.training_job import MissingCapacity, TrainingJob
from arc_toolkit.errors import ArcError

HOUR = 3600.0
GREEDY, UNIFORM = MixPolicy("greedy", 0.0), MixPolicy("uniform", 1.0)


class Course:
    """Spot until 10 h, again from 25 h on."""

    def eviction_after(self, start: float) -> float:
        return 10 * HOUR if start < 10 * HOUR else math.inf

    def back_at(self, evicted: float) -> float:
        return 25 * HOUR


def run(policy: MixPolicy) -> MixRun:
    """20 h of work, 30 h of time, changeovers and saves that cost nothing."""
    job = TrainingJob(20 * HOUR, 1, 0.0, 0, 0, noticed=1.0)
    return MixRun(job, policy, 30 * HOUR, Course(), lambda: 0.0).finish()


def test_uniform_progress_follows_the_line_and_takes_spot_when_it_is_back() -> None:
    # At 10 h: 10 h of work left, slack 10 h. It waits until the line is reached (5 h of slack, at 15 h), stays on it
    # until 25 h: left = 20 (1 - 25/30) = 3.33 h, so 6.67 h on demand; then 3.33 h on spot: done at 28.33 h.
    result = run(UNIFORM)
    assert result.on_demand / HOUR == pytest.approx(6.67, abs=0.05)
    assert result.spot / HOUR == pytest.approx(13.33, abs=0.05)
    assert result.clock / HOUR == pytest.approx(28.33, abs=0.05)


def test_greedy_waits_until_nothing_is_left_to_wait_for() -> None:
    # 10 h of slack at 10 h: it waits until 20 h and is then on demand to the end.
    result = run(GREEDY)
    assert (result.spot / HOUR, result.on_demand / HOUR, result.clock / HOUR) == pytest.approx(
        (10, 10, 30)
    )


def test_pure_policies() -> None:
    spot, dear = run(MixPolicy("spot", None)), run(MixPolicy("on demand", math.inf))
    assert (spot.on_demand, spot.clock / HOUR) == pytest.approx((0, 35))  # 10 + 15 of waiting + 10
    assert (dear.spot, dear.clock / HOUR) == pytest.approx((0, 20))


@pytest.mark.parametrize(("share", "deadline"), [(0.5, 44), (0.5, 60), (0.9, 60)])
def test_the_choice_meets_the_deadline_and_costs_at_most_as_much_as_uniform_progress(
    share: float, deadline: float
) -> None:
    job = TrainingJob(40 * HOUR, 8, 0.05, 15, 60, 0.9, MissingCapacity(share, 3 * HOUR))
    mix = cheapest_mix(job, deadline * HOUR, (0.444, 3.673), runs=400)
    assert mix.best
    assert mix.best.cost <= mix.peer.cost
    # Other random numbers than those it was chosen with.
    again = evaluate(job, mix.best.policy, deadline * HOUR, (0.444, 3.673), runs=1000, seed=77)
    assert again.met >= 0.95
    greedy = next(row for row in mix.results if row.policy.ahead == 0)
    assert mix.peer.cost < greedy.cost  # what the paper shows


def test_on_demand_is_the_answer_if_there_is_no_slack_and_spot_if_there_is_plenty() -> None:
    job = TrainingJob(40 * HOUR, 8, 0.05, 15, 60, 0.9)
    tight = cheapest_mix(job, 40 * HOUR, (0.4, 3.6), runs=200).best
    plenty = cheapest_mix(job, 60 * HOUR, (0.4, 3.6), runs=200).best
    assert tight
    assert plenty
    assert (tight.policy.name, tight.met) == ("on demand only", 1.0)
    assert plenty.on_demand == 0
    with pytest.raises(ArcError, match="nothing can meet it"):
        cheapest_mix(job, 39 * HOUR, (0.4, 3.6))


def test_a_cheaper_policy_that_is_late_too_often_is_not_chosen() -> None:
    job = TrainingJob(40 * HOUR, 8, 0.05, 15, 60, 0.9, MissingCapacity(0.5, 3 * HOUR))
    mix = cheapest_mix(job, 80 * HOUR, (0.444, 3.673), runs=300)
    assert mix.best
    cheaper = [row.met for row in mix.results if row.cost < mix.best.cost]
    assert cheaper
    assert 0.7 < max(cheaper) < 0.98  # in time most of the time, but not surely 95 %
    assert mix.best.met >= 0.95


def test_the_peer_has_the_rules_of_the_paper() -> None:
    job = TrainingJob(40 * HOUR, restart_seconds=90)
    policy = uniform_progress(job)
    assert (policy.ahead, policy.reserve) == (1.0, 180)  # the uniform line, and two changeovers
