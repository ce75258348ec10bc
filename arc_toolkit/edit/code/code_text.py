"""A Python file, or the code cells of a notebook, as the sources of one module; their changes, proved;
and the way back to bytes.

The proof of a change: parse the new text, and compare it with the old tree as it should have become.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from arc_toolkit.edit.code import notebook
from arc_toolkit.edit.code.editor import Changes
from arc_toolkit.edit.code.source import Source, decode, encode, parse
from arc_toolkit.edit.files.edits import Edit, Refused, Unreadable, apply_edits

# Not part of the meaning: Load/Store follows from the place, `kind` is the u of u"", comments are
# comments.
_IGNORED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


@dataclass(frozen=True, slots=True)
class BrokenCell:
    """A cell that is not Python, which stays as it is."""

    text: str
    # `cell 3 line 2`
    where: str
    file_line: int
    reason: str


@dataclass(frozen=True, eq=False, slots=True)
class CodeText:
    """The code of a file, before or after changes."""

    data: bytes
    encoding: str
    sources: Sequence[Source]
    # The sources as they were read, and the text of each now, with its lines for IPython.
    originals: Sequence[Source]
    texts: Sequence[str]
    # Of a notebook: its JSON and its cells, one for each source.
    json_text: str = ""
    cells: Sequence[notebook.Cell] = ()
    broken: Sequence[BrokenCell] = ()

    @property
    def size(self) -> int:
        return len(self.data)

    def changed(self, changes: Changes) -> CodeText:
        """The code after changes, proved; `Refused` unless exactly these happen."""
        by_source = changes.edits()
        edits = [by_source.get(id(source), (source, []))[1] for source in self.sources]
        sources = prove(changes, self.sources, edits)
        return replace(self, sources=sources, texts=list(map(apply_edits, self.texts, edits)))

    def encode(self) -> bytes:
        text = self.texts[0] if self.texts else ""
        if self.json_text:
            text = notebook.change_cells(self.json_text, self.cells, self.texts)
        return encode(text, self.encoding, self.data)


def read_source(data: bytes) -> CodeText:
    """A Python file; `Unreadable` says what is wrong with it."""
    text, encoding = decode(data)
    sources = [Source(text, parse(text))]
    return CodeText(data, encoding, sources, sources, [text])


def read_notebook(data: bytes) -> CodeText:
    """The cells of a notebook that are Python; those that are not are listed as broken."""
    text = notebook.decode(data)
    all_cells = notebook.read_cells(text)
    around = "\n".join(cell.text for cell in all_cells)
    cells, sources, broken = [], [], []
    for cell in all_cells:
        try:
            sources.append(notebook.read_source(text, cell, around))
            cells.append(cell)
        except Unreadable as error:
            lines = notebook.file_lines(text, cell)
            file_line = lines[min(max(error.line, 1), len(lines)) - 1]
            where = f"cell {cell.number} line {error.line}"
            broken.append(BrokenCell(cell.text, where, file_line, error.reason))
    texts = [cell.text for cell in cells]
    return CodeText(data, "utf-8", sources, sources, texts, text, cells, broken)


# --- the proof ---


def prove(
    changes: Changes, sources: Sequence[Source], edits: Sequence[Sequence[Edit]]
) -> list[Source]:
    """The sources with their edits made, for the next plan; `Refused` unless exactly the changes
    happen.

    The old trees are changed on the way and of no other use afterwards.
    """
    spans = changes.spans()
    changes.apply()
    fresh = []
    for source, own in zip(sources, edits, strict=True):
        # The tree has no comments: those of all other statements are safe by this.
        if not _hold(spans.get(id(source), []), own):
            raise Refused("an edit is outside of the statements that change")
        if not own and id(source) not in spans:
            fresh.append(source)
            continue
        text = apply_edits(source.text, own)
        try:
            new = replace(source, text=text, body=parse(text))
        except Unreadable as error:
            raise Refused(f"the new text does not parse: {error.reason}") from None
        if not same(source.body, new.body):
            raise Refused("the new text would have a change that was not asked for")
        changed = [stmt for stmt in new.body if new.slice(stmt) not in source.text]
        if not _compiles(changed) and _compiles(parse(source.text)):
            raise Refused("the new text does not compile")
        fresh.append(new)
    return fresh


def _hold(spans: Sequence[tuple[int, int]], edits: Sequence[Edit]) -> bool:
    """Whether each edit is inside of a span; some are inside of others, and there may be thousands."""
    ordered = sorted(spans)
    starts = [start for start, _ in ordered]
    # The furthest end of a span and all before it.
    ends = [0, *accumulate((end for _, end in ordered), max)]
    return all(edit.end <= ends[bisect_right(starts, edit.start)] for edit in edits)


def _compiles(body: list[ast.stmt]) -> bool:
    """`ast.parse` accepts what the compiler refuses, such as an argument that is given twice."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        compile(ast.Module(body, []), "<text>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def same(old: Sequence[ast.AST], new: Sequence[ast.AST]) -> bool:
    """Whether two lists of nodes are the same but for positions."""
    stack: list[tuple[object, object]] = [(list(old), list(new))]
    while stack:
        before, after = stack.pop()
        if before.__class__ is not after.__class__:
            return False
        if isinstance(before, ast.AST):
            for name in before._fields:
                if name not in _IGNORED:
                    stack.append((getattr(before, name, None), getattr(after, name, None)))
        elif isinstance(before, list) and isinstance(after, list):
            if len(before) != len(after):
                return False
            stack.extend(zip(before, after, strict=True))
        elif before != after:
            return False
    return True
