"""Groups of nodes, their shares (`whole`, `1/3`) and sizes by number (`32cpu128g-2gpu`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.nodes import Node
from arc_toolkit.kube.quantities import (
    GI,
    GPU_RESOURCES,
    MI,
    NO_DEVICES,
    cpu_text,
    device_name,
    devices_text,
)
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
    def spot(self) -> bool:
        """Whether all of its nodes may be evicted."""
        return bool(self.members) and all(node.spot for node in self.members)

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
        spot = "spot " if members and all(node.spot for node in members) else ""
        title = f"{spot}{size or 'nodes without a size label'} ({pool_text}{count})"
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


CPU_STEP_M = 10
_WORDS = {"whole": 1, "half": 2, "third": 3, "quarter": 4}


class DoesNotFit(ArcError):
    """A share or size that this group cannot give; the text says why, and by how much."""


@dataclass(frozen=True, slots=True)
class Share:
    """One n-th of a node."""

    n: int

    @classmethod
    def parse(cls, text: str) -> Share:
        word = text.strip().lower()
        if word in _WORDS:
            return cls(_WORDS[word])
        match = re.fullmatch(r"1/([1-9][0-9]{0,3})", word)
        if match is None:
            raise ArcError(f"--share {text}: give whole, half, quarter or 1/N with N from 1")
        return cls(int(match[1]))

    def __str__(self) -> str:
        return next((word for word, n in _WORDS.items() if n == self.n), f"1/{self.n}")

    @property
    def slug(self) -> str:
        """For names: `half`, `1-of-8`."""
        return str(self).replace("/", "-of-")


@dataclass(frozen=True, slots=True)
class Size:
    """Cores, memory and GPUs (or parts of GPUs, by `device_name`) asked for by number, exactly."""

    cpu_m: int
    memory: int
    gpus: int = 0
    device: str = "gpu"
    text: str = field(default="", compare=False)  # as it was asked for

    @classmethod
    def parse(cls, text: str) -> Size:
        """`32cpu128g`, `32c256g`, `0.5cpu2g`, `12cpu110g-1gpu`, `4cpu16g-1mig-1g.10gb` (GiB)."""
        match = re.fullmatch(
            r"(\d{1,6}(?:\.\d{1,3})?)c(?:pu)?(\d{1,6}(?:\.\d{1,3})?)g"
            r"(?:-?(\d{1,3})(gpu|mig-[a-z0-9.]+))?",
            text.strip().lower(),
            re.ASCII,
        )
        if match is None:
            raise ArcError(
                f"--size {text}: write it like 32cpu128g, 12cpu110g-1gpu or 4cpu16g-1mig-1g.10gb"
            )
        cpu_m, memory = Fraction(match[1]) * 1000, Fraction(match[2]) * GI
        if not cpu_m or not memory:
            raise ArcError(f"--size {text}: an instance type needs cores and memory above zero")
        gpus = int(match[3] or 0)
        device = match[4] or "gpu"
        name = f"{match[1]}cpu{match[2]}g" + (f"-{gpus}{device}" if gpus else "")
        return cls(-(-cpu_m // 1), -(-memory // MI) * MI, gpus, device, name)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Portion:
    """What one pod gets, how many of it a node holds, and what is then left."""

    cpu_m: int
    memory: int
    devices: Mapping[str, int]
    per_node: int
    limit: str
    left_cpu_m: int
    left_memory: int
    left_gpus: int

    @property
    def gpus(self) -> int:
        """Devices of any kind."""
        return sum(self.devices.values())


def split(group: NodeGroup, share: Share, *, whole_cores: bool = False) -> Portion:
    """One n-th of what is schedulable, rounded down to 10m (or a core) and 1Mi."""
    n = share.n
    odd = {resource: count for resource, count in group.devices.items() if count % n}
    if odd:
        have = " and ".join(
            f"{count} {_plural(resource, count)}" for resource, count in odd.items()
        )
        raise DoesNotFit(f"{group.title} has {have}, which cannot be divided into {n} equal shares")
    if n > group.pods_free:
        raise DoesNotFit(
            f"--share {share}: {group.title} takes {group.pods_free} more pods "
            "(maxPods less the pods already there), "
            f"not {n}"
        )
    step = 1000 if whole_cores else CPU_STEP_M
    cpu_m = group.tightest_cpu.cpu_m // n // step * step
    memory = group.tightest_memory.memory // n // MI * MI
    if cpu_m <= 0 or memory <= 0:
        raise DoesNotFit(f"--share {share}: {group.title}: {shortage_text(group, n, step)}")
    return portion_of(
        group,
        cpu_m,
        memory,
        {key: count // n for key, count in group.devices.items()},
        (n, "share"),
    )


def shortage_text(group: NodeGroup, n: int = 1, step: int = CPU_STEP_M) -> str:
    """Why nothing is left to share: the rest of each resource, or how much is missing."""
    cpu_m, memory = group.tightest_cpu.cpu_m, group.tightest_memory.memory
    over = shortfall(Amounts(0, 0), Amounts(cpu_m, memory))
    if over:
        return (
            "nothing is left for jobs: what the node keeps and its DaemonSets ask for "
            f"{over} more than it has"
        )
    if cpu_m // n < step:
        shares = f"{plural(n, 'share')} of at least {cpu_text(step)}"
        return f"{cpu_text(cpu_m)} cpu is too little for {shares}"
    return f"{memory // MI}Mi memory is too little for {plural(n, 'share')}"


def fit(group: NodeGroup, size: Size) -> Portion:
    """A size asked for by number: how many fit on a node of the group."""
    devices = group.devices_called(size.device, size.gpus)
    if devices is None:
        have = devices_text(group.devices) or "0"
        device_text = ("GPU" if size.gpus == 1 else "GPUs") if size.device == "gpu" else size.device
        raise DoesNotFit(f"{size} asks for {size.gpus} {device_text}; {group.title} has {have}")
    count, limit = group.fits(size.cpu_m, size.memory, devices)
    if count < 1:
        cpu_m, memory = group.tightest_cpu.cpu_m, group.tightest_memory.memory
        request, offered = (
            Amounts(size.cpu_m, size.memory, devices),
            Amounts(cpu_m, memory, group.devices),
        )
        by = shortfall(request, offered) or limit
        leftover = (
            f"schedulable are {cpu_text(cpu_m)} and {memory // MI}Mi"
            if min(offered[:2]) > 0
            else shortage_text(group)
        )
        raise DoesNotFit(
            f"{size} does not fit on {group.title}: it is too large by {by}; {leftover}"
        )
    return portion_of(group, size.cpu_m, size.memory, devices, (count, limit))


class Amounts(NamedTuple):
    """Milli-cores, bytes and devices: what is asked for, or offered."""

    cpu_m: int
    memory: int
    devices: Mapping[str, int] = NO_DEVICES


def shortfall(request: Amounts, offered: Amounts) -> str:
    """`200m cpu and 3Mi memory`: what is missing."""
    missing = [f"{request.cpu_m - offered.cpu_m}m cpu"] if request.cpu_m > offered.cpu_m else []
    over = request.memory - offered.memory
    missing += [f"{-(-over // MI)}Mi memory"] if over > 0 else []
    for resource, count in request.devices.items():
        over = count - offered.devices.get(resource, 0)
        name = "GPU" if resource in GPU_RESOURCES and resource in offered.devices else resource
        missing += [f"{over} {name}"] if over > 0 else []
    return " and ".join(missing)


def _plural(resource: str, count: int) -> str:
    return ("GPU" if count == 1 else "GPUs") if resource in GPU_RESOURCES else resource


def portion_of(
    group: NodeGroup,
    cpu_m: int,
    memory: int,
    devices: Mapping[str, int],
    fits: tuple[int, str] | None = None,
) -> Portion:
    """That request on the tightest nodes of a group."""
    count, limit = fits or group.fits(cpu_m, memory, devices)
    return Portion(
        cpu_m=cpu_m,
        memory=memory,
        devices=devices,
        per_node=count,
        limit=limit,
        left_cpu_m=group.tightest_cpu.cpu_m - count * cpu_m,
        left_memory=group.tightest_memory.memory - count * memory,
        left_gpus=group.gpus - count * sum(devices.values()),
    )
