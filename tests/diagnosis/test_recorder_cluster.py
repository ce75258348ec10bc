"""What happens in a real Kubernetes is recorded and named right: made to happen once, told by one history.

The recorder is the command itself in a process of its own. In the course of the story it is killed with SIGKILL and
started again, and the apiserver goes away and comes back.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arc_toolkit.diagnosis.read import history
from arc_toolkit.errors import ArcError
from tests.support import Result

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NODES = [f"aks-gpu-12345678-vmss00000{number}" for number in range(5)]
LOST = "aks-gpu-12345678-vmss000009"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GRACE_SECONDS = 16  # the usual 40 s would only take longer
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}


class Recorder:
    """`diagnose --cluster --watch --history` as a process."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.path = str(folder / "history.db")
        self._plane = plane
        self._log = folder / "recorder.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "arc_toolkit", "diagnose", "--cluster", "--watch"]
        command += ["--history", self.path, "--kubeconfig", str(self._plane.kubeconfig)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self._process
        self._process.send_signal(how)
        return self._process.wait(20)

    def said(self) -> str:
        return self._log.read_text()

    def wait_for(self, what: str, seen: Callable[[Any], bool]) -> None:
        """Until the history shows it."""
        end = time.monotonic() + 90
        while True:
            if self._process and self._process.poll() is not None:
                pytest.fail(f"the recorder ended: {self.said()}")
            try:
                if seen(history.read(self.path)):
                    return
            except ArcError:
                pass  # it has not made the file yet
            if time.monotonic() > end:
                pytest.fail(f"the history never showed {what}; the recorder said: {self.said()}")
            time.sleep(0.2)


@dataclass
class Story:
    """What there is to look at once all has happened."""

    plane: ControlPlane
    recorder: Recorder
    exit_code: int


def job(name: str, node: str, cpu: str = "500m", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-worker-0",
            "namespace": "azureml",
            "labels": {"ml.azure.com/run-id": name, "jobsource": "aml", "type": "job"},
        },
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [
                {
                    "name": "x-execution-wrapper",
                    "image": "none",
                    "env": [{"name": "SECRET", "value": "hunter2"}],
                    "resources": {"requests": {"cpu": cpu}},
                }
            ],
            **spec,
        },
    }


def pod_path(name: str) -> str:
    return f"/api/v1/namespaces/azureml/pods/{name}-worker-0"


def run(plane: ControlPlane, *manifests: dict[str, Any]) -> None:
    """Create pods and wait until they run."""
    for manifest in manifests:
        plane.create(manifest)
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        plane.wait(f"{name} to run", lambda name=name: phase(plane, name) == "Running")  # type: ignore[misc]


def phase(plane: ControlPlane, name: str) -> str:
    return str(plane.get("Pod", name, "azureml")["status"].get("phase"))


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def kill_for_memory(plane: ControlPlane, name: str) -> None:
    """As the kubelet writes it."""
    ended = {"reason": "OOMKilled", "exitCode": 137, "startedAt": now(), "finishedAt": now()}
    container = {
        "name": "x-execution-wrapper",
        "image": "none",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
    }
    status = {
        "phase": "Failed",
        "containerStatuses": [{**container, "state": {"terminated": ended}}],
    }
    plane.patch(f"{pod_path(name)}/status", {"status": status})


def evict(plane: ControlPlane, name: str) -> None:
    """What a drain does."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction"}
    body |= {"metadata": {"name": f"{name}-worker-0", "namespace": "azureml"}}  # type: ignore[dict-item]
    plane.request("POST", f"{pod_path(name)}/eviction", body)


def post_event(plane: ControlPlane, node: str, reason: str, message: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "node.", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": node},
        "reason": reason,
        "message": message,
        "type": "Warning",
        "firstTimestamp": now(),
        "lastTimestamp": now(),
        "source": {"component": "kubelet"},
    }
    plane.request("POST", "/api/v1/namespaces/default/events", manifest)


def has_event(reason: str, node: str) -> Callable[[Any], bool]:
    return lambda facts: any(
        item["reason"] == reason and item["involvedObject"]["name"] == node for item in facts.events
    )


def gone(name: str) -> Callable[[Any], bool]:
    return lambda facts: any(
        item["metadata"]["name"] == f"{name}-worker-0" and "deletionTimestamp" in item["metadata"]
        for item in facts.pods
    )


@pytest.fixture(scope="module")
def story(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    plane = control_plane
    plane.wipe()
    recorder = Recorder(plane, tmp_path_factory.mktemp("history"))
    for node in NODES:
        plane.add_node(node, labels={"agentpool": "gpu"})
    recorder.start()
    try:
        recorder.wait_for("all nodes", lambda facts: len(facts.nodes) == len(NODES))
        _out_of_memory_evicted_and_preempted(plane, recorder)
        _node_lost(plane, recorder)
        _recorder_killed(plane, recorder)
        _apiserver_away(plane, recorder)
        code = recorder.stop()
        yield Story(plane, recorder, code)
    finally:
        if recorder._process and recorder._process.poll() is None:
            recorder.stop(signal.SIGKILL)
        plane.wipe()
        plane.request("DELETE", PRIORITIES, {"kind": "DeleteOptions", "apiVersion": "v1"})


def _out_of_memory_evicted_and_preempted(plane: ControlPlane, recorder: Recorder) -> None:
    run(plane, job("oom", NODES[0]), job("drained", NODES[1]), job("pressed", NODES[2]))
    run(plane, job("bumped", NODES[3], "3500m"))
    kill_for_memory(plane, "oom")
    plane.patch(f"/api/v1/nodes/{NODES[1]}", {"spec": {"unschedulable": True}})
    evict(plane, "drained")
    message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
    plane.patch(
        f"{pod_path('pressed')}/status",
        {"status": {"phase": "Failed", "reason": "Evicted", "message": message}},
    )
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
    }
    plane.request("POST", PRIORITIES, {**urgent, "value": 1000})
    plane.wait("the admission of the new priority", lambda: _admitted(plane))
    run(plane, job("urgent", NODES[3], "3500m", priorityClassName="urgent"))
    for name in ("drained", "bumped"):
        recorder.wait_for(f"{name} deleted", gone(name))


def _admitted(plane: ControlPlane) -> bool:
    """The apiserver's admission learns of a priority class a moment after it was stored."""
    from tests.cluster.control_plane import ApiError

    probe = job("probe", NODES[3], "3500m", priorityClassName="urgent")
    try:
        plane.request("POST", "/api/v1/namespaces/azureml/pods", probe, {"dryRun": "All"})
    except ApiError as error:
        if "no PriorityClass" not in str(error):
            raise
        return False
    return True


def _apiserver_away(plane: ControlPlane, recorder: Recorder) -> None:
    run(plane, job("swamped", NODES[4]))
    recorder.wait_for(
        "swamped", lambda facts: any("swamped" in item["metadata"]["name"] for item in facts.pods)
    )
    plane.restart_apiserver()
    # Before the recorder is back: it hears of it because the apiserver still has it.
    post_event(
        plane, NODES[4], "SystemOOM", "System OOM encountered, victim process: python, pid: 42"
    )
    kill_for_memory(plane, "swamped")
    recorder.wait_for("the event after the restart", has_event("SystemOOM", NODES[4]))


def _recorder_killed(plane: ControlPlane, recorder: Recorder) -> None:
    run(plane, job("unseen", NODES[2]))
    recorder.wait_for(
        "unseen", lambda facts: any("unseen" in item["metadata"]["name"] for item in facts.pods)
    )
    recorder.stop(signal.SIGKILL)
    evict(plane, "unseen")
    plane.wait(
        "unseen to be gone", lambda: "unseen" not in json.dumps(plane.list("Pod", "azureml"))
    )
    recorder.start()
    recorder.wait_for("what happened while it was dead", gone("unseen"))


def _node_lost(plane: ControlPlane, recorder: Recorder) -> None:
    """A node that kwok does not keep alive. Losing all at once would make Kubernetes doubt the network instead."""
    plane.restart_controller_manager(GRACE_SECONDS)
    try:
        _lose_node(plane, recorder)
    finally:
        plane.restart_controller_manager()


def _lose_node(plane: ControlPlane, recorder: Recorder) -> None:
    plane.add_node(LOST, labels={"agentpool": "gpu"}, managed=False)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastTransitionTime": now(),
    }
    plane.patch(
        f"/api/v1/nodes/{LOST}/status",
        {"status": {"conditions": [{**ready, "lastHeartbeatTime": now()}]}},
    )
    plane.create(job("lost", LOST, tolerations=[{**UNREACHABLE, "tolerationSeconds": 0}]))
    plane.wait(
        "lost to be bound",
        lambda: "nodeName" in plane.get("Pod", "lost-worker-0", "azureml")["spec"],
    )
    plane.patch(f"{pod_path('lost')}/status", {"status": {"phase": "Running", "startTime": now()}})
    recorder.wait_for("lost", gone("lost"))


def causes(arc: Callable[..., Result], *options: object) -> dict[str, tuple[str, str]]:
    """Kind of cause and confidence by job."""
    result = arc("diagnose", "--format", "json", *options)
    assert result.code == 0, result.err
    found = {}
    for one in json.loads(result.out)["jobs"]:
        for attempt in one["attempts"]:
            if attempt["cause"]:
                found[one["name"]] = (attempt["cause"]["kind"], attempt["cause"]["confidence"])
    return found


def test_every_cause_is_named_right_from_the_history_alone(
    story: Story, arc: Callable[..., Result]
) -> None:
    assert causes(arc, "--history", story.recorder.path) == {
        "oom": ("own-memory-limit", "high"),
        "drained": ("drain", "high"),
        "pressed": ("node-pressure", "high"),
        "bumped": ("scheduler-preemption", "high"),
        "swamped": ("node-out-of-memory", "high"),
        "unseen": ("drain", "high"),
        "lost": ("node-not-ready", "high"),
    }


def test_nodes_that_were_lost_or_out_of_memory_are_bad(
    story: Story, arc: Callable[..., Result]
) -> None:
    result = arc("diagnose", "--format", "json", "--history", story.recorder.path)
    reasons = {
        node["node"]: node["reason"]
        for node in json.loads(result.out)["nodes"]
        if node["verdict"] == "bad"
    }
    assert reasons[NODES[4]].startswith("SystemOOM")
    assert LOST in reasons


def test_cluster_read_once_no_longer_knows_the_pods_that_are_gone(
    story: Story, arc: Callable[..., Result]
) -> None:
    live = causes(arc, "--cluster", "--kubeconfig", story.plane.kubeconfig)
    assert live["oom"] == ("own-memory-limit", "high")
    assert live["swamped"] == ("node-out-of-memory", "high")
    assert not {"drained", "bumped", "unseen"} & set(live)


def test_history_and_cluster_together_count_each_attempt_once(
    story: Story, arc: Callable[..., Result]
) -> None:
    options = (
        "--history",
        story.recorder.path,
        "--cluster",
        "--kubeconfig",
        story.plane.kubeconfig,
    )
    result = arc("diagnose", "--format", "json", *options)
    attempts = {one["name"]: len(one["attempts"]) for one in json.loads(result.out)["jobs"]}
    assert len(attempts) == 8  # with the urgent one, which still runs
    assert set(attempts.values()) == {1}


def test_recorder_ends_well_after_sigterm(story: Story) -> None:
    assert story.exit_code == 0
    assert "changes recorded" in story.recorder.said()


def test_history_holds_no_secret_of_a_pod(story: Story) -> None:
    folder = Path(story.recorder.path).parent
    for file in folder.iterdir():
        assert b"hunter2" not in file.read_bytes()


def test_second_recorder_is_refused(story: Story, arc: Callable[..., Result]) -> None:
    with history.History(story.recorder.path, story.plane.server):
        options = ("--cluster", "--watch", "--history", story.recorder.path)
        result = arc("diagnose", *options, "--kubeconfig", story.plane.kubeconfig)
    assert result.code == 2
    assert "another process is recording" in result.err


def test_user_without_rights_gets_one_sentence(
    story: Story, arc: Callable[..., Result], tmp_path: Path
) -> None:
    kubeconfig = story.plane.write_kubeconfig("nobody")
    for options in ((), ("--watch", "--history", tmp_path / "history.db")):
        result = arc("diagnose", "--cluster", "--kubeconfig", kubeconfig, *options)
        assert result.code == 2
        assert "may not list" in result.err
        assert "arc-toolkit-diagnose" in result.err


def test_unreachable_cluster_gets_one_sentence(
    story: Story, arc: Callable[..., Result], tmp_path: Path
) -> None:
    kubeconfig = story.plane.write_kubeconfig("nobody", server="https://127.0.0.1:1")
    result = arc(
        "diagnose",
        "--cluster",
        "--watch",
        "--history",
        tmp_path / "history.db",
        "--kubeconfig",
        kubeconfig,
    )
    assert result.code == 2
    assert "cannot reach" in result.err
    assert os.listdir(tmp_path)  # the file may be there; nothing else is left running
