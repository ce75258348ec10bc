"""The waterfall: from nominal memory and cores, line by line, to what a job may ask for.

A `Supply` is one node, or one VM size under stated assumptions; a `Group` is the nodes that one instance type
may land on, and gives what the tightest of them gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import how_many
from arc_toolkit.kube.nodes import Node
from arc_toolkit.kube.pods import PodKind
from arc_toolkit.kube.quantities import KI, MI, QuantityError, bytes_asked
from arc_toolkit.sizing import capacity, reservations
from arc_toolkit.sizing.occupants import EXTENSION_NAMESPACE, Occupant
from arc_toolkit.sizing.reservations import Reservation, Version, parse_version
from arc_toolkit.sizing.vm_sizes import VmSize, find, table_date

AKS_PAGE = "AKS node resource reservations, https://learn.microsoft.com/azure/aks/node-resource-reservations"
EXTENSION_PAGE = "AzureML extension: 5% of node memory held by a DaemonSet pod"
MEASURED = "measured on the node"
OPTION = "option"


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
            if 0 < amount < MI:
                raise ArcError(f"--reserve {text} is less than 1Mi: did you mean {text}% or {text}Gi?")
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
        return f"{-(-self.amount // KI)}Ki" if self.percent is None else f"{float(self.percent):g}%"


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What must be assumed where no node can be asked, and what overrides any rule."""

    version: Version = (1, 33)
    max_pods: int = 250
    windows: bool = False
    reserve: Reserve = field(default_factory=Reserve)
    extension_namespace: str = EXTENSION_NAMESPACE
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
    gpus: int  # schedulable
    gpu_resource: str | None
    max_pods: int
    pods_taken: int
    occupants: tuple[Occupant, ...]
    lines: tuple[Line, ...]
    version: str
    remarks: tuple[str, ...] = ()

    @property
    def passing(self) -> tuple[Occupant, ...]:
        """Pods that no DaemonSet owns and that are no AzureML job: they defeat a type that takes all there is."""
        return tuple(o for o in self.occupants if o.kind is PodKind.OTHER and (o.cpu_m or o.memory or o.gpus))

    @property
    def pods_free(self) -> int:
        return self.max_pods - self.pods_taken


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
    fall = _Waterfall("nominal", cores * 1000, size.memory, size.name, f"VM size table, {table_date()}")
    if assumptions.capacity_memory is None:
        loss = capacity.kernel_loss(size.memory, assumptions.windows)
        fall.take("guest kernel", 0, loss.amount, loss.rule, "observed AKS nodes")
    else:
        if assumptions.capacity_memory > size.memory:
            raise ArcError(f"--capacity-memory is more than the nominal memory of {size.name}")
        fall.take("guest kernel", 0, size.memory - assumptions.capacity_memory, "--capacity-memory", OPTION)
    fall.level("capacity")
    capacity_memory = fall.memory
    _keep(fall, cores, size.memory, assumptions)
    return _finish(
        fall,
        assumptions,
        occupants,
        name=size.name,
        nominal_cpu_m=cores * 1000,
        nominal_memory=size.memory,
        capacity_memory=capacity_memory,
        gpus=size.node_gpus if size.gpu_resource else 0,
        gpu_resource=size.gpu_resource,
        remarks=size.remarks,
    )


def supply_of_node(node: Node, assumptions: Assumptions, occupants: Sequence[Occupant]) -> Supply:
    """A real node: its own capacity and allocatable win over every rule and option."""
    size = find(node.size) if node.size else None
    if size and size.memory >= node.capacity_memory:
        nominal = size.memory
        fall = _Waterfall("nominal", node.capacity_cpu_m, nominal, node.size, f"VM size table, {table_date()}")
        fall.take("guest kernel", 0, nominal - node.capacity_memory, "nominal - capacity", MEASURED)
        fall.level("capacity", "status.capacity", MEASURED)
    else:
        nominal = capacity.nominal_from_capacity(node.capacity_memory)
        fall = _Waterfall("capacity", node.capacity_cpu_m, node.capacity_memory, "status.capacity", MEASURED)
    stated = replace(
        assumptions,
        version=_version(node, assumptions),
        max_pods=node.max_pods or assumptions.max_pods,
        windows=node.os == "windows",
    )
    _keep(fall, node.capacity_cpu_m // 1000, nominal, stated, node)
    return _finish(
        fall,
        stated,
        occupants,
        name=node.name,
        nominal_cpu_m=node.capacity_cpu_m,
        nominal_memory=nominal,
        capacity_memory=node.capacity_memory,
        gpus=node.gpus,
        gpu_resource=node.gpu_resource,
        version=node.version.removeprefix("v"),
    )


def _keep(fall: _Waterfall, cores: int, nominal: int, assumptions: Assumptions, node: Node | None = None) -> None:
    """What the kubelet keeps, to allocatable: by rule, or as the node says where it says something else."""
    cpu = _given(
        assumptions.kube_reserved_cpu_m, "--kube-reserved-cpu", lambda: reservations.kube_reserved_cpu(cores)
    )
    memory = _given(
        assumptions.kube_reserved_memory,
        "--kube-reserved-memory",
        lambda: reservations.kube_reserved_memory(
            nominal, assumptions.version, assumptions.max_pods, assumptions.windows
        ),
    )
    threshold = _given(
        assumptions.eviction_memory,
        "--eviction-memory",
        lambda: reservations.eviction(assumptions.version, assumptions.windows),
    )
    kept_cpu_m = (
        node.capacity_cpu_m - node.allocatable_cpu_m if node and node.allocatable_cpu_m is not None else None
    )
    kept = node.capacity_memory - node.allocatable_memory if node and node.allocatable_memory is not None else None
    if kept_cpu_m is None or kept_cpu_m == cpu.amount:
        fall.take("kube-reserved cpu", cpu.amount, 0, cpu.rule, AKS_PAGE)
    else:
        rule = f"capacity - allocatable; the rules would say {cpu.amount}m, the node wins"
        fall.take("kept by the kubelet", kept_cpu_m, 0, rule, MEASURED)
    if kept is None or kept == memory.amount + threshold.amount:
        fall.take("kube-reserved memory", 0, memory.amount, memory.rule, AKS_PAGE)
        fall.take("hard eviction threshold", 0, threshold.amount, threshold.rule, AKS_PAGE)
    else:
        expected = (memory.amount + threshold.amount) // KI
        rule = f"capacity - allocatable; the rules would say {expected}Ki, the node wins"
        fall.take("kept by the kubelet", 0, kept, rule, MEASURED)
    measured = node is not None and (kept is not None or kept_cpu_m is not None)
    fall.level("allocatable", "status.allocatable" if measured else "", MEASURED if measured else "")


def _given(amount: int | None, option: str, rule: Callable[[], Reservation]) -> Reservation:
    """An amount that was given as an option, or else the rule's."""
    return rule() if amount is None else Reservation(amount, f"given as {option}")


def _finish(
    fall: _Waterfall,
    assumptions: Assumptions,
    occupants: Sequence[Occupant],
    *,
    name: str,
    nominal_cpu_m: int,
    nominal_memory: int,
    capacity_memory: int,
    gpus: int,
    gpu_resource: str | None,
    version: str = "",
    remarks: tuple[str, ...] = (),
) -> Supply:
    """DaemonSets, then the reservation (once), then what is schedulable."""
    held = next(
        (o for o in occupants if _is_reservation(o, capacity_memory, assumptions.extension_namespace)), None
    )
    staying = [occupant for occupant in occupants if occupant.stays]
    pods = sum(occupant.pods for occupant in staying)
    for occupant in staying:
        if occupant is not held:
            fall.take(occupant.name, occupant.cpu_m, occupant.memory, "requests", occupant.source)
    wanted = assumptions.reserve.of(capacity_memory)
    if held is not None:
        fall.take(
            f"reservation ({held.name})", held.cpu_m, held.memory, "held by a pod on the node", EXTENSION_PAGE
        )
        if assumptions.reserve.asked and wanted > held.memory:
            fall.take("further reserve", 0, wanted - held.memory, f"up to --reserve {assumptions.reserve}", OPTION)
    elif wanted:
        rule = f"{assumptions.reserve} of capacity" if assumptions.reserve.percent else "given as --reserve"
        fall.take("reservation (AzureML extension)", 0, wanted, rule, EXTENSION_PAGE)
        pods += 1
    fall.level("schedulable", "what one whole-node job may ask for")
    return Supply(
        name=name,
        nominal_cpu_m=nominal_cpu_m,
        nominal_memory=nominal_memory,
        capacity_memory=capacity_memory,
        cpu_m=fall.cpu_m,
        memory=fall.memory,
        gpus=max(0, gpus - sum(occupant.gpus for occupant in staying)),
        gpu_resource=gpu_resource,
        max_pods=assumptions.max_pods,
        pods_taken=pods,
        occupants=tuple(occupants),
        lines=tuple(fall.lines),
        version=version or assumptions.version_text,
        remarks=remarks,
    )


def _is_reservation(occupant: Occupant, capacity_memory: int, namespace: str) -> bool:
    """The extension's own reservation: a pod of its namespace that asks for about 5 % of capacity memory."""
    share = occupant.memory * 1000 // capacity_memory if capacity_memory else 0
    return occupant.kind is PodKind.DAEMONSET and occupant.namespace == namespace and 45 <= share <= 55


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
        """None where there are no GPUs, or GPUs of two makers."""
        resources = {supply.gpu_resource for supply in self.supplies}
        return resources.pop() if self.gpus and len(resources) == 1 else None

    @property
    def nominal_cpu_m(self) -> int:
        return min(supply.nominal_cpu_m for supply in self.supplies)

    @property
    def nominal_memory(self) -> int:
        return min(supply.nominal_memory for supply in self.supplies)

    @property
    def pods_free(self) -> int:
        return min(supply.pods_free for supply in self.supplies)

    def fits(self, cpu_m: int, memory: int, gpus: int) -> tuple[int, str]:
        """How many fit on the node of the group that takes least of them, and why not more."""
        return min((how_many(cpu_m, memory, gpus, supply) for supply in self.supplies), key=lambda pair: pair[0])


def group_of_size(size: VmSize, assumptions: Assumptions, occupants: Sequence[Occupant]) -> Group:
    """The nodes of a size, all alike."""
    return Group(
        title=size.name,
        selector=(("node.kubernetes.io/instance-type", size.name),),
        supplies=(supply_of_size(size, assumptions, occupants),),
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
) -> list[Group]:
    """Nodes by size label (and pool, if asked): exactly the nodes that a nodeSelector on these labels selects."""
    found: dict[tuple[tuple[str, str], ...], list[Node]] = {}
    for node in nodes:
        labels = [node.size_label] + ([node.pool_label] if by_pool else [])
        found.setdefault(tuple(label for label in labels if label), []).append(node)
    groups = []
    for selector, members in sorted(found.items()):
        supplies = tuple(
            supply_of_node(
                node, assumptions, [*occupants.get(node.name, ()), *everywhere(_version(node, assumptions))]
            )
            for node in members
        )
        pools = tuple(sorted({node.pool for node in members if node.pool}))
        size = members[0].size
        where = f"pool {', '.join(pools)}, " if pools else ""
        title = (
            f"{size or 'nodes without a size label'} ({where}{len(members)} node{'s' if len(members) > 1 else ''})"
        )
        groups.append(Group(title, selector, supplies, source, pools, size))
    return groups


def _version(node: Node, assumptions: Assumptions) -> Version:
    return parse_version(node.version) if node.version else assumptions.version
