"""Which runs belong to one sweep or pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.diagnosis.assemble import attempts
from tests.diagnosis import made

GUID = "0f9e8d7c-1111-2222-3333-444455556666"


def family_of(pod: dict[str, Any]) -> str:
    (attempt,) = attempts.build([], made.cluster(pods=[pod])).attempts
    return attempt.family


@pytest.mark.parametrize(
    ("run", "family"),
    [
        (f"HD_{GUID}_12", f"HD_{GUID}"),
        (f"AutoML_{GUID}_0", f"AutoML_{GUID}"),
        ("polite_crab_9q1w2e3r4t_39", "polite_crab_9q1w2e3r4t"),
        # Not trials: a generated name, a person's own numbering, leading zeros.
        ("polite_crab_9q1w2e3r4t", "polite_crab_9q1w2e3r4t"),
        ("train_7", "train_7"),
        ("paper_sky_0001", "paper_sky_0001"),
        ("polite_crab_9q1w2e3r4t_007", "polite_crab_9q1w2e3r4t_007"),
    ],
)
def test_the_name_of_a_trial_has_its_sweep(run: str, family: str) -> None:
    assert family_of(made.pod(run)) == family


@pytest.mark.parametrize(
    "key",
    [
        "ml.azure.com/parent-run-id",
        "azureml.rootRunId",
        "ml.azure.com/sweep-job-name",
        "pipeline_job_name",
    ],
)
@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_a_label_or_annotation_names_the_parent(key: str, part: str) -> None:
    pod = made.pod("train_7")
    pod["metadata"].setdefault(part, {})[key] = "the_parent"
    assert family_of(pod) == "the_parent"


def test_the_outermost_parent_counts() -> None:
    pod = made.pod("train_7")
    pod["metadata"]["labels"] |= {
        "ml.azure.com/parent-run-id": "sweep",
        "ml.azure.com/root-run-id": "pipeline",
    }
    assert family_of(pod) == "pipeline"


def test_the_variable_of_azureml_names_the_root() -> None:
    pod = made.pod("train_7")
    pod["spec"]["containers"] = [{"env": [{"name": "AZUREML_ROOT_RUN_ID", "value": "pipeline"}]}]
    assert family_of(pod) == "pipeline"


def test_other_labels_are_not_parents() -> None:
    pod = made.pod("train_7")
    pod["metadata"]["labels"] |= {
        "ml.azure.com/compute": "a",
        "run": "b",
        "ml.azure.com/workspace": "c",
    }
    assert family_of(pod) == "train_7"
