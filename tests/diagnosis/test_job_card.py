"""The card of a job: an expert's table of situations, and the words around it."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from arc_toolkit.diagnosis.job_card import (
    LONGEST_DETAIL,
    WAITING,
    Fault,
    JobCard,
    NextStep,
    job_card,
    job_groups,
    step_rows,
    waiting_detail,
)
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    DiagnosisReport,
    Evidence,
    EvidenceSource,
    Level,
    RunOutcome,
    Verdict,
    Waiting,
    WaitingFor,
)
from tests.diagnosis.page_sample import attempt, job_of, large_report, sample_report

EXPERT = list(csv.DictReader((Path(__file__).parent / "data" / "job_cards.csv").open()))


def card_of(row: dict[str, str]) -> JobCard:
    """The card for one row of the expert's table."""
    outcome, evidence = RunOutcome(row["outcome"]), ()
    if row["reason"]:
        evidence = (Evidence(EvidenceSource.POD_STATUS, row["reason"]),)  # type: ignore[assignment]
    node = "n1" if row["node"] else None
    attempts = [Attempt("j", 0, node, outcome=outcome)]
    if outcome is RunOutcome.WAITING:
        attempts = [replace(attempts[0], waiting=Waiting(WaitingFor(row["cause"]), evidence))]
    elif row["cause"]:
        cause = Cause(CauseKind(row["cause"]), row["confidence"], evidence)  # type: ignore[arg-type]
        attempts = [replace(attempts[0], outcome=RunOutcome.FAILED, cause=cause)]
        if outcome is not RunOutcome.FAILED:
            attempts.append(Attempt("j", 1, "n2", outcome=outcome))
    level = Level.OK if row["node"] in ("gone", "") else Level(row["node"])
    verdicts = {"n1": Verdict("n1", level, gone=row["node"] == "gone")} if node else {}
    job = job_of(attempts, fails_everywhere=row["everywhere"] == "yes")
    return job_card(job, attempts, verdicts)


@pytest.mark.parametrize("row", EXPERT, ids=[row["situation"] for row in EXPERT])
def test_next_step_is_that_of_the_expert(row: dict[str, str]) -> None:
    card = card_of(row)
    assert (card.fault, card.step) == (row["fault"], row["step"])
    assert card.confidence == (row["confidence"] or "high")
    assert card.happened.endswith(".")
    assert card.advice


def test_every_cause_outcome_and_kind_of_waiting_has_a_step() -> None:
    rows = [
        {"outcome": outcome, "cause": kind, "node": level}
        for outcome in RunOutcome
        for kind in ("", *(WaitingFor if outcome is RunOutcome.WAITING else CauseKind))
        for level in ("", "gone", *Level)
        if kind or outcome is not RunOutcome.WAITING
    ]
    for row in rows:
        card_of({**row, "reason": "", "confidence": "low", "everywhere": ""})
    cells = {cell for row in step_rows() for cell in row.cause.split("|") if cell}
    assert cells <= {*CauseKind, *WaitingFor}
    assert {CauseKind(kind) for kind in CauseKind} <= cells, "a cause of its own has a step"
    assert {row["cause"] for row in EXPERT if row["outcome"] != "waiting"} >= set(CauseKind)
    assert {row["step"] for row in EXPERT} == set(NextStep)
    assert {row["fault"] for row in EXPERT} == set(Fault)


def test_only_a_bad_node_is_taken_out_of_use() -> None:
    """A suspect node, one that recovered or one with too little data is not accused."""
    for row in EXPERT:
        for level in Level:
            card = card_of({**row, "node": level if row["node"] else ""})
            assert (card.step is NextStep.AVOID_NODE) <= (level is Level.BAD)


def test_advice_names_the_memory_the_node_and_the_log() -> None:
    failed = attempt("j", 0, "n1", 0, 5, CauseKind.OWN_MEMORY)
    limited = replace(failed, memory_limit=16 * 2**30)
    assert "at least 20.0 GiB of memory (its limit was 16.0 GiB)" in advice(limited)
    assert "an instance type with more memory," in advice(failed)
    traceback = Evidence(
        EvidenceSource.LOG, "uncaught exception", "ValueError", path="j/std_log.txt"
    )
    cause = Cause(CauseKind.USER, "low", (traceback,))
    crashed = replace(failed, cause=cause, sources=("j/amlarc_cr_bootstrap.log",))
    assert advice(crashed) == "fix the error at the end of j/std_log.txt"
    card = job_card(job_of([crashed]), [crashed], {})
    assert (card.log, card.fault, card.confidence) == ("j/std_log.txt", "job", "low")
    silent = replace(crashed, cause=replace(cause, evidence=()))
    assert job_card(job_of([silent]), [silent], {}).log == "j/amlarc_cr_bootstrap.log"


def advice(*attempts: Attempt) -> str:
    return job_card(job_of(attempts), attempts, {}).advice


def test_rank_that_failed_first_decides() -> None:
    report = sample_report()
    gang = [item for item in report.attempts if item.job == "wide_yew_3a9"]
    card = job_card(job_of(gang[:4]), gang[:4], {})
    assert card.happened == (
        "It failed in its only attempt on aks-gpu-31415926-vmss000002: the node stopped responding."
    )
    assert card.fault is Fault.NODE


def test_message_is_shown_and_never_decides() -> None:
    """The same reason with other words gives the same step."""
    for words in ("OOMKilled", "no space left on device", "spot preemption", ""):
        evidence = (Evidence(EvidenceSource.EXIT_CODE, "1", words),)
        failed = Attempt(
            "j", 0, "n", outcome=RunOutcome.FAILED, cause=Cause(CauseKind.USER, "high", evidence)
        )
        assert job_card(job_of([failed]), [failed], {}).step is NextStep.FIX_CODE


def test_every_kind_of_waiting_has_words() -> None:
    assert set(WAITING) == set(WaitingFor)
    assert len(set(WAITING.values())) == len(WAITING)
    long = Waiting(WaitingFor.QUOTA, (Evidence(EvidenceSource.POD_EVENT, "x", "missing " * 40),))
    assert len(waiting_detail(long)) <= LONGEST_DETAIL + 4


# --- groups ---------------------------------------------------------------------------------------


def test_trials_of_a_sweep_are_one_group_and_alone_jobs_are_not() -> None:
    trials = [
        replace(attempt(f"sweep_{n}", 0, "n", n, 1, CauseKind.USER), family="sweep")
        for n in range(9)
    ]
    trials.append(replace(attempt("sweep_9", 0, "n", 9, 1), family="sweep"))
    alone = attempt("alone", 0, "n", 0, 1, CauseKind.USER)
    report = DiagnosisReport(
        attempts=(*trials, alone), jobs=tuple(job_of([item]) for item in (*trials, alone))
    )
    [group] = job_groups(report)
    assert (group.name, len(group.jobs), group.is_family) == ("sweep", 10, True)
    assert group.outcomes == {"failed": 9, "succeeded": 1}
    assert group.causes == {CauseKind.USER: 9}


def test_many_jobs_with_the_same_end_are_one_group() -> None:
    names = [group.name for group in job_groups(large_report(jobs=400))]
    assert names == [
        "failed, retried: user error",
        "succeeded",
        "succeeded, retried: spot preemption",
        "failed, retried: node NotReady or lost",
        "failed, retried: own memory limit",
    ]
    assert job_groups(sample_report()) == []


def test_waiting_jobs_are_grouped_by_what_they_wait_for() -> None:
    attempts = [
        attempt(f"{kind}{n}", 0, None, outcome=RunOutcome.WAITING, waiting=Waiting(kind))
        for kind in (WaitingFor.IMAGE, WaitingFor.QUOTA)
        for n in range(5)
    ]
    report = DiagnosisReport(
        attempts=tuple(attempts), jobs=tuple(job_of([item]) for item in attempts)
    )
    names = [group.name for group in job_groups(report)]
    assert names == ["waiting: waits for its image", "waiting: waits for quota"]
