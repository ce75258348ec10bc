"""Where new text goes so that it looks as if the author had written it. Text spans only: no
planning, no proof.

Every function takes a `Source` and `ast` nodes of it and gives `Edit`s of its characters. What
would be ugly or wrong (two statements on one line, say) raises `Refused`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.files.edits import Edit, Refused

_WIDTH = 88
_STEP = "    "
_REST_OF_LINE = re.compile(r"[ \t\f]*;?[ \t\f]*(?:#[^\r\n]*)?(?=\r|\n|\Z)")


def whole_lines(source: Source, stmt: ast.stmt) -> tuple[int, int]:
    """The lines of a statement and its decorators, with the line break after them."""
    decorators: list[ast.expr] = getattr(stmt, "decorator_list", [])
    first = min([stmt.lineno, *(decorator.lineno for decorator in decorators)])
    return source.starts[first - 1], source.line_after(source.end(stmt))


def after_statement(source: Source, stmt: ast.stmt, lines: Sequence[str]) -> Edit:
    """Whole lines after a statement, with its indent."""
    start, end = source.span(stmt)
    if not _begins_line(source, start) or not _REST_OF_LINE.match(source.text, end):
        raise Refused("it shares its line with another statement")
    indent, place = source.indent(start), source.line_end(end)
    return Edit(place, place, "".join(source.newline + indent + line for line in lines))


def before_statement(source: Source, stmt: ast.stmt, lines: Sequence[str]) -> Edit:
    """Whole lines before a statement and its decorators, with its indent."""
    place, _ = whole_lines(source, stmt)
    indent = source.indent(place)
    return Edit(place, place, "".join(indent + line + source.newline for line in lines))


def replace_statement(source: Source, stmt: ast.stmt, text: str) -> Edit:
    """Other statements in place of one; without any, its lines go with it. A comment after it
    stays.
    """
    start, end = source.span(stmt)
    stop = source.line_end(end)
    after = source.text[end:stop].lstrip()
    if not _begins_line(source, start) or (after and not after.startswith("#")):
        raise Refused("another statement is on the same line", line=stmt.lineno)
    tokens = tokenize.generate_tokens(io.StringIO(source.text[start:end]).readline)
    if any(token.type == tokenize.COMMENT for token in tokens):
        raise Refused("a comment inside the statement would be lost", line=stmt.lineno)
    if text:
        glue = source.newline + source.indent(start)
        return Edit(start, end, text.replace("\r\n", "\n").replace("\n", glue))
    if after:
        return Edit(start, stop - len(after), "")
    return Edit(source.line_start(start), source.line_after(stop), "")


def _begins_line(source: Source, offset: int) -> bool:
    return not source.text[source.line_start(offset) : offset].strip()


def append(
    source: Source, last: tuple[int, int] | None, close: int, items: Sequence[str]
) -> list[Edit]:
    """More items in a bracketed list whose last item spans `last` and whose closing bracket is at
    `close`.

    Items that are on lines of their own are followed by such items; a trailing comma stays.
    """
    if last is None:
        return [Edit(close, close, ", ".join(items))]
    end, comma = _tail(source.text, last[1], close)
    if not _begins_line(source, last[0]):
        if comma is None:
            return [Edit(end, end, "".join(f", {item}" for item in items))]
        return [Edit(comma + 1, comma + 1, "".join(f" {item}," for item in items))]
    gap = source.newline + source.indent(last[0])
    place = end if comma is None else comma + 1
    if source.line_end(place) < close:  # the bracket is on a later line: stay behind comments
        place = source.line_end(place)
    if comma is not None:
        return [Edit(place, place, "".join(f"{gap}{item}," for item in items))]
    return [Edit(end, end, ","), Edit(place, place, ",".join(gap + item for item in items))]


def append_arguments(source: Source, call: ast.Call, items: Sequence[str]) -> list[Edit]:
    nodes = _arguments(call)
    last = source.span(nodes[-1]) if nodes else None
    return append(source, last, source.end(call) - 1, items)


def _arguments(call: ast.Call) -> list[ast.expr | ast.keyword]:
    """In order of the text: `*items` may come after a keyword."""
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def append_dict_items(source: Source, node: ast.Dict, items: Sequence[str]) -> list[Edit]:
    last = None
    if node.values:
        value = node.values[-1]
        last = source.start(node.keys[-1] or value), source.end(value)
    return append(source, last, source.end(node) - 1, items)


def append_imports(source: Source, stmt: ast.ImportFrom, names: Sequence[str]) -> list[Edit]:
    """More names in an import; several that do not fit on its line get lines of their own."""
    last = source.span(stmt.names[-1])
    close = source.end(stmt) - 1
    if source.text[close] == ")":
        return append(source, last, close, names)
    added = "".join(f", {name}" for name in names)
    line = source.text[source.line_start(last[1]) : last[1]]
    if len(names) == 1 or len(line + added) < _WIDTH or stmt.lineno != stmt.end_lineno:
        return [Edit(last[1], last[1], added)]
    newline = source.newline + source.indent(last[1])
    items = [f"{newline}{_STEP}{item}," for item in [*map(source.slice, stmt.names), *names]]
    return [Edit(source.start(stmt.names[0]), last[1], f"({''.join(items)}{newline})")]


def append_parameters(
    source: Source, function: ast.FunctionDef, items: Sequence[str]
) -> list[Edit]:
    """Parameters with defaults after the last one that may be given by position."""
    arguments = function.args
    if arguments.posonlyargs or arguments.vararg or (arguments.kwonlyargs and not arguments.args):
        raise Refused("its parameters are not plain ones")
    opening, close = _parentheses(source, function)
    if not arguments.args:
        if arguments.kwarg:
            return [Edit(opening + 1, opening + 1, "".join(f"{item}, " for item in items))]
        return append(source, None, close, items)
    last = arguments.args[-1]
    end = max(source.end(last), *(source.end(default) for default in arguments.defaults), 0)
    if arguments.kwonlyargs or arguments.kwarg:
        end, _ = _tail(source.text, end, close)
        return [Edit(end, end, "".join(f", {item}" for item in items))]
    return append(source, (source.start(last), end), close, items)


def drop_arguments(source: Source, call: ast.Call, names: Collection[str]) -> list[Edit]:
    """Keyword arguments taken out, with their lines where they are alone there."""
    edits: list[Edit] = []
    run: list[ast.expr | ast.keyword] = []  # dropped ones that share their lines with what stays
    kept: ast.expr | ast.keyword | None = None
    for node in _arguments(call):
        if not (isinstance(node, ast.keyword) and node.arg in names):
            if run:
                edits.append(Edit(source.start(run[0]), source.start(node), ""))
            run, kept = [], node
        elif whole := _own_lines(source, call, node):
            edits.append(whole)
        else:
            run.append(node)
    if run:
        end, comma = _tail(source.text, source.end(run[-1]), source.end(call) - 1)
        start = source.start(run[0])
        if kept is not None:
            start = _tail(source.text, source.end(kept), start)[0]
        elif comma is not None:
            end = comma + 1
        edits.append(Edit(start, end, ""))
    return edits


def _own_lines(source: Source, call: ast.Call, node: ast.keyword) -> Edit | None:
    """The lines of an argument that has them for itself, with the comma and comment after it."""
    start = source.start(node)
    end, comma = _tail(source.text, source.end(node), source.end(call) - 1)
    stop = end if comma is None else comma + 1
    if not _begins_line(source, start) or not _REST_OF_LINE.match(source.text, stop):
        return None
    return Edit(source.line_start(start), source.line_after(stop), "")


def _tail(text: str, end: int, limit: int) -> tuple[int, int | None]:
    """The true end of an item (brackets around it are not part of its node), and the comma after
    it.
    """
    index, comma = end, None
    while index < limit:
        char = text[index]
        if char == "#":
            while index < limit and text[index] not in "\r\n":
                index += 1
        elif char == ")" and comma is None:
            end = index + 1
        elif char == "," and comma is None:
            comma = index
        elif not char.isspace() and char != "\\":
            break
        index += 1
    return end, comma


def _parentheses(source: Source, function: ast.FunctionDef) -> tuple[int, int]:
    """Offsets of the brackets around a function's parameters."""
    base = source.offset(function.lineno, function.col_offset)
    depth, opening = 0, -1
    lines = io.StringIO(source.text[base : source.start(function.body[0])], newline="")
    first = bisect_right(source.starts, base) - 1
    for token in tokenize.generate_tokens(lines.readline):
        if token.type != tokenize.OP or token.string not in "()[]{}":
            continue
        row, column = token.start
        offset = (base if row == 1 else source.starts[first + row - 1]) + column
        depth += 1 if token.string in "([{" else -1
        if depth == 1 and opening < 0 and token.string == "(":
            opening = offset
        if depth == 0 and opening >= 0:
            return opening, offset
    raise Refused("its parameters cannot be found")


# --- new expressions ---


@dataclass(frozen=True, slots=True)
class Bracketed:
    """A call, list or dictionary: its items each have a beginning, such as `key=`."""

    opening: str
    items: Sequence[tuple[str, str | Bracketed]]
    closing: str

    def line(self) -> str:
        return (
            self.opening + ", ".join(head + _line(item) for head, item in self.items) + self.closing
        )


def written(value: str | Bracketed, source: Source, indent: str, before: int) -> str:
    """The text of a value that begins after `before` characters of a line with this indent."""
    return _written(value, indent, before).replace("\n", source.newline)


def _line(value: str | Bracketed) -> str:
    return value if isinstance(value, str) else value.line()


def _written(value: str | Bracketed, indent: str, before: int) -> str:
    line = _line(value)
    if isinstance(value, str) or not value.items or before + len(line) < _WIDTH:
        return line
    inner = indent + _STEP
    items = [
        f"{inner}{head}{_written(item, inner, len(inner + head))},\n" for head, item in value.items
    ]
    return f"{value.opening}\n{''.join(items)}{indent}{value.closing}"
