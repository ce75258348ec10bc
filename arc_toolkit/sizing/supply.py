"""The waterfall: from nominal memory and cores, line by line, to what a job may ask for.

A `Supply` is one node, or one VM size under stated assumptions; a `Group` is the nodes that one instance type
may land on, and gives what the tightest of them gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from arc_toolkit.errors import ArcError
from arc_toolkit.sizing import capacity, reservations
from arc_toolkit.sizing.nodes import Node
from arc_toolkit.sizing.occupants import EXTENSION_NAMESPACE, Occupant
from arc_toolkit.sizing.quantities import KI, QuantityError, bytes_asked
from arc_toolkit.sizing.reservations import Version, parse_version
from arc_toolkit.sizing.vm_sizes import VmSize, find

AKS_PAGE = "AKS node resource reservations, https://learn.microsoft.com/azure/aks/node-resource-reservations"
EXTENSION_PAGE = "AzureML extension: 5% of node memory held by a DaemonSet pod"
SIZE_TABLE = "VM size table, 2026-08"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the waterfall: a level that is left (total), or what is taken (negative amounts)."""

    name: str
    cpu_m: int
    memory: int
    rule: str = ""
    source: str = ""
    total: bool = False


@dataclass(frozen=True, slots=True)
class Reserve:
    """What to keep free for the extension: a percentage of capacity memory, or an amount."""

    percent: Fraction | None = Fraction(5)
    amount: int = 0
    asked: bool = False  # given by the user, and not the default

    @classmethod
    def parse(cls, text: str) -> Reserve:
        """`5%`, `0`, `12Gi`."""
        try:
            if text.endswith("%"):
                percent = Fraction(text[:-1])
                if not 0 <= percent < 100:
                    raise ArcError(f"--reserve {text}: give a percentage from 0% to less than 100%")
                return cls(percent, asked=True)
            amount = bytes_asked(text)
        except (QuantityError, ValueError, ZeroDivisionError):
            raise ArcError(f"--reserve {text}: give a percentage such as 5% or an amount such as 8Gi") from None
        if amount < 0:
            raise ArcError(f"--reserve {text}: a reservation cannot be negative")
        return cls(None, amount, asked=True)

    def of(self, capacity_memory: int) -> int:
        """Bytes, rounded up to Ki."""
        exact = self.amount if self.percent is None else capacity_memory * self.percent / 100
        return -(-exact // KI) * KI

    def __str__(self) -> str:
        return f"{self.amount // KI}Ki" if self.percent is None else f"{float(self.percent):g}%"


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What must be assumed where no node can be asked, and what overrides any rule."""

    version: Version = (1, 33)
    max_pods: int = 250
    windows: bool = False
    reserve: Reserve = field(default_factory=Reserve)
    capacity_memory: int | None = None
    kube_reserved_cpu_m: int | None = None
    kube_reserved_memory: int | None = None
    eviction_memory: int | None = None

    @property
    def version_text(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"


@dataclass(frozen=True, slots=True)
class Supply:
    """What one node offers, and every line of how it came to that."""

    name: str
    nominal_cpu_m: int
    nominal_memory: int
    capacity_memory: int
    cpu_m: int  # schedulable
    memory: int  # schedulable, bytes
    gpus: int
    gpu_resource: str | None
    max_pods: int
    occupants: tuple[Occupant, ...]
    lines: tuple[Line, ...]
    version: str
    remarks: tuple[str, ...] = ()

    @property
    def pods_taken(self) -> int:
        return sum(1 for occupant in self.occupants if occupant.stays)

    @property
    def passing(self) -> tuple[Occupant, ...]:
        """Pods that no DaemonSet owns and that are no AzureML job: they defeat a type that takes all there is."""
        return tuple(occupant for occupant in self.occupants if occupant.kind == "other")

    def fits(self, cpu_m: int, memory: int, gpus: int) -> tuple[int, str]:
        """How many pods of that request fit, and the resource that is the limit."""
        counts = [
            (self.cpu_m // cpu_m if cpu_m else self.max_pods, "cpu"),
            (self.memory // memory if memory else self.max_pods, "memory"),
            (self.max_pods - self.pods_taken, "maxPods"),
        ]
        if gpus:
            counts.append((self.gpus // gpus, "gpu"))
        count, limit = min(counts, key=lambda pair: pair[0])
        return max(count, 0), limit


class _Waterfall:
    """Collects lines while it counts down."""

    def __init__(self, name: str, cpu_m: int, memory: int, rule: str, source: str) -> None:
        self.cpu_m, self.memory = cpu_m, memory
        self.lines = [Line(name, cpu_m, memory, rule, source, total=True)]

    def take(self, name: str, cpu_m: int, memory: int, rule: str, source: str) -> None:
        self.cpu_m, self.memory = self.cpu_m - cpu_m, self.memory - memory
        self.lines.append(Line(name, -cpu_m, -memory, rule, source))

    def level(self, name: str, rule: str = "", source: str = "") -> None:
        self.lines.append(Line(name, self.cpu_m, self.memory, rule, source, total=True))


def supply_of_size(size: VmSize, assumptions: Assumptions, occupants: Sequence[Occupant]) -> Supply:
    """A node of that size, under assumptions."""
    cores = size.vcpus_available
    fall = _Waterfall("nominal", cores * 1000, size.memory, size.name, SIZE_TABLE)
    if assumptions.capacity_memory is None:
        loss = capacity.kernel_loss(size.memory)
        fall.take("guest kernel", 0, loss.amount, loss.rule, "observed AKS nodes")
    else:
        if assumptions.capacity_memory > size.memory:
            raise ArcError(f"--capacity-memory is more than the nominal memory of {size.name}")
        fall.take(
            "guest kernel", 0, size.memory - assumptions.capacity_memory, "given as --capacity-memory", "option"
        )
    fall.level("capacity")
    capacity_memory = fall.memory
    _reserve_by_rule(fall, cores, size.memory, assumptions)
    return _finish(
        fall,
        assumptions,
        tuple(occupants),
        name=size.name,
        nominal=(cores * 1000, size.memory),
        capacity_memory=capacity_memory,
        gpus=(size.node_gpus if size.gpu_resource else 0, size.gpu_resource),
        max_pods=assumptions.max_pods,
        version=assumptions.version_text,
        remarks=size.remarks,
    )


def supply_of_node(node: Node, assumptions: Assumptions, occupants: Sequence[Occupant]) -> Supply:
    """A real node: its own capacity and allocatable win over every formula."""
    size = find(node.size) if node.size else None
    nominal = size.memory if size and size.memory >= node.capacity_memory else None
    version = parse_version(node.version) if node.version else assumptions.version
    max_pods = node.max_pods or assumptions.max_pods
    cores = node.capacity_cpu_m // 1000
    if nominal is not None:
        fall = _Waterfall("nominal", node.capacity_cpu_m, nominal, node.size, SIZE_TABLE)
        fall.take("guest kernel", 0, nominal - node.capacity_memory, "nominal - capacity", "measured on the node")
        fall.level("capacity", "status.capacity", "measured on the node")
    else:
        nominal = capacity.nominal_from_capacity(node.capacity_memory)
        fall = _Waterfall(
            "capacity", node.capacity_cpu_m, node.capacity_memory, "status.capacity", "measured on the node"
        )
    if node.allocatable_memory is None or node.allocatable_cpu_m is None:
        stated = Assumptions(version, max_pods, node.os == "windows", assumptions.reserve)
        _reserve_by_rule(fall, cores, nominal, stated)
    else:
        fall.take(
            "kubelet's reservation and eviction threshold",
            node.capacity_cpu_m - node.allocatable_cpu_m,
            node.capacity_memory - node.allocatable_memory,
            _expected(cores, nominal, version, max_pods, node),
            "measured on the node",
        )
        fall.level("allocatable", "status.allocatable", "measured on the node")
    return _finish(
        fall,
        assumptions,
        tuple(occupants),
        name=node.name,
        nominal=(node.capacity_cpu_m, nominal),
        capacity_memory=node.capacity_memory,
        gpus=(node.gpus, node.gpu_resource),
        max_pods=max_pods,
        version=node.version.removeprefix("v") or assumptions.version_text,
        remarks=(),
    )


def _reserve_by_rule(fall: _Waterfall, cores: int, nominal: int, assumptions: Assumptions) -> None:
    cpu = reservations.kube_reserved_cpu(cores)
    memory = reservations.kube_reserved_memory(
        nominal, assumptions.version, assumptions.max_pods, assumptions.windows
    )
    threshold = reservations.eviction(assumptions.version, assumptions.windows)
    cpu_m = cpu.amount if assumptions.kube_reserved_cpu_m is None else assumptions.kube_reserved_cpu_m
    kept = memory.amount if assumptions.kube_reserved_memory is None else assumptions.kube_reserved_memory
    evicted = threshold.amount if assumptions.eviction_memory is None else assumptions.eviction_memory
    cpu_rule = cpu.rule if assumptions.kube_reserved_cpu_m is None else "given as an option"
    memory_rule = memory.rule if assumptions.kube_reserved_memory is None else "given as an option"
    eviction_rule = threshold.rule if assumptions.eviction_memory is None else "given as an option"
    fall.take("kube-reserved cpu", cpu_m, 0, cpu_rule, AKS_PAGE)
    fall.take("kube-reserved memory", 0, kept, memory_rule, AKS_PAGE)
    fall.take("hard eviction threshold", 0, evicted, eviction_rule, AKS_PAGE)
    fall.level("allocatable")


def _expected(cores: int, nominal: int, version: Version, max_pods: int, node: Node) -> str:
    """Whether what the node keeps is what the rules say, in words."""
    windows = node.os == "windows"
    cpu = reservations.kube_reserved_cpu(cores)
    memory = reservations.kube_reserved_memory(nominal, version, max_pods, windows)
    threshold = reservations.eviction(version, windows)
    kept = node.capacity_memory - (node.allocatable_memory or 0)
    kept_cpu_m = node.capacity_cpu_m - (node.allocatable_cpu_m or 0)
    if kept == memory.amount + threshold.amount and kept_cpu_m == cpu.amount:
        return f"as the rules say: {memory.rule}; {threshold.rule}"
    return f"the rules would say {cpu.amount}m and {(memory.amount + threshold.amount) // KI}Ki; the node wins"


def _finish(
    fall: _Waterfall,
    assumptions: Assumptions,
    occupants: tuple[Occupant, ...],
    *,
    name: str,
    nominal: tuple[int, int],
    capacity_memory: int,
    gpus: tuple[int, str | None],
    max_pods: int,
    version: str,
    remarks: tuple[str, ...],
) -> Supply:
    """DaemonSets, then the reservation (once), then what is schedulable."""
    held = next((o for o in occupants if _is_reservation(o, capacity_memory)), None)
    for occupant in occupants:
        if occupant.stays and occupant is not held:
            fall.take(occupant.name, occupant.cpu_m, occupant.memory, "requests", occupant.source)
    wanted = assumptions.reserve.of(capacity_memory)
    if held is not None:
        fall.take(
            f"reservation ({held.name})", held.cpu_m, held.memory, "held by a pod on the node", EXTENSION_PAGE
        )
        if assumptions.reserve.asked and wanted > held.memory:
            fall.take(
                "further reserve", 0, wanted - held.memory, f"up to --reserve {assumptions.reserve}", "option"
            )
    elif wanted:
        rule = f"{assumptions.reserve} of capacity" if assumptions.reserve.percent else "given as --reserve"
        fall.take("reservation (AzureML extension)", 0, wanted, rule, EXTENSION_PAGE)
    fall.level("schedulable", "what one whole-node job may ask for")
    return Supply(
        name=name,
        nominal_cpu_m=nominal[0],
        nominal_memory=nominal[1],
        capacity_memory=capacity_memory,
        cpu_m=fall.cpu_m,
        memory=fall.memory,
        gpus=gpus[0],
        gpu_resource=gpus[1],
        max_pods=max_pods,
        occupants=occupants,
        lines=tuple(fall.lines),
        version=version,
        remarks=remarks,
    )


def _is_reservation(occupant: Occupant, capacity_memory: int) -> bool:
    """The extension's own reservation: a pod of its namespace that asks for about 5 % of capacity memory."""
    share = occupant.memory * 1000 // capacity_memory if capacity_memory else 0
    return occupant.kind == "daemonset" and occupant.namespace == EXTENSION_NAMESPACE and 45 <= share <= 55


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that one instance type may land on. Each resource is that of the node that gives least of it."""

    title: str
    selector: tuple[tuple[str, str], ...]
    supplies: tuple[Supply, ...]
    source: str  # "sku", "nodes" or "cluster"
    pools: tuple[str, ...] = ()
    size: str = ""

    @property
    def tightest_cpu(self) -> Supply:
        return min(self.supplies, key=lambda supply: supply.cpu_m)

    @property
    def tightest_memory(self) -> Supply:
        return min(self.supplies, key=lambda supply: supply.memory)

    @property
    def gpus(self) -> int:
        return min(supply.gpus for supply in self.supplies)

    @property
    def gpu_resource(self) -> str | None:
        return self.supplies[0].gpu_resource if self.gpus else None

    @property
    def nominal_cpu_m(self) -> int:
        return min(supply.nominal_cpu_m for supply in self.supplies)

    @property
    def nominal_memory(self) -> int:
        return min(supply.nominal_memory for supply in self.supplies)

    @property
    def pods_free(self) -> int:
        return min(supply.max_pods - supply.pods_taken for supply in self.supplies)

    def fits(self, cpu_m: int, memory: int, gpus: int) -> tuple[int, str]:
        """How many fit on the node of the group that takes least of them, and why not more."""
        return min((supply.fits(cpu_m, memory, gpus) for supply in self.supplies), key=lambda pair: pair[0])


def group_nodes(
    nodes: Iterable[Node],
    occupants: dict[str, list[Occupant]],
    assumptions: Assumptions,
    *,
    source: str,
    by_pool: bool = False,
    everywhere: Sequence[Occupant] = (),
) -> list[Group]:
    """Nodes by size label (and pool, if asked): exactly the nodes that a nodeSelector on these labels selects."""
    found: dict[tuple[tuple[str, str], ...], list[Node]] = {}
    for node in nodes:
        labels = [node.size_label] + ([node.pool_label] if by_pool else [])
        found.setdefault(tuple(label for label in labels if label), []).append(node)
    groups = []
    for selector, members in sorted(found.items()):
        supplies = tuple(
            supply_of_node(node, assumptions, [*occupants.get(node.name, ()), *everywhere]) for node in members
        )
        pools = tuple(sorted({node.pool for node in members if node.pool}))
        size = members[0].size
        where = f"pool {', '.join(pools)}, " if pools else ""
        title = (
            f"{size or 'nodes without a size label'} ({where}{len(members)} node{'s' if len(members) > 1 else ''})"
        )
        groups.append(Group(title, selector, supplies, source, pools, size))
    return groups
