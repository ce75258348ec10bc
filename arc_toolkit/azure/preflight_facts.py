"""The facts that preflight's checks look at, what follows from them, and how they are gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from arc_toolkit.azure import extension, operations
from arc_toolkit.azure.scope import Cluster, Resolver
from arc_toolkit.azure.session import AzureUnavailable, Session
from arc_toolkit.azure.workspace_computes import attached_computes, list_computes
from arc_toolkit.cluster.failures import NotFound, Unreachable
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.nodes import (
    AKS_POOL_LABELS,
    SIZE_LABELS,
    SYSTEM_POOL_LABEL,
    Node,
    UnusableNode,
    parse_nodes,
)
from arc_toolkit.kube.taints import SPOT_KEY, Toleration, annotated_tolerations
from arc_toolkit.sizing.fits import Candidate
from arc_toolkit.sizing.node_selection import DaemonSets, size_nodes
from arc_toolkit.sizing.occupants import Occupant, occupants_by_node
from arc_toolkit.sizing.schedulable import Assumptions
from arc_toolkit.stderr import Progress

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client

Side = Literal["azure", "cluster"]
INSTANCE_TYPES_CRD = "instancetypes.amlarc.azureml.com"
# API groups whose kinds preflight looks for; read by discovery, which every signed-in user may.
GROUPS = ("amlarc.azureml.com", "scheduling.volcano.sh")

AZURE_FACTS = ("provider", "resource", "extension", "computes")
CLUSTER_FACTS = ("crds", "nodes", "occupants", "instance_types", "namespaces", "scheduler_config")


@dataclass(frozen=True)
class UnknownFact:
    """A fact that is not available."""

    reason: str


class CannotTell(Exception):
    """A fact that this check needs is unknown."""


_T = TypeVar("_T")


def require_fact(fact: _T | UnknownFact) -> _T:
    if isinstance(fact, UnknownFact):
        raise CannotTell(fact.reason)
    return fact


@dataclass(frozen=True)
class Facts:
    """All that the checks look at. `extension` None: Azure says that there is none."""

    provider: str | UnknownFact
    resource: Mapping[str, Any] | UnknownFact
    extension: Mapping[str, Any] | UnknownFact | None
    computes: Sequence[dict[str, Any]] | UnknownFact
    crds: frozenset[str] | UnknownFact
    nodes: Sequence[Node] | UnknownFact
    occupants: Mapping[str, list[Occupant]] | UnknownFact
    instance_types: Sequence[Mapping[str, Any]] | UnknownFact
    # Annotations by name; read only if there are spot nodes.
    namespaces: Mapping[str, Mapping[str, str]] | UnknownFact
    # The ConfigMap that the extension's settings name; None without one.
    scheduler_config: Mapping[str, Any] | UnknownFact | None
    cluster: Cluster | None = None
    workspace: str | None = None

    @property
    def settings(self) -> dict[str, str]:
        """Those of the extension; none if it is unknown."""
        return (
            {} if isinstance(self.extension, UnknownFact) else extension.settings_of(self.extension)
        )

    @property
    def tolerations(self) -> list[Toleration]:
        """What job pods tolerate besides AzureML's taints, by a setting or in every namespace."""
        names, namespaces = self.compute_namespaces, self.namespaces
        rows = []
        if not isinstance(names, UnknownFact) and not isinstance(namespaces, UnknownFact):
            rows = [_lenient_tolerations(namespaces.get(name, {})) for name in names]
        common = [item for item in (rows[0] if rows else ()) if all(item in row for row in rows)]
        return [*self.set_tolerations, *common]

    @property
    def set_tolerations(self) -> list[Toleration]:
        """Those by the setting of the extension."""
        return list(extension.tolerations_of(self.settings).values())

    @property
    def extension_selector(self) -> dict[str, str]:
        """The labels that the extension, and so every job, asks of a node."""
        return extension.node_selector_of(self.settings)

    def usable(self) -> tuple[list[Node], list[UnusableNode]]:
        """The nodes that jobs can use, and the others."""
        rows = self._size_nodes({} if isinstance(self.occupants, UnknownFact) else self.occupants)
        return [row.node for row in rows if row.takes_jobs], [
            row.unusable for row in rows if row.unusable
        ]

    def candidates(self) -> list[Candidate]:
        """All nodes with what each can give."""
        return self._size_nodes(require_fact(self.occupants))

    def _size_nodes(self, occupants: Mapping[str, list[Occupant]]) -> list[Candidate]:
        selector = self.extension_selector
        return size_nodes(
            require_fact(self.nodes),
            occupants,
            Assumptions(),
            DaemonSets(()),
            tolerations=self.tolerations,
            # Without Azure, the extension's own pods show its selector.
            selector_of_extension=None if isinstance(self.extension, UnknownFact) else selector,
        )

    @property
    def has_spot(self) -> bool:
        nodes = [] if isinstance(self.nodes, UnknownFact) else self.nodes
        return any(map(_is_spot, nodes)) or has_spot_pool(self.resource)

    @property
    def pools(self) -> list[Mapping[str, Any]]:
        return pools_of(self.resource)

    def labels_of_pools(self) -> dict[str, list[Mapping[str, str]]]:
        """By pool, the labels of each of its nodes; of a pool at zero those that a node would have.

        A node without a pool is one of its own. AKS gives a node more labels than a pool shows, so
        those of its domains are taken for the ones that the extension asks for.
        https://learn.microsoft.com/azure/aks/use-labels
        """
        pools: dict[str, list[Mapping[str, str]]] = {}
        for node in () if isinstance(self.nodes, UnknownFact) else self.nodes:
            if node.os == "linux":
                pools.setdefault(node.pool or node.name, []).append(node.labels)
        aks_labels = {
            key: value
            for key, value in self.extension_selector.items()
            if key.partition("/")[0].endswith(("kubernetes.io", "azure.com"))
        }
        for profile in self.pools:
            name = str(profile.get("name"))
            if name not in pools and profile.get("osType", "Linux") == "Linux":
                labels = {
                    **aks_labels,
                    **dict.fromkeys(AKS_POOL_LABELS, name),
                    SYSTEM_POOL_LABEL[0]: str(profile.get("mode") or "User").lower(),
                    SIZE_LABELS[0]: str(profile.get("vmSize") or ""),
                    **(profile.get("nodeLabels") or {}),
                }
                pools[name] = [labels]
        return pools

    @property
    def compute_namespaces(self) -> list[str] | UnknownFact:
        """Where the pods of jobs are made."""
        if isinstance(self.computes, UnknownFact):
            return self.computes
        if self.cluster is None:
            return UnknownFact("the cluster's name in Azure is not known")
        rows = [
            row["properties"].get("properties") or {}
            for row in attached_computes(list(self.computes), self.cluster)
        ]
        return list(dict.fromkeys(str(row.get("namespace") or "default") for row in rows))

    @property
    def pools_from_zero(self) -> list[str]:
        """Pools that the autoscaler may bring to no node at all."""
        return [
            str(pool.get("name"))
            for pool in self.pools
            if pool.get("enableAutoScaling")
            and pool.get("minCount") == 0
            and pool.get("osType", "Linux") == "Linux"
        ]


def pools_of(resource: Mapping[str, Any] | UnknownFact) -> list[Mapping[str, Any]]:
    """The pools of the cluster as Azure has them."""
    if isinstance(resource, UnknownFact):
        return []
    return list((resource.get("properties") or {}).get("agentPoolProfiles") or ())


def has_spot_pool(resource: Mapping[str, Any] | UnknownFact) -> bool:
    return any(str(pool.get("scaleSetPriority")) == "Spot" for pool in pools_of(resource))


def _lenient_tolerations(annotations: Mapping[str, str]) -> list[Toleration]:
    try:
        return annotated_tolerations(annotations)
    except ArcError:  # another check reports it
        return []


def _is_spot(node: Node) -> bool:
    return any(taint.key == SPOT_KEY for taint in node.taints)


# --- gathering: one side that cannot be reached never hides the other -----------------------------


def azure_side(
    resolver: Resolver, kind: str, open_session: Callable[[], Session], progress: Progress
) -> dict[str, Any]:
    """provider, resource, extension and computes; and their cluster and workspace."""
    try:
        cluster = resolver.cluster(kind)
        session = open_session()
        progress("signing in to Azure")
        provider = _fact(lambda: operations.provider_state(session, cluster.subscription))
        progress("reading the cluster and its extension from Azure")
        resource = _fact(lambda: operations.cluster_resource(session, cluster))
        # Without the provider there can be no extension, and asking for it would be an error.
        absent = provider in ("NotRegistered", "Unregistered")
        installed = None if absent else _fact(lambda: operations.find(session, cluster))
        place = _fact(resolver.workspace)
        computes = (
            place
            if isinstance(place, UnknownFact)
            else _fact(lambda: list_computes(session, place))
        )
    except ArcError as error:
        # who or what is meant, no sign-in, no network: nothing else can be read either
        return unknown("azure", str(error))
    workspace = None if isinstance(place, UnknownFact) else place.name
    facts = {
        "provider": provider,
        "resource": resource,
        "extension": installed,
        "computes": computes,
    }
    return {**facts, "cluster": cluster, "workspace": workspace}


def cluster_side(client: Client, progress: Progress, azure: Mapping[str, Any]) -> dict[str, Any]:
    """CRDs, nodes, pods and instance types; and more, if pools and settings in `azure` need it."""
    from arc_toolkit.cluster import live_types, snapshot

    progress("reading the cluster")
    crds = _fact(lambda: frozenset(name for group in GROUPS for name in _kinds(client, group)))
    nodes = _fact(lambda: parse_nodes(snapshot.nodes(client, progress)))
    pods = _fact(lambda: occupants_by_node(snapshot.pods(client, progress)))
    types: Any = crds
    if not isinstance(crds, UnknownFact):
        types = UnknownFact("the CRD of instance types is missing")
        if INSTANCE_TYPES_CRD in crds:
            types = _fact(lambda: list(live_types.read(client).values()))
    namespaces: Any = {}
    if has_spot_pool(azure["resource"]) or (
        not isinstance(nodes, UnknownFact) and any(map(_is_spot, nodes))
    ):
        namespaces = _fact(lambda: _annotations(client))
    installed = azure["extension"]
    settings = {} if isinstance(installed, UnknownFact) else extension.settings_of(installed)
    config: Any = None
    if name := settings.get(extension.SCHEDULER_SETTING):
        config = _fact(lambda: _config_map(client, name))
    return {
        "crds": crds,
        "nodes": nodes,
        "occupants": pods,
        "instance_types": types,
        "namespaces": namespaces,
        "scheduler_config": config,
    }


def unknown(side: Side, reason: str) -> dict[str, Any]:
    """A side of which no fact is available."""
    return dict.fromkeys(AZURE_FACTS if side == "azure" else CLUSTER_FACTS, UnknownFact(reason))


def _kinds(client: Client, group: str) -> list[str]:
    """`plural.group` of all that the API server serves of a group; empty for an unknown one."""
    try:
        versions = client.get(f"/apis/{group}").get("versions") or ()
    except NotFound:
        return []
    names = []
    for version in versions:
        served = client.get(f"/apis/{version['groupVersion']}").get("resources") or ()
        names += [f"{row['name']}.{group}" for row in served if "/" not in row["name"]]
    return names


def _annotations(client: Client) -> dict[str, dict[str, str]]:
    """Those of each namespace, by its name."""
    rows = [item.get("metadata") or {} for item in client.list("/api/v1/namespaces")]
    return {str(row.get("name")): row.get("annotations") or {} for row in rows}


def _config_map(client: Client, name: str) -> dict[str, Any] | None:
    """A ConfigMap of the extension's namespace; None if there is none."""
    try:
        return client.get(f"/api/v1/namespaces/{extension.RELEASE_NAMESPACE}/configmaps/{name}")
    except NotFound:
        return None


def _fact(read: Callable[[], _T]) -> _T | UnknownFact:
    try:
        return read()
    except (AzureUnavailable, Unreachable):  # the next read would only wait as long again
        raise
    except ArcError as error:
        return UnknownFact(str(error))
