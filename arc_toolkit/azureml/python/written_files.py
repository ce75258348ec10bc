"""Component files that the code itself writes: `%%writefile` cells of notebooks, `open(...).write(...)`, `write_text`.

They are read for their kind and their resources; what is known only when the code runs is a placeholder in the text.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Iterator, Sequence

from arc_toolkit.azureml.documents import Document, parse
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.python.module import Module
from arc_toolkit.edit.code.expressions import calls_in
from arc_toolkit.edit.code.names import Block, Statement
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.code.values import Evaluator
from arc_toolkit.edit.files.edits import Unreadable

_WRITES = frozenset({"write", "write_text"})


def written_texts(module: Module, values: Evaluator) -> dict[str, str]:
    """What the code writes to files, by the paths as it names them; the first one if it writes several."""
    texts: dict[str, str] = {}
    for name, content in (*_cells(module, values), *_calls(module, values)):
        texts.setdefault(os.path.normpath(name), content)
    return texts


def written_document(file: str, content: str, library: Library) -> Document | None:
    """The document that a text is once it is in a file; None if it is not one."""
    try:
        return parse(file, content.encode(), library).documents[0]
    except (Unreadable, LookupError):
        return None


def _cells(module: Module, values: Evaluator) -> Iterator[tuple[str, str]]:
    """`%%writefile {folder}/train.yml`: IPython puts in what the names in braces are at that time."""
    for source in module.sources:
        if source.written is None:
            continue
        name, content = source.written
        try:
            expression = ast.parse(f"f{name!r}", mode="eval").body
        except SyntaxError:
            continue
        written = values.text(expression, _end(module, source))
        if written is not None:
            yield written, content


def _end(module: Module, source: Source) -> Statement:
    """A place after the statements of the cells up to this one."""
    before = module.sources[: next(i for i, item in enumerate(module.sources) if item is source)]
    last = max(
        (s.order for s in module.top.statements if any(s.source is item for item in before)),
        default=0,
    )
    return Statement(source, [], ast.Pass(), module.top, Block("scope"), last + 1)


def _calls(module: Module, values: Evaluator) -> Iterator[tuple[str, str]]:
    """`with open(name, "w") as f: f.write(content)` and `Path(name).write_text(content)`."""
    contents = values.with_placeholder("0")
    for scope in module.scopes:
        for statement in scope.statements:
            for call in calls_in(statement.stmt) if isinstance(statement.stmt, ast.Expr) else ():
                function = call.func
                if (
                    not isinstance(function, ast.Attribute)
                    or function.attr not in _WRITES
                    or not call.args
                ):
                    continue
                holder = function.value
                opened = (
                    _opened(holder, scope.statements, statement)
                    if isinstance(holder, ast.Name)
                    else None
                )
                written = values.text(opened or holder, statement)
                content = contents.text(call.args[0], statement)
                if written is not None and content is not None:
                    yield written, content


def _opened(name: ast.Name, statements: Sequence[Statement], write: Statement) -> ast.expr | None:
    """The first argument of the last `open` before `write` whose file a with statement calls by this name."""
    for statement in reversed(statements):
        if not isinstance(statement.stmt, ast.With) or statement.order > write.order:
            continue
        for item in statement.stmt.items:
            is_it = isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == name.id
            if is_it and isinstance(item.context_expr, ast.Call) and item.context_expr.args:
                return item.context_expr.args[0]
    return None
