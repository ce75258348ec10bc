"""--apply when it is not alone: another tool manages the same InstanceType, or the network fails in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.proxy import flaky_network
from tests.cluster.small import API, types
from tests.support import Result

pytestmark = pytest.mark.cluster

Arc = Callable[..., Result]
Object = dict[str, Any]
NAME = "4cpu16g"
SELECTOR = {"node.kubernetes.io/instance-type": "Standard_D4s_v5"}
PATH = f"/apis/{API}/instancetypes/{NAME}"


@pytest.fixture
def sku(arc: Arc, cluster: ControlPlane) -> Arc:
    """The type `4cpu16g`, made from a VM size, which needs no node."""
    return lambda *words: arc(
        "gen-instance-types",
        "--sku",
        "Standard_D4s_v5",
        "--quiet",
        "--kubeconfig",
        cluster.kubeconfig,
        *words,
    )


def generated(sku: Arc) -> Object:
    [entry] = json.loads(sku("--format", "json").out)["instance_types"]
    spec: Object = entry["manifest"]["spec"]
    return spec


def theirs(**spec: Any) -> Object:
    """The type as somebody else wrote it: for another team, with a GPU."""
    amounts = {"cpu": "1", "memory": "1Gi"}
    resources = {"requests": amounts, "limits": {**amounts, "nvidia.com/gpu": 4}}
    spec = {"nodeSelector": {"team": "vision", "agentpool": "old"}, "resources": resources, **spec}
    return {"apiVersion": API, "kind": "InstanceType", "metadata": {"name": NAME}, "spec": spec}


def edit(cluster: ControlPlane, change: Object, manager: str = "kubectl-edit") -> None:
    """As `kubectl edit` and most controllers do it: an update, which takes fields over without asking."""
    params = {"fieldManager": manager}
    cluster.request("PATCH", PATH, change, params, content="application/merge-patch+json")


def test_forced_conflicts_leave_nothing_of_the_other_manager_in_the_type(
    cluster: ControlPlane, sku: Arc
) -> None:
    cluster.apply(theirs(), manager="helm")
    before = types(cluster)[NAME]
    refused = sku("--apply")
    assert refused.code == 1
    assert f"{NAME} conflict: " in refused.out
    assert "spec.resources.limits.cpu belongs to helm" in refused.out
    assert types(cluster)[NAME] == before
    forced = sku("--apply", "--force-conflicts")
    assert forced.code == 0, forced.err
    assert "spec.nodeSelector.team vision -> absent" in forced.out
    assert "spec.resources.limits.nvidia.com/gpu 4 -> absent" in forced.out
    assert types(cluster)[NAME]["spec"] == generated(sku)
    assert sku("--apply").out == f"{NAME} unchanged\n"


def test_a_label_that_somebody_added_to_our_selector_is_a_conflict_and_not_unchanged(
    cluster: ControlPlane, sku: Arc
) -> None:
    sku("--apply")
    edit(cluster, {"spec": {"nodeSelector": {"team": "vision"}}})
    before = types(cluster)[NAME]
    for words in ([], ["--dry-run"], ["--reserve", "10%"]):
        result = sku("--apply", *words)
        assert result.code == 1, result.out
        assert (
            "spec.nodeSelector.team = vision is not generated and belongs to kubectl-edit"
            in result.out
        )
        assert f"{NAME} conflict" in result.out
        assert "--force-conflicts takes the fields over" in result.err
        assert types(cluster)[NAME] == before
    assert (
        sku("--apply", "--force-conflicts").out
        == f"{NAME} configured: spec.nodeSelector.team vision -> absent\n"
    )
    assert types(cluster)[NAME]["spec"] == generated(sku)


def test_the_gpus_of_an_older_type_do_not_survive_in_a_type_without(
    cluster: ControlPlane, sku: Arc
) -> None:
    sku("--apply")
    edit(cluster, {"spec": {"resources": {"limits": {"nvidia.com/gpu": 4}}}}, "old-tool")
    assert sku("--apply").code == 1
    assert sku("--apply", "--force-conflicts").code == 0
    assert types(cluster)[NAME]["spec"] == generated(sku)


def test_a_dry_run_says_what_the_real_run_then_does_and_changes_nothing(
    cluster: ControlPlane, sku: Arc
) -> None:
    cluster.apply(theirs(), manager="helm")
    before = types(cluster)[NAME]
    trial = sku("--apply", "--force-conflicts", "--dry-run")
    assert trial.code == 0, trial.out
    assert types(cluster)[NAME] == before
    real = sku("--apply", "--force-conflicts")
    assert trial.out.replace(" (server dry run)", "") == real.out


def test_labels_and_annotations_of_others_are_theirs_and_stay(
    cluster: ControlPlane, sku: Arc
) -> None:
    sku("--apply")
    edit(cluster, {"metadata": {"labels": {"cost": "1234"}, "annotations": {"owner": "ada"}}})
    assert sku("--apply", "--force-conflicts").out == f"{NAME} unchanged\n"
    assert types(cluster)[NAME]["metadata"]["labels"]["cost"] == "1234"


def test_a_default_of_the_crd_without_a_manager_is_not_reported(
    cluster: ControlPlane, sku: Arc
) -> None:
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/instancetypes.amlarc.azureml.com"
    stored = cluster.request("GET", crd)
    spec = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["tier"] = {"type": "string", "default": "standard"}
    cluster.request("PUT", crd, stored)
    try:
        cluster.wait("the default", lambda: "tier" in cluster.create(probe())["spec"])
        assert sku("--apply").out == f"{NAME} created\n"
        assert types(cluster)[NAME]["spec"]["tier"] == "standard"
        assert sku("--apply").out == f"{NAME} unchanged\n"
    finally:
        cluster.remove_crd()
        cluster.install_crd()


def probe() -> Object:
    probe.count += 1  # type: ignore[attr-defined]
    return {**theirs(), "metadata": {"name": f"probe-{probe.count}"}}  # type: ignore[attr-defined]


probe.count = 0  # type: ignore[attr-defined]


# --- the network --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_connection_lost_in_the_middle_says_what_was_applied(
    cluster: ControlPlane, sku: Arc, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arc_toolkit.cluster import live_types

    shares = [word for n in range(1, 11) for word in ("--share", f"1/{n}")]
    shares += ["--name-template", "t-{n}", "--apply", "--format", form]
    with flaky_network(cluster.server) as network:
        config = cluster.write_kubeconfig("admin", server=network.url)
        original, count = live_types._apply, []

        def cut_before_the_fifth(*words: Any, **options: Any) -> Any:
            count.append(1)
            if len(count) == 5:
                network.cut()
            return original(*words, **options)

        monkeypatch.setattr(live_types, "_apply", cut_before_the_fifth)
        result = sku(*shares, "--kubeconfig", config)
    assert result.code == 2
    assert (
        "4 of 10 types applied, t-5 may have been changed or not, the rest not sent" in result.err
    )
    assert result.err.count("\n") == 1
    assert len(types(cluster)) == 4
    if form == "json":
        rows = json.loads(result.out)["results"]
        assert [row["action"] for row in rows] == ["created"] * 4 + ["unknown"] + ["not sent"] * 5
    else:
        assert result.out.splitlines()[3:6] == ["t-4 created", "t-5 unknown", "t-6 not sent"]
    monkeypatch.undo()
    again = sku(*shares)
    assert again.code == 0, again.err
    assert len(types(cluster)) == 10


def test_a_type_that_the_server_refuses_is_named_with_what_was_applied_before_it(
    cluster: ControlPlane, sku: Arc
) -> None:
    policy = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": ["amlarc.azureml.com"],
        "apiVersions": ["*"],
        "resources": ["instancetypes"],
    }
    spec: Object = {
        "failurePolicy": "Fail",
        "validations": [{"expression": "object.metadata.name != 't-2'"}],
    }
    spec["matchConstraints"] = {"resourceRules": [{**rule, "operations": ["CREATE", "UPDATE"]}]}
    path = f"/apis/{policy}/validatingadmissionpolicies"
    kind = {
        "apiVersion": policy,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-t-2"},
    }
    binding = {**kind, "kind": "ValidatingAdmissionPolicyBinding"}
    bound = {"policyName": "no-t-2", "validationActions": ["Deny"]}
    cluster.request("POST", path, {**kind, "spec": spec})
    cluster.request("POST", f"{path[:-3]}ybindings", {**binding, "spec": bound})
    words = [
        "--share",
        "1/1",
        "--share",
        "1/2",
        "--share",
        "1/3",
        "--name-template",
        "t-{n}",
        "--apply",
    ]
    try:
        cluster.wait("the policy", lambda: sku(*words, "--dry-run").code == 2)
        result = sku(*words)
    finally:
        cluster.request("DELETE", f"{path[:-3]}ybindings/no-t-2")
        cluster.request("DELETE", f"{path}/no-t-2")
    assert result.code == 2
    assert result.out.splitlines() == ["t-1 created", "t-2 refused", "t-3 not sent"]
    assert "1 of 3 types applied, t-2 was refused, the rest not sent" in result.err


# --- asking before deleting -------------------------------------------------------------------------------------


def test_prune_asks_on_a_terminal_and_a_no_keeps_the_types(cluster: ControlPlane, sku: Arc) -> None:
    sku("--share", "whole", "--share", "half", "--apply")
    command = [
        sys.executable,
        "-m",
        "arc_toolkit",
        "gen-instance-types",
        "--sku",
        "Standard_D4s_v5",
        "--quiet",
    ]
    command += ["--share", "half", "--apply", "--prune", "--kubeconfig", str(cluster.kubeconfig)]
    for answer, left in (("n", {NAME, "2cpu8g"}), ("y", {"2cpu8g"})):
        main, terminal = os.openpty()
        process = subprocess.Popen(
            command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        os.write(main, f"{answer}\n".encode())
        out, err = process.communicate(timeout=60)
        os.close(main)
        os.close(terminal)
        assert process.returncode == 0, err
        assert f"to be deleted: {NAME}" in err
        assert "delete them? [y/N]" in err
        assert types(cluster).keys() == left
        assert ("4cpu16g kept: not confirmed" if answer == "n" else "4cpu16g pruned") in out


def test_prune_without_a_terminal_needs_yes_and_changes_nothing_without_it(
    cluster: ControlPlane, sku: Arc
) -> None:
    sku("--share", "whole", "--share", "half", "--apply")
    before = types(cluster)
    words = ["--share", "half", "--share", "quarter", "--apply", "--prune"]
    refused = sku(*words)
    assert refused.code == 2
    assert f"to be deleted: {NAME}" in refused.err
    assert "add --yes" in refused.err
    assert types(cluster) == before
    assert f"{NAME} pruned (server dry run)" in sku(*words, "--dry-run").out
    assert types(cluster) == before
    assert f"{NAME} pruned" in sku(*words, "--yes").out
    assert types(cluster).keys() == {"2cpu8g", "1cpu4g"}
