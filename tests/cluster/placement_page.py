"""docs/proof-of-placement.md, of which each test makes a section."""

from __future__ import annotations

import os

from tests.support import ROOT

PAGE = ROOT / "docs" / "proof-of-placement.md"
_TOP = """\
# Proof of placement

Made by `tests/cluster/test_placement.py` and `tests/cluster/test_placement_pods.py` on a real control plane.
"""
HEADINGS = ("## The API server", "## The schedulers")


def hold_section(heading: str, text: str) -> None:
    """Compare a section of the page with what just happened; ARC_TOOLKIT_WRITE_PROOF=1 writes it."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    sections = {title: _section(page, title) for title in HEADINGS}
    sections[heading] = text
    expected = _TOP + "".join(f"\n{title}\n\n{body}" for title, body in sections.items() if body)
    if os.environ.get("ARC_TOOLKIT_WRITE_PROOF"):
        PAGE.write_text(expected, encoding="utf-8")
        page = expected
    assert page == expected, "write it anew with ARC_TOOLKIT_WRITE_PROOF=1"


def _section(page: str, heading: str) -> str:
    _, found, rest = page.partition(f"\n{heading}\n\n")
    for other in HEADINGS:
        rest = rest.partition(f"\n{other}\n")[0]
    return rest if found else ""
