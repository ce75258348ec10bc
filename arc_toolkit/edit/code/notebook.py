"""Jupyter notebooks: code cells as Python sources, edits of them as edits of the JSON strings of
their lines, proof.

The JSON around the changed lines stays byte for byte, outputs included. Lines for IPython
(`%magic`, `!shell`, `name?`) are masked for parsing and kept in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from json.decoder import scanstring  # type: ignore[attr-defined]

from arc_toolkit.edit.code.source import Source, parse
from arc_toolkit.edit.files.edits import Edit, Refused, Unreadable, apply_edits

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
# One character of a JSON string as it is written: a surrogate pair, an escape, or itself.
_WRITTEN = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]"
)

# --- IPython ---

# Cell magics whose body is Python of this notebook; any other body is something else.
_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "memit", "mprun", "notify"})
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_WRITEFILE = re.compile(
    r"""\s*%%(?:writefile|file)[ \t]+(?:-a[ \t]+)?["']?([^\n"']+?)["']?[ \t\r]*\n"""
)
_IPYTHON_LINE = re.compile(
    r"^[ \t]*(?=[%!]|\?{1,2}[\w.%])|^[ \t]*(?=[\w.\[\]%*]+\?{1,2}[ \t]*(?:#.*)?$)"
)
# Magics that are often used without `%`, which IPython allows (`%automagic`).
_AUTOMAGIC = re.compile(
    r"(?=(?:pip|conda|mamba|cd)[ \t]+(?!in\b|is\b|and\b|or\b|not\b|if\b)[-\w./~])"
)
_IPYTHON_VALUE = re.compile(r"^[ \t]*[\w.,\[\] \t]+=[ \t]*(?=[%!])")


def mask(text: str) -> str:
    """The same text with IPython lines made harmless for Python, character for character.

    `!pip install x` becomes `0#ip install x`: a statement, so that an indented block stays one.
    """
    magic = _CELL_MAGIC.match(text)
    if magic and magic[1] not in _PYTHON_MAGICS:
        return re.sub(r"[^\r\n]", "#", text)
    masked = []
    continued = False
    for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text):
        body = line.rstrip("\r\n")
        if continued:
            masked.append(re.sub(r"[^\r\n]", "#", line))
            continued = body.endswith("\\")
            continue
        match = _IPYTHON_LINE.match(body) or _IPYTHON_VALUE.match(body) or _AUTOMAGIC.match(body)
        if match:
            at = match.end()
            replaced = "0#"[: len(body) - at]
            masked.append(line[:at] + replaced + line[at + len(replaced) :])
            continued = body.endswith("\\")
        else:
            masked.append(line)
    return "".join(masked)


# --- cells and where their text is written ---


@dataclass(frozen=True)
class JsonString:
    """One JSON string: where it is written (with its quotes), and what it says."""

    start: int
    end: int
    value: str

    def offsets(self, text: str) -> list[int]:
        """Where each character of the value is written; the last entry is the closing quote."""
        inner = text[self.start + 1 : self.end - 1]
        if "\\" not in inner:
            return list(range(self.start + 1, self.end))
        return [self.start + 1 + match.start() for match in _WRITTEN.finditer(inner)] + [
            self.end - 1
        ]


@dataclass(frozen=True)
class Cell:
    """A code cell: its number (from 1, all cells counted) and its source, a list of lines or one
    string.
    """

    number: int
    literals: tuple[JsonString, ...]
    is_list: bool

    @property
    def text(self) -> str:
        return "".join(literal.value for literal in self.literals)


def decode(data: bytes) -> str:
    """The text of a notebook, without its BOM."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = (
            data.count(b"\n", 0, error.start) + 1,
            error.start - data.rfind(b"\n", 0, error.start),
        )
        raise Unreadable("not UTF-8 text: save it as UTF-8", line, column) from None


def read_cells(text: str) -> list[Cell]:
    """The code cells of a notebook; `Unreadable` says what is wrong."""
    try:
        notebook = json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"not valid JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise Unreadable("not a notebook: nested too deeply") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise Unreadable("a notebook without cells")
    cells = []
    # The JSON is valid from here on; what remains is to find where the source of each code cell is
    # written.
    start = _members(text, _skip(text, 0))["cells"][0]
    for number, (content, (first, _)) in enumerate(
        zip(notebook["cells"], _items(text, start), strict=True), 1
    ):
        if not isinstance(content, dict):
            raise Unreadable(f"not a notebook: cell {number} is not an object")
        if content.get("cell_type") != "code" or "source" not in content:
            continue
        source = content["source"]
        lines = source if isinstance(source, list) else [source]
        if not all(isinstance(line, str) for line in lines):
            raise Unreadable(f"not a notebook: the source of cell {number} is not text")
        span = _members(text, first)["source"]
        spans = list(_items(text, span[0])) if isinstance(source, list) else [span]
        literals = tuple(JsonString(*where, line) for where, line in zip(spans, lines, strict=True))
        cells.append(Cell(number, literals, isinstance(source, list)))
    return cells


def _members(text: str, position: int) -> dict[str, tuple[int, int]]:
    """Keys of an object, each with the span of its value; the last one counts, as in `json.loads`."""
    members = {}
    position = _skip(text, position + 1)
    while text[position] != "}":
        key, position = scanstring(text, position + 1)
        start = _skip(text, _skip(text, position) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        members[key] = start, end
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return members


def _items(text: str, position: int) -> Iterator[tuple[int, int]]:
    """Spans of the items of a list."""
    start = _skip(text, position + 1)
    while text[start] != "]":
        end = _DECODER.raw_decode(text, start)[1]
        yield start, end
        start = _skip(text, end)
        if text[start] == ",":
            start = _skip(text, start + 1)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


# --- writing ---


def splice(text: str, cell: Cell, edits: Sequence[Edit]) -> list[Edit]:
    """Edits of a cell's source as edits of the notebook's text; lines stay items of their own."""
    result: list[Edit] = []
    pending = sorted(edits, key=lambda edit: (edit.start, edit.end))
    index = start = 0
    while index < len(cell.literals):
        first, end = index, start + len(cell.literals[index].value)
        mine: list[Edit] = []
        # All that begins in this item; an edit that reaches into the next ones takes them along.
        while pending and (pending[0].start < end or index == len(cell.literals) - 1):
            edit = pending.pop(0)
            mine.append(Edit(edit.start - start, edit.end - start, edit.text))
            while edit.end > end:
                index += 1
                end += len(cell.literals[index].value)
        if mine:
            result += _item_edits(text, cell, first, index, mine)
        start, index = end, index + 1
    return result


def _item_edits(text: str, cell: Cell, first: int, last: int, edits: list[Edit]) -> list[Edit]:
    literals = cell.literals
    old = "".join(literal.value for literal in literals[first : last + 1])
    new = apply_edits(old, edits)
    begin, end = literals[first].start, literals[last].end
    if (
        not new and cell.is_list and last - first + 1 < len(literals)
    ):  # the lines are gone, and their items too
        if last + 1 < len(literals):
            return [Edit(begin, literals[last + 1].start, "")]
        return [Edit(literals[first - 1].end, end, "")]
    if first != last:  # items that change together are written anew
        lines = re.split(r"(?<=\n)(?!\Z)", new)
        ascii_only = text[begin:end].isascii()
        written = (json.dumps(line, ensure_ascii=ascii_only) for line in lines)
        return [Edit(begin, end, _between(text, cell, first).join(written))]
    offsets = literals[first].offsets(text)
    if not cell.is_list or "\n" not in new[:-1]:
        return [Edit(offsets[edit.start], offsets[edit.end], _escaped(edit.text)) for edit in edits]
    # Several lines now: cut the written string at the line breaks of the new text.
    marked = _escaped_with_breaks(text, literals[first], offsets, edits)
    return [Edit(begin + 1, end - 1, marked.replace(_CUT, '"' + _between(text, cell, first) + '"'))]


# Marks a line break between two items while a string is put together; cannot be in JSON text.
_CUT = "\0"


def _escaped_with_breaks(
    text: str, literal: JsonString, offsets: list[int], edits: list[Edit]
) -> str:
    """The written form of the new value, with a mark after each line break but the last one."""
    parts: list[str] = []
    at = 0
    for edit in [*edits, Edit(len(literal.value), len(literal.value), "")]:
        parts.append(text[offsets[at] : offsets[edit.start]])
        parts.append(_escaped(edit.text))
        at = edit.end
    written = "".join(parts)
    marked = re.sub(r"(?<!\\)((?:\\\\)*\\n)", r"\1" + _CUT, written)
    return marked.removesuffix(_CUT)


def _between(text: str, cell: Cell, index: int) -> str:
    """What is between two items of this list: a comma, a line break and the indent."""
    literals = cell.literals
    if index + 1 < len(literals):
        return text[literals[index].end : literals[index + 1].start]
    if index:
        return text[literals[index - 1].end : literals[index].start]
    opening = text.rindex("[", 0, literals[index].start)
    return "," + text[opening + 1 : literals[index].start]


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


# --- reading and changing ---


def parse_cells(
    text: str, cells: Sequence[Cell]
) -> tuple[list[tuple[Cell, Source]], list[tuple[Cell, Unreadable]]]:
    """The cells that are Python, and those that are not."""
    parsed, broken = [], []
    around = "\n".join(cell.text for cell in cells)
    for cell in cells:
        try:
            parsed.append((cell, _source(text, cell, around)))
        except Unreadable as error:
            broken.append((cell, error))
    return parsed, broken


def _source(text: str, cell: Cell, around: str) -> Source:
    """The parsed cell: as it is, or with its IPython lines masked."""
    lines = file_lines(text, cell)
    label = f"cell {cell.number}"
    in_file = partial(splice, text, cell)
    try:
        return Source(cell.text, parse(cell.text), label, lines, in_file, around)
    except Unreadable:
        masked = mask(cell.text)
        written = _WRITEFILE.match(cell.text)
        file = (written[1], cell.text[written.end() :]) if written else None
        return Source(masked, parse(masked), label, lines, in_file, around, file)


def file_lines(text: str, cell: Cell) -> tuple[int, ...]:
    """The line of the notebook file for each line of the cell."""
    lines: list[int] = []
    line = at = 0
    for literal in cell.literals:
        line += text.count("\n", at, literal.start)
        at = literal.start
        lines += [line + 1] * max(1, literal.value.count("\n"))
    return (*lines, line + 1)


def change_cells(text: str, cells: Sequence[Cell], edits: Sequence[Sequence[Edit]]) -> str:
    """The notebook with the edits of its cells made, and proved; `Refused` otherwise."""
    if not any(edits):
        return text
    spans = [
        edit
        for cell, own in zip(cells, edits, strict=True)
        if own
        for edit in splice(text, cell, own)
    ]
    after = apply_edits(text, spans)
    _prove(text, after, cells, edits)
    return after


def _prove(before: str, after: str, cells: Sequence[Cell], edits: Sequence[Sequence[Edit]]) -> None:
    """The new JSON is the old one but for the sources that were changed."""
    try:
        old, new = json.loads(before), json.loads(after)
        for cell, own in zip(cells, edits, strict=True):
            if own:
                old["cells"][cell.number - 1]["source"] = apply_edits(cell.text, own)
                changed = new["cells"][cell.number - 1]
                changed["source"] = "".join(changed["source"])
    except (ValueError, LookupError, TypeError):
        raise Refused("the changed notebook is not valid JSON") from None
    if old != new:
        raise Refused("the changed notebook would have a change that was not asked for")
