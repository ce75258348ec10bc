"""Causes that look like another one: each with its source, and the near miss that is the other one."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.diagnosis.assemble.restarts import restarts_in
from arc_toolkit.diagnosis.model import Attempt, Cause, CauseKind
from arc_toolkit.diagnosis.read.sources.metric_points import Point
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import (
    NODE_A,
    at,
    container,
    event,
    facts,
    log,
    node,
    node_line,
    pod,
    scanned,
)

FUSE = "Node didn't have enough resource: github.com/fuse, requested: 1, used: 0, capacity: 0"
NO_GPU = "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, capacity: 0"


def cause_of(raw: dict[str, Any], nodes: Any = None, events: Any = None) -> Cause:
    (attempt,) = build([], [facts([raw], nodes, events)]).attempts
    assert attempt.cause is not None
    return attempt.cause


# kubernetes/kubernetes 140716, 140718
@pytest.mark.parametrize(("code", "kind"), [(143, CauseKind.UNKNOWN), (137, CauseKind.OWN_MEMORY)])
def test_a_container_that_was_stopped_did_not_exceed_its_limit(code: int, kind: CauseKind) -> None:
    assert cause_of(pod(containers=[container(code=code, reason="OOMKilled")])).kind is kind


# Azure/AML-Kubernetes 103
def test_a_resource_that_the_node_never_had_is_a_matter_of_set_up() -> None:
    refused = pod(reason="OutOfgithub.com/fuse", message=f"Pod {FUSE}")
    assert cause_of(refused).kind is CauseKind.SETUP
    line = (
        "AzureML Kubernetes job failed. -1002:Pod failed: PodPattern matched: "
        f'{{"reason":"OutOfgithub.com/fuse","message":"Pod {FUSE}"}}\n'
    )
    (attempt,) = build([scanned(node_line(NODE_A) + line.encode())]).attempts
    assert attempt.cause is not None
    assert attempt.cause.kind is CauseKind.SETUP


@pytest.mark.parametrize(
    ("capacity", "kind"),
    [({"cpu": "4"}, CauseKind.SETUP), ({"cpu": "4", "nvidia.com/gpu": "0"}, CauseKind.NODE_FAULT)],
)
def test_a_node_without_gpus_is_not_one_that_lost_them(
    capacity: dict[str, str], kind: CauseKind
) -> None:
    listed = node()
    listed["status"]["capacity"] = capacity
    refused = pod(reason="OutOfnvidia.com/gpu", message=NO_GPU)
    assert cause_of(refused, [listed]).kind is kind


# AKS: node-problem-detector, on dedicated nodes too
@pytest.mark.parametrize(
    ("announced", "kind"),
    [
        ("Reboot", CauseKind.DRAIN),
        ("Redeploy", CauseKind.DRAIN),
        ("Terminate", CauseKind.SCALE_DOWN),
        ("Preempt", CauseKind.SPOT),
    ],
)
@pytest.mark.parametrize(
    "message",
    [
        "Node condition {0}Scheduled is now: True, reason: {0}Scheduled",
        "Node condition VMEventScheduled is now: True, reason: {0}Scheduled",
        "{0} Scheduled: Tue, 03 Mar 2026 10:30:00 GMT.",
    ],
)
def test_announced_maintenance_does_not_blame_the_node(
    announced: str, kind: CauseKind, message: str
) -> None:
    events = [
        event(f"{announced}Scheduled", 25, message=message.format(announced)),
        event("NodeNotReady", 29.5),
    ]
    cause = cause_of(pod(containers=[container(code=137)]), [node()], events)
    assert (cause.kind, cause.blames_node) == (kind, False)


def test_a_condition_about_a_gpu_off_the_bus_needs_no_number() -> None:
    """NVIDIA/NVSentinel 155"""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(0)}
    message = "NVRM: GPU at PCI:0000:0b:00: GPU has fallen off the bus"
    row = {"type": "GpuCheck", "status": "True", "message": message, "lastTransitionTime": at(25)}
    cause = cause_of(pod(containers=[container(code=137)]), [node(conditions=[ready, row])])
    assert (cause.kind, cause.evidence[0].reason) == (CauseKind.NODE_FAULT, "Xid 79")


def test_a_pod_event_counts_only_near_the_end() -> None:
    def lost(minute: float) -> dict[str, Any]:
        return event("NodeNotReady", minute, kind="Pod", about="azureml-aa-worker-0", uid="uid-1")

    ended = pod(containers=[container(code=137, minute=660)])
    assert cause_of(ended, [node()], [lost(60)]).kind is CauseKind.UNKNOWN
    assert cause_of(ended, [node()], [lost(655)]).kind is CauseKind.NODE_LOST


# torchrun, mpirun, accelerate, torch's DataLoader
@pytest.mark.parametrize(
    "text",
    [
        "E0303 10:30:00.0 7 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9)"
        " local_rank: 0 (pid: 77) of binary: /usr/bin/python\n",
        "  traceback : Signal 9 (SIGKILL) received by PID 77\n====\n",
        "mpirun noticed that process rank 2 with PID 0 on node w exited on signal 9 (Killed).\n",
        'Traceback (most recent call last):\n  File "accelerate", line 8, in <module>\n'
        "subprocess.CalledProcessError: Command 'x' died with <Signals.SIGKILL: 9>.\n",
        'Traceback (most recent call last):\n  File "train.py", line 8, in <module>\n'
        "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed. \n",
    ],
)
@pytest.mark.parametrize("has_pod", [True, False])
def test_a_killed_child_is_memory_and_not_an_error_of_the_program(text: str, has_pod: bool) -> None:
    printed = scanned(f"step 1\n{text}".encode(), "job/user_logs/std_log.txt")
    logs = [log("job/system_logs/amlarc_cr_bootstrap.log", NODE_A), printed]
    pods = [facts([pod(containers=[container(code=1)])], [node()])] if has_pod else []
    (attempt,) = build(logs, pods).attempts
    assert attempt.cause is not None
    assert (attempt.cause.kind, attempt.cause.confidence) == (CauseKind.OWN_MEMORY, "low")
    assert not attempt.cause.blames_node


def epochs_of(numbers: list[int], start: float, last_steps: int = 10) -> list[Point]:
    """Ten steps per epoch, ten seconds each; the epoch is logged when it begins."""
    points = []
    for index, number in enumerate(numbers):
        steps = last_steps if index == len(numbers) - 1 else 10
        begin = start + 100 * index
        points.append(Point(key="epoch", step=0, value=number, time=begin))
        points += [
            Point(key="loss", step=step, value=1.0, time=begin + 10 * step + 1)
            for step in range(steps)
        ]
    return points


@pytest.mark.parametrize(("resumed", "lost"), [([3, 4, 5], 5), ([2, 3, 4], 15), ([0, 1, 2], 35)])
def test_lost_steps_count_the_epochs_that_are_repeated(resumed: list[int], lost: int) -> None:
    points = [*epochs_of([0, 1, 2, 3], 0.0, last_steps=6), *epochs_of(resumed, 5000.0)]
    (restart,) = restarts_in("run", points)
    assert restart.lost_steps == lost


# NVIDIA/nccl: src/init.cc, ncclGetErrorString
LOST_PEER = (
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:335, remote process "
    "exited or there was a network error\nncclRemoteError: A call failed possibly due to a network "
    "error or a remote process exiting prematurely."
)


@pytest.mark.parametrize(
    ("error", "confidence"), [(LOST_PEER, "low"), ("KeyError: 'lr'", "medium")]
)
def test_an_error_that_names_a_lost_peer_is_only_a_guess(error: str, confidence: str) -> None:
    """Another process failed first, and nothing here says why; an error of its own is its own."""
    cause = _attempt_that_printed(error).cause
    assert cause is not None
    assert (cause.kind, cause.confidence) == (CauseKind.USER, confidence)


def test_the_log_to_open_is_the_one_with_the_error_also_if_the_exit_code_is_known() -> None:
    attempt = _attempt_that_printed("KeyError: 'lr'")
    assert attempt.cause is not None
    assert [(item.reason, item.path) for item in attempt.cause.evidence] == [
        ("1", ""),
        ("uncaught exception", "job/user_logs/std_log.txt"),
    ]


def _attempt_that_printed(error: str) -> Attempt:
    text = f'Traceback (most recent call last):\n  File "t.py", line 7, in <module>\n    f()\n{error}\n'
    logs = [
        log("job/system_logs/amlarc_cr_bootstrap.log", NODE_A),
        scanned(f"step 1\n{text}".encode(), "job/user_logs/std_log.txt"),
    ]
    (attempt,) = build(logs, [facts([pod(containers=[container()])])]).attempts
    return attempt
