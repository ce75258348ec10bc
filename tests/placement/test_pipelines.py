"""Pipelines of kfp, compiled to YAML. The expected settings are those that the SDK itself writes, kfp 2.17:
`kubernetes.add_toleration`, `add_node_selector`, `add_node_affinity`, and `task.set_retry`."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.placement.support import KEY, TOLERATION, expression, place, placed

SELECTOR = {"labels": {KEY: "spot"}}
HEAD = "# PIPELINE DEFINITION\n# Name: p\n"


def task(component: str) -> dict[str, Any]:
    return {"componentRef": {"name": f"comp-{component}"}, "taskInfo": {"name": component}}


def container() -> dict[str, Any]:
    return {"container": {"image": "busybox", "command": ["echo", "{{$.inputs.parameters['x']}}"]}}


PIPELINE: dict[str, Any] = {
    "components": {
        "comp-train": {"executorLabel": "exec-train"},
        "comp-report": {"executorLabel": "exec-report"},
        "comp-importer": {"executorLabel": "exec-importer"},
        "comp-inner": {"dag": {"tasks": {"report": task("report")}}},
    },
    "deploymentSpec": {
        "executors": {
            "exec-importer": {"importer": {"artifactUri": {"constant": "gs://x"}}},
            "exec-report": container(),
            "exec-train": container(),
        }
    },
    "pipelineInfo": {"name": "p"},
    "root": {"dag": {"tasks": {name: task(name) for name in ("importer", "inner", "train")}}},
    "schemaVersion": "2.1.0",
}


def text(executors: dict[str, Any] | None = None, pipeline: dict[str, Any] = PIPELINE) -> str:
    documents = [pipeline]
    if executors is not None:
        documents.append(
            {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
        )
    return HEAD + str(yaml.safe_dump_all(documents))


def settings(after: list[Any]) -> Any:
    pipeline, platform = after
    assert pipeline == PIPELINE
    return platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


def test_a_second_document_is_added_for_every_task_that_runs_a_container() -> None:
    own = {"tolerations": [TOLERATION], "nodeSelector": SELECTOR}
    assert settings(placed(text())) == {"exec-report": own, "exec-train": own}
    after = (place(text()).after or b"").decode()
    assert after.startswith(text() + "---\nplatforms:\n")


@pytest.mark.parametrize(
    ("spot", "expected"),
    [
        (
            "prefer",
            {
                "tolerations": [TOLERATION],
                "nodeAffinity": [{"matchExpressions": [expression()], "weight": 100}],
            },
        ),
        ("avoid", {"nodeAffinity": [{"matchExpressions": [expression("NotIn")]}]}),
    ],
)
def test_prefer_has_a_weight_and_avoid_is_required(spot: str, expected: dict[str, Any]) -> None:
    assert settings(placed(text(), spot, roles=frozenset(["train"]))) == {"exec-train": expected}


def test_what_is_there_stays_and_counts() -> None:
    own = {
        "exec-train": {
            "nodeSelector": {"labels": {"sku": "gpu"}},
            "tolerations": [{"key": KEY, "operator": "Exists"}],
            "secretAsEnv": [{"secretName": "s"}],
        },
        "exec-report": {"tolerations": [TOLERATION], "nodeSelector": SELECTOR},
    }
    after = settings(placed(text(own)))
    assert after["exec-report"] == own["exec-report"]
    assert after["exec-train"] == {
        **own["exec-train"],
        "nodeSelector": {"labels": {"sku": "gpu", KEY: "spot"}},
    }


def test_required_terms_are_alternatives_so_each_of_them_excludes_spot_nodes() -> None:
    zones = [{"matchExpressions": [expression(key="zone", value=zone)]} for zone in "ab"]
    preferred = {"matchExpressions": [expression(key="disk", value="ssd")], "weight": 5}
    own = {"exec-train": {"nodeAffinity": [zones[0], preferred, zones[1]]}}
    terms = settings(placed(text(own), "avoid", roles=frozenset(["train"])))["exec-train"][
        "nodeAffinity"
    ]
    excluded = expression("NotIn")
    assert terms[1] == preferred
    assert [terms[0]["matchExpressions"][1], terms[2]["matchExpressions"][1]] == [
        excluded,
        excluded,
    ]


@pytest.mark.parametrize(
    ("own", "spot", "reason"),
    [
        (
            {"nodeSelector": {"labels": {"agentpool": "cpu"}}},
            "require",
            "pinned to one pool by agentpool=cpu",
        ),
        ({"nodeSelector": SELECTOR}, "avoid", "asks for spot nodes"),
        ({"nodeSelector": SELECTOR}, "prefer", "cannot fall back"),
        (
            {"nodeAffinity": [{"matchExpressions": [expression("NotIn")]}]},
            "require",
            "keeps it off spot nodes",
        ),
        (
            {"tolerations": [{"tolerationJson": {"componentInputParameter": "t"}}]},
            "require",
            "a pipeline parameter",
        ),
    ],
)
def test_what_contradicts_is_refused_with_the_reason(
    own: dict[str, Any], spot: str, reason: str
) -> None:
    result = place(text({"exec-train": own}), spot, roles=frozenset(["train"]))
    assert result.after is None
    assert reason in (result.refused or "")
    (finding,) = result.findings
    assert finding.message == "pipeline p, task train is not changed"


def test_an_executor_of_two_tasks_is_not_changed_for_one_of_them() -> None:
    tasks = {"train": task("train"), "again": task("train")}
    pipeline = {**PIPELINE, "root": {"dag": {"tasks": tasks}}}
    assert (
        place(text(None, pipeline), roles=frozenset(["again"])).refused
        == "train runs with the same executor"
    )
    assert place(text(None, pipeline)).after is not None


def test_retries_are_set_with_a_warning_that_they_are_for_errors() -> None:
    result = place(text(), None, retries=3)
    (after,) = yaml.safe_load_all(result.after or b"")  # and no empty second document
    policy = {"maxRetryCount": 3}
    assert after["root"]["dag"]["tasks"]["train"]["retryPolicy"] == policy
    assert after["components"]["comp-inner"]["dag"]["tasks"]["report"]["retryPolicy"] == policy
    assert "retryPolicy" not in after["root"]["dag"]["tasks"]["importer"]
    (finding,) = result.findings
    assert "does not retry deleted pods" in finding.reason


def test_there_is_no_grace_period() -> None:
    result = place(text(), None, grace=20)
    assert result.after is None
    assert result.refused == "kfp has no field for it"


def test_both_parts_may_be_fields_of_a_pipeline_version() -> None:
    version = {
        "apiVersion": "pipelines.kubeflow.org/v2beta1",
        "kind": "PipelineVersion",
        "metadata": {"name": "p"},
        "spec": {"pipelineSpec": PIPELINE},
    }
    (after,) = placed(yaml.safe_dump(version), roles=frozenset(["train"]))
    executors = after["spec"]["platformSpec"]["platforms"]["kubernetes"]["deploymentSpec"][
        "executors"
    ]
    assert executors == {"exec-train": {"tolerations": [TOLERATION], "nodeSelector": SELECTOR}}
    assert after["spec"]["pipelineSpec"] == PIPELINE


def test_a_pipeline_in_json_has_no_place_for_it() -> None:
    import json

    result = place(json.dumps(PIPELINE, indent=2))
    assert "compile it to YAML" in (result.refused or "")


def test_line_ends_stay() -> None:
    after = place(text().replace("\n", "\r\n").removesuffix("\r\n")).after or b""
    assert after.count(b"\n") == after.count(b"\r\n")
