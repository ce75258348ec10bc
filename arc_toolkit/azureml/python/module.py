"""One file or notebook as a module: its scopes, and which of its lines and functions may be about
AzureML.

Only those are read: a large module has few of them. Other modules of the project are found by what
is imported.
"""

from __future__ import annotations

import ast
import os.path
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from arc_toolkit.azureml.python.sdk_objects import KEY_WORDS
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.edit.code.names import (
    Binding,
    CodeScopes,
    ScopeReader,
    Statement,
    chain,
    last_name,
)
from arc_toolkit.edit.code.source import Source

# Words that a call worth looking at has, and the names that these were imported as.
WORDS = (
    *("command", "parallel_run_function", "sweep", "set_resources", "ParallelRun"),
    *("CommandJob", "SweepJob", "ParallelJob", "ScriptRunConfig", "Step(", "Estimator("),
    *("PyTorch(", "TensorFlow(", "SKLearn("),
)
# A project is not deeper than that; the folder with `.git` is its top.
MAX_PROJECT_FOLDERS = 8
_NAME_AT_END = re.compile(r"\w*\Z")
_LONGEST_NAME = 100
_RENAMED = re.compile(r"(?:command|parallel_run_function|ParallelRun\w+)[ \t]+as[ \t]+(\w+)")


@dataclass(eq=False)
class Module(CodeScopes):
    """One file or notebook, with the names that make steps in it."""

    # Calls of what makes steps here: `train(`, and `self.train(`.
    makers: set[str] = field(default_factory=set)
    held_makers: set[str] = field(default_factory=set)

    @cached_property
    def _mentions(self) -> dict[int, list[int]]:
        words = [*WORDS, *self.held_makers]
        for source in self.sources:
            if " as " in source.text:
                words += _RENAMED.findall(source.text)
        return {id(source): source.lines_with([*words, *self.makers]) for source in self.sources}

    @cached_property
    def read_steps(self) -> set[str]:
        """Names whose `.outputs` are read somewhere."""
        # An expression for the name and the word together would try every character of the text.
        befores = (
            before for source in self.sources for before in source.text.split(".outputs")[:-1]
        )
        return {
            match[0]
            for before in befores
            if (match := _NAME_AT_END.search(before[-_LONGEST_NAME:]))
        }

    def mentions(self, statement: Statement) -> bool:
        """Whether a word of interest is in the lines of a statement: only then its expressions are
        walked.
        """
        lines = self._mentions[id(statement.source)]
        index = bisect_left(lines, statement.stmt.lineno)
        return index < len(lines) and lines[index] <= (
            statement.stmt.end_lineno or statement.stmt.lineno
        )


# Words without which a function makes no step and sets nothing; `@` is for decorated functions
# inside of it.
_FUNCTION_WORDS = (
    *WORDS,
    *(
        "@",
        "load_component",
        "from_yaml",
        "from_func",
        "Component",
        "components",
        "resources",
        "runsettings",
    ),
    *("default_compute", "azure.", "mldesigner", "HyperDriveConfig"),
)
_COMPONENT_MAKERS = frozenset(
    {"load_component", "from_yaml", "from_func", "CommandComponent", "ParallelComponent", "partial"}
)
_HELD = re.compile(
    r"self\.(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*[\w.]*(?:load_component|from_yaml|Component|command)\w*\("
)
# Calls at module level whose results are not components, for certain.
_HARMLESS_MAKERS = frozenset({"getLogger", "Path", "join", "getenv", "open", "dict", "list", "set"})


def read_module(sources: Sequence[Source]) -> Module:
    """Walk the statements of the sources, as one module.

    Functions without a decorator are walked only when a word in their lines says that they may
    matter.
    """
    module = Module(sources)
    reader = ScopeReader(module)
    scope = module.top
    makers = [
        name
        for name, bindings in scope.bindings.items()
        if any(_may_make_steps(name, binding.value) for binding in bindings)
    ]
    module.makers = {
        f"{name}("
        for name, bindings in scope.bindings.items()
        if any(map(_makes_component, bindings))
    }
    module.held_makers = {
        f"self.{name}("
        for source in sources
        if "self." in source.text and "omponent" in source.text
        for name in _HELD.findall(source.text)
    }
    reader.finish([*_FUNCTION_WORDS, *module.held_makers], {*makers, *module.makers})
    return module


def _makes_component(binding: Binding) -> bool:
    value = binding.value
    return isinstance(value, ast.Call) and last_name(value.func) in _COMPONENT_MAKERS


def _may_make_steps(name: str, value: ast.expr | ast.FunctionDef | str | None) -> bool:
    """Whether what a module binds may be called for a step elsewhere: not sure, but sure enough not
    to miss one.
    """
    if isinstance(value, str):  # `command as make`: the words know it by its own name only
        renamed = value.startswith(("azure", "mldesigner")) and not value.endswith(name)
        return renamed or value.startswith("azure.ai.ml.automl")
    if isinstance(value, ast.FunctionDef):
        return bool(value.decorator_list)
    if isinstance(value, ast.Call):
        parts = chain(value.func)
        return parts is None or (parts[1] or parts)[-1] not in _HARMLESS_MAKERS
    return isinstance(value, ast.expr) and not isinstance(value, ast.Constant)


@dataclass(frozen=True)
class ProjectModule:
    """The file of a module, its text, and the name in it that was imported: `Config.FOLDER`."""

    file: str
    text: bytes
    name: str

    @property
    def has_sdk(self) -> bool:
        return any(word in self.text for word in KEY_WORDS)

    @property
    def may_pass_on(self) -> bool:
        """Whether the name may be a component here, or imported here: no class, and no function
        without a decorator.
        """
        name = re.escape(self.name.encode())
        if re.search(name, self.text) is None:
            return False
        if other := re.search(rb"\n%s[ \t]*=[ \t]*(\w+)\r?\n" % name, self.text):
            name = other[1]  # `Str = String`
        if re.search(rb"\nclass[ \t]+%s\b" % name, self.text):
            return False
        defined = re.search(rb"\n(?:async[ \t]+)?def[ \t]+%s\b" % name, self.text)
        if defined is None:
            return True
        before = self.text.rfind(b"\n", 0, defined.start()) + 1
        return self.text.startswith((b"@", b")"), before)


def folders_around(folder: str) -> Iterator[str]:
    """The folder of a module and those around it: where its project may be run from."""
    for _ in range(MAX_PROJECT_FOLDERS):
        yield folder
        if os.path.exists(os.path.join(folder, ".git")) or os.path.dirname(folder) == folder:
            return
        folder = os.path.dirname(folder)


def find_module(path: str, folder: str, project: ProjectFiles) -> ProjectModule | None:
    """The module of `package.module.name`, imported in a folder; None if it is not one of the
    project.
    """
    inner = path.lstrip(".")
    above = len(path) - len(inner)
    parts = inner.split(".")
    if not above and parts[0] in sys.stdlib_module_names:
        return None
    places = list(folders_around(folder))
    if above:  # from .. import
        places = [os.path.normpath(os.path.join(folder, *[os.pardir] * (above - 1)))]
    for end in range(len(parts) - 1, -1 if above else 0, -1):
        start = os.path.join("", *parts[:end])
        for place in places:
            for file in (f"{start}.py" if end else "", os.path.join(start, "__init__.py")):
                full = os.path.join(place, file)
                if not file or project.missing(full):
                    continue
                try:
                    return ProjectModule(full, project.read(full), ".".join(parts[end:]))
                except (OSError, ValueError):
                    continue
    return None
