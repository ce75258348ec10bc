"""A Python file, or the code cells of a notebook, as the sources of one module; and the way back to
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from arc_toolkit.edit.code import notebook
from arc_toolkit.edit.code.editor import Changes
from arc_toolkit.edit.code.proof import prove
from arc_toolkit.edit.code.source import Source, decode, encode, parse
from arc_toolkit.edit.files.edits import Edit, apply_edits, compose_edits


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
    # The sources as they were read, and their edits since then.
    originals: Sequence[Source]
    edits: Sequence[list[Edit]]
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
        edits = [
            by_source[id(source)][1] if id(source) in by_source else [] for source in self.sources
        ]
        sources = prove(changes, self.sources, edits)
        rows = zip(self.originals, self.edits, edits, strict=True)
        total = [
            compose_edits(original.text, earlier, later) if earlier else later
            for original, earlier, later in rows
        ]
        return replace(self, sources=sources, edits=total)

    def encode(self) -> bytes:
        if self.cells:
            text = notebook.change_cells(self.json_text, self.cells, self.edits)
        else:
            text = apply_edits(self.originals[0].text, self.edits[0])
        return encode(text, self.encoding, self.data)


def read_source(data: bytes) -> CodeText:
    """A Python file; `Unreadable` says what is wrong with it."""
    text, encoding = decode(data)
    sources = [Source(text, parse(text))]
    return CodeText(data, encoding, sources, sources, [[]])


def read_notebook(data: bytes) -> CodeText:
    """The cells of a notebook that are Python; those that are not are listed as broken."""
    text = notebook.decode(data)
    parsed, broken = notebook.parse_cells(text, notebook.read_cells(text))
    sources = [source for _, source in parsed]
    return CodeText(
        data,
        "utf-8",
        sources,
        sources,
        [[] for _ in sources],
        text,
        [cell for cell, _ in parsed],
        [_broken_cell(text, cell, error.line, error.reason) for cell, error in broken],
    )


def _broken_cell(text: str, cell: notebook.Cell, line: int, reason: str) -> BrokenCell:
    lines = notebook.file_lines(text, cell)
    file_line = lines[min(max(line, 1), len(lines)) - 1]
    return BrokenCell(cell.text, f"cell {cell.number} line {line}", file_line, reason)
