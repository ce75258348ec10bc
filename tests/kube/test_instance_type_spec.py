"""The one reader of an InstanceType: what it asks for and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import (
    InstanceTypeSpec,
    SpecRule,
    manifests_in,
    problems,
)
from arc_toolkit.kube.quantities import GI
from tests.support import Result

Arc = Callable[..., Result]
Object = dict[str, Any]


def manifest(name: Any = "t", cpu: Any = "4", memory: Any = "16Gi", **spec: Any) -> Object:
    amounts = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "amlarc.azureml.com/v1alpha1",
        "kind": "InstanceType",
        "metadata": {"name": name, "annotations": {"a": "b"}},
        "spec": {
            "resources": {"requests": amounts, "limits": {**amounts, "nvidia.com/gpu": 2}},
            **spec,
        },
    }


def test_a_type_is_read_with_its_selector_gpus_and_annotations() -> None:
    spec = InstanceTypeSpec.parse(manifest(cpu="3500m", nodeSelector={"agentpool": "gpu"}))
    assert spec == InstanceTypeSpec(
        "t", 3500, 16 * GI, {"nvidia.com/gpu": 2}, {"agentpool": "gpu"}, annotations={"a": "b"}
    )
    assert (spec.cores, InstanceTypeSpec("tiny", 100, GI).cores) == (3, 1)
    assert spec.selects({"agentpool": "gpu", "x": "y"})
    assert not spec.selects({"agentpool": "cpu"})


@pytest.mark.parametrize(
    ("item", "rule", "path", "words"),
    [
        (manifest(name="A_b"), SpecRule.NAME, ("metadata", "name"), "a-b would be valid"),
        (manifest(name=None), SpecRule.NAME, (), "metadata.name is missing"),
        (manifest(cpu=4), SpecRule.FIELD, ("spec", "resources", "requests", "cpu"), 'write "4"'),
        (
            manifest(cpu="-1"),
            SpecRule.FIELD,
            ("spec", "resources", "requests", "cpu"),
            "above zero",
        ),
        (manifest(tolerations=[]), SpecRule.UNKNOWN_KEY, ("spec", "tolerations"), "does not exist"),
        (manifest(limits={}), SpecRule.MISPLACED, ("spec", "limits"), "indent it"),
        (
            manifest(nodeSelector={"a": 5}),
            SpecRule.SELECTOR,
            ("spec", "nodeSelector", "a"),
            'write "5"',
        ),
    ],
)
def test_a_broken_rule_names_the_place(
    item: Object, rule: SpecRule, path: tuple[str, ...], words: str
) -> None:
    first = next(problems(item))
    assert (first.rule, first.path) == (rule, path)
    assert words in first.message


def test_a_good_type_has_no_problem() -> None:
    assert list(problems(manifest(nodeSelector={"a": "b"}))) == []


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"metadata": {"name": "t"}},
        {"metadata": {"name": "t"}, "spec": {"resources": None, "requests": {"cpu": "1"}}},
        manifest(name=""),
        manifest(memory=""),
        manifest(cpu="many"),
        {"metadata": [], "spec": "x"},
    ],
)
def test_a_type_whose_request_is_not_known_is_refused(item: Object) -> None:
    with pytest.raises(ArcError):
        InstanceTypeSpec.parse(item)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["2", "4Gi"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "resources",
                    "requests",
                    "limits",
                    "cpu",
                    "memory",
                    "nodeSelector",
                    "amd.com/gpu",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "kind"]), json_values))
def test_any_json_is_a_type_or_one_sentence(item: Object) -> None:
    try:
        InstanceTypeSpec.parse(item)
    except ArcError:
        assert any(problem.fatal for problem in problems(item, implied=True))


def test_types_are_found_in_lists_and_other_kinds_are_not() -> None:
    one = manifest()
    bare = {key: one[key] for key in ("metadata", "spec")}
    listed = {
        "apiVersion": "amlarc.azureml.com/v1alpha1",
        "kind": "InstanceTypeList",
        "items": [bare, one],
    }
    assert [path for path, _ in manifests_in(one)] == [()]
    assert [path for path, _ in manifests_in(listed)] == [("items", 0), ("items", 1)]
    mixed = {"kind": "List", "items": [{"kind": "Pod"}, one, bare]}
    assert [path for path, _ in manifests_in(mixed)] == [("items", 1)]
    assert list(manifests_in({"apiVersion": "cdi.example.com/v1", "kind": "Instance"})) == []
    for change in (
        {"apiVersion": "azureml.com/v1"},
        {"apiVersion": None},
        {"kind": "Instancetype"},
    ):
        ((_, item),) = manifests_in({**one, **change})
        assert [problem.rule for problem in problems(item)] == [SpecRule.API_VERSION]
    assert list(manifests_in([one])) == list(manifests_in(None)) == []


@pytest.mark.parametrize("name", ["x" * 92, "x" * 254, "a_b!", "Standard.NC6!"])
def test_every_command_has_the_same_rule_for_a_name_and_the_same_sentence(
    arc: Arc, tmp_path: Path, name: str
) -> None:
    job = tmp_path / "job.yml"
    job.write_text("command: x\nenvironment: e\ncompute: azureml:c\n")
    name = name.lower().replace("_", "-")  # as gen-instance-types makes it of a template
    types = tmp_path / "types.yaml"
    text = 'cpu: "4"\n      memory: 16Gi\n'
    types.write_text(
        f"apiVersion: amlarc.azureml.com/v1alpha1\nkind: InstanceType\nmetadata:\n  name: {name}\n"
        f"spec:\n  resources:\n    requests:\n      {text}    limits:\n      {text}"
    )
    results = [
        arc("gen-instance-types", "--sku", "D64s_v5", "--name-template", name),
        arc("patch", job, "--instance-type", name),
        arc("validate", types),
    ]
    if name == "x" * 92:
        assert [result.code for result in results] == [0, 0, 0]
    else:
        sentences = {result.err.partition(": ")[2].partition(": ")[2] for result in results[:2]}
        (sentence,) = sentences
        assert f"{name!r} is not valid in Kubernetes: " in sentence
        assert sentence.strip() in results[2].out
        assert [result.code for result in results] == [2, 2, 1]
