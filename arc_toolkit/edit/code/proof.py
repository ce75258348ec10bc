"""The proof of a change: parse the new text, and compare it with the old tree as it should have
become.
"""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from arc_toolkit.edit.code.editor import Changes
from arc_toolkit.edit.code.source import Source, parse
from arc_toolkit.edit.files.edits import Edit, Refused, Unreadable, apply_edits

# Not part of the meaning: Load/Store follows from the place, `kind` is the u of u"", comments are
# comments.
_IGNORED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def prove(
    changes: Changes, sources: Sequence[Source], edits: Sequence[Sequence[Edit]]
) -> list[Source]:
    """The sources with their edits made, for the next plan; `Refused` unless exactly the changes
    happen.

    The old trees are changed on the way and of no other use afterwards.
    """
    spans = changes.spans()
    places = [_Spans(spans.get(id(source), ())) for source in sources]
    untouched = [_untouched(source, own) for source, own in zip(sources, places, strict=True)]
    changes.apply()
    fresh = []
    for source, own, kept, place in zip(sources, edits, untouched, places, strict=True):
        # The tree has no comments: those of all other statements are safe by this.
        if not all(place.hold(edit) for edit in own):
            raise Refused("an edit is outside of the statements that change")
        text = apply_edits(source.text, own)
        try:
            new = replace(source, text=text, body=parse(text))
        except Unreadable as error:
            raise Refused(f"the new text does not parse: {error.reason}") from None

        def is_kept(
            before: ast.AST, after: ast.AST, new: Source = new, kept: _Texts = kept
        ) -> bool:
            return (
                before in kept
                and isinstance(after, ast.stmt)
                and kept[before] == _place_and_text(new, after)
            )

        if not same(source.body, new.body, is_kept):
            raise Refused("the new text would have a change that was not asked for")
        pairs = zip(source.body, new.body, strict=True)
        changed = [after for before, after in pairs if not is_kept(before, after)]
        if not _compiles(changed) and _compiles(parse(source.text)):
            raise Refused("the new text does not compile")
        fresh.append(new)
    return fresh


# Statements, with their text in whole lines, and where in the first and last line they are.
_Texts = dict[ast.AST, tuple[int, int, str]]


class _Spans:
    """The lines in which something may happen, some of them inside of others; a file may have
    thousands.
    """

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        # The furthest end of a span and all before it.
        self._ends = list(accumulate((end for _, end in ordered), max))

    def touch(self, start: int, end: int) -> bool:
        """Whether one of them has a character of [start, end)."""
        before = bisect_left(self._starts, end)
        return before > 0 and self._ends[before - 1] > start

    def hold(self, edit: Edit) -> bool:
        """Whether an edit is inside of one of them."""
        before = bisect_right(self._starts, edit.start)
        return before > 0 and edit.end <= self._ends[before - 1]


def _untouched(source: Source, spans: _Spans) -> _Texts:
    """The statements in whose lines nothing is to happen; what is inside of one is not listed."""
    kept: _Texts = {}
    stack: list[ast.AST] = list(source.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            start, end = _lines(source, node)
            if not spans.touch(start, end):
                kept[node] = _place_and_text(source, node)
                continue
        for name in _BODIES:
            stack += getattr(node, name, ())
    return kept


def _place_and_text(source: Source, stmt: ast.stmt) -> tuple[int, int, str]:
    start, end = _lines(source, stmt)
    return stmt.col_offset, stmt.end_col_offset or 0, source.text[start:end]


def _lines(source: Source, stmt: ast.stmt) -> tuple[int, int]:
    decorators: list[ast.expr] = getattr(stmt, "decorator_list", [])
    first = decorators[0].lineno if decorators else stmt.lineno
    last = stmt.end_lineno or stmt.lineno
    return source.starts[first - 1], source.starts[last] if last < len(source.starts) else len(
        source.text
    )


def _compiles(body: list[ast.stmt]) -> bool:
    """`ast.parse` accepts what the compiler refuses, such as an argument that is given twice."""
    try:
        compile(
            ast.Module(body, []),
            "<text>",
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
    except (SyntaxError, ValueError):
        return False
    return True


def _nothing(before: ast.AST, after: ast.AST) -> bool:
    return False


def same(
    old: Sequence[ast.AST],
    new: Sequence[ast.AST],
    is_kept: Callable[[ast.AST, ast.AST], bool] = _nothing,
) -> bool:
    """Whether two lists of nodes are the same but for positions.

    `is_kept` knows statements with the same text, which are the same code: most of a file is not
    compared by nodes.
    """
    stack: list[tuple[object, object]] = [(list(old), list(new))]
    while stack:
        before, after = stack.pop()
        if isinstance(before, ast.AST):
            if before.__class__ is not after.__class__:
                return False
            if (
                isinstance(before, ast.stmt)
                and isinstance(after, ast.stmt)
                and is_kept(before, after)
            ):
                continue
            for name in before._fields:
                if name not in _IGNORED:
                    stack.append((getattr(before, name, None), getattr(after, name, None)))
        elif isinstance(before, list):
            if not isinstance(after, list) or len(before) != len(after):
                return False
            stack.extend(zip(before, after, strict=True))
        elif before.__class__ is not after.__class__ or before != after:
            return False
    return True
