"""Manifests inside of text: Argo's `resource` templates and Katib's trial templates are placed inside."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from arc_toolkit.placement.place_files import CheckedManifests
from arc_toolkit.placement.place_plan import PlaceSettings
from tests.placement.goldens import indent
from tests.placement.support import KEY, TOLERATION, expression, place, placed, required

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  generateName: {{inputs.parameters.name}}-
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: train}
"""


def workflow(action: str = "create", manifest: str = JOB, more: str = "") -> str:
    return f"""\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {{name: w}}
spec:
  entrypoint: submit
{more}  templates:
  - name: submit
    resource:
      action: {action}
      manifest: |
{indent(manifest, 8)}"""


def inner(document: Any) -> Any:
    text = document["spec"]["templates"][0]["resource"]["manifest"]
    return yaml.safe_load(text.replace("{{inputs.parameters.name}}", "x"))


CONTAINER = "  - name: run\n    container: {image: train}\n"


def test_the_workload_inside_is_placed_and_the_pod_that_waits_stays_off() -> None:
    (document,) = placed(workflow(), retries=3)
    job = inner(document)["spec"]
    assert job["template"]["spec"]["tolerations"] == [TOLERATION]
    assert job["template"]["spec"]["affinity"] == required(expression())
    assert job["backoffLimit"] == 3
    template = document["spec"]["templates"][0]
    assert template["affinity"] == required(expression("NotIn"))
    # Nothing else runs in this workflow, so that it needs nothing itself; nothing is created twice.
    assert "tolerations" not in document["spec"]
    assert "retryStrategy" not in template
    assert "{{inputs.parameters.name}}-" in template["resource"]["manifest"]


def test_only_lines_are_added() -> None:
    result = place(workflow(more="").replace("  - name: submit", f"{CONTAINER}  - name: submit"))
    lines = (result.after or b"").decode().splitlines()
    assert [line for line in lines if line in workflow().splitlines()]
    for line in workflow().splitlines():
        assert line in lines
    (note,) = [entry for entry in result.findings if entry.rule == "coordinator-on-spot"]
    assert note.message == "Workflow w: submit stays off spot nodes"


def test_other_templates_get_retries() -> None:
    text = workflow().replace("  - name: submit", f"{CONTAINER}  - name: submit", 1)
    (document,) = placed(text, None, retries=3)
    run, submit = document["spec"]["templates"]
    assert run["retryStrategy"] == {"limit": "3", "retryPolicy": "Always"}
    assert "retryStrategy" not in submit


def test_a_strategy_for_all_templates_would_create_twice() -> None:
    result = place(workflow(more="  templateDefaults: {retryStrategy: {limit: 2}}\n"), retries=3)
    (finding,) = [entry for entry in result.findings if entry.rule == "retries"]
    assert "a second time" in finding.reason
    assert "Always" not in (result.after or b"").decode()


@pytest.mark.parametrize("action", ["get", "delete", "patch"])
def test_nothing_is_created_by_other_actions(action: str) -> None:
    (document,) = placed(workflow(action))
    assert "tolerations" not in inner(document)["spec"]["template"]["spec"]


def test_findings_inside_have_the_line_of_the_file() -> None:
    pinned = JOB.replace("      restartPolicy", "      nodeName: n\n      restartPolicy")
    text = workflow(manifest=pinned)
    (finding,) = [entry for entry in place(text).findings if entry.rule == "spot"]
    assert text.splitlines()[finding.line - 1].strip() == "nodeName: n"
    assert finding.message == "Job {{inputs.parameters.name}}- is not changed"


def test_what_cannot_be_read_is_refused() -> None:
    result = place(workflow(manifest="apiVersion: [\n"))
    assert any("not changed" in entry.message for entry in result.findings)
    assert result.findings[0].severity == "warning"


def test_check_looks_inside_too() -> None:
    on_spot = JOB.replace(
        "      restartPolicy", f"      nodeSelector: {{{KEY}: spot}}\n      restartPolicy"
    )
    found = CheckedManifests(PlaceSettings()).process("x.yaml", workflow(manifest=on_spot).encode())
    assert "spot-without-toleration" in {entry.rule for entry in found.findings}
    result = place(workflow(), grace=25, retries=3)
    found = CheckedManifests(PlaceSettings()).process("x.yaml", result.after or b"")
    assert found.findings == ()


AVOID = "# arc-toolkit: spot=avoid because it must stay\n"


def test_an_intent_in_the_text_is_about_the_workload_inside() -> None:
    (document,) = placed(workflow(manifest=AVOID + JOB))
    assert document["spec"]["templates"][0]["affinity"] == required(expression("NotIn"))
    assert "tolerations" not in inner(document)["spec"]["template"]["spec"]
    assert place(AVOID + workflow()).after is None


def test_kinds_are_chosen_inside() -> None:
    text = workflow()
    (document,) = placed(text, kinds=frozenset(["job"]))
    assert "affinity" not in document["spec"]["templates"][0]
    assert "tolerations" in inner(document)["spec"]["template"]["spec"]


TRIALS = f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: trials
  labels: {{katib.kubeflow.org/component: trial-templates}}
data:
  trial.yaml: |-
{indent(JOB.replace("{{inputs.parameters.name}}-", "x"), 4)}"""


def test_a_trial_template_of_katib_is_placed() -> None:
    (document,) = placed(TRIALS)
    job = yaml.safe_load(document["data"]["trial.yaml"])
    assert job["spec"]["template"]["spec"]["tolerations"] == [TOLERATION]
    assert place(TRIALS).findings == ()
    assert place(TRIALS.replace("katib.kubeflow.org/component", "app")).after is None


@pytest.mark.parametrize("where", ["pipelineSpec", "Pipeline", "pipelineRef"])
def test_retries_of_tekton_are_those_of_tasks(where: str) -> None:
    tasks = "tasks: [{name: a, taskRef: {name: t}}, {name: b, retries: 1, taskRef: {name: t}}]"
    head = "apiVersion: tekton.dev/v1\nmetadata: {name: x}\n"
    if where == "Pipeline":
        (document,) = placed(f"{head}kind: Pipeline\nspec:\n  {tasks}\n", None, retries=3)
        rows = document["spec"]["tasks"]
    elif where == "pipelineSpec":
        text = f"{head}kind: PipelineRun\nspec:\n  pipelineSpec:\n    {tasks}\n"
        (document,) = placed(text, None, retries=3)
        rows = document["spec"]["pipelineSpec"]["tasks"]
    else:
        text = f"{head}kind: PipelineRun\nspec:\n  pipelineRef: {{name: p}}\n"
        assert "tasks of its Pipeline" in str(place(text, None, retries=3).refused)
        return
    assert [row["retries"] for row in rows] == [3, 1]
