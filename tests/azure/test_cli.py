"""The commands from end to end: the real SDKs, the loopback Azure, a fake cluster."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from arc_toolkit.azure import operations
from arc_toolkit.azure import session as azure_session
from arc_toolkit.azure.preflight import Check, FixCommand, TargetOptions, fix_text
from arc_toolkit.azure.session import NOT_SIGNED_IN, Session
from arc_toolkit.cli import cluster_options
from arc_toolkit.errors import ArcError
from tests.azure.arm_server import SUBSCRIPTION, Arm
from tests.azure.conftest import CLUSTER, WORKSPACE, StaticCredential
from tests.azure.objects import FakeCluster, compute, installed, instance_type, node
from tests.support import Result

pytestmark = pytest.mark.real

Arc = Callable[..., Result]
SCOPE = ("--subscription", SUBSCRIPTION, "--resource-group", "ml-rg", "--cluster", "gpu-aks")
EXTENSION = ("cluster", "extension")


@pytest.fixture(autouse=True)
def _signed_in(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_session, "open_session", lambda cloud=None: session)


@pytest.fixture
def _live(monkeypatch: pytest.MonkeyPatch) -> None:
    found = FakeCluster([node("cpu-0")], [], [instance_type("whole", "15500m", "58Gi")])
    monkeypatch.setattr(cluster_options, "connect", lambda args, console: found)


def put(arm: Arm, item: dict[str, Any]) -> None:
    arm.extensions[item["id"].lower()] = item


def request_in(out: str) -> tuple[str, str, Any]:
    """The parts of what a dry run prints."""
    head, _, body = out.partition("\n")
    method, _, path = head.partition(" ")
    return method, path, json.loads(body)


def test_install_dry_run_prints_the_request_that_install_then_sends(arc: Arc, arm: Arm) -> None:
    options = (
        "--spot",
        "--skip-resource-validation",
        "--node-selector",
        "agentpool=system",
        "--set",
        "logLevel=debug",
    )
    dry = arc(*EXTENSION, "install", *SCOPE, *options, "--dry-run")
    assert (dry.code, arm.writes) == (0, [])
    done = arc(*EXTENSION, "install", *SCOPE, *options, "--yes")
    assert (done.code, done.out) == (0, "installed azureml 1.1.60 on gpu-aks\n")
    assert request_in(dry.out) == arm.writes[0]
    settings = arm.writes[0][2]["properties"]["configurationSettings"]
    expected = {
        "enableTraining": "True",
        "enableInference": "False",
        "installVolcano": "True",
        "amloperator.skipResourceValidation": "True",
        "nodeSelector.agentpool": "system",
        "workLoadToleration[0].value": "spot",
        "logLevel": "debug",
        "clusterId": CLUSTER.resource_id,
    }
    assert settings.items() >= expected.items()
    assert (
        "+ workLoadToleration[0].key = kubernetes.azure.com/scalesetpriority  (undocumented by Microsoft)"
        in dry.err
    )
    assert len(arm.writes) == 1


def test_update_dry_run_prints_the_patch_that_update_then_sends(arc: Arc, arm: Arm) -> None:
    put(arm, installed(installVolcano="False"))
    options = ("--volcano", "--training", "--toleration", "nvidia.com/gpu:NoSchedule")
    dry = arc(*EXTENSION, "update", *SCOPE, *options, "--dry-run")
    assert (dry.code, arm.writes) == (0, [])
    assert "  ~ installVolcano: False -> True\n" in dry.err
    done = arc(*EXTENSION, "update", *SCOPE, *options, "--yes", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert request_in(dry.out) == arm.writes[0]
    assert arm.writes[0][2] == {
        "properties": {
            "configurationSettings": {
                "installVolcano": "True",
                "workLoadToleration[0].key": "nvidia.com/gpu",
                "workLoadToleration[0].operator": "Exists",
                "workLoadToleration[0].effect": "NoSchedule",
            }
        }
    }
    again = arc(*EXTENSION, "update", *SCOPE, *options, "--yes")
    assert (again.code, len(arm.writes)) == (0, 1)
    assert again.out.startswith("nothing to change")


def test_update_can_pin_a_version_and_warns_where_running_jobs_are_touched(
    arc: Arc, arm: Arm
) -> None:
    put(arm, installed())
    found = arc(
        *EXTENSION,
        "update",
        *SCOPE,
        "--extension-version",
        "1.1.50",
        "--node-selector",
        "a=b",
        "--yes",
    )
    assert found.code == 0
    assert arm.writes[0][2]["properties"]["autoUpgradeMinorVersion"] is False
    assert "warning: this affects running jobs" in found.err


def test_update_of_the_release_train_alone_is_sent_unless_it_is_that_already(
    arc: Arc, arm: Arm
) -> None:
    put(arm, installed())
    assert arc(*EXTENSION, "update", *SCOPE, "--release-train", "Stable", "--yes").out.startswith(
        "nothing to change"
    )
    assert arc(*EXTENSION, "update", *SCOPE, "--release-train", "preview", "--yes").code == 0
    assert [row[2] for row in arm.writes] == [{"properties": {"releaseTrain": "preview"}}]


def test_nothing_is_sent_without_a_terminal_or_yes(
    arc: Arc, arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    found = arc(*EXTENSION, "install", *SCOPE)
    assert (found.code, arm.writes) == (2, [])
    assert "there is no terminal: add --yes" in found.err


@pytest.mark.parametrize(("answer", "writes"), [("y\n", 1), ("n\n", 0), ("\n", 0), ("", 0)])
def test_only_yes_goes_on(
    arc: Arc, arm: Arm, monkeypatch: pytest.MonkeyPatch, answer: str, writes: int
) -> None:
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    found = arc(*EXTENSION, "install", *SCOPE)
    assert (found.code, len(arm.writes)) == (0, writes)
    assert "send it? [y/N] " in found.err


def test_a_failed_install_is_explained_in_one_sentence(arc: Arc, arm: Arm) -> None:
    arm.fail_with = {"code": "ExtensionOperationFailed", "message": "PROMETHEUS_CONFLICT"}
    found = arc(*EXTENSION, "install", *SCOPE, "--yes")
    assert found.code == 2
    last = found.err.splitlines()[-1]
    assert last.startswith(
        "arc-toolkit: installing the extension 'azureml' on gpu-aks failed: ExtensionOperationFailed"
    )
    assert "--set installPromOp=False" in last


def test_an_extension_that_failed_is_installed_again_under_its_name(arc: Arc, arm: Arm) -> None:
    put(arm, {**installed("Failed"), "name": "azureml"})
    assert arc(*EXTENSION, "install", *SCOPE, "--name", "other", "--yes").code == 0
    assert arm.writes[0][1].split("?")[0].endswith("/extensions/azureml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("install", "--node-selector", "agentpool"), "is not a label"),
        (("install", "--toleration", "spot"), "is not a taint"),
        (("install", "--set", "x"), "--set 'x': write KEY=VALUE"),
        (("install", "--set", "sslKeyPemFile=k"), "protected setting"),
        (("install", "--no-training"), "needs training or inference"),
        (
            ("install", "--volcano", "--set", "installVolcano=False"),
            "installVolcano is given twice",
        ),
        (
            ("update", "--volcano"),
            "is not installed on gpu-aks: run `arc-toolkit cluster extension install`",
        ),
        (
            ("install", "--cluster-type", "connectedClusters"),
            "az k8s-extension create --name azureml",
        ),
        (("remove",), "invalid choice: 'remove'"),
        ((), "the following arguments are required"),
    ],
)
def test_what_cannot_be_is_refused_with_exit_2_and_nothing_sent(
    arc: Arc, arm: Arm, words: tuple[str, ...], said: str
) -> None:
    scope = SCOPE if words and words[0] != "remove" else ()
    found = arc(*EXTENSION, *words, *scope)
    assert (found.code, found.out, arm.writes) == (2, "", [])
    assert said in found.err


def test_install_refuses_a_second_extension_and_an_unregistered_provider(
    arc: Arc, arm: Arm
) -> None:
    put(arm, installed())
    assert "installed already, as 'azureml'" in arc(*EXTENSION, "install", *SCOPE, "--yes").err
    arm.provider_state = "NotRegistered"
    assert "az provider register" in arc(*EXTENSION, "install", *SCOPE, "--yes").err
    assert not arm.writes


def test_show_lists_settings_and_marks_what_is_undocumented(arc: Arc, arm: Arm) -> None:
    put(arm, installed(**{"workLoadToleration[0].key": "k"}))
    found = arc(*EXTENSION, "show", *SCOPE)
    assert found.code == 0
    assert "version        1.1.60\n" in found.out
    assert "workLoadToleration[0].key  k      undocumented\n" in found.out
    data = json.loads(arc(*EXTENSION, "show", *SCOPE, "--format", "json").out)
    assert (data["schema"], data["healthy"]) == ("arc-toolkit/cluster-extension/v1", True)


def test_show_of_a_missing_or_failed_extension_is_exit_1(arc: Arc, arm: Arm) -> None:
    none = arc(*EXTENSION, "show", *SCOPE)
    assert (none.code, none.out) == (1, "the AzureML extension is not installed on gpu-aks\n")
    failed = installed("Failed")
    failed["properties"]["errorInfo"] = {
        "code": "HelmFailed",
        "message": "timed out waiting for the condition",
    }
    put(arm, failed)
    found = arc(*EXTENSION, "show", *SCOPE)
    assert found.code == 1
    assert "error: HelmFailed: timed out waiting" in found.out
    assert "kubectl get pods,events -n azureml" in found.out


def test_a_failed_sign_in_is_one_sentence(
    arc: Arc, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = replace(session, credential=StaticCredential(None))
    monkeypatch.setattr(azure_session, "open_session", lambda cloud=None: nobody)
    found = arc(*EXTENSION, "show", *SCOPE)
    assert (found.code, found.err) == (2, f"arc-toolkit: {NOT_SIGNED_IN}\n")


def test_verbose_also_says_what_the_sdk_said(
    arc: Arc, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = replace(session, credential=StaticCredential(None))
    monkeypatch.setattr(azure_session, "open_session", lambda cloud=None: nobody)
    found = arc(*EXTENSION, "show", *SCOPE, "--verbose")
    assert "Attempted credentials" in found.err
    assert "cluster: gpu-aks (from --cluster)" in found.err


def test_interrupted_while_azure_works_says_that_azure_goes_on(
    arc: Arc, arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(poller: Any, *_: Any) -> None:
        poller.wait()  # its thread must not reach into the next test
        raise KeyboardInterrupt

    monkeypatch.setattr(operations, "wait", interrupted)
    found = arc(*EXTENSION, "install", *SCOPE, "--yes")
    assert (found.code, len(arm.writes)) == (130, 1)
    assert (
        "warning: Azure goes on with it: look with `arc-toolkit cluster extension show`"
        in found.err
    )


def test_attach_dry_run_prints_the_request_that_attach_then_sends(arc: Arc, arm: Arm) -> None:
    put(arm, installed())
    words = (
        "cluster",
        "attach",
        "gpu-pool",
        *SCOPE,
        "--workspace",
        "ml-ws",
        "--namespace",
        "team-a",
        "--identity",
        "system",
    )
    dry = arc(*words, "--dry-run")
    assert (dry.code, arm.writes) == (0, [])
    done = arc(*words, "--yes")
    assert (done.code, done.out) == (0, "attached gpu-pool (Succeeded), namespace team-a\n")
    assert request_in(dry.out) == arm.writes[0]
    assert (
        "attach gpu-pool: cluster gpu-aks in the workspace ml-ws, namespace team-a, a system assigned identity"
        in done.err
    )


def test_attach_refuses_a_name_that_is_another_compute(arc: Arc, arm: Arm) -> None:
    path = f"{WORKSPACE.resource_id}/computes/gpu-pool"
    arm.computes[path.lower()] = {
        "id": path,
        "name": "gpu-pool",
        "properties": {"computeType": "AmlCompute"},
    }
    found = arc("cluster", "attach", "gpu-pool", *SCOPE, "--workspace", "ml-ws", "--yes")
    assert found.code == 2
    assert "has another compute 'gpu-pool'" in found.err


@pytest.mark.usefixtures("_live")
def test_preflight_where_all_is_well_is_exit_0(arc: Arc, arm: Arm) -> None:
    put(arm, installed())
    arm.computes["c"] = compute()
    found = arc("cluster", "preflight", *SCOPE, "--workspace", "ml-ws")
    assert (found.code, found.err) == (0, "12 ok\n")
    assert found.out.count("ok ") == 12
    assert not arm.writes


def test_preflight_warns_where_kubeconfig_and_azure_mean_two_clusters(
    arc: Arc, arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = FakeCluster([], [], [])
    other.server = "https://other-2.hcp.westeurope.azmk8s.io:443"
    monkeypatch.setattr(cluster_options, "connect", lambda args, console: other)
    found = arc("cluster", "preflight", *SCOPE)
    assert (
        "warning: the kubeconfig points to other-2.hcp.westeurope.azmk8s.io, but the cluster gpu-aks"
        in found.err
    )


@pytest.mark.usefixtures("_live")
def test_preflight_prints_commands_that_mean_the_same_cluster(arc: Arc, arm: Arm) -> None:
    found = arc("cluster", "preflight", *SCOPE, "--workspace", "ml-ws", "--format", "json")
    assert found.code == 1
    data = json.loads(found.out)
    assert data["schema"] == "arc-toolkit/cluster-preflight/v1"
    fixes = {row["name"]: row["fix"] for row in data["checks"] if row["state"] == "not ok"}
    scope = f"--subscription {SUBSCRIPTION} --resource-group ml-rg --cluster gpu-aks"
    assert fixes == {
        "extension installed": f"arc-toolkit cluster extension install {scope}",
        "compute attached": f"arc-toolkit cluster attach NAME --workspace ml-ws {scope}",
    }
    assert data["summary"] == {"ok": 9, "not ok": 2, "cannot tell": 1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (TargetOptions.SUBSCRIPTION, "--subscription s"),
        (
            TargetOptions.CLUSTER,
            "--subscription s --cluster 'my c' --cluster-type connectedClusters",
        ),
        (
            TargetOptions.CLUSTER_AND_WORKSPACE,
            "--subscription s --cluster 'my c' --cluster-type connectedClusters --workspace-resource-group w",
        ),
        (TargetOptions.KUBECONFIG, "--context k"),
    ],
)
def test_a_command_gets_the_options_that_it_needs_and_no_others(
    options: TargetOptions, words: str
) -> None:
    args = argparse.Namespace(
        subscription="s",
        resource_group=None,
        cluster="my c",
        cluster_type="connectedClusters",
        workspace_resource_group="w",
        kubeconfig=None,
        context="k",
    )
    row = Check("x", "azure", "not ok", "", FixCommand("do", options))
    assert fix_text(row, vars(args)) == f"do {words}"
    args.cluster_type = "managedClusters"  # the default need not be repeated
    assert (
        fix_text(row, vars(args)) == f"do {words.replace(' --cluster-type connectedClusters', '')}"
    )


def test_preflight_without_a_cluster_still_tells_the_azure_side(
    arc: Arc, arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(arm, installed())

    def nowhere(args: Any, console: Any) -> None:
        raise ArcError("no kubeconfig here")

    monkeypatch.setattr(cluster_options, "connect", nowhere)
    found = arc("cluster", "preflight", *SCOPE, "--workspace", "ml-ws")
    assert found.code == 1
    assert found.err == "5 ok, 1 not ok, 6 cannot tell\n"
    assert found.out.count("no kubeconfig here") == 6
    only = arc("cluster", "preflight", "--only", "azure", *SCOPE, "--workspace", "ml-ws")
    assert only.err == "4 ok, 1 not ok\n"


@pytest.mark.usefixtures("_live")
def test_preflight_without_azure_still_tells_the_cluster_s_side(arc: Arc) -> None:
    found = arc("cluster", "preflight")
    assert (found.code, found.err) == (1, "7 ok, 5 cannot tell\n")
    assert found.out.count("which subscription?") == 5
    only = arc("cluster", "preflight", "--only", "cluster")
    assert (only.code, only.err) == (0, "7 ok\n")


def test_preflight_of_an_unregistered_provider_changes_nothing(arc: Arc, arm: Arm) -> None:
    arm.provider_state = "NotRegistered"
    found = arc("cluster", "preflight", "--only", "azure", *SCOPE, "--workspace", "ml-ws")
    assert (
        f"-> az provider register --namespace Microsoft.KubernetesConfiguration --subscription {SUBSCRIPTION}"
        in found.out
    )
    assert not arm.writes


def test_a_right_that_is_missing_hides_only_its_own_check(arc: Arc, arm: Arm) -> None:
    arm.denied.add("GET")
    found = arc("cluster", "preflight", "--only", "azure", *SCOPE, "--workspace", "ml-ws")
    assert found.code == 1
    assert found.out.count("AuthorizationFailed") == 5
    assert found.out.count("ask for the role Reader at that scope") == 5
    assert "Contributor" not in found.out
