"""Pictures of real output for the README: runs a command with colours and writes what it printed as SVG.

.venv/bin/python -m scripts.picture docs/images/explain.svg gen-instance-types -q --sku D64s_v5 --explain
"""

from __future__ import annotations

import re
import subprocess
import sys
from html import escape
from pathlib import Path

from arc_toolkit.output.table import width

COLORS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "36": "#a5d6ff"}
TEXT, DIM, BACK = "#e6edf3", "#8b949e", "#0d1117"
CHAR, LINE, MARGIN = 7.8, 18, 16
ANSI = re.compile(r"\x1b\[([0-9;]*)m")


def spans(line: str) -> list[tuple[int, str, str]]:
    """Column, style and text of every piece of a line with ANSI codes."""
    found, column, style, at = [], 0, f'fill="{TEXT}"', 0
    for match in [*ANSI.finditer(line), None]:
        text = line[at : match.start()] if match else line[at:]
        if text:
            found.append((column, style, text))
            column += width(text)
        if match:
            style, at = _style(match[1]), match.end()
    return found


def _style(codes: str) -> str:
    parts = codes.split(";")
    color = next((COLORS[code] for code in parts if code in COLORS), DIM if "2" in parts else TEXT)
    return f'fill="{color}"' + (' font-weight="bold"' if "1" in parts else "")


def svg(title: str, text: str) -> str:
    """A dark terminal with a prompt line."""
    lines = [f"\x1b[36m$\x1b[0m \x1b[1m{title}\x1b[0m", "", *text.rstrip("\n").split("\n")]
    wide = max(width(line) for line in lines) * CHAR + 2 * MARGIN
    high = len(lines) * LINE + 2 * MARGIN
    body = "\n".join(
        f'<text x="{MARGIN + column * CHAR:.1f}" y="{MARGIN + (index + 1) * LINE - 5}" '
        f'textLength="{width(piece) * CHAR:.1f}" xml:space="preserve" {style}>{escape(piece)}</text>'
        for index, line in enumerate(lines)
        for column, style, piece in spans(line)
        if piece.strip()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" width="{wide:.0f}" role="img" '
        f'aria-label="{escape(title, quote=True)}" font-family="ui-monospace, DejaVu Sans Mono, Menlo, monospace" '
        f'font-size="13">\n<rect width="100%" height="100%" rx="8" fill="{BACK}"/>\n{body}\n</svg>\n'
    )


def main() -> None:
    target, *words = sys.argv[1:]
    command = [sys.executable, "-m", "arc_toolkit", *words, "--color", "always"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    shown = " ".join(["arc-toolkit", *(word for word in words if word not in ("-q", "--quiet"))])
    Path(target).write_text(svg(shown, done.stdout), encoding="utf-8")


if __name__ == "__main__":
    main()
