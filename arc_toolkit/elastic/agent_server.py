"""The connections of the controller to its agents: who is there, what they say, and who is gone."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Iterator

from arc_toolkit.elastic.agent_link import AgentLink
from arc_toolkit.elastic.messages import LineConnection, Message

_LATE_SECONDS = 0.15
# A node that is silent for so long is lost. Agents speak twice a second; on a loaded machine all of them are late
# at once, and so is this loop: its own delays do not count.
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
            agent.seen = time.monotonic()
            for message in messages:
                yield agent, message
        now = time.monotonic()
        late, self._last_look = now - self._last_look, now
        if (
            late > seconds + _LATE_SECONDS
        ):  # this process was not running: the silence of others is not theirs
            for agent in self.links:
                agent.seen += late
        for agent in [item for item in self.links if now - item.seen > SILENCE_SECONDS]:
            yield from self._drop(agent, f"it was silent for {SILENCE_SECONDS:g} s")

    def _accept(self) -> None:
        sock, _ = self._server.accept()
        sock.settimeout(5.0)  # an agent that does not read must not stop everybody
        agent = AgentLink(LineConnection(sock), seen=time.monotonic())
        self._selector.register(sock, selectors.EVENT_READ, agent)

    def _drop(self, agent: AgentLink, why: str) -> Iterator[tuple[AgentLink, Message]]:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(agent.connection.sock)
        agent.connection.close()
        if agent in self.links:
            self.links.remove(agent)
            yield agent, {"type": "lost", "why": why}

    def tell_all(self, kind: str, /, **fields: object) -> None:
        for agent in self.links:
            agent.send(kind, **fields)

    def close(self) -> None:
        self.tell_all("leave")
        for agent in self.links:
            agent.connection.close()
        self._server.close()
