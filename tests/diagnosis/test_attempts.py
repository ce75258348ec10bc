"""Logs and pods put together: jobs, attempts, ranks, nodes, and who died first."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.diagnosis.formats import report_page
from arc_toolkit.diagnosis.formats.report_formats import to_markdown
from arc_toolkit.diagnosis.formats.report_text import overview
from arc_toolkit.diagnosis.identities import pool_of, vm_instance_of
from arc_toolkit.diagnosis.model import CauseKind, DiagnosisReport, RunOutcome
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.diagnosis.report import build, report_of_job
from tests.diagnosis.made import NODE_A, NODE_B, NODE_C, container, event, facts, log, node, pod

FIRST = "job/system_logs/amlarc_cr_bootstrap.log"
RETRY = "job/system_logs/retry-001/amlarc_cr_bootstrap.log"
SECOND_RETRY = "job/system_logs/retry_002/amlarc_cr_bootstrap.log"


def test_attempts_are_in_the_order_of_their_folders() -> None:
    report = build([log(SECOND_RETRY, NODE_C), log(FIRST, NODE_A), log(RETRY, NODE_B)])
    assert [(attempt.number, attempt.node) for attempt in report.attempts] == [
        (0, NODE_A),
        (1, NODE_B),
        (2, NODE_C),
    ]
    assert "logs alone rarely show a cause" in report.notes[0]
    job = report.jobs[0]
    assert (job.name, job.attempts, job.retried, job.outcome) == (
        "job",
        3,
        True,
        RunOutcome.UNKNOWN,
    )
    assert job.nodes == (NODE_A, NODE_B, NODE_C)


def test_a_log_and_its_pod_are_one_attempt_by_run_id_and_node() -> None:
    pods = [
        pod(uid="u1", node=NODE_A, containers=[container(code=1, minute=20)]),
        pod(uid="u2", node=NODE_B, phase="Succeeded", start=25),
    ]
    first, second = build([log(FIRST, NODE_A), log(RETRY, NODE_B)], [facts(pods)]).attempts
    assert (first.pod_uid, second.pod_uid) == ("u1", "u2")
    assert (first.outcome, second.outcome) == (RunOutcome.FAILED, RunOutcome.SUCCEEDED)
    assert first.sources == (FIRST,)
    assert first.end is not None


def test_two_attempts_on_one_node_are_distinguished_by_pod_uid() -> None:
    pods = [pod(uid="late", start=40, phase="Succeeded"), pod(uid="early", start=0)]
    logs = [log(FIRST, NODE_A, pod_uid="early"), log(RETRY, NODE_A, pod_uid="late")]
    assert [attempt.pod_uid for attempt in build(logs, [facts(pods)]).attempts] == ["early", "late"]
    # and by their order where the logs do not say the UID
    logs = [log(FIRST, NODE_A), log(RETRY, NODE_A)]
    assert [attempt.pod_uid for attempt in build(logs, [facts(pods)]).attempts] == ["early", "late"]


OOM = [container(reason="OOMKilled", code=137, minute=80)]
ELEVEN = 1772535600.0


def test_a_pod_belongs_to_the_attempt_that_started_at_the_same_time() -> None:
    logs = [
        log(FIRST, NODE_A, start=ELEVEN - 7200, start_exact=True),
        log(RETRY, NODE_B, start=ELEVEN - 3600, start_exact=True),
        log(SECOND_RETRY, NODE_A, start=ELEVEN + 60, start_exact=True),
    ]
    attempts = build(logs, [facts([pod(uid="last", start=60, containers=OOM)])]).attempts
    assert [(attempt.number, attempt.pod_uid) for attempt in attempts] == [
        (0, None),
        (1, None),
        (2, "last"),
    ]
    kinds = [attempt.cause.kind for attempt in attempts if attempt.cause]
    assert kinds == [CauseKind.UNKNOWN, CauseKind.UNKNOWN, CauseKind.OWN_MEMORY]


def test_a_rank_that_only_some_attempts_name_makes_no_gang() -> None:
    report = build([log(FIRST, NODE_A), log(RETRY, NODE_B)], [facts([pod(node=NODE_B)])])
    assert [attempt.rank for attempt in report.attempts] == [None, None]


def test_without_times_the_last_pod_belongs_to_the_last_attempt_on_its_node() -> None:
    logs = [log(FIRST, NODE_A), log(RETRY, NODE_B), log(SECOND_RETRY, NODE_A)]
    attempts = build(logs, [facts([pod(uid="last", start=60, containers=OOM)])]).attempts
    assert [(attempt.number, attempt.pod_uid) for attempt in attempts] == [
        (0, None),
        (1, None),
        (2, "last"),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10.0.0.4", "10.0.0.5"),
        ("rank_0", "rank_1"),
        ("node-0", "node-1"),
        ("worker-0", "worker-1"),
    ],
)
@pytest.mark.parametrize("second_node", [NODE_B, NODE_A], ids=["two nodes", "one node"])
def test_ranks_that_logs_and_pods_name_differently_are_still_the_same(
    one: str, other: str, second_node: str
) -> None:
    logs = [
        log(f"job/system_logs/{one}/amlarc_cr_bootstrap.log", NODE_A),
        log(f"job/system_logs/{other}/amlarc_cr_bootstrap.log", second_node),
    ]
    pods = gang(
        ("worker-0", NODE_A, [container(reason="OOMKilled", code=137, minute=30)]),
        ("worker-1", second_node, [container(code=143, minute=31)]),
    )
    report = build(logs, [facts(pods)])
    assert report.jobs[0].attempts == 1
    found = [(attempt.rank, attempt.pod_uid, bool(attempt.sources)) for attempt in report.attempts]
    assert found == [("worker-0", "u-worker-0", True), ("worker-1", "u-worker-1", True)]
    kinds = [attempt.cause.kind for attempt in report.attempts if attempt.cause]
    assert kinds == [CauseKind.OWN_MEMORY, CauseKind.GANG]


def test_two_names_in_one_log_are_joined_to_the_pods_of_their_nodes() -> None:
    merged = log(FIRST, NODE_A)
    merged.nodes.append(NODE_B)
    pods = gang(
        ("worker-0", NODE_A, [container(reason="OOMKilled", code=137, minute=30)]),
        ("worker-1", NODE_B, [container(code=143, minute=31)]),
    )
    report = build([merged], [facts(pods)])
    assert [(attempt.number, attempt.rank, attempt.node) for attempt in report.attempts] == [
        (0, "worker-0", NODE_A),
        (0, "worker-1", NODE_B),
    ]


def test_ranks_of_one_kind_are_not_mixed_up() -> None:
    pods = gang(("worker-1", NODE_A, [container(code=1)]))
    report = build([log("job/system_logs/worker-0/amlarc_cr_bootstrap.log", NODE_A)], [facts(pods)])
    assert [(attempt.rank, attempt.pod_uid) for attempt in report.attempts] == [
        ("worker-0", None),
        ("worker-1", "u-worker-1"),
    ]


def test_a_folder_of_another_name_is_joined_by_pod_uid_or_by_node_and_time() -> None:
    pods = [pod("run-1", uid="u1", start=0)]
    by_uid = build(
        [log("download/system_logs/amlarc_cr_bootstrap.log", NODE_A, pod_uid="u1")], [facts(pods)]
    )
    assert [(job.name, job.run_id) for job in by_uid.jobs] == [("download", "run-1")]
    near = log(
        "download/system_logs/amlarc_cr_bootstrap.log", NODE_A, start=1772532030.0, start_exact=True
    )
    by_time = build([near], [facts(pods)])
    assert [(job.name, job.run_id) for job in by_time.jobs] == [("download", "run-1")]
    assert by_time.attempts[0].pod_uid == "u1"
    shipped = log("download/system_logs/amlarc_cr_bootstrap.log", NODE_A, start=1772532030.0)
    assert len(build([shipped], [facts(pods)]).jobs) == 2
    far = log(
        "download/system_logs/amlarc_cr_bootstrap.log", NODE_A, start=1772542030.0, start_exact=True
    )
    assert len(build([far], [facts(pods)]).jobs) == 2


def test_pods_without_logs_are_attempts_by_uid_in_order_of_time() -> None:
    pods = [pod(uid="u2", start=20, node=NODE_B, phase="Running"), pod(uid="u1", start=0)]
    report = build([], [facts(pods)])
    assert [(attempt.number, attempt.pod_uid) for attempt in report.attempts] == [
        (0, "u1"),
        (1, "u2"),
    ]
    assert report.jobs[0].outcome is RunOutcome.RUNNING


def test_a_pod_of_an_attempt_whose_log_is_missing_takes_the_free_number() -> None:
    pods = [
        pod(uid="u1", node=NODE_A, start=0),
        pod(uid="u2", node=NODE_B, start=30, phase="Succeeded"),
    ]
    only_retry = build([log(RETRY, NODE_B)], [facts(pods)])
    assert [(attempt.number, attempt.node) for attempt in only_retry.attempts] == [
        (0, NODE_A),
        (1, NODE_B),
    ]
    only_first = build([log(FIRST, NODE_A)], [facts(pods)])
    assert [(attempt.number, attempt.node) for attempt in only_first.attempts] == [
        (0, NODE_A),
        (1, NODE_B),
    ]


def test_pods_that_do_not_belong_to_azureml_jobs_are_counted_and_left_out() -> None:
    other = pod()
    other["metadata"]["labels"] = {}
    report = build([], [facts([other])])
    assert report.attempts == ()
    assert "1 pods do not belong to AzureML jobs" in report.notes[0]


def test_a_cut_node_name_is_not_completed_by_a_guess() -> None:
    """The node of a month ago need not be the one that fits today; the note says which one it could be."""
    cut = log(FIRST, "aks-gpu-12345678-vmss0000", truncated=True)
    for nodes in ([], [node(NODE_A)], [node(NODE_A), node(NODE_B)]):
        report = build([cut], [facts(nodes=nodes)])
        (attempt,) = report.attempts
        assert (attempt.node, attempt.node_truncated) == ("aks-gpu-12345678-vmss0000", True)
        assert attempt.vm_instance is None
        assert report.jobs[0].nodes == ()
        assert (NODE_A in attempt.notes[0]) == (len(nodes) == 1)
        assert {verdict.node for verdict in report.verdicts} == {
            item["metadata"]["name"] for item in nodes
        }


def test_a_cut_node_name_is_completed_by_the_pod_of_the_attempt() -> None:
    cut = log(FIRST, "aks-gpu-12345678-vmss0000", truncated=True)
    (attempt,) = build([cut], [facts([pod(node=NODE_B)], nodes=[node(NODE_A)])]).attempts
    assert (attempt.node, attempt.node_truncated) == (NODE_B, False)


def test_the_beginning_of_a_listed_name_is_a_cut_name_unless_it_is_listed_itself() -> None:
    box = log(FIRST, "gpu-box-1")
    (attempt,) = build([box], [facts(nodes=[node("gpu-box-12"), node("gpu-box-13")])]).attempts
    assert attempt.node_truncated
    (attempt,) = build([box], [facts(nodes=[node("gpu-box-12"), node("gpu-box-1")])]).attempts
    assert not attempt.node_truncated
    (attempt,) = build([box], [facts(nodes=[node("cpu-box-12")])]).attempts
    assert not attempt.node_truncated


def test_a_list_without_any_node_of_the_pool_does_not_prove_that_a_node_is_gone() -> None:
    logs = [log(FIRST, NODE_A), log(RETRY, NODE_B)]
    other = node("aks-cpu-12345678-vmss000000")
    other["metadata"]["labels"] = {"kubernetes.azure.com/agentpool": "cpu"}
    for listed, gone in ((other, False), (node(NODE_C), True)):
        report = build(logs, [facts(nodes=[listed])])
        assert {verdict.node: verdict.gone for verdict in report.verdicts}[NODE_A] is gone


def test_pool_spot_and_vm_instance_come_from_the_node_or_its_name() -> None:
    attempt = build([log(FIRST, "aks-gpu-12345678-vmss000046")]).attempts[0]
    assert (attempt.pool, attempt.spot, attempt.vm_instance) == ("gpu", None, 150)
    provider = "azure:///x/virtualMachineScaleSets/s/virtualMachines/77"
    known = build(
        [log(FIRST, NODE_A)], [facts(nodes=[node(NODE_A, spot=True, providerID=provider)])]
    ).attempts[0]
    assert (known.pool, known.spot, known.vm_instance) == ("gpu", True, 77)
    assert (pool_of("aksjob00000a"), vm_instance_of("aksjob00000a")) == ("job", 10)
    assert (
        pool_of("ask-agentpool-17631869-vmss0000"),
        vm_instance_of("ask-agentpool-17631869-vmss0000"),
    ) == (
        "agentpool",
        None,
    )
    assert pool_of("virtual-node-aci-linux") is None


def test_two_jobs_of_one_name_are_two_jobs() -> None:
    report = build([log(f"a/{FIRST}", NODE_A), log(f"b/{FIRST}", NODE_B)])
    assert [job.name for job in report.jobs] == ["job (a)", "job (b)"]
    assert report.jobs[0].notes == ("2 jobs have the name job",)
    assert not any(job.retried for job in report.jobs)


def test_a_name_that_several_jobs_have_selects_all_of_them() -> None:
    report = build(
        [
            log(f"a/{FIRST}", NODE_A),
            log(f"b/{FIRST}", NODE_B),
            log(FIRST.replace("job", "job (2)"), NODE_A),
        ]
    )
    assert [job.name for job in report_of_job(report, "job").jobs] == ["job (a)", "job (b)"]
    assert [job.name for job in report_of_job(report, "job (b)").jobs] == ["job (b)"]


def test_one_job_downloaded_twice_is_one_job() -> None:
    report = build(
        [log(f"a/{FIRST}", NODE_A), log(f"b.zip/{FIRST}", NODE_A), log(f"b.zip/{RETRY}", NODE_B)]
    )
    assert [(job.name, job.attempts) for job in report.jobs] == [("job", 2)]
    assert len(report.attempts[0].sources) == 2


def test_folders_with_the_same_name_are_two_jobs_unless_they_share_a_copy_or_the_run_id() -> None:
    apart = [log(f"a/{FIRST}", NODE_A), log(f"b/{RETRY}", NODE_B)]
    assert [job.name for job in build(apart).jobs] == ["job (a)", "job (b)"]
    one_run = [log(f"a/{FIRST}", NODE_A, run_id="r"), log(f"b/{RETRY}", NODE_B, run_id="r")]
    assert [(job.name, job.attempts) for job in build(one_run).jobs] == [("job", 2)]
    other_text = [log(f"a/{FIRST}", NODE_A, digest=1), log(f"b/{FIRST}", NODE_A, digest=2)]
    assert len(build(other_text).jobs) == 2


def test_several_nodes_in_one_log_are_kept_apart_and_none_is_blamed() -> None:
    both = log(FIRST, NODE_A)
    both.nodes.append(NODE_B)
    report = build([both, log(RETRY, NODE_C)])
    assert [(attempt.number, attempt.node) for attempt in report.attempts] == [
        (0, NODE_A),
        (0, NODE_B),
        (1, NODE_C),
    ]
    assert [attempt.cause.blames_node for attempt in report.attempts if attempt.cause] == [
        False,
        False,
    ]


def test_an_attempt_without_a_node_line_is_still_an_attempt() -> None:
    report = build([log(FIRST, None, note="no node line in the log"), log(RETRY, NODE_B)])
    assert [attempt.node for attempt in report.attempts] == [None, NODE_B]
    assert report.jobs[0].attempts == 2


def test_clocks_that_disagree_do_not_change_the_order_and_are_reported() -> None:
    report = build([log(FIRST, NODE_A, start=2000.0), log(RETRY, NODE_B, start=1000.0)])
    assert [attempt.node for attempt in report.attempts] == [NODE_A, NODE_B]
    assert "clocks disagree" in report.jobs[0].notes[0]
    wrong = build([log(FIRST, NODE_A, start=1000.0, start_exact=True)], [facts([pod()])]).attempts[
        0
    ]
    assert "disagree" in wrong.notes[0]
    assert wrong.start == 1772532000.0


def gang(*ranks: tuple[str, str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        pod(uid=f"u-{name}", name=f"azureml-aa-{name}", node=where, containers=list(parts))
        for name, where, parts in ranks
    ]


def test_in_a_gang_the_first_rank_to_fail_is_the_cause_and_the_others_are_collateral() -> None:
    pods = gang(
        ("worker-0", NODE_A, [container(code=1, minute=31)]),
        ("worker-1", NODE_B, [container(reason="OOMKilled", code=137, minute=30)]),
        ("worker-2", NODE_C, [container(code=143, minute=31)]),
    )
    report = build([], [facts(pods)])
    kinds = {attempt.rank: attempt.cause.kind for attempt in report.attempts if attempt.cause}
    assert kinds == {
        "worker-0": CauseKind.GANG,
        "worker-1": CauseKind.OWN_MEMORY,
        "worker-2": CauseKind.GANG,
    }
    assert report.jobs[0].causes == (CauseKind.OWN_MEMORY,)
    assert report.jobs[0].attempts == 1


def test_a_rank_on_a_lost_node_is_the_cause_although_its_end_is_recorded_last() -> None:
    pods = gang(("worker-0", NODE_A, [container(code=1, minute=30)]), ("worker-1", NODE_B, []))
    pods[1]["status"]["conditions"] = pod(disruption="DeletionByTaintManager", disrupted=36)[
        "status"
    ]["conditions"]
    lost = facts(pods, events=[event("NodeNotReady", 30, about=NODE_B)])
    kinds = [attempt.cause.kind for attempt in build([], [lost]).attempts if attempt.cause]
    assert kinds == [CauseKind.GANG, CauseKind.NODE_LOST]


def test_if_it_is_unknown_which_rank_failed_first_no_node_is_blamed() -> None:
    same = gang(
        ("worker-0", NODE_A, [container(code=137)]), ("worker-1", NODE_B, [container(code=137)])
    )
    assert [
        attempt.cause.blames_node for attempt in build([], [facts(same)]).attempts if attempt.cause
    ] == [
        False,
        False,
    ]


def test_the_newest_state_of_an_object_counts_when_it_is_given_twice() -> None:
    old, new = (
        pod(phase="Running"),
        pod(phase="Failed", containers=[container(reason="OOMKilled", code=137)]),
    )
    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"] = "9", "10"
    for order in ([old, new], [new, old]):
        attempts = build([], [facts(order)]).attempts
        assert [attempt.cause.kind for attempt in attempts if attempt.cause] == [
            CauseKind.OWN_MEMORY
        ]


def test_the_result_does_not_depend_on_the_order_of_the_input() -> None:
    logs = [log(FIRST, NODE_A), log(RETRY, NODE_B), log(f"x/{FIRST}", NODE_C)]
    pods = [pod(uid="u1"), pod(uid="u2", node=NODE_B, start=30, phase="Succeeded")]
    events = [event("SystemOOM", 20), event("NodeNotReady", 21)]
    assert build(logs, [facts(pods, events=events)]) == build(
        logs[::-1], [facts(pods[::-1], events=events[::-1])]
    )


def test_a_running_pod_that_was_deleted_is_a_failure_only_with_evidence() -> None:
    deleted = pod(phase="Running")
    deleted["metadata"]["deletionTimestamp"] = "2026-03-03T10:30:00Z"
    silent = build([], [facts([deleted])]).attempts[0]
    assert (silent.outcome, silent.cause) == (RunOutcome.UNKNOWN, None)
    lost = build([], [facts([deleted], events=[event("NodeNotReady", 25)])]).attempts[0]
    assert lost.cause is not None
    assert (lost.outcome, lost.cause.kind) == (RunOutcome.FAILED, CauseKind.NODE_LOST)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ({"phase": "Running", "reason": "NodeLost"}, CauseKind.NODE_LOST),
        ({"phase": "Unknown", "reason": "NodeLost"}, CauseKind.NODE_LOST),
        (
            {"phase": "Running", "containers": [container(reason="OOMKilled", code=137)]},
            CauseKind.OWN_MEMORY,
        ),
    ],
)
def test_a_pod_that_is_lost_or_whose_main_container_ended_has_failed(
    status: dict[str, Any], kind: CauseKind
) -> None:
    (attempt,) = build([], [facts([pod(**status)])]).attempts
    assert attempt.cause is not None
    assert (attempt.outcome, attempt.cause.kind) == (RunOutcome.FAILED, kind)


def test_a_main_container_that_succeeded_in_a_running_pod_is_not_a_failure() -> None:
    running = pod(phase="Running", containers=[container(reason="Completed", code=0)])
    assert build([], [facts([running])]).attempts[0].outcome is RunOutcome.RUNNING


def test_missing_attempts_are_reported() -> None:
    third = "job/system_logs/retry_003/amlarc_cr_bootstrap.log"
    report = build([log(FIRST, NODE_A), log(third, NODE_B)])
    assert (report.jobs[0].attempts, report.jobs[0].missing) == (2, 2)
    assert "no data about attempts 1, 2: the sources have no logs of them" in report.jobs[0].notes
    assert "2 of 4" in overview(report)
    assert "| 2 of 4 |" in to_markdown(report)
    assert report_page.page(report)["jobs"][0]["attempts_text"] == "2 of 4 attempts"
    far = build([log("job/system_logs/retry-999999999/amlarc_cr_bootstrap.log", NODE_B)])
    assert "attempts 0, 1, 2, 3, 4 and more" in far.jobs[0].notes[0]
    assert build([log(FIRST, NODE_A), log(RETRY, NODE_B)]).jobs[0].missing == 0


def joined(report: DiagnosisReport) -> dict[str | None, str]:
    """Pod UID -> the folder of the log that it was matched to."""
    return {
        attempt.pod_uid: attempt.sources[0].split("/")[-2]
        for attempt in report.attempts
        if attempt.sources
    }


def ranks(*folders: str, **starts: float) -> list[LogScan]:
    return [
        log(f"job/system_logs/{folder}/amlarc_cr_bootstrap.log", NODE_A, start=starts.get(folder))
        for folder in folders
    ]


def pods_on_one_node(*names: tuple[str, str, float]) -> list[dict[str, Any]]:
    """Pods of one attempt: rank, UID and start in minutes."""
    return [pod(uid=uid, name=f"azureml-aa-{rank}", start=start) for rank, uid, start in names]


@pytest.mark.parametrize("uids", [("u1", "u2"), ("u2", "u1")])
def test_ranks_on_one_node_are_matched_by_name_before_number(uids: tuple[str, str]) -> None:
    worker, master = uids
    pods = pods_on_one_node(("worker-0", worker, 0), ("master-0", master, 0))
    assert joined(build(ranks("rank_0", "worker-0"), [facts(pods)])) == {
        worker: "worker-0",
        master: "rank_0",
    }


@pytest.mark.parametrize("uids", [("u1", "u2"), ("u2", "u1")])
def test_ranks_on_one_node_are_matched_by_number(uids: tuple[str, str]) -> None:
    pods = pods_on_one_node(("worker-0", uids[0], 0), ("worker-1", uids[1], 0))
    assert joined(build(ranks("rank_0", "rank_1"), [facts(pods)])) == {
        uids[0]: "rank_0",
        uids[1]: "rank_1",
    }


def test_a_log_without_a_rank_fits_better_than_one_with_another_number() -> None:
    logs = [*ranks("10.0.0.5"), log(FIRST, NODE_A)]
    assert joined(build(logs, [facts(pods_on_one_node(("worker-0", "u1", 0)))])) == {
        "u1": "system_logs",
        None: "10.0.0.5",
    }


def test_the_number_of_a_rank_counts_more_than_its_start() -> None:
    ten = ELEVEN - 3600
    logs = ranks("rank_0", "rank_1", rank_0=ten + 600, rank_1=ten)
    pods = pods_on_one_node(("worker-0", "u0", 0), ("worker-1", "u1", 10))
    assert joined(build(logs, [facts(pods)])) == {"u0": "rank_0", "u1": "rank_1"}


def test_a_folder_of_another_name_is_not_joined_if_two_runs_fit() -> None:
    odd = log("odd/system_logs/amlarc_cr_bootstrap.log", NODE_A, start=ELEVEN, start_exact=True)
    one_run, two_runs = (
        [pod(run, uid=run, start=60, name="azureml-aa") for run in runs]
        for runs in (["r1"], ["r1", "r2"])
    )
    assert [job.run_id for job in build([odd], [facts(one_run)]).jobs] == ["r1"]
    assert {job.name: job.run_id for job in build([odd], [facts(two_runs)]).jobs} == {
        "odd": None,
        "r1": "r1",
        "r2": "r2",
    }


def test_of_two_folders_with_one_name_the_pods_belong_to_the_one_with_their_nodes() -> None:
    logs = [
        log(f"{root}/job/system_logs/amlarc_cr_bootstrap.log", node)
        for root, node in (("a", NODE_A), ("b", NODE_B))
    ]
    report = build(logs, [facts([pod(node=NODE_B, uid="u1")])])
    assert {attempt.node: attempt.pod_uid for attempt in report.attempts} == {
        NODE_A: None,
        NODE_B: "u1",
    }


def test_a_truncated_node_name_has_a_pool_but_no_vm_instance() -> None:
    [attempt] = build([log(FIRST, NODE_A, truncated=True)]).attempts
    assert (attempt.pool, attempt.vm_instance) == ("gpu", None)
    [attempt] = build([log(FIRST, NODE_A)]).attempts
    assert (attempt.pool, attempt.vm_instance) == ("gpu", 10)


def test_scans_are_released_only_on_request_and_the_report_is_the_same() -> None:
    scans = [log(FIRST, NODE_A), log(RETRY, NODE_B)]
    kept = build(scans)
    assert len(scans) == 2
    assert build(scans, consume_scans=True) == kept
    assert scans == []
