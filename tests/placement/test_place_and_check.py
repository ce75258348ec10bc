"""`place` and `check` have one model: `check` has nothing to say about what `place` wrote, and never recommends a
`place` that would refuse, change nothing, or leave the finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml

from arc_toolkit.findings import Finding
from arc_toolkit.placement.place_files import CheckedManifests
from arc_toolkit.placement.place_plan import PlaceSettings
from tests.placement.code_cases import CASES, CodeCase
from tests.placement.golden_manifest import Golden
from tests.placement.goldens import GOLDENS, head
from tests.placement.support import KEY, TOLERATION, expression, place, required
from tests.placement.test_code_cases import objects_in, place_python
from tests.placement.test_pipelines import text as pipeline

# `pod-spec-wrong-depth` is not about spot nodes; all other rules are.
SPOT_RULES = frozenset(
    (
        "coordinator-on-spot",
        "grace-longer-than-notice",
        "local-checkpoint-on-spot",
        "no-retry-on-spot",
        "serving-on-spot",
        "spot-toleration-only",
        "spot-without-toleration",
    )
)


def check(text: str) -> list[Finding]:
    checked = CheckedManifests(PlaceSettings()).process("x.yaml", text.encode())
    return [finding for finding in checked.findings if finding.rule in SPOT_RULES]


def shown(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.rule, finding.message, finding.reason) for finding in findings]


# A pod on its own is never started again: `place --retries` refuses it, and `check` says the same.
NOT_RETRIED = ("Pod",)


@pytest.mark.parametrize("spot", ["require", "prefer", "avoid"])
@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_check_finds_nothing_in_what_place_wrote(golden: Golden, spot: str) -> None:
    settings: dict[str, Any] = {"kinds": golden.kinds, "trainer": golden.trainer, "grace": 25}
    if spot != "avoid":
        settings["retries"] = 3
    result = place(golden.text, spot, **settings)
    findings = check((result.after or golden.text.encode()).decode())
    if golden.name in NOT_RETRIED and spot != "avoid":
        refused = [finding.reason for finding in result.findings if finding.rule == "retries"]
        assert [(finding.rule, finding.reason) for finding in findings] == [
            ("no-retry-on-spot", reason) for reason in refused
        ]
        assert refused
    else:
        assert shown(findings) == []


@pytest.mark.parametrize("spot", ["require", "prefer", "avoid"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_check_finds_nothing_in_the_objects_of_placed_code(case: CodeCase, spot: str) -> None:
    retries = {} if spot == "avoid" else {"retries": 3}
    settings = {**case.settings, "grace": 25, **retries}
    settings.pop("roles", None)  # which may put a coordinator onto spot nodes
    result = place_python(case.source, spot, **settings)
    if result.after is None:
        return
    refused = {finding.rule for finding in result.findings}
    findings = check(yaml.safe_dump_all(objects_in(result.after.decode())))
    allowed = {"no-retry-on-spot"} if "retries" in refused else set()
    assert {finding.rule for finding in findings} <= allowed, shown(findings)


@pytest.mark.parametrize("spot", ["require", "prefer", "avoid"])
def test_check_finds_nothing_in_a_placed_pipeline(spot: str) -> None:
    result = place(pipeline(), spot)
    assert result.after is not None
    assert shown(check(result.after.decode())) == []


# --- parts that inherit --------------------------------------------------------------------------------------------

SELECTOR = f"{{{KEY}: spot}}"
TOLERATED = f"[{{key: {KEY}, operator: Exists}}]"
RETRIED = "    retryStrategy: {limit: 3, retryPolicy: Always}\n"


@pytest.mark.parametrize(
    "holder", ["tolerations: {}", "templateDefaults: {{tolerations: {}}}"], ids=["top", "defaults"]
)
def test_a_template_of_argo_inherits_the_toleration(holder: str) -> None:
    spec = (
        f"  {holder.format(TOLERATED)}\n  templates:\n  - name: train\n"
        f"    container: {{image: train}}\n    nodeSelector: {SELECTOR}\n{RETRIED}"
    )
    assert shown(check(head("argoproj.io/v1alpha1", "Workflow", spec))) == []


def test_a_template_of_argo_inherits_from_the_template_that_calls_it() -> None:
    spec = (
        f"  templates:\n  - name: main\n    tolerations: {TOLERATED}\n"
        f"    steps: [[{{name: a, template: train}}]]\n"
        f"  - name: train\n    container: {{image: train}}\n    nodeSelector: {SELECTOR}\n{RETRIED}"
    )
    assert shown(check(head("argoproj.io/v1alpha1", "Workflow", spec))) == []


def test_a_template_of_argo_with_tolerations_of_its_own_inherits_none() -> None:
    spec = (
        f"  tolerations: {TOLERATED}\n  templates:\n  - name: train\n"
        f"    container: {{image: train}}\n    nodeSelector: {SELECTOR}\n"
        f"    tolerations: [{{key: gpu, operator: Exists}}]\n{RETRIED}"
    )
    findings = check(head("argoproj.io/v1alpha1", "Workflow", spec))
    assert [finding.rule for finding in findings] == ["spot-without-toleration"]


def test_a_task_of_tekton_inherits_from_its_run() -> None:
    spec = (
        f"  pipelineRef: {{name: p}}\n  taskRunTemplate: {{podTemplate: {{tolerations: {TOLERATED}}}}}\n"
        f"  taskRunSpecs:\n  - pipelineTaskName: train\n    podTemplate: {{nodeSelector: {SELECTOR}}}\n"
    )
    rules = {finding.rule for finding in check(head("tekton.dev/v1", "PipelineRun", spec))}
    assert "spot-without-toleration" not in rules
    # The run itself tolerates spot nodes, and nothing pulls its other tasks there.
    assert rules == {"spot-toleration-only"}


# --- advice ----------------------------------------------------------------------------------------------------------

DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
LABEL = {"nodeSelector": {KEY: "spot"}}
PREFERRED = {
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": {"matchExpressions": [expression()]}}
            ]
        }
    }
}
# Ways to be on spot nodes by half or wholly, some of which `place` refuses to complete.
FIELDS: dict[str, dict[str, Any]] = {
    "selector": LABEL,
    "affinity": {"affinity": required(expression())},
    "preference": PREFERRED,
    "toleration": {"tolerations": [TOLERATION]},
    "both": {**LABEL, "tolerations": [TOLERATION]},
    "both, long grace": {
        **LABEL,
        "tolerations": [TOLERATION],
        "terminationGracePeriodSeconds": 600,
    },
    "selector, bound to a node": {**LABEL, "nodeName": "n"},
    "toleration, bound to a node": {"tolerations": [TOLERATION], "nodeName": "n"},
    "selector and another cloud": {
        "nodeSelector": {KEY: "spot", "cloud.google.com/gke-nodepool": "a"}
    },
    "selector and a pool": {"nodeSelector": {KEY: "spot", "agentpool": "cpu"}},
    "contradiction": {"nodeSelector": {KEY: "spot", "kubernetes.azure.com/mode": "system"}},
    "two terms": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [expression()]},
                        {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                    ]
                }
            }
        },
        "tolerations": [TOLERATION],
    },
    "empty terms": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}
            }
        },
        "tolerations": [TOLERATION],
    },
    "of no containers": {**LABEL, "containers": []},
}
COMMAND = re.compile(r"`place ([^`]+)`")


def advised(reason: str) -> Iterator[dict[str, Any]]:
    """The settings of each `place` command in a reason."""
    for command in COMMAND.findall(reason):
        words = command.split()
        options = dict(zip(words[::2], words[1::2], strict=True))
        assert options.keys() <= {"--spot", "--retries", "--grace", "--cloud", "--kind"}, command
        settings: dict[str, Any] = {
            "spot": options.get("--spot"),
            "cloud": options.get("--cloud", "aks"),
        }
        if "--kind" in options:
            settings["kinds"] = frozenset([options["--kind"].lower()])
        if "--retries" in options:
            settings["retries"] = 3
        if "--grace" in options:
            settings["grace"] = int(options["--grace"].removesuffix("s"))
        yield settings


def follow_advice(text: str, trainer: str | None) -> None:
    """Every recommended `place` changes the file and takes its finding away."""
    for finding in check(text):
        for settings in advised(finding.reason):
            result = place(text, **settings, trainer=trainer)
            assert result.after is not None, (finding, result.refused)
            again = [(entry.rule, entry.message) for entry in check(result.after.decode())]
            assert (finding.rule, finding.message) not in again


# Kinds with the same row as another one but for its name.
TWINS = ("RayCluster v1alpha1", "ClusterTrainingRuntime", "ClusterWorkflowTemplate", "ReplicaSet")


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_check_recommends_place_only_where_it_helps(golden: Golden) -> None:
    parsed = yaml.safe_load(golden.text)
    for fields in FIELDS.values() if golden.name not in TWINS else ():
        for places in {golden.on, golden.off, (*golden.on, *golden.off)} - {()}:
            document = deepcopy(parsed)
            for at in places:
                golden.at(document, at).update(deepcopy(fields))
            follow_advice(yaml.dump(document, Dumper=DUMPER), golden.trainer)


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize(
    ("kind", "image", "namespace"),
    [
        ("Deployment", "postgres:17", "ml"),
        ("Deployment", "train", "kube-system"),
        ("DaemonSet", "train", "ml"),
        ("StatefulSet", "vllm/vllm-openai", "ml"),
    ],
)
def test_check_never_recommends_place_for_what_it_refuses(
    kind: str, image: str, namespace: str, fields: str
) -> None:
    golden = next(golden for golden in GOLDENS if golden.name == "Deployment")
    document = yaml.safe_load(golden.text)
    document["kind"] = kind
    document["metadata"]["namespace"] = namespace
    spec = document["spec"]["template"]["spec"]
    spec["containers"][0]["image"] = image
    spec.update(deepcopy(FIELDS[fields]))
    follow_advice(yaml.safe_dump(document), None)


def test_a_coordinator_that_asks_for_spot_nodes_is_advised_by_what_place_says() -> None:
    golden = next(golden for golden in GOLDENS if golden.name == "RayCluster v1")
    document = yaml.safe_load(golden.text)
    golden.at(document, golden.off[0]).update(deepcopy(FIELDS["both"]))
    (finding,) = check(yaml.safe_dump(document))
    assert finding.rule == "coordinator-on-spot"
    assert "`place" not in finding.reason
    assert "take that out" in finding.reason
    refused = place(yaml.safe_dump(document)).findings
    assert finding.reason in {entry.reason for entry in refused}


def test_check_recommends_nothing_that_the_proof_refuses() -> None:
    """Two jobs share a list of tolerations by an anchor, and only one of them asks for spot nodes."""
    fields = (
        f"tolerations: &list [{{key: gpu, operator: Exists}}], nodeSelector: {SELECTOR}",
        "tolerations: *list",
    )
    items = "".join(
        "- apiVersion: batch/v1\n  kind: Job\n  metadata: {name: x}\n  spec:\n    template:\n"
        f"      spec: {{restartPolicy: Never, containers: [{{name: c, image: x}}], {row}}}\n"
        for row in fields
    )
    findings = check(f"apiVersion: v1\nkind: List\nitems:\n{items}")
    (reason,) = {entry.reason for entry in findings if entry.rule == "spot-without-toleration"}
    assert "anchor" in reason
    assert list(advised(reason)) == []
