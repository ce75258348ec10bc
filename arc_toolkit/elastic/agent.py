"""The agent of a node: keeps standbys warm, starts and ends ranks, watches notices, reports.

The controller hears from it at least twice a second. If the connection breaks, the ranks go on and
the agent connects again: a controller that comes back finds the run as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import selectors
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arc_toolkit.checkpoints.rank_agreement import AGREED_VARIABLE
from arc_toolkit.elastic.agent_server import LineConnection, Message, ReservedPort, connect
from arc_toolkit.elastic.checkpoint_copies import CopyKeeper, CopyServer, copies_folder, get
from arc_toolkit.elastic.rank_placement import gpus_of
from arc_toolkit.elastic.ranks import RankProcess, Template
from arc_toolkit.notices.notice import EVICTED_EXIT_CODE, Notice, NoticeKind
from arc_toolkit.notices.run_log import run_line, utc
from arc_toolkit.notices.sources import cloud_source, find_cloud
from arc_toolkit.notices.sources.notice_file import NoticeFile
from arc_toolkit.notices.watcher import Watcher

if TYPE_CHECKING:
    from arc_toolkit.notices.sources import NoticeSource


_PREFIX = "arc-toolkit-agent-"
_LOCK = ".lock"
_YOUNG_SECONDS = 60.0  # its agent may be about to lock it


class AgentFolder:
    """Locked while its process lives, which others can see even from another PID namespace."""

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(root: Path) -> None:
    for path in root.glob(f"{_PREFIX}*"):
        # another user's, in use, or just removed by somebody else
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime < _YOUNG_SECONDS:
                continue
            handle = os.open(path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def node_sources(config: Message, node: str) -> list[NoticeSource]:
    """The metadata service of its cloud, and a file with its name, as the user asked for."""
    sources: list[NoticeSource] = []
    cloud = find_cloud() if config["cloud"] == "auto" else config["cloud"]
    if cloud not in (None, "none"):
        sources.append(cloud_source(cloud, config.get("metadata")))
    if config.get("notice_dir"):
        source = NoticeFile(os.path.join(config["notice_dir"], node))
        source.period = 0.2
        sources.append(source)
    return sources


BEAT_SECONDS = 0.5
UNKNOWN_SECONDS = 10.0  # after which a script that does not report its steps is taken to train
_TICK = 0.05
_RECONNECT_SECONDS = 60.0
_FETCHED = "fetched"  # a note to this agent itself


class ControllerGone(Exception):
    """The connection to the controller is broken."""


class ElasticAgent:
    """One node. `find_controller` gives the controller's address, which a restart may change."""

    def __init__(
        self,
        run: str,
        node: str,
        slots: int,
        find_controller: Callable[[], tuple[str, int]],
        folder: AgentFolder,
        gpus: Sequence[str] = (),
    ) -> None:
        self.node, self._slots, self._gpus = node, slots, list(gpus)
        self._find_controller, self._folder = find_controller, folder
        self._selector = selectors.DefaultSelector()
        self._processes: list[RankProcess] = []
        self._template: Template | None = None
        self._is_import_fatal = False
        self._notes: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()
        self._reserved = ReservedPort()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(
            self._wake, selectors.EVENT_READ, lambda: os.eventfd_read(self._wake)
        )
        self._connection: LineConnection | None = None
        self._config: Message = {}
        self._last_beat = 0.0
        self._steps: dict[str, tuple[int, ...]] = {}
        self._began: tuple[int, float] = (0, 0.0)  # the generation, and since when it runs
        self._is_busy = self._leaving = False
        # Only used without shared storage; they stay if the head is lost.
        self._checkpoints = copies_folder(run, node)
        self._copy_server: CopyServer | None = None
        self._keeper: CopyKeeper | None = None
        self._watcher: Watcher | None = None

    def run(self) -> None:
        """Until the controller says to leave, or is gone for good."""
        try:
            while not self._leaving:
                self._connect()
                with contextlib.suppress(ControllerGone):
                    self._serve()
        finally:
            for part in (self._watcher, self._keeper):
                if part is not None:
                    part.stop()
            if self._copy_server is not None:
                self._copy_server.close()
            for process in self._processes:
                process.kill()
            if self._template is not None:
                self._template.close()
            self._folder.remove()
            if self._leaving:
                shutil.rmtree(self._checkpoints, ignore_errors=True)

    # --- the controller ---------------------------------------------------------------------------

    def _connect(self) -> None:
        end = time.monotonic() + _RECONNECT_SECONDS
        while True:
            try:
                self._connection = connect(self._find_controller())
                break
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)
        address = self._connection.sock.getsockname()[0]
        if self._copy_server is None:
            self._copy_server = CopyServer(self._checkpoints, address)
        running = [
            {"rank": item.rank, "generation": item.generation, "size": item.size}
            for item in self._processes
            if item.rank is not None and item.code is None
        ]
        self._connection.send(
            "hello",
            node=self.node,
            slots=self._slots,
            address=address,
            running=running,
            warm=self._warm(),
            port=self._reserved.port,
            copies_port=self._copy_server.port,
            doomed=self._watcher is not None and self._watcher.pending(),
            deadline=self._watcher.deadline if self._watcher is not None else None,
        )
        self._selector.register(self._connection, selectors.EVENT_READ, self._read_controller)

    def _serve(self) -> None:
        assert self._connection is not None
        connection = self._connection
        try:
            while not self._leaving:
                for key, _ in self._selector.select(_TICK if self._is_busy else BEAT_SECONDS):
                    key.data()
                self._report()
        finally:
            self._selector.unregister(connection)
            connection.close()

    def _send(self, kind: str, /, **fields: Any) -> None:
        assert self._connection is not None
        try:
            self._connection.send(kind, **fields)
        except OSError as error:
            raise ControllerGone from error

    def _read_controller(self) -> None:
        assert self._connection is not None
        try:
            messages = self._connection.receive()
        except OSError as error:
            raise ControllerGone from error
        for message in messages:
            kind = message["type"]
            if kind == "welcome":
                self._begin(message)
            elif kind == "start":
                self._prepare(message)
            elif kind == "stop":
                notice = Notice(
                    NoticeKind(message["kind"]),
                    "elastic",
                    message["id"],
                    deadline=message["deadline"],
                    step=message["step"],
                    agreed=message["agreed"],
                )
                for process in self._ranks_of(message["generation"]):
                    if process.generation == message["generation"]:
                        process.stop(notice)
            elif kind == "kill":
                for process in self._ranks_of(message["generation"]):
                    process.kill()
            elif kind == "leave":
                self._leaving = True

    def _ranks_of(self, generation: int) -> list[RankProcess]:
        """The ranks of a generation, and what is left of older ones."""
        ranks = [item for item in self._processes if item.rank is not None and item.code is None]
        return [item for item in ranks if item.generation <= generation]

    def _begin(self, config: Message) -> None:
        self._config = config
        if self._watcher is None:
            self._watcher = Watcher(node_sources(config, self.node), report=self._note)
            self._watcher.on_notice(self._on_notice)
            self._watcher.start()
        if config["copies"] and self._keeper is None:
            self._keeper = CopyKeeper(self._checkpoints, tuple(config["copies"]), self._note)
        self._fill()

    def _note(self, text: str) -> None:
        self._put("note", text=text)

    def _put(self, kind: str, /, **fields: Any) -> None:
        """Something to be handled by the thread of this agent."""
        self._notes.put((kind, fields))
        os.eventfd_write(self._wake, 1)

    def _on_notice(self, notice: Notice) -> None:
        self._put(
            "notice",
            kind=notice.kind.value,
            deadline=notice.deadline,
            ends=notice.kind.ends_process,
        )
        deadline = utc(notice.deadline) if notice.deadline is not None else None
        if notice.kind.ends_process:
            _log("notice", kind=notice.kind.value, source=notice.source, deadline=deadline)

    # --- processes --------------------------------------------------------------------------------

    def _fill(self) -> None:
        """As many standbys as slots: after a stop every rank of the next generation needs one."""
        if self._template is None:
            modules = [] if self._is_import_fatal else self._config["modules"]
            folder = Path(self._config["working_dir"] or os.getcwd())
            self._template = Template(folder, modules, self._config["environment"])
            self._selector.register(self._template, selectors.EVENT_READ, self._read_template)
        standbys = sum(item.rank is None and item.code is None for item in self._processes)
        for _ in range(standbys, self._slots):
            try:
                process = self._template.start_standby()
            except OSError:
                return  # the template is gone, which its connection will tell
            self._processes.append(process)
            for handle, action in zip(
                process.handles, (self._answer, self._output, self._life), strict=True
            ):
                self._selector.register(handle, selectors.EVENT_READ, partial(action, process))

    def _read_template(self) -> None:
        template = self._template
        if template is None or template.receive():
            return
        self._selector.unregister(template)
        code, self._template = template.close(), None
        # An import that ends the process ends the rank as well, where everybody can see why.
        self._is_import_fatal = not template.is_warm
        self._note(f"the process of the imports ended with {code}; it is started again")

    def _warm(self) -> int:
        return sum(
            item.rank is None and item.is_ready and item.code is None for item in self._processes
        )

    def _prepare(self, message: Message) -> None:
        """Have the newest checkpoint here before the ranks start, without blocking reports."""
        name, head = message["checkpoint"], self._config["copies"]
        if self._keeper is not None:
            self._keeper.peer = tuple(message["peer"]) if message["peer"] else None
        if name is None or (self._checkpoints / name).is_dir():
            self._start_ranks(message)
            return

        def fetch() -> None:
            try:
                arrived = get(tuple(head), name, self._checkpoints)
            except (OSError, ValueError):
                arrived = False
            if arrived and self._keeper is not None:
                self._keeper.note_received(name)
            if not arrived:
                self._note(f"{name} could not be copied from the head")
            self._put(_FETCHED, **message)

        threading.Thread(target=fetch, name="fetch", daemon=True).start()

    def _start_ranks(self, message: Message) -> None:
        """Turn standbys into ranks: the warm ones first, and new ones if there are not enough."""
        generation = message["generation"]
        _log("start", node=os.uname().nodename, generation=generation, ranks=len(message["ranks"]))
        for process in self._ranks_of(generation - 1):  # nothing of an older generation goes on
            process.kill()
        self._reserved.release()
        self._reserved = ReservedPort()
        for job in message["ranks"]:
            standbys = [item for item in self._processes if item.rank is None and item.code is None]
            if not standbys:
                self._fill()
                standbys = [
                    item for item in self._processes if item.rank is None and item.code is None
                ]
            standbys.sort(key=lambda item: not item.is_ready)
            rank = job.pop("rank")
            if self._keeper is not None:
                for variable in ("ARC_TOOLKIT_CHECKPOINTS", "ADAPTDL_CHECKPOINT_PATH"):
                    job["environment"][variable] = str(self._checkpoints)
                job["environment"][AGREED_VARIABLE] = "1"  # every node has the same copy
            if self._gpus:
                rank_gpus = gpus_of(self._gpus, self._slots, int(job["environment"]["LOCAL_RANK"]))
                job["environment"]["CUDA_VISIBLE_DEVICES"] = ",".join(rank_gpus)
            try:
                standbys[0].run(generation, rank, job, self._folder.path)
            except OSError:
                self._send("exited", generation=generation, rank=rank, code=1, progress=None)
        self._send("warm", warm=self._warm(), port=self._reserved.port)

    def _answer(self, process: RankProcess) -> None:
        if process not in self._processes:
            return  # its end was handled in the same round
        for line in process.lines(process.answers) or ():
            message = json.loads(line) if line else {}
            if message.get("type") == "ready":
                process.is_ready = True
                self._send("warm", warm=self._warm(), port=self._reserved.port)
            elif message.get("type") == "exit":
                self._report_end(process, message["code"])

    def _output(self, process: RankProcess) -> None:
        if process not in self._processes:
            return
        for line in process.lines(process.output) or ():
            self._send_output(process, line)

    def _send_output(self, process: RankProcess, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        self._send("output", rank=process.rank, generation=process.generation, text=text)

    def _life(self, process: RankProcess) -> None:
        if process not in self._processes:
            return
        lines = process.lines(process.life)
        if lines is None:  # the template is gone, and nobody would tell of the end of this one
            process.kill()
            self._end(process, 128 + signal.SIGKILL)
        for line in lines or ():
            if process.pid is None:
                process.born(int(line))
            else:
                self._end(process, int(line))

    def _end(self, process: RankProcess, code: int) -> None:
        """The process is gone. Its output so far is read; its children may hold the pipe open."""
        self._answer(process)
        self._report_end(process, code)
        for handle in process.handles:
            self._selector.unregister(handle)
        process.close()
        self._processes.remove(process)

    def _report_end(self, process: RankProcess, code: int) -> None:
        if process.code is not None:
            return
        process.code = code
        if process.rank is not None:
            self._output(process)  # the run may end with what is reported below
            if remaining := process.buffers.pop(process.output, b""):
                self._send_output(process, remaining)
            is_evicted = (
                code == EVICTED_EXIT_CODE and self._watcher is not None and self._watcher.pending()
            )
            record = process.progress
            _log(
                "end",
                reason="evicted" if is_evicted else "ended",
                code=code,
                step=record.step if record is not None else None,
                saved=record.saved if record is not None and record.saved >= 0 else None,
            )
            fields = {"generation": process.generation, "rank": process.rank}
            self._send(
                "exited",
                **fields,
                code=code,
                progress=process.progress and process.progress.fields(),
            )

    # --- reports ----------------------------------------------------------------------------------

    def _report(self) -> None:
        while True:
            try:
                kind, fields = self._notes.get_nowait()
            except queue.Empty:
                break
            if kind == _FETCHED:
                self._start_ranks(fields)
            else:
                self._send(kind, **fields)
        ranks = [item for item in self._processes if item.rank is not None and item.code is None]
        generation = max((item.generation for item in ranks), default=0)
        records = {str(item.rank): item.progress for item in ranks if item.generation == generation}
        step_fields = {
            rank: record.fields() for rank, record in records.items() if record is not None
        }
        now = time.monotonic()
        if not ranks or generation != self._began[0]:
            self._began = generation, now
        is_young = now - self._began[1] < UNKNOWN_SECONDS
        # Every moment counts while ranks are to do their first step, or to stop. Otherwise looking
        # more often than reporting would only take processor time from them.
        was_busy = self._is_busy
        self._is_busy = any(item.is_asked_by for item in ranks) or (
            is_young and len(step_fields) < len(ranks)
        )
        if now - self._last_beat >= BEAT_SECONDS or (
            step_fields != self._steps and (was_busy or self._is_busy)
        ):
            self._steps, self._last_beat = step_fields, now
            pending = self._watcher is not None and self._watcher.pending()
            is_taking_part = any(item.takes_part for item in ranks)
            self._send(
                "beat",
                generation=generation,
                steps=step_fields,
                takes_part=is_taking_part,
                doomed=pending,
            )
        # Imports wait until the first step is done, or probably so.
        is_cheap = self._template is not None and self._template.forks
        if self._config and (is_cheap or not ranks or step_fields or not is_young):
            self._fill()


def _log(event: str, /, **fields: Any) -> None:
    """For the log of this node, which `diagnose` reads as it reads that of `arc-toolkit run`."""
    with contextlib.suppress(OSError):
        sys.stderr.write(run_line(event, **fields) + "\n")
