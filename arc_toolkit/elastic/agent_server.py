"""The connections of the controller to its agents: who is there, what they say, and who is gone."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from arc_toolkit.elastic.rank_placement import Capacity

Message = dict[str, Any]


class LineConnection:
    """One peer. `send` may be called from any thread, `receive` from one."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._lock = threading.Lock()
        self._rest = b""

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, kind: str, /, **fields: Any) -> None:
        """`OSError` if the peer is gone or does not read."""
        data = json.dumps({"type": kind, **fields}).encode() + b"\n"
        with self._lock:
            self.sock.sendall(data)

    def receive(self) -> list[Message]:
        """The messages so far; waits for at least one. `ConnectionError` at the end."""
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the connection was closed")
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines if line]

    def close(self) -> None:
        self.sock.close()


def connect(address: tuple[str, int], timeout: float = 5.0) -> LineConnection:
    """A connection whose sends give up after `timeout` as well; receiving waits without a limit."""
    sock = socket.create_connection(address, timeout=timeout)
    sock.settimeout(None)
    return LineConnection(sock)


class ReservedPort:
    """A port for ranks to meet at: reserved while it is bound here, free at once afterwards."""

    def __init__(self) -> None:
        self._sock = socket.socket()
        self._sock.bind(("", 0))
        self.port: int = self._sock.getsockname()[1]

    def release(self) -> None:
        self._sock.close()


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
    last_heard: float = 0.0  # when it was last heard of
    has_notice: bool = False
    deadline: float | None = None

    def introduce(self, hello: Message) -> None:
        self.node, self.slots, self.warm = hello["node"], hello["slots"], hello["warm"]
        self.address, self.port, self.copies_port = (
            hello["address"],
            hello["port"],
            hello["copies_port"],
        )
        self.has_notice, self.deadline = hello["doomed"], hello["deadline"]

    @property
    def capacity(self) -> Capacity:
        return Capacity(self.node, self.slots, self.warm, self.has_notice)

    def send(self, kind: str, /, **fields: Any) -> None:
        """An agent that cannot be reached is found by the next look at who is silent."""
        try:
            self.connection.send(kind, **fields)
        except OSError:
            self.last_heard = GONE


_LATE_SECONDS = 0.15
# A node that is silent for so long is lost. Agents speak twice a second; on a loaded machine all of
# them are late at once, and so is this loop: its own delays do not count.
SILENCE_SECONDS = 2.5


class AgentServer:
    """Agents connect here; those that have introduced themselves are `links`."""

    def __init__(self, host: str) -> None:
        self._server = socket.create_server((host, 0), backlog=64)
        self.address: tuple[str, int] = (host, self._server.getsockname()[1])
        self.links: list[AgentLink] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ, None)
        self._last_look = time.monotonic()

    def receive(self, seconds: float) -> Iterator[tuple[AgentLink, Message]]:
        """What agents say within this time; a `lost` message of our own for each that is gone."""
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._accept()
                continue
            agent: AgentLink = key.data
            try:
                messages = agent.connection.receive()
            except (OSError, ValueError):
                yield from self._drop(agent, "its connection was closed")
                continue
            agent.last_heard = time.monotonic()
            for message in messages:
                yield agent, message
        now = time.monotonic()
        late, self._last_look = now - self._last_look, now
        # this process was not running: the silence of others is not theirs
        if late > seconds + _LATE_SECONDS:
            for agent in self.links:
                agent.last_heard += late
        for agent in [item for item in self.links if now - item.last_heard > SILENCE_SECONDS]:
            yield from self._drop(agent, f"it was silent for {SILENCE_SECONDS:g} s")

    def _accept(self) -> None:
        sock, _ = self._server.accept()
        sock.settimeout(5.0)  # an agent that does not read must not stop everybody
        agent = AgentLink(LineConnection(sock), last_heard=time.monotonic())
        self._selector.register(sock, selectors.EVENT_READ, agent)

    def _drop(self, agent: AgentLink, reason: str) -> Iterator[tuple[AgentLink, Message]]:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(agent.connection.sock)
        agent.connection.close()
        if agent in self.links:
            self.links.remove(agent)
            yield agent, {"type": "lost", "why": reason}

    def tell_all(self, kind: str, /, **fields: object) -> None:
        for agent in self.links:
            agent.send(kind, **fields)

    def close(self) -> None:
        self.tell_all("leave")
        for agent in self.links:
            agent.connection.close()
        self._server.close()
