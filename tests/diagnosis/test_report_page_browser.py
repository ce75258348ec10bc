"""The HTML report in a real Chromium: searching, keyboard, phone, no script, and that nothing foreign runs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis import report_page
from tests.diagnosis.browser import Browser
from tests.diagnosis.sample import sample_report
from tests.diagnosis.test_report_page import EVIL, hostile_report
from tests.support import ROOT, unavailable

pytestmark = pytest.mark.real

VISIBLE = "[...document.querySelectorAll('details.job')].filter(e => e.offsetParent)"
VISIBLE_JOBS = f"{VISIBLE}.map(e => e.dataset.text.split(' ')[0])"
CHOOSE = """(id, value) => {
  const e = document.getElementById(id);
  e.value = value;
  e.dispatchEvent(new Event('input'));
}"""
TAB, ENTER, ESCAPE = ("Tab", 9), ("Enter", 13, "\r"), ("Escape", 27)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = subprocess.run(
        [ROOT / "scripts" / "chromium"], capture_output=True, text=True, timeout=600, check=False
    )
    if found.returncode:
        unavailable(f"scripts/chromium: {found.stderr.strip()[-300:]}")
    with Browser(found.stdout.strip().splitlines()[-1], tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_page.render(sample_report()), encoding="utf-8")
    return path


def test_page_loads_itself_and_nothing_else_and_breaks_no_rule_of_its_policy(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []


def test_search_shows_only_what_has_every_word_and_says_how_many(browser: Browser, page: Path) -> None:
    browser.open(page)
    everything = browser.evaluate(VISIBLE_JOBS)
    assert len(everything) == 12
    browser.evaluate("document.getElementById('search').focus()")
    browser.type("SPOT calm")
    assert browser.evaluate(VISIBLE_JOBS) == ["calm_pear_9x1"]
    assert browser.evaluate("document.getElementById('shown').textContent") == "1 of 12 jobs, 0 of 12 nodes"
    browser.press(*ESCAPE)
    assert browser.evaluate(VISIBLE_JOBS) == everything


def test_search_for_a_node_finds_its_card_and_the_jobs_that_ran_on_it(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate("document.getElementById('search').focus()")
    browser.type("vmss000003")
    cards = browser.evaluate("[...document.querySelectorAll('article.node')].filter(e => e.offsetParent).length")
    assert cards == 1
    assert set(browser.evaluate(VISIBLE_JOBS)) >= {"brave_fig_4k2", "quick_lime_1b8"}


def test_no_match_is_reported(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate("document.getElementById('search').focus()")
    browser.type("no such thing")
    assert browser.evaluate(VISIBLE_JOBS) == []
    assert browser.evaluate("document.getElementById('nothing').offsetParent !== null")


def test_filters_by_outcome_and_cause_work_together(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate(f"({CHOOSE})('outcome', 'failed')")
    assert set(browser.evaluate(VISIBLE_JOBS)) == {"dull_plum_7r3", "red_elm_5f0"}
    browser.evaluate(f"({CHOOSE})('cause', 'own-memory-limit')")
    assert browser.evaluate(VISIBLE_JOBS) == ["dull_plum_7r3"]


def test_keyboard_alone_reaches_the_search_the_jobs_and_the_nodes(browser: Browser, page: Path) -> None:
    browser.open(page)
    seen = []
    for _ in range(40):
        browser.press(*TAB)
        seen.append(
            browser.evaluate(
                "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
            )
        )
    assert seen[0] == "skip"
    assert seen[1:5] == ["search", "outcome", "cause", "expand"]
    assert "SUMMARY" in seen
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


def test_link_to_a_node_opens_the_list_that_it_is_in(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate("document.querySelector('details.job').open = true")
    browser.evaluate("document.querySelector('details.job a[href^=\"#node-\"]').click()")
    browser.evaluate("new Promise(resolve => setTimeout(resolve, 50))")
    assert browser.evaluate("document.querySelector(location.hash).getBoundingClientRect().height > 0")


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_no_horizontal_scroll_at_any_width_with_everything_open(browser: Browser, page: Path, width: int) -> None:
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


def test_policy_stops_a_script_that_got_in_all_the_same(browser: Browser, page: Path, tmp_path: Path) -> None:
    path = tmp_path / "injected.html"
    path.write_text(
        page.read_text().replace("</main>", "<script>window.pwned = 1</script></main>"), encoding="utf-8"
    )
    browser.open(path)
    assert browser.evaluate("window.pwned === undefined")
    assert any("Content Security Policy" in text for text in browser.complaints())


def test_without_javascript_everything_can_be_read(browser: Browser, page: Path) -> None:
    browser.open(page, js=False)
    assert len(browser.evaluate(VISIBLE_JOBS)) == 12
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
    assert {"main", "banner", "contentinfo", "search", "region", "heading", "article"} <= roles
    for role in ("searchbox", "combobox", "button", "image", "region", "article", "link", "heading"):
        unnamed = [node for node in tree if node["role"] == role and not node["name"].strip()]
        assert not unnamed, role
    names = " ".join(node["name"] for node in tree if node["role"] == "image")
    assert "first attempt on aks-gpu-31415926-vmss000003: node out of memory" in names


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
