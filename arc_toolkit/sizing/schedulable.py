"""The waterfall: from nominal memory and cores, line by line, to what a job may ask for.

A `Schedulable` is one node, or one VM size under stated assumptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import Literal

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
from arc_toolkit.kube.nodes import Node
from arc_toolkit.kube.pods import PodKind
from arc_toolkit.kube.quantities import KI, MI, NO_DEVICES, QuantityError, bytes_requested
from arc_toolkit.sizing import reservations
from arc_toolkit.sizing.occupants import EXTENSION_NAMESPACE, Occupant
from arc_toolkit.sizing.reservations import Reservation, Version, parse_version
from arc_toolkit.sizing.vm_sizes import VmSize, find, table_date

AKS_PAGE = (
    "AKS node resource reservations, "
    "https://learn.microsoft.com/azure/aks/node-resource-reservations"
)
EXTENSION_PAGE = "AzureML extension: 5% of node memory held by a DaemonSet pod"
MEASURED = "measured on the node"
OPTION = "option"
Limit = Literal["cpu", "memory", "maxPods", "gpu"]


class LineKind(Enum):
    """A line of the waterfall: a level, or something taken from the level above it."""

    NOMINAL = "nominal"
    CAPACITY = "capacity"
    ALLOCATABLE = "allocatable"
    SCHEDULABLE = "schedulable"
    KERNEL = "guest kernel"
    KUBELET = "kubelet"
    POD = "pod"
    RESERVE = "reserve"


_LEVELS = (LineKind.NOMINAL, LineKind.CAPACITY, LineKind.ALLOCATABLE, LineKind.SCHEDULABLE)


@dataclass(frozen=True, slots=True)
class WaterfallLine:
    """One line: what is left at a level, or what is taken (negative amounts)."""

    kind: LineKind
    name: str
    cpu_m: int
    memory: int
    rule: str = ""
    source: str = ""

    @property
    def is_level(self) -> bool:
        return self.kind in _LEVELS

    @property
    def title(self) -> str:
        return self.name if self.is_level else f"- {self.name}"


@dataclass(frozen=True, slots=True)
class Reserve:
    """What to keep free for the extension: a percentage of capacity memory, or an amount."""

    percent: Fraction | None = Fraction(5)
    amount: int = 0
    is_explicit: bool = False  # given by the user, and not the default

    @classmethod
    def parse(cls, text: str) -> Reserve:
        """`5%`, `0`, `12Gi`."""
        try:
            if text.endswith("%"):
                percent = Fraction(text[:-1])
                if not 0 <= percent < 100:
                    raise ArcError(f"--reserve {text}: use a percentage from 0% to less than 100%")
                return cls(percent, is_explicit=True)
            amount = bytes_requested(text)
            if 0 < amount < MI:
                raise ArcError(
                    f"--reserve {text} is less than 1Mi: did you mean {text}% or {text}Gi?"
                )
        except (QuantityError, ValueError, ZeroDivisionError):
            raise ArcError(
                f"--reserve {text}: use a percentage such as 5% or an amount such as 8Gi"
            ) from None
        if amount < 0:
            raise ArcError(f"--reserve {text}: a reservation cannot be negative")
        return cls(None, amount, is_explicit=True)

    def bytes_of(self, capacity_memory: int) -> int:
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
class Schedulable:
    """What one node offers, and every line of how it came to that."""

    name: str
    nominal_cpu_m: int
    nominal_memory: int
    capacity_memory: int
    cpu_m: int  # schedulable
    memory: int  # schedulable, bytes
    devices: Mapping[str, int]  # schedulable
    max_pods: int
    pods_taken: int
    occupants: tuple[Occupant, ...]
    lines: tuple[WaterfallLine, ...]
    version: str

    @property
    def other_pods(self) -> tuple[Occupant, ...]:
        """Pods of neither a DaemonSet nor an AzureML job: they defeat a type that takes all."""
        return tuple(
            o
            for o in self.occupants
            if o.kind is PodKind.OTHER and (o.cpu_m or o.memory or o.devices)
        )

    @property
    def gpus(self) -> int:
        """Devices of any kind."""
        return sum(self.devices.values())

    @property
    def pods_free(self) -> int:
        return self.max_pods - self.pods_taken

    def how_many(
        self, cpu_m: int, memory: int, devices: Mapping[str, int] = NO_DEVICES
    ) -> tuple[int, Limit]:
        """How many pods with this request it takes, and the resource that is the limit.

        Each resource by itself, as NodeResourcesFit of the scheduler compares them; a device of
        another kind does not count.
        """
        amounts: list[tuple[int, int, Limit]] = [
            (self.cpu_m, cpu_m, "cpu"),
            (self.memory, memory, "memory"),
            (self.pods_free, 1, "maxPods"),
            *((self.devices.get(resource, 0), count, "gpu") for resource, count in devices.items()),
        ]
        counts = ((free // each, limit) for free, each, limit in amounts if each)
        count, limit = min(counts, key=lambda pair: pair[0])
        return max(count, 0), limit

    def how_many_of(self, spec: InstanceTypeSpec) -> tuple[int, Limit]:
        """The same for an instance type."""
        return self.how_many(spec.cpu_m, spec.memory, spec.devices)


class _Waterfall:
    """Collects lines while it counts down."""

    def __init__(self, kind: LineKind, cpu_m: int, memory: int, rule: str, source: str) -> None:
        self.cpu_m, self.memory = cpu_m, memory
        self.lines: list[WaterfallLine] = []
        self.level(kind, rule, source)

    def take(
        self, kind: LineKind, name: str, cpu_m: int, memory: int, rule: str, source: str
    ) -> None:
        self.cpu_m, self.memory = self.cpu_m - cpu_m, self.memory - memory
        self.lines.append(WaterfallLine(kind, name, -cpu_m, -memory, rule, source))

    def level(self, kind: LineKind, rule: str = "", source: str = "") -> None:
        self.lines.append(WaterfallLine(kind, kind.value, self.cpu_m, self.memory, rule, source))


def schedulable_of_size(
    size: VmSize, assumptions: Assumptions, occupants: Sequence[Occupant]
) -> Schedulable:
    """A node of that size, under assumptions."""
    nominal, capacity = size.memory, assumptions.capacity_memory
    fall = _Waterfall(
        LineKind.NOMINAL,
        size.vcpus_available * 1000,
        nominal,
        size.name,
        f"VM size table, {table_date()}",
    )
    loss, source = reservations.kernel_loss(nominal, assumptions.windows), "observed AKS nodes"
    if capacity is not None:
        if capacity > nominal:
            raise ArcError(f"--capacity-memory is more than the nominal memory of {size.name}")
        loss, source = Reservation(nominal - capacity, "--capacity-memory"), OPTION
    fall.take(LineKind.KERNEL, "guest kernel", 0, loss.amount, loss.rule, source)
    fall.level(LineKind.CAPACITY)
    devices = {size.gpu_resource: size.node_gpus} if size.gpu_resource else {}
    return _finish(fall, nominal, assumptions, occupants, size.name, devices)


def schedulable_of_node(
    node: Node, assumptions: Assumptions, occupants: Sequence[Occupant]
) -> Schedulable:
    """A real node: its own capacity and allocatable win over every rule and option."""
    cpu_m, memory = node.capacity_cpu_m, node.capacity_memory
    size = find(node.size)
    if size and size.memory >= memory:
        nominal = size.memory
        fall = _Waterfall(
            LineKind.NOMINAL, cpu_m, nominal, node.size, f"VM size table, {table_date()}"
        )
        fall.take(
            LineKind.KERNEL, "guest kernel", 0, nominal - memory, "nominal - capacity", MEASURED
        )
        fall.level(LineKind.CAPACITY, "status.capacity", MEASURED)
    else:
        nominal = reservations.nominal_from_capacity(memory)
        fall = _Waterfall(LineKind.CAPACITY, cpu_m, memory, "status.capacity", MEASURED)
    stated = replace(
        assumptions,
        version=version_of(node, assumptions),
        max_pods=node.max_pods or assumptions.max_pods,
        windows=node.os == "windows",
    )
    return _finish(fall, nominal, stated, occupants, node.name, node.devices, node)


def _keep(fall: _Waterfall, nominal: int, assumptions: Assumptions, node: Node | None) -> None:
    """What the kubelet keeps, to allocatable: by rule, or as the node differs from it."""
    version, windows = assumptions.version, assumptions.windows
    cpu = _option(
        assumptions.kube_reserved_cpu_m, "--kube-reserved-cpu"
    ) or reservations.kube_reserved_cpu(fall.cpu_m // 1000)
    memory = _option(
        assumptions.kube_reserved_memory, "--kube-reserved-memory"
    ) or reservations.kube_reserved_memory(nominal, version, assumptions.max_pods, windows)
    threshold = _option(assumptions.eviction_memory, "--eviction-memory") or reservations.eviction(
        version, windows
    )
    expected_memory = memory.amount + threshold.amount
    kept_cpu_m, kept_memory, measured = cpu.amount, expected_memory, False
    if node and node.allocatable_cpu_m is not None:
        kept_cpu_m, measured = node.capacity_cpu_m - node.allocatable_cpu_m, True
    if node and node.allocatable_memory is not None:
        kept_memory, measured = node.capacity_memory - node.allocatable_memory, True
    instead = "capacity - allocatable; the rules would say {}, the node wins"
    if kept_cpu_m == cpu.amount:
        fall.take(LineKind.KUBELET, "kube-reserved cpu", kept_cpu_m, 0, cpu.rule, AKS_PAGE)
    else:
        rule = instead.format(f"{cpu.amount}m")
        fall.take(LineKind.KUBELET, "kept by the kubelet", kept_cpu_m, 0, rule, MEASURED)
    if kept_memory == expected_memory:
        fall.take(LineKind.KUBELET, "kube-reserved memory", 0, memory.amount, memory.rule, AKS_PAGE)
        fall.take(
            LineKind.KUBELET,
            "hard eviction threshold",
            0,
            threshold.amount,
            threshold.rule,
            AKS_PAGE,
        )
    else:
        rule = instead.format(f"{expected_memory // KI}Ki")
        fall.take(LineKind.KUBELET, "kept by the kubelet", 0, kept_memory, rule, MEASURED)
    fall.level(LineKind.ALLOCATABLE, *(("status.allocatable", MEASURED) if measured else ()))


def _option(amount: int | None, name: str) -> Reservation | None:
    return None if amount is None else Reservation(amount, f"given as {name}")


def _finish(
    fall: _Waterfall,
    nominal: int,
    assumptions: Assumptions,
    occupants: Sequence[Occupant],
    name: str,
    devices: Mapping[str, int],
    node: Node | None = None,
) -> Schedulable:
    """From capacity: the kubelet's part, DaemonSets, the reservation (once), then schedulable."""
    nominal_cpu_m, capacity = fall.cpu_m, fall.memory
    _keep(fall, nominal, assumptions, node)
    namespace, reserve_option = assumptions.extension_namespace, assumptions.reserve
    holder = next((row for row in occupants if _is_reservation(row, capacity, namespace)), None)
    permanent = [row for row in occupants if row.permanent]
    pods = sum(row.pods for row in permanent)
    for row in permanent:
        if row is not holder:
            fall.take(LineKind.POD, row.name, row.cpu_m, row.memory, "requests", row.source)
    reserve = reserve_option.bytes_of(capacity)
    if holder is not None:
        title, rule = f"reservation ({holder.name})", "held by a pod on the node"
        fall.take(LineKind.RESERVE, title, holder.cpu_m, holder.memory, rule, EXTENSION_PAGE)
        if reserve_option.is_explicit and reserve > holder.memory:
            extra, rule = reserve - holder.memory, f"up to --reserve {reserve_option}"
            fall.take(LineKind.RESERVE, "further reserve", 0, extra, rule, OPTION)
    elif reserve:
        rule = f"{reserve_option} of capacity" if reserve_option.percent else "given as --reserve"
        fall.take(
            LineKind.RESERVE, "reservation (AzureML extension)", 0, reserve, rule, EXTENSION_PAGE
        )
        pods += 1
    fall.level(LineKind.SCHEDULABLE, "what one whole-node job may ask for")
    return Schedulable(
        name=name,
        nominal_cpu_m=nominal_cpu_m,
        nominal_memory=nominal,
        capacity_memory=capacity,
        cpu_m=fall.cpu_m,
        memory=fall.memory,
        devices={
            resource: max(0, count - sum(row.devices.get(resource, 0) for row in permanent))
            for resource, count in devices.items()
        },
        max_pods=assumptions.max_pods,
        pods_taken=pods,
        occupants=tuple(occupants),
        lines=tuple(fall.lines),
        version=node.version.removeprefix("v")
        if node and node.version
        else assumptions.version_text,
    )


def _is_reservation(occupant: Occupant, capacity_memory: int, namespace: str) -> bool:
    """The extension's own reservation: a pod of its namespace with about 5 % of memory."""
    share = occupant.memory * 1000 // capacity_memory if capacity_memory else 0
    return (
        occupant.kind is PodKind.DAEMONSET and occupant.namespace == namespace and 45 <= share <= 55
    )


def version_of(node: Node, assumptions: Assumptions) -> Version:
    """The node's own; one built from source, or not a kubelet at all, may say anything."""
    try:
        return parse_version(node.version)
    except ArcError:
        return assumptions.version
