"""The modules that `patch` goes through for one file: the two lists in docs/architecture.md.

.venv/bin/python -m scripts.walk            prints both lists
.venv/bin/python -m scripts.walk --write    puts them into docs/architecture.md
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
SAMPLES = {
    "YAML": (
        "job.yml",
        "type: command\ncommand: python train.py\nenvironment: azureml:train:1\ncompute: azureml:aks\n",
    ),
    "Python": (
        "job.py",
        'from azure.ai.ml import command\n\njob = command(command="python a.py", environment="e:1", compute="aks")\n',
    ),
}
OPTIONS = ("--instance-type", "32cpu128g", "--instance-count", "2", "--write", "--quiet")
# CO_OPTIMIZED: the code of a function, not of a class body or module.
_FUNCTION = 1


def modules_of(name: str, text: str) -> list[str]:
    """The modules whose functions run for this file, in order; the rules count as one."""
    from arc_toolkit.cli.main import main

    modules: dict[str, None] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if (
            event == "call"
            and module.startswith("arc_toolkit.")
            and frame.f_code.co_flags & _FUNCTION
        ):
            modules[re.sub(r"(\.rules)\..*", r"\1", module.removeprefix("arc_toolkit."))] = None

    with (
        tempfile.TemporaryDirectory() as folder,
        redirect_stdout(StringIO()),
        redirect_stderr(StringIO()),
    ):
        path = Path(folder, name)
        path.write_text(text)
        main(["patch", str(path), *OPTIONS])  # a first time, so that importing does not count
        path.write_text(text)
        sys.setprofile(note)
        try:
            main(["patch", str(path), *OPTIONS])
        finally:
            sys.setprofile(None)
    return list(modules)


def blocks() -> Iterator[tuple[str, str]]:
    """For each language, the text between the marks of the page."""
    for language, (name, text) in SAMPLES.items():
        modules = modules_of(name, text)
        listed = ", ".join(f"`{module}`" for module in modules)
        yield language, f"{language} file, {len(modules)} modules: {listed}."


def page_with_blocks(page: str) -> str:
    """The page with both lists as they are now."""
    for language, block in blocks():
        page = re.sub(rf"^{language} file, \d+ modules: .*$", block, page, flags=re.MULTILINE)
    return page


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page_with_blocks(PAGE.read_text()))
    else:
        for _, line in blocks():
            print(line)
