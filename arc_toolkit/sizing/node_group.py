"""A group of nodes that share their instance types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from arc_toolkit.kube.nodes import Node
from arc_toolkit.kube.quantities import device_name
from arc_toolkit.sizing.schedulable import Limit, Schedulable
from arc_toolkit.text import plural


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes for one instance type. Each resource is that of the node that gives least of it."""

    title: str
    selector: tuple[tuple[str, str], ...]
    nodes: tuple[Schedulable, ...]
    source: str  # "sku", "nodes" or "cluster"
    pools: tuple[str, ...] = ()
    size: str = ""
    # the same nodes as objects; of a VM size with the labels that are known
    members: tuple[Node, ...] = ()

    @property
    def tightest_cpu(self) -> Schedulable:
        return min(self.nodes, key=lambda node: node.cpu_m)

    @property
    def tightest_memory(self) -> Schedulable:
        return min(self.nodes, key=lambda node: node.memory)

    @property
    def devices(self) -> dict[str, int]:
        """Of each kind that every node has, the smallest number."""
        first, *later = (node.devices for node in self.nodes)
        least = {
            key: min([count, *(row.get(key, 0) for row in later)]) for key, count in first.items()
        }
        return {key: count for key, count in least.items() if count}

    @property
    def gpus(self) -> int:
        return sum(self.devices.values())

    def subset(self, chosen: Callable[[Node], bool]) -> NodeGroup:
        """The same group with some of its nodes."""
        pairs = [
            (node, sized)
            for node, sized in zip(self.members, self.nodes, strict=True)
            if chosen(node)
        ]
        members, nodes = tuple(node for node, _ in pairs), tuple(sized for _, sized in pairs)
        return NodeGroup.from_nodes(members, nodes, self.selector, self.source)

    @classmethod
    def from_nodes(
        cls,
        members: tuple[Node, ...],
        nodes: tuple[Schedulable, ...],
        selector: tuple[tuple[str, str], ...],
        source: str,
    ) -> NodeGroup:
        pools = tuple(sorted({node.pool for node in members if node.pool}))
        size = next((node.size for node in members), "")
        pool_text = f"pool {', '.join(pools)}, " if pools else ""
        count = plural(len(members), "node")
        title = f"{size or 'nodes without a size label'} ({pool_text}{count})"
        return cls(title, selector, nodes, source, pools, size, members)

    def devices_called(self, name: str, count: int) -> dict[str, int] | None:
        """So many whole GPUs (`gpu`) or parts of GPUs (`mig-1g.10gb`); None if nodes have fewer."""
        if not count:
            return {}
        kinds = [
            key
            for key, available in self.devices.items()
            if device_name(key) == name and available >= count
        ]
        return {kinds[0]: count} if kinds else None

    @property
    def nominal_cpu_m(self) -> int:
        return min(node.nominal_cpu_m for node in self.nodes)

    @property
    def nominal_memory(self) -> int:
        return min(node.nominal_memory for node in self.nodes)

    @property
    def pods_free(self) -> int:
        return min(node.pods_free for node in self.nodes)

    def fits(self, cpu_m: int, memory: int, devices: Mapping[str, int]) -> tuple[int, Limit]:
        """How many fit on the node of the group that takes least of them, and why not more."""
        return min(
            (node.how_many(cpu_m, memory, devices) for node in self.nodes), key=lambda pair: pair[0]
        )
