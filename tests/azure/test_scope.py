"""Options, then environment, then what az keeps in its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arc_toolkit.azure.scope import AzDefaults, Cluster, Resolver, read_az_defaults
from arc_toolkit.errors import ArcError

A = "aaaaaaaa-0000-0000-0000-000000000000"
B = "bbbbbbbb-0000-0000-0000-000000000000"


def az_folder(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "config").write_text(
        "[defaults]\ngroup = az-rg\nworkspace = az-ws\n[cloud]\nname = AzureUSGovernment\n"
    )
    profile = {
        "subscriptions": [
            {"id": B, "name": "Other"},
            {"id": A, "name": "Team A", "isDefault": True},
        ]
    }
    (tmp_path / "azureProfile.json").write_text(json.dumps(profile), encoding="utf-8-sig")
    return {"AZURE_CONFIG_DIR": str(tmp_path)}


def test_the_files_of_az_are_read_with_their_byte_order_mark(tmp_path: Path) -> None:
    found = read_az_defaults(az_folder(tmp_path))
    assert found == AzDefaults(
        {"group": "az-rg", "workspace": "az-ws"}, A, "AzureUSGovernment", {"Other": B, "Team A": A}
    )


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"subscriptions": 3}', "no section = 1"])
def test_damaged_files_of_az_give_nothing(tmp_path: Path, damage: str) -> None:
    for name in ("config", "azureProfile.json"):
        (tmp_path / name).write_text(damage)
    found = read_az_defaults({"AZURE_CONFIG_DIR": str(tmp_path)})
    assert (dict(found.values), found.subscription, found.cloud) == ({}, None, None)


def test_an_option_wins_over_the_environment_and_that_over_az(tmp_path: Path) -> None:
    environment = {
        **az_folder(tmp_path),
        "AZURE_RESOURCE_GROUP": "env-rg",
        "AZURE_CLUSTER_NAME": "env-aks",
    }
    found = Resolver({"resource group": "option-rg"}, environment)
    assert found.cluster() == Cluster(A, "option-rg", "env-aks")
    assert Resolver({}, environment).cluster().resource_group == "env-rg"
    without = {key: value for key, value in environment.items() if key != "AZURE_RESOURCE_GROUP"}
    assert Resolver({}, without).cluster().resource_group == "az-rg"
    assert (
        Resolver({}, {**without, "AZURE_DEFAULTS_GROUP": "az-env-rg"}).cluster().resource_group
        == "az-env-rg"
    )
    assert found.notes[-1] == "cluster: env-aks (from AZURE_CLUSTER_NAME)"


def test_a_workspace_has_the_cluster_s_resource_group_unless_another_is_said(
    tmp_path: Path,
) -> None:
    environment = az_folder(tmp_path)
    assert Resolver({}, environment).workspace().resource_group == "az-rg"
    other = Resolver({"workspace's resource group": "ws-rg"}, environment).workspace()
    assert other.resource_id == (
        f"/subscriptions/{A}/resourceGroups/ws-rg/providers/Microsoft.MachineLearningServices/workspaces/az-ws"
    )


def test_a_subscription_may_be_said_by_the_name_that_az_knows(tmp_path: Path) -> None:
    environment = az_folder(tmp_path)
    assert Resolver({"subscription": "Other"}, environment).need("subscription") == B
    with pytest.raises(
        ArcError, match="--subscription: 'Nobody' is neither a subscription id nor a name"
    ):
        Resolver({"subscription": "Nobody"}, environment).need("subscription")


def test_what_nobody_says_is_asked_for_with_every_way_to_say_it(tmp_path: Path) -> None:
    nothing = Resolver({}, {"AZURE_CONFIG_DIR": str(tmp_path)})
    with pytest.raises(
        ArcError,
        match=r"which subscription\? pass --subscription, set AZURE_SUBSCRIPTION_ID or run `az acc",
    ):
        nothing.need("subscription")
    with pytest.raises(ArcError, match=r"which cluster\? pass --cluster or set AZURE_CLUSTER_NAME"):
        nothing.need("cluster")
    with pytest.raises(ArcError, match="az configure --defaults workspace="):
        nothing.need("workspace")


@pytest.mark.parametrize("name", ["a/b", "a b", "x" * 91, "a?b"])
def test_a_name_that_azure_cannot_have_is_refused_before_it_is_put_into_an_address(
    name: str,
) -> None:
    with pytest.raises(ArcError, match="cannot be the name of a cluster"):
        Resolver({"cluster": name}, {}).need("cluster")


def test_an_arc_cluster_has_its_own_provider() -> None:
    assert (
        "/Microsoft.Kubernetes/connectedClusters/edge"
        in Cluster(A, "rg", "edge", "connectedClusters").resource_id
    )
