"""The proof of a change: parse again, and compare with the old tree as it should have become.

Only the lines of the statements that something happened in are parsed again, as a suite of their own. All other lines
keep their bytes, and a block is the sequence of its statements, so their trees are the same by construction; this
keeps the cost of a proof far below that of parsing the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from arc_toolkit.edit.edits import Edit, Refused, Unreadable, apply_edits
from arc_toolkit.edit.python_editor import Place
from arc_toolkit.edit.python_source import Source, parse

# Before an indented statement, so that it can be parsed as it stands.
_SUITE = "if 1:\n"
_IGNORE = re.compile(r"[ \t\f]*#[ \t]*arc-toolkit:")


@dataclass(eq=False)
class Segment:
    """A run of whole lines, characters [start, end) of the old text: the statements between two neighbours."""

    source: Source
    body: list[ast.stmt]
    previous: ast.stmt | None
    following: ast.stmt | None
    start: int
    end: int

    def statements(self) -> list[ast.stmt]:
        """What stands there now: the list may have changed since."""
        after = self.body.index(self.previous) + 1 if self.previous is not None else 0
        until = self.body.index(self.following) if self.following is not None else len(self.body)
        return self.body[after:until]

    def replace(self, new: list[ast.stmt]) -> None:
        after = self.body.index(self.previous) + 1 if self.previous is not None else 0
        until = self.body.index(self.following) if self.following is not None else len(self.body)
        self.body[after:until] = new

    def inside(self, edits: Sequence[Edit]) -> list[Edit]:
        """The edits of these lines, counted from their beginning."""
        return [
            Edit(edit.start - self.start, edit.end - self.start, edit.text)
            for edit in edits
            if self.start <= edit.start and edit.end <= self.end
        ]

    def reparse(self, edits: Sequence[Edit]) -> Source:
        """The changed lines as a source of their own, with the new text."""
        text = apply_edits(self.source.text[self.start : self.end], self.inside(edits)) + "\n"
        indented = self.body is not self.source.body
        try:
            suite = parse(_SUITE + text) if indented else parse(text)
        except Unreadable as error:
            raise Refused(f"the new text does not parse: {error.reason}") from None
        if not indented:
            return Source(text, suite)
        if len(suite) != 1 or not isinstance(suite[0], ast.If) or suite[0].orelse:
            raise Refused("the new text ends its block")
        return Source(_SUITE + text, suite[0].body)


def segments(places: Sequence[Place]) -> list[Segment]:
    """The line-aligned runs of statements that hold all places; none of them inside of another."""
    found: dict[tuple[int, int, int], Segment] = {}
    for place in places:
        segment = _around(place.source, place.body, place.stmt)
        if segment is None:  # it begins in the middle of a line: take all around it
            segment = _around(place.source, place.source.body, place.top)
        if segment is None:
            raise Refused("its lines cannot be told from those around it")
        found[id(place.source), segment.start, segment.end] = segment
    result: list[Segment] = []
    for segment in sorted(found.values(), key=lambda item: (id(item.source), item.start, -item.end)):
        last = result[-1] if result else None
        if last is None or last.source is not segment.source or segment.end > last.end:
            result.append(segment)
    return _joined(result)


def _joined(parts: list[Segment]) -> list[Segment]:
    """Neighbours become one: a statement inserted between them belongs to one place only."""
    result: list[Segment] = []
    for part in parts:
        last = result[-1] if result else None
        if last is not None and last.body is part.body and last.following in part.statements():
            result[-1] = Segment(part.source, part.body, last.previous, part.following, last.start, part.end)
        else:
            result.append(part)
    return result


def _around(source: Source, body: list[ast.stmt], stmt: ast.stmt) -> Segment | None:
    first = last = next(index for index, item in enumerate(body) if item is stmt)
    while first and _last_line(body[first - 1]) >= _first_line(body[first]):
        first -= 1
    while last + 1 < len(body) and _first_line(body[last + 1]) <= _last_line(body[last]):
        last += 1
    line = _first_line(body[first])
    start = source.starts[line - 1]
    if source.text[start : source.offset(_first_line(body[first]), body[first].col_offset)].strip():
        return None
    # An ignore alone above the statement holds for it: the second plan has to see it.
    free = first == 0 or _last_line(body[first - 1]) < line - 1
    if free and line > 1 and _IGNORE.match(source.text, source.starts[line - 2]):
        start = source.starts[line - 2]
    end = _end(source, source.end(body[last]))
    previous = body[first - 1] if first else None
    following = body[last + 1] if last + 1 < len(body) else None
    return Segment(source, body, previous, following, start, end)


def _end(source: Source, offset: int) -> int:
    """The end of the line; a backslash before it takes the next line along."""
    end = source.line_end(offset)
    while "#" not in source.text[offset:end] and source.text[offset:end].endswith("\\") and end < len(source.text):
        end = source.line_end(end + (2 if source.text.startswith("\r\n", end) else 1))
    return end


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
