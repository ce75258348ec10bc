"""When a pod ended: by its own containers, otherwise by its conditions."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import CauseKind
from arc_toolkit.diagnosis.read.pod_states import read_pod
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import at, container, event, facts, node, pod

INIT = container("1-execution-wrapper-init", "Completed", 0, minute=1)
LOST: dict[str, Any] = {
    "name": "1-execution-wrapper",
    "state": {
        "terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137, "finishedAt": None}
    },
}


def not_ready(minute: float) -> dict[str, str]:
    return {
        "type": "Ready",
        "status": "False",
        "reason": "PodFailed",
        "lastTransitionTime": at(minute),
    }


def ended_at(**status: Any) -> float | None:
    made = pod(
        containers=status.pop("containers", []), initContainerStatuses=status.pop("inits", [INIT])
    )
    made["status"] |= status
    return read_pod(made).end


@pytest.mark.parametrize(
    ("status", "minute"),
    [
        ({"containers": [container(minute=30)]}, 30),
        ({"containers": [LOST]}, None),  # init containers end before the job begins
        ({"containers": [LOST], "conditions": [not_ready(55)]}, 55),
        ({"containers": [LOST], "conditions": [not_ready(0)]}, None),  # it never was ready
        (
            {
                "containers": [LOST, container("1-lifecycler", code=0, minute=20)],
                "conditions": [not_ready(55)],
            },
            55,
        ),
        ({"containers": [container(minute=30)], "conditions": [not_ready(31)]}, 30),
        (
            {"inits": [container("1-execution-wrapper-init", code=1, minute=2)]},
            2,
        ),  # that is why the pod ended
        (
            {
                "containers": [
                    {"name": "a", "state": {"terminated": {"finishedAt": "1970-01-01T00:00:00Z"}}}
                ]
            },
            None,
        ),
    ],
)
def test_init_containers_do_not_end_a_pod_and_conditions_replace_lost_times(
    status: dict[str, Any], minute: float | None
) -> None:
    assert ended_at(**status) == (None if minute is None else times.parse(at(minute)))


def test_a_running_attempt_has_no_end_although_some_containers_have() -> None:
    running = {"name": "1-execution-wrapper", "state": {"running": {}}}
    made = pod(
        phase="Running", containers=[running, container("1-data-capability", code=0, minute=5)]
    )
    assert build([], [facts([made])]).attempts[0].end is None


def test_a_reboot_that_lost_the_containers_is_found() -> None:
    made = pod(containers=[LOST], initContainerStatuses=[INIT], conditions=[not_ready(55)])
    events = [event("NodeNotReady", 51), event("Rebooted", 54)]
    cause = build([], [facts([made], [node()], events)]).attempts[0].cause
    assert cause is not None
    assert (cause.kind, cause.blames_node) == (CauseKind.NODE_LOST, True)
