"""Collecting the facts for preflight: one side that cannot be reached never hides the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from arc_toolkit.azure import operations
from arc_toolkit.azure.preflight import INSTANCE_TYPES_CRD, Side
from arc_toolkit.azure.preflight_facts import Facts, UnknownFact
from arc_toolkit.azure.scope import Cluster, Resolver
from arc_toolkit.azure.session import AzureUnavailable, Session
from arc_toolkit.azure.workspace_computes import list_computes
from arc_toolkit.cluster.failures import NotFound, Unreachable
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.nodes import parse_nodes
from arc_toolkit.sizing.occupants import by_node

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client

# API groups whose kinds preflight looks for; read by discovery, which every signed-in user may.
GROUPS = ("amlarc.azureml.com", "scheduling.volcano.sh")

AZURE_FACTS = ("provider", "resource", "extension", "computes")
CLUSTER_FACTS = ("crds", "nodes", "occupants", "instance_types")

Progress = Callable[[str], None]
_T = TypeVar("_T")


def azure_side(
    resolver: Resolver, kind: str, open_session: Callable[[], Session], progress: Progress
) -> dict[str, Any]:
    """provider, resource, extension and computes; and the cluster and workspace that they are about."""
    try:
        cluster = resolver.cluster(kind)
        return _read_azure(open_session(), cluster, resolver, progress)
    except ArcError as error:  # who or what is meant, no sign-in, no network: nothing else can be read either
        return unknown("azure", str(error))


def _read_azure(session: Session, cluster: Cluster, resolver: Resolver, progress: Progress) -> dict[str, Any]:
    progress("signing in to Azure")
    provider = _fact(lambda: operations.provider_state(session, cluster.subscription))
    progress("reading the cluster and its extension from Azure")
    resource = _fact(lambda: operations.cluster_resource(session, cluster))
    # Without the provider there can be no extension, and asking for it would be an error.
    absent = provider in ("NotRegistered", "Unregistered")
    installed = None if absent else _fact(lambda: operations.find(session, cluster))
    workspace = _fact(resolver.workspace)
    computes = (
        workspace if isinstance(workspace, UnknownFact) else _fact(lambda: list_computes(session, workspace))
    )
    return {
        "provider": provider,
        "resource": resource,
        "extension": installed,
        "computes": computes,
        "cluster": cluster,
        "workspace": None if isinstance(workspace, UnknownFact) else workspace.name,
    }


def cluster_side(client: Client, progress: Progress) -> dict[str, Any]:
    """CRDs, nodes, pods and instance types."""
    from arc_toolkit.cluster import live_types, snapshot

    progress("reading the cluster")
    crds = _fact(lambda: frozenset(name for group in GROUPS for name in _kinds(client, group)))
    nodes = _fact(lambda: parse_nodes(snapshot.nodes(client, progress), client.where))
    pods = _fact(lambda: by_node(snapshot.pods(client, progress)))
    types: Any = crds
    if not isinstance(crds, UnknownFact):
        types = UnknownFact("the CRD of instance types is missing")
        if INSTANCE_TYPES_CRD in crds:
            types = _fact(lambda: list(live_types.read(client).values()))
    return {"crds": crds, "nodes": nodes, "occupants": pods, "instance_types": types}


def unknown(side: Side, reason: str) -> dict[str, Any]:
    """A side of which no fact is available."""
    return dict.fromkeys(AZURE_FACTS if side == "azure" else CLUSTER_FACTS, UnknownFact(reason))


def facts(azure: Mapping[str, Any], cluster: Mapping[str, Any]) -> Facts:
    """Both sides together."""
    return Facts(**azure, **cluster)


def _kinds(client: Client, group: str) -> list[str]:
    """`plural.group` of what the API server serves of a group; nothing where it does not know the group."""
    try:
        versions = client.get(f"/apis/{group}").get("versions") or ()
    except NotFound:
        return []
    names = []
    for version in versions:
        served = client.get(f"/apis/{version['groupVersion']}").get("resources") or ()
        names += [f"{row['name']}.{group}" for row in served if "/" not in row["name"]]
    return names


def _fact(read: Callable[[], _T]) -> _T | UnknownFact:
    try:
        return read()
    except (AzureUnavailable, Unreachable):  # the next read would only wait as long again
        raise
    except ArcError as error:
        return UnknownFact(str(error))
