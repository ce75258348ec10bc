"""Other modules of the same project: components and texts that are imported from them.

Most of what pipelines import are helpers, which their text shows: those modules are not parsed.
"""

from __future__ import annotations

import ast
import os.path
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.module import read_module
from arc_toolkit.azureml.python.sdk_objects import (
    Builder,
    Component,
    PipelineFunction,
    SdkObject,
    Step,
    UnknownSdkObject,
)
from arc_toolkit.edit.code.names import Statement
from arc_toolkit.edit.code.source import Source, decode, parse
from arc_toolkit.edit.code.values import OpaqueValue
from arc_toolkit.edit.files.edits import Unreadable

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.resolve import SdkResolver

# A project is not deeper than that; the folder with `.git` is its top.
_FOLDERS = 8
# From a pipeline to the package of its components, from there to one of them, and to a constant.
_MOST_IMPORTS = 4
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class OwnModule:
    """The file of a module, its text, and the name in it that was imported: `Config.FOLDER`."""

    file: str
    text: bytes
    name: str

    @property
    def has_sdk(self) -> bool:
        return any(word in self.text for word in sdk.KEY_WORDS)

    @property
    def may_pass_on(self) -> bool:
        """Whether the name may be a component here, or imported here: no class, and no function without a decorator."""
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
    for _ in range(_FOLDERS):
        yield folder
        if os.path.exists(os.path.join(folder, ".git")) or os.path.dirname(folder) == folder:
            return
        folder = os.path.dirname(folder)


def find_module(path: str, folder: str, library: Library) -> OwnModule | None:
    """The module of `package.module.name`, imported in a folder; None if it is not one of the project."""
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
                if not file or library.missing(full):
                    continue
                try:
                    return OwnModule(full, library.read(full), ".".join(parts[end:]))
                except (OSError, ValueError):
                    continue
    return None


class OwnModules:
    """What one module imports from others of its project."""

    def __init__(self, resolver: SdkResolver) -> None:
        self._resolver = resolver
        self._known: dict[str, SdkObject | None] = {}

    def may_have(self, path: str) -> bool:
        """Whether what is imported may be a component."""
        module = self._find(path) if path else None
        if module is None or not module.may_pass_on:
            return False
        return module.has_sdk or bool(self._ask(module, _may_have))

    def sdk_object(self, path: str) -> SdkObject | None:
        """What is imported, if it means the same here: a component or a pipeline, not a command object, whose settings
        are in the other module."""
        if path not in self._known:
            module = self._find(path)
            self._known[path] = (
                self._ask(module, _meaning) if module is not None and module.may_pass_on else None
            )
        return self._known[path]

    def makes(self, path: str) -> bool:
        """Whether a step gets its settings in another file of the run: the command object that it is made of, or a
        function that gives one back, is there."""
        module = self._find(path) if path else None
        if module is None or not self._resolver.library.is_given(module.file):
            return False
        return bool(self._ask(replace(module, name=f"{module.name}()"), _makes))

    def value(self, path: str) -> Any:
        """The value of a constant that is imported."""
        module = self._find(path)
        value = self._ask(module, _value) if module is not None else None
        if value is None:
            raise OpaqueValue(f"it is imported: {path}")
        return value[0]

    def _find(self, path: str) -> OwnModule | None:
        return find_module(path, self._resolver.folder, self._resolver.library)

    def _ask(
        self, module: OwnModule, answer: Callable[[SdkResolver, ast.expr, Statement], _Answer]
    ) -> _Answer | None:
        """What a name is at the end of another module."""
        if self._resolver.imports >= _MOST_IMPORTS:
            return None
        try:
            text = decode(module.text)[0]
            code = read_module([Source(text, parse(text))])
        except Unreadable:
            return None
        with closing(code):
            if not code.top.statements:
                return None
            last = code.top.statements[-1]
            block = last.block
            while block.parent is not None:
                block = block.parent
            name = ast.parse(module.name, mode="eval").body
            end = replace(last, block=block, order=last.order + 1)
            return answer(self._resolver.of_module(code, module.file), name, end)


def _meaning(there: SdkResolver, name: ast.expr, statement: Statement) -> SdkObject | None:
    match there.object_of(name, statement):
        case UnknownSdkObject(imported=path) if path:  # `from .train import train` in __init__.py
            return there.own_modules.sdk_object(path)
        case (
            Component(call=None)
            | PipelineFunction()
            | UnknownSdkObject(is_component=True) as sdk_object
        ):
            return sdk_object
    return None


def _value(there: SdkResolver, name: ast.expr, statement: Statement) -> tuple[Any]:
    return (there.value(name, statement),)


def _may_have(there: SdkResolver, name: ast.expr, statement: Statement) -> bool:
    sdk_object = there.object_of(name, statement)
    return isinstance(sdk_object, UnknownSdkObject) and there.own_modules.may_have(
        sdk_object.imported
    )


def _makes(there: SdkResolver, call: ast.expr, statement: Statement) -> bool:
    sdk_object = there.object_of(call, statement)
    if isinstance(sdk_object, UnknownSdkObject):
        return sdk_object.is_made or there.own_modules.makes(sdk_object.imported)
    return isinstance(sdk_object, Builder) or (
        isinstance(sdk_object, Step) and isinstance(sdk_object.origin, Builder)
    )
