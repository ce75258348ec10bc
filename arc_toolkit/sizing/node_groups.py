"""Groups of nodes: the nodes that one instance type may land on, and what the tightest of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from arc_toolkit.kube.instance_type_spec import Limit, how_many
from arc_toolkit.kube.nodes import Node
from arc_toolkit.sizing.occupants import Occupant
from arc_toolkit.sizing.reservations import Version
from arc_toolkit.sizing.schedulable import (
    Assumptions,
    Schedulable,
    schedulable_of_node,
    schedulable_of_size,
    version_of,
)
from arc_toolkit.sizing.vm_sizes import VmSize


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that one instance type may land on. Each resource is that of the node that gives least of it."""

    title: str
    selector: tuple[tuple[str, str], ...]
    nodes: tuple[Schedulable, ...]
    source: str  # "sku", "nodes" or "cluster"
    pools: tuple[str, ...] = ()
    size: str = ""

    @property
    def tightest_cpu(self) -> Schedulable:
        return min(self.nodes, key=lambda node: node.cpu_m)

    @property
    def tightest_memory(self) -> Schedulable:
        return min(self.nodes, key=lambda node: node.memory)

    @property
    def gpus(self) -> int:
        return min(node.gpus for node in self.nodes)

    @property
    def gpu_resource(self) -> str | None:
        """None where there are no GPUs, or GPUs of two makers."""
        resources = {node.gpu_resource for node in self.nodes}
        return resources.pop() if self.gpus and len(resources) == 1 else None

    @property
    def nominal_cpu_m(self) -> int:
        return min(node.nominal_cpu_m for node in self.nodes)

    @property
    def nominal_memory(self) -> int:
        return min(node.nominal_memory for node in self.nodes)

    @property
    def pods_free(self) -> int:
        return min(node.pods_free for node in self.nodes)

    def fits(self, cpu_m: int, memory: int, gpus: int) -> tuple[int, Limit]:
        """How many fit on the node of the group that takes least of them, and why not more."""
        return min((how_many(cpu_m, memory, gpus, node) for node in self.nodes), key=lambda pair: pair[0])


def group_of_size(size: VmSize, assumptions: Assumptions, occupants: Sequence[Occupant]) -> NodeGroup:
    """The nodes of a size, all alike."""
    return NodeGroup(
        title=size.name,
        selector=(("node.kubernetes.io/instance-type", size.name),),
        nodes=(schedulable_of_size(size, assumptions, occupants),),
        source="sku",
        size=size.name,
    )


def group_nodes(
    nodes: Iterable[Node],
    occupants: dict[str, list[Occupant]],
    assumptions: Assumptions,
    *,
    source: str,
    by_pool: bool = False,
    everywhere: Callable[[Version], Sequence[Occupant]] = lambda version: (),
) -> list[NodeGroup]:
    """Nodes by size label (and pool, if asked): exactly the nodes that a nodeSelector on these labels selects."""
    by_labels: dict[tuple[tuple[str, str], ...], list[Node]] = {}
    for node in nodes:
        labels = [node.size_label] + ([node.pool_label] if by_pool else [])
        by_labels.setdefault(tuple(label for label in labels if label), []).append(node)
    groups = []
    for selector, members in sorted(by_labels.items()):
        sized = tuple(
            schedulable_of_node(
                node, assumptions, [*occupants.get(node.name, ()), *everywhere(version_of(node, assumptions))]
            )
            for node in members
        )
        pools = tuple(sorted({node.pool for node in members if node.pool}))
        size = members[0].size
        where = f"pool {', '.join(pools)}, " if pools else ""
        title = (
            f"{size or 'nodes without a size label'} ({where}{len(members)} node{'s' if len(members) > 1 else ''})"
        )
        groups.append(NodeGroup(title, selector, sized, source, pools, size))
    return groups
