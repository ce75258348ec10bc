"""Jupyter notebooks: the code cells as one Python module, changed inside of the JSON strings of their source lines.

The JSON around the changed lines stays byte for byte, outputs included. Lines for IPython (`%magic`, `!shell`,
`name?`) are masked for parsing and kept in the file; a cell that is no Python is left alone and reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from json.decoder import scanstring  # type: ignore[attr-defined]

from arc_toolkit.azureml.python.python_engine import is_candidate, rewrite
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.discover import Skipped
from arc_toolkit.edit.edits import Edit, Refused, SkipCause, Unreadable, apply_edits
from arc_toolkit.edit.python_source import Source, parse, quiet
from arc_toolkit.findings import FileResult, Finding

_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
# One character of a JSON string as it is written: a surrogate pair, an escape, or itself.
_WRITTEN = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]")

# --- IPython -----------------------------------------------------------------------------------------------------

# Cell magics whose body is Python of this notebook; any other body is something else.
_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "memit", "mprun", "notify"})
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_IPYTHON_LINE = re.compile(r"^[ \t]*(?=[%!]|\?{1,2}[\w.%])|^[ \t]*(?=[\w.\[\]%*]+\?{1,2}[ \t]*(?:#.*)?$)")
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
        found = _IPYTHON_LINE.match(body) or _IPYTHON_VALUE.match(body)
        if found:
            at = found.end()
            replaced = "0#"[: len(body) - at]
            masked.append(line[:at] + replaced + line[at + len(replaced) :])
            continued = body.endswith("\\")
        else:
            masked.append(line)
    return "".join(masked)


# --- cells and where their text is written -----------------------------------------------------------------------


@dataclass(frozen=True)
class Literal:
    """One JSON string: where it is written (with its quotes), and what it says."""

    start: int
    end: int
    value: str

    def offsets(self, text: str) -> list[int]:
        """Where each character of the value is written; the last entry is the closing quote."""
        inner = text[self.start + 1 : self.end - 1]
        if "\\" not in inner:
            return list(range(self.start + 1, self.end))
        return [self.start + 1 + match.start() for match in _WRITTEN.finditer(inner)] + [self.end - 1]


@dataclass(frozen=True)
class Cell:
    """A code cell: its number (from 1, all cells counted) and its source, a list of lines or one string."""

    number: int
    literals: tuple[Literal, ...]
    is_list: bool

    @property
    def text(self) -> str:
        return "".join(literal.value for literal in self.literals)


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
    found = []
    # The JSON is valid from here on; what is left is to find where the source of each code cell is written.
    start = _members(text, _skip(text, 0))["cells"][0]
    for number, (content, (first, _)) in enumerate(zip(notebook["cells"], _items(text, start), strict=True), 1):
        if not isinstance(content, dict):
            raise Unreadable(f"not a notebook: cell {number} is no object")
        if content.get("cell_type") != "code" or "source" not in content:
            continue
        source = content["source"]
        lines = source if isinstance(source, list) else [source]
        if not all(isinstance(line, str) for line in lines):
            raise Unreadable(f"not a notebook: the source of cell {number} is no text")
        span = _members(text, first)["source"]
        spans = list(_items(text, span[0])) if isinstance(source, list) else [span]
        literals = tuple(Literal(*where, line) for where, line in zip(spans, lines, strict=True))
        found.append(Cell(number, literals, isinstance(source, list)))
    return found


def _members(text: str, position: int) -> dict[str, tuple[int, int]]:
    """Keys of an object, each with the span of its value; the last one counts, as in `json.loads`."""
    found = {}
    position = _skip(text, position + 1)
    while text[position] != "}":
        key, position = scanstring(text, position + 1)
        start = _skip(text, _skip(text, position) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        found[key] = start, end
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found


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
    found = _SPACE.match(text, position)
    return found.end() if found else position


# --- writing -----------------------------------------------------------------------------------------------------


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
    if not new and cell.is_list and last - first + 1 < len(literals):  # the lines are gone, and their items too
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


# Marks a line break between two items while a string is put together; cannot stand in JSON text.
_CUT = "\0"


def _escaped_with_breaks(text: str, literal: Literal, offsets: list[int], edits: list[Edit]) -> str:
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
    """What stands between two items of this list: a comma, a line break and the indent."""
    literals = cell.literals
    if index + 1 < len(literals):
        return text[literals[index].end : literals[index + 1].start]
    if index:
        return text[literals[index - 1].end : literals[index].start]
    opening = text.rindex("[", 0, literals[index].start)
    return "," + text[opening + 1 : literals[index].start]


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


# --- the whole ---------------------------------------------------------------------------------------------------


def patch_notebook(path: str, data: bytes, settings: Settings) -> FileResult:
    """What the settings and rules make of one notebook."""
    with quiet():
        return _patch(path, data, settings)


def _patch(path: str, data: bytes, settings: Settings) -> FileResult:
    findings: list[Finding] = []
    try:
        text = data.decode("utf-8-sig")
        cells = read_cells(text)
        if not is_candidate(data):
            return FileResult(path, data, skipped=Skipped(path, SkipCause.FOREIGN, "no AzureML code"))
        parsed, broken = _parsed(text, cells)
        findings += _about_broken(text, broken, settings, path)
        result = rewrite([source for _, source in parsed], settings, path)
        after = _spliced(text, [cell for cell, _ in parsed], result.edits)
    except UnicodeDecodeError as error:
        line, column = data.count(b"\n", 0, error.start) + 1, error.start - data.rfind(b"\n", 0, error.start)
        return FileResult(
            path, data, skipped=Skipped(path, SkipCause.BROKEN, "not UTF-8 text: save it as UTF-8", line, column)
        )
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    except Refused as error:
        return FileResult(path, data, findings=tuple(findings), refused=error.reason)
    findings += result.findings
    if result.refused is not None:
        return FileResult(path, data, findings=tuple(findings), refused=result.refused)
    raw = (_BOM if data.startswith(_BOM) else b"") + after.encode()
    return FileResult(path, data, None if raw == data else raw, tuple(findings), new_files=result.new_files)


def _parsed(text: str, cells: Sequence[Cell]) -> tuple[list[tuple[Cell, Source]], list[tuple[Cell, Unreadable]]]:
    """The cells that are Python, and those that are not."""
    parsed, broken = [], []
    for cell in cells:
        try:
            parsed.append((cell, _source(text, cell)))
        except Unreadable as error:
            broken.append((cell, error))
    return parsed, broken


def _about_broken(
    text: str, broken: Sequence[tuple[Cell, Unreadable]], settings: Settings, path: str
) -> Iterator[Finding]:
    """A warning for each cell that something may have been asked for in vain."""
    if not settings.places_anything:
        return
    for cell, error in broken:
        message = f"cell {cell.number} line {error.line}: left as it is"
        lines = _file_lines(text, cell)
        line = lines[min(max(error.line, 1), len(lines)) - 1]
        yield Finding("instance-type", "warning", message, path, line, 1, reason=error.reason)


def _spliced(text: str, cells: Sequence[Cell], edits: Sequence[Sequence[Edit]]) -> str:
    """The notebook with the edits of its cells made, and proven."""
    spans = [edit for cell, found in zip(cells, edits, strict=True) if found for edit in splice(text, cell, found)]
    if not spans:
        return text
    after = apply_edits(text, spans)
    _prove(text, after, cells, edits)
    return after


def _source(text: str, cell: Cell) -> Source:
    """The parsed cell: as it is, or with its IPython lines masked."""
    lines = _file_lines(text, cell)
    label = f"cell {cell.number}"
    in_file = partial(splice, text, cell)
    try:
        return Source(cell.text, parse(cell.text), label, lines, in_file)
    except Unreadable:
        masked = mask(cell.text)
        return Source(masked, parse(masked), label, lines, in_file)


def _file_lines(text: str, cell: Cell) -> tuple[int, ...]:
    """The line of the notebook file for each line of the cell."""
    lines: list[int] = []
    line = at = 0
    for literal in cell.literals:
        line += text.count("\n", at, literal.start)
        at = literal.start
        lines += [line + 1] * max(1, literal.value.count("\n"))
    return (*lines, line + 1)


def _prove(before: str, after: str, cells: Sequence[Cell], edits: Sequence[Sequence[Edit]]) -> None:
    """The new JSON is the old one but for the sources that were changed."""
    old, new = json.loads(before), json.loads(after)
    for cell, found in zip(cells, edits, strict=True):
        if found:
            item = old["cells"][cell.number - 1]
            wanted = apply_edits(cell.text, found)
            item["source"] = wanted
            written = new["cells"][cell.number - 1]["source"]
            new["cells"][cell.number - 1]["source"] = written if isinstance(written, str) else "".join(written)
    if old != new:
        raise Refused("the changed notebook could not be proven: it would say more than what was asked for")
