"""gen-instance-types on a live cluster: which nodes it sizes for, and what --apply and --prune do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.small import API, big, ready, types
from tests.cluster.workloads import daemonset, job_pod, settle
from tests.support import Result

pytestmark = pytest.mark.cluster

Arc = Callable[..., Result]


# --- which nodes ------------------------------------------------------------------------------------------------


def test_nodes_are_grouped_and_those_that_jobs_cannot_use_are_left_out_with_the_reason(
    cluster: ControlPlane, gen: Arc
) -> None:
    taint = {"key": "team", "value": "other", "effect": "NoSchedule"}
    spot = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
    tolerated = {"key": "ml.azure.com/amlarc", "value": "true", "effect": "NoSchedule"}
    role = "node-role.kubernetes.io/control-plane"
    cluster.create_all(
        [
            big("big-1", taints=[tolerated]),
            big("small-0", labels={"node.kubernetes.io/instance-type": "Standard_D4s_v5", "agentpool": "small"},
                capacity={"cpu": "4", "memory": "16374000Ki", "pods": "110"}, allocatable=None),
            big("tainted", taints=[taint]),
            big("spot", taints=[spot]),
            big("windows", system="windows"),
            big("arm", architecture="arm64"),
            big("master", labels={role: ""}, taints=[{"key": role, "effect": "NoSchedule"}]),
            big("server", labels={role: ""}),
            big("lost", managed=False),
            big("cordoned"),
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "joining"}},
        ]
    )  # fmt: skip
    cluster.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}})
    ready(
        cluster,
        "big-1",
        "small-0",
        "cordoned",
        "spot",
        "tainted",
        "windows",
        "arm",
        "master",
        "server",
    )
    result = gen("--format", "json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    selectors = [entry["manifest"]["spec"]["nodeSelector"] for entry in found["instance_types"]]
    assert [selector["node.kubernetes.io/instance-type"] for selector in selectors] == [
        "Standard_B8ms",
        "Standard_D4s_v5",
    ]
    assert "Standard_B8ms (pool big, 2 nodes)" in gen("--format", "table").out
    reasons = {row["node"]: row["reason"] for row in found["left_out"]}
    assert reasons.keys() == {
        "tainted", "spot", "windows", "arm", "master", "server", "lost", "cordoned", "joining",
    }  # fmt: skip
    assert "team=other:NoSchedule" in reasons["tainted"]
    assert "spot pool" in reasons["spot"]
    assert "arm64" in reasons["arm"]
    assert reasons["master"] == "control plane"
    assert reasons["server"] == "control plane, and other nodes are for jobs"
    assert reasons["cordoned"] == "cordoned"
    assert "left out 1 node (cordoned): cordoned" in result.err
    assert "left out 1 node (joining): " in result.err


def test_the_requests_of_daemonsets_are_counted(cluster: ControlPlane, gen: Arc) -> None:
    before = json.loads(gen("--format", "json").out)["instance_types"][0]
    settle(cluster, [daemonset("agent", "500m", "1Gi", {})], 1)
    after = json.loads(gen("--format", "json").out)["instance_types"][0]
    assert before["cpu_m"] - after["cpu_m"] == 500
    assert before["memory_bytes"] - after["memory_bytes"] == 2**30


def test_a_daemonset_pod_that_waits_behind_a_whole_node_job_is_counted(
    cluster: ControlPlane, gen: Arc
) -> None:
    gen("--apply")
    before = json.loads(gen("--format", "json").out)["instance_types"][0]
    cluster.create(job_pod("job", before["manifest"]))
    cluster.wait("the job", lambda: bool(cluster.get("Pod", "job")["spec"].get("nodeName")))
    cluster.create(daemonset("late", "500m", "2Gi", {}))
    cluster.wait(
        "its refusal", lambda: "0/1 nodes" in json.dumps(cluster.list("Pod", "kube-system"))
    )
    after = json.loads(gen("--format", "json").out)["instance_types"][0]
    assert before["cpu_m"] - after["cpu_m"] == 500
    assert gen("--check").code == 1


# --- apply ------------------------------------------------------------------------------------------------------


def test_apply_creates_then_leaves_unchanged_then_configures(
    cluster: ControlPlane, gen: Arc
) -> None:
    first = gen("--share", "whole", "--share", "half", "--apply")
    assert (first.code, first.out) == (0, "8cpu32g created\n4cpu16g created\n")
    assert (
        gen("--share", "whole", "--share", "half", "--apply").out
        == "8cpu32g unchanged\n4cpu16g unchanged\n"
    )
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
    assert "taken over, written by hand before" in forced.out
    assert types(cluster)["8cpu32g"]["spec"]["resources"]["requests"] != amounts
    assert gen("--apply").out == "8cpu32g unchanged\n"
    kept = gen("--share", "half", "--apply", "--prune", "--yes")
    assert "8cpu32g kept: it was written by hand" in kept.out


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
    arc(
        "gen-instance-types",
        "--sku",
        "Standard_D64s_v5",
        "--apply",
        "--kubeconfig",
        cluster.kubeconfig,
    )
    trial = gen("--share", "half", "--apply", "--prune", "--dry-run")
    assert "2cpu8g pruned (server dry run)" in trial.out
    assert len(types(cluster)) == 5
    result = gen("--share", "half", "--apply", "--prune", "--yes")
    assert result.code == 0
    assert "replaced by other types, to be deleted: 2cpu8g, 8cpu32g" in result.err
    assert result.out.splitlines() == [
        "4cpu16g unchanged",
        "2cpu8g pruned",
        "8cpu32g pruned",
        "64cpu256g kept: made from sku, not cluster",
    ]
    assert types(cluster).keys() == {"by-hand", "4cpu16g", "64cpu256g"}


def test_a_second_pool_neither_renames_nor_prunes_the_type_that_jobs_name(
    cluster: ControlPlane, gen: Arc
) -> None:
    assert gen("--apply").out == "8cpu32g created\n"
    cluster.create(
        big(
            "other-0",
            labels={"node.kubernetes.io/instance-type": "Standard_D8s_v5", "agentpool": "other"},
        )
    )
    ready(cluster, "other-0")
    second = gen("--apply", "--prune")
    assert (second.code, set(second.out.splitlines())) == (
        0,
        {"8cpu32g unchanged", "8cpu32g-standard-d8s-v5 created"},
    )
    assert "8cpu32g (as in the cluster)" in second.err
    renamed = gen("--apply", "--prune", "--dry-run", "--name-template", "t-{size}")
    assert (
        "8cpu32g is called t-standard-b8ms now: jobs that name 8cpu32g would no longer start"
        in renamed.err
    )


def test_a_spot_pool_that_goes_to_zero_changes_no_type(cluster: ControlPlane, gen: Arc) -> None:
    """Without the label of its pool, the on-demand type would get the next spot node."""
    key = "kubernetes.azure.com/scalesetpriority"
    spot = {"key": key, "value": "spot", "effect": "NoSchedule"}
    cluster.create(big("spot-0", labels={key: "spot", "agentpool": "spot"}, taints=[spot]))
    ready(cluster, "spot-0")
    first = gen("--apply", "--tolerate", key)
    assert first.out.splitlines() == ["8cpu32g created", "8cpu32g-spot created"]
    assert types(cluster)["8cpu32g"]["spec"]["nodeSelector"]["agentpool"] == "big"
    cluster.delete("Node", "spot-0")
    second = gen("--apply", "--prune", "--yes", "--tolerate", key)
    lines = second.out.splitlines()
    assert (second.code, lines[0]) == (0, "8cpu32g unchanged")
    assert lines[1].startswith("8cpu32g-spot kept: there is no node of Standard_B8ms now")


@pytest.mark.slow
def test_after_kill_9_at_any_moment_a_second_run_completes(cluster: ControlPlane, gen: Arc) -> None:
    shares = [word for n in range(1, 41) for word in ("--share", f"1/{n}")]
    options = [*shares, "--name-template", "t-{share}", "--apply", "--prune", "--yes"]
    command = [sys.executable, "-m", "arc_toolkit", "gen-instance-types", "--from-cluster"]
    command += ["--kubeconfig", str(cluster.kubeconfig), *options]
    partial = set()
    for line in (1, 14, 27, 40):  # kill it after that many of its 41 results
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
