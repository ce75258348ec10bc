"""The console examples of the README and some pages: run their commands and compare, or with --write put in place.

An example is a ```console block whose first line is `$ arc-toolkit ...`; it is run in the top folder.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/gen-instance-types.md", "docs/validate.md", "docs/cost.md")
BLOCK = re.compile(r"```console\n\$ arc-toolkit ([^\n]*)\n(.*?)```", re.DOTALL)


def refreshed(text: str) -> str:
    """The text with every example's output as it is now."""
    return BLOCK.sub(
        lambda match: f"```console\n$ arc-toolkit {match[1]}\n{output(match[1])}```", text
    )


def output(words: str) -> str:
    command = [sys.executable, "-m", "arc_toolkit", *shlex.split(words)]
    done = subprocess.run(
        command,
        cwd=TOP,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"arc-toolkit {words} ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    for page in PAGES:
        path = TOP / page
        new = refreshed(path.read_text(encoding="utf-8"))
        if "--write" in sys.argv:
            path.write_text(new, encoding="utf-8")
        elif new != path.read_text(encoding="utf-8"):
            sys.exit(f"{page} is out of date: python -m scripts.readme --write")
