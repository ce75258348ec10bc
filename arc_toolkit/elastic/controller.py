"""The controller of an elastic run: it decides on generations of ranks, whatever nodes do.

A generation is one set of ranks from start to stop. A notice, a lost node, a crashed rank or new
capacity ends it; the next one starts from the newest checkpoint on the nodes that stay. Every wait
has a limit and an event.
"""

from __future__ import annotations

import queue
import time
from pathlib import Path
from typing import Any

from arc_toolkit.elastic.agent import UNKNOWN_SECONDS
from arc_toolkit.elastic.agent_server import AgentLink, AgentServer, ClusterPort, Message
from arc_toolkit.elastic.checkpoint_copies import CopyServer, copies_folder, newest
from arc_toolkit.elastic.generation import Agreement, FailureBudget, Generation, StopRequest
from arc_toolkit.elastic.rank_placement import Placement, place_ranks
from arc_toolkit.elastic.run_config import RunConfig, newest_saved_step, rank_job
from arc_toolkit.elastic.throughput import MEASURE_SECONDS, Throughput, size_that_pays
from arc_toolkit.elastic.timeline import OutputLog, Timeline
from arc_toolkit.notices.notice import EVICTED_EXIT_CODE
from arc_toolkit.notices.sources.notice_file import ProgressRecord

_TICK = 0.05
_CALM_TICK = 0.2
_REGRET_SECONDS = 2 * MEASURE_SECONDS  # of workers that do not pay
_JOIN_SECONDS = 1.5  # after the last agent that came, for others of the first start
_SAY_SECONDS = 10.0  # before it is said that the run waits for workers
_ADOPT_SECONDS = 5.0  # for all agents to find a controller that came back


def _number(step: int | None) -> int:
    return -1 if step is None else step


class Controller:
    """One run. `serve` returns its exit code."""

    def __init__(
        self,
        config: RunConfig,
        cluster: ClusterPort,
        *,
        host: str = "127.0.0.1",
        history: Path | None = None,
        is_restarted: bool = False,
    ) -> None:
        self.config = config
        self.timeline = Timeline(config.name, path=history)
        if is_restarted:
            self.timeline.restore()
        self._cluster = cluster
        # Without shared storage every checkpoint is copied to a folder here.
        self._copies = copies_folder(config.name, "head") if not config.checkpoints else None
        self._copy_server = CopyServer(self._copies, host) if self._copies is not None else None
        self._agents = AgentServer(host)
        self.address = self._agents.address
        self._number = self.timeline.last_generation
        self._generation: Generation | None = None
        self._failures = FailureBudget(config.max_failures, self.timeline)
        # Ranks may have gone on while no controller was there.
        self._is_restarted = is_restarted
        self._adopted: dict[int, str] = {}
        self.throughput = Throughput()
        self._saved_step: int | None = None
        self._waiting_since: float = time.monotonic()
        self._say_at = self._waiting_since + min(_SAY_SECONDS, config.rescale_timeout)
        self._last_join = self._last_poll = 0.0
        self._code: int | None = None
        self._outcome = "running"
        self.output = OutputLog()
        self._is_cancelled = False
        self._notes: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    @property
    def placement(self) -> Placement | None:
        """Where ranks run now."""
        return self._generation.placement if self._generation is not None else None

    def state(self) -> dict[str, Any]:
        """For the status line."""
        generation, size = (
            self._generation,
            self._generation.size if self._generation is not None else 0,
        )
        return {
            "workers": size,
            "nodes": len(self._agents.links),
            "doomed": sum(agent.has_notice for agent in self._agents.links),
            "step": generation.step if generation is not None else None,
            "steps_per_second": self.throughput.steps_per_second or None,
            "throughput": self.throughput.rates.get(size),
            "throughput_unit": self.throughput.unit,
            "checkpoint": self.newest_step(),
            "stopping": generation.stop.reason
            if generation is not None and generation.stop is not None
            else "",
        }

    def summary(self) -> dict[str, Any]:
        return self.timeline.summary(
            self._outcome, self._code or 0, self.throughput.rates, self.throughput.unit
        )

    def newest_step(self) -> int | None:
        """Of the checkpoints that can be seen from here."""
        if self._copies is not None:
            checkpoint = newest(self._copies)
            return checkpoint.step if checkpoint is not None else None
        return (
            self._saved_step
            if "://" in self.config.checkpoints
            else newest_saved_step(self.config.checkpoints)
        )

    def cancel(self) -> None:
        """End the run after a save; from any thread."""
        self._is_cancelled = True

    def note(self, node: str, text: str) -> None:
        """Something that the user should know; from any thread."""
        self._notes.put((node, text))

    # --- the loop ---------------------------------------------------------------------------------

    def serve(self) -> int:
        """Until the run has ended."""
        try:
            while self._code is None:
                generation = self._generation
                is_calm = generation is not None and generation.stop is None
                for agent, message in self._agents.receive(_CALM_TICK if is_calm else _TICK):
                    self._handle(agent, message)
                self._tick()
            return self._code
        finally:
            self._agents.close()
            if self._copy_server is not None:
                self._copy_server.close()

    def _handle(self, agent: AgentLink, message: Message) -> None:
        kind = message["type"]
        if kind == "hello":
            self._welcome(agent, message)
        elif kind == "beat":
            self._beat(agent, message)
        elif kind == "warm":
            agent.warm, agent.port = message["warm"], message["port"]
        elif kind == "lost":
            self._lose_node(agent, message["why"])
        elif kind == "exited":
            self._note_exit(message)
        elif kind == "notice":
            self._notice(agent, message)
        elif kind == "output":
            self.output.add(message["rank"], message["text"])
        elif kind == "note":
            self.timeline.add("note", node=agent.node, text=message["text"])

    def _tick(self) -> None:
        now = time.monotonic()
        while not self._notes.empty():
            node, text = self._notes.get()
            self.timeline.add("note", node=node, text=text)
        if now - self._last_poll >= 1.0:
            self._last_poll = now
            connected = [agent.node for agent in self._agents.links]
            self._cluster.poll(self.address, connected, self._workers_that_pay())
        generation = self._generation
        if self._is_cancelled and (generation is None or generation.stop is None):
            if generation is None:
                self._finish("cancelled", EVICTED_EXIT_CODE)
            else:
                self._stop(generation, "cancelled", None)
        elif generation is None:
            if self._failures.is_settled(now):
                self._start_if_possible(now)
        elif generation.stop is not None:
            self._end_if_stopped(generation, generation.stop, now)
        else:
            self._change_if_needed(generation, now)

    def _workers_that_pay(self) -> int:
        """At most. Before the first start nothing is known, and all that are there are used."""
        rates, size = self.throughput.rates, self.throughput.size or self.config.most
        return max(
            size_that_pays(rates, size, self.config.most, self.config.threshold), self.config.least
        )

    # --- agents -----------------------------------------------------------------------------------

    def _welcome(self, agent: AgentLink, message: Message) -> None:
        agent.introduce(message)
        self._agents.links.append(agent)
        self._last_join = time.monotonic()
        copies = (
            [self.address[0], self._copy_server.port] if self._copy_server is not None else None
        )
        agent.send("welcome", **self.config.agent_fields(), copies=copies)
        self.timeline.add("joined", node=agent.node, slots=agent.slots)
        for row in message["running"]:
            if self._generation is None:
                self._adopt(agent, row["generation"], row["rank"], row["size"])
            elif row["generation"] != self._number:
                agent.send("kill", generation=row["generation"])  # the run went on without it

    def _adopt(self, agent: AgentLink, number: int, rank: int, size: int) -> None:
        """A restarted controller finds running ranks: they are its generation once all are seen."""
        if number < self._number:
            return
        if number > self._number:
            self._number, self._adopted = number, {}
        self._adopted[rank] = agent.node
        self._waiting_since = time.monotonic()
        if len(self._adopted) == size:
            placement = Placement(tuple(self._adopted[number] for number in range(size)))
            self._generation, self._is_restarted = (
                Generation(number, placement, time.monotonic()),
                False,
            )
            self.throughput.begin(size)
            self.timeline.add("adopted", generation=number, workers=size)

    def _lose_node(self, agent: AgentLink, reason: str) -> None:
        self.timeline.add("lost", node=agent.node, why=reason)
        self._failures.note_loss(agent.node, time.monotonic())
        generation = self._generation
        if (
            generation is None
            or not generation.placement.ranks_of(agent.node)
            or generation.has_left(agent.node)
        ):
            return
        self.timeline.evict(agent.node)
        self._break(generation, "lost node")

    def _beat(self, agent: AgentLink, message: Message) -> None:
        if agent.has_notice and not message["doomed"]:
            self.timeline.withdraw(agent.node)
        agent.has_notice, generation = message["doomed"], self._generation
        if generation is None or message["generation"] != generation.number:
            return
        generation.takes_part |= message["takes_part"]
        node_ranks = set(generation.placement.ranks_of(agent.node))
        for rank, fields in message["steps"].items():
            if int(rank) in node_ranks:
                self._progress(generation, int(rank), ProgressRecord(*fields))

    def _progress(self, generation: Generation, rank: int, record: ProgressRecord) -> None:
        before, generation.progress[rank] = generation.progress.get(rank), record
        self.throughput.update(generation.progress, time.monotonic())
        if rank != 0:
            return
        if record.saved >= 0:
            self._saved_step = record.saved
        if before is None or before.step != record.step:
            self.timeline.progress(record.step, record.first)

    def _notice(self, agent: AgentLink, message: Message) -> None:
        self.timeline.add(
            "notice", node=agent.node, kind=message["kind"], deadline=message["deadline"]
        )
        if message["ends"]:
            agent.has_notice, agent.deadline = True, message["deadline"]
            self._cluster.drain(agent.node, message["deadline"])

    # --- generations ------------------------------------------------------------------------------

    def _start_if_possible(self, now: float) -> None:
        """With all warm standbys, and without waiting for more nodes than there are."""
        if self._failures.exit_code is not None:
            self._finish("failed", self._failures.exit_code)
            return
        capacities, most = (
            [agent.capacity for agent in self._agents.links],
            self._workers_that_pay(),
        )
        ready = place_ranks(capacities, most, warm_only=True)
        possible = place_ranks(capacities, most, warm_only=False)
        waited = now - self._waiting_since
        if (self._adopted or self._is_restarted) and waited < _ADOPT_SECONDS:
            return
        is_first = self._number == 0
        if is_first and possible.size < self.config.most and now - self._last_join < _JOIN_SECONDS:
            return  # agents join one after the other; a start with few would soon be stopped
        # The first start waits for standbys of all nodes; later ones go on with the warm ones.
        enough = possible.size if is_first and waited <= self.config.rescale_timeout else 1
        if ready.size >= max(self.config.least, enough):
            self._start(ready)
        elif now > self._say_at:
            self.timeline.add("waiting", workers=ready.size, least=self.config.least)
            self._say_at = now + self.config.rescale_timeout

    def _start(self, placement: Placement) -> None:
        if self._is_restarted or self._adopted:
            self.timeline.stall("lost controller")
        self._is_restarted, self._adopted = False, {}
        self._agents.tell_all("kill", generation=self._number)
        self._number += 1
        self._generation = Generation(self._number, placement, time.monotonic())
        self.throughput.begin(placement.size)
        links = {agent.node: agent for agent in self._agents.links}
        first = links[placement.nodes[0]]
        checkpoint = newest(self._copies) if self._copies is not None else None
        for node in dict.fromkeys(placement.nodes):
            ranks = placement.ranks_of(node)
            master = (first.address, first.port)
            jobs = [
                rank_job(self.config, placement, rank, master, self._number - 1) for rank in ranks
            ]
            links[node].warm = max(0, links[node].warm - len(ranks))
            peers = [
                item for item in self._agents.links if item.node != node and not item.has_notice
            ]
            links[node].send(
                "start",
                generation=self._number,
                ranks=jobs,
                checkpoint=checkpoint.folder.name if checkpoint is not None else None,
                peer=[peers[0].address, peers[0].copies_port] if peers else None,
            )
        self.timeline.run()
        self.timeline.add(
            "start",
            generation=self._number,
            workers=placement.size,
            nodes=len(set(placement.nodes)),
        )

    def _change_if_needed(self, generation: Generation, now: float) -> None:
        """Leave nodes that are to go; otherwise grow if that pays."""
        doomed = [
            item
            for item in self._agents.links
            if item.has_notice and generation.placement.ranks_of(item.node)
        ]
        if doomed:
            for agent in doomed:
                self.timeline.evict(agent.node)
            deadlines = [agent.deadline for agent in doomed if agent.deadline is not None]
            seconds_left = max(0.0, min(deadlines) - time.time()) if deadlines else None
            self._stop(generation, "eviction", seconds_left)
            return
        capacities = [agent.capacity for agent in self._agents.links]
        # A standby must be warm on every node of the next generation, not only on the new one.
        warm = place_ranks(capacities, self.config.most, warm_only=True).size
        if (
            not generation.is_ready
            and warm == place_ranks(capacities, self.config.most, warm_only=False).size
        ):
            generation.is_ready = True
            self.timeline.add("ready", standbys=warm)
        size, pay, measured = (
            generation.size,
            self._workers_that_pay(),
            self.throughput.measured_seconds,
        )
        is_unknown = not generation.takes_part and now - generation.began >= UNKNOWN_SECONDS
        if min(warm, pay) > size and (measured >= MEASURE_SECONDS or is_unknown):
            self._stop(generation, "growing", None)
        elif pay < size and measured >= _REGRET_SECONDS:
            self._stop(generation, "shrinking", None)

    def _stop(self, generation: Generation, reason: str, seconds_left: float | None) -> None:
        """Ask all ranks to stop after the same step."""
        limit = (
            self.config.checkpoint_timeout
            if seconds_left is None
            else min(seconds_left, self.config.checkpoint_timeout)
        )
        until = time.monotonic() + limit
        agreement = Agreement(generation.progress.values(), self.throughput.steps_per_second)
        generation.stop = StopRequest(reason, until, until, time.time() + limit, agreement)
        self.timeline.add("stopping", reason=reason)
        self._send_stop(generation, generation.stop)

    def _send_stop(self, generation: Generation, stop: StopRequest) -> None:
        self._agents.tell_all(
            "stop",
            generation=generation.number,
            id=f"{stop.reason}-{generation.number}",
            kind="preempt" if stop.reason == "eviction" else "stop",
            deadline=stop.deadline,
            step=stop.agreement.step,
            agreed=stop.agreement.is_final,
        )

    def _note_exit(self, message: Message) -> None:
        generation = self._generation
        if generation is None or message["generation"] != generation.number:
            return
        now, rank, code = time.monotonic(), message["rank"], message["code"]
        if message["progress"] is not None:
            self._progress(generation, rank, ProgressRecord(*message["progress"]))
        generation.note_exit(rank, code, now)
        if generation.is_done:
            self._finish("finished", 0)
        elif code != 0 and generation.stop is None:
            # A rank ended without a request: a bug, or the node of its peer is being lost.
            self._break(generation, "failure", (rank, code))

    def _break(
        self, generation: Generation, cause: str, failure: tuple[int, int] | None = None
    ) -> None:
        self._failures.broke(generation.placement.nodes, time.monotonic(), failure)
        self._abort(generation, cause)

    def _end_if_stopped(self, generation: Generation, stop: StopRequest, now: float) -> None:
        if stop.agreement.update(
            generation.progress, generation.running, self.throughput.steps_per_second
        ):
            self._send_stop(generation, stop)
        is_saved, record = 0 in generation.exits, generation.progress.get(0)
        is_there = any(agent.node == generation.placement.nodes[0] for agent in self._agents.links)
        is_copying = is_saved and is_there and self._copies is not None and now < stop.copy_until
        if is_copying and record is not None and record.saved > _number(self.newest_step()):
            return  # the node may be gone soon, and with it the only copy
        if not generation.running or (is_saved and now > stop.until):
            if generation.running and not generation.takes_part:
                self.timeline.add(
                    "timeout", what=f"ranks did not end in time: {generation.running}"
                )
            self._abort(generation, stop.reason)
        elif now > stop.until and not is_saved and generation.exits and now < stop.copy_until:
            stop.until = stop.copy_until  # the first rank is still saving
        elif now > stop.until:
            step, problem = self.newest_step(), "no checkpoint in time"
            resume_point = "from the start" if step is None else f"from step {step}"
            if not generation.takes_part:  # it has its own way to save
                problem, resume_point = (
                    f"ranks did not end in time: {generation.running}",
                    "from what the script has saved",
                )
            self.timeline.add("timeout", what=problem, resumes=resume_point)
            self._abort(generation, stop.reason)

    def _abort(self, generation: Generation, cause: str) -> None:
        """End the rest of this generation; the next one starts with the available standbys."""
        # a notice may have come while it was stopping for another reason
        for agent in self._agents.links:
            if agent.has_notice and generation.placement.ranks_of(agent.node):
                self.timeline.evict(agent.node)
        self.timeline.stall(cause)
        self._agents.tell_all("kill", generation=generation.number)
        if cause == "cancelled":
            self._finish("cancelled", EVICTED_EXIT_CODE)
        self._generation, self._waiting_since = None, time.monotonic()
        self._say_at = self._waiting_since + min(_SAY_SECONDS, self.config.rescale_timeout)

    def _finish(self, outcome: str, code: int) -> None:
        self.timeline.add("end", outcome=outcome, code=code)
        self._code, self._outcome = code, outcome
