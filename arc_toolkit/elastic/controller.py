"""The controller of an elastic run: it decides on generations of ranks, and keeps going whatever happens to nodes.

A generation is one set of ranks from start to stop. A notice, a lost node, a crashed rank or new capacity ends it; the
next one starts from the newest checkpoint on the nodes that stay. Every wait has a limit and an event.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from dataclasses import dataclass
from typing import Any, Protocol

from arc_toolkit.elastic.copies import CopyServer, copies_folder, newest
from arc_toolkit.elastic.messages import LineConnection, Message
from arc_toolkit.elastic.run_config import RunConfig, newest_saved_step, rank_job
from arc_toolkit.elastic.timeline import Timeline
from arc_toolkit.elastic.worlds import Capacity, Placement, place_ranks, stop_step, worth_growing

EVICTED = 143
_TICK = 0.05
# A node that is silent for so long is lost. Agents speak four times a second; on a loaded machine all of them are late
# at once, and so is this loop: its own delays do not count.
_SILENCE_SECONDS = 3.0
_SETTLE_SECONDS = 0.3  # ranks that stop at the same step end within this time of the first one
_RATE_SECONDS = 5.0
_SETTLE_TO_GROW_SECONDS = 2.0
_JOIN_SECONDS = 1.5  # after the last agent that came, for others of the first start
_PEER_SECONDS = 0.5  # between the error of a rank and the closed connection of the node that its peer was on
_ADOPT_SECONDS = 5.0  # for all agents to find a controller that came back


class ClusterPort(Protocol):
    """What the controller asks of the cluster; see `ray_cluster.py`."""

    def poll(self, address: tuple[str, int]) -> None:
        """Start agents on nodes that have none. Called about once a second, and must not wait."""

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
    seen: float = 0.0
    doomed: bool = False


class Controller:
    """One run. `serve` returns its exit code."""

    def __init__(
        self,
        config: RunConfig,
        cluster: ClusterPort,
        *,
        host: str = "127.0.0.1",
        is_restarted: bool = False,
    ) -> None:
        self.config = config
        self.timeline = Timeline(config.name)
        self._cluster = cluster
        # Without shared storage every checkpoint is copied to a folder here.
        self._copies = copies_folder(config.name, "head") if not config.checkpoints else None
        self._copy_server = CopyServer(self._copies, host) if self._copies is not None else None
        self._server = socket.create_server((host, 0), backlog=64)
        self.address: tuple[str, int] = (host, self._server.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._agents: list[AgentLink] = []
        self._generation = 0
        self._placement: Placement | None = None
        # Ranks may have gone on while no controller was there.
        self._is_restarted = is_restarted
        self._adopted: dict[int, str] = {}
        self._exits: dict[int, int] = {}
        self._steps: dict[int, int] = {}
        self._rate_from: tuple[float, int] | None = None
        self._rates: dict[int, float] = {}
        self._stop_reason = ""
        self._stop_at = self._copy_until = 0.0
        self._waiting_since: float | None = time.monotonic()
        self._last_join = 0.0
        self._failed_rank: tuple[int, int, float] | None = None
        self._failed_on: set[str] = set()
        self._code: int | None = None
        self._last_tick = time.monotonic()
        self._last_poll = 0.0
        self.output: list[tuple[int | None, str]] = []
        self._is_cancelled = False

    def state(self) -> dict[str, Any]:
        """For the status line."""
        rate = self._rates.get(self._placement.size) if self._placement is not None else None
        return {
            "workers": self._placement.size if self._placement is not None else 0,
            "nodes": len(self._agents),
            "doomed": sum(agent.doomed for agent in self._agents),
            "step": self._steps.get(0),
            "steps_per_second": rate / self._placement.size if rate and self._placement else None,
            "checkpoint": self.newest_step(),
            "stopping": self._stop_reason,
        }

    def newest_step(self) -> int | None:
        """Of the checkpoints that can be seen from here."""
        if self._copies is not None:
            checkpoint = newest(self._copies)
            return checkpoint.step if checkpoint is not None else None
        return newest_saved_step(self.config.checkpoints)

    def cancel(self) -> None:
        """End the run after a save; from any thread."""
        self._is_cancelled = True

    # --- the loop ------------------------------------------------------------------------------------------

    def serve(self) -> int:
        """Until the run has ended."""
        self._selector.register(self._server, selectors.EVENT_READ, None)
        try:
            while self._code is None:
                for key, _ in self._selector.select(_TICK):
                    if key.data is None:
                        self._accept()
                    else:
                        self._read(key.data)
                self._tick()
            return self._code
        finally:
            for agent in self._agents:
                with contextlib.suppress(OSError):
                    agent.connection.send("leave")
                    agent.connection.close()
            self._server.close()
            if self._copy_server is not None:
                self._copy_server.close()

    def _accept(self) -> None:
        sock, _ = self._server.accept()
        sock.settimeout(5.0)  # an agent that does not read must not stop everybody
        agent = AgentLink(LineConnection(sock), seen=time.monotonic())
        self._selector.register(sock, selectors.EVENT_READ, agent)

    def _read(self, agent: AgentLink) -> None:
        try:
            messages = agent.connection.receive()
        except (OSError, ValueError):
            self._lost(agent, "its connection was closed")
            return
        agent.seen = time.monotonic()
        for message in messages:
            self._handle(agent, message)

    def _handle(self, agent: AgentLink, message: Message) -> None:
        kind = message["type"]
        if kind == "hello":
            self._welcome(agent, message)
        elif kind == "beat":
            self._beat(agent, message)
        elif kind == "warm":
            agent.warm, agent.port = message["warm"], message["port"]
        elif kind == "exited":
            self._exited(message)
        elif kind == "notice":
            self._notice(agent, message)
        elif kind == "output":
            self.output.append((message["rank"], message["text"]))
        elif kind == "note":
            self.timeline.add("note", node=agent.node, text=message["text"])

    def _tick(self) -> None:
        now = time.monotonic()
        late = now - self._last_tick
        self._last_tick = now
        if late > 4 * _TICK:  # this process was not running: the silence of others is not theirs
            for agent in self._agents:
                agent.seen += late
        for agent in [item for item in self._agents if now - item.seen > _SILENCE_SECONDS]:
            self._lost(agent, f"it was silent for {_SILENCE_SECONDS:.0f} s")
        if now - self._last_poll >= 1.0:
            self._last_poll = now
            self._cluster.poll(self.address)
        if self._is_cancelled and self._stop_reason != "cancelled":
            if self._placement is None:
                self._finish("cancelled", EVICTED)
            else:
                self._stop_reason = ""
                self._stop("cancelled", None)
        elif self._failed_rank is not None:
            self._count_failure(now)
        elif self._placement is None:
            self._start_if_possible(now)
        elif self._stop_reason:
            self._end_generation_if_stopped(now)
        else:
            self._grow_if_worth(now)

    # --- agents --------------------------------------------------------------------------------------------

    def _welcome(self, agent: AgentLink, message: Message) -> None:
        agent.node, agent.slots, agent.warm = message["node"], message["slots"], message["warm"]
        agent.address, agent.port = message["address"], message["port"]
        agent.copies_port, agent.doomed = message["copies_port"], message["doomed"]
        self._agents.append(agent)
        self._last_join = time.monotonic()
        self._send(
            agent,
            "welcome",
            working_dir=self.config.working_dir,
            modules=self.config.modules,
            environment=self.config.environment,
            cloud=self.config.cloud,
            metadata=self.config.metadata,
            notice_dir=self.config.notice_dir,
            copies=[self.address[0], self._copy_server.port] if self._copy_server is not None else None,
        )
        self.timeline.add("joined", node=agent.node, slots=agent.slots)
        for row in message["running"]:
            if self._placement is None:
                self._adopt(agent, row["generation"], row["rank"], row["size"])
            elif row["generation"] != self._generation:
                self._send(agent, "kill", generation=row["generation"])  # the run went on without it

    def _adopt(self, agent: AgentLink, generation: int, rank: int, size: int) -> None:
        """A controller that comes back finds ranks that went on: they are its generation once all have been seen."""
        if generation < self._generation:
            return
        if generation > self._generation:
            self._generation, self._adopted = generation, {}
        self._adopted[rank] = agent.node
        self._waiting_since = time.monotonic()
        if len(self._adopted) == size:
            self._placement = Placement(tuple(self._adopted[number] for number in range(size)))
            self._waiting_since = None
            self.timeline.add("adopted", generation=generation, workers=size)

    def _lost(self, agent: AgentLink, why: str) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(agent.connection.sock)
        agent.connection.close()
        if agent not in self._agents:
            return
        self._agents.remove(agent)
        self.timeline.add("lost", node=agent.node, why=why)
        if self._failed_rank is not None and agent.node in self._failed_on:
            self._lost_with_ranks()  # the error of a rank was the loss of its peer
            return
        if self._placement is None or not self._placement.ranks_of(agent.node):
            return
        if self._stop_reason and set(self._placement.ranks_of(agent.node)) <= set(self._exits):
            return  # it was to go, and its ranks had stopped
        self._lost_with_ranks()

    def _lost_with_ranks(self) -> None:
        self.timeline.evictions += 1
        self._failed_rank = None
        self._abort("lost node")

    def _beat(self, agent: AgentLink, message: Message) -> None:
        if agent.doomed and not message["doomed"]:
            self.timeline.add("withdrawn", node=agent.node)
        agent.doomed = message["doomed"]
        if self._placement is None:
            return
        own = set(self._placement.ranks_of(agent.node))
        for rank, (step, first) in message["steps"].items():
            if int(rank) in own:
                self._step(int(rank), step, first)

    def _step(self, rank: int, step: int, first: int) -> None:
        before, self._steps[rank] = self._steps.get(rank), step
        if rank != 0 or step == before:
            return
        self.timeline.progress(step, first)
        now = time.monotonic()
        if self._rate_from is None:
            self._rate_from = now, step
        elif now - self._rate_from[0] > _RATE_SECONDS and self._placement is not None:
            since, first = self._rate_from
            self._rates[self._placement.size] = (step - first) / (now - since) * self._placement.size

    def _notice(self, agent: AgentLink, message: Message) -> None:
        self.timeline.add("notice", node=agent.node, kind=message["kind"], deadline=message["deadline"])
        if not message["ends"]:
            return
        agent.doomed = True
        self._cluster.drain(agent.node, message["deadline"])
        if self._placement is not None and self._placement.ranks_of(agent.node):
            self.timeline.evictions += 1
            left = None if message["deadline"] is None else max(0.0, message["deadline"] - time.time())
            self._stop("eviction", left)

    # --- generations ---------------------------------------------------------------------------------------

    def _capacities(self) -> list[Capacity]:
        return [Capacity(item.node, item.slots, item.warm, item.doomed) for item in self._agents]

    def _start_if_possible(self, now: float) -> None:
        """With all warm standbys, and without waiting for more nodes than there are."""
        if self._waiting_since is None:
            self._waiting_since = now
        ready = place_ranks(self._capacities(), self.config.most, warm_only=True)
        possible = place_ranks(self._capacities(), self.config.most, warm_only=False)
        waited = now - self._waiting_since
        if (self._adopted or self._is_restarted) and waited < _ADOPT_SECONDS:
            return
        is_first = self._generation == 0
        if is_first and possible.size < self.config.most and now - self._last_join < _JOIN_SECONDS:
            return  # agents of a cluster come one after the other; a start with one of them would soon be stopped
        # The first start waits for standbys of the nodes that are there; later ones go on with those that are warm.
        is_enough = ready.size >= max(self.config.least, possible.size if is_first else 1)
        if not is_enough and waited > self.config.rescale_timeout:
            is_enough = ready.size >= self.config.least
            if not is_enough and ready.size:
                self.timeline.add("waiting", workers=ready.size, least=self.config.least)
                self._waiting_since = now
        if is_enough:
            self._start(ready)
        elif waited > self.config.rescale_timeout and not ready.size:
            self.timeline.add("waiting", workers=0, least=self.config.least)
            self._waiting_since = now

    def _start(self, placement: Placement) -> None:
        self._generation += 1
        self._placement, self._exits, self._steps, self._adopted = placement, {}, {}, {}
        self._is_restarted = False
        self._stop_reason, self._rate_from, self._waiting_since = "", None, None
        links = {agent.node: agent for agent in self._agents}
        first = links[placement.nodes[0]]
        checkpoint = newest(self._copies) if self._copies is not None else None
        for node in dict.fromkeys(placement.nodes):
            ranks = placement.ranks_of(node)
            master = (first.address, first.port)
            jobs = [rank_job(self.config, placement, rank, master, self._generation - 1) for rank in ranks]
            links[node].warm = max(0, links[node].warm - len(ranks))
            peers = [item for item in self._agents if item.node != node and not item.doomed]
            self._send(
                links[node],
                "start",
                generation=self._generation,
                ranks=jobs,
                checkpoint=checkpoint.folder.name if checkpoint is not None else None,
                peer=[peers[0].address, peers[0].copies_port] if peers else None,
            )
        self.timeline.add(
            "start", generation=self._generation, workers=placement.size, nodes=len(set(placement.nodes))
        )

    def _stop(self, reason: str, left: float | None) -> None:
        """Ask all ranks to stop after the same step. Nothing is asked twice."""
        if self._stop_reason or self._placement is None:
            return
        self._stop_reason = reason
        limit = self.config.checkpoint_timeout if left is None else min(left, self.config.checkpoint_timeout)
        self._stop_at = self._copy_until = time.monotonic() + limit
        rate = self._rates.get(self._placement.size, 0.0) / self._placement.size
        if self._rate_from is not None and not rate:
            passed = time.monotonic() - self._rate_from[0]
            rate = (self._steps.get(0, 0) - self._rate_from[1]) / passed if passed > 0 else 0.0
        step = stop_step(list(self._steps.values()), rate) if self._steps else None
        for agent in self._agents:
            self._send(
                agent,
                "stop",
                generation=self._generation,
                id=f"{reason}-{self._generation}",
                kind="preempt" if reason == "eviction" else "stop",
                deadline=time.time() + limit,
                step=step,
            )
        self.timeline.add("stopping", reason=reason, step=step)

    def _exited(self, message: Message) -> None:
        if self._placement is None or message["generation"] != self._generation:
            return
        rank, code = message["rank"], message["code"]
        if message["progress"] is not None:
            self._step(rank, *message["progress"])
        if not self._exits:
            self._stop_at = min(self._stop_at, time.monotonic() + _SETTLE_SECONDS) if self._stop_reason else 0.0
        self._exits[rank] = code
        if code == 0:
            if len(self._exits) == self._placement.size and not any(self._exits.values()):
                self._finish("finished", 0)
        elif not self._stop_reason:
            # Without a request a rank has ended. A bug, or its peer is on a node that is being lost: that shows soon.
            self._failed_rank, self._failed_on = (rank, code, time.monotonic()), set(self._placement.nodes)
            self._abort("failure")

    def _count_failure(self, now: float) -> None:
        assert self._failed_rank is not None
        rank, code, since = self._failed_rank
        if now - since < _PEER_SECONDS:
            return
        self._failed_rank = None
        self.timeline.failures += 1
        self.timeline.add("failed", rank=rank, code=code)
        if self.timeline.failures > self.config.max_failures:
            self._finish("failed", code)

    def _end_generation_if_stopped(self, now: float) -> None:
        assert self._placement is not None
        is_saved = 0 in self._exits
        may_wait = is_saved and self._copies is not None and now < self._copy_until
        if may_wait and (self.newest_step() or -1) < self._steps.get(0, -1):
            return  # the node may be gone soon, and with it the only copy
        if len(self._exits) == self._placement.size or (is_saved and now > self._stop_at):
            self._abort(self._stop_reason)
        elif now > self._stop_at and not is_saved and self._exits:
            self._stop_at = now + self.config.checkpoint_timeout  # rank 0 is still saving
        elif now > self._stop_at:
            step = self.newest_step()
            where = "from the start" if step is None else f"from step {step}"
            self.timeline.add("timeout", what="no checkpoint in time", resumes=where)
            self._abort(self._stop_reason)

    def _abort(self, cause: str) -> None:
        """End what is left of this generation; the next one starts with the standbys that are there."""
        self.timeline.stall(cause)
        for agent in self._agents:
            self._send(agent, "kill", generation=self._generation)
        if cause == "cancelled":
            self._finish("cancelled", EVICTED)
        self._placement, self._stop_reason = None, ""
        self._waiting_since = time.monotonic()

    def _grow_if_worth(self, now: float) -> None:
        assert self._placement is not None
        size = self._placement.size
        if size >= self.config.most or self._steps.get(0) is None or self._rate_from is None:
            return
        # A standby must be warm on every node of the next generation, not only on the new one.
        wanted = place_ranks(self._capacities(), self.config.most, warm_only=True).size
        is_settled = now - self._rate_from[0] > _SETTLE_TO_GROW_SECONDS
        if is_settled and worth_growing(self._rates, size, wanted, threshold=self.config.threshold):
            self._stop("growing", None)

    def _finish(self, outcome: str, code: int) -> None:
        self.timeline.add("end", outcome=outcome, code=code)
        self._code = code

    def _send(self, agent: AgentLink, kind: str, /, **fields: Any) -> None:
        try:
            agent.connection.send(kind, **fields)
        except OSError:
            agent.seen = -_SILENCE_SECONDS  # found by the next tick
