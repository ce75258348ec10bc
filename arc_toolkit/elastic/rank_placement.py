"""Which ranks run where. Pure decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Capacity:
    """What one node offers. `warm` counts standbys that could start now."""

    node: str
    slots: int
    warm: int
    has_notice: bool = False


@dataclass(frozen=True)
class Placement:
    """The ranks of one generation, in order, by node. All ranks of a node are neighbours."""

    nodes: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.nodes)

    def ranks_of(self, node: str) -> list[int]:
        return [rank for rank, name in enumerate(self.nodes) if name == node]


def place_ranks(capacities: Sequence[Capacity], most: int, *, warm_only: bool) -> Placement:
    """As many ranks as fit on nodes that stay, at most `most`."""
    nodes: list[str] = []
    for item in (item for item in capacities if not item.has_notice):
        room = min(item.warm, item.slots) if warm_only else item.slots
        nodes += [item.node] * min(room, most - len(nodes))
    return Placement(tuple(nodes))


def gpus_of(gpus: Sequence[str], slots: int, place: int) -> Sequence[str]:
    """The GPUs of one of a node's ranks; more ranks than GPUs share them."""
    first = place * len(gpus) // slots
    return gpus[first : first + max(1, len(gpus) // slots)]
