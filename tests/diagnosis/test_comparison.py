"""Nodes against the rest of their pool, by counts alone."""

from __future__ import annotations

import pytest

from arc_toolkit.diagnosis.judge.comparison import Comparison, NodeCounts, compare
from arc_toolkit.diagnosis.judge.node_votes import Count

ORDINARY = [(failures, 38) for failures, nodes in enumerate((27, 18, 7, 3)) for _ in range(nodes)]


def records(*counts: tuple[int, int]) -> dict[str, NodeCounts]:
    """Nodes with (failures, votes)."""
    return {
        f"n{number}": NodeCounts("a100", {"jobs of 1": Count(*count)}, count[1])
        for number, count in enumerate(counts)
    }


def pool(*odd: tuple[int, int]) -> dict[str, Comparison]:
    """55 nodes that fail about 2 % of 38 votes, and others with (failures, votes)."""
    return compare(records(*ORDINARY, *odd))[0]


def test_bad_nodes_that_barely_show_do_not_hide_the_others() -> None:
    # Five bad nodes of one simulated cluster. Counted as part of the rest, the weaker ones make it look uneven.
    compared = pool((10, 43), (12, 36), (5, 35), (4, 16), (4, 27))
    assert all(compared[f"n{number}"].bad for number in range(55, 60))
    assert not any(compared[f"n{number}"].bad for number in range(55))


def test_bad_nodes_that_barely_show_do_not_hide_the_one_that_is_clear() -> None:
    # Another simulated cluster: no weak one stands out at first, and counted as part of the rest they cleared (12, 66).
    compared = pool((12, 66), (6, 49), (5, 41), (4, 29), (3, 21))
    assert compared["n55"].bad
    assert not any(compared[f"n{number}"].bad for number in range(55))


def test_without_a_clear_bad_node_a_doubtful_one_is_only_suspect() -> None:
    alone, beside = pool((5, 26)), pool((5, 26), (15, 38))
    assert not alone["n55"].bad
    assert alone["n55"].suspect
    assert beside["n55"].bad


@pytest.mark.parametrize(("bad", "size"), [(1, 8), (2, 10), (3, 10), (4, 20), (6, 20), (12, 40)])
def test_up_to_three_bad_nodes_in_ten_are_named(bad: int, size: int) -> None:
    counts = [(12, 40)] * bad + [(number % 3 and 1, 40) for number in range(size - bad)]
    compared, uneven = compare(records(*counts))
    assert [name for name, result in compared.items() if result.bad] == [
        f"n{number}" for number in range(bad)
    ]
    assert not uneven


def test_where_many_fail_more_often_the_two_groups_are_named_and_no_node() -> None:
    compared, (uneven,) = compare(records(*[(12, 40)] * 10, *[(1, 40)] * 10))
    assert not any(result.bad for result in compared.values())
    assert uneven.pool == "a100"
    assert set(uneven.worse) == {f"n{number}" for number in range(10)}
    assert set(uneven.better) == {f"n{number}" for number in range(10, 20)}
    assert (uneven.worse_rate, uneven.better_rate) == (0.3, 0.025)


def test_an_even_pool_convicts_nobody() -> None:
    compared, uneven = compare(records(*[(number % 5, 40) for number in range(20)]))
    assert not any(result.suspect for result in compared.values())
    assert not uneven


def test_a_sweep_that_fails_here_and_not_elsewhere_counts_trial_by_trial() -> None:
    here = {"jobs of 1": Count(0, 20), "sweep": Count(10, 10)}
    elsewhere = {"jobs of 1": Count(1, 40), "sweep": Count(0, 5)}
    nodes = {f"n{number}": NodeCounts("a100", elsewhere, 45) for number in range(10)}
    compared, _ = compare({**nodes, "odd": NodeCounts("a100", here, 30)})
    assert compared["odd"].bad
    alone, _ = compare({**nodes, "odd": NodeCounts("a100", here, 30, witnesses=1)})
    assert alone["odd"].suspect
    assert not alone["odd"].bad


def test_a_sweep_that_fails_everywhere_speaks_against_no_node() -> None:
    here = {"jobs of 1": Count(0, 20), "sweep": Count(10, 10)}
    elsewhere = {"jobs of 1": Count(1, 40), "sweep": Count(5, 5)}
    nodes = {f"n{number}": NodeCounts("a100", elsewhere, 45) for number in range(10)}
    compared, _ = compare({**nodes, "odd": NodeCounts("a100", here, 30)})
    assert not compared["odd"].suspect


def test_gangs_that_fail_more_often_because_they_are_larger_convict_no_node() -> None:
    # n60 runs only gangs of 16, in which the other ranks fail too; elsewhere few of them run.
    nodes = records(*[(1, 40)] * 60)
    for number in range(20):
        strata = {"jobs of 1": Count(1, 35), "jobs of 16": Count(2, 8)}
        nodes[f"n{number}"] = NodeCounts("a100", strata, 43)
    nodes["n60"] = NodeCounts("a100", {"jobs of 16": Count(12, 40)}, 40)
    assert not compare(nodes)[0]["n60"].suspect
    nodes["n60"] = NodeCounts("a100", {"jobs of 1": Count(12, 40)}, 40)
    assert compare(nodes)[0]["n60"].bad


def test_where_most_nodes_fail_more_often_none_of_them_is_even_suspect() -> None:
    compared, (uneven,) = compare(records(*[(12, 40)] * 12, *[(0, 40)] * 8))
    assert len(uneven.worse) == 12
    assert not any(result.bad or result.suspect for result in compared.values())
    assert all(compared[name].in_worse_group for name in uneven.worse)
