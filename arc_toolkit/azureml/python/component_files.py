"""The component files that code loads, and those that it writes first.

A file is looked for in the folder of the code and those around it. Files that the code writes
(`%%writefile` cells, `open(...).write(...)`, `write_text`) are read for their kind and their
resources; parts of their text that only running the code would tell are a placeholder.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Iterator
from functools import cached_property

from arc_toolkit.azureml.documents import Document, parse
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.python.module import Module, folders_around
from arc_toolkit.azureml.python.sdk_objects import Component, SdkVersion
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.edit.code.names import Block, Scope, Statement, calls_in
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.code.values import Evaluator
from arc_toolkit.edit.files.edits import Unreadable

# Role of a loader -> its SDK, the names of its argument, and the position of it.
LOADERS: dict[str, tuple[SdkVersion, tuple[str, ...], int]] = {
    "load_component": ("v2", ("source", "path"), 0),
    "from_yaml": ("v1.5", ("yaml_file",), 1),
}


class ComponentFiles:
    """Reads the component files of one module; a component whose kind is unknown is taken for
    `assume`.
    """

    def __init__(
        self, module: Module, values: Evaluator, project: ProjectFiles, assume: Family | None
    ) -> None:
        self._module = module
        self._values = values
        self._project = project
        self._assume = assume
        self._folder = os.path.dirname(values.file)

    def load(self, role: str, call: ast.Call, statement: Statement, values: Evaluator) -> Component:
        """What `load_component(...)` or `Component.from_yaml(...)` returns."""
        generation, names, position = LOADERS[role]
        family = self._assume or Family.OTHER
        named = [keyword.value for keyword in call.keywords if keyword.arg in names]
        # The argument at the position, or the last one before it.
        node = next(iter([*named, *reversed(call.args[: position + 1])]), None)
        name = values.text(node, statement) if node is not None else None
        if name is None:
            why = "its component file is known only when the code runs"
            return Component(generation, family, why=why)
        for file, document in self._candidates(name):
            if document is not None:
                family = document.root.kind.family
                why = "" if family != Family.OTHER else f"{name} is of a kind that is not known"
                return Component(generation, family, file, document, why=why)
        shown = os.path.relpath(name, self._folder) if os.path.isabs(name) else name
        return Component(generation, family, file, why=f"there is no component in {shown}")

    def _candidates(self, name: str) -> Iterator[tuple[str, Document | None]]:
        """In the folder of the code, or where it may be run from; or written by the code."""
        for folder in folders_around(self._folder):
            file = os.path.normpath(os.path.join(folder, name))
            yield file, self._project.load(file)
        file = os.path.normpath(os.path.join(self._folder, name))
        content = self._written_texts.get(os.path.normpath(name))
        try:
            written = parse(file, content.encode(), self._project).documents if content else ()
        except Unreadable:
            written = ()
        yield file, written[0] if written else None

    # --- files that the code writes ---

    @cached_property
    def _written_texts(self) -> dict[str, str]:
        """Contents by the paths as the code names them; the first one if it writes several."""
        texts: dict[str, str] = {}
        for name, content in (*self._cells(), *self._calls()):
            texts.setdefault(os.path.normpath(name), content)
        return texts

    def _cells(self) -> Iterator[tuple[str, str]]:
        """`%%writefile {folder}/train.yml`: IPython fills in the names in braces."""
        for source in self._module.sources:
            if source.written is None:
                continue
            name, content = source.written
            try:
                expression = ast.parse(f"f{name!r}", mode="eval").body
            except SyntaxError:
                continue
            path = self._values.text(expression, self._end_before(source))
            if path is not None:
                yield path, content

    def _end_before(self, source: Source) -> Statement:
        """A place after the statements of the cells before this one."""
        top, sources = self._module.top, [id(item) for item in self._module.sources]
        before = sources[: sources.index(id(source))]
        orders = [item.order for item in top.statements if id(item.source) in before]
        return Statement(source, [], ast.Pass(), top, Block("scope"), max(orders, default=0) + 1)

    def _calls(self) -> Iterator[tuple[str, str]]:
        """`with open(name, "w") as f: f.write(content)` and `Path(name).write_text(content)`."""
        contents = self._values.with_placeholder("0")
        for scope in self._module.scopes:
            for statement in scope.statements:
                if not isinstance(statement.stmt, ast.Expr):
                    continue
                for call in calls_in(statement.stmt):
                    match call:
                        case ast.Call(
                            func=ast.Attribute(attr="write" | "write_text", value=holder),
                            args=[content, *_],
                        ):
                            opened = _opened_file(holder, scope, statement) or holder
                            path = self._values.text(opened, statement)
                            text = contents.text(content, statement)
                            if path is not None and text is not None:
                                yield path, text


def _opened_file(holder: ast.expr, scope: Scope, write: Statement) -> ast.expr | None:
    """The path that the last `with open(path) as name` before a statement opens under this name."""
    for statement in reversed(scope.statements):
        if not isinstance(statement.stmt, ast.With) or statement.order > write.order:
            continue
        for item in statement.stmt.items:
            match item, holder:
                case (
                    ast.withitem(
                        context_expr=ast.Call(args=[path, *_]), optional_vars=ast.Name(id=name)
                    ),
                    ast.Name(id=wanted),
                ) if name == wanted:
                    return path
    return None
