"""A loopback Azure for every test here, and a session that reaches nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from arc_toolkit.azure.scope import Cluster, Workspace
from arc_toolkit.azure.session import Cloud, Session
from tests.azure.arm_server import SUBSCRIPTION, TOKEN, Arm, LoopbackServer
from tests.support import unavailable

CLUSTER = Cluster(SUBSCRIPTION, "ml-rg", "gpu-aks")
WORKSPACE = Workspace(SUBSCRIPTION, "ml-rg", "ml-ws")


class Token(NamedTuple):
    token: str
    expires_on: int


class StaticCredential:
    """A credential that needs nobody; `token` None is one that fails to sign in."""

    def __init__(self, token: str | None = TOKEN) -> None:
        self.token = token

    def get_token(self, *scopes: str, **_: Any) -> Token:
        if self.token is None:
            from azure.core.exceptions import ClientAuthenticationError

            raise ClientAuthenticationError(
                "DefaultAzureCredential failed to retrieve a token.\nAttempted credentials: ..."
            )
        return Token(self.token, int(time.time()) + 3600)


@pytest.fixture(autouse=True)
def _no_real_azure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the sign-in, the defaults nor the cluster of the person who runs this."""
    for name in (
        "AZURE_SUBSCRIPTION_ID",
        "AZURE_RESOURCE_GROUP",
        "AZURE_DEFAULTS_GROUP",
        "AZURE_CLUSTER_NAME",
        "AZURE_ML_WORKSPACE",
        "AZURE_DEFAULTS_WORKSPACE",
        "AZURE_ML_RESOURCE_GROUP",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_CONFIG_DIR", str(tmp_path / "no-az"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    monkeypatch.setenv(
        "AZUREML_CURRENT_CLOUD", "AzureCloud"
    )  # azure-ai-ml writes it; this puts it back


@pytest.fixture(scope="session")
def _loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackServer]:
    try:
        import azure.identity
        import azure.mgmt.containerservice
        import azure.mgmt.kubernetesconfiguration  # noqa: F401
    except ImportError:
        unavailable("the azure extra is not installed")
    with LoopbackServer(tmp_path_factory.mktemp("arm")) as server:
        yield server


@pytest.fixture
def arm(_loopback: LoopbackServer) -> Arm:
    """A fresh Azure with one AKS cluster and one workspace."""
    fresh = Arm(base=_loopback.url)
    fresh.resources[CLUSTER.resource_id.lower()] = {
        "id": CLUSTER.resource_id,
        "name": CLUSTER.name,
        "location": "WestEurope",
        "properties": {
            "fqdn": "gpu-aks-1.hcp.westeurope.azmk8s.io",
            "agentPoolProfiles": [{"name": "system", "count": 3}],
        },
    }
    fresh.resources[WORKSPACE.resource_id.lower()] = {
        "id": WORKSPACE.resource_id,
        "name": WORKSPACE.name,
        "location": "westeurope",
        "properties": {},
    }
    _loopback.arm.__dict__.update(fresh.__dict__)
    return _loopback.arm


@pytest.fixture
def session(arm: Arm, _loopback: LoopbackServer) -> Session:
    """The real SDKs, pointed at the loopback server."""
    options = {
        "connection_verify": str(_loopback.certificate),
        "polling_interval": 0.01,
        "retry_total": 0,
    }
    return Session(
        StaticCredential(),
        Cloud(f"loopback-{_loopback.url[-5:]}", _loopback.url, _loopback.url),
        options,
    )
