"""Python text and its offsets: bytes to text and back, and `ast` positions to character offsets.

`ast` counts columns in UTF-8 bytes and breaks lines only at LF, CR and CRLF; `str.splitlines` would
also break at form feeds and other characters, so lines are found here.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from arc_toolkit.edit.files.edits import Edit, Unreadable, byte_position
from arc_toolkit.file_io import collector_paused

_LINE_END = re.compile(r"\r\n|\n|\r")
# A string on one line; what begins after a letter is an apostrophe.
_STRING = re.compile(r"""(?<![\w'"])[rbfuRBFU]{0,2}(["'])(?!\1)(?:[^"'\\\n]|\\.)*\1""")
_BOM = b"\xef\xbb\xbf"
# Nodes that have a place.
Located = ast.expr | ast.stmt | ast.keyword | ast.alias | ast.arg

# Errors of Python 3 that nearly always mean Python 2 (CPython, Grammar/python.gram and Parser/).
_PYTHON_2 = re.compile(
    r"Missing parentheses in call to '(?:print|exec)'|multiple exception types must be parenthesized"
    r"|leading zeros in decimal integer literals|^(?:invalid syntax).*<>"
)
_PYTHON_2_LINE = re.compile(
    r"^\s*(?:print\s+[\"'\w%]|print\s*>>|exec\s+[\"'\w]|raise\s+\w+\s*,|except\s+[\w.]+\s*,\s*\w+\s*:)"
    r"|<>|\b0[0-7]+\b|\b\d+[lL]\b|\b[uU][rR][\"']|`"
)


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings about invalid escapes in other people's strings, and without the collector
    of cycles.
    """
    with collector_paused(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def decode(data: bytes) -> tuple[str, str]:
    """The text and its encoding, as Python itself decides it: BOM, coding cookie, UTF-8."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise Unreadable(f"cannot tell its encoding: {error.msg}", 1, 1) from None
    if encoding == "utf-8-sig":
        encoding, data = "utf-8", data[len(_BOM) :]
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        reason = f"not {encoding} text: byte 0x{data[error.start]:02x} cannot be read"
        raise Unreadable(reason, *byte_position(data, error.start)) from None
    if "\0" in text:
        at = byte_position(data, data.index(b"\0"))
        raise Unreadable("holds null bytes: not Python source", *at)
    if text.encode(encoding) != data:
        raise Unreadable(f"its {encoding} text does not survive a round trip; save it as UTF-8")
    return text, encoding


def encode(text: str, encoding: str, before: bytes) -> bytes:
    """The bytes of changed text, with the BOM that the file had."""
    return (_BOM if before.startswith(_BOM) else b"") + text.encode(encoding)


def parse(text: str) -> list[ast.stmt]:
    """The statements of a module; `Unreadable` says line and column."""
    try:
        return ast.parse(text).body
    except SyntaxError as error:
        line, column = error.lineno or 0, error.offset or 0
        shown = error.text or ""
        if _PYTHON_2.search(error.msg) or (
            _PYTHON_2_LINE.search(shown) and "f-string" not in error.msg
        ):
            raise Unreadable("Python 2 code: convert it to Python 3 first", line, column) from None
        raise Unreadable(f"not valid Python: {error.msg}", line, column) from None
    except (RecursionError, MemoryError):
        raise Unreadable("nested too deeply to be parsed") from None
    except ValueError as error:
        raise Unreadable(f"not valid Python: {error}") from None


@dataclass(frozen=True, eq=False)
class Source:
    """One text (a file, a changed part of it, or a notebook cell) and its statements.

    `label`, `file_lines` and `in_file` serve findings only: `cell 3`, the line of the notebook file
    for each line here.
    """

    text: str
    body: list[ast.stmt]
    label: str = ""
    file_lines: tuple[int, ...] = ()
    # Edits of this text as edits of the file's text.
    in_file: Callable[[list[Edit]], list[Edit]] = list
    # The code of the whole file, if this is a part of it: for its style.
    around: str = ""
    # The file that a `%%writefile` cell writes, as it names it, and its content.
    written: tuple[str, str] | None = None

    def file_line(self, line: int) -> int:
        return self.file_lines[line - 1] if 0 < line <= len(self.file_lines) else line

    @cached_property
    def starts(self) -> list[int]:
        """Offset of each line's first character."""
        lines = io.StringIO(self.text + "|", newline="")  # the last line is one that ends
        return list(accumulate(map(len, lines), initial=0))[:-1]

    @cached_property
    def newline(self) -> str:
        """The line ending of this text: that of its first line."""
        match = _LINE_END.search(self.text)
        return match[0] if match else "\n"

    @cached_property
    def quote(self) -> str:
        """The quotes of most strings in the file; double ones unless there are clearly more single
        ones.
        """
        kinds = Counter(match[1] for match in _STRING.finditer(self.around or self.text))
        return "'" if kinds["'"] > kinds['"'] + 1 else '"'

    def offset(self, line: int, column: int) -> int:
        """Characters before an `ast` position (line from 1, column in UTF-8 bytes)."""
        start = self.starts[line - 1]
        head = self.text[start : start + column]
        if head.isascii():
            return start + column
        return start + len(self.text[start : self.line_end(start)].encode()[:column].decode())

    def start(self, node: Located) -> int:
        return self.offset(node.lineno, node.col_offset)

    def column(self, node: Located) -> int:
        """The column of a node in characters, from 1; `ast` counts bytes."""
        return self.start(node) - self.starts[node.lineno - 1] + 1

    def end(self, node: Located) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.end_lineno, node.end_col_offset)

    def slice(self, node: Located) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def lines_with(self, words: Iterable[str]) -> list[int]:
        """The lines (from 1) that hold one of the words, in order."""
        return sorted({line for word in words for line in self._lines_of(word)})

    @cached_property
    def _known_lines(self) -> dict[str, list[int]]:
        return {}

    def _lines_of(self, word: str) -> list[int]:
        if (lines := self._known_lines.get(word)) is None:
            lines = self._known_lines[word] = []
            at = self.text.find(word)
            while at >= 0:
                lines.append(bisect_right(self.starts, at))
                at = self.text.find(word, at + 1)
        return lines

    def line_start(self, offset: int) -> int:
        return self.starts[bisect_right(self.starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Offset of the line break (or of the end) after `offset`."""
        match = _LINE_END.search(self.text, offset)
        return match.start() if match else len(self.text)

    def line_after(self, offset: int) -> int:
        """Where the next line begins, or the end."""
        following = bisect_right(self.starts, offset)
        return self.starts[following] if following < len(self.starts) else len(self.text)

    def span(self, node: Located) -> tuple[int, int]:
        return self.start(node), self.end(node)

    def indent(self, offset: int) -> str:
        """The blanks at the beginning of the line, without form feeds."""
        start = self.line_start(offset)
        match = re.compile(r"\f*([ \t]*)").match(self.text, start)
        return match[1] if match else ""
