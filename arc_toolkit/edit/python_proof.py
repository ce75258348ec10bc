"""The proof of a change: parse the new text, and compare it with the old tree as it should have become."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from arc_toolkit.edit.edits import Edit, Refused, Unreadable, apply_edits
from arc_toolkit.edit.python_editor import Changes
from arc_toolkit.edit.python_source import Source, parse

# Not part of the meaning: Load/Store follows from the place, `kind` is the u of u"", comments are comments.
_IGNORED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


def prove(changes: Changes, sources: Sequence[Source], edits: Sequence[Sequence[Edit]]) -> list[Source]:
    """The sources with their edits made, for the next plan; `Refused` unless exactly the changes happen.

    The old trees are changed on the way and of no other use afterwards.
    """
    spans = changes.spans()
    changes.apply()
    fresh = []
    for source, own in zip(sources, edits, strict=True):
        # The tree has no comments: those of all other statements are safe by this.
        if not all(_is_inside(edit, spans.get(id(source), ())) for edit in own):
            raise Refused("an edit is outside of the statements that change")
        text = apply_edits(source.text, own)
        try:
            new = replace(source, text=text, body=parse(text))
        except Unreadable as error:
            raise Refused(f"the new text does not parse: {error.reason}") from None
        if not same(source.body, new.body):
            raise Refused("the new text would have a change that was not asked for")
        if not _compiles(new.body) and _compiles(parse(source.text)):
            raise Refused("the new text does not compile")
        fresh.append(new)
    return fresh


def _is_inside(edit: Edit, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= edit.start and edit.end <= end for start, end in spans)


def _compiles(body: list[ast.stmt]) -> bool:
    """`ast.parse` accepts what the compiler refuses, such as an argument that is given twice."""
    try:
        compile(ast.Module(body, []), "<text>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def same(old: Sequence[ast.AST], new: Sequence[ast.AST]) -> bool:
    """Whether two lists of nodes are the same but for positions."""
    stack: list[tuple[object, object]] = [(list(old), list(new))]
    while stack:
        before, after = stack.pop()
        if isinstance(before, ast.AST):
            if before.__class__ is not after.__class__:
                return False
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
