"""Elastic runs on Ray: a detached controller on the head node, one agent per node."""

from __future__ import annotations

import math
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from arc_toolkit import ray_connection
from arc_toolkit.elastic.agent import AgentFolder, ElasticAgent
from arc_toolkit.elastic.checkpoint_copies import copies_folder
from arc_toolkit.elastic.controller import Controller
from arc_toolkit.elastic.run_config import RunConfig
from arc_toolkit.errors import ArcError

NAMESPACE = "arc-toolkit"
# Ray has this for systems without clusters: it binds to loopback, not to all interfaces.
_ONLY_LOCAL = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_PATIENCE_SECONDS = 180.0  # for a controller that does not answer: Ray may be starting it again
_ANSWER_SECONDS = 10.0
_LOOK_SECONDS = 0.2  # of the controller, for news
_PAUSE_SECONDS = 0.3  # of the client, between two of them
_CONNECT_TRIES = 3
_ASK_SECONDS = 30.0
_TRY_SECONDS = 10.0  # between two agents of one node
_LEAVE_SECONDS = 3.0
_PREFIX = "arc-toolkit-elastic-"
_THREADS = "OMP_NUM_THREADS"


def import_ray() -> Any:
    return ray_connection.import_ray("elastic")


def start_local(working_dir: str, cpus: float, gpus: float, workers: int) -> Any:
    """A Ray on this machine with room for all workers, which nobody else can reach."""
    os.environ[_ONLY_LOCAL] = "0"  # read when Ray is imported
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = os.pathsep.join([working_dir, os.path.dirname(package)])
    return _init(
        "this machine",
        address="local",
        num_cpus=max(1, math.ceil(cpus * workers)),
        num_gpus=math.ceil(gpus * workers),
        include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
        _node_ip_address="127.0.0.1",
    )


def connect(uri: str, report: Callable[[str], None], working_dir: str | None = None) -> Any:
    """Connect to a cluster; for a new run the working folder and this package are sent there.

    The head starts a process for every client, and gives it 30 s: on a busy head that is tried
    again.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ray_connection.check_address("-u", uri)
    report(
        f"connecting to Ray at {uri}"
        + (f", and sending {working_dir}" if working_dir is not None else "")
    )
    runtime_options = (
        {}
        if working_dir is None
        else {"runtime_env": {"working_dir": working_dir, "py_modules": [package]}}
    )
    for _ in range(_CONNECT_TRIES - 1):
        try:
            return _init(uri, address=uri, **runtime_options)
        except ray_connection.BusyHead as error:
            report(f"{error}; trying again")
            import_ray().shutdown()
    return _init(uri, address=uri, **runtime_options)


def _init(address_text: str, **options: Any) -> Any:
    return ray_connection.connect_ray("elastic", address_text, namespace=NAMESPACE, **options)


class RayNodes:
    """The nodes of the cluster, for the controller. Calls to Ray run in their own thread."""

    def __init__(
        self, name: str, cpus: float, gpus: float, most: int, report: Callable[[str, str], None]
    ) -> None:
        self._name, self._cpus, self._gpus, self._most, self._report = (
            name,
            cpus,
            gpus,
            most,
            report,
        )
        self._connected: frozenset[str] = frozenset()
        self._welcomed: set[str] = set()  # nodes whose agent was connected at some time
        self._workers = 0
        self._asked: tuple[int, float] = (0, 0.0)  # for how many workers, and when
        self._tried: dict[str, float] = {}  # when an agent was started on a node
        self._agents: dict[str, Any] = {}  # what the call of each agent gives when it ends
        self._reported: dict[str, str] = {}
        self._wanted = threading.Event()
        threading.Thread(target=self._run, name="ray-nodes", daemon=True).start()

    def poll(self, address: tuple[str, int], connected: Collection[str], workers: int) -> None:
        self._connected, self._workers = frozenset(connected), workers
        self._welcomed |= self._connected
        self._wanted.set()

    def drain(self, node: str, deadline: float | None) -> None:
        threading.Thread(target=self._drain, args=(node, deadline), daemon=True).start()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                self._ask_for_nodes(self._workers)
                self._report_failures()
                self._start_agents()
            except Exception as error:  # Ray is away for a moment: the next poll tries again
                sys.stderr.write(f"arc-toolkit elastic: {type(error).__name__}: {error}\n")

    def _ask_for_nodes(self, workers: int) -> None:
        """Of the autoscaler, if any: it does not see workers without a node.

        Its request is one for the whole cluster, which another run may have replaced: it is made
        again and again.
        """
        if self._asked[0] == workers and time.monotonic() - self._asked[1] < _ASK_SECONDS:
            return
        self._asked = workers, time.monotonic()
        import_ray()
        from ray.autoscaler.sdk import request_resources

        resources = {"CPU": self._cpus, "GPU": self._gpus}
        request_resources(
            bundles=[{name: count for name, count in resources.items() if count}] * workers
        )

    def close(self) -> None:
        """Nodes without work may go."""
        try:
            self._ask_for_nodes(0)
        except Exception as error:
            sys.stderr.write(f"arc-toolkit elastic: {type(error).__name__}: {error}\n")

    def _start_agents(self) -> None:
        """On nodes without one, or where it has ended: a running agent connects by itself."""
        ray = import_ray()
        for node in ray.nodes():
            name, slots = node["NodeID"], self._slots(node["Resources"]) if node["Alive"] else 0
            is_recent = time.monotonic() - self._tried.get(name, float("-inf")) < _TRY_SECONDS
            if (
                slots
                and name not in self._connected
                and not is_recent
                and not self._has_agent(ray, name)
            ):
                self._tried[name] = time.monotonic()
                self._start_agent(ray, name, slots)

    def _report_failures(self) -> None:
        """Why an agent could not start, or ended with an error; lost nodes are known anyway."""
        ray = import_ray()
        for node, agent in list(self._agents.items()):
            if not ray.wait([agent], timeout=0)[0]:
                continue
            del self._agents[node]
            try:
                ray.get(agent)
            except Exception as error:
                is_own = isinstance(error, ray.exceptions.RayTaskError)  # with its traceback
                reason = (
                    str(error).strip().splitlines()[-1]
                    if is_own
                    else ray_connection.reason_of(error)
                )
                text = f"its agent failed: {reason}"
                if (is_own or node not in self._welcomed) and self._reported.get(node) != text:
                    self._reported[node] = text
                    self._report(node, text)

    def _has_agent(self, ray: Any, node: str) -> bool:
        try:
            ray.get_actor(self._agent_name(node), namespace=NAMESPACE)
        except ValueError:
            return False
        return True

    def _agent_name(self, node: str) -> str:
        return f"{_PREFIX}{self._name}-{node}"

    def _start_agent(self, ray: Any, node: str, slots: int) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        gpus = self._gpus * slots
        # Detached, because an actor dies with its owner, and the ranks should outlive a controller
        # that crashes. One call at a time (the default): the main thread of an actor that allows
        # more polls all the time.
        options = {
            "name": self._agent_name(node),
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "num_cpus": self._cpus * slots,
            "num_gpus": math.ceil(gpus) if gpus > 1 else gpus,  # Ray has parts of one GPU only
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
        }
        agent = ray.remote(RayAgent).options(**options).remote()
        self._agents[node] = agent.run.remote(node, slots, self._name, self._cpus)

    def _slots(self, resources: dict[str, float]) -> int:
        rooms = [self._most]
        rooms += [int(resources.get("CPU", 0) // self._cpus)] if self._cpus else []
        rooms += [int(resources.get("GPU", 0) // self._gpus)] if self._gpus else []
        return min(rooms)

    def _drain(self, node: str, deadline: float | None) -> None:
        """Best effort: the interface is not stable, and the run goes on without it."""
        try:
            ray = import_ray()
            from ray._raylet import GcsClient

            seconds = 30.0 if deadline is None else max(1.0, deadline - time.time())
            client = GcsClient(address=ray.get_runtime_context().gcs_address)
            client.drain_node(node, 2, "eviction notice", int((time.time() + seconds) * 1000))
        except Exception as error:
            sys.stderr.write(
                f"arc-toolkit elastic: {node} is not drained in Ray: "
                f"{type(error).__name__}: {error}\n"
            )


class RayAgent:
    """An agent as an actor."""

    def run(self, node: str, slots: int, name: str, cpus: float) -> None:
        ray = import_ray()
        # by Ray, for one process with all of these CPUs
        if os.environ.get(_THREADS) == str(int(cpus * slots)):
            os.environ[_THREADS] = str(max(1, int(cpus)))

        def find_controller() -> tuple[str, int]:
            controller = ray.get_actor(_PREFIX + name, namespace=NAMESPACE)
            host, port = ray.get(controller.find_address.remote(), timeout=10)
            return host, port

        try:
            gpus = [str(number) for number in ray.get_gpu_ids()]
            folder = AgentFolder()
            _keep_copies(str(folder.path))
            ElasticAgent(name, node, slots, find_controller, folder, gpus).run()
        except Exception:
            # The controller reports it. This process goes a moment later, to free its name.
            threading.Timer(_LEAVE_SECONDS, os._exit, (1,)).start()
            raise
        ray.actor.exit_actor()


def _keep_copies(folder: str) -> None:
    """Work in copies: Ray may delete its own while standbys are still to be started."""
    paths = [path for path in sys.path if path]
    if "runtime_resources" in os.getcwd():
        shutil.copytree(os.getcwd(), os.path.join(folder, "work"))
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        shutil.copytree(package, os.path.join(folder, "packages", os.path.basename(package)))
        paths = [
            os.path.join(folder, "packages"),
            *(path for path in paths if "runtime_resources" not in path),
        ]
        os.chdir(os.path.join(folder, "work"))
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


class RayController:
    """The controller as a detached actor: it survives its client, and is restarted if it dies."""

    def __init__(self, config: dict[str, Any], cpus: float, gpus: float) -> None:
        ray = import_ray()
        self._config = RunConfig(**config)
        host = ray.util.get_node_ip_address()
        restarted = bool(ray.get_runtime_context().was_current_actor_reconstructed)
        history = copies_folder(self._config.name, "head").with_name("history.json")
        most, name = self._config.most, self._config.name
        self._nodes = RayNodes(name, cpus, gpus, most, lambda *note: self._controller.note(*note))
        self._controller = Controller(
            self._config, self._nodes, host=host, history=history, is_restarted=restarted
        )
        self._code: int | None = None
        self._clients: dict[str, float] = {}  # when they asked; without those that know of the end
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        code = self._controller.serve()
        self._nodes.close()
        self._code = code

    def find_address(self) -> tuple[str, int]:
        return self._controller.address

    def status(self, client: str, events: int, lines: int, wait: float) -> dict[str, Any]:
        """News since so many events and lines, for which it waits; `code` after the run."""
        controller, end = self._controller, time.monotonic() + wait
        self._clients[client] = end
        while self._code is None and time.monotonic() < end:
            if len(controller.timeline.events) > events or controller.output.count != lines:
                break
            time.sleep(_LOOK_SECONDS)
        return {
            "events": controller.timeline.events[events:],
            "output": controller.output.lines_since(lines),
            "lines": controller.output.count,
            "address": controller.address,
            "state": controller.state(),
            "code": self._code,
            "summary": controller.summary(),
        }

    def leave(self, client: str) -> bool:
        """This client knows of the end. Whether another one follows the run and does not."""
        self._clients.pop(client, None)
        return any(
            time.monotonic() - last_request < _LEAVE_SECONDS
            for last_request in list(self._clients.values())
        )

    def stop(self) -> tuple[int, int]:
        """End the run after a save. How many events and lines of output there were before."""
        counts = len(self._controller.timeline.events), self._controller.output.count
        self._controller.cancel()
        return counts


def start(ray: Any, config: RunConfig, cpus: float, gpus: float) -> Any:
    """The controller of a new run."""
    options = {
        "name": _PREFIX + config.name,
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_restarts": -1,
        "max_task_retries": -1,
        "max_concurrency": 8,
        "resources": {"node:__internal_head__": 0.001},
    }
    try:
        controller = ray.remote(RayController).options(**options).remote(asdict(config), cpus, gpus)
        # through a client, only the first call says that the name is taken
        controller.find_address.remote()
        return controller
    except ValueError:
        raise ArcError(
            f"a run {config.name} exists already: use --attach {config.name}, or another --name"
        ) from None


def attach(ray: Any, name: str) -> Any:
    try:
        return ray.get_actor(_PREFIX + name, namespace=NAMESPACE)
    except ValueError:
        raise ArcError(f"there is no run {name} in this cluster") from None


def stop(ray: Any, controller: Any) -> tuple[int, int]:
    """Ask for a save and the end of a run. The counts of events and lines before, for `follow`."""
    try:
        events, lines = ray.get(controller.stop.remote(), timeout=_PATIENCE_SECONDS)
    except ray.exceptions.GetTimeoutError:
        raise ArcError(
            f"the controller of the run has not answered for {_PATIENCE_SECONDS:.0f} s"
        ) from None
    except ray.exceptions.RayActorError as error:
        raise _gone_error(error) from None
    return events, lines


def _gone_error(error: Exception) -> ArcError:
    text = str(error).strip().partition("\n")[0]
    return ArcError(f"the controller of the run is gone: {text}")


def follow(
    ray: Any, controller: Any, wait: float, client: str, counts: tuple[int, int] = (0, 0)
) -> Iterator[dict[str, Any]]:
    """The status of a run until it has ended, with events and output after those `counts`, once.

    A status without news comes every `wait` seconds: each one costs processor time in four
    processes. One without `state` says for how many seconds the controller has not answered.
    """
    events, lines = counts
    address, since = None, time.monotonic()
    while True:
        try:
            status: dict[str, Any] = ray.get(
                controller.status.remote(client, events, lines, wait), timeout=_ANSWER_SECONDS
            )
        except ray.exceptions.GetTimeoutError:
            silent = time.monotonic() - since
            if silent > _PATIENCE_SECONDS:
                raise ArcError(
                    f"the controller of the run has not answered for {silent:.0f} s"
                ) from None
            yield {"silent": silent}
            continue
        except ray.exceptions.RayActorError as error:
            raise _gone_error(error) from None
        since = time.monotonic()
        if address is not None and status["address"] != address:
            # it was started again; events are remembered, output is not
            lines, address = 0, status["address"]
            continue
        address = status["address"]
        events += len(status["events"])
        lines = status["lines"]
        yield {**status, "seen": (events, lines)}
        if status["code"] is not None:
            return
        time.sleep(_PAUSE_SECONDS)


def end(ray: Any, controller: Any, client: str) -> None:
    """Remove the controller of an ended run, once all clients know; agents leave by themselves."""
    limit = time.monotonic() + _LEAVE_SECONDS
    # another client was faster
    with suppress(ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        while (
            ray.get(controller.leave.remote(client), timeout=_ANSWER_SECONDS)
            and time.monotonic() < limit
        ):
            time.sleep(_LOOK_SECONDS)
    ray.kill(controller)


def client_name() -> str:
    """Of one client that looks at a run."""
    return uuid.uuid4().hex
