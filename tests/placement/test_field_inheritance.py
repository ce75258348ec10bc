"""Parts that inherit: what a workflow of Argo and a run of Tekton say for all must still reach each of their pods.

The scheduling fields of a pod are those of its template, else of the template that calls it, else of the workflow
(argo-workflows, workflow/controller/workflowpod.go, addSchedulingConstraints); those of a task are its own, else those
of the run (tektoncd/pipeline, pkg/apis/pipeline/pod/template.go, MergePodTemplateWithDefault).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.placement.goldens import head
from tests.placement.support import TOLERATION, expression, place, placed, required

OWN = {"key": "gpu", "operator": "Exists"}
STEPS = "  - name: main\n    steps: [[{name: a, template: train}]]\n"
TRAIN = "  - name: train\n    container: {image: train}\n"


def workflow(spec: str, kind: str = "Workflow") -> str:
    return head("argoproj.io/v1alpha1", kind, spec)


def pods_of(document: Any, caller: str = "main", name: str = "train") -> dict[str, Any]:
    """What the pods of a template get."""
    spec = document["spec"]
    templates = {row["name"]: row for row in spec["templates"]}
    holders = (templates[name], templates.get(caller, {}), spec)
    return {
        field: next((holder[field] for holder in holders if holder.get(field)), None)
        for field in ("tolerations", "affinity")
    }


@pytest.mark.parametrize("kind", ["Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate"])
@pytest.mark.parametrize(
    "spec",
    [
        "  tolerations: [{key: gpu, operator: Exists}]\n  templates:\n" + STEPS + TRAIN,
        "  templates:\n"
        + STEPS.replace("steps", "tolerations: [{key: gpu, operator: Exists}]\n    steps")
        + TRAIN,
        "  templates:\n" + STEPS + TRAIN + "    tolerations: [{key: gpu, operator: Exists}]\n",
        "  tolerations: [{key: gpu, operator: Exists}]\n  templates:\n"
        + STEPS
        + TRAIN
        + "    tolerations: []\n",
    ],
    ids=["of the workflow", "of the caller", "its own", "an empty list"],
)
def test_a_toleration_of_the_user_still_reaches_the_pods(spec: str, kind: str) -> None:
    (document,) = placed(workflow(spec, kind))
    assert pods_of(document) == {
        "tolerations": [OWN, TOLERATION],
        "affinity": required(expression()),
    }


def test_a_template_named_workflow_is_a_template() -> None:
    text = workflow("  templates:\n  - name: workflow\n    container: {image: train}\n")
    (document,) = placed(text, grace=25)
    assert document["spec"]["templates"] == [{"name": "workflow", "container": {"image": "train"}}]


@pytest.mark.parametrize(
    ("spec", "at"),
    [
        ("steps: [[{name: a, inline: {container: {image: train}}}]]", ("steps", 0, 0)),
        ("dag: {tasks: [{name: a, inline: {container: {image: train}}}]}", ("dag", "tasks", 0)),
    ],
    ids=["steps", "dag"],
)
def test_a_template_inside_a_step_is_a_template(spec: str, at: tuple[str | int, ...]) -> None:
    (document,) = placed(
        workflow(f"  templates:\n  - name: main\n    {spec}\n", "WorkflowTemplate"), retries=2
    )
    step = document["spec"]["templates"][0]
    for part in at:
        step = step[part]
    assert step["inline"]["tolerations"] == [TOLERATION]
    assert step["inline"]["affinity"] == required(expression())
    assert step["inline"]["retryStrategy"] == {"limit": "2", "retryPolicy": "Always"}


RUN = "  pipelineRef: {name: p}\n  taskRunTemplate: {podTemplate: {tolerations: [{key: gpu, operator: Exists}]}}\n"
TASK = "  taskRunSpecs:\n  - pipelineTaskName: train\n    podTemplate: "


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("{hostNetwork: true}", [OWN, TOLERATION]),
        (
            "{tolerations: [{key: other, operator: Exists}]}",
            [{"key": "other", "operator": "Exists"}, TOLERATION],
        ),
        ("{tolerations: []}", [TOLERATION]),
    ],
)
def test_a_task_of_tekton_keeps_what_it_has_from_its_run(own: str, expected: list[Any]) -> None:
    (document,) = placed(head("tekton.dev/v1", "PipelineRun", f"{RUN}{TASK}{own}\n"))
    spec = document["spec"]
    pods = {**spec["taskRunTemplate"]["podTemplate"], **spec["taskRunSpecs"][0]["podTemplate"]}
    assert pods["tolerations"] == expected
    assert pods["affinity"] == required(expression())


def test_one_task_alone_would_lose_what_it_inherits() -> None:
    text = head("tekton.dev/v1", "PipelineRun", f"{RUN}{TASK}{{hostNetwork: true}}\n")
    result = place(text, roles=frozenset(["train"]))
    assert result.after is None
    assert "those of the whole run" in str(result.refused)
