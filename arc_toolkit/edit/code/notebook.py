"""Jupyter notebooks: code cells as Python sources, and changed sources as edits of the notebook's
JSON, with proof.

The JSON around the changed lines stays byte for byte, outputs included. Lines for IPython
(`%magic`, `!shell`, `name?`) are masked for parsing and kept in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]

from arc_toolkit.edit.code.source import Source, parse
from arc_toolkit.edit.files.diff import opcodes
from arc_toolkit.edit.files.edits import Edit, Refused, Unreadable, apply_edits, byte_position

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
# A line of a JSON string as it is written, with the `\n` at its end.
_WRITTEN_LINE = re.compile(r"(?:[^\\]|\\[^n])*(?:\\n)?")

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
    masked = ""
    is_continued = False
    for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text):
        body = line.rstrip("\r\n")
        match = _IPYTHON_LINE.match(body) or _IPYTHON_VALUE.match(body) or _AUTOMAGIC.match(body)
        if is_continued:
            masked += re.sub(r"[^\r\n]", "#", line)
        elif match:
            at = match.end()
            mark = "0#"[: len(body) - at]
            masked += line[:at] + mark + line[at + len(mark) :]
        else:
            masked += line
        is_continued = bool(is_continued or match) and body.endswith("\\")
    return masked


# --- cells and where their text is written ---


@dataclass(frozen=True)
class WrittenLine:
    """A line of a cell: where it is written, as a JSON string or as a part of one, and its text."""

    start: int
    end: int
    value: str


@dataclass(frozen=True)
class Cell:
    """A code cell: its number (from 1, all cells counted) and its source, which is written as a
    list of lines or as one string.
    """

    number: int
    lines: tuple[WrittenLine, ...]
    is_list: bool

    @property
    def text(self) -> str:
        return "".join(line.value for line in self.lines)


def decode(data: bytes) -> str:
    """The text of a notebook, without its BOM."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = byte_position(data, error.start)
        raise Unreadable("not UTF-8 text: save it as UTF-8", *at) from None


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
    # The JSON is valid: what remains is to find where the source of each code cell is written.
    spans = _items(text, _members(text, _skip(text, 0))["cells"][0])
    for number, (content, span) in enumerate(zip(notebook["cells"], spans, strict=True), 1):
        if not isinstance(content, dict):
            raise Unreadable(f"not a notebook: cell {number} is not an object")
        if content.get("cell_type") != "code" or "source" not in content:
            continue
        source = content["source"]
        is_list = isinstance(source, list)
        if not all(isinstance(line, str) for line in (source if is_list else [source])):
            raise Unreadable(f"not a notebook: the source of cell {number} is not text")
        start, end = _members(text, span[0])["source"]
        if is_list:
            places = zip(_items(text, start), source, strict=True)
            lines = [WrittenLine(*place, line) for place, line in places]
        else:
            lines = [
                WrittenLine(*match.span(), json.loads(f'"{match[0]}"'))
                for match in _WRITTEN_LINE.finditer(text, start + 1, end - 1)
                if match[0] or start + 2 == end
            ]
        cells.append(Cell(number, tuple(lines), is_list))
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


def splice(text: str, cell: Cell, new: str) -> list[Edit]:
    """Another source of a cell as edits of the notebook's text. Lines that stay are not touched.

    `b = 2` in place of `b = 1`, with one more line:

        "source": [                     "source": [
         "a = \\"\\u00e9\\"\\n",            "a = \\"\\u00e9\\"\\n",
         "b = 1"                         "b = 2\\n",
        ]                                "c = 3"
                                        ]
    """
    lines = cell.lines
    comma = _between(text, cell)
    is_ascii = text[lines[0].start : lines[-1].end].isascii()
    new_lines = re.split(r"(?<=\n)(?!\Z)", new)
    edits = []
    for tag, i1, i2, j1, j2 in opcodes([line.value for line in lines], new_lines):
        if tag == "equal":
            continue
        written = [json.dumps(line, ensure_ascii=is_ascii) for line in new_lines[j1:j2]]
        content = comma.join(item if cell.is_list else item[1:-1] for item in written)
        if i1 < i2 and (content or not cell.is_list):
            edits.append(Edit(lines[i1].start, lines[i2 - 1].end, content))
        elif i2 < len(lines):
            edits.append(Edit(lines[i1].start, lines[i2].start, content and content + comma))
        else:
            edits.append(Edit(lines[i1 - 1].end, lines[-1].end, content and comma + content))
    return edits


def _between(text: str, cell: Cell) -> str:
    """What is between two lines of a cell: in a list a comma, a line break and the indent."""
    if not cell.is_list:
        return ""
    first, *others = cell.lines
    if others:
        return text[first.end : others[0].start]
    return "," + text[text.rindex("[", 0, first.start) + 1 : first.start]


# --- reading and changing ---


def read_source(text: str, cell: Cell, around: str) -> Source:
    """The parsed cell: as it is, or with its IPython lines masked."""
    lines = file_lines(text, cell)
    label = f"cell {cell.number}"

    def in_file(edits: list[Edit]) -> list[Edit]:
        return splice(text, cell, apply_edits(cell.text, edits))

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
    number, at = 1, 0
    for line in cell.lines:
        number += text.count("\n", at, line.start)
        at = line.start
        lines += [number] * max(1, line.value.count("\n"))
    return (*lines, number)


def change_cells(text: str, cells: Sequence[Cell], sources: Sequence[str]) -> str:
    """The notebook with other sources in its cells, proved; `Refused` otherwise."""
    rows = zip(cells, sources, strict=True)
    changed = [(cell, source) for cell, source in rows if source != cell.text]
    after = apply_edits(text, [edit for row in changed for edit in splice(text, *row)])
    try:
        expected, new = json.loads(text), json.loads(after)
        for cell, source in changed:
            expected["cells"][cell.number - 1]["source"] = source
            changed_cell = new["cells"][cell.number - 1]
            changed_cell["source"] = "".join(changed_cell["source"])
    except (ValueError, LookupError, TypeError):
        raise Refused("the changed notebook is not valid JSON") from None
    if expected != new:
        raise Refused("the changed notebook would have a change that was not asked for")
    return after
