"""Adding a node pool through azure-mgmt-containerservice; a dry run is the same call with a client that only reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from arc_toolkit.azure.operations import Progress, wait
from arc_toolkit.azure.scope import Cluster
from arc_toolkit.azure.session import Session, explained
from arc_toolkit.errors import ArcError, missing_extra


def add_pool(
    session: Session,
    cluster: Cluster,
    name: str,
    body: Mapping[str, Any],
    progress: Progress,
    *,
    dry_run: bool,
) -> Mapping[str, Any]:
    """PUT and wait; gives the pool as Azure then shows it."""
    try:
        from azure.mgmt.containerservice import ContainerServiceClient
    except ImportError:
        raise missing_extra("azure", "adding a node pool") from None
    doing = f"adding the node pool {name!r} to {cluster.name}"
    client = ContainerServiceClient(
        session.credential,
        cluster.subscription,
        base_url=session.cloud.management_url,
        credential_scopes=[f"{session.cloud.management_url}/.default"],
        **session.client_options(read_only=dry_run),
    )
    with explained(doing), client:
        poller = client.agent_pools.begin_create_or_update(
            cluster.resource_group, cluster.name, name, json.dumps(body).encode()
        )
        pool: Mapping[str, Any] = wait(poller, doing, progress).as_dict()
    state = (pool.get("properties") or {}).get("provisioningState")
    if state != "Succeeded":
        raise ArcError(f"{doing}: Azure says {state}; see `az aks nodepool show`")
    return pool
