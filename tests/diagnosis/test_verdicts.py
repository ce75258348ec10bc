"""Which nodes are called bad, which are not, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.assemble.node_signals import EXPLANATIONS
from arc_toolkit.diagnosis.causes import UNKNOWN
from arc_toolkit.diagnosis.judge import node_votes
from arc_toolkit.diagnosis.judge.suggestions import anti_affinity, looks, node_suggestions
from arc_toolkit.diagnosis.judge.verdicts import judge
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    Confidence,
    Evidence,
    EvidenceSource,
    Level,
    RunOutcome,
    Suggestion,
    Verdict,
)
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.report import build
from arc_toolkit.diagnosis.times import parse
from tests.diagnosis.made import (
    NODE_A,
    NODE_B,
    NODE_C,
    at,
    cluster,
    container,
    event,
    facts,
    node,
    pod,
)


def runs(
    where: str, good: int, bad: int, pool: str = "gpu", cause: Cause = UNKNOWN, **more: Any
) -> list[Attempt]:
    """Attempts of as many jobs, whose names do not look like those of one sweep."""
    return [
        Attempt(
            f"{where}-{index}-failed",
            0,
            where,
            pool=pool,
            outcome=RunOutcome.FAILED,
            cause=cause,
            **more,
        )
        for index in range(bad)
    ] + [
        Attempt(f"{where}-good-{index}", 0, where, pool=pool, outcome=RunOutcome.SUCCEEDED, **more)
        for index in range(good)
    ]


def verdict_of(name: str, attempts: list[Attempt], known: ClusterIndex | None = None) -> Verdict:
    verdicts, *_ = judge(attempts, known or ClusterIndex())
    return next(verdict for verdict in verdicts if verdict.node == name)


REST = [attempt for number in range(20) for attempt in runs(f"n{number}", 30, 1)]


def test_a_node_where_far_more_fails_than_in_the_rest_of_its_pool_is_bad() -> None:
    verdict = verdict_of("lemon", [*REST, *runs("lemon", 20, 10)])
    assert verdict.level is Level.BAD
    assert (verdict.failures, verdict.attempts) == (10, 30)
    assert verdict.pool_rate == pytest.approx(20.5 / 621)
    assert verdict.p_value is not None
    assert verdict.p_value < 1e-6
    assert "10 of 30 jobs failed on it; 3 % on the rest of its pool" in verdict.reason


def test_a_node_is_compared_with_its_own_pool_only() -> None:
    rough = [
        attempt for number in range(10) for attempt in runs(f"r{number}", 20, 10, pool="rough")
    ]
    assert verdict_of("r0", [*REST, *rough]).level is not Level.BAD


def test_without_peers_there_is_nothing_to_compare_with() -> None:
    alone = runs("n", 0, 12)
    assert verdict_of("n", alone).level is Level.NOT_ENOUGH_DATA
    silent = [Attempt(f"p{number}", 0, f"n{number}", pool="gpu") for number in range(12)]
    assert verdict_of("n", [*alone, *silent]).level is Level.NOT_ENOUGH_DATA
    assert verdict_of("n", [*alone, *runs("other", 5, 0)]).level is Level.BAD


def test_a_little_more_than_elsewhere_is_suspect_with_its_interval() -> None:
    verdict = verdict_of("odd", [*REST, *runs("odd", 16, 4)])
    assert verdict.level is Level.SUSPECT
    assert verdict.interval == pytest.approx((0.0807, 0.4160), abs=1e-3)
    assert (
        verdict.reason == "4 of 20 jobs failed on it; 3 % on the rest of its pool; it may be chance"
    )


def test_suspect_is_corrected_for_the_number_of_nodes_too() -> None:
    def among(nodes: int) -> Level:
        rest = [
            attempt
            for place in range(nodes)
            for attempt in runs(f"n{place}", 19 + place % 2, 1 - place % 2)
        ]
        return verdict_of("odd", [*rest, *runs("odd", 17, 4)]).level

    assert among(20) is Level.SUSPECT
    assert among(200) is Level.NOT_ENOUGH_DATA


def test_a_significant_but_small_difference_is_suspect() -> None:
    others = [attempt for number in range(30) for attempt in runs(f"n{number}", 98, 2)]
    assert verdict_of("heavy", [*runs("heavy", 274, 26), *others]).level is Level.SUSPECT
    assert verdict_of("heavy", [*runs("heavy", 270, 30), *others]).level is Level.BAD


def test_two_failures_never_make_a_node_bad() -> None:
    others = [attempt for number in range(10) for attempt in runs(f"n{number}", 200, 1)]
    assert verdict_of("few", [*runs("few", 1, 2), *others]).level is Level.SUSPECT
    assert verdict_of("few", [*runs("few", 0, 3), *others]).level is Level.BAD


def test_one_failure_is_never_enough() -> None:
    assert verdict_of("new", [*REST, *runs("new", 0, 1)]).level is Level.NOT_ENOUGH_DATA


def test_ok_says_what_failure_rate_it_excludes() -> None:
    assert (
        verdict_of("n", runs("n", 9, 0)).reason == "9 good jobs exclude a failure rate above 28 %"
    )
    assert (
        verdict_of("n", runs("n", 29, 1)).reason
        == "1 failure in 30 jobs excludes a failure rate above 15 %"
    )
    assert verdict_of("n", runs("n", 8, 0)).level is Level.NOT_ENOUGH_DATA


def test_a_node_that_is_unusual_before_the_correction_is_not_called_ok() -> None:
    assert verdict_of("odd", [*REST, *runs("odd", 36, 4)]).level is Level.NOT_ENOUGH_DATA
    assert verdict_of("odd", [*REST, *runs("odd", 38, 2)]).level is Level.OK


@pytest.mark.parametrize(
    "kind",
    [
        CauseKind.OWN_MEMORY,
        CauseKind.OWN_STORAGE,
        CauseKind.SPOT,
        CauseKind.DRAIN,
        CauseKind.SCALE_DOWN,
        CauseKind.GANG,
        CauseKind.USER,
        CauseKind.CANCELLED,
    ],
)
def test_causes_that_no_node_can_be_blamed_for_count_neither_way(kind: CauseKind) -> None:
    verdict = verdict_of("n", [*REST, *runs("n", 12, 12, cause=Cause(kind, "high"))])
    assert (verdict.failures, verdict.attempts, verdict.level) == (0, 12, Level.OK)


def test_a_job_that_fails_on_three_nodes_is_named_and_blames_none_of_them() -> None:
    broken = [
        Attempt(
            "broken", number, f"n{number}", pool="gpu", outcome=RunOutcome.FAILED, cause=UNKNOWN
        )
        for number in range(3)
    ]
    verdicts, everywhere, *_ = judge([*REST, *broken], ClusterIndex())
    assert everywhere == {"broken"}
    assert {verdict.failures for verdict in verdicts} == {1}
    assert judge(broken[:2], ClusterIndex())[1] == frozenset()


def test_one_failed_attempt_of_a_gang_does_not_make_a_job_that_fails_everywhere() -> None:
    gang = [
        Attempt(
            "gang",
            0,
            f"n{rank}",
            rank=f"worker-{rank}",
            pool="gpu",
            outcome=RunOutcome.FAILED,
            cause=UNKNOWN,
        )
        for rank in range(8)
    ]
    again = [replace(attempt, number=1) for attempt in gang]
    assert judge([*gang, *again], ClusterIndex())[1] == frozenset()
    thrice = [replace(gang[number], number=number) for number in range(3)]
    assert judge(thrice, ClusterIndex())[1] == {"gang"}


def test_of_a_gang_only_the_rank_that_ended_first_counts() -> None:
    tries = [
        Attempt("gang", number, where, rank=rank, outcome=RunOutcome.FAILED, cause=UNKNOWN, end=end)
        for number in range(3)
        for rank, where, end in (("worker-0", f"n{number}", 20.0), ("worker-1", "lemon", 10.0))
    ]
    assert judge(tries, ClusterIndex())[1] == frozenset()


def test_a_job_that_succeeded_in_the_end_does_not_fail_everywhere_but_blames_no_node() -> None:
    tries = [
        Attempt("job", number, f"n{number}", pool="gpu", outcome=RunOutcome.FAILED, cause=UNKNOWN)
        for number in range(3)
    ]
    done = Attempt("job", 3, "n3", pool="gpu", outcome=RunOutcome.SUCCEEDED)
    verdicts, everywhere, *_ = judge([*tries, done], ClusterIndex())
    assert everywhere == frozenset()
    assert {verdict.failures for verdict in verdicts} == {0}
    assert "1 attempt of jobs that failed on many nodes left out" in verdicts[0].reason


def test_only_attempts_whose_end_is_known_are_counted() -> None:
    for outcome in (RunOutcome.UNKNOWN, RunOutcome.RUNNING):
        silent = [
            Attempt(f"j{number}", 0, "n", pool="gpu", outcome=outcome) for number in range(12)
        ]
        verdict = verdict_of("n", silent)
        assert (verdict.attempts, verdict.level) == (0, Level.NOT_ENOUGH_DATA)
        assert verdict.reason == "no attempt on it counts"
    assert verdict_of(NODE_A, [], cluster(nodes=[node()])).reason == "no attempt ran on it"


def test_a_job_that_was_preempted_three_times_does_not_fail_everywhere() -> None:
    taken = [
        Attempt(
            "job",
            number,
            f"n{number}",
            outcome=RunOutcome.FAILED,
            cause=Cause(CauseKind.SPOT, "high"),
        )
        for number in range(4)
    ]
    assert judge(taken, ClusterIndex())[1] == frozenset()


def test_a_job_that_brings_every_node_out_of_memory_makes_no_node_bad() -> None:
    names = [NODE_A, NODE_B, NODE_C]
    pods = [
        pod(
            "greedy",
            where,
            f"u{number}",
            start=40 * number,
            containers=[container(code=137, minute=40 * number + 30)],
        )
        for number, where in enumerate(names)
    ]
    events = [
        event("SystemOOM", 40 * number + 30, about=where) for number, where in enumerate(names)
    ]
    report = build([], [facts(pods, [node(name) for name in names], events)])
    assert [job.fails_everywhere for job in report.jobs] == [True]
    assert {verdict.level for verdict in report.verdicts} == {Level.NOT_ENOUGH_DATA}


def test_direct_evidence_makes_a_node_bad_without_statistics() -> None:
    proof = Cause(
        CauseKind.NODE_MEMORY,
        "high",
        (Evidence(EvidenceSource.NODE_EVENT, "SystemOOM", "out of memory", 5.0),),
        blames_node=True,
    )
    verdict = verdict_of("n", runs("n", 30, 1, cause=proof))
    assert verdict.level is Level.BAD
    assert verdict.reason.startswith("SystemOOM")


@pytest.mark.parametrize(
    ("kind", "status", "level"),
    [
        ("Ready", "False", Level.BAD),
        ("Ready", "Unknown", Level.BAD),
        ("ReadonlyFilesystem", "True", Level.BAD),
        ("FrequentKubeletRestart", "True", Level.BAD),
        ("MemoryPressure", "True", Level.SUSPECT),
        ("kubernetes.azure.com/NodeHealthy", "False", Level.BAD),
        ("kubernetes.azure.com/NodeHealthy", "True", Level.NOT_ENOUGH_DATA),
        ("KernelDeadlock", "False", Level.NOT_ENOUGH_DATA),
        ("BrandNewCondition", "True", Level.NOT_ENOUGH_DATA),
    ],
)
def test_what_a_node_reports_itself(kind: str, status: str, level: Level) -> None:
    conditions = [{"type": kind, "status": status, "lastTransitionTime": at(0)}]
    assert verdict_of(NODE_A, [], cluster(nodes=[node(conditions=conditions)])).level is level


def test_the_last_conditions_of_a_node_that_is_gone_do_not_make_it_bad() -> None:
    gone = node(conditions=[{"type": "Ready", "status": "Unknown", "lastTransitionTime": at(0)}])
    gone["metadata"]["deletionTimestamp"] = at(5)
    assert verdict_of(NODE_A, [], cluster(nodes=[gone])).level is Level.NOT_ENOUGH_DATA


@pytest.mark.parametrize("notice", ["PreemptScheduled", "ScaleDown", "RedeployScheduled"])
def test_a_node_that_was_removed_is_not_bad_for_being_gone(notice: str) -> None:
    assert verdict_of(NODE_A, [], cluster(events=[event("NodeNotReady", 10)])).level is Level.BAD
    events = [event(notice, 8), event("NodeNotReady", 10)]
    assert verdict_of(NODE_A, [], cluster(events=events)).level is Level.NOT_ENOUGH_DATA


NOTICES = {
    "third-party preempt": [
        event("Unhealthy", 8, message="Node 'x' will change into status 'Preempt'")
    ],
    "scale-down long before": [event("ScaleDown", -10)],
    "cordon": [event("NodeNotSchedulable", 3)],
}


@pytest.mark.parametrize("notice", NOTICES.values(), ids=NOTICES.keys())
@pytest.mark.parametrize("loss", ["NodeNotReady", "Rebooted"])
def test_what_was_planned_makes_no_node_bad_nor_its_failures_blame_it(
    notice: list[Any], loss: str
) -> None:
    known = cluster(events=[*notice, event(loss, 10)])
    assert verdict_of(NODE_A, [], known).level is Level.NOT_ENOUGH_DATA
    killed = pod(containers=[container(code=137, minute=11)])
    (attempt,) = build([], [facts([killed], events=[*notice, event(loss, 10)])]).attempts
    assert attempt.cause is not None
    assert attempt.cause.kind in EXPLANATIONS
    assert not attempt.cause.blames_node


def test_a_cordon_after_the_loss_or_undone_before_explains_nothing() -> None:
    after = cluster(events=[event("NodeNotReady", 10), event("NodeNotSchedulable", 12)])
    assert verdict_of(NODE_A, [], after).level is Level.BAD
    undone = cluster(
        events=[
            event("NodeNotSchedulable", 1),
            event("NodeSchedulable", 5),
            event("NodeNotReady", 10),
        ]
    )
    assert verdict_of(NODE_A, [], undone).level is Level.BAD


def test_a_node_that_is_cordoned_now_and_was_before_it_was_lost_is_not_bad() -> None:
    lost = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": at(10)}]
    for minute, level in ((5, Level.NOT_ENOUGH_DATA), (15, Level.BAD)):
        taints = [{"key": "node.kubernetes.io/unschedulable", "timeAdded": at(minute)}]
        known = cluster(nodes=[node(conditions=lost, taints=taints)])
        assert verdict_of(NODE_A, [], known).level is level


def test_a_node_whose_pods_were_evicted_through_the_api_was_drained() -> None:
    evicted = pod("other", disruption="EvictionByEvictionAPI", disrupted=5)
    known = cluster([evicted], events=[event("NodeNotReady", 10)])
    assert verdict_of(NODE_A, [], known).level is Level.NOT_ENOUGH_DATA


@pytest.mark.parametrize(("spot", "level"), [(True, Level.NOT_ENOUGH_DATA), (False, Level.BAD)])
def test_a_spot_node_that_is_gone_was_reclaimed(spot: bool, level: Level) -> None:
    events = [event("NodeNotReady", 10)]
    known = cluster(
        nodes=[node(NODE_B, spot=spot)], events=events
    )  # of the same pool; NODE_A is in no list
    assert verdict_of(NODE_A, [], known).level is level
    killed = pod(containers=[container(code=137, minute=11)])
    (attempt,) = build([], [facts([killed], [node(NODE_B, spot=spot)], events)]).attempts
    assert attempt.cause is not None
    assert attempt.cause.kind is (CauseKind.SPOT if spot else CauseKind.NODE_LOST)
    back = cluster(nodes=[node(NODE_B, spot=True)], events=[*events, event("NodeReady", 12)])
    assert "NodeNotReady" in verdict_of(NODE_A, [], back).reason  # a flap, and not a reclaimed VM


def test_a_spot_node_whose_pods_were_removed_because_it_was_gone_was_reclaimed() -> None:
    removed = pod(disruption="DeletionByPodGC", disrupted=15)
    for spot in (True, False):
        known = cluster([removed], [node(spot=spot)], [event("NodeNotReady", 10)])
        assert ("NodeNotReady" in verdict_of(NODE_A, [], known).reason) is not spot


def test_a_node_that_is_gone_gets_no_command_that_needs_it() -> None:
    known = cluster(nodes=[node(NODE_B)], events=[event("SystemOOM", 10)])
    verdict = verdict_of(NODE_A, [], known)
    assert (verdict.level, verdict.gone) == (Level.BAD, True)
    assert not any("cordon" in line.text or "describe" in line.text for line in verdict.suggestions)
    assert "the node no longer exists" in verdict.suggestions[1].text


@pytest.mark.parametrize("reason", ["NodeRebootError", "NodeReimageError", "NodeRedeployError"])
def test_a_repair_that_failed_is_a_fault_and_cuts_no_history(reason: str) -> None:
    before = runs(NODE_A, 3, 1, start=1772532000.0)
    events = [event(reason.replace("Error", "Start"), 20), event(reason, 30)]
    verdict = verdict_of(NODE_A, [*REST, *before], cluster(events=events))
    assert (verdict.level, verdict.attempts, verdict.since) == (Level.BAD, 4, None)
    assert reason in verdict.reason


def test_oomkilling_of_the_node_problem_detector_makes_no_node_bad() -> None:
    assert (
        verdict_of(NODE_A, [], cluster(events=[event("OOMKilling", 10)])).level
        is Level.NOT_ENOUGH_DATA
    )


@pytest.mark.parametrize("reason", ["NodeReimageEnd", "NodeRedeployEnd"])
def test_attempts_before_the_vm_was_replaced_do_not_count(reason: str) -> None:
    before = runs(NODE_A, 0, 10, start=1772532000.0)  # 10:00
    events = [event("SystemOOM", 5), event(reason, 30)]
    verdict = verdict_of(NODE_A, [*REST, *before], cluster(events=events))
    assert (verdict.attempts, verdict.level) == (0, Level.NOT_ENOUGH_DATA)
    assert "10 older not counted" in verdict.reason
    assert verdict.since == 1772533800.0


def test_attempts_before_a_node_was_created_again_do_not_count() -> None:
    before = runs(NODE_A, 0, 10, start=1772532000.0)
    known = cluster(nodes=[node(NODE_A, uid="old"), node(NODE_A, uid="new", created=at(30))])
    assert verdict_of(NODE_A, [*REST, *before], known).attempts == 0
    assert verdict_of(NODE_A, [*REST, *before], cluster(nodes=[node(NODE_A)])).level is Level.BAD


def test_a_truncated_name_blames_no_node() -> None:
    verdicts, *_ = judge(runs("aks-gpu-1", 0, 10, node_truncated=True), ClusterIndex())
    assert verdicts == []


def test_a_bad_node_comes_with_sentences_and_commands() -> None:
    verdict = verdict_of(NODE_A, [], cluster(nodes=[node()], events=[event("SystemOOM", 10)]))
    assert verdict.suggestions[0].text.startswith("look at memory")
    assert Suggestion(f"kubectl describe node {NODE_A}", is_command=True) in verdict.suggestions
    assert any(
        line.is_command and line.text.startswith(f"kubectl cordon {NODE_A}")
        for line in verdict.suggestions
    )
    assert any("VM instance 10" in line.text for line in verdict.suggestions)


def test_no_command_is_made_from_what_is_not_a_node_name() -> None:
    evil = "x; rm -rf ~"
    verdict = verdict_of(evil, [], cluster(events=[event("SystemOOM", 10, about=evil)]))
    assert verdict.level is Level.BAD
    assert not any("kubectl" in line.text for line in verdict.suggestions)
    assert "rm" not in anti_affinity([evil])


def test_the_anti_affinity_is_soft_and_valid_yaml() -> None:
    import yaml

    terms = yaml.safe_load(anti_affinity([NODE_A]))["affinity"]["nodeAffinity"]
    (term,) = terms["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["preference"]["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [NODE_A]}
    ]


@pytest.mark.parametrize(
    ("notice", "level"),
    [
        (119, Level.BAD),
        (121, Level.NOT_ENOUGH_DATA),
        (194, Level.NOT_ENOUGH_DATA),
        (196, Level.BAD),
    ],
)
def test_a_notice_explains_a_loss_up_to_an_hour_later_or_a_quarter_of_an_hour_before(
    notice: float, level: Level
) -> None:
    known = cluster(events=[event("NodeNotReady", 180), event("PreemptScheduled", notice)])
    assert verdict_of(NODE_A, [], known).level is level


@pytest.mark.parametrize("reason", ["SystemOOM", "NodeNotReady"])
@pytest.mark.parametrize(("minute", "level"), [(24, Level.NOT_ENOUGH_DATA), (26, Level.BAD)])
def test_problems_up_to_a_quarter_of_an_hour_after_a_job_that_fails_everywhere_are_blamed_on_it(
    minute: float, level: Level, reason: str
) -> None:
    start = 1772532000.0  # minute 0
    tried = [
        Attempt(
            "j",
            number,
            name,
            outcome=RunOutcome.FAILED,
            cause=UNKNOWN,
            start=start,
            end=start + 600,
            pool="gpu",
        )
        for number, name in enumerate((NODE_B, NODE_C, NODE_A))
    ]
    assert verdict_of(NODE_A, tried, cluster(events=[event(reason, minute)])).level is level


def test_nine_attempts_without_a_failure_are_ok_and_eight_are_not() -> None:
    assert verdict_of("n", runs("n", 9, 0)).level is Level.OK
    assert verdict_of("n", runs("n", 8, 0)).level is Level.NOT_ENOUGH_DATA


def test_a_job_whose_last_attempt_failed_on_one_rank_did_not_succeed() -> None:
    failed = {"outcome": RunOutcome.FAILED, "cause": UNKNOWN, "pool": "gpu"}
    tried = [Attempt("j", number, f"n{number}", **failed) for number in range(3)]  # type: ignore[arg-type]
    last = Attempt("j", 2, "n3", rank="worker-1", outcome=RunOutcome.SUCCEEDED, pool="gpu")
    assert judge([*tried, last], ClusterIndex())[1] == {"j"}
    assert judge([*tried, replace(last, number=3)], ClusterIndex())[1] == frozenset()


def test_the_reason_of_a_verdict_is_the_evidence_that_explains_the_rest() -> None:
    known = cluster(
        events=[event("SystemOOM", 10), event("NodeNotReady", 11), event("Rebooted", 12)]
    )
    verdict = verdict_of(NODE_A, [], known)
    assert verdict.reason.startswith("SystemOOM: ")
    assert verdict.suggestions[0].text.startswith("look at memory")


@pytest.mark.parametrize("reason", ["TaskHung", "DNSProblem", "PodIPProblem"])
def test_an_event_with_low_confidence_makes_no_node_bad(reason: str) -> None:
    assert (
        verdict_of(NODE_A, [], cluster(events=[event(reason, 10)])).level is Level.NOT_ENOUGH_DATA
    )


@pytest.mark.parametrize(
    ("confidence", "level"), [("low", Level.NOT_ENOUGH_DATA), ("medium", Level.BAD)]
)
def test_a_guess_about_an_attempt_does_not_prove_that_its_node_is_bad(
    confidence: Confidence, level: Level
) -> None:
    evidence = Evidence(EvidenceSource.PRS, "node memory", "memory of the node was 97 % full", 5.0)
    guess = Cause(CauseKind.NODE_MEMORY, confidence, (evidence,), blames_node=True)
    assert verdict_of(NODE_A, runs(NODE_A, 0, 1, cause=guess)).level is level


def deadlock(minute: float) -> list[dict[str, Any]]:
    return [{"type": "KernelDeadlock", "status": "True", "lastTransitionTime": at(minute)}]


def test_a_fault_that_the_node_still_shows_is_present_even_if_an_attempt_had_the_same_evidence() -> (
    None
):
    failed = pod(containers=[container(code=137, minute=30)])
    report = build([], [facts([failed, *LATER], [node(conditions=deadlock(29)), node(NODE_B)])])
    assert {verdict.node: verdict.level for verdict in report.verdicts}[NODE_A] is Level.BAD


LATER = [
    pod(
        "later",
        NODE_B,
        "uid-9",
        phase="Succeeded",
        start=600,
        containers=[container(code=0, minute=700)],
    )
]


def flaps(*minutes: float, about: str = NODE_A) -> list[dict[str, Any]]:
    return [
        item
        for minute in minutes
        for item in (
            event("NodeNotReady", minute, about=about),
            event("NodeReady", minute + 3, about=about),
        )
    ]


def test_one_old_flap_that_was_followed_by_good_attempts_is_recovered() -> None:
    good = [
        pod(
            f"g{number}",
            uid=f"u{number}",
            phase="Succeeded",
            start=20,
            containers=[container(code=0, minute=40)],
        )
        for number in range(3)
    ]
    report = build([], [facts([*good, *LATER], [node(), node(NODE_B)], flaps(10))])
    verdict = next(item for item in report.verdicts if item.node == NODE_A)
    assert verdict.level is Level.RECOVERED
    assert (
        verdict.reason == "recovered, 3 good attempts since NodeNotReady: the node became NotReady"
    )
    assert verdict.suggestions == ()


@pytest.mark.parametrize(
    ("minutes", "level"),
    [((10,), Level.RECOVERED), ((671,), Level.NOT_ENOUGH_DATA), ((10, 200), Level.NOT_ENOUGH_DATA)],
)
def test_one_flap_is_over_if_the_node_is_ready_for_half_an_hour(
    minutes: tuple[float, ...], level: Level
) -> None:
    report = build([], [facts(LATER, [node(), node(NODE_B)], flaps(*minutes))])  # data end at 700
    verdict = next(item for item in report.verdicts if item.node == NODE_A)
    assert verdict.level is level
    assert "NodeNotReady" in verdict.reason
    assert "good attempts" not in verdict.reason


def test_a_flap_of_a_node_that_is_not_known_to_be_ready_is_not_over() -> None:
    report = build([], [facts(LATER, None, flaps(10))])
    verdict = next(item for item in report.verdicts if item.node == NODE_A)
    assert verdict.level is Level.NOT_ENOUGH_DATA
    assert verdict.reason.startswith("over, but no attempt has succeeded since: NodeNotReady")


def stuck(where: str, run: str, start: float = 600) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod whose sandbox cannot be created, and the event that says so."""
    name = f"azureml-{run}-worker-0"
    text = 'Failed to create pod sandbox: plugin type="azure-vnet" failed (add): connection refused'
    said = event(
        "FailedCreatePodSandBox",
        start + 1,
        about=name,
        kind="Pod",
        namespace="azureml",
        uid=run,
        message=text,
    )
    return pod(run, where, run, name=name, phase="Pending", start=start), said


@pytest.mark.parametrize(
    ("runs_there", "places", "level"),
    [
        (2, 1, Level.SUSPECT),
        (1, 1, Level.NOT_ENOUGH_DATA),  # may be the pod
        (2, 2, Level.NOT_ENOUGH_DATA),  # of ten: the network of the cluster
    ],
)
def test_a_node_on_which_no_sandbox_can_be_created_is_suspect(
    runs_there: int, places: int, level: Level
) -> None:
    nodes = [NODE_A, *(f"{NODE_A[:-1]}{number}" for number in range(9))]
    pairs = [
        stuck(where, f"s{place}{number}")
        for place, where in enumerate(nodes[:places])
        for number in range(runs_there)
    ]
    pods, events = [made for made, _ in pairs], [said for _, said in pairs]
    report = build([], [facts([*pods, *LATER], list(map(node, nodes)), events)])
    verdict = next(item for item in report.verdicts if item.node == NODE_A)
    assert verdict.level is level


def test_a_job_that_started_since_clears_a_node_without_sandboxes() -> None:
    pairs = [stuck(NODE_A, "s1"), stuck(NODE_A, "s2")]
    works = pod("works", NODE_A, "u8", phase="Running", start=640)
    made = facts(
        [*(item for item, _ in pairs), works, *LATER], [node()], [said for _, said in pairs]
    )
    verdict = next(item for item in build([], [made]).verdicts if item.node == NODE_A)
    assert verdict.level is Level.NOT_ENOUGH_DATA


@pytest.mark.parametrize(("minute", "level"), [(641, Level.BAD), (639, Level.NOT_ENOUGH_DATA)])
def test_an_event_without_an_end_is_about_the_present_for_an_hour(
    minute: float, level: Level
) -> None:
    report = build(
        [], [facts(LATER, [node(), node(NODE_B)], [event("SystemOOM", minute)])]
    )  # data end at 700
    assert {verdict.node: verdict.level for verdict in report.verdicts}[NODE_A] is level


def test_something_that_succeeded_after_the_event_shows_that_it_is_over() -> None:
    good = pod("good", phase="Succeeded", start=650, containers=[container(code=0, minute=690)])
    report = build([], [facts([good, *LATER], [node(), node(NODE_B)], [event("SystemOOM", 660)])])
    assert {verdict.node: verdict.level for verdict in report.verdicts}[NODE_A] is Level.RECOVERED


def test_a_heartbeat_is_the_end_of_the_data_too() -> None:
    for minute, level in ((30, Level.BAD), (100, Level.NOT_ENOUGH_DATA)):
        ready = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": at(0),
            "lastHeartbeatTime": at(minute),
        }
        known = cluster(nodes=[node(conditions=[ready])], events=[event("SystemOOM", 10)])
        assert verdict_of(NODE_A, [], known).level is level


PEERS = [f"aks-gpu-12345678-vmss0000{number:02d}" for number in range(10)]


@pytest.mark.parametrize(("times", "level"), [(1, Level.RECOVERED), (4, Level.BAD)])
def test_flaps_that_recur_and_that_the_pool_does_not_have_make_a_node_bad(
    times: int, level: Level
) -> None:
    nodes = [node(), *map(node, PEERS)]
    own = flaps(*(100.0 * number for number in range(times)))
    report = build([], [facts(LATER, nodes, own)])
    verdict = next(item for item in report.verdicts if item.node == NODE_A)
    assert verdict.level is level
    if level is Level.BAD:
        assert verdict.reason.startswith("4 times, more than the rest of its pool: NodeNotReady")
        assert verdict.suggestions[0].text.startswith("look at kubelet and network")


def test_flaps_that_all_nodes_have_make_none_of_them_bad() -> None:
    nodes = [node(), *map(node, PEERS)]
    events = [
        item
        for place, name in enumerate([NODE_A, *PEERS])
        for item in flaps(*(140.0 * number + 12 * place for number in range(4)), about=name)
    ]
    assert {verdict.level for verdict in build([], [facts(LATER, nodes, events)]).verdicts} == {
        Level.NOT_ENOUGH_DATA
    }


def test_symptoms_within_half_an_hour_are_one_episode() -> None:
    nodes = [node(), *map(node, PEERS)]
    report = build([], [facts(LATER, nodes, flaps(0, 10, 20, 30))])
    assert {verdict.node: verdict.level for verdict in report.verdicts}[NODE_A] is Level.RECOVERED


@pytest.mark.parametrize(("times", "level"), [(2, Level.NOT_ENOUGH_DATA), (3, Level.BAD)])
def test_three_episodes_in_a_week_are_recurrent_if_there_is_no_pool(
    times: int, level: Level
) -> None:
    later = event("Starting", 700)
    known = cluster(
        nodes=[node()], events=[*flaps(*(100.0 * number for number in range(times))), later]
    )
    assert verdict_of(NODE_A, [], known).level is level


def test_one_broken_sweep_has_one_vote_per_node() -> None:
    sweep = [replace(attempt, family="sweep") for attempt in runs("lemon", 0, 30)]
    verdict = verdict_of("lemon", [*REST, *sweep])
    assert (verdict.failures, verdict.attempts, verdict.level) == (1, 1, Level.NOT_ENOUGH_DATA)


def test_a_vote_is_a_failure_if_half_of_the_family_failed() -> None:
    def family(good: int, bad: int) -> list[Attempt]:
        return [replace(attempt, family="sweep") for attempt in runs("n", good, bad)]

    assert verdict_of("n", [*REST, *family(2, 2)]).failures == 1
    assert verdict_of("n", [*REST, *family(3, 2)]).failures == 0


def test_failures_of_a_node_within_minutes_are_one() -> None:
    def lost(*ends: float) -> list[Attempt]:
        return [
            replace(attempt, end=end)
            for attempt, end in zip(runs("n", 0, len(ends)), ends, strict=True)
        ]

    assert verdict_of("n", [*REST, *lost(0, 500, 1000, 5000)]).failures == 2
    assert (
        verdict_of("n", [*REST, *lost(0, 700, 1400)]).failures == 1
    )  # none of them succeeded: maybe one sweep
    later = [
        replace(attempt, number=1, node="n1", outcome=RunOutcome.SUCCEEDED, cause=None)
        for attempt in lost(0, 0, 0)
    ]
    assert verdict_of("n", [*REST, *lost(0, 700, 1400), *later]).failures == 3


def test_jobs_that_differ_in_a_number_and_never_succeed_may_be_one_sweep() -> None:
    def day(job: str, number: int, outcome: RunOutcome = RunOutcome.FAILED) -> Attempt:
        cause = UNKNOWN if outcome is RunOutcome.FAILED else None
        return Attempt(job, 0, "n", pool="gpu", outcome=outcome, cause=cause, end=86400.0 * number)

    trials = [day(f"mine_{number}", number) for number in range(5)]
    assert verdict_of("n", [*REST, *trials]).failures == 1
    assert verdict_of("n", [*REST, *trials, day("mine_9", 9, RunOutcome.SUCCEEDED)]).failures == 5
    assert (
        verdict_of("n", [*REST, *(day(f"job{number}x", number) for number in range(5))]).failures
        == 5
    )


USER_ELSEWHERE = Cause(CauseKind.USER, "medium", countable=True)


def test_an_error_of_the_job_counts_if_the_job_then_succeeded_elsewhere() -> None:
    assert (
        verdict_of("lemon", [*REST, *runs("lemon", 10, 8, cause=USER_ELSEWHERE)]).level is Level.BAD
    )
    assert (
        verdict_of(
            "lemon", [*REST, *runs("lemon", 10, 8, cause=Cause(CauseKind.USER, "medium"))]
        ).failures
        == 0
    )


def test_a_job_that_failed_on_two_nodes_without_evidence_does_not_vote_but_evidence_does() -> None:
    def tried(second: Cause) -> list[Attempt]:
        made = {"pool": "gpu", "outcome": RunOutcome.FAILED}
        return [
            Attempt("job", 0, "a", cause=UNKNOWN, **made),  # type: ignore[arg-type]
            Attempt("job", 1, "b", cause=second, **made),  # type: ignore[arg-type]
        ]

    assert verdict_of("a", [*REST, *tried(UNKNOWN)]).failures == 0
    lost = Cause(
        CauseKind.NODE_LOST, "high", (Evidence(EvidenceSource.NODE_EVENT, "NodeNotReady"),), True
    )
    assert verdict_of("a", [*REST, *tried(lost)]).failures == 1
    assert verdict_of("b", [*REST, *tried(lost)]).failures == 1


@pytest.mark.parametrize(("spot", "failures"), [(False, 3), (True, 0)])
def test_a_failure_without_evidence_on_a_spot_vm_is_taken_for_a_reclaim(
    spot: bool, failures: int
) -> None:
    assert verdict_of("n", [*REST, *runs("n", 9, 3, spot=spot)]).failures == failures


def test_a_process_that_was_asked_to_stop_says_nothing_about_its_node() -> None:
    stopped = replace(UNKNOWN, evidence=(Evidence(EvidenceSource.EXIT_CODE, "143"),))
    assert verdict_of("n", [*REST, *runs("n", 9, 3, cause=stopped)]).failures == 0


def gang(*causes: Cause, end: float = 50.0) -> list[Attempt]:
    return [
        Attempt(
            "gang",
            0,
            f"n{place}",
            rank=f"worker-{place}",
            pool="gpu",
            outcome=RunOutcome.FAILED,
            cause=cause,
            end=end,
        )
        for place, cause in enumerate(causes)
    ]


def test_of_a_gang_only_the_root_votes() -> None:
    collateral = Cause(CauseKind.GANG, "medium")
    stopped = replace(UNKNOWN, evidence=(Evidence(EvidenceSource.EXIT_CODE, "143"),))
    found = {
        verdict.node: verdict.failures
        for verdict in judge(gang(collateral, UNKNOWN, stopped), ClusterIndex())[0]
    }
    assert found == {"n0": 0, "n1": 1, "n2": 0}


def test_ranks_of_a_gang_that_end_first_at_once_share_the_blame_however_many_follow() -> None:
    first = gang(UNKNOWN, UNKNOWN)
    later = [replace(rank, end=(rank.end or 0) + 5) for rank in gang(*[UNKNOWN] * 9)[2:]]
    found = [
        (failure.attempt.node, failure.suspects)
        for failure in node_votes.failures([*first, *later])
    ]
    assert found == [("n0", 2), ("n1", 2)]


def test_a_failed_gang_of_which_every_rank_may_be_the_first_is_hardly_a_failure_of_each_node() -> (
    None
):
    judged = judge([*gang(*[UNKNOWN] * 4), *runs("n0", 20, 0)], ClusterIndex())[0]
    assert {verdict.node: (verdict.failures, verdict.attempts) for verdict in judged}["n0"] == (
        0,
        21,
    )


def test_a_sweep_that_fails_on_many_of_its_nodes_does_not_vote() -> None:
    def sweep(bad: int, good: int) -> list[Attempt]:
        failed = [attempt for place in range(bad) for attempt in runs(f"n{place}", 0, 1)]
        fine = [attempt for place in range(bad, bad + good) for attempt in runs(f"n{place}", 1, 0)]
        return [replace(attempt, family="sweep") for attempt in (*failed, *fine)]

    assert {verdict.attempts for verdict in judge(sweep(3, 5), ClusterIndex())[0]} == {0}
    assert {verdict.attempts for verdict in judge(sweep(3, 9), ClusterIndex())[0]} == {1}


def test_a_pool_whose_nodes_differ_anyway_convicts_less() -> None:
    even = [attempt for place in range(40) for attempt in runs(f"e{place}", 18, 2)]
    uneven = [
        attempt
        for place in range(40)
        for attempt in runs(f"e{place}", *((20, 0) if place % 3 else (14, 6)))
    ]
    assert verdict_of("odd", [*even, *runs("odd", 10, 10)]).level is Level.BAD
    assert verdict_of("odd", [*uneven, *runs("odd", 10, 10)]).level is not Level.BAD


def test_several_bad_nodes_do_not_hide_each_other() -> None:
    lemons = [attempt for place in range(3) for attempt in runs(f"lemon{place}", 21, 9)]
    mild = runs("mild", 25, 5)
    rest = [attempt for place in range(40) for attempt in runs(f"e{place}", 30, 0)]
    assert verdict_of("mild", [*rest, *mild, *lemons]).level is Level.BAD


def test_only_the_worst_tenth_of_a_pool_is_to_be_cordoned() -> None:
    names = [f"aks-gpu-12345678-vmss0000{number:02d}" for number in range(30)]
    down = {"type": "Ready", "status": "Unknown"}
    nodes = [
        node(name, conditions=[{**down, "lastTransitionTime": at(20 * place)}])
        if place < 8
        else node(name)
        for place, name in enumerate(names)
    ]
    verdicts, _, incidents, _ = judge([], cluster(nodes=nodes))
    bad = [verdict for verdict in verdicts if verdict.level is Level.BAD]
    cordoned = [
        verdict
        for verdict in bad
        if any("kubectl cordon" in line.text for line in verdict.suggestions)
    ]
    assert (len(bad), len(cordoned), incidents) == (8, 3, [])
    told = [
        line.text
        for verdict in bad
        for line in verdict.suggestions
        if "do not cordon them all" in line.text
    ]
    assert len(told) == 5
    assert told[0].startswith("8 of 30 nodes of its pool are bad")


@pytest.mark.parametrize(
    ("reason", "level"),
    [
        ("StartError", Level.BAD),  # the driver is not loaded until somebody loads it
        ("Xid 79", Level.BAD),
        ("ContainerRuntimeIsDown", Level.NOT_ENOUGH_DATA),  # a service that systemd starts again
        ("IBLinkFlapping", Level.NOT_ENOUGH_DATA),
    ],
)
def test_a_fault_lasts_until_something_shows_that_it_is_over(reason: str, level: Level) -> None:
    evidence = Evidence(EvidenceSource.CONTAINER, reason, "a fault", 600.0)
    cause = Cause(CauseKind.NODE_FAULT, "high", (evidence,), blames_node=True)
    fault = runs(NODE_A, 0, 1, cause=cause, end=600.0)
    later = runs(NODE_B, 1, 0, end=20_000.0)  # the end of the data, hours later
    assert verdict_of(NODE_A, [*fault, *later]).level is level
    since = runs(NODE_A, 1, 0, end=6000.0)
    assert verdict_of(NODE_A, [*fault, *later, *since]).level is Level.RECOVERED
    running = [replace(since[0], outcome=RunOutcome.RUNNING, start=6000.0, end=None)]
    assert verdict_of(NODE_A, [*fault, *later, *running]).level is Level.NOT_ENOUGH_DATA
    rebooted = cluster(nodes=[node()], events=[event("Rebooted", 1)])  # in 2026, after the fault
    assert verdict_of(NODE_A, [*fault, *later], rebooted).level is not Level.BAD


@pytest.mark.parametrize(
    ("reason", "conditions", "level"),
    [
        ("GPUMissing", (), Level.BAD),
        ("GPUMissing", ("GPUMissing",), Level.NOT_ENOUGH_DATA),  # its check passes again
        ("GPUMissing", ("XIDErrors",), Level.BAD),
        ("XIDErrors", ("XIDErrors",), Level.BAD),  # each line of the kernel's log is reported once
        ("FilesystemCorruptionDetected", ("FilesystemCorruptionProblem",), Level.NOT_ENOUGH_DATA),
    ],
)
def test_a_check_that_passes_again_ends_a_fault(
    reason: str, conditions: tuple[str, ...], level: Level
) -> None:
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": at(0),
        "lastHeartbeatTime": at(300),
    }
    checks = [
        {"type": name, "status": "False", "lastTransitionTime": at(20)} for name in conditions
    ]
    known = cluster(nodes=[node(conditions=[ready, *checks])], events=[event(reason, 10)])
    assert verdict_of(NODE_A, [], known).level is level


@pytest.mark.parametrize(
    ("minutes", "good", "level"),
    [
        ((0, 300, 600), None, Level.SUSPECT),
        ((0, 300), None, Level.NOT_ENOUGH_DATA),
        ((0, 300, 800), None, Level.NOT_ENOUGH_DATA),  # more than 12 hours
        ((0, 300, 600), 400, Level.NOT_ENOUGH_DATA),
    ],
)
def test_a_node_that_is_lost_three_times_in_half_a_day_is_suspect_if_nothing_succeeds_in_between(
    minutes: tuple[int, ...], good: int | None, level: Level
) -> None:
    known = cluster(nodes=[node(), node(NODE_B), node(NODE_C)], events=flaps(*map(float, minutes)))
    ten = 1772532000.0  # minute 0 of made.at
    lost = [
        Evidence(
            EvidenceSource.NODE_EVENT, "NodeNotReady", "the node became NotReady", ten + 60 * minute
        )
        for minute in minutes
    ]
    attempts = runs(NODE_B, len(minutes), 0, end=ten + 60 * 700)
    for number, evidence in enumerate(lost):
        cause = Cause(CauseKind.NODE_LOST, "high", (evidence,), blames_node=True)
        attempts += runs(NODE_A, 0, 1, cause=cause, end=evidence.time, family=f"job-{number}")
    attempts += runs(NODE_A, 1, 0, end=ten + 60 * good) if good else []
    assert verdict_of(NODE_A, attempts, known).level is level


@pytest.mark.parametrize(
    ("reason", "look"),
    [
        ("UnexpectedAdmissionError", "device plugin"),
        ("ContainerRuntimeProblem", "containerd"),
        ("GPUMissing", "nvidia-smi"),
        ("Xid 79", "nvidia-smi"),
        ("IBLinkFlapping", "InfiniBand"),
        ("NHC2009", "they report this fault"),
        (None, "nothing else shows why"),
    ],
)
def test_the_first_suggestion_says_what_to_look_at(reason: str | None, look: str) -> None:
    assert look in node_suggestions(NODE_A, reason, None, is_gone=False)[0].text


def test_every_fault_of_the_table_says_what_to_look_at() -> None:
    faults = {
        signal.reason
        for signal in signals.table().values()
        if signal.kind in (CauseKind.NODE_FAULT, CauseKind.NODE_LOST) and signal.confidence != "low"
    }
    repairs = {
        name
        for name in faults
        if name.startswith(("NodeRe", "kubernetes.azure.com", "node.kubernetes"))
    }
    assert faults - set(looks()) - repairs == set()


@pytest.mark.parametrize(("offered", "level"), [("8", Level.NOT_ENOUGH_DATA), ("7", Level.BAD)])
def test_a_refusal_is_over_if_the_node_offers_all_its_devices(offered: str, level: Level) -> None:
    message = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"
    refused = pod(start=0, reason="UnexpectedAdmissionError", message=message)
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": at(-60),
        "lastHeartbeatTime": at(300),
    }
    made = node(conditions=[ready])
    made["status"] |= {
        "capacity": {"nvidia.com/gpu": "8"},
        "allocatable": {"nvidia.com/gpu": offered},
    }
    assert build([], [facts([refused], [made])]).verdicts[0].level is level


NINE = parse(at(9)) or 0.0


def printed(reason: str, job: str, node: str = "odd", **more: Any) -> Attempt:
    """A failed attempt that blames its node by what the job printed."""
    evidence = Evidence(EvidenceSource.LOG, reason, "the job printed it", NINE)
    cause = Cause(CauseKind.NODE_FAULT, "medium", (evidence,), blames_node=True)
    return Attempt(
        job, 0, node, pool="gpu", outcome=RunOutcome.FAILED, cause=cause, end=NINE, **more
    )


def test_the_words_of_one_job_make_a_node_suspect_without_a_cordon() -> None:
    verdict = verdict_of("odd", [*REST, printed("CUDA error", "job")])
    assert verdict.level is Level.SUSPECT
    assert verdict.reason == "CUDA error: the job printed it; only one job or family says so"
    assert verdict.suggestions == ()


def test_words_need_a_witness_of_another_family_the_node_or_the_kernel() -> None:
    def level(*attempts: Attempt, known: ClusterIndex | None = None) -> Level:
        return verdict_of("odd", [*REST, *attempts], known).level

    trials = [printed("CUDA error", f"sweep_{number}", family="sweep") for number in range(3)]
    assert level(*trials) is Level.SUSPECT
    assert level(*trials, printed("GPU driver", "other")) is Level.BAD
    assert level(printed("Xid 79", "job")) is Level.BAD
    lost = cluster(events=[event("KernelDeadlock", 9, about="odd")])
    assert level(printed("CUDA error", "job"), known=lost) is Level.BAD


def test_three_times_the_words_of_one_family_in_a_week_are_not_enough_without_a_pool() -> None:
    def trial(number: int, family: str) -> Attempt:
        attempt = printed("CUDA error", f"{family}_{number}", family=family)
        assert attempt.cause
        evidence = replace(attempt.cause.evidence[0], time=NINE + 3600 * number)
        return replace(
            attempt, end=NINE + 3600 * number, cause=replace(attempt.cause, evidence=(evidence,))
        )

    one = [trial(number, "sweep") for number in range(3)]
    assert verdict_of("odd", one).level is Level.SUSPECT
    two = [trial(number, f"sweep{number % 2}") for number in range(3)]
    assert verdict_of("odd", two).level is Level.BAD


def family_trials(where: str, outcome: RunOutcome, count: int = 10) -> list[Attempt]:
    """An attempt of each of ten trials of a sweep."""
    cause = UNKNOWN if outcome is RunOutcome.FAILED else None
    return [
        Attempt(
            f"sweep_{number}",
            int(outcome is RunOutcome.SUCCEEDED),
            where,
            pool="gpu",
            outcome=outcome,
            cause=cause,
            start=NINE + 3600 * number,
            end=NINE + 3600 * number + 1800,
            family="sweep",
        )
        for number in range(count)
    ]


def test_trials_that_fail_on_one_node_and_succeed_elsewhere_count_against_the_node() -> None:
    failed = [*runs("A", 20, 0), *family_trials("A", RunOutcome.FAILED)]
    good = [
        replace(attempt, node=f"n{number}")
        for number, attempt in enumerate(family_trials("", RunOutcome.SUCCEEDED))
    ]
    verdict = verdict_of("A", [*REST, *failed, *good])
    assert (verdict.level, verdict.failures, verdict.attempts) == (Level.SUSPECT, 10, 30)
    # Another job that failed there is a witness.
    assert verdict_of("A", [*REST, *failed, *good, *runs("A", 0, 1)]).level is Level.BAD
    # Trials that fail wherever they run speak against nobody.
    bad = [
        replace(attempt, job=f"sweep_{number + 20}", node=f"n{number}")
        for number, attempt in enumerate(family_trials("", RunOutcome.FAILED))
    ]
    assert verdict_of("A", [*REST, *failed, *bad]).level is Level.OK


def test_a_pool_of_two_halves_is_uneven_and_names_no_bad_node() -> None:
    attempts = [attempt for number in range(10) for attempt in runs(f"w{number}", 28, 12)]
    attempts += [attempt for number in range(10) for attempt in runs(f"g{number}", 39, 1)]
    verdicts, _, _, (pool,) = judge(attempts, ClusterIndex())
    assert not [verdict for verdict in verdicts if verdict.level is Level.BAD]
    assert not [verdict for verdict in verdicts if verdict.suggestions]
    assert pool.reason == (
        "10 of 20 nodes fail 30 % of their jobs, the others 2 %: compare the two groups "
        "(zone, image, driver, VM size) before blaming a node"
    )
    assert pool.worse == tuple(f"w{number}" for number in range(10))
