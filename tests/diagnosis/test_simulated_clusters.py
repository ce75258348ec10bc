"""The verdicts on simulated clusters with a known truth: two reports per scenario; see `scripts/bench verdicts`."""

from __future__ import annotations

import pytest

from scripts.benchmarks.fleetsim.measure import Result, measure
from scripts.benchmarks.fleetsim.scenarios import SCENARIOS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return {
        result.scenario.name: result for result in (measure(made(), range(2)) for made in SCENARIOS)
    }


def test_at_most_one_good_node_is_called_bad_in_two_reports(results: dict[str, Result]) -> None:
    assert {
        name: result.bad.wrong for name, result in results.items() if result.bad.wrong > 1
    } == {}


def test_nine_of_ten_bad_verdicts_are_right(results: dict[str, Result]) -> None:
    right = sum(result.bad.right for result in results.values())
    wrong = sum(result.bad.wrong for result in results.values())
    assert right >= 9 * wrong
    assert right > 50


def test_a_blip_makes_no_node_bad(results: dict[str, Result]) -> None:
    assert results["blip"].bad.wrong == results["no-bad"].bad.wrong == 0


def test_more_bad_nodes_are_found_than_by_the_plain_rule_and_more_than_half(
    results: dict[str, Result],
) -> None:
    found = sum(result.bad.right for result in results.values())
    assert found > sum(result.plain.right for result in results.values())
    assert 2 * found > sum(result.bad.bad for result in results.values())


def test_never_more_than_a_tenth_of_a_pool_is_to_be_cordoned(results: dict[str, Result]) -> None:
    assert max(result.most_cordoned for result in results.values()) <= 0.1


def test_gpu_nodes_that_exit_1_are_found(results: dict[str, Result]) -> None:
    found = results["bad-gpu"].bad.recall_gpu
    assert found is not None
    assert found >= 0.5
