"""The proof of a change: parse again, and compare with the old tree as it should have become.

Only the top-level statements that something happened in are parsed again. All others keep their bytes, and a
module is the sequence of its top-level statements, so their trees are the same by construction; this keeps the cost
near one `ast.parse` of the file.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from arc_toolkit.patching.model import Edit, apply_edits
from arc_toolkit.patching.python.source import Source, Unusable, parse


class Unproven(Exception):
    """The new text does not say exactly what was asked: nothing may be written."""


@dataclass(frozen=True)
class Segment:
    """A run of whole lines in the old text: statements [first, last] of the body, characters [start, end)."""

    first: int
    last: int
    start: int
    end: int


def segments(source: Source, tops: Sequence[ast.stmt]) -> list[Segment]:
    """The line-aligned runs of statements that hold all of `tops`."""
    wanted = {id(top) for top in tops}
    found: list[Segment] = []
    for index, stmt in enumerate(source.body):
        if id(stmt) not in wanted:
            continue
        first = last = index
        while first and _last_line(source.body[first - 1]) >= _first_line(source.body[first]):
            first -= 1
        while last + 1 < len(source.body) and _first_line(source.body[last + 1]) <= _last_line(source.body[last]):
            last += 1
        start = source.starts[_first_line(source.body[first]) - 1]
        end = _end(source, source.end(source.body[last]))
        if found and found[-1].last >= first - 1:
            found[-1] = Segment(found[-1].first, last, found[-1].start, end)
        else:
            found.append(Segment(first, last, start, end))
    return found


def _end(source: Source, offset: int) -> int:
    """The end of the line; a backslash before it takes the next line along."""
    end = source.line_end(offset)
    while "#" not in source.text[offset:end] and source.text[offset:end].endswith("\\") and end < len(source.text):
        end = source.line_end(end + (2 if source.text.startswith("\r\n", end) else 1))
    return end


def reparse(source: Source, parts: Sequence[Segment], edits: Sequence[Edit]) -> list[Source]:
    """The changed segments as sources of their own, with the new text."""
    result = []
    for part in parts:
        inside = [
            Edit(edit.start - part.start, edit.end - part.start, edit.text)
            for edit in edits
            if part.start <= edit.start and edit.end <= part.end
        ]
        new = apply_edits(source.text[part.start : part.end], inside)
        try:
            result.append(Source(new, parse(new + "\n")))
        except Unusable as error:
            raise Unproven(f"the new text does not parse: {error.reason}") from None
    return result


def same(old: Sequence[ast.AST], new: Sequence[ast.AST]) -> bool:
    """Whether two lists of nodes are the same but for positions."""
    stack: list[tuple[object, object]] = [(list(old), list(new))]
    while stack:
        left, right = stack.pop()
        if isinstance(left, ast.AST):
            if left.__class__ is not right.__class__:
                return False
            for name in left._fields:
                if name not in _IGNORED:
                    stack.append((getattr(left, name, None), getattr(right, name, None)))
        elif isinstance(left, list):
            if not isinstance(right, list) or len(left) != len(right):
                return False
            stack.extend(zip(left, right, strict=True))
        elif left.__class__ is not right.__class__ or left != right:
            return False
    return True


# Not part of the meaning: Load/Store follows from the place, `kind` is the u of u"", comments are comments.
_IGNORED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


def _first_line(stmt: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(stmt, "decorator_list", [])
    return min([stmt.lineno, *(item.lineno for item in decorators)])


def _last_line(stmt: ast.stmt) -> int:
    return stmt.end_lineno or stmt.lineno
