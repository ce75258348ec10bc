"""Init containers and sidecars that fail, and AzureML's own words about the end of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.cli.main import main
from arc_toolkit.diagnosis.model import Cause, CauseKind
from arc_toolkit.diagnosis.read.collect import add_failures
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import NODE_A, NODE_B, container, facts, log, node_line, pod

ID = "0123456789abcdef" * 2
MAIN = f"{ID}-execution-wrapper"
FIRST = "job/system_logs/amlarc_cr_bootstrap.log"


def cause_of(*containers: dict[str, Any], inits: Any = ()) -> Cause:
    made = pod(containers=list(containers))
    made["status"]["initContainerStatuses"] = list(inits)
    cause = build([], [facts([made])]).attempts[0].cause
    assert cause is not None
    return cause


@pytest.mark.parametrize(
    ("helper", "message"),
    [
        (
            container(f"{ID}-data-capability", code=1, minute=29),
            "data-capability, which is not the job's own container, failed first",
        ),
        (
            container(f"{ID}-lifecycler", "OOMKilled", 137, minute=29),
            "lifecycler, which is not the job's own container, failed first",
        ),
        (
            container("training-identity-sidecar", code=137, minute=29),
            "only training-identity-sidecar failed: a known effect of a proxy that blocks it",
        ),
    ],
)
def test_a_helper_that_fails_first_is_named_and_is_a_setup_error(
    helper: dict[str, Any], message: str
) -> None:
    cause = cause_of(container(MAIN, code=1, minute=30), helper)
    assert (cause.kind, cause.blames_node, cause.evidence[0].message) == (
        CauseKind.SETUP,
        False,
        message,
    )


@pytest.mark.parametrize(
    ("helper", "code"),
    [
        (container(f"{ID}-data-capability", code=1, minute=31), 1),  # after the job's own container
        (
            container(f"{ID}-lifecycler", code=143, minute=29),
            1,
        ),  # all containers of a pod that ends are killed
        (container(f"{ID}-hosttools-capability", code=137, minute=29), 1),
        (container("training-identity-sidecar", code=137, minute=31), 1),
    ],
)
def test_a_helper_that_ends_later_or_is_killed_does_not_excuse_the_job(
    helper: dict[str, Any], code: int
) -> None:
    assert cause_of(container(MAIN, code=code, minute=30), helper).kind is CauseKind.USER


def test_a_kill_of_all_containers_is_not_a_proxy_problem() -> None:
    killed = [
        container(MAIN, code=137, minute=30),
        container("training-identity-sidecar", code=137, minute=30),
    ]
    assert cause_of(*killed).kind is not CauseKind.SETUP


def test_an_init_container_that_fails_is_a_setup_error() -> None:
    never = {"name": MAIN, "state": {"waiting": {"reason": "PodInitializing"}}}
    cause = cause_of(never, inits=[container(f"{ID}-execution-wrapper-init", code=1, minute=3)])
    assert cause.kind is CauseKind.SETUP
    assert "execution-wrapper-init, which is not" in cause.evidence[0].message


def pattern(word: str, **document: Any) -> str:
    return f"PodPattern {word}: {json.dumps(document)}"


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (
            ("137", pattern("matched", containers=[{"name": "training-identity-sidecar"}])),
            CauseKind.SETUP,
        ),
        (
            ("1", pattern("matched", containers=[{"name": f"{ID}-data-capability"}])),
            CauseKind.SETUP,
        ),
        (
            ("1", pattern("unmatched", containers=[{"name": MAIN, "reason": "Error"}])),
            CauseKind.USER,
        ),
        (
            ("137", pattern("unmatched", containers=[{"name": MAIN, "reason": "OOMKilled"}])),
            CauseKind.OWN_MEMORY,
        ),
        (
            (
                "-300",
                pattern(
                    "unmatched",
                    reason="Evicted",
                    message="Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. ",
                ),
            ),
            CauseKind.OWN_STORAGE,
        ),
    ],
)
def test_azureml_says_which_container_failed(failure: tuple[str, str], kind: CauseKind) -> None:
    cause = build([log(FIRST, NODE_A, failure=failure)]).attempts[0].cause
    assert cause is not None
    assert cause.kind is kind


def test_what_azureml_says_elsewhere_is_about_the_attempt_of_that_folder() -> None:
    logs = [log(FIRST, NODE_A), log("job/system_logs/retry-001/amlarc_cr_bootstrap.log", NODE_B)]
    add_failures(
        logs,
        [log("job/system_logs/retry-001/lifecycler/lifecycler.log", None, failure=("-210", ""))],
    )
    assert [item.failure for item in logs] == [None, ("-210", "")]


def test_what_azureml_says_about_one_rank_is_not_said_of_the_others() -> None:
    said = pattern(
        "unmatched", name="azureml-aa-worker-1", containers=[{"name": MAIN, "reason": "OOMKilled"}]
    )
    for text, about in ((said, [False, True]), ("", [False, False])):
        ranks = [log(f"job/system_logs/worker-{n}/amlarc_cr_bootstrap.log", NODE_A) for n in (0, 1)]
        add_failures(
            ranks, [log("job/system_logs/lifecycler/lifecycler.log", None, failure=("137", text))]
        )
        assert [item.failure is not None for item in ranks] == about


def test_a_log_that_only_has_the_message_names_no_node_and_no_time() -> None:
    logs: list[LogScan] = []
    add_failures(
        logs,
        [log("job/user_logs/std_log.txt", NODE_A, start=1.0, run_id="other", failure=("1", ""))],
    )
    assert [(item.nodes, item.start, item.run_id, item.failure) for item in logs] == [
        ([], None, None, ("1", ""))
    ]


@pytest.mark.parametrize("name", ["user_logs/std_log.txt", "system_logs/lifecycler/lifecycler.log"])
def test_the_logs_of_the_job_and_the_runtime_are_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "logs" / "job"
    for path, data in (
        ("system_logs/amlarc_cr_bootstrap.log", node_line(NODE_A)),
        (
            name,
            b"Run on node: not-a-node\nAzureML Kubernetes job failed. -210:User has requested to stop\n",
        ),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    assert main(["diagnose", str(tmp_path / "logs"), "--format", "json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert [(attempt["node"], attempt["cause"]["kind"]) for attempt in job["attempts"]] == [
        (NODE_A, "cancelled")
    ]
