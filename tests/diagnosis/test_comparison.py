"""Nodes against the rest of their pool, by counts alone."""

from __future__ import annotations

from collections import Counter

from arc_toolkit.diagnosis.judge.comparison import Comparison, NodeCounts, compare
from arc_toolkit.diagnosis.judge.node_votes import FailedVote
from arc_toolkit.diagnosis.model import CauseKind


def pool(*odd: tuple[int, int]) -> dict[str, Comparison]:
    """55 nodes that fail about 2 % of 38 votes, and others with (failures, votes)."""
    counts = [
        (failures, 38) for failures, nodes in enumerate((27, 18, 7, 3)) for _ in range(nodes)
    ] + list(odd)
    return compare(
        {f"n{number}": record(FailedVote(None), *count) for number, count in enumerate(counts)}
    )


def record(vote: FailedVote, failures: int, votes: int) -> NodeCounts:
    return NodeCounts("a100", (vote,) * failures, Counter({vote.size: votes}), votes)


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


def shared(suspects: int, *odd: tuple[int, int]) -> dict[str, Comparison]:
    """60 nodes that run gangs of 8 and are one of the suspects of 6 in 40 failures each, and others."""
    vote = FailedVote(CauseKind.UNKNOWN, suspects, 8)
    counts = [(6, 40)] * 60 + list(odd)
    return compare({f"n{number}": record(vote, *count) for number, count in enumerate(counts)})


def test_a_failure_counts_the_less_the_more_nodes_may_have_caused_it() -> None:
    # The rest fails in 6 of 40, and each time one of eight nodes may be the cause.
    assert shared(8, (22, 40))["n60"].bad
    assert not shared(8, (10, 40))["n60"].suspect
    assert shared(2, (22, 40))["n60"].p_value < 1e-4


def test_gangs_that_fail_more_often_because_they_are_larger_convict_no_node() -> None:
    # n60 runs only gangs of 16, in which the other ranks fail too; elsewhere few of them run.
    small, large = FailedVote(CauseKind.UNKNOWN), FailedVote(CauseKind.UNKNOWN, 16, 16)
    records = {f"n{number}": record(small, 1, 40) for number in range(60)}
    for number in range(20):
        records[f"n{number}"] = NodeCounts(
            "a100", (small, large, large), Counter({1: 35, 16: 8}), 43
        )
    records["n60"] = record(large, 12, 40)
    compared = compare(records)
    assert not compared["n60"].suspect
    records["n60"] = record(small, 12, 40)
    assert compare(records)["n60"].bad


def test_a_kind_of_failure_that_the_pool_hardly_has_is_large_by_itself() -> None:
    lost, own = FailedVote(None), FailedVote(CauseKind.USER)
    records = {f"n{number}": record(lost, 2, 60) for number in range(60)}
    records["n60"] = NodeCounts("a100", (own,) * 6, Counter({1: 60}), 60)
    assert compare(records)["n60"].bad
    records["n60"] = NodeCounts("a100", (lost,) * 6, Counter({1: 60}), 60)
    assert not compare(records)["n60"].bad
