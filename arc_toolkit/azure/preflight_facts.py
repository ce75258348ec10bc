"""The facts that preflight's checks look at, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from arc_toolkit.azure import extension
from arc_toolkit.azure.scope import Cluster
from arc_toolkit.kube.nodes import Node, UnusableNode, unusable
from arc_toolkit.kube.taints import SPOT_KEY, Toleration
from arc_toolkit.sizing.occupants import Occupant
from arc_toolkit.sizing.schedulable import Assumptions, Schedulable, schedulable_of_node


@dataclass(frozen=True)
class UnknownFact:
    """A fact that is not available."""

    reason: str


class CannotTell(Exception):
    """A fact that this check needs is unknown."""


_T = TypeVar("_T")


def known(fact: _T | UnknownFact) -> _T:
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
    cluster: Cluster | None = None
    workspace: str | None = None

    @property
    def settings(self) -> dict[str, str]:
        """Those of the extension; none if it is unknown."""
        return {} if isinstance(self.extension, UnknownFact) else extension.settings_of(self.extension)

    @property
    def tolerations(self) -> list[Toleration]:
        """What job pods tolerate besides AzureML's own taints."""
        return list(extension.tolerations_of(self.settings).values())

    def usable(self) -> tuple[list[Node], list[UnusableNode]]:
        """The nodes that jobs can use, and the others."""
        reasons = {node.name: unusable(node, self.tolerations) for node in known(self.nodes)}
        refused = [reason for reason in reasons.values() if reason is not None]
        return [node for node in known(self.nodes) if reasons[node.name] is None], refused

    def sized_nodes(self) -> list[tuple[Node, Schedulable]]:
        """The usable nodes with what each can give."""
        occupants = known(self.occupants)
        return [
            (node, schedulable_of_node(node, Assumptions(), occupants.get(node.name, [])))
            for node in self.usable()[0]
        ]

    @property
    def has_spot(self) -> bool:
        nodes = [] if isinstance(self.nodes, UnknownFact) else self.nodes
        if any(taint.key == SPOT_KEY for node in nodes for taint in node.taints):
            return True
        return any(str(pool.get("scaleSetPriority")) == "Spot" for pool in self.pools)

    @property
    def pools(self) -> list[Mapping[str, Any]]:
        if isinstance(self.resource, UnknownFact):
            return []
        return list((self.resource.get("properties") or {}).get("agentPoolProfiles") or ())

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

    @property
    def system_pool(self) -> str:
        """A label of the pool for system pods, if one can be seen."""
        for node in known(self.nodes):
            if node.labels.get("kubernetes.azure.com/mode") == "system" and node.pool_label:
                return f"agentpool={node.pool}"
        return "agentpool=POOL"
