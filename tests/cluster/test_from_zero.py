"""AzureML on spot pools, on the real API server and the real Volcano: what lets job pods in, and what starts a pool."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.azure import extension
from tests.azure.test_preflight_spot import DEFAULT, DOCUMENTED, INDENTED
from tests.cluster.control_plane import ApiError, ControlPlane
from tests.cluster.objects import node
from tests.cluster.small import ready
from tests.cluster.workloads import job_pod
from tests.support import Result

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Object = dict[str, Any]
Arc = Callable[..., Result]
KEY = "kubernetes.azure.com/scalesetpriority"
TAINT = {"key": KEY, "value": "spot", "effect": "NoSchedule"}
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


# --- the toleration of job pods ----------------------------------------------------------------------------------


def place_of(cluster: ControlPlane, namespace: str, instance_type: Object) -> str:
    """Start a job pod and wait until the scheduler has decided: the name of its node, or Pending."""
    pod = job_pod("job", instance_type)
    pod["metadata"]["namespace"] = namespace
    cluster.create(pod)

    def decided() -> str:
        there = cluster.get("Pod", "job", namespace)
        if name := there["spec"].get("nodeName"):
            return str(name)
        reasons = [row.get("reason") for row in there["status"].get("conditions", ())]
        return "Pending" if "Unschedulable" in reasons else ""

    cluster.wait("a verdict", lambda: bool(decided()), 60)
    return decided()


def spot_cluster(cluster: ControlPlane) -> None:
    cluster.create(node("spot-0", labels={KEY: "spot", "agentpool": "spot"}, taints=[TAINT]))
    ready(cluster, "spot-0")


def test_job_pods_stay_pending_on_a_spot_pool_until_their_namespace_is_annotated(
    own_cluster: ControlPlane, arc: Arc, tmp_path: Path
) -> None:
    cluster = own_cluster
    spot_cluster(cluster)
    words = (
        "gen-instance-types",
        "--from-cluster",
        "--kubeconfig",
        cluster.kubeconfig,
        "--share",
        "half",
    )
    refused = arc(*words)
    assert (
        "job pods stay Pending on spot nodes" in refused.err
    )  # and without --tolerate no type is made for them
    result = arc(*words, "--spot-namespace", "by-manifest")
    assert result.code == 0, result.err
    *types, namespace = yaml.safe_load_all(result.out)
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "before"}})
    assert place_of(cluster, "before", types[0]) == "Pending"
    cluster.create(namespace)
    assert place_of(cluster, "by-manifest", types[0]) == "spot-0"

    # The command of the note, as the shell and kubectl read it.
    (note,) = [line for line in result.err.splitlines() if "kubectl annotate" in line]
    command = note[note.index("kubectl annotate") :].partition("; the extension")[0]
    _, _, _, name, annotation = shlex.split(command)
    key, _, value = annotation.partition("=")
    assert name == "by-manifest"
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "by-command", "annotations": {key: value}},
        }
    )
    assert place_of(cluster, "by-command", types[0]) == "spot-0"

    # What is not JSON lets no pod in at all: that is why preflight reads it.
    broken = {"name": "broken", "annotations": {key: value.replace('"', "'")}}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": broken})
    with pytest.raises(ApiError):
        place_of(cluster, "broken", types[0])
    folder = tmp_path / "types"
    assert arc(*words, "--spot-namespace", "team-a", "-o", folder).code == 0
    assert json.loads(
        yaml.safe_load((folder / "spot-namespace.yaml").read_text())["metadata"]["annotations"][key]
    )
    assert arc(*words, "--spot-namespace", "team-a", "--check", folder).code == 0


# --- a pool at zero nodes ----------------------------------------------------------------------------------------


def start_job(cluster: ControlPlane, name: str, pods: int = 1) -> None:
    """A job of Volcano that no node of the cluster can take."""
    resources = {"requests": {"cpu": "16"}, "limits": {"cpu": "16"}}
    spec = {
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        "restartPolicy": "Never",
    }
    task = {"name": "worker", "replicas": pods, "template": {"spec": spec}}
    body = {"minAvailable": pods, "schedulerName": "volcano", "queue": "default", "tasks": [task]}
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": body,
    }
    cluster.request("POST", JOBS, manifest)


def pods_of(cluster: ControlPlane, name: str) -> list[Object]:
    return [
        pod
        for pod in cluster.list("Pod", "default")
        if pod["metadata"]["name"].startswith(f"{name}-")
    ]


def stays_without_pods(cluster: ControlPlane, name: str, seconds: float) -> bool:
    """Whether the job has no pod for so long, although Volcano has seen it: its PodGroup is Pending."""
    group = "scheduling.volcano.sh/v1beta1"

    def phases() -> list[str]:
        return [
            (item.get("status") or {}).get("phase", "")
            for item in cluster.list("PodGroup", "default", group)
        ]

    cluster.wait("the PodGroup", lambda: "Pending" in phases(), 60)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if pods_of(cluster, name):
            return False
        time.sleep(0.5)
    return "Pending" in phases()


def test_which_configuration_of_volcano_makes_pods_for_a_pool_at_zero(
    own_cluster: ControlPlane, arc: Arc
) -> None:
    cluster = own_cluster
    cluster.create(node("system-0"))  # 4 cores
    ready(cluster, "system-0")
    seconds = 5  # instead of the minute that is printed
    documented, indented = (text.replace("1m", f"{seconds}s") for text in (DOCUMENTED, INDENTED))

    cluster.start_volcano(DEFAULT)
    start_job(cluster, "held")
    assert stays_without_pods(cluster, "held", 5)
    # The indentation: `arguments` is empty, and sla-waiting-time a field that nobody reads.
    cluster.restart_volcano_scheduler(documented)
    assert stays_without_pods(cluster, "held", 4 * seconds)
    cluster.restart_volcano_scheduler(indented)
    cluster.wait("the pod of a job that waited", lambda: len(pods_of(cluster, "held")) == 1, 60)

    cluster.restart_volcano_scheduler(
        yaml.safe_load(arc("cluster", "scheduler-config").out)["data"][
            extension.SCHEDULER_CONFIG_KEY
        ]
    )
    start_job(cluster, "gang", 2)
    cluster.wait("both pods at once", lambda: len(pods_of(cluster, "gang")) == 2, 60)
    # What the autoscaler looks for: pods that the scheduler calls Unschedulable. Then it starts a node ...
    cluster.wait("Unschedulable", lambda: all(map(unschedulable, pods_of(cluster, "gang"))), 60)
    large = {"cpu": "20", "memory": "64Gi", "pods": "110"}
    cluster.create(node("new-0", capacity=large))
    ready(cluster, "new-0")
    time.sleep(5)
    # ... with room for one of both, so that none is bound: a gang.
    assert [pod["spec"].get("nodeName") for pod in pods_of(cluster, "gang")] == [None, None]
    cluster.create(node("new-1", capacity=large))
    cluster.wait(
        "both pods",
        lambda: all(pod["spec"].get("nodeName") for pod in pods_of(cluster, "gang")),
        60,
    )


def unschedulable(pod: Object) -> bool:
    return any(
        row.get("reason") == "Unschedulable" for row in pod["status"].get("conditions") or ()
    )
