"""The HTML report: its content, and that input is shown as text only. test_report_page_browser.py opens it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis.formats import report_page
from arc_toolkit.diagnosis.formats.report_text import overview
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    DiagnosisReport,
    Evidence,
    EvidenceSource,
    FileEvidence,
    Incident,
    Job,
    Level,
    Restart,
    RunOutcome,
    SkippedFile,
    Stats,
    Suggestion,
    UnevenPool,
    Verdict,
    Waiting,
    WaitingFor,
)
from tests.diagnosis.page_sample import GPU, job_of, large_report, sample_report
from tests.diagnosis.page_sample import attempt as made
from tests.support import ROOT, Result

EVIL = "<script>window.pwned=1</script>\"'><img src=x onerror=window.pwned=1>&\x1b[31m"
VOID = {"meta", "link", "input", "br", "img"}


class Page(HTMLParser):
    """Elements with their attributes, and a check that every one is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.wrong: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.wrong += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["style"], ["script"]):
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def hostile_report(text: str) -> DiagnosisReport:
    """A report in which everything that comes from outside is this text."""
    evidence = Evidence(cast(EvidenceSource, text), text, text, 0.0)
    cause = Cause(CauseKind.NODE_MEMORY, "high", (evidence,), True)
    attempt = Attempt(
        text, 0, text, rank=text, outcome=RunOutcome.FAILED, cause=cause, notes=(text,), pool=text
    )
    waiting = Waiting(WaitingFor.IMAGE, (evidence,))
    retry = Attempt(text, 1, text, rank=text, outcome=RunOutcome.WAITING, waiting=waiting)
    job = Job(
        text,
        text + "!",
        2,
        RunOutcome.WAITING,
        (text,),
        (CauseKind.NODE_MEMORY,),
        0.0,
        notes=(text,),
    )
    bad = Verdict(
        text,
        Level.BAD,
        text,
        1,
        2,
        (0.1, 0.9),
        0.2,
        evidence=(evidence,),
        reason=text,
        suggestions=(Suggestion(text),),
    )
    fine = Verdict(text + "2", Level.OK, text, reason=text)
    return DiagnosisReport(
        attempts=(attempt, retry),
        jobs=(job,),
        verdicts=(bad, fine),
        incidents=(Incident(0.0, 9.0, CauseKind.NODE_LOST, (text, text + "3"), text, 4, text),),
        uneven_pools=(UnevenPool(text, (text,), (text + "3",), 0.3, 0.02, text),),
        skipped=(SkippedFile(text, text),),
        restarts=(Restart(text, 0.0, "resumed", 2, 1, 1, 1.0, 1.0, (text,)),),
        prs_evidence=(FileEvidence(text, evidence, text),),
        stats=Stats(skipped={text: 1}),
        notes=(text,),
    )


def allowed(page: str) -> Page:
    """The page, after checking that only our own script and style are in it and every tag is closed."""
    parsed = Page(page)
    assert not parsed.wrong
    assert len(parsed.all("script")) == 1
    assert len(parsed.all("style")) == 1
    for tag, attributes in parsed.elements:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        for name in ("href", "src"):
            assert attributes.get(name, "#").startswith(("#", "data:,")), attributes
        assert "style" not in attributes  # the policy would not allow it
    return parsed


def test_job_called_script_is_text_everywhere() -> None:
    page = report_page.render(hostile_report(EVIL))
    parsed = allowed(page)
    assert "window.pwned" in "".join(parsed.text)
    assert "\x1b" not in page


@settings(max_examples=60)
@given(st.text(min_size=1, max_size=60))
def test_any_text_from_outside_stays_text(text: str) -> None:
    allowed(report_page.render(hostile_report(text)).encode("utf-8", "replace").decode())


def test_policy_allows_exactly_the_script_and_style_of_the_page() -> None:
    import base64
    import hashlib

    page = report_page.render(sample_report())
    policy = next(meta["content"] for meta in Page(page).all("meta") if "http-equiv" in meta)
    for tag in ("script", "style"):
        found = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert found
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_page_names_every_job_node_cause_and_restart() -> None:
    report = sample_report()
    text = " ".join(" ".join(Page(report_page.render(report)).text).split())
    for job in report.jobs:
        assert job.name in text
    for verdict in report.verdicts:
        assert verdict.node in text
    for words in (
        "own memory limit",
        "spot preemption",
        "fails everywhere",
        "4200 → 3800",
        "mini-batches",
        "unpack it first",
        "2026-07-01 12:50 to 12:54 5 of 8 nodes of pool gpu",
        "waits for a node that fits (0 of 12 nodes are available",
        "wait until a node is free or the pool grows",
        "ask for an instance type with more memory",
        "NotReady once, 11 good attempts since",
        "a failure rate above 22 % is excluded",
        "nothing was recorded from 2026-07-01 11:20 to 11:50",
    ):
        assert words in text


def test_ids_are_unique_and_every_reference_leads_somewhere() -> None:
    parsed = allowed(report_page.render(sample_report()))
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in parsed.elements:
        for name in ("aria-labelledby", "for"):
            assert attributes.get(name, ids[0]) in ids
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids


def test_failed_jobs_come_first_then_waiting_ones_then_retried_ones() -> None:
    names = re.findall(
        r'<details class="card job[^"]*" data-text="(\S+)', report_page.render(sample_report())
    )
    assert set(names[:2]) == {"dull_plum_7r3", "red_elm_5f0"}
    assert names[2] == "lone_bay_6e1"
    assert all(name.startswith(("calm_fir", "keen_oak")) for name in names[-5:])


def test_nothing_found_is_a_page_too() -> None:
    parsed = allowed(report_page.render(DiagnosisReport()))
    assert "0" in "".join(parsed.text)


def test_very_large_report_leaves_jobs_out_and_shows_how_many() -> None:
    jobs = tuple(
        Job(f"job{n}", None, 1, RunOutcome.SUCCEEDED, (), (), None)
        for n in range(report_page.MOST_JOBS + 5)
    )
    failed = Job("the one that failed", None, 2, RunOutcome.FAILED, (), (), None)
    page = report_page.render(DiagnosisReport(jobs=(*jobs, failed)))
    assert "the one that failed" in page
    assert "6 more jobs are in the JSON and CSV output" in page


# --- the timeline -----------------------------------------------------------------------------------------------


def attempt(
    number: int, start: float | None, end: float | None, rank: str | None = None
) -> Attempt:
    return Attempt(
        "job", number, "node", rank=rank, start=start, end=end, outcome=RunOutcome.FAILED
    )


def places(*attempts: Attempt) -> list[tuple[float, float]]:
    return [
        (float(bar["left"]), float(bar["width"])) for bar in report_page.timeline(attempts)["bars"]
    ]


def test_bars_are_placed_by_their_times() -> None:
    assert places(attempt(0, 0, 50), attempt(1, 75, 100)) == [(0.0, 49.6), (75.0, 24.6)]


def test_bars_without_times_follow_one_another() -> None:
    assert places(attempt(0, None, None), attempt(1, None, 7)) == [(0.0, 49.6), (50.0, 49.6)]


def test_ranks_of_one_attempt_are_in_one_column() -> None:
    line = report_page.timeline(
        [attempt(0, None, None, "worker-0"), attempt(0, None, None, "worker-1")]
    )
    assert [(bar["left"], bar["row"]) for bar in line["bars"]] == [("0.00", 0), ("0.00", 1)]
    assert line["rows"] == 2


def test_attempt_without_an_end_lasts_until_the_next_begins() -> None:
    assert places(attempt(0, 0, None), attempt(1, 50, 100)) == [(0.0, 49.6), (50.0, 49.6)]


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.none() | st.floats(-1e10, 1e10),
            st.none() | st.floats(-1e10, 1e10),
            st.sampled_from([None, "worker-0", "worker-1"]),
        ),
        max_size=70,
    )
)
def test_bars_never_leave_the_timeline(
    rows: list[tuple[int, float | None, float | None, str | None]],
) -> None:
    for left, width in places(*[attempt(*row) for row in rows]):
        assert 0 <= left <= 99
        assert width >= 0.99
        assert left + width <= 100.01


def test_diagnose_writes_the_page(arc: Callable[..., Result], tmp_path: Path) -> None:
    log = tmp_path / "<b>job" / "system_logs" / "amlarc_cr_bootstrap.log"
    log.parent.mkdir(parents=True)
    log.write_text("++ echo 'Run on node: aks-gpu-12345678-vmss000001'\n")
    result = arc("diagnose", tmp_path, "--format", "html", "-o", tmp_path / "page.html")
    assert result.code == 0, result.err
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;job" in page
    allowed(page)


def test_nodes_of_a_closed_job_are_in_its_first_lines() -> None:
    page = report_page.render(sample_report())
    closed = {
        job.name: page[page.index(f'<span class="name">{job.name}<') :]
        for job in sample_report().jobs
    }
    for job in sample_report().jobs:
        summary = " ".join(Page(closed[job.name].partition("</summary>")[0]).text)
        if len(job.nodes) <= 3:
            assert all(node in summary for node in job.nodes)
    gang = " ".join(" ".join(Page(closed["wide_yew_3a9"].partition("</summary>")[0]).text).split())
    assert f"on {GPU}02, {GPU}00, {GPU}01, {GPU}03 → {GPU}04, {GPU}05" in gang


def test_every_count_is_a_link_to_what_it_counts() -> None:
    tiles = {str(tile["words"]): tile for tile in report_page.page(sample_report())["tiles"]}
    counts = {
        words: (tile["count"], tile["section"], tile["state"]) for words, tile in tiles.items()
    }
    assert counts == {
        "jobs": (13, "jobs", "outcome="),
        "failed": (2, "jobs", "outcome=failed"),
        "waiting": (1, "jobs", "outcome=waiting"),
        "retried": (6, "jobs", "outcome=retried"),
        "incident": (1, "incidents", ""),
        "bad node": (1, "nodes", "verdict=bad"),
        "suspect node": (1, "nodes", "verdict=suspect"),
        "recovered node": (1, "nodes", "verdict=recovered"),
    }


def test_count_of_nothing_is_not_a_link() -> None:
    tiles = report_page.page(DiagnosisReport())["tiles"]
    assert [(tile["count"], tile["words"], tile["section"]) for tile in tiles] == [
        (0, "jobs", ""),
        (0, "failed", ""),
        (0, "retried", ""),
        (0, "bad nodes", ""),
    ]


def test_pod_is_not_kept_off_more_than_twenty_nodes() -> None:
    report = large_report(jobs=5, nodes=60, bad=1)
    for text in (
        report_page.page(report)["anti_affinity"],
        overview(report).rpartition("affinity:\n")[2],
    ):
        assert text.count("- aks-") == 20


def test_table_has_at_most_a_thousand_nodes_and_shows_how_many_are_left_out() -> None:
    report = large_report(jobs=5, nodes=report_page.MOST_NODES + 7)
    parsed = allowed(report_page.render(report))
    assert (
        sum("node" in element.get("class", "").split() for element in parsed.all("tbody")) == 1000
    )
    assert "7 more nodes are in the JSON output" in " ".join(parsed.text)


# --- the colours ------------------------------------------------------------------------------------------------


def test_ranks_of_a_gang_have_the_colours_of_their_causes() -> None:
    gang = [item for item in sample_report().attempts if item.job == "wide_yew_3a9"]
    first = {item.rank: report_page.group(item) for item in gang if item.number == 0}
    assert first == {
        "worker-0": "collateral",
        "worker-1": "collateral",
        "worker-2": "node",
        "worker-3": "collateral",
    }


@pytest.mark.parametrize("root", [kind for kind in CauseKind if kind is not CauseKind.GANG])
def test_collateral_never_has_the_colour_of_the_root(root: CauseKind) -> None:
    groups = {
        kind: report_page.group(made("job", 0, "a", kind=kind)) for kind in (root, CauseKind.GANG)
    }
    assert groups[root] != groups[CauseKind.GANG]


def test_node_that_is_not_blamed_has_not_the_colour_of_blame() -> None:
    blamed = Cause(CauseKind.NODE_LOST, "high", blames_node=True)
    guess = Cause(CauseKind.NODE_LOST, "low", blames_node=False)
    groups = [
        report_page.group(Attempt("job", 0, "a", outcome=RunOutcome.FAILED, cause=cause))
        for cause in (blamed, guess)
    ]
    assert groups == ["node", "unknown"]


@pytest.mark.parametrize("kind", list(CauseKind))
def test_every_kind_of_cause_has_a_colour_that_the_legend_explains(kind: CauseKind) -> None:
    one = Attempt("job", 0, "node", outcome=RunOutcome.FAILED, cause=Cause(kind, "high"))
    assert report_page.group(one) in report_page.GROUPS


@pytest.mark.parametrize("group", list(report_page.GROUPS))
def test_every_colour_is_in_the_style_sheet_for_bars_and_marks(group: str) -> None:
    style = (ROOT / "templates" / "report.css").read_text()
    assert f".bar.g-{group} " in style
    assert f".mark.g-{group} " in style


@pytest.mark.parametrize("name", [*Level, *RunOutcome])
def test_every_verdict_and_outcome_has_words_in_its_badge(name: str) -> None:
    one = made("job", 0, "aks-gpu-31415926-vmss000001")
    job = replace(
        job_of([one]),
        outcome=RunOutcome(name) if name in list(RunOutcome) else RunOutcome.SUCCEEDED,
    )
    level = Level(name) if name in list(Level) else Level.OK
    page = report_page.render(
        DiagnosisReport((one,), (job,), (Verdict("aks-gpu-31415926-vmss000001", level),))
    )
    assert f'<span class="badge b-{name}">{name.replace("-", " ")}</span>' in page


def test_sweep_is_one_row_with_its_count_that_its_name_finds() -> None:
    trials = [
        replace(made(f"trial_{number}", 0, "a", number, 1, CauseKind.USER), family="my_sweep")
        for number in range(4)
    ]
    trials.append(made("alone", 0, "a", 9, 1, CauseKind.USER))
    report = DiagnosisReport(tuple(trials), tuple(job_of([item]) for item in trials))
    rows = report_page.page(report)["rows"]
    assert [(row.get("name"), row.get("count"), len(row["jobs"])) for row in rows] == [
        (None, None, 1),
        ("my_sweep", 4, 4),
    ]
    assert all("my_sweep" in entry["text"] for entry in rows[1]["jobs"])
    assert "my_sweep" not in rows[0]["jobs"][0]["text"]
    words = " ".join(" ".join(Page(report_page.render(report)).text).split())
    assert "my_sweep 4 jobs failed user error (4)" in words
