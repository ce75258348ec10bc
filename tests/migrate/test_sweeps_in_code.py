"""`--sweep-to-v2` on Python files and notebooks; what becomes of a sweep is tested with its converter."""

from __future__ import annotations

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import notebook, patch_bytes, patch_cells, sources

LEGACY = """\
from azure.ml.component import Component, dsl
from azureml.train.hyperdrive import uniform

sweep_func = Component.from_yaml(ws, yaml_file="./sweep.yaml")


@dsl.pipeline
def p(data):
    other = sweep_func(train=data)
    step = sweep_func(train=data, lr=uniform(0.1, 1.0))
    step.runsettings.sweep.algorithm = "random"
    step.runsettings.sweep.objective.configure(primary_metric="rmse", goal="minimize")
    step.runsettings.sweep.limits.configure(max_total_trials=4, timeout_minutes=10)
    return step.outputs
"""
ASKED = Settings(sweep_to_v2=True, instance_type="32cpu128g", instance_count=2)


def test_a_file_is_converted_and_patched_in_one_run() -> None:
    result = patch_bytes("p.py", LEGACY.encode(), ASKED)
    assert result.refused is None
    text = (result.after or b"").decode()
    assert "step = step.sweep(" in text
    assert (
        'step.resources = JobResourceConfiguration(instance_type="32cpu128g", instance_count=2)'
        in text
    )
    assert (
        'other.runsettings.resource_layout.configure(instance_type="32cpu128g", instance_count=2)'
        in text
    )
    assert "step.runsettings" not in text
    assert any(
        "SDK v1.5, whose pipelines are said to take the v2 sweep" in one.reason
        for one in result.findings
    )
    assert {finding.path for finding in result.findings} == {"p.py"}
    assert patch_bytes("p.py", text.encode(), ASKED).after is None


def test_a_notebook_is_converted_over_its_cells() -> None:
    cut = LEGACY.index("\n@dsl")
    cells = [LEGACY[:cut].splitlines(keepends=True), LEGACY[cut:].splitlines(keepends=True)]
    result = patch_cells(notebook(*cells), ASKED)
    as_file = patch_bytes("p.py", LEGACY.encode(), ASKED)
    assert result.refused is None
    assert "".join(sources(result.after or b"{}")) == (as_file.after or b"").decode()
    assert any(finding.message.startswith("cell 2 line ") for finding in result.findings)


def test_without_the_option_nothing_is_converted() -> None:
    result = patch_bytes("p.py", LEGACY.encode(), Settings())
    assert result.after is None
    assert [finding.rule for finding in result.findings] == ["legacy-sweep"]
