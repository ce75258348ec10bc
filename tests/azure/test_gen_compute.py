"""`gen-compute`: what azure-ai-ml makes of the definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import Result, real_module

Arc = Callable[..., Result]
LOW = ("gen-compute", "--low-priority", "--name", "low-pri", "--size", "DS3_v2")


def test_the_definition_that_the_documentation_shows(arc: Arc) -> None:
    assert arc(*LOW).out == (
        "$schema: https://azuremlschemas.azureedge.net/latest/amlCompute.schema.json\n"
        "name: low-pri\n"
        "type: amlcompute\n"
        "size: Standard_DS3_v2\n"
        "tier: low_priority\n"
        "min_instances: 0\n"
        "max_instances: 2\n"
        "idle_time_before_scale_down: 120\n"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--max", "0"), "at least 1 node"),
        (("--idle", "0"), "write seconds"),
        (("--name", "low_priority"), "letters, digits and hyphens"),
        (("--name", "lp"), "3 to 32"),
        (("--name", "x" * 33), "3 to 32"),
        (("--size", "DS3_v22"), "no VM size 'DS3_v22'"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    arc: Arc, tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    found = arc(*LOW, *words, "-o", str(tmp_path / "lp.yml"))
    assert (found.code, len(found.err.splitlines()), list(tmp_path.iterdir())) == (2, 1, [])
    assert reason in found.err


def sent(compute: Any) -> dict[str, Any]:
    """The properties that azure-ai-ml sends."""
    properties: dict[str, Any] = compute._to_rest_object().as_dict()["properties"]["properties"]
    return properties


@pytest.mark.real
@pytest.mark.parametrize(
    ("words", "priority"), [(LOW, "LowPriority"), ((LOW[0], *LOW[2:]), "Dedicated")]
)
def test_azure_ai_ml_loads_both_forms_and_sends_the_same(
    arc: Arc, tmp_path: Path, words: tuple[str, ...], priority: str
) -> None:
    ml = real_module("azure.ai.ml")
    file = tmp_path / "lp.yml"
    options = ("--max", "3", "--idle", "300")
    assert arc(*words, *options, "-o", str(file)).code == 0
    loaded = ml.load_compute(file)
    names: dict[str, Any] = {"__name__": "definition"}
    exec(arc(*words, *options, "--format", "python").out, names)
    for compute in (loaded, names["compute"]):
        properties = sent(compute)
        scale = properties.get("scaleSettings") or properties["scale_settings"]
        assert (compute.name, compute.size) == ("low-pri", "Standard_DS3_v2")
        assert (properties.get("vmPriority") or properties["vm_priority"]) == priority
        assert sorted(map(str, scale.values())) == ["0", "3", "PT5M"]
    assert sent(loaded) == sent(names["compute"])


@pytest.mark.parametrize("name", ["null", "yes", "1e5", "123"])
def test_a_name_stays_a_text(arc: Arc, name: str) -> None:
    made = yaml.safe_load(arc(*LOW[:3], name, *LOW[4:]).out)
    assert made["name"] == name
