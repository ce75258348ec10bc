"""`place` on Python code: the pods that come out, what is refused, and how it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.cli.main import main
from arc_toolkit.edit.code.nodes import plain_data
from arc_toolkit.edit.code.source import Source, parse
from arc_toolkit.findings import FileResult
from arc_toolkit.placement.code.code_objects import find_objects
from arc_toolkit.placement.code.code_plan import CodePlan, read_code
from arc_toolkit.placement.place_files import PlaceFiles
from arc_toolkit.placement.place_plan import PlaceSettings
from arc_toolkit.placement.spot import SpotPolicy
from tests.placement.code_cases import CASES, PATCH, PATCHED_POD, CodeCase, check_objects
from tests.placement.pipeline_cases import PIPELINE_CASES, PipelineCase


def place_python(source: str, spot: str | None = "require", **settings: Any) -> FileResult:
    chosen = PlaceSettings(spot=SpotPolicy(spot) if spot else None, **settings)
    return PlaceFiles(chosen).process("x.py", source.encode(), in_folder=False)


def objects_in(source: str) -> list[Any]:
    """The objects of a source, as `place` reads them; numbers as numbers."""
    found = find_objects(read_code([Source(source, parse(source))]))
    return [_numbers(plain_data(document)) for document in found.documents]


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return int(value[1]) if isinstance(value, tuple) and value[0].endswith(":int") else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_pods_are_the_expected_ones(case: CodeCase) -> None:
    result = place_python(case.source, case.spot, **case.settings)
    reasons = [result.refused or "", *(finding.reason for finding in result.findings)]
    assert any(case.reason in text for text in reasons), reasons
    if not case.reason:
        assert result.refused is None
    if case.pods is None:
        assert result.after is None
        return
    assert result.after is not None, reasons
    after = result.after.decode()
    check_objects(case, objects_in(after))
    assert place_python(after, case.spot, **case.settings).after is None


def test_a_runtime_patch_of_the_kubeflow_sdk() -> None:
    result = place_python(PATCH)
    assert result.after is not None, result.findings
    (train_job,) = objects_in(result.after.decode())
    (patch,) = train_job["spec"]["runtimePatches"]
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert (job["name"], job["template"]["spec"]["template"]["spec"]) == ("node", PATCHED_POD)
    assert "V1Toleration" not in result.after.decode()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "from kubeflow.training import TrainingClient\nclient = TrainingClient()\nclient.train(name='x')\n",
            "TrainingClient.train",
        ),
        (
            "from kubeflow.training import TrainingClient\nTrainingClient().create_job(train_func=print)\n",
            "TrainingClient.create_job",
        ),
        (
            "import kubeflow.katib as katib\nkatib.KatibClient().tune(name='x')\n",
            "KatibClient.tune",
        ),
        (
            "from kubernetes.client import V1PodSpec\nspec = V1PodSpec(containers=[])\n",
            "a pod spec is not changed",
        ),
    ],
)
def test_pods_that_cannot_be_placed_are_reported(source: str, message: str) -> None:
    result = place_python(source)
    assert result.after is None
    assert [message in finding.message for finding in result.findings] == [True]
    assert result.refused == result.findings[0].reason


def test_nothing_is_reported_for_a_job_that_is_given() -> None:
    source = "from kubeflow.training import TrainingClient\nTrainingClient().create_job(job)\n"
    assert place_python(source).skipped is not None


def test_a_notebook_changes_in_its_cell_alone(tmp_path: Path) -> None:
    code = next(case for case in CASES if case.name == "dict-job").source
    cells = [["# Title\n"], ["%pip install kubeflow-katib\n"], code.splitlines(keepends=True)]
    kinds = ["markdown", "code", "code"]
    notebook: dict[str, Any] = {
        "cells": [
            {"cell_type": kind, "source": lines} for kind, lines in zip(kinds, cells, strict=True)
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path = tmp_path / "trial.ipynb"
    path.write_text(json.dumps(notebook, indent=1))
    assert main(["place", str(path), "--spot", "require", "--write"]) == 0
    after = json.loads(path.read_text())
    assert after["cells"][:2] == notebook["cells"][:2]
    case = next(case for case in CASES if case.name == "dict-job")
    check_objects(case, objects_in("".join(after["cells"][2]["source"])))
    assert main(["place", str(path), "--spot", "require", "--check"]) == 0


def test_objects_in_many_cells_stay_apart(tmp_path: Path) -> None:
    code = next(case for case in CASES if case.name == "dict-job").source
    kept = code.replace(
        '"spec": {\n                "con',
        '"spec": {  # arc-toolkit: ignore[spot] no\n                "con',
    )
    assert kept != code
    sources = [text.splitlines(keepends=True) for text in (code, kept, "a = 1\n" * 30, code)]
    cells = [{"cell_type": "code", "source": lines} for lines in sources]
    path = tmp_path / "trials.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}, indent=1))
    assert main(["place", str(path), "--spot", "require", "--write"]) == 0
    after = ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]
    assert ["tolerations" in text for text in after] == [True, False, False, True]
    assert main(["place", str(path), "--spot", "require", "--check"]) == 0


def test_a_broken_cell_is_reported(tmp_path: Path) -> None:
    code = next(case for case in CASES if case.name == "dict-job").source
    cells = [{"cell_type": "code", "source": text} for text in ("for for\n", code)]
    path = tmp_path / "trial.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))
    result = PlaceFiles(PlaceSettings(spot=SpotPolicy.REQUIRE)).process(
        str(path), path.read_bytes(), in_folder=False
    )
    assert result.after is not None
    assert ["cell 1 line 1" in finding.message for finding in result.findings] == [True]


def test_an_ignore_keeps_an_object_as_it_is() -> None:
    code = next(case for case in CASES if case.name == "dict-job").source
    line = next(
        line for line in code.splitlines() if '"spec": {' in line and line.startswith(" " * 12)
    )
    marked = code.replace(line, f"{line}  # arc-toolkit: ignore[spot] tried, too slow")
    assert place_python(code).after is not None
    assert place_python(marked).after is None


def test_a_finding_in_code_has_its_place() -> None:
    case = next(case for case in CASES if case.name == "dict-other-pool-is-refused")
    (finding,) = place_python(case.source).findings
    assert case.source.splitlines()[finding.line - 1].strip() == '"spec": {'


def settings_in(source: str) -> dict[str, Any]:
    """What each task of the pipelines in a source says about nodes, by its role."""
    plan = CodePlan("x.py", read_code([Source(source, parse(source))]), PlaceSettings())
    found = [plain_data(node) for pipeline in plan.pipelines for node in [pipeline.workload.node]]
    executors = [item["platforms"]["kubernetes"]["deploymentSpec"]["executors"] for item in found]
    return {role: _numbers(settings) for item in executors for role, settings in item.items()}


@pytest.mark.parametrize("case", PIPELINE_CASES, ids=lambda case: case.name)
def test_the_tasks_say_what_is_expected(case: PipelineCase) -> None:
    result = place_python(case.source, case.spot, **case.settings)
    reasons = [result.refused or "", *(finding.reason for finding in result.findings)]
    assert any(case.reason in text for text in reasons), reasons
    assert case.reason or not result.findings
    if case.executors is None:
        assert result.after is None
        return
    assert result.after is not None, reasons
    after = result.after.decode()
    for role, settings in settings_in(after).items():
        assert settings == case.executors.get(f"exec-{role}", {}), role
    assert place_python(after, case.spot, **case.settings).after is None


def test_a_component_of_another_module_is_placed_when_its_role_is_named() -> None:
    case = next(case for case in PIPELINE_CASES if case.name == "imported")
    result = place_python(case.source, roles=frozenset(["fit"]))
    assert result.after is not None
    assert "kubernetes.add_toleration(" in result.after.decode()


def test_how_a_task_without_a_name_is_written() -> None:
    source = """\
from kfp import dsl


@dsl.component
def train():
    pass


@dsl.pipeline
def pipeline():
    train()  # the first
"""
    result = place_python(source, retries=2)
    assert result.after is not None
    assert result.after.decode() == (
        source.replace("import dsl", "import dsl, kubernetes").replace(
            "    train()", "    train_task = train()"
        )
        + """\
    kubernetes.add_toleration(
        train_task,
        key="kubernetes.azure.com/scalesetpriority",
        operator="Equal",
        value="spot",
        effect="NoSchedule",
    )
    kubernetes.add_node_selector(
        train_task,
        label_key="kubernetes.azure.com/scalesetpriority",
        label_value="spot",
    )
    train_task.set_retry(num_retries=2)
"""
    )
