"""Make docs/images/report-*.png: the made-up fleet of the tests as the HTML page, in a real Chromium.

.venv/bin/python -m scripts.report_pictures
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from arc_toolkit.diagnosis.formats import report_page  # noqa: E402
from tests.diagnosis.browser import Browser  # noqa: E402
from tests.diagnosis.page_sample import sample_report  # noqa: E402

LARGEST_BYTES = 150_000
JOBS = "scrollTo({top: document.getElementById('jobs').offsetTop - 90, behavior: 'instant'})"
# name -> width, height, dark, the fragment of the address, and what is done to the page first
PICTURES = {
    "desktop": (1100, 1010, False, "", ""),
    "job": (1100, 760, False, "search=brave_fig_4k2", ""),
    "dark": (1100, 760, True, "", JOBS),
    "phone": (375, 812, False, "search=dull_plum_7r3", ""),
}
SETTLED = "new Promise(resolve => setTimeout(resolve, 800))"  # smooth scrolling


def main() -> None:
    found = subprocess.run(
        [ROOT / "scripts" / "chromium"], stdout=subprocess.PIPE, text=True, check=True
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = Path(folder) / "report.html"
        page.write_text(report_page.render(sample_report()), encoding="utf-8")
        with Browser(found.stdout.strip().splitlines()[-1], Path(folder) / "profile") as browser:
            for name, (width, height, dark, fragment, first) in PICTURES.items():
                browser.open(page, width=width, height=height, dark=dark, fragment=fragment)
                browser.evaluate(SETTLED)
                if first:
                    browser.evaluate(first)
                data = browser.screenshot()
                path = ROOT / "docs" / "images" / f"report-{name}.png"
                path.write_bytes(data)
                print(f"{path.relative_to(ROOT)}: {len(data)} bytes")
                if len(data) > LARGEST_BYTES:
                    sys.exit(f"{path.name} is larger than {LARGEST_BYTES} bytes")


if __name__ == "__main__":
    main()
