"""The real azure-mgmt-kubernetesconfiguration and azure-ai-ml against the loopback server."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from arc_toolkit.azure import extension, operations
from arc_toolkit.azure.session import (
    NOT_SIGNED_IN,
    Session,
    WouldSend,
    explain_errors,
    open_session,
    sign_in,
)
from arc_toolkit.azure.workspace_computes import (
    Attachment,
    attach,
    attached_computes,
    list_computes,
)
from arc_toolkit.errors import ArcError
from tests.azure.arm_server import SECRET, Arm
from tests.azure.conftest import CLUSTER, WORKSPACE, StaticCredential

pytestmark = pytest.mark.real

BODY = extension.install_body({"enableTraining": "True"}, "stable", None)
EXTENSION_PATH = (
    f"{CLUSTER.resource_id}/providers/Microsoft.KubernetesConfiguration/extensions/azureml"
)


def quiet(_: str) -> None:
    pass


def install(session: Session, body: dict[str, Any] = BODY, dry_run: bool = False) -> Any:
    return operations.change(
        session, CLUSTER, "azureml", body, quiet, installing=True, dry_run=dry_run
    )


def test_install_puts_the_body_and_waits_for_the_operation(session: Session, arm: Arm) -> None:
    said: list[str] = []
    found = operations.change(
        session, CLUSTER, "azureml", BODY, said.append, installing=True, dry_run=False
    )
    method, url, body = arm.writes[0]
    assert (method, urlsplit(url).path, body) == ("PUT", EXTENSION_PATH, BODY)
    assert urlsplit(url).query == "api-version=2023-05-01"
    assert sum("/operations/" in row[1] for row in arm.requests) == 2
    assert found["properties"]["provisioningState"] == "Succeeded"
    assert extension.settings_of(operations.find(session, CLUSTER)) == {"enableTraining": "True"}
    assert any("installing the extension 'azureml'" in text for text in said)


def test_a_dry_run_shows_the_request_that_is_then_sent(session: Session, arm: Arm) -> None:
    with pytest.raises(WouldSend) as shown:
        install(session, dry_run=True)
    assert not arm.writes
    install(session)
    method, url, body = arm.writes[0]
    assert (shown.value.method, shown.value.path, shown.value.body) == (method, url, body)


def test_an_update_sends_what_changes_and_nothing_else(session: Session, arm: Arm) -> None:
    install(session, extension.install_body({"enableTraining": "True"}, "stable", "1.1.50"))
    change = extension.SettingChange("installVolcano", None, "True")
    with pytest.raises(WouldSend) as shown:
        operations.change(
            session,
            CLUSTER,
            "azureml",
            extension.update_body([change]),
            quiet,
            installing=False,
            dry_run=True,
        )
    found = operations.change(
        session,
        CLUSTER,
        "azureml",
        extension.update_body([change]),
        quiet,
        installing=False,
        dry_run=False,
    )
    method, url, body = arm.writes[-1]
    assert (method, body) == (
        "PATCH",
        {"properties": {"configurationSettings": {"installVolcano": "True"}}},
    )
    assert (shown.value.method, shown.value.path, shown.value.body) == (method, url, body)
    assert extension.settings_of(found) == {"enableTraining": "True", "installVolcano": "True"}
    assert found["properties"]["autoUpgradeMinorVersion"] is False, "the version stays pinned"


def test_a_failed_install_is_explained_from_the_operation_and_the_extension(
    session: Session, arm: Arm
) -> None:
    arm.fail_with = {
        "code": "ExtensionOperationFailed",
        "message": "The extension operation failed with: cannot re-use a name that is still in use.",
    }
    arm.error_info = {"code": "HelmInstallFailed", "message": "release azureml exists"}
    with pytest.raises(ArcError) as error:
        install(session)
    text = str(error.value)
    assert "ExtensionOperationFailed: The extension operation failed" in text
    assert "HelmInstallFailed: release azureml exists" in text
    assert "wait about an hour" in text
    assert "\n" not in text


def test_a_missing_right_names_the_action_and_what_to_ask_for(session: Session, arm: Arm) -> None:
    arm.denied.add("PUT")
    with pytest.raises(
        ArcError, match=r"AuthorizationFailed: .* to perform PUT .*; ask for a role"
    ):
        install(session)


def test_a_cluster_that_is_not_there_is_one_sentence(session: Session, arm: Arm) -> None:
    other = replace(CLUSTER, name="other")
    with pytest.raises(ArcError, match="ParentResourceNotFound"):
        operations.find(session, other)
    with pytest.raises(ArcError, match="no managedCluster 'other' in resource group 'ml-rg'"):
        operations.cluster_resource(session, other)


def test_reading_never_registers_a_provider(session: Session, arm: Arm) -> None:
    arm.provider_state = "NotRegistered"
    with pytest.raises(ArcError, match="az provider register --namespace Microsoft"):
        operations.find(session, CLUSTER)
    assert operations.provider_state(session, CLUSTER.subscription) == "NotRegistered"
    assert not arm.writes


def test_no_sign_in_is_one_sentence(session: Session) -> None:
    nobody = replace(session, credential=StaticCredential(None))
    for call in (
        lambda: operations.find(nobody, CLUSTER),
        lambda: operations.provider_state(nobody, "s"),
    ):
        with pytest.raises(ArcError) as error:
            call()
        assert str(error.value) == NOT_SIGNED_IN


def test_the_real_default_credential_without_any_sign_in_is_one_sentence_and_logs_nothing(
    session: Session,
) -> None:
    words = [
        "cluster",
        "extension",
        "show",
        "--subscription",
        CLUSTER.subscription,
        "--resource-group",
        "g",
    ]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("AZURE_")
    }
    environment |= {
        "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential"
    }  # the others would look at this machine
    command = [sys.executable, "-m", "arc_toolkit", *words, "--cluster", "c"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (
        2,
        "",
        f"arc-toolkit: {NOT_SIGNED_IN}\n",
    )


def test_the_real_default_credential_signs_in_and_asks_for_the_scope_of_its_cloud(
    session: Session, arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
        "AZURE_TENANT_ID": "tenant",
        "AZURE_CLIENT_ID": "client",
        "AZURE_CLIENT_SECRET": SECRET,
    }.items():
        monkeypatch.setenv(name, value)
    assert (
        operations.provider_state(sign_in(session.cloud, session.options), CLUSTER.subscription)
        == "Registered"
    )
    assert operations.find(sign_in(session.cloud, session.options), CLUSTER) is None
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "wrong")
    with pytest.raises(ArcError) as error:
        operations.find(sign_in(session.cloud, session.options), CLUSTER)
    assert str(error.value) == f"{NOT_SIGNED_IN} (AADSTS7000215: Invalid client secret provided)"


def test_without_the_azure_extra_the_command_to_install_it_is_named(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    monkeypatch.setitem(sys.modules, "azure.mgmt.kubernetesconfiguration", None)
    for call in (open_session, lambda: operations.find(session, CLUSTER)):
        with pytest.raises(ArcError, match=r"pip install '\.\[azure\]'"):
            call()


def test_an_unknown_cloud_is_refused() -> None:
    with pytest.raises(ArcError, match="unknown Azure cloud 'Mars'"):
        open_session("Mars")


def test_a_token_that_azure_refuses_is_one_sentence(session: Session) -> None:
    with pytest.raises(ArcError, match="Azure does not accept the sign-in: AuthenticationFailed"):
        operations.find(replace(session, credential=StaticCredential("expired")), CLUSTER)


def test_no_network_is_one_sentence(session: Session) -> None:
    gone = replace(session, cloud=replace(session.cloud, management_url="https://127.0.0.1:9"))
    with pytest.raises(ArcError, match="cannot reach Azure"):
        operations.provider_state(gone, "s")


@pytest.mark.parametrize(
    ("given", "identity"),
    [
        ({}, None),
        ({"system_identity": True}, {"type": "SystemAssigned"}),
        (
            {"user_identities": ("ID",)},
            {"type": "UserAssigned", "userAssignedIdentities": {"ID": {}}},
        ),
    ],
)
def test_attach_sends_what_its_dry_run_shows(
    session: Session, arm: Arm, given: dict[str, Any], identity: dict[str, Any] | None
) -> None:
    name = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/job-id"
    if "user_identities" in given:
        given = {"user_identities": (name,)}
        assert identity is not None
        identity = {**identity, "userAssignedIdentities": {name: {}}}
    attachment = Attachment("gpu-pool", CLUSTER, namespace="team-a", **given)
    with pytest.raises(WouldSend) as shown:
        attach(session, WORKSPACE, attachment, quiet, dry_run=True)
    assert not arm.writes
    found = attach(session, WORKSPACE, attachment, quiet, dry_run=False)
    method, url, body = arm.writes[0]
    assert (shown.value.method, shown.value.path, shown.value.body) == (method, url, body)
    assert method == "PUT"
    assert urlsplit(url).path == f"{WORKSPACE.resource_id}/computes/gpu-pool"
    assert body["location"] == "westeurope", "the workspace's"
    assert body["properties"]["computeType"] == "Kubernetes"
    assert body["properties"]["resourceId"] == CLUSTER.resource_id
    assert body["properties"]["properties"] == {"namespace": "team-a"}
    assert body.get("identity") == identity
    assert found["provisioningState"] == "Succeeded"
    assert [
        row["name"] for row in attached_computes(list_computes(session, WORKSPACE), CLUSTER)
    ] == ["gpu-pool"]


def test_a_failed_attach_is_one_sentence(session: Session, arm: Arm) -> None:
    arm.fail_with = {
        "code": "BadRequest",
        "message": "The AzureML extension is not installed on the cluster.",
    }
    with pytest.raises(
        ArcError, match="BadRequest: The AzureML extension is not installed on the cluster"
    ):
        attach(session, WORKSPACE, Attachment("gpu-pool", CLUSTER), quiet, dry_run=False)


def test_what_an_sdk_refuses_by_itself_is_not_called_a_network_problem(session: Session) -> None:
    from azure.core.exceptions import AzureError

    with pytest.raises(ArcError) as error, explain_errors("attaching x"):
        raise AzureError("the compute is\n  odd.")
    assert str(error.value) == "attaching x: the compute is odd"


def test_computes_are_read_page_by_page(session: Session, arm: Arm) -> None:
    for index in range(3):
        path = f"{WORKSPACE.resource_id}/computes/c{index}"
        arm.computes[path.lower()] = {
            "id": path,
            "name": f"c{index}",
            "properties": {"computeType": "AmlCompute"},
        }
    assert [row["name"] for row in list_computes(session, WORKSPACE)] == ["c0", "c1", "c2"]
    assert attached_computes(list_computes(session, WORKSPACE), CLUSTER) == []


def test_a_next_page_on_another_host_is_not_followed(session: Session, arm: Arm) -> None:
    arm.base = "https://attacker.example"
    for index in range(2):
        path = f"{WORKSPACE.resource_id}/computes/c{index}"
        arm.computes[path.lower()] = {"id": path, "name": f"c{index}", "properties": {}}
    with pytest.raises(ArcError, match=r"another host \(attacker.example\)"):
        list_computes(session, WORKSPACE)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"namespace": "Team_A"}, "--namespace 'Team_A'"),
        ({"user_identities": ("job-id",)}, "give `system` or a whole resource id"),
    ],
)
def test_an_attachment_that_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArcError, match=said):
        Attachment("gpu-pool", CLUSTER, **given)
