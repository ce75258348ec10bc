"""What the controller knows of a node, and what it asks of the cluster."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from arc_toolkit.elastic.messages import LineConnection, Message
from arc_toolkit.elastic.worlds import Capacity

GONE = float("-inf")


class ClusterPort(Protocol):
    """What the controller asks of the cluster; see `ray_cluster.py`."""

    def poll(self, address: tuple[str, int], connected: Collection[str], workers: int) -> None:
        """Start agents on nodes that have none, and ask for nodes for so many workers.

        Called about once a second, and must not wait.
        """

    def drain(self, node: str, deadline: float | None) -> None:
        """Nothing else may land on this node."""


@dataclass(eq=False)
class AgentLink:
    """One connected agent."""

    connection: LineConnection
    node: str = ""
    slots: int = 0
    warm: int = 0
    address: str = ""
    port: int = 0
    copies_port: int = 0
    seen: float = 0.0  # when it was last heard of
    is_doomed: bool = False
    deadline: float | None = None

    def introduce(self, hello: Message) -> None:
        self.node, self.slots, self.warm = hello["node"], hello["slots"], hello["warm"]
        self.address, self.port, self.copies_port = (
            hello["address"],
            hello["port"],
            hello["copies_port"],
        )
        self.is_doomed, self.deadline = hello["doomed"], hello["deadline"]

    @property
    def capacity(self) -> Capacity:
        return Capacity(self.node, self.slots, self.warm, self.is_doomed)

    def send(self, kind: str, /, **fields: Any) -> None:
        """An agent that cannot be reached is found by the next look at who is silent."""
        try:
            self.connection.send(kind, **fields)
        except OSError:
            self.seen = GONE
