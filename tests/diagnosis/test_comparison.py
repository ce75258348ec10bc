"""Nodes against the rest of their pool, by counts alone."""

from __future__ import annotations

from arc_toolkit.diagnosis.comparison import Comparison, Record, compare


def pool(*odd: tuple[int, int]) -> dict[str, Comparison]:
    """55 nodes that fail about 2 % of 38 votes, and others with (failures, votes)."""
    counts = [(failures, 38) for failures, nodes in enumerate((27, 18, 7, 3)) for _ in range(nodes)] + list(odd)
    return compare({f"n{number}": Record("a100", *count, count[1]) for number, count in enumerate(counts)})


def test_bad_nodes_that_barely_show_do_not_hide_the_others() -> None:
    # Five bad nodes of one simulated cluster. Counted as part of the rest, the weaker ones make it look uneven.
    compared = pool((10, 43), (12, 36), (5, 35), (4, 16), (4, 27))
    assert all(compared[f"n{number}"].bad for number in range(55, 60))
    assert not any(compared[f"n{number}"].bad for number in range(55))


def test_a_pool_whose_nodes_differ_by_nature_convicts_no_node_that_is_like_many_others() -> None:
    # Ten nodes with 12 % beside 55 with 2 %: more than a tenth of the pool, so that is how this pool is.
    compared = pool(*[(6, 50)] * 10)
    assert not any(comparison.bad for comparison in compared.values())


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
