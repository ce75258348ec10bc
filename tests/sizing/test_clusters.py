"""Clusters as they are in reality, each with what an expert expects of sizing and `validate`.

One file per cluster in `clusters/`: its nodes (and pods, if they are counted), then for each way to call
`gen-instance-types` the exit code, the types, the nodes that are left out, and words of notes or of the error; and
hand-written types with the rules that they break there. The amounts were worked out from allocatable without this
package: allocatable, less DaemonSets, less 5 % of capacity, divided, rounded down to 10m and 1Mi.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.sizing.fits import check
from arc_toolkit.sizing.instance_types import GenerateOptions, generate
from arc_toolkit.sizing.node_selection import DaemonSets, select_nodes
from arc_toolkit.sizing.schedulable import Assumptions
from arc_toolkit.sizing.shares import Share
from tests.sizing.builders import as_list
from tests.support import Result

Arc = Callable[..., Result]
FOLDER = Path(__file__).parent / "clusters"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return content


def saved(cluster: dict[str, Any], folder: Path) -> list[object]:
    """The options that read the cluster from files."""
    options: list[object] = []
    for kind in ("nodes", "pods"):
        if kind in cluster:
            file = folder / f"{kind}.json"
            file.write_text(json.dumps(as_list(cluster[kind])))
            options += [f"--{kind}", file]
    return options


def runs() -> list[Any]:
    return [
        pytest.param(name, index, id=f"{name}-{index}")
        for name in NAMES
        for index in range(len(read(name)["gen"]))
    ]


@pytest.mark.parametrize(("name", "index"), runs())
def test_types_are_what_an_expert_expects(arc: Arc, tmp_path: Path, name: str, index: int) -> None:
    cluster = read(name)
    expected = cluster["gen"][index]
    words = [
        "gen-instance-types",
        *saved(cluster, tmp_path),
        *expected["options"],
        "--format",
        "json",
    ]
    result = arc(*words)
    assert result.code == expected["exit"], result.err
    for word in expected.get("error", ()):
        assert word in result.err
    if result.code:
        assert len(result.err.strip().splitlines()) == 1
        return
    document = json.loads(result.out)
    types = {}
    for entry in document["instance_types"]:
        spec = entry["manifest"]["spec"]
        limits = dict(spec["resources"]["limits"])
        assert spec["resources"]["requests"] == {key: limits.pop(key) for key in ("cpu", "memory")}
        amounts = spec["resources"]["requests"]
        types[entry["name"]] = {
            **amounts,
            "selector": spec.get("nodeSelector", {}),
            "devices": limits,
        }
    assert types == expected["types"]
    assert sorted(row["node"] for row in document["left_out"]) == sorted(
        expected.get("left_out", ())
    )
    for word in expected.get("notes", ()):
        assert word in result.err


def manifest(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    amounts = {"cpu": spec["cpu"], "memory": spec["memory"]}
    return {
        "apiVersion": "amlarc.azureml.com/v1alpha1",
        "kind": "InstanceType",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": spec["selector"],
            "resources": {"requests": amounts, "limits": {**amounts, **spec["devices"]}},
        },
    }


@pytest.mark.parametrize("name", [name for name in NAMES if "validate" in read(name)])
def test_validate_and_the_live_check_give_the_expected_answer(
    arc: Arc, tmp_path: Path, name: str
) -> None:
    cluster = read(name)
    pods = cluster.get("pods")
    daemonsets = DaemonSets(()) if pods is not None else DaemonSets()
    selection = select_nodes(
        cluster["nodes"], pods, Assumptions(), daemonsets, source="nodes", place="saved"
    )
    options = saved(cluster, tmp_path)
    for index, expected in enumerate(cluster["validate"]):
        item = manifest(f"type-{index}", expected)
        (tmp_path / "type.json").write_text(json.dumps(item))
        result = arc("validate", tmp_path / "type.json", *options, "--format", "json")
        rules = [finding["rule"] for finding in json.loads(result.out)["findings"]]
        assert rules == expected["rules"], (index, expected, result.out)
        (fit,) = check({"t": item}, selection.candidates)
        assert (fit.state == "fits") is (not expected["rules"])


@pytest.mark.parametrize("by_pool", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_generated_has_not_drifted_on_the_same_nodes(name: str, by_pool: bool) -> None:
    cluster = read(name)
    pods = cluster.get("pods")
    daemonsets = DaemonSets(()) if pods is not None else DaemonSets()
    selection = select_nodes(
        cluster["nodes"],
        pods,
        Assumptions(),
        daemonsets,
        source="nodes",
        place="saved",
        by_pool=by_pool,
    )
    if selection.groups:
        shares = [Share(1), Share(2), Share(7)]
        types, _, _ = generate(
            selection.groups,
            shares,
            Assumptions(),
            GenerateOptions(nodes=selection.nodes, anywhere=True),
        )
        fits = check({entry.name: entry.manifest() for entry in types}, selection.candidates)
        assert {fit.name: fit.reason for fit in fits if fit.state != "fits"} == {}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_generated_has_no_findings_on_the_same_nodes(
    arc: Arc, tmp_path: Path, name: str
) -> None:
    cluster = read(name)
    options = saved(cluster, tmp_path)
    for expected in cluster["gen"]:
        if expected["exit"] == 0 and "--architecture" not in expected["options"]:
            chosen = [word for word in expected["options"] if word.startswith("--tolerate")]
            values = expected["options"][1:2] if chosen else []
            types = tmp_path / "types.yaml"
            assert arc("gen-instance-types", *options, *expected["options"], "-o", types).code == 0
            result = arc("validate", types, *options, *chosen, *values)
            assert result.code == 0, result.out
