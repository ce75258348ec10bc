"""`validate`: one finding for each broken rule, with the line and the fix."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from arc_toolkit.sizing.validation import PREFIX, RULES
from tests.sizing.builders import as_list, node, pod
from tests.support import Result

Arc = Callable[..., Result]
GOOD = """\
apiVersion: amlarc.azureml.com/v1alpha1
kind: InstanceType
metadata:
  name: good
spec:
  nodeSelector:
    node.kubernetes.io/instance-type: Standard_D64s_v5
  resources:
    requests:
      cpu: "31"
      memory: "100Gi"
    limits:
      cpu: "31"
      memory: "100Gi"
"""


def check(arc: Arc, tmp_path: Path, text: str, *words: object) -> list[dict[str, object]]:
    file = tmp_path / "types.yaml"
    file.write_text(text)
    result = arc("validate", file, "--format", "json", *words)
    findings: list[dict[str, object]] = json.loads(result.out)["findings"]
    assert result.code == int(any(finding["severity"] != "note" for finding in findings))
    return findings


def test_a_good_type_has_no_finding(arc: Arc, tmp_path: Path) -> None:
    assert check(arc, tmp_path, GOOD, "--sku", "D64s_v5") == []


CASES = [
    ("  name: good", "  name: Standard_NC6s_v3", "name", 4, "standard-nc6s-v3"),
    ("  name: good", "  name: ''", "name", 4, "missing"),
    (
        "  name: good",
        "  name: 1e3",
        "name",
        4,
        'write "1e3"',
    ),  # a number in kubectl, a string in PyYAML
    ("  name: good", "  name: good\n  label: {a: b}", "unknown-key", 5, "did you mean labels?"),
    (
        '      cpu: "31"\n      memory: "100Gi"\n    limits',
        '      cpu: "31"\n    limits',
        "field",
        10,
        "requests.memory",
    ),
    (
        '    limits:\n      cpu: "31"',
        "    limits:\n      cpu:",
        "field",
        13,
        "limits.cpu is missing",
    ),
    ('    limits:\n      cpu: "31"', '    limits:\n      cpu: "0"', "field", 13, "above zero"),
    ('    limits:\n      cpu: "31"', "    limits:\n      cpu: 31", "field", 13, 'write "31"'),
    (
        '    limits:\n      cpu: "31"',
        '    limits:\n      cpu: "31 cores"',
        "field",
        13,
        "not a quantity",
    ),
    (
        '    limits:\n      cpu: "31"',
        '    limits:\n      cpu: "32"',
        "request-limit",
        10,
        "less than the limit",
    ),
    ("    limits:", "      nvidia.com/gpu: 1\n    limits:", "gpu", 12, "under limits only"),
    ("  resources:\n", "  tolerations: []\n  resources:\n", "unknown-key", 8, "tolerations"),
    ('"100Gi"\n', '"256Gi"\n', "node-size", 9, "Code 9"),
    ('"100Gi"\n', '"240Gi"\n', "schedulable", 9, "Pending"),
    ("    limits:", "      cpus: '2'\n    limits:", "unknown-key", 12, "not a resource"),
    ("Standard_D64s_v5", "standard_d64s_v5", "selector", 7, "only the case differs"),
    ("Standard_D64s_v5", "Standard_D96s_v5", "selector", 7, "no given node"),
    ("Standard_D64s_v5", "Standard D64s v5", "selector", 7, "is not a label that a node can have"),
    (
        "    limits:\n",
        "    limits:\n      gpu: 1\n",
        "unknown-key",
        13,
        "did you mean nvidia.com/gpu?",
    ),
    (
        '    limits:\n      cpu: "31"',
        "    limits:\n      cpu: 310e-1",
        "field",
        13,
        'write "310e-1"',
    ),
    (
        '    limits:\n      cpu: "31"',
        '    limits:\n      cpu: "30"',
        "above-limit",
        10,
        "Kubernetes refuses",
    ),
    (
        "amlarc.azureml.com/v1alpha1",
        "amlarc.azureml.com/v1",
        "api-version",
        1,
        "write amlarc.azureml.com/v1alpha1",
    ),
    (
        "amlarc.azureml.com/v1alpha1",
        "azureml.com/v1alpha1",
        "api-version",
        1,
        "write amlarc.azureml.com/v1alpha1",
    ),
    ("kind: InstanceType", "kind: instanceType", "api-version", 2, "write InstanceType"),
    ("  name: good", "  name: 2024", "name", 4, 'must be a string: write "2024"'),
    ("  nodeSelector:", "  nodeselector:", "unknown-key", 6, "did you mean nodeSelector?"),
    (
        "    limits:",
        "      nvidia.com/gpus: 1\n    limits:",
        "unknown-key",
        12,
        "did you mean nvidia.com/gpu?",
    ),
    ("spec:", "status: {}\nmetdata: {}\nspec:", "unknown-key", 6, "did you mean metadata?"),
    (
        "    limits:\n",
        '    limits:\n      memory: "100Gi"\n',
        "duplicate-key",
        15,
        "only the last one counts",
    ),
]


@pytest.mark.parametrize(("old", "new", "rule", "line", "words"), CASES)
def test_each_broken_rule_has_one_finding_at_its_line(
    arc: Arc, tmp_path: Path, old: str, new: str, rule: str, line: int, words: str
) -> None:
    text = GOOD.replace(old, new)
    assert text != GOOD
    (finding,) = check(arc, tmp_path, text, "--sku", "D64s_v5")
    assert (finding["rule"], finding["line"]) == (f"instance-type-{rule}", line)
    assert words in str(finding["message"])


def test_requests_beside_an_empty_resources_are_found_where_they_stand(
    arc: Arc, tmp_path: Path
) -> None:
    text = GOOD.replace("    requests:", "  requests:").replace("    limits:", "  limits:")
    findings = check(arc, tmp_path, text)
    assert [(f["rule"], f["line"]) for f in findings] == [
        ("instance-type-misplaced", 9),
        ("instance-type-misplaced", 12),
    ]


def test_a_duplicate_name_names_the_other_place(arc: Arc, tmp_path: Path) -> None:
    (finding,) = check(arc, tmp_path, GOOD + "---\n" + GOOD)
    assert finding["rule"] == "instance-type-duplicate"
    assert "types.yaml:4" in str(finding["message"])


def test_items_of_a_list_are_checked_too(arc: Arc, tmp_path: Path) -> None:
    head = GOOD.splitlines()[0]
    text = f"{head}\nkind: InstanceTypeList\nitems:\n- metadata: {{name: a}}\n  spec: {{}}\n"
    assert len(check(arc, tmp_path, text)) == 4


def test_real_nodes_say_by_how_much_a_type_is_too_large(arc: Arc, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps(as_list([node()])))
    text = GOOD.replace('"31"', '"63"')
    (finding,) = check(arc, tmp_path, text, "--nodes", nodes, "--daemonsets", "aks-overlay-1.30")
    assert "by 90m cpu" in str(finding["message"])


def test_on_unlike_nodes_a_type_is_fine_if_any_takes_it(arc: Arc, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    wide = node(
        "a",
        size="",
        cpu="16",
        allocatable_cpu="15",
        memory="529530880Ki",
        allocatable_memory="500Gi",
    )
    nodes.write_text(json.dumps(as_list([wide, node("b", size="")])))
    text = GOOD.replace('"31"', '"60"').replace(
        "  nodeSelector:\n    node.kubernetes.io/instance-type: Standard_D64s_v5\n", ""
    )
    assert check(arc, tmp_path, text, "--nodes", nodes) == []


def test_a_selector_that_only_a_tainted_node_matches_says_so(arc: Arc, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    spot = node("s", taints=[{"key": "spot", "effect": "NoSchedule"}])
    nodes.write_text(json.dumps(as_list([spot, node("o", size="Standard_D32s_v5")])))
    (finding,) = check(arc, tmp_path, GOOD, "--nodes", nodes)
    assert "taint spot:NoSchedule" in str(finding["message"])


def test_what_kubectl_prints_and_merge_keys_are_read(arc: Arc, tmp_path: Path) -> None:
    body = "\n".join("  " + line for line in GOOD.splitlines())
    listed = f"apiVersion: v1\nkind: List\nitems:\n-{body[1:]}\n"
    assert check(arc, tmp_path, listed) == []
    merged = GOOD.replace("    requests:", "    requests: &r").replace(
        '    limits:\n      cpu: "31"\n      memory: "100Gi"', "    limits:\n      <<: *r"
    )
    assert check(arc, tmp_path, merged) == []


def test_a_selector_is_a_map_of_strings(arc: Arc, tmp_path: Path) -> None:
    (finding,) = check(
        arc, tmp_path, GOOD.replace("instance-type: Standard_D64s_v5", "instance-type: 5")
    )
    assert (finding["line"], "must be a string" in str(finding["message"])) == (7, True)


def test_a_value_that_yaml_does_not_read_as_a_string_is_shown_as_it_is_written(
    arc: Arc, tmp_path: Path
) -> None:
    (finding,) = check(
        arc, tmp_path, GOOD.replace("instance-type: Standard_D64s_v5", "instance-type: yes")
    )
    assert 'write "yes"' in str(finding["message"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [b\nc: d", ":2:2: broken YAML"),
        (GOOD.replace("  resources:", "  resources: &a\n    <<: *a"), "an anchor that contains itself"),
        ("a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{new}: &{new} [{', '.join(['*' + old] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
        ), "expand to more than"),
        ("? [a]\n: b\n", "unhashable"),
    ],
)  # fmt: skip
def test_yaml_that_cannot_be_read_is_one_sentence(
    arc: Arc, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "types.yaml"
    file.write_text(text)
    result = arc("validate", file)
    assert (result.code, result.out) == (2, "")
    assert str(file) in result.err
    assert said in result.err


def test_a_missing_gpu_of_the_right_maker_is_named(arc: Arc, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps(as_list([node(gpus=4)])))
    text = GOOD + "      amd.com/gpu: 2\n"
    (finding,) = check(arc, tmp_path, text, "--nodes", nodes)
    assert "by 2 amd.com/gpu" in str(finding["message"])
    assert check(arc, tmp_path, text.replace("amd.com", "nvidia.com"), "--nodes", nodes) == []


def test_a_name_that_is_not_valid_twice_is_not_also_a_duplicate(arc: Arc, tmp_path: Path) -> None:
    text = GOOD.replace("name: good", "name: Good")
    findings = check(arc, tmp_path, text + "---\n" + text)
    assert [finding["rule"] for finding in findings] == ["instance-type-name"] * 2


def test_a_label_that_no_table_of_vm_sizes_knows_may_be_there(arc: Arc, tmp_path: Path) -> None:
    text = GOOD.replace("  nodeSelector:\n", "  nodeSelector:\n    agentpool: gpu\n")
    assert check(arc, tmp_path, text, "--sku", "D64s_v5") == []
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps(as_list([node()])))
    (finding,) = check(arc, tmp_path, text, "--nodes", nodes)
    assert "no given node has the labels agentpool=gpu" in str(finding["message"])


def test_a_file_without_instance_types_is_refused(arc: Arc, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("kind: Pod\n")
    result = arc("validate", file)
    assert result.code == 2
    assert "no InstanceType" in result.err


@pytest.mark.parametrize(
    ("size", "said"),
    [("Standard_NC96ads_A100_v4", "has nvidia.com/gpu"), ("Standard_D64s_v5", "has no GPU")],
)
def test_gpus_of_another_maker_than_the_size_in_the_selector_are_found_without_nodes(
    arc: Arc, tmp_path: Path, size: str, said: str
) -> None:
    text = GOOD.replace("Standard_D64s_v5", size) + "      amd.com/gpu: 2\n"
    (finding,) = check(arc, tmp_path, text)
    assert (finding["rule"], said in str(finding["message"])) == ("instance-type-gpu", True)
    assert (
        check(
            arc,
            tmp_path,
            text.replace("amd.com/gpu", "nvidia.com/mig-1g.10gb"),
            "--only",
            "instance-type-unknown-key",
        )
        == []
    )


@pytest.mark.parametrize("memory", ["512m", "100", "137438953472000m", "64k"])
def test_memory_in_thousandths_of_a_byte_or_without_a_unit_is_found(
    arc: Arc, tmp_path: Path, memory: str
) -> None:
    findings = check(arc, tmp_path, GOOD.replace("100Gi", memory))
    assert [finding["rule"] for finding in findings] == ["instance-type-field"] * 2
    assert (
        check(arc, tmp_path, GOOD.replace("100Gi", "107374182400")) == []
    )  # bytes, as the API server writes them


def test_a_second_document_of_another_group_is_found_and_another_kind_is_not(
    arc: Arc, tmp_path: Path
) -> None:
    other = GOOD.replace("amlarc.azureml.com", "azureml.example.com").replace(
        "name: good", "name: other"
    )
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    (finding,) = check(arc, tmp_path, f"{GOOD}---\n{other}---\n{pod}")
    assert (finding["rule"], finding["line"]) == ("instance-type-api-version", 16)


def test_a_section_that_is_there_twice_is_found_at_the_second(arc: Arc, tmp_path: Path) -> None:
    text = GOOD.replace(
        "    limits:\n", '    limits:\n      cpu: "31"\n      memory: "100Gi"\n    limits:\n'
    )
    (finding,) = check(arc, tmp_path, text)
    assert (finding["rule"], finding["line"]) == ("instance-type-duplicate-key", 15)


def test_a_cluster_without_nodes_has_no_node_for_any_type(arc: Arc, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps(as_list([])))
    (finding,) = check(arc, tmp_path, GOOD, "--nodes", nodes)
    assert finding["rule"] == "instance-type-selector"


def test_every_rule_has_a_case() -> None:
    cases = {f"instance-type-{case[2]}" for case in CASES} | {
        "instance-type-misplaced",
        "instance-type-duplicate",
    }
    assert cases == {rule for rule in RULES if rule.startswith(PREFIX)}


def test_a_request_below_its_limit_is_a_note_and_counts_only_with_strict(
    arc: Arc, tmp_path: Path
) -> None:
    text = GOOD.replace('    limits:\n      cpu: "31"', '    limits:\n      cpu: "32"')
    (finding,) = check(arc, tmp_path, text)
    assert (finding["rule"], finding["severity"]) == ("instance-type-request-limit", "note")
    file = tmp_path / "types.yaml"
    file.write_text(text)
    assert arc("validate", "-q", file).code == 0
    assert arc("validate", "-q", "--strict", file).code == 1


def test_a_selector_that_is_not_a_map_is_an_error(arc: Arc, tmp_path: Path) -> None:
    text = re.sub(r"nodeSelector:\n +.*\n", "nodeSelector: [train]\n", GOOD)
    assert text != GOOD
    (finding,) = check(arc, tmp_path, text)
    assert finding["rule"] == "instance-type-selector"
    assert "a map of labels" in str(finding["message"])


def test_nodes_outside_of_the_extensions_selector_are_an_error_for_a_type(
    arc: Arc, tmp_path: Path
) -> None:
    """The extension's own pods show its selector, which applies to jobs too."""
    types, nodes, pods = (tmp_path / name for name in ("types.yaml", "nodes.json", "pods.json"))
    types.write_text(GOOD)
    nodes.write_text(
        json.dumps(as_list([node("a"), node("s", pool="system", size="Standard_D4s_v5")]))
    )
    operator = pod("aml-operator", "s", owner="ReplicaSet", namespace="azureml")
    operator["spec"]["nodeSelector"] = {"agentpool": "system", "kubernetes.io/os": "linux"}
    pods.write_text(json.dumps(as_list([operator])))
    result = arc("validate", types, "--nodes", nodes, "--pods", pods)
    assert result.code == 1
    assert "outside of the extension's nodeSelector (agentpool=system)" in result.out
    # Waiting for its node, beside a pod that somebody started by hand.
    operator["spec"].pop("nodeName")
    pods.write_text(
        json.dumps(as_list([operator, pod("shell", "a", owner="", namespace="azureml")]))
    )
    assert arc("validate", types, "--nodes", nodes, "--pods", pods).code == 1
    operator["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    pods.write_text(json.dumps(as_list([operator])))
    assert arc("validate", types, "--nodes", nodes, "--pods", pods).code == 0
    result = arc("validate", types, "--nodes", nodes, "--extension-selector", "agentpool=system")
    assert result.code == 1


def test_findings_are_ignored_with_a_reason(arc: Arc, tmp_path: Path) -> None:
    wrong = GOOD.replace("  name: good", "  name: Good")
    assert len(check(arc, tmp_path, wrong)) == 1
    assert (
        check(
            arc,
            tmp_path,
            wrong.replace("Good", "Good  # arc-toolkit: ignore[instance-type-name] a test"),
        )
        == []
    )
    assert (
        check(arc, tmp_path, "# arc-toolkit: ignore-file[instance-type-name] a test\n" + wrong)
        == []
    )
    lazy = wrong.replace("Good", "Good  # arc-toolkit: ignore[instance-type-name]")
    assert [(finding["rule"], finding["line"]) for finding in check(arc, tmp_path, lazy)] == [
        ("ignore-without-reason", 4),
        ("instance-type-name", 4),
    ]
    assert len(check(arc, tmp_path, lazy, "--skip", "ignore-without-reason")) == 1
    misspelt = "# arc-toolkit: ignore-file[instance-type-nam] a test\n" + GOOD
    (finding,) = check(arc, tmp_path, misspelt)
    assert (finding["rule"], finding["line"]) == ("ignore-of-unknown-rule", 1)
    assert "did you mean `instance-type-name`?" in str(finding["reason"])
    other = wrong.replace("Good", "Good  # arc-toolkit: ignore[instance-type-gpu] a test")
    assert len(check(arc, tmp_path, other)) == 1


def test_ignores_in_files_without_a_type_are_not_judged(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(
        "command: x  # arc-toolkit: ignore[lightgbm-threads] a test\n"
    )
    (tmp_path / "types.yaml").write_text(GOOD)
    assert arc("validate", tmp_path).code == 0


def test_rules_are_chosen(arc: Arc, tmp_path: Path) -> None:
    wrong = GOOD.replace("  name: good", "  name: Good").replace(
        "  resources:", "  tolerations: []\n  resources:"
    )
    for words, rules in (
        (("--only", "instance-type-name"), ["instance-type-name"]),
        (("--skip", "instance-type-name"), ["instance-type-unknown-key"]),
    ):
        assert [finding["rule"] for finding in check(arc, tmp_path, wrong, *words)] == rules
    misspelt = arc("validate", tmp_path / "types.yaml", "--only", "instance-type-nam")
    assert (misspelt.code, "did you mean `instance-type-name`?" in misspelt.err) == (2, True)
    assert arc("validate", tmp_path / "types.yaml", "--exit-zero").code == 0
