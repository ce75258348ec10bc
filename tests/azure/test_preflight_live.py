"""Preflight against a real Kubernetes (and the loopback Azure): what only an API server can show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from arc_toolkit.azure import session as azure_session
from arc_toolkit.azure.session import Session
from tests.azure.arm_server import SUBSCRIPTION, Arm
from tests.azure.objects import compute, installed, instance_type
from tests.support import Result

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.real]

Arc = Callable[..., Result]
GPU_SIZE = "Standard_NC24ads_A100_v4"


def make_type(cluster: ControlPlane, name: str, cpu: str, memory: str) -> None:
    body = instance_type(name, cpu, memory)
    del body["metadata"]["uid"]
    cluster.create({"apiVersion": "amlarc.azureml.com/v1alpha1", "kind": "InstanceType", **body})


def ready(cluster: ControlPlane) -> bool:
    def is_ready(item: dict[str, object]) -> bool:
        status = item["status"]
        assert isinstance(status, dict)
        return any(
            row["type"] == "Ready" and row["status"] == "True"
            for row in status.get("conditions", ())
        )

    return all(is_ready(item) for item in cluster.list("Node"))


def test_both_sides_are_read_and_a_pod_in_the_way_is_found(
    arc: Arc, cluster: ControlPlane, arm: Arm, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_session, "open_session", lambda cloud=None: session)
    extension = installed()
    arm.extensions[extension["id"].lower()] = extension
    arm.computes["c"] = compute()
    cluster.start_volcano()
    cluster.add_node("cpu-0")
    make_type(cluster, "whole", "3900m", "15000Mi")
    cluster.wait("Ready nodes", lambda: ready(cluster))
    where = (
        "--subscription",
        SUBSCRIPTION,
        "--resource-group",
        "ml-rg",
        "--cluster",
        "gpu-aks",
        "--workspace",
        "ml-ws",
    )
    words = ("cluster", "preflight", *where, "--kubeconfig", cluster.kubeconfig)
    well = arc(*words)
    assert (well.code, well.err) == (0, "12 ok\n"), well.out

    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
    }
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "gateway-1", "namespace": "azureml"},
            "spec": {"nodeName": "cpu-0", "containers": [container]},
        }
    )
    cluster.add_node("gpu-0", labels={"node.kubernetes.io/instance-type": GPU_SIZE})
    make_type(cluster, "too-big", "64", "500Gi")
    cluster.wait("Ready nodes", lambda: ready(cluster))
    found = arc(*words)
    assert (found.code, found.err) == (1, "9 ok, 3 not ok\n")
    assert "whole does not fit on cpu-0 beside gateway-1" in found.out
    assert "1 of 1 GPU nodes show no GPU to Kubernetes (gpu-0)" in found.out
    assert "too-big: larger than the largest node" in found.out


def test_a_user_without_rights_reads_which_verb_and_resource_are_missing(
    arc: Arc, cluster: ControlPlane
) -> None:
    cluster.start_volcano()
    found = arc(
        "cluster",
        "preflight",
        "--only",
        "cluster",
        "--kubeconfig",
        cluster.write_kubeconfig("nobody"),
    )
    assert found.code == 1
    rows = {line[13:32].strip(): line for line in found.out.splitlines()}
    assert rows["CRDs"].startswith("ok"), "discovery is for everybody"
    assert 'user "nobody" may not list nodes' in rows["Ready nodes"]
    assert 'user "nobody" may not list instancetypes.amlarc.azureml.com' in rows["instance types"]
    assert all(line.startswith(("ok", "cannot tell")) for line in rows.values())


def test_the_read_role_without_crds_and_deployments_is_enough(
    arc: Arc, cluster: ControlPlane
) -> None:
    """Preflight needs nodes, pods and instance types; the rest it learns by discovery."""
    cluster.start_volcano()
    cluster.add_node("cpu-0")
    make_type(cluster, "whole", "3900m", "15000Mi")
    cluster.wait("Ready nodes", lambda: ready(cluster))
    group = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
        {"apiGroups": ["amlarc.azureml.com"], "resources": ["instancetypes"], "verbs": ["list"]},
    ]
    name = {"metadata": {"name": "preflight-least"}}
    subject = {"kind": "User", "name": "nobody", "apiGroup": group}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "preflight-least"}
    cluster.create({"apiVersion": f"{group}/v1", "kind": "ClusterRole", **name, "rules": rules})
    binding = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", **name}
    cluster.create({**binding, "roleRef": reference, "subjects": [subject]})
    try:
        words = (
            "cluster",
            "preflight",
            "--only",
            "cluster",
            "--kubeconfig",
            cluster.write_kubeconfig("nobody"),
        )
        cluster.wait("the rights", lambda: arc(*words).code == 0)
        assert arc(*words).err == "7 ok\n"
    finally:
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            cluster.delete(kind, "preflight-least", namespace="", api_version=f"{group}/v1")


def test_a_server_that_does_not_answer_is_asked_once_and_told_in_one_sentence(
    arc: Arc, cluster: ControlPlane
) -> None:
    kubeconfig = cluster.write_kubeconfig("admin", server="https://127.0.0.1:9")
    found = arc("cluster", "preflight", "--only", "cluster", "--kubeconfig", kubeconfig)
    assert (found.code, found.err) == (1, "7 cannot tell\n")
    assert len({line[32:] for line in found.out.splitlines()}) == 1
