"""The rules of `check` for manifests: each finds its own example, and nothing in the example after it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.output.rule_pages import read_page
from arc_toolkit.placement.place_files import CheckedManifests
from arc_toolkit.placement.place_plan import PlaceSettings
from arc_toolkit.placement.rules import manifest_rules
from tests.support import CORPUS, needs_corpus

RULES = manifest_rules()


def check(text: str, **settings: frozenset[str]) -> FileResult:
    return CheckedManifests(PlaceSettings(**settings)).process("x.yaml", text.encode())  # type: ignore[arg-type]


def findings(text: str) -> list[Finding]:
    return list(check(text).findings)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_finds_its_example_and_is_content_with_the_corrected_one(name: str) -> None:
    rule, page = RULES[name], read_page(name)
    found = [finding for finding in findings(page.before) if finding.rule == name]
    assert found
    assert found[0].severity == rule.severity
    assert found[0].line > 0
    assert [finding.rule for finding in findings(page.after)] == []


@pytest.mark.parametrize("name", RULES)
def test_a_rule_can_be_skipped_and_ignored(name: str) -> None:
    before = read_page(name).before
    assert name not in {finding.rule for finding in check(before, skip=frozenset([name])).findings}
    ignored = f"# arc-toolkit: ignore-file[{name}] it is meant so\n{before}"
    assert name not in {finding.rule for finding in findings(ignored)}


def test_an_ignore_of_an_unknown_rule_is_reported() -> None:
    text = "# arc-toolkit: ignore-file[no-such-rule] because\n" + read_page("serving-on-spot").after
    assert [finding.rule for finding in findings(text)] == ["ignore-of-unknown-rule"]


TRIAL = """\
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata: {name: tune}
spec:
  trialTemplate:
    trialSpec:
      apiVersion: batch/v1
      kind: Job
      spec:
        nodeSelector: {pool: spot}
        containers: [{name: c, image: train}]
"""


def test_the_trial_of_an_experiment_is_looked_into() -> None:
    assert [finding.rule for finding in findings(TRIAL)] == ["pod-spec-wrong-depth"] * 2


def test_a_daemonset_may_only_tolerate() -> None:
    text = (
        read_page("spot-toleration-only")
        .before.replace("batch/v1", "apps/v1")
        .replace("kind: Job", "kind: DaemonSet")
    )
    assert findings(text) == []


@needs_corpus
def test_public_manifests_are_not_on_spot_nodes_of_azure() -> None:
    """A manifest of the corpus that is on no spot node gets none of these findings."""
    rules = {
        finding.rule
        for path in sorted((CORPUS / "kubernetes" / "manifests").rglob("*.yaml"))
        if b"spot" not in (data := path.read_bytes()).lower() and b"preemptible" not in data
        for finding in CheckedManifests(PlaceSettings()).process(str(path), data).findings
    }
    assert rules == set()


AKS = "kubernetes.azure.com/scalesetpriority"
ON_SPOT: dict[str, Any] = {
    "nodeSelector": {AKS: "spot"},
    "tolerations": [{"key": AKS, "operator": "Equal", "value": "spot", "effect": "NoSchedule"}],
}
THERE = {"containers": [{"name": "c", "image": "train"}], "restartPolicy": "Never", **ON_SPOT}
ELSEWHERE = {"containers": [{"name": "c", "image": "train"}]}
IGNORES = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def ray(head: dict[str, Any], **spec: Any) -> dict[str, Any]:
    groups = [{"groupName": "w", "template": {"spec": THERE}}]
    cluster = {"headGroupSpec": {"template": {"spec": head}}, "workerGroupSpecs": groups}
    return {"rayClusterSpec": cluster, **spec}


@pytest.mark.parametrize(
    ("version", "kind", "spec", "is_survived"),
    [
        ("batch/v1", "Job", {"podFailurePolicy": IGNORES, "template": {"spec": THERE}}, True),
        ("batch/v1", "Job", {"backoffLimit": 9, "template": {"spec": THERE}}, False),
        # Evicted pods of Volcano are made again without a limit.
        (
            "batch.volcano.sh/v1alpha1",
            "Job",
            {"tasks": [{"name": "w", "template": {"spec": THERE}}]},
            True,
        ),
        (
            "batch.volcano.sh/v1alpha1",
            "Job",
            {
                "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
                "tasks": [{"name": "w", "template": {"spec": THERE}}],
            },
            False,
        ),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": THERE}}}},
            True,
        ),
        (
            "kubeflow.org/v1",
            "TFJob",
            {"tfReplicaSpecs": {"Worker": {"template": {"spec": THERE}}}},
            False,
        ),
        # Workers of Ray and executors of Spark are made again; only a new head or driver is a retry.
        ("ray.io/v1", "RayJob", ray(ELSEWHERE), True),
        ("ray.io/v1", "RayJob", ray(THERE), False),
        ("ray.io/v1", "RayJob", ray(THERE, backoffLimit=2), True),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"driver": {}, "executor": ON_SPOT},
            True,
        ),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"driver": ON_SPOT, "executor": {}},
            False,
        ),
        (
            "argoproj.io/v1alpha1",
            "Workflow",
            {
                "templates": [
                    {"name": "a", "container": {"image": "x"}},
                    {
                        "name": "b",
                        "container": {"image": "x"},
                        "retryStrategy": {"retryPolicy": "Always"},
                        **ON_SPOT,
                    },
                ]
            },
            True,
        ),
        (
            "argoproj.io/v1alpha1",
            "Workflow",
            {**ON_SPOT, "templates": [{"name": "a", "container": {}}]},
            False,
        ),
    ],
)
def test_only_what_an_eviction_ends_or_counts_lacks_retries(
    version: str, kind: str, spec: dict[str, Any], is_survived: bool
) -> None:
    text = yaml.safe_dump(
        {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    )
    assert ("no-retry-on-spot" not in {finding.rule for finding in findings(text)}) is is_survived


def rules_of(kind: str, version: str, spec: dict[str, Any], **top: Any) -> list[str]:
    tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec, **top}
    return [finding.rule for finding in findings(yaml.safe_dump(tree))]


DEPTH, ONLY = "pod-spec-wrong-depth", "spot-toleration-only"


def test_fields_that_are_too_high_too_low_or_below_a_level_that_is_missing() -> None:
    inner = {"template": {"spec": ELSEWHERE}}
    assert rules_of("CronJob", "batch/v1", {"schedule": "@daily", **inner}) == [DEPTH]
    assert (
        rules_of("CronJob", "batch/v1", {"schedule": "@daily", "jobTemplate": {"spec": inner}})
        == []
    )
    low = {"containers": [{"name": "c", "image": "train", "tolerations": []}]}
    assert rules_of("Job", "batch/v1", {"template": {"spec": low}}) == [DEPTH]
    assert rules_of("Pod", "v1", ELSEWHERE, tolerations=[]) == [DEPTH]
    # Both roles of Ray have the same level above them.
    head = {"headGroupSpec": inner, "workerGroupSpecs": [{"groupName": "w", **inner}]}
    assert rules_of("RayJob", "ray.io/v1", {"rayClusterSpec": {**head, "nodeSelector": {}}}) == [
        DEPTH
    ]


@pytest.mark.parametrize(
    ("nodes", "is_said"),
    [
        ({}, True),
        ({"nodeSelector": {"kubernetes.io/os": "linux"}}, True),
        # Shapes of public manifests: a pool by its name, a label of someone's own.
        ({"nodeSelector": {"agentpool": "spot"}}, False),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 100,
                                "preference": {
                                    "matchExpressions": [
                                        {"key": "lifecycle", "operator": "In", "values": ["spot"]}
                                    ]
                                },
                            }
                        ]
                    }
                }
            },
            False,
        ),
    ],
    ids=["nothing", "os", "pool", "preference"],
)
def test_a_pool_that_is_named_may_be_the_spot_pool(nodes: dict[str, Any], is_said: bool) -> None:
    spec = {**ELSEWHERE, "tolerations": ON_SPOT["tolerations"], **nodes}
    assert (ONLY in rules_of("Deployment", "apps/v1", {"template": {"spec": spec}})) is is_said


def test_a_preference_of_spot_nodes_needs_the_toleration_too() -> None:
    term = {"matchExpressions": [{"key": AKS, "operator": "In", "values": ["spot"]}]}
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]
    }
    spec = {**ELSEWHERE, "affinity": {"nodeAffinity": preferred}}
    assert rules_of("Deployment", "apps/v1", {"template": {"spec": spec}}) == [
        "spot-without-toleration"
    ]
    there = {**spec, "tolerations": ON_SPOT["tolerations"]}
    assert rules_of("Deployment", "apps/v1", {"template": {"spec": there}}) == []


@pytest.mark.parametrize(
    ("args", "is_said"),
    [
        (["--checkpoint-dir", "/tmp/ckpt"], True),
        (["--init-checkpoint=/models/bert.ckpt"], False),
        (["--checkpoint-dir=/tmp/ckpt", "--checkpoint-url=gs://bucket/ckpt"], False),
        (["--checkpoint-dir=/data/ckpt"], False),
    ],
    ids=str,
)
def test_only_checkpoints_that_are_written_to_local_disks_alone_are_lost(
    args: list[str], is_said: bool
) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "c", "image": "train", "args": args, "volumeMounts": mounts}
    spec = {
        "template": {"spec": {**ON_SPOT, "containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    }
    assert ("local-checkpoint-on-spot" in rules_of("StatefulSet", "apps/v1", spec)) is is_said
