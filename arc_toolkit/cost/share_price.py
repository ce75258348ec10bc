"""What one instance type costs: the part of a VM's price that a share takes, and what nobody uses of the VM."""

from __future__ import annotations

from dataclasses import dataclass

from arc_toolkit.errors import ArcError
from arc_toolkit.sizing.instance_types import InstanceType, generate
from arc_toolkit.sizing.node_selection import DaemonSets, select_sizes
from arc_toolkit.sizing.schedulable import Assumptions
from arc_toolkit.sizing.shares import Share


@dataclass(frozen=True, slots=True)
class ShareUse:
    """`workers` of one type on as few VMs as hold them."""

    instance_type: str
    share: str
    per_vm: int
    workers: int
    left_over: float  # of a full VM, which no share uses: of its GPUs, or else of cores and memory on average

    @property
    def vms(self) -> int:
        return -(-self.workers // self.per_vm)

    @property
    def empty(self) -> int:
        """Shares that are paid and not used."""
        return self.vms * self.per_vm - self.workers

    @property
    def wasted(self) -> float:
        """The part of the price that nothing runs for."""
        return 1 - self.workers / (self.vms * self.per_vm) * (1 - self.left_over)

    def price(self, vm_price: float) -> float:
        """Of one share and hour, on full VMs."""
        return vm_price / self.per_vm


def share_use(size: str, share: str, workers: int) -> ShareUse:
    """By the same rules as `gen-instance-types --sku SIZE --share SHARE`."""
    assumptions = Assumptions()
    selection = select_sizes([size], assumptions, DaemonSets())
    types, refused, _ = generate(selection.groups, [Share.parse(share)], assumptions)
    if not types:
        raise ArcError(refused[0] if refused else f"--share {share}: {size} has nothing to share")
    entry = types[0]
    return ShareUse(
        entry.name, str(entry.request), entry.portion.per_node, workers, _left_over(entry)
    )


def _left_over(entry: InstanceType) -> float:
    group, portion = entry.group, entry.portion
    if group.gpus:
        return portion.left_gpus / group.gpus
    cpu = portion.left_cpu_m / group.tightest_cpu.cpu_m
    memory = portion.left_memory / group.tightest_memory.memory
    return (cpu + memory) / 2
