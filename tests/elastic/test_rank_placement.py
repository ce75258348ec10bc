"""Where ranks go, after which step they stop, and whether another worker pays."""

from __future__ import annotations

import pytest

from arc_toolkit.elastic.rank_placement import Capacity, gpus_of, place_ranks
from arc_toolkit.elastic.run_config import imported_modules
from arc_toolkit.elastic.throughput import size_that_pays, worth_growing
from arc_toolkit.elastic.timeline import Timeline
from arc_toolkit.errors import ArcError


def test_ranks_fill_nodes_in_order_and_leave_doomed_ones() -> None:
    nodes = [Capacity("a", 2, 2), Capacity("b", 2, 2, has_notice=True), Capacity("c", 2, 1)]
    assert place_ranks(nodes, 8, warm_only=False).nodes == ("a", "a", "c", "c")
    assert place_ranks(nodes, 8, warm_only=True).nodes == ("a", "a", "c")
    assert place_ranks(nodes, 1, warm_only=True).nodes == ("a",)
    assert place_ranks([], 4, warm_only=True).size == 0


@pytest.mark.parametrize(
    ("rates", "now", "wanted", "grows"),
    [
        ({}, 1, 2, True),  # nothing is known
        ({1: 100}, 1, 2, True),
        ({1: 100}, 2, 2, False),
        ({1: 100, 2: 190}, 2, 3, True),  # 280 expected: efficiency 0.93
        ({1: 100, 2: 110}, 2, 4, False),  # 130 expected for 4: efficiency 0.33
        ({1: 100, 2: 101}, 2, 3, False),  # a gain of 1 % is ignored
        (
            {10: 1000, 11: 1002},
            11,
            12,
            False,
        ),  # 0.84 would be left of a worker, for a gain of 0.2 %
        ({1: 100, 2: 150, 4: 160}, 2, 4, False),  # measured: 0.4
        ({2: 200, 4: 390}, 2, 4, True),
    ],
)
def test_growth_stops_where_it_does_not_pay(
    rates: dict[int, float], now: int, wanted: int, grows: bool
) -> None:
    assert worth_growing(rates, now, wanted) is grows


@pytest.mark.parametrize(
    ("rates", "workers"),
    [
        ({}, 8),  # nothing is known
        ({1: 100, 2: 200}, 8),
        ({1: 100, 2: 130}, 3),  # 160 expected for 3, 190 for 4: efficiency 0.53 and 0.48
        ({1: 100, 2: 101}, 2),  # a small gain is not given up
        ({1: 100, 2: 100}, 1),
        ({1: 100, 2: 92}, 1),
        ({1: 100, 4: 190, 2: 130}, 3),  # measured for 4: 0.48
        ({1: 100, 2: 110, 4: 90}, 2),  # 4 did not pay, and 5 are not tried
        ({2: 90}, 8),
    ],
)
def test_nodes_are_asked_for_while_they_pay(rates: dict[int, float], workers: int) -> None:
    assert size_that_pays(rates, 2, 8, 0.5) == workers


def test_workers_that_were_measured_not_to_pay_are_given_up() -> None:
    assert size_that_pays({2: 200, 3: 180}, 3, 8, 0.5) == 2
    assert size_that_pays({1: 100, 2: 90}, 1, 8, 0.5) == 1, "nor are more of them"
    assert size_that_pays({1: 100, 4: 190}, 4, 4, 0.5) == 4, (
        "0.475 would not be grown to, and is not given up"
    )
    assert size_that_pays({1: 100, 4: 170}, 4, 4, 0.5) == 1
    assert size_that_pays({4: 170}, 4, 4, 0.5) == 4
    assert size_that_pays({1: 100, 2: 50}, 2, 4, 0.0) == 4, "all are to be used"


@pytest.mark.parametrize(
    ("gpus", "slots", "each"),
    [
        ("0123", 4, ["0", "1", "2", "3"]),
        ("0123", 2, ["01", "23"]),
        ("0", 2, ["0", "0"]),  # --gpus 0.5
        ("01", 4, ["0", "0", "1", "1"]),
    ],
)
def test_ranks_of_a_node_have_gpus(gpus: str, slots: int, each: list[str]) -> None:
    assert ["".join(gpus_of(list(gpus), slots, place)) for place in range(slots)] == each


def test_the_timeline_says_what_a_stall_cost() -> None:
    now = [100.0]
    timeline = Timeline("x", clock=lambda: now[0])
    for step, time in ((0, 102.0), (1, 103.0), (2, 104.0)):
        now[0] = time
        timeline.progress(step, 0)
    timeline.stall("eviction")
    now[0] = 105.5
    timeline.progress(2, 2)
    summary = timeline.summary("finished", 0, {}, "steps")
    assert summary["seconds_lost"] == {"eviction": 1.5, "start": 2.0}
    assert (summary["seconds_trained"], summary["steps_redone"]) == (2.0, 1)


def test_without_steps_the_time_of_the_ranks_is_what_counts() -> None:
    now = [100.0]
    timeline = Timeline("x", clock=lambda: now[0])
    for moment, act, cause in (
        (103.0, timeline.run, ""),
        (110.0, timeline.stall, "failure"),
        (111.0, timeline.stall, "lost node"),
        (112.5, timeline.run, ""),
    ):
        now[0] = moment
        act(*([cause] if cause else []))
    now[0] = 120.0
    summary = timeline.summary("finished", 0, {}, "steps")
    assert summary["seconds_lost"] == {"lost node": 2.5, "start": 3.0}
    assert (summary["seconds_trained"], summary["seconds"], summary["steps"]) == (14.5, 20.0, 0)


def test_the_imports_of_a_script() -> None:
    source = "from __future__ import annotations\nimport torch.nn as nn\ntry:\n    import x\nexcept ImportError: pass\n"
    source += "from a.b import c\nfrom . import d\ndef f():\n    import late\n"
    assert imported_modules(source, "s.py") == ["torch.nn", "x", "a.b"]
    with pytest.raises(ArcError, match=r"s\.py:1: not Python"):
        imported_modules("def (", "s.py")
