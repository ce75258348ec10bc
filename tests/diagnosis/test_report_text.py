"""The report in a terminal and as Markdown: what each job, incident and node looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arc_toolkit.diagnosis.formats.report_formats import to_markdown
from arc_toolkit.diagnosis.formats.report_text import (
    detail,
    overview,
    route_text,
    summary,
)
from arc_toolkit.diagnosis.job_card import LONGEST_DETAIL
from arc_toolkit.diagnosis.model import (
    CauseKind,
    DiagnosisReport,
    Evidence,
    EvidenceSource,
    Level,
    RunOutcome,
    Stats,
    UnevenPool,
    Verdict,
    Waiting,
    WaitingFor,
)
from arc_toolkit.diagnosis.report import report_of_job
from tests.diagnosis.page_sample import GPU, attempt, job_of, large_report, sample_report, verdict


def line(text: str, start: str) -> str:
    return next(item for item in text.splitlines() if item.lstrip("| `").startswith(start))


def test_headline_counts_what_needs_a_person() -> None:
    first = overview(sample_report()).splitlines()[0]
    assert (
        first == "6 of 13 jobs retried, 2 failed for good, 1 waiting, 1 bad node of 12, 1 incident"
    )


@pytest.mark.parametrize("render", [overview, to_markdown])
def test_waiting_job_has_what_it_waits_for_in_the_cause_column(render: object) -> None:
    row = line(render(sample_report()), "lone_bay_6e1")  # type: ignore[operator]
    assert (
        "waits for a node that fits (0 of 12 nodes are available: 8 have too few nvidia.com/gpu"
        in row
    )


def test_waiting_after_a_failure_shows_both() -> None:
    first = attempt("job", 0, "a", 0, 5, CauseKind.SPOT)
    second = attempt("job", 1, None, outcome=RunOutcome.WAITING, waiting=Waiting(WaitingFor.IMAGE))
    report = DiagnosisReport(attempts=(first, second), jobs=(job_of([first, second]),))
    assert "spot preemption; waits for its image" in line(overview(report), "job")
    ended = replace(report, jobs=(replace(report.jobs[0], outcome=RunOutcome.FAILED),))
    assert "waits" not in line(overview(ended), "job")


def test_running_gang_shows_how_many_of_its_pods_wait_for_what() -> None:
    waiting = Waiting(WaitingFor.UNSCHEDULABLE)
    gang = [
        attempt("job", 0, f"n{rank}", 0, outcome=RunOutcome.RUNNING, rank=f"worker-{rank}")
        for rank in (0, 1)
    ]
    gang.insert(
        0, attempt("job", 0, None, outcome=RunOutcome.WAITING, waiting=waiting, rank="worker-2")
    )
    report = DiagnosisReport(attempts=tuple(gang), jobs=(job_of(gang),))
    assert report.jobs[0].outcome is RunOutcome.RUNNING
    assert "1 of 3 pods: waits for a node that fits" in line(overview(report), "job")


def test_long_message_about_waiting_is_cut_at_a_word() -> None:
    evidence = Evidence(EvidenceSource.POD_EVENT, "FailedScheduling", "insufficient " * 40)
    one = attempt(
        "job", 0, None, outcome=RunOutcome.WAITING, waiting=Waiting(WaitingFor.QUOTA, (evidence,))
    )
    row = line(overview(DiagnosisReport(attempts=(one,), jobs=(job_of([one]),))), "job")
    words = row[row.index("(") + 1 : row.index(")")]
    assert len(words) <= LONGEST_DETAIL + 4
    assert words.endswith("insufficient ...")


def test_detail_of_a_waiting_job_has_the_evidence_and_what_to_check() -> None:
    text = detail(report_of_job(sample_report(), "lone_bay_6e1"))
    assert "1 attempt, waits for a node that fits" in text
    assert "what to do       wait until a node is free or the pool grows" in text
    assert "pod condition Unschedulable at 2026-07-01T12:30:00Z: 0 of 12 nodes" in text
    assert "ended" not in text


@pytest.mark.parametrize("render", [overview, to_markdown])
def test_incidents_come_before_the_nodes(render: object) -> None:
    text: str = render(sample_report())  # type: ignore[operator]
    incident = text.index(
        "2026-07-01 12:50 to 12:54, 5 of 8 nodes of pool gpu, node NotReady or lost: 5 of 8 nodes"
    )
    assert incident < text.index("SystemOOM: the kernel ran out of memory, twice")


def test_job_in_detail_has_only_the_incidents_of_its_nodes() -> None:
    assert report_of_job(sample_report(), "brave_fig_4k2").incidents
    assert not report_of_job(sample_report(), "calm_pear_9x1").incidents


def test_recovered_nodes_are_counted_and_named_also_among_many() -> None:
    report = large_report(jobs=10, nodes=100)
    recovered = verdict(f"{GPU}02", Level.RECOVERED, 1, 12, "NotReady once, 11 good attempts since")
    text = overview(
        replace(report, verdicts=(*report.verdicts[:4], recovered, *report.verdicts[4:]))
    )
    assert "Nodes: 4 bad, 1 recovered, 96 ok" in text
    assert "11 good attempts since" in line(text, f"{GPU}02")
    assert sum(row.startswith("aks-") for row in text.splitlines()) < 20
    assert "11 good attempts since" in to_markdown(replace(report, verdicts=(recovered,)))


def test_ok_shows_the_rate_that_it_excludes() -> None:
    assert "a failure rate above 22 % is excluded" in line(overview(sample_report()), f"{GPU}00")


# --- the nodes of a job -----------------------------------------------------------------------------------------


def test_nodes_follow_the_attempts() -> None:
    assert (
        route_text([attempt("j", 0, "a"), attempt("j", 1, "b"), attempt("j", 2, "a")])
        == "a -> b -> a"
    )


def test_several_attempts_in_a_row_on_one_node_are_counted() -> None:
    tries = [attempt("j", number, node) for number, node in enumerate(["a", "a", "a", "b"])]
    assert route_text(tries) == "a (3 times) -> b"


def test_gang_shows_the_node_of_the_rank_that_failed_first() -> None:
    gang = [item for item in sample_report().attempts if item.job == "wide_yew_3a9"]
    assert route_text(gang) == f"{GPU}02 (+3 nodes) -> {GPU}04 (+3 nodes)"
    first = route_text(gang, ranks=3).partition(" -> ")[0]
    assert first == f"{GPU}02, {GPU}00, {GPU}01 (+1 node)"


def test_many_attempts_are_cut_and_counted() -> None:
    assert (
        route_text([attempt("j", number, f"n{number}") for number in range(9)])
        == "n0 -> n1 -> n2 +6"
    )


def test_unknown_and_cut_names_are_marked_and_a_pod_that_waits_has_no_node() -> None:
    waiting = attempt("j", 2, None, outcome=RunOutcome.WAITING)
    cut = replace(attempt("j", 1, "aks-gpu-3141"), node_truncated=True)
    assert route_text([attempt("j", 0, None), cut, waiting]) == "? -> aks-gpu-3141..."
    assert route_text([waiting]) == "-"


def test_summary_names_only_what_was_read() -> None:
    assert summary(DiagnosisReport()).startswith("0 logs read (0 B): 0 attempts")
    assert summary(DiagnosisReport(stats=Stats(pods=1, nodes=2))).startswith(
        "1 pod, 2 nodes, 0 events: "
    )


def test_card_comes_first_in_the_detail_of_a_job() -> None:
    text = detail(report_of_job(sample_report(), "dull_plum_7r3"))
    lines = text.splitlines()
    assert lines[0] == "dull_plum_7r3"
    assert [row[2:17].strip() for row in lines[1:7]] == [
        "what happened",
        "what to do",
        "whose fault",
        "is the node bad",
        "where",
        "log to open",
    ]
    assert (
        "It failed in attempt 3 on aks-gpu-31415926-vmss000006: the job needs more memory" in text
    )
    assert "the job's own (high confidence)" in text
    assert "is the node bad  no: aks-gpu-31415926-vmss000000 and 2 other nodes: none of 14" in text
    assert "ask for an instance type with more memory" in text


@pytest.mark.parametrize("render", [overview, to_markdown])
def test_sweep_and_equal_endings_are_one_row_each(render: object) -> None:
    trials = [
        replace(attempt(f"sweep_{n}", 0, f"n{n % 3}", n, 1, CauseKind.USER), family="sweep")
        for n in range(7)
    ]
    trials.append(replace(attempt("sweep_7", 0, "n0", 9, 1), family="sweep"))
    good = [attempt(f"good{n}", 0, "n1", 0, 1) for n in range(6)]
    jobs = tuple(job_of([item]) for item in (*trials, *good))
    report = DiagnosisReport(attempts=(*trials, *good), jobs=jobs)
    text: str = render(report)  # type: ignore[operator]
    row = line(text, "sweep")
    for words in ("(8 jobs)", "7 failed, 1 succeeded", "3 nodes", "user error (7)"):
        assert words in row.replace("\\", "")
    assert "sweep_3" not in text
    assert "good3" not in text
    assert "(6 jobs)" in text


def test_all_jobs_and_the_name_of_a_sweep_open_a_group() -> None:
    trials = [
        replace(attempt(f"sweep_{n}", 0, "n", n, 1, CauseKind.USER), family="sweep")
        for n in range(7)
    ]
    report = DiagnosisReport(attempts=tuple(trials), jobs=tuple(job_of([item]) for item in trials))
    assert "--all-jobs" in overview(report)
    opened = overview(report, ungrouped=True)
    assert "sweep_3" in opened
    assert "--all-jobs" not in opened
    assert len(report_of_job(report, "sweep").jobs) == 7


@pytest.mark.parametrize(
    ("level", "answer"),
    [
        (Level.BAD, "yes: a: its reason"),
        (Level.SUSPECT, "perhaps: a: its reason"),
        (Level.NOT_ENOUGH_DATA, "not known: a: its reason"),
        (Level.OK, "no: a: its reason"),
        (Level.RECOVERED, "no: a: its reason"),
    ],
)
def test_card_says_whether_the_node_is_bad(level: Level, answer: str) -> None:
    failed = attempt("job", 0, "a", 0, 5, CauseKind.NODE_LOST)
    report = DiagnosisReport(
        (failed,), (job_of([failed]),), (Verdict("a", level, reason="its reason"),)
    )
    assert f"is the node bad  {answer}" in detail(report)
    assert "is the node bad  not known" in detail(replace(report, verdicts=()))


@pytest.mark.parametrize("render", [overview, to_markdown])
def test_an_uneven_pool_comes_before_its_nodes(render: object) -> None:
    pool = UnevenPool("gpu", ("aks-a", "aks-b"), ("aks-c",), 0.3, 0.02, "2 of 3 nodes fail more")
    report = replace(sample_report(), uneven_pools=(pool,))
    text = render(report)  # type: ignore[operator]
    assert "Pool gpu is uneven: 2 of 3 nodes fail more" in text
    assert text.index("Pool gpu is uneven") < text.index("SystemOOM: the kernel ran out of memory")
