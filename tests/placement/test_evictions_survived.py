"""`--retries` never lowers what a job survives.

`survived` counts the evictions that a workload survives, by what its controller was seen to do or its documentation
says, and not by the code of `place`. An eviction is a pod that is lost with its node or by the eviction API, with the
condition DisruptionTarget; in a distributed job every other rank restarts in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import product
from math import inf
from typing import Any

import pytest
import yaml

from tests.placement.golden_manifest import Golden
from tests.placement.goldens import GOLDENS
from tests.placement.support import place

COUNTS = (0, 1, 3, 7)
LIMITS = (None, 0, 3, 20)
DISRUPTION = {"type": "DisruptionTarget"}


def _on_disruption(job: dict[str, Any]) -> str | None:
    for rule in job.get("podFailurePolicy", {}).get("rules", []):
        if DISRUPTION in rule.get("onPodConditions", []):
            return str(rule["action"])
    return None


def job(spec: dict[str, Any]) -> float:
    """https://kubernetes.io/docs/concepts/workloads/controllers/job/: 6 failures, Ignore is not one."""
    if (action := _on_disruption(spec)) is not None:
        return inf if action == "Ignore" else 0
    return float(spec.get("backoffLimit", 6))


def job_set(spec: dict[str, Any]) -> float:
    """JobSet 0.12: a failed child restarts the set `maxRestarts` times, and uncounted with IgnoreMaxRestarts."""
    policy = spec.get("failurePolicy", {})
    children = [row["template"]["spec"] for row in spec["replicatedJobs"]]
    restarts = policy.get("maxRestarts", 0)
    for rule in policy.get("rules", []):
        if "PodFailurePolicy" in rule["onJobFailureReasons"]:
            restarts = inf
    return float(min((job(child) + 1) * (restarts + 1) - 1 for child in children))


def replicas(spec: dict[str, Any]) -> float:
    """Training operator 1.9.4, pkg/core/job.go: restarts in place of all running pods are added up."""
    (roles,) = (value for key, value in spec.items() if key.endswith("ReplicaSpecs"))
    limit = spec.get("runPolicy", {}).get("backoffLimit")
    others = sum(role.get("replicas", 1) for role in roles.values()) - 1
    if limit is None or (others == 0 and limit > 0):
        return inf
    return max(0, -(-limit // others) - 1) if others else 0


def mpi_job(spec: dict[str, Any]) -> float:
    """mpi-operator 0.8.0: the launcher fails with each lost worker, and is a Job with 6 retries."""
    return float(spec.get("runPolicy", {}).get("backoffLimit", 6))


def volcano(spec: dict[str, Any]) -> float:
    """Volcano 1.15: without a policy evicted pods are made again; with one each counts for maxRetry, 3."""
    return float(spec.get("maxRetry") or 3) if spec.get("policies") else inf


def argo(spec: dict[str, Any]) -> float:
    strategies = [row["retryStrategy"] for row in spec["templates"] if "retryStrategy" in row]
    retried = [row for row in strategies if row.get("retryPolicy") in ("Always", "OnError")]
    return float(min((int(row.get("limit", 10**9)) for row in retried), default=0))


def spark(spec: dict[str, Any]) -> float:
    policy = spec.get("restartPolicy", {})
    return float(policy.get("onFailureRetries", 0)) if policy.get("type") == "OnFailure" else 0


Survived = Callable[[dict[str, Any]], float]
# By kind: where the job is, the field of its limit, and how many evictions it survives.
MODELS: dict[str, tuple[tuple[str, ...], tuple[str, ...], Survived]] = {
    "Job": (("spec",), ("backoffLimit",), job),
    "CronJob": (("spec", "jobTemplate", "spec"), ("backoffLimit",), job),
    "JobSet": (("spec",), ("failurePolicy", "maxRestarts"), job_set),
    **dict.fromkeys(
        ("TrainingRuntime", "ClusterTrainingRuntime"),
        (("spec", "template", "spec"), ("failurePolicy", "maxRestarts"), job_set),
    ),
    **dict.fromkeys(
        ("TFJob v1", "PyTorchJob v1", "MPIJob v1", "XGBoostJob v1", "PaddleJob v1", "JAXJob v1"),
        (("spec",), ("runPolicy", "backoffLimit"), replicas),
    ),
    "MPIJob v2beta1": (("spec",), ("runPolicy", "backoffLimit"), mpi_job),
    "batch.volcano.sh/v1alpha1 Job": (("spec",), ("maxRetry",), volcano),
    "flow.volcano.sh/v1alpha1 JobTemplate": (("spec",), ("maxRetry",), volcano),
    "batch.volcano.sh/v1alpha1 CronJob": (("spec", "jobTemplate", "spec"), ("maxRetry",), volcano),
    "RayJob v1": (("spec",), ("backoffLimit",), lambda spec: float(spec.get("backoffLimit", 0))),
    "RayCronJob v1": (
        ("spec", "jobTemplate"),
        ("backoffLimit",),
        lambda spec: float(spec.get("backoffLimit", 0)),
    ),
    "SparkApplication": (("spec",), ("restartPolicy", "onFailureRetries"), spark),
    "ScheduledSparkApplication": (
        ("spec", "template"),
        ("restartPolicy", "onFailureRetries"),
        spark,
    ),
    **dict.fromkeys(("Workflow", "WorkflowTemplate"), (("spec",), (), argo)),
    "TaskRun": (("spec",), ("retries",), lambda spec: float(spec.get("retries", 0))),
}
GOLDENS_BY_NAME = {golden.name: golden for golden in GOLDENS}


def variants(golden: Golden, limit_path: tuple[str, ...], at: tuple[str, ...]) -> Iterator[Any]:
    """The manifest with limits, numbers of pods and policies of its own."""
    policies = (
        None,
        {"event": "PodFailed", "action": "RestartJob"},
        {"event": "PodEvicted", "action": "RestartTask"},
    )
    is_volcano, is_kubeflow = limit_path == ("maxRetry",), limit_path[:1] == ("runPolicy",)
    numbers = (1, 8) if is_kubeflow else (1,)
    for limit, pods, policy in product(LIMITS, numbers, policies if is_volcano else (None,)):
        document = yaml.safe_load(golden.text)
        spec = golden.at(document, at)
        if limit is not None and limit_path:
            golden.at(spec, limit_path[:-1])[limit_path[-1]] = limit
            if limit_path[0] == "restartPolicy":
                spec["restartPolicy"]["type"] = "OnFailure"
        for key in spec:
            if key.endswith("ReplicaSpecs"):
                spec[key]["Worker"]["replicas"] = pods
        if policy is not None:
            spec["policies"] = [policy]
        yield document


@pytest.mark.parametrize("name", MODELS)
def test_no_job_survives_fewer_evictions(name: str) -> None:
    at, limit_path, survived = MODELS[name]
    golden = GOLDENS_BY_NAME[name]
    written = 0
    for document, count in product(variants(golden, limit_path, at), COUNTS):
        before = survived(golden.at(deepcopy(document), at))
        for spot in ("require", None):
            result = place(yaml.safe_dump(document), spot, retries=count)
            after = yaml.safe_load(result.after) if result.after else document
            written += result.after is not None
            assert survived(golden.at(after, at)) >= before, (document, count)
    assert written


# They contain one of the kinds above, or differ from it by their name alone.
CONTAINERS = {"List", "AppWrapper", "Experiment", "CronWorkflow", "ClusterWorkflowTemplate"}


@pytest.mark.parametrize("name", sorted(GOLDENS_BY_NAME.keys() - MODELS.keys() - CONTAINERS))
def test_other_kinds_get_no_field_for_retries(name: str) -> None:
    golden = GOLDENS_BY_NAME[name]
    for count in COUNTS:
        assert place(golden.text, None, retries=count, trainer=golden.trainer).after is None
