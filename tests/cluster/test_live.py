"""gen-instance-types and cluster nodes on a live cluster: which nodes, apply, prune, conflicts, drift, watching."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane, node
from tests.cluster.workloads import daemonset, job_pod, settle
from tests.support import Result

pytestmark = pytest.mark.cluster

Object = dict[str, Any]
Arc = Callable[..., Result]
API = "amlarc.azureml.com/v1alpha1"
CAPACITY = {"cpu": "8", "memory": "32859916Ki", "pods": "110"}
ALLOCATABLE = {"cpu": "7820m", "memory": "30453516Ki", "pods": "110"}
BIG = {"node.kubernetes.io/instance-type": "Standard_B8ms", "agentpool": "big"}


def big(name: str, **options: Any) -> Object:
    """A real node: Standard_B8ms on 1.32 with maxPods 110."""
    labels = {**BIG, **options.pop("labels", {})}
    options = {"capacity": CAPACITY, "allocatable": ALLOCATABLE, "version": "v1.32.7", **options}
    return node(name, labels=labels, **options)


def ready(cluster: ControlPlane, *names: str) -> None:
    """Wait until the nodes are Ready and have lost their not-ready taint."""

    def settled() -> bool:
        items = {item["metadata"]["name"]: item for item in cluster.list("Node")}
        return all(
            any(
                row["type"] == "Ready" and row["status"] == "True"
                for row in items[name]["status"].get("conditions", ())
            )
            and not any("not-ready" in taint["key"] for taint in items[name]["spec"].get("taints", ()))
            for name in names
        )

    cluster.wait("Ready nodes", settled)


def types(cluster: ControlPlane) -> dict[str, Object]:
    return {item["metadata"]["name"]: item for item in cluster.list("InstanceType", api_version=API)}


@pytest.fixture
def gen(arc: Arc, cluster: ControlPlane) -> Arc:
    """`gen-instance-types --from-cluster` with a Ready node in the cluster."""
    cluster.create(big("big-0"))
    ready(cluster, "big-0")
    return lambda *words: arc("gen-instance-types", "--from-cluster", "--kubeconfig", cluster.kubeconfig, *words)


# --- which nodes ------------------------------------------------------------------------------------------------


def test_nodes_are_grouped_and_those_that_jobs_cannot_use_are_left_out_with_the_reason(
    cluster: ControlPlane, gen: Arc
) -> None:
    taint = {"key": "team", "value": "other", "effect": "NoSchedule"}
    spot = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
    tolerated = {"key": "ml.azure.com/amlarc", "value": "true", "effect": "NoSchedule"}
    cluster.create_all(
        [
            big("big-1", taints=[tolerated]),
            big("small-0", labels={"node.kubernetes.io/instance-type": "Standard_D4s_v5", "agentpool": "small"},
                capacity={"cpu": "4", "memory": "16374000Ki", "pods": "110"}, allocatable=None),
            big("tainted", taints=[taint]),
            big("spot", taints=[spot]),
            big("windows", system="windows"),
            big("arm", architecture="arm64"),
            big("master", labels={"node-role.kubernetes.io/control-plane": ""}),
            big("lost", managed=False),
            big("cordoned"),
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "joining"}},
        ]
    )  # fmt: skip
    cluster.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}})
    ready(cluster, "big-1", "small-0", "cordoned", "spot", "tainted", "windows", "arm", "master")
    result = gen("--format", "json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert [entry["groups"] for entry in found["instance_types"]] == [
        ["Standard_B8ms (pool big, 2 nodes)"],
        ["Standard_D4s_v5 (pool small, 1 node)"],
    ]
    reasons = {row["node"]: row["reason"] for row in found["left_out"]}
    assert reasons.keys() == {"tainted", "spot", "windows", "arm", "master", "lost", "cordoned"}
    assert "team=other:NoSchedule" in reasons["tainted"]
    assert "spot pool" in reasons["spot"]
    assert "arm64" in reasons["arm"]
    assert reasons["master"] == "control plane"
    assert reasons["cordoned"] == "cordoned"
    assert "left out 1 node (cordoned): cordoned" in result.err
    assert "left out joining: it reports no capacity yet" in result.err


def test_the_requests_of_daemonsets_are_counted(cluster: ControlPlane, gen: Arc) -> None:
    before = json.loads(gen("--format", "json").out)["instance_types"][0]
    settle(cluster, [daemonset("agent", "500m", "1Gi", {})], 1)
    after = json.loads(gen("--format", "json").out)["instance_types"][0]
    assert before["cpu_m"] - after["cpu_m"] == 500
    assert before["memory_bytes"] - after["memory_bytes"] == 2**30


def test_a_daemonset_pod_that_waits_behind_a_whole_node_job_is_counted(cluster: ControlPlane, gen: Arc) -> None:
    gen("--apply")
    before = json.loads(gen("--format", "json").out)["instance_types"][0]
    cluster.create(job_pod("job", before["manifest"]))
    cluster.wait("the job", lambda: bool(cluster.get("Pod", "job")["spec"].get("nodeName")))
    cluster.create(daemonset("late", "500m", "2Gi", {}))
    cluster.wait("its refusal", lambda: "0/1 nodes" in json.dumps(cluster.list("Pod", "kube-system")))
    after = json.loads(gen("--format", "json").out)["instance_types"][0]
    assert before["cpu_m"] - after["cpu_m"] == 500
    assert gen("--check").code == 1


# --- apply ------------------------------------------------------------------------------------------------------


def test_apply_creates_then_leaves_unchanged_then_configures(cluster: ControlPlane, gen: Arc) -> None:
    first = gen("--share", "whole", "--share", "half", "--apply")
    assert (first.code, first.out) == (0, "8cpu32g created\n4cpu16g created\n")
    assert gen("--share", "whole", "--share", "half", "--apply").out == "8cpu32g unchanged\n4cpu16g unchanged\n"
    third = gen("--share", "whole", "--reserve", "10%", "--apply")
    assert third.code == 0
    assert third.out.startswith("8cpu32g configured: ")
    assert "spec.resources.limits.memory" in third.out
    stored = types(cluster)["8cpu32g"]
    assert stored["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "Standard_B8ms"}
    managers = [(row["manager"], row["operation"]) for row in stored["metadata"]["managedFields"]]
    assert managers == [("arc-toolkit", "Apply")]


def test_dry_run_is_the_servers_and_changes_nothing(cluster: ControlPlane, gen: Arc) -> None:
    result = gen("--apply", "--dry-run")
    assert result.out == "8cpu32g created (server dry run)\n"
    assert types(cluster) == {}
    gen("--apply")
    version = types(cluster)["8cpu32g"]["metadata"]["resourceVersion"]
    assert gen("--apply", "--dry-run").out == "8cpu32g unchanged (server dry run)\n"
    changed = gen("--apply", "--dry-run", "--reserve", "10%", "--format", "json")
    assert [row["action"] for row in json.loads(changed.out)["results"]] == ["configured"]
    assert types(cluster)["8cpu32g"]["metadata"]["resourceVersion"] == version


def test_a_conflict_is_shown_and_left_until_it_is_forced(cluster: ControlPlane, gen: Arc) -> None:
    amounts = {"cpu": "1", "memory": "1Gi"}
    theirs = {
        "apiVersion": API,
        "kind": "InstanceType",
        "metadata": {"name": "8cpu32g"},
        "spec": {"resources": {"requests": amounts, "limits": amounts}},
    }
    cluster.apply(theirs, manager="somebody")
    result = gen("--share", "whole", "--share", "half", "--apply")
    assert result.code == 1
    assert "8cpu32g conflict: " in result.out
    assert "spec.resources.requests.cpu belongs to somebody" in result.out
    assert "4cpu16g created" in result.out
    assert "--force-conflicts" in result.err
    assert types(cluster)["8cpu32g"]["spec"]["resources"]["requests"] == amounts
    forced = gen("--apply", "--force-conflicts")
    assert (forced.code, forced.out.split(":")[0]) == (0, "8cpu32g configured")
    assert types(cluster)["8cpu32g"]["spec"]["resources"]["requests"] != amounts


def test_prune_deletes_only_what_this_tool_made_from_the_cluster_and_no_longer_makes(
    cluster: ControlPlane, gen: Arc, arc: Arc
) -> None:
    by_hand = {"cpu": "1", "memory": "1Gi"}
    manual = {
        "apiVersion": API,
        "kind": "InstanceType",
        # The label alone does not make it ours: somebody may have copied a manifest.
        "metadata": {"name": "by-hand", "labels": {"app.kubernetes.io/managed-by": "arc-toolkit"}},
        "spec": {"resources": {"requests": by_hand, "limits": by_hand}},
    }
    cluster.create(manual)
    gen("--share", "whole", "--share", "half", "--share", "quarter", "--apply")
    arc("gen-instance-types", "--sku", "Standard_D64s_v5", "--apply", "--kubeconfig", cluster.kubeconfig)
    trial = gen("--share", "half", "--apply", "--prune", "--dry-run")
    assert "2cpu8g pruned (server dry run)" in trial.out
    assert len(types(cluster)) == 5
    result = gen("--share", "half", "--apply", "--prune")
    assert result.code == 0
    assert "no longer generated, these are deleted now: 2cpu8g, 8cpu32g" in result.err
    assert result.out.splitlines() == [
        "4cpu16g unchanged",
        "2cpu8g pruned",
        "8cpu32g pruned",
        "64cpu256g kept: made from sku, not cluster",
    ]
    assert types(cluster).keys() == {"by-hand", "4cpu16g", "64cpu256g"}


@pytest.mark.slow
def test_after_kill_9_at_any_moment_a_second_run_completes(cluster: ControlPlane, gen: Arc) -> None:
    shares = [word for n in range(1, 41) for word in ("--share", f"1/{n}")]
    options = [*shares, "--name-template", "t-{share}", "--apply", "--prune"]
    command = [sys.executable, "-m", "arc_toolkit", "gen-instance-types", "--from-cluster"]
    command += ["--kubeconfig", str(cluster.kubeconfig), *options]
    partial = set()
    for line in (1, 8, 20, 33):  # kill it after that many results
        cluster.request("DELETE", f"/apis/{API}/instancetypes")
        gen("--name-template", "old-{share}", "--apply")  # something to prune
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        assert process.stdout is not None
        for _ in range(line):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        partial.add(len(types(cluster)))
        for item in types(cluster).values():  # each one is whole
            assert item["spec"]["resources"]["limits"].keys() == {"cpu", "memory"}
        second = gen(*options)
        assert second.code == 0, second.err
        assert len(types(cluster)) == 40
        third = gen(*options)
        assert {row.split()[1] for row in third.out.splitlines()} == {"unchanged"}
    assert any(count < 41 for count in partial), "it was never interrupted half way"


def test_options_that_have_no_meaning_together_are_refused(arc: Arc) -> None:
    for words, said in (
        (["--from-cluster", "--sku", "D4s_v5"], "leave out --sku"),
        (["--sku", "D4s_v5", "--prune"], "--prune goes with --apply"),
        (["--from-cluster", "--check", "--apply"], "leave out --apply"),
        (["--sku", "D4s_v5", "--check"], "needs a folder"),
        (["--from-cluster", "--watch"], "--watch goes with"),
    ):
        result = arc("gen-instance-types", *words)
        assert (result.code, said in result.err) == (2, True), result.err


# --- drift ------------------------------------------------------------------------------------------------------


def test_check_says_that_all_types_fit(gen: Arc) -> None:
    gen("--share", "whole", "--share", "half", "--apply")
    result = gen("--check")
    assert result.code == 0, result.out
    assert [line.split()[-1] for line in result.out.splitlines()[1:]] == ["fits", "fits"]


def test_check_finds_types_that_a_new_daemonset_defeats_and_shows_the_waterfall(
    cluster: ControlPlane, gen: Arc
) -> None:
    gen("--share", "whole", "--share", "half", "--apply")
    settle(cluster, [daemonset("security-agent", "200m", "512Mi", {})], 1)
    result = gen("--check")
    assert result.code == 1
    assert (
        "8cpu32g: does not fit on big-0: it asks 200m cpu and 512Mi memory more than big-0 can give" in result.out
    )
    assert "4cpu16g: fits less often on big-0: 2 of it ask 200m cpu" in result.out
    assert "- security-agent" in result.out
    found = {row["name"]: row for row in json.loads(gen("--check", "--format", "json").out)["instance_types"]}
    assert (found["4cpu16g"]["meant"], found["4cpu16g"]["fits"], found["4cpu16g"]["state"]) == (
        2,
        1,
        "fits less often",
    )
    assert "security-agent" in [line["name"] for line in found["8cpu32g"]["tightest"]["lines"]]


def test_check_names_the_upgrade_and_the_max_pods_that_made_a_type_too_large(
    cluster: ControlPlane, gen: Arc
) -> None:
    gen("--apply")
    cluster.delete("Node", "big-0")
    smaller = {"cpu": "7820m", "memory": f"{30453516 - 20 * 140 * 1024}Ki", "pods": "250"}
    cluster.create(big("big-new", allocatable=smaller, capacity={**CAPACITY, "pods": "250"}, version="v1.34.1"))
    ready(cluster, "big-new")
    result = gen("--check")
    assert result.code == 1
    assert "2800Mi memory more" in result.out
    assert "(Kubernetes 1.32.7 -> 1.34.1, maxPods 110 -> 250)" in result.out


def test_check_tells_types_without_a_node_and_types_that_are_not_valid(
    cluster: ControlPlane, gen: Arc, arc: Arc
) -> None:
    arc("gen-instance-types", "--sku", "Standard_NC24ads_A100_v4", "--apply", "--kubeconfig", cluster.kubeconfig)
    found = {row["name"]: row for row in json.loads(gen("--check", "--format", "json").out)["instance_types"]}
    assert found["24cpu220g-1gpu"]["state"] == "no node"
    assert "instance-type=Standard_NC24ads_A100_v4" in found["24cpu220g-1gpu"]["reason"]
    assert gen("--check").code == 0  # a pool at zero nodes is no drift


def test_watch_checks_again_when_a_node_changes_and_not_at_each_heartbeat(cluster: ControlPlane, gen: Arc) -> None:
    gen("--apply")
    command = [sys.executable, "-m", "arc_toolkit", "gen-instance-types", "--from-cluster", "--check", "--watch"]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(cluster.kubeconfig)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
    reader.start()
    try:
        cluster.wait("the first check", lambda: any(line.endswith("fits\n") for line in lines))
        cluster.patch("/api/v1/nodes/big-0", {"metadata": {"annotations": {"heartbeat": "1"}}})
        time.sleep(1)
        assert len(lines) == 2
        cluster.patch("/api/v1/nodes/big-0/status", {"status": {"allocatable": {"cpu": "7"}}})
        cluster.wait("the second check", lambda: any("does not fit" in line for line in lines))
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        reader.join(5)


# --- cluster nodes ----------------------------------------------------------------------------------------------


@pytest.fixture
def look(arc: Arc, cluster: ControlPlane) -> Arc:
    """`look("nodes", ...)` is `arc-toolkit cluster nodes ...` on this cluster."""
    return lambda command, *words: arc("cluster", command, "--kubeconfig", cluster.kubeconfig, *words)


def test_cluster_nodes_shows_groups_and_the_types_that_fit(cluster: ControlPlane, gen: Arc, look: Arc) -> None:
    settle(cluster, [daemonset("agent", "320m", "620Mi", {})], 1)
    gen("--share", "whole", "--share", "half", "--apply")
    cluster.create(big("lost", managed=False))
    result = look("nodes")
    assert result.code == 0, result.err
    header, *rows = result.out.splitlines()
    assert header.split()[:3] == ["SIZE", "POOL", "NODES"]
    assert len(rows) == 2
    usable = next(row for row in rows if "left out" not in row)
    assert "8000m / 32089Mi" in usable
    assert "7820m / 29739Mi" in usable
    assert "320m / 620Mi" in usable
    assert "0m / 1604Mi" in usable
    assert usable.endswith("4cpu16g x2, 8cpu32g x1")
    assert any("left out: " in row for row in rows)


def test_cluster_nodes_json_adds_up_and_sorts_and_shows_labels(cluster: ControlPlane, gen: Arc, look: Arc) -> None:
    cluster.create(node("small", labels={"zone": "1"}))
    ready(cluster, "small")
    words = ["--by", "node", "--sort", "memory", "--label", "zone", "--format", "json"]
    rows = json.loads(look("nodes", *words).out)["rows"]
    assert [row["name"] for row in rows] == ["big-0", "small"]
    assert [row["labels"]["zone"] for row in rows] == ["", "1"]
    for row in rows:
        for unit in ("cpu_m", "memory_bytes"):
            taken = row["daemonsets"][unit] + row["reserved"][unit]
            assert row["allocatable"][unit] - taken == row["schedulable"][unit]
    assert gen("--check").out == "the cluster has no InstanceTypes\n"


def test_cluster_nodes_without_the_crd_still_shows_the_nodes(cluster: ControlPlane, gen: Arc, look: Arc) -> None:
    cluster.remove_crd()
    try:
        seen = look("nodes")
        listed = look("instance-types")
        applied = gen("--apply")
    finally:
        cluster.install_crd()
    assert seen.code == 0
    assert "Standard_B8ms" in seen.out
    for result in (applied, listed):
        assert result.code == 2
        assert "the AzureML extension is not installed, because the cluster arc-tests" in result.err


def test_cluster_instance_types_shows_each_type_and_where_it_fits(
    cluster: ControlPlane, gen: Arc, arc: Arc, look: Arc
) -> None:
    assert look("instance-types").out == "the cluster has no InstanceTypes\n"
    gen("--share", "half", "--apply")
    arc("gen-instance-types", "--sku", "Standard_NC24ads_A100_v4", "--apply", "--kubeconfig", cluster.kubeconfig)
    result = look("instance-types")
    assert result.code == 0, result.err
    header, *rows = [line.split() for line in result.out.splitlines()]
    assert header == ["NAME", "CPU", "MEMORY", "GPUS", "NODES", "MEANT", "FITS", "STATE"]
    assert [(row[0], row[-1]) for row in rows] == [("24cpu220g-1gpu", "node"), ("4cpu16g", "fits")]
    assert "24cpu220g-1gpu: no node that jobs can use has" in result.err
    found = json.loads(look("instance-types", "--format", "json").out)["instance_types"]
    assert [(row["name"], row["nodes"], row["fits"]) for row in found] == [
        ("24cpu220g-1gpu", 0, None),
        ("4cpu16g", 1, 2),
    ]
