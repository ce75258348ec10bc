"""Which roles are coordinators: by kind, by name, or because their end is that of the job; and what `place` says."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from arc_toolkit.findings import Finding
from tests.placement.support import place

JOB_SET, VOLCANO = "jobset.x-k8s.io/v1alpha2", "batch.volcano.sh/v1alpha1"


def pod(gpus: int = 0) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "train"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return {"containers": [container]}


def dump(version: str, kind: str, spec: dict[str, Any]) -> str:
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    return str(yaml.safe_dump(document))


def job_set(*names: str, **fields: Any) -> str:
    jobs = [{"name": name, "template": {"spec": {"template": {"spec": pod()}}}} for name in names]
    return dump(JOB_SET, "JobSet", {"replicatedJobs": jobs, **fields})


def volcano(*tasks: dict[str, Any], **fields: Any) -> str:
    rows = [{"template": {"spec": pod()}, **task} for task in tasks]
    return dump(VOLCANO, "Job", {"tasks": rows, **fields})


def pytorch(gpus: int = 0, **replicas: int) -> str:
    roles = {
        role: {"replicas": count, "template": {"spec": pod(gpus)}}
        for role, count in replicas.items()
    }
    return dump("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": roles})


def kept_off(text: str) -> list[str]:
    """The paths of pod specs that exclude spot nodes after `place --spot require`."""
    result = place(text)
    assert result.after is not None, result
    found = []

    def look(node: Any, name: str) -> None:
        if isinstance(node, dict):
            name = str(node.get("name", name)) if "template" in node else name
            if "containers" in node and "NotIn" in str(node.get("affinity")):
                found.append(name)
            for key, child in node.items():
                look(child, key if name == "" or key in ("Master", "Worker") else name)
        elif isinstance(node, list):
            for child in node:
                look(child, name)

    look(yaml.safe_load(result.after)["spec"], "")
    return found


COMPLETES = [{"event": "TaskCompleted", "action": "CompleteJob"}]


@pytest.mark.parametrize(
    ("text", "off"),
    [
        (job_set("mpi-launcher", "node"), ["mpi-launcher"]),
        (job_set("pathways-head", "worker"), ["pathways-head"]),
        (job_set("chief-0", "head-workers"), ["chief-0"]),
        (job_set("a", "b", coordinator={"replicatedJob": "a"}), ["a"]),
        # Every job of a set ends it when it fails; this one is what is waited for.
        (job_set("data", "train", successPolicy={"targetReplicatedJobs": ["train"]}), []),
        (job_set("a", coordinator={"replicatedJob": "a"}), []),
        (job_set("leader"), []),
        (volcano({"name": "server"}, {"name": "worker"}), ["server"]),
        (volcano({"name": "a", "policies": COMPLETES}, {"name": "b"}), ["a"]),
        (volcano({"name": "a", "replicas": 2, "policies": COMPLETES}, {"name": "b"}), []),
        (
            volcano(
                {"name": "a", "policies": COMPLETES, "template": {"spec": pod(1)}}, {"name": "b"}
            ),
            [],
        ),
        # Each of them does the work.
        (volcano({"name": "ps"}, {"name": "worker", "policies": COMPLETES}), ["ps"]),
        (volcano({"name": "a"}, {"name": "b"}, plugins={"mpi": ["--master=b"]}), ["b"]),
        (pytorch(Master=1, Worker=2), ["Master"]),
        (pytorch(Master=1), []),
    ],
)
def test_coordinators_stay_off_spot_nodes(text: str, off: list[str]) -> None:
    assert kept_off(text) == off


def about_coordinators(text: str, **settings: Any) -> list[Finding]:
    findings = place(text, **settings).findings
    return [finding for finding in findings if finding.rule == "coordinator-on-spot"]


def test_it_is_said_in_one_line_until_it_is_done() -> None:
    text = pytorch(Master=1, Worker=2)
    (finding,) = about_coordinators(text)
    assert finding.severity == "note"
    assert finding.message == "PyTorchJob x: master stays off spot nodes"
    placed_text = (place(text).after or b"").decode()
    assert about_coordinators(placed_text) == []


def test_a_coordinator_with_gpus_gets_a_warning_with_the_count_and_both_ways_out() -> None:
    (finding,) = about_coordinators(pytorch(8, Master=1, Worker=2))
    assert finding.severity == "warning"
    assert finding.message == "PyTorchJob x: master asks for 8 GPUs and stays off spot nodes"
    assert "regular node" in finding.reason
    assert "--role master --role worker" in finding.reason
    chosen = frozenset(["master", "worker"])
    (finding,) = about_coordinators(pytorch(8, Master=1, Worker=2), roles=chosen)
    assert "goes to spot nodes" in finding.message
