"""The modules and functions that `patch` goes through for one file: the two lists in
docs/architecture.md.

.venv/bin/python -m scripts.walk            prints both lists
.venv/bin/python -m scripts.walk --write    puts them into docs/architecture.md
"""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
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
_OPTIMIZED = 1
# A list in the page.
_LIST = r"^{} file, \d+ modules.*$"


@dataclass(frozen=True, slots=True)
class Walk:
    """What runs for one file, in order."""

    language: str
    # The rules count as one module.
    modules: list[str]
    # Without lambdas, comprehensions and generator expressions.
    functions: list[str]

    def describe(self, *, with_functions: bool) -> str:
        """The list as one line.

        The page has no number of functions, which nearly every change changes.
        """
        names = ", ".join(f"`{module}`" for module in self.modules)
        functions = f", {len(self.functions)} functions" if with_functions else ""
        return f"{self.language} file, {len(self.modules)} modules{functions}: {names}."


def walk(language: str) -> Walk:
    """What `patch` runs for the sample of a language."""
    from arc_toolkit.cli.main import main

    name, text = SAMPLES[language]
    modules: dict[str, None] = {}
    functions: dict[str, None] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        code = frame.f_code
        if event != "call" or not module.startswith("arc_toolkit."):
            return
        if code.co_flags & _OPTIMIZED:
            modules[re.sub(r"(\.rules)\..*", r"\1", module.removeprefix("arc_toolkit."))] = None
            if not code.co_name.startswith("<"):
                functions[f"{module}.{code.co_qualname}"] = None

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
    return Walk(language, list(modules), list(functions))


def page_with_walks(page: str) -> str:
    """The page with the lists as they are now."""
    for language in SAMPLES:
        line = walk(language).describe(with_functions=False)
        page = re.sub(_LIST.format(language), line, page, flags=re.MULTILINE)
    return page


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page_with_walks(PAGE.read_text()))
    else:
        for language in SAMPLES:
            print(walk(language).describe(with_functions=True))
