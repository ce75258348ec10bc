"""Job, attempt and rank from the path of a log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis.identities import locate

LOG = "amlarc_cr_bootstrap.log"


@pytest.mark.parametrize(
    ("path", "job", "number", "rank"),
    [
        (f"d/brave/system_logs/{LOG}", "brave", 0, None),
        (f"d/brave/system_logs/retry-001/{LOG}", "brave", 1, None),
        (f"d/brave/system_logs/lifecycler/retry_035/{LOG}", "brave", 35, None),
        (f"d/brave/retry-002/system_logs/{LOG}", "brave", 2, None),
        (f"d/brave/artifacts/system_logs/{LOG}", "brave", 0, None),
        (f"d/brave/artifacts/retry-003/system_logs/{LOG}", "brave", 3, None),
        (f"d/brave/named-outputs/default/system_logs/{LOG}", "brave", 0, None),
        (f"ExperimentRun/dcid.brave_1/system_logs/{LOG}", "brave_1", 0, None),
        (f"azureml:brave/system_logs/retry-001/{LOG}", "brave", 1, None),
        (f"down/brave.zip/system_logs/{LOG}", "brave", 0, None),
        (f"down/all.zip/brave/system_logs/{LOG}", "brave", 0, None),
        (f"logs/brave/{LOG}", "brave", 0, None),
        (f"d/brave/logs/{LOG}", "brave", 0, None),
        (f"d/brave/retry-001/{LOG}", "brave", 1, None),
        (f"d/brave/logs/retry-001/{LOG}", "brave", 1, None),
        (f"d/brave/logs/retry-001/worker-2/{LOG}", "brave", 1, "worker-2"),
        (f"logs/brave/retry-001/{LOG}", "brave", 1, None),
        (f"d/brave/worker-3/retry-001/{LOG}", "brave", 1, "worker-3"),
        (f"d/brave/system_logs/0a1b-master-0/{LOG}", "brave", 0, "master-0"),
        (f"d/brave/system_logs/10.244.0.7/{LOG}", "brave", 0, "10.244.0.7"),
        (f"d/brave/worker-2/system_logs/{LOG}", "brave", 0, "worker-2"),
        ("d/brave/rank_1/user_logs/retry-001/std_log.txt", "brave", 1, "rank-1"),
        (f"d/node-1/system_logs/{LOG}", "node-1", 0, None),
        ("d/brave/system_logs/amlarc_cr_bootstrap_rank_07.log", "brave", 0, "rank-7"),
        ("d/brave/logs/sys/perf/10.0.0.4/node_resource_usage.csv", "brave", 0, "10.0.0.4"),
    ],
)
def test_the_layouts_that_are_known(path: str, job: str, number: int, rank: str | None) -> None:
    place = locate(path)
    assert (place.job, place.number, place.rank) == (job, number, rank)


def test_two_jobs_of_one_name_have_two_roots() -> None:
    one, other = locate(f"a/train/system_logs/{LOG}"), locate(f"b/train/system_logs/{LOG}")
    assert one.job == other.job
    assert one.root != other.root


def test_a_source_given_from_inside_the_job_is_named_after_the_folder_it_is_in(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    for path in (f"system_logs/{LOG}", f"./system_logs/{LOG}", LOG):
        assert locate(path).job == str(tmp_path).rsplit("/", 1)[-1]


def test_a_folder_that_only_looks_like_a_retry_is_a_job() -> None:
    assert locate(f"d/retry-later/system_logs/{LOG}").job == "retry-later"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["retry-1", "system_logs", "logs", "artifacts", "..", ".", "", "j", "worker-0", "sys"]
        )
    )
)
def test_any_path_is_located_without_a_fault(parts: list[str]) -> None:
    place = locate("/".join([*parts, LOG]))
    assert place.number >= 0
