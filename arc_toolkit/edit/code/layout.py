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

from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.files.edits import Edit, Refused

_WIDTH = 88
_REST_OF_LINE = re.compile(r"[ \t\f]*;?[ \t\f]*(?:#[^\r\n]*)?(?=\r|\n|\Z)")


def whole_lines(source: Source, stmt: ast.stmt) -> tuple[int, int]:
    """The lines of a statement and its decorators, with the line break after them."""
    decorators: list[ast.expr] = getattr(stmt, "decorator_list", [])
    first = min([stmt.lineno, *(decorator.lineno for decorator in decorators)])
    following = bisect_right(source.starts, source.line_end(source.end(stmt)))
    end = source.starts[following] if following < len(source.starts) else len(source.text)
    return source.starts[first - 1], end


def after_statement(source: Source, stmt: ast.stmt, lines: Sequence[str]) -> Edit:
    """Whole lines after a statement, with its indent."""
    start, end = source.start(stmt), source.end(stmt)
    if source.text[source.line_start(start) : start].strip() or not _REST_OF_LINE.match(
        source.text, end
    ):
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
    start, end = source.start(stmt), source.end(stmt)
    stop = source.line_end(end)
    after = source.text[end:stop].lstrip()
    if source.text[source.line_start(start) : start].strip() or (
        after and not after.startswith("#")
    ):
        raise Refused("another statement is on the same line", line=stmt.lineno)
    tokens = tokenize.generate_tokens(io.StringIO(source.text[start:end]).readline)
    if any(token.type == tokenize.COMMENT for token in tokens):
        raise Refused("a comment inside the statement would be lost", line=stmt.lineno)
    if text:
        glue = source.newline + source.indent(start)
        return Edit(start, end, text.replace("\r\n", "\n").replace("\n", glue))
    if after:
        return Edit(start, stop - len(after), "")
    following = bisect_right(source.starts, stop)
    return Edit(
        source.line_start(start),
        source.starts[following] if following < len(source.starts) else stop,
        "",
    )


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
    own_line = not source.text[source.line_start(last[0]) : last[0]].strip()
    if not own_line:
        if comma is None:
            return [Edit(end, end, "".join(f", {item}" for item in items))]
        return [Edit(comma + 1, comma + 1, "".join(f" {item}," for item in items))]
    gap = source.newline + source.indent(last[0])
    place = end if comma is None else comma + 1
    if (
        source.line_end(place) < close
    ):  # the closing bracket is on a later line: stay behind comments
        place = source.line_end(place)
    if comma is not None:
        return [Edit(place, place, "".join(f"{gap}{item}," for item in items))]
    return [Edit(end, end, ","), Edit(place, place, ",".join(gap + item for item in items))]


def append_arguments(source: Source, call: ast.Call, items: Sequence[str]) -> list[Edit]:
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    last = (source.start(nodes[-1]), source.end(nodes[-1])) if nodes else None
    return append(source, last, source.end(call) - 1, items)


def append_dict_items(source: Source, node: ast.Dict, items: Sequence[str]) -> list[Edit]:
    last = None
    if node.values:
        key = node.keys[-1]
        start = source.start(key) if key is not None else source.start(node.values[-1])
        last = (start, source.end(node.values[-1]))
    return append(source, last, source.end(node) - 1, items)


def append_imports(source: Source, stmt: ast.ImportFrom, names: Sequence[str]) -> list[Edit]:
    """More names in an import; several that do not fit on its line get lines of their own."""
    last = (source.start(stmt.names[-1]), source.end(stmt.names[-1]))
    close = source.end(stmt) - 1
    if source.text[close] == ")":
        return append(source, last, close, names)
    added = "".join(f", {name}" for name in names)
    line = source.text[source.line_start(last[1]) : last[1]]
    if len(names) == 1 or len(line + added) < _WIDTH or stmt.lineno != stmt.end_lineno:
        return [Edit(last[1], last[1], added)]
    start, glue = (
        source.start(stmt.names[0]),
        "," + source.newline + source.indent(last[1]) + "    ",
    )
    there = [source.text[source.start(alias) : source.end(alias)] for alias in stmt.names]
    text = glue.join(["(", *there, *names]).replace("(,", "(", 1)
    return [Edit(start, last[1], f"{text},{source.newline}{source.indent(last[1])})")]


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
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    edits: list[Edit] = []
    run: list[ast.expr | ast.keyword] = []  # dropped ones that share their lines with what stays
    kept: ast.expr | ast.keyword | None = None
    for node in nodes:
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
        if kept is not None:
            edits.append(
                Edit(_tail(source.text, source.end(kept), source.start(run[0]))[0], end, "")
            )
        else:
            edits.append(Edit(source.start(run[0]), end if comma is None else comma + 1, ""))
    return edits


def _own_lines(source: Source, call: ast.Call, node: ast.keyword) -> Edit | None:
    """The lines of an argument that has them for itself, with the comma and comment after it."""
    start, (end, comma) = (
        source.start(node),
        _tail(source.text, source.end(node), source.end(call) - 1),
    )
    stop = end if comma is None else comma + 1
    first = source.line_start(start)
    if source.text[first:start].strip() or not _REST_OF_LINE.match(source.text, stop):
        return None
    last = source.line_end(stop)
    following = bisect_right(source.starts, last)
    return Edit(first, source.starts[following], "")


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
