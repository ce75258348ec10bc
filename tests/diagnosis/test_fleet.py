"""The rule on simulated fleets: few seeds here, two hundred in `scripts/bench fleet`."""

from __future__ import annotations

from arc_toolkit.diagnosis.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.model import RunOutcome
from arc_toolkit.diagnosis.verdicts import judge
from scripts.benchmarks.fleet import Fleet, ours, score, simulate, two_failures


def test_bad_nodes_are_found_and_no_good_one_is_named() -> None:
    result = score(Fleet("3000 jobs", 100, 3000, 4), {"ours": ours}, range(4))["ours"]
    assert result.precision == 1.0
    assert result.recall is not None
    assert result.recall >= 0.9


def test_few_jobs_give_few_verdicts_but_no_wrong_ones() -> None:
    result = score(Fleet("600 jobs", 100, 600, 4), {"ours": ours, "naive": two_failures}, range(10))
    assert result["ours"].wrong == 0
    assert result["naive"].wrong > 50


def test_no_bad_node_means_no_bad_verdict() -> None:
    assert score(Fleet("no bad node, 600 jobs", 100, 600, 0), {"ours": ours}, range(10))["ours"].wrong == 0


def test_jobs_that_fail_everywhere_are_named() -> None:
    attempts, _ = simulate(Fleet("3000 jobs", 100, 3000, 0), 1)
    _, everywhere, _ = judge(attempts, ClusterIndex())
    broken = {f"job-{number}" for number in range(12)}
    succeeded = {attempt.job for attempt in attempts if attempt.outcome is RunOutcome.SUCCEEDED}
    assert len(everywhere & broken) >= 5
    assert not everywhere & succeeded
    assert len(everywhere - broken) <= 3
