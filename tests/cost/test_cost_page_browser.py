"""The page of `cost` in a real Chromium: nothing foreign, no broken rule of its policy, every label within its plot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.diagnosis.browser import Browser
from tests.diagnosis.test_report_page_browser import browser  # noqa: F401  (a fixture)
from tests.support import Result

pytestmark = pytest.mark.real

# Texts of a plot that leave it, or that cover each other.
OUTSIDE = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
      || box.bottom > frame.bottom + 1;
  }).map(text => text.textContent);
})"""
COVERED = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const boxes = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([name, a], index) => boxes.slice(index + 1).filter(([, b]) =>
    a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 3 && b.top < a.bottom - 3
  ).map(([other]) => name + ' / ' + other));
})"""
CASES = {
    "usual": ("--eviction-rate", "5-10%", "--spot-price", "30%", "--low-priority-price", "20%"),
    "close prices": ("--eviction-rate", "5%", "--spot-price", "96%", "--low-priority-price", "95%"),
    "low rate": ("--eviction-rate", "0.1%", "--spot-price", "11%"),
    "high rate": (
        "--eviction-rate",
        "20+%",
        "--no-notice",
        "--save",
        "5m",
        "--restart",
        "20m",
        "--spot-price",
        "30%",
    ),
    "deadline": (
        "--eviction-rate",
        "5%",
        "--missing",
        "50%:3h",
        "--deadline",
        "50h",
        "--simulate",
        "50",
        "--spot-price",
        "12%",
    ),
    "no spot price": ("--region", "eastus", "--eviction-rate", "5%"),
    "no upper end": ("--eviction-rate", "20+%", "--together", "4"),
    "small job": ("--hours", "0.2", "--eviction-rate", "5%", "--spot-price", "20%"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_page_is_whole_at_any_width(
    arc: Callable[..., Result],
    browser: Browser,  # noqa: F811
    tmp_path: Path,
    case: str,
) -> None:
    path = tmp_path / "cost.html"
    words = (
        "cost",
        "--sku",
        "Standard_NC24ads_A100_v4",
        "--nodes",
        "8",
        "--hours",
        "40",
        *CASES[case],
    )
    assert arc(*words, "--format", "html", "-o", str(path)).code == 0
    for width, dark in ((1200, False), (360, True)):
        browser.open(path, width=width, dark=dark)
        assert browser.requests() == [path.as_uri()]
        assert browser.complaints() == []
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate("document.querySelectorAll('svg polyline').length") >= 3
        assert browser.evaluate(OUTSIDE) == []
        assert browser.evaluate(COVERED) == []
