"""The HTML report in a real Chromium: filters, sorting, links, keyboard, phone, print, no script, nothing foreign."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis.formats import report_page
from tests.diagnosis.browser import Browser
from tests.diagnosis.page_sample import large_report, sample_report
from tests.diagnosis.test_report_page import EVIL, hostile_report
from tests.support import ROOT, unavailable

pytestmark = pytest.mark.real

VISIBLE = "[...document.querySelectorAll('details.job')].filter(e => e.checkVisibility())"
VISIBLE_JOBS = f"{VISIBLE}.map(e => e.dataset.text.split(' ')[0])"
CHOOSE = """(id, value) => {
  const e = document.getElementById(id);
  e.value = value;
  e.dispatchEvent(new Event('input'));
}"""
VISIBLE_NODES = "[...document.querySelectorAll('tbody.node')].filter(e => e.offsetParent).map(e => e.dataset.name)"
SHOWN = "document.getElementById('shown').textContent"
FOCUS = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
SETTLED = "new Promise(resolve => setTimeout(resolve, 50))"
GPU, SPOT = "aks-gpu-31415926-vmss0000", "aks-spot-27182818-vmss0000"
TAB, ENTER, ESCAPE = ("Tab", 9), ("Enter", 13, "\r"), ("Escape", 27)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = subprocess.run(
        [ROOT / "scripts" / "chromium"], capture_output=True, text=True, timeout=600, check=False
    )
    if found.returncode:
        unavailable(f"scripts/chromium: {found.stderr.strip()[-300:]}")
    with Browser(
        found.stdout.strip().splitlines()[-1], tmp_path_factory.mktemp("profile")
    ) as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_page.render(sample_report()), encoding="utf-8")
    return path


def test_page_loads_itself_and_nothing_else_and_breaks_no_rule_of_its_policy(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []


def test_search_shows_only_what_has_every_word_and_says_how_many(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    everything = browser.evaluate(VISIBLE_JOBS)
    assert len(everything) == 13
    browser.evaluate("document.getElementById('search').focus()")
    browser.type("SPOT calm")
    assert browser.evaluate(VISIBLE_JOBS) == ["calm_pear_9x1"]
    assert browser.evaluate(SHOWN) == "1 of 13 jobs, 3 of 12 nodes"  # the nodes of that job
    browser.press(*ESCAPE)
    assert browser.evaluate(VISIBLE_JOBS) == everything


def test_search_for_a_node_finds_its_row_and_the_jobs_that_ran_on_it(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    browser.evaluate("document.getElementById('search').focus()")
    browser.type("vmss000003")
    assert browser.evaluate(VISIBLE_NODES) == [f"{GPU}03", f"{SPOT}03"]
    assert set(browser.evaluate(VISIBLE_JOBS)) >= {"brave_fig_4k2", "quick_lime_1b8"}


def test_no_match_is_reported(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate("document.getElementById('search').focus()")
    browser.type("no such thing")
    assert browser.evaluate(VISIBLE_JOBS) == []
    assert browser.evaluate("document.getElementById('nothing').offsetParent !== null")
    assert browser.evaluate("document.getElementById('no-node').offsetParent !== null")


SECTIONS = "[...document.querySelectorAll('main h2')].filter(e => e.offsetParent).map(e => e.id)"
CARD = """(() => {
  const box = (e) => e.getBoundingClientRect();
  const card = [...document.querySelectorAll('.answer')].filter(e => e.checkVisibility());
  return [card.length, card[0].innerText.replace(/\\s+/g, ' '), box(card[0]).top, box(card[0]).bottom];
})()"""


@pytest.mark.parametrize(("width", "height"), [(1200, 900), (900, 800), (375, 812)])
def test_searched_job_has_its_card_first_its_nodes_below_and_no_other_incident(
    browser: Browser, page: Path, width: int, height: int
) -> None:
    """The ten-second test: the answer is on the first screen, open, without a click."""
    browser.open(page, width=width, height=height, fragment="search=calm_pear_9x1")
    browser.evaluate("new Promise(resolve => setTimeout(resolve, 600))")  # smooth scrolling
    count, text, top, bottom = browser.evaluate(CARD)
    assert count == 1
    assert "before that, it failed on aks-spot-27182818-vmss000002: Azure reclaimed" in text
    assert "nothing: it succeeded" in text
    assert 0 <= top < bottom <= height
    heading = "document.getElementById('jobs').getBoundingClientRect().top"
    search = "document.querySelector('.find').getBoundingClientRect().bottom"
    assert browser.evaluate(f"{search} <= {heading}"), "the search does not cover the heading"
    assert browser.evaluate(SECTIONS)[:2] == ["jobs", "nodes"]
    assert "incidents" not in browser.evaluate(SECTIONS), "none of its nodes was in one"
    assert browser.evaluate(VISIBLE_NODES) == [f"{GPU}02", f"{SPOT}01", f"{SPOT}02"]
    browser.evaluate(f"({CHOOSE})('search', 'brave_fig_4k2')")
    assert browser.evaluate(CARD)[0] == 1, "the other card is closed again"
    assert browser.evaluate(SECTIONS)[:3] == ["jobs", "nodes", "incidents"]
    browser.evaluate("document.getElementById('clear').click()")
    assert browser.evaluate(SECTIONS)[:3] == ["incidents", "nodes", "jobs"]
    assert browser.evaluate(
        "[...document.querySelectorAll('.answer')].every(e => !e.checkVisibility())"
    )


def test_four_hundred_jobs_are_short_on_a_phone_and_every_one_is_found(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "phone.html"
    path.write_text(report_page.render(large_report(jobs=404)), encoding="utf-8")
    browser.open(path, width=375, height=812)
    assert browser.evaluate("document.documentElement.scrollHeight") <= 3_000
    groups = "[...document.querySelectorAll('.group > summary')].map(e => e.innerText.replace(/\\s+/g, ' '))"
    assert "7 jobs failed user error" in browser.evaluate(groups)
    assert browser.evaluate(VISIBLE_JOBS) == []
    browser.evaluate("document.querySelector('.group > summary').focus()")
    browser.press(*ENTER)
    assert len(browser.evaluate(VISIBLE_JOBS)) == 7
    browser.evaluate(f"({CHOOSE})('search', 'job_00403')")
    assert browser.evaluate(VISIBLE_JOBS) == ["job_00403"]
    assert browser.evaluate(CARD)[0] == 1
    browser.evaluate(f"({CHOOSE})('search', '')")
    assert len(browser.evaluate(VISIBLE_JOBS)) == 7, "what a person opened stays open"


def test_many_different_jobs_are_folded_and_shown_on_request(
    browser: Browser, tmp_path: Path
) -> None:
    report = sample_report()
    path = tmp_path / "folded.html"
    path.write_text(report_page.render(report), encoding="utf-8")
    browser.open(path, width=375)
    assert len(browser.evaluate(VISIBLE_JOBS)) == 5
    assert browser.evaluate("document.getElementById('unfold-jobs').innerText").startswith(
        "Show all 13"
    )
    browser.evaluate("document.getElementById('unfold-jobs').click()")
    assert len(browser.evaluate(VISIBLE_JOBS)) == 13
    assert browser.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_filters_by_outcome_and_cause_work_together(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate(f"({CHOOSE})('outcome', 'failed')")
    assert set(browser.evaluate(VISIBLE_JOBS)) == {"dull_plum_7r3", "red_elm_5f0"}
    browser.evaluate(f"({CHOOSE})('cause', 'own-memory-limit')")
    assert browser.evaluate(VISIBLE_JOBS) == ["dull_plum_7r3"]


def test_keyboard_alone_reaches_the_search_the_jobs_and_the_nodes(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    seen = []
    for _ in range(40):
        browser.press(*TAB)
        seen.append(browser.evaluate(FOCUS))
    assert seen[0] == "skip"
    assert seen[1:9] == ["A"] * 8  # the counts
    assert seen[9:14] == ["search", "pool", "verdict", "outcome", "cause"]
    assert seen[14:19] == ["SUMMARY", *["BUTTON"] * 4]  # an incident, and the columns that sort
    assert "expand" in seen
    browser.open(page)
    browser.evaluate("document.querySelector('details.job > summary').focus()")
    browser.press(*ENTER)
    assert browser.evaluate("document.querySelector('details.job').open")
    outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # who has the focus can be seen


def test_slash_goes_to_the_search(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("/", 191, "/")
    assert browser.evaluate("document.activeElement.id") == "search"
    assert browser.evaluate("document.getElementById('search').value") == ""


def test_link_to_a_node_shows_it_even_if_a_filter_hid_it(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate(f"({CHOOSE})('verdict', 'bad')")
    assert browser.evaluate(VISIBLE_NODES) == [f"{GPU}03"]
    browser.evaluate("document.querySelector('details.job').open = true")
    browser.evaluate("document.querySelector('details.job a[href^=\"#node-\"]').click()")
    browser.evaluate(SETTLED)
    assert browser.evaluate("document.querySelector(location.hash).dataset.name") == f"{GPU}00"
    assert browser.evaluate(VISIBLE_NODES) == [f"{GPU}03", f"{GPU}00"]


# --- nodes ------------------------------------------------------------------------------------------------------

SORTED = "[...document.querySelectorAll('#node-table th[aria-sort]')].map(e => e.innerText.trim() + ' ' + e.ariaSort)"
COLUMN = "document.querySelector('th[data-sort=%s] button')"


def test_nodes_can_be_filtered_by_pool_and_verdict(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate(f"({CHOOSE})('pool', 'spot')")
    assert browser.evaluate(VISIBLE_NODES) == [f"{SPOT}01", f"{SPOT}02", f"{SPOT}00", f"{SPOT}03"]
    assert browser.evaluate(VISIBLE_JOBS) == ["calm_pear_9x1"]
    browser.evaluate(f"({CHOOSE})('verdict', 'ok')")
    assert browser.evaluate(VISIBLE_NODES) == [f"{SPOT}00", f"{SPOT}03"]
    assert browser.evaluate(SHOWN) == "1 of 13 jobs, 2 of 12 nodes"
    browser.evaluate("document.getElementById('clear').click()")
    assert len(browser.evaluate(VISIBLE_NODES)) == 12
    assert browser.evaluate(SHOWN) == ""
    assert browser.evaluate("location.hash") == ""


def test_nodes_are_sorted_by_a_click_and_a_second_click_turns_the_order(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    assert browser.evaluate(SORTED) == ["Verdict ascending"]
    browser.evaluate(f"{COLUMN % 'name'}.click()")
    names = browser.evaluate(VISIBLE_NODES)
    assert names == sorted(names)
    assert browser.evaluate(SORTED) == ["Node ascending"]
    browser.evaluate(f"{COLUMN % 'name'}.click()")
    assert browser.evaluate(VISIBLE_NODES) == names[::-1]
    assert browser.evaluate(SORTED) == ["Node descending"]
    browser.evaluate(f"{COLUMN % 'pool'}.click()")
    assert browser.evaluate(VISIBLE_NODES)[8:] == [
        f"{SPOT}01",
        f"{SPOT}02",
        f"{SPOT}00",
        f"{SPOT}03",
    ]
    browser.evaluate(f"{COLUMN % 'failures'}.click()")  # the most failures first
    assert browser.evaluate(VISIBLE_NODES)[:3] == [f"{GPU}03", f"{GPU}05", f"{GPU}02"]
    assert browser.evaluate(SORTED) == ["Failed attempts descending"]
    browser.evaluate(f"{COLUMN % 'level'}.click()")
    assert browser.evaluate(VISIBLE_NODES)[0] == f"{GPU}03"


def test_nodes_are_sorted_with_the_keyboard_and_the_evidence_moves_along(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    browser.evaluate(f"{COLUMN % 'name'}.focus()")
    browser.press(*ENTER)
    assert browser.evaluate(SORTED) == ["Node ascending"]
    assert (
        browser.evaluate("document.activeElement.innerText.trim()") == "Node"
    )  # still where it was
    row = browser.evaluate("document.querySelector('tbody[data-verdict=bad] .more').textContent")
    assert f"kubectl describe node {GPU}03" in row


def test_many_good_nodes_are_folded_away_until_asked_for(browser: Browser, large: Path) -> None:
    browser.open(large)
    assert len(browser.evaluate(VISIBLE_NODES)) == 12
    assert browser.evaluate("document.getElementById('unfold').innerText") == "Show all 100 nodes"
    browser.evaluate("document.getElementById('unfold').click()")
    assert len(browser.evaluate(VISIBLE_NODES)) == 100
    assert (
        browser.evaluate("document.activeElement.tagName") == "TH"
    )  # the first of the rows that came
    browser.open(large, fragment="pool=cpu")
    assert len(browser.evaluate(VISIBLE_NODES)) == 50  # a filter asks for them, too


# --- links ------------------------------------------------------------------------------------------------------

TILE = "[...document.querySelectorAll('.tiles a')].find(e => e.innerText.includes('%s'))"


def test_count_leads_to_what_it_counts(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate(f"({CHOOSE})('search', 'nothing has this')")
    browser.evaluate(f"{TILE % 'failed'}.focus()")
    browser.press(*ENTER)
    browser.evaluate(SETTLED)
    assert browser.evaluate("location.hash") == "#outcome=failed"
    assert set(browser.evaluate(VISIBLE_JOBS)) == {"dull_plum_7r3", "red_elm_5f0"}
    assert browser.evaluate("document.activeElement.id") == "jobs"
    assert browser.evaluate(f"{TILE % 'failed'}.ariaCurrent") == "true"
    assert browser.evaluate(SHOWN) == "2 of 13 jobs, 12 of 12 nodes"
    browser.evaluate("history.back()")
    browser.evaluate(SETTLED)
    browser.evaluate(f"{TILE % 'bad node'}.click()")
    browser.evaluate(SETTLED)
    assert browser.evaluate(VISIBLE_NODES) == [f"{GPU}03"]
    assert browser.evaluate("document.activeElement.id") == "nodes"


@pytest.mark.parametrize(
    ("words", "count"), [("jobs", 13), ("failed", 2), ("waiting", 1), ("retried", 6)]
)
def test_count_is_the_number_of_jobs_that_its_link_shows(
    browser: Browser, page: Path, words: str, count: int
) -> None:
    browser.open(page)
    browser.evaluate(f"{TILE % words}.click()")
    browser.evaluate(SETTLED)
    assert browser.evaluate(f"{TILE % words}.querySelector('strong').innerText") == str(count)
    assert len(browser.evaluate(VISIBLE_JOBS)) == count


def test_count_that_is_clicked_again_leads_to_its_jobs_again(browser: Browser, page: Path) -> None:
    browser.open(page, fragment="outcome=failed")
    browser.evaluate("document.getElementById('search').focus()")
    browser.evaluate(f"{TILE % 'failed'}.click()")
    browser.evaluate(SETTLED)
    assert browser.evaluate("document.activeElement.id") == "jobs"
    assert len(browser.evaluate(VISIBLE_JOBS)) == 2


def test_address_has_the_filters_and_the_order_so_that_a_link_can_be_shared(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    browser.evaluate("document.getElementById('search').focus()")
    browser.type("100 % & more")
    browser.evaluate(f"({CHOOSE})('search', '4 x')")
    browser.evaluate(f"({CHOOSE})('pool', 'gpu')")
    browser.evaluate(f"({CHOOSE})('cause', 'node-out-of-memory')")
    browser.evaluate(f"{COLUMN % 'failures'}.click()")
    fragment = browser.evaluate("location.hash")[1:]
    assert fragment == "search=4+x&pool=gpu&cause=node-out-of-memory&sort=-failures"
    seen = [browser.evaluate(what) for what in (VISIBLE_JOBS, VISIBLE_NODES, SORTED, SHOWN)]
    browser.open(page, fragment=fragment)
    assert [browser.evaluate(what) for what in (VISIBLE_JOBS, VISIBLE_NODES, SORTED, SHOWN)] == seen
    assert browser.evaluate("document.getElementById('search').value") == "4 x"


@pytest.mark.parametrize(
    "fragment", ["pool=none%ZZ&sort=shoe&verdict=%22", "=&=", "%", "node-999", "outcome"]
)
def test_address_that_means_nothing_shows_everything(
    browser: Browser, page: Path, fragment: str
) -> None:
    browser.open(page, fragment=fragment)
    assert len(browser.evaluate(VISIBLE_JOBS)) == 13
    assert len(browser.evaluate(VISIBLE_NODES)) == 12
    assert browser.evaluate(SORTED) == ["Verdict ascending"]
    assert browser.evaluate(
        "[...document.querySelectorAll('select')].every(e => e.selectedIndex === 0)"
    )
    assert browser.complaints() == []


def test_incident_is_one_line_until_it_is_opened(browser: Browser, page: Path) -> None:
    browser.open(page)
    closed = browser.evaluate("document.querySelector('.incident').innerText")
    assert "5 of 8 nodes of pool gpu" in closed
    assert "check the network and the API server, not the nodes" in closed
    assert f"{GPU}04" not in closed
    order = "(a, b) => !!(document.querySelector(a).compareDocumentPosition(document.querySelector(b)) & 4)"
    assert browser.evaluate(f"({order})('.incident', '#node-table')")
    browser.evaluate("document.querySelector('.incident > summary').focus()")
    browser.press(*ENTER)
    assert f"{GPU}04" in browser.evaluate("document.querySelector('.incident').innerText")


# --- print ------------------------------------------------------------------------------------------------------


def test_print_has_the_summary_and_the_failures(browser: Browser, page: Path) -> None:
    browser.open(page, media="print", width=700)  # A4
    assert (
        browser.evaluate("getComputedStyle(document.querySelector('.node tr')).display")
        == "table-row"
    )
    assert set(browser.evaluate(VISIBLE_JOBS)) == {"dull_plum_7r3", "red_elm_5f0", "lone_bay_6e1"}
    assert browser.evaluate(VISIBLE_NODES) == [f"{GPU}03", f"{GPU}05"]
    text = browser.evaluate("document.body.innerText")
    for words in (
        "13 jobs",
        "own memory limit; fails everywhere",
        "5 of 8 nodes of pool gpu",
        "nothing was recorded",
    ):
        assert words in text.replace("\n", " ")
    assert "Restarts" not in text
    assert "Search" not in text


def test_print_follows_the_filters(browser: Browser, page: Path) -> None:
    browser.open(page, media="print", fragment="outcome=retried&verdict=ok&pool=spot")
    assert browser.evaluate(VISIBLE_JOBS) == ["calm_pear_9x1"]
    assert browser.evaluate(VISIBLE_NODES) == [f"{SPOT}00", f"{SPOT}03"]


def test_print_of_a_large_fleet_is_short(browser: Browser, large: Path) -> None:
    browser.open(large)
    assert 2 <= browser.printed_pages() <= 10
    browser.open(large, media="print")
    assert "50 more failed or waiting jobs are on the page itself" in browser.evaluate(
        "document.body.innerText"
    )


def test_print_is_short_even_if_everything_failed(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "worst.html"
    path.write_text(report_page.render(large_report(failed=1, bad=1)), encoding="utf-8")
    browser.open(path)
    assert browser.printed_pages() <= 10
    browser.open(path, fragment="pool=gpu")
    assert browser.printed_pages() <= 10
    browser.open(path, js=False)
    assert browser.printed_pages() <= 10


# --- speed ------------------------------------------------------------------------------------------------------


def script_ms(browser: Browser, work: str) -> float:
    """The CPU time of the page's script; what else the machine does is not in it."""
    answers = []
    browser.send("Performance.enable", timeDomain="threadTicks")
    for expression in ("0", work):
        browser.evaluate(expression)
        metrics = browser.send("Performance.getMetrics")["metrics"]
        answers.append(next(item["value"] for item in metrics if item["name"] == "ScriptDuration"))
    return 1000 * float(answers[1] - answers[0])


def test_thousand_jobs_and_nodes_are_sorted_and_filtered_at_once(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "many.html"
    path.write_text(report_page.render(large_report(nodes=1_000)), encoding="utf-8")
    browser.open(path)
    assert browser.evaluate("document.querySelectorAll('details.job').length") == 1_000
    # About 10 ms and 30 ms; with a quadratic search or sort these would be seconds.
    assert script_ms(browser, f"({CHOOSE})('search', 'gpu')") < 100
    assert script_ms(browser, f"{COLUMN % 'name'}.click()") < 200


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "large.html"
    path.write_text(report_page.render(large_report()), encoding="utf-8")
    return path


def test_filters_and_sorting_work_on_a_phone(browser: Browser, page: Path) -> None:
    browser.open(page, width=360)
    browser.evaluate(f"({CHOOSE})('verdict', 'suspect')")
    assert browser.evaluate(VISIBLE_NODES) == [f"{GPU}05"]
    assert browser.evaluate(f"{COLUMN % 'failures'}.getBoundingClientRect().height") > 10


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_no_horizontal_scroll_at_any_width_with_everything_open(
    browser: Browser, page: Path, width: int
) -> None:
    browser.open(page, width=width)
    browser.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_long_hostile_names_do_not_widen_a_phone(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    path.write_text(report_page.render(hostile_report("x" * 300 + EVIL)), encoding="utf-8")
    browser.open(path, width=360)
    browser.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360


def test_job_called_script_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "evil.html"
    path.write_text(report_page.render(hostile_report(EVIL)), encoding="utf-8")
    browser.open(path)
    browser.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert browser.evaluate("window.pwned === undefined")
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert "<script>window.pwned=1</script>" in browser.evaluate("document.body.innerText")
    assert browser.complaints() == []


def test_policy_stops_a_script_that_got_in_all_the_same(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    path = tmp_path / "injected.html"
    path.write_text(
        page.read_text().replace("</main>", "<script>window.pwned = 1</script></main>"),
        encoding="utf-8",
    )
    browser.open(path)
    assert browser.evaluate("window.pwned === undefined")
    assert any("Content Security Policy" in text for text in browser.complaints())


def test_without_javascript_everything_can_be_read(browser: Browser, page: Path) -> None:
    browser.open(page, js=False)
    assert len(browser.evaluate(VISIBLE_JOBS)) == 13
    assert len(browser.evaluate(VISIBLE_NODES)) == 12
    links = browser.evaluate("[...document.querySelectorAll('.tiles a')].map(e => e.hash)")
    assert links == ["#jobs"] * 4 + ["#incidents"] + ["#nodes"] * 3
    buttons = "[...document.querySelectorAll('button')].filter(e => e.offsetParent).length"
    assert browser.evaluate(buttons) == 0
    assert not browser.evaluate(
        "document.querySelector('.find').offsetParent !== null"
    )  # what cannot work is not shown
    browser.evaluate("document.querySelector('details.job > summary').focus()")
    browser.press(*ENTER)
    assert browser.evaluate("document.querySelector('details.job table').offsetParent !== null")


def accessible(browser: Browser) -> list[dict[str, Any]]:
    """What a screen reader gets."""
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    return [
        {"role": node["role"]["value"], "name": node.get("name", {}).get("value", "")}
        for node in nodes
        if not node.get("ignored") and "role" in node
    ]


def test_screen_reader_finds_landmarks_headings_and_names(browser: Browser, page: Path) -> None:
    browser.open(page)
    tree = accessible(browser)
    roles = {node["role"] for node in tree}
    assert {
        "main",
        "banner",
        "contentinfo",
        "search",
        "region",
        "heading",
        "table",
        "columnheader",
    } <= roles
    for role in ("searchbox", "combobox", "button", "image", "region", "table", "link", "heading"):
        unnamed = [node for node in tree if node["role"] == role and not node["name"].strip()]
        assert not unnamed, role
    names = " ".join(node["name"] for node in tree if node["role"] == "image")
    assert "first attempt on aks-gpu-31415926-vmss000003: node out of memory" in names
    assert "first attempt worker-0 on aks-gpu-31415926-vmss000000: gang collateral" in names


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core, which knows the rules of WCAG."""
    found = subprocess.run(
        [ROOT / "scripts" / "axe"], capture_output=True, text=True, timeout=300, check=False
    )
    if found.returncode:
        unavailable(f"scripts/axe: {found.stderr.strip()[-300:]}")
    return Path(found.stdout.strip()).read_text(encoding="utf-8")


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (375, False)])
@pytest.mark.parametrize("large_fleet", [False, True])
def test_axe_has_no_serious_finding(
    browser: Browser,
    page: Path,
    tmp_path: Path,
    axe: str,
    width: int,
    dark: bool,
    opened: bool,
    large_fleet: bool,
) -> None:
    if large_fleet:
        page = tmp_path / "fleet.html"
        page.write_text(report_page.render(large_report(jobs=60, nodes=20)), encoding="utf-8")
    browser.open(page, width=width, dark=dark)
    if opened:
        browser.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    browser.evaluate(axe + "; 0")
    findings = browser.evaluate(
        "axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html.slice(0, 200)]))"
    )
    assert [item for item in findings if item[0] in ("serious", "critical")] == []


CONTRAST = """
(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const e of document.querySelectorAll("body *")) {
    if (!e.offsetParent || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${e.tagName}.${e.className}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_enough_contrast(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert browser.evaluate(CONTRAST) == []
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(14, 17, 22)") is dark
