"""YAML text of new values: for new keys of a file (`Writer`) and for new files (`file_text`). No
other module writes YAML.

A scalar is plain only where YAML 1.1 (PyYAML) and YAML 1.2 read it as the same text, else it is in
double quotes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

from arc_toolkit.edit.files.edits import Refused

_WORD = re.compile(
    r"""[A-Za-z][A-Za-z0-9_./@-]*(?::[A-Za-z0-9_./@-]+)*   # words, names:with-a-colon
      | [0-9]+[a-df-z][a-z0-9-]*                           # 32cpu128g, and never 1e5
      """,
    re.VERBOSE,
)
_NOT_TEXT = re.compile(r"true|false|yes|no|on|off|null|y|n|0[xob].*", re.IGNORECASE)


@lru_cache(maxsize=1024)
def _is_word(text: str) -> bool:
    """Whether it is text to every reader without quotes.

    New values have the same words again and again.
    """
    return bool(_WORD.fullmatch(text)) and not _NOT_TEXT.fullmatch(text)


# Longer text is folded in a new file.
WIDTH = 110


class Comment(str):
    """As a key of a mapping, with the value None: a comment on lines of its own."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class YamlStyle:
    """What the caller prefers where YAML allows several forms."""

    # For a new key, the keys after which it goes, the best first (of a set, the last in the file);
    # else the end.
    neighbours: Mapping[str, Sequence[str] | frozenset[str]] = field(default_factory=dict)
    # Whether a key's text is quoted although it need not be.
    quoted: Callable[[str], bool] = lambda key: False
    # More text that is plain outside of flow collections.
    plain: re.Pattern[str] | None = None
    # The beginnings of words before which folded text breaks its lines.
    fold_before: tuple[str, ...] = ("-",)


@dataclass(frozen=True)
class Writer:
    """Writes values in the layout of one file."""

    style: YamlStyle
    indent: int = 2
    # How far the dashes of a list are indented below their key.
    list_indent: int = 2
    # Of a new file: any text that reads back is plain, and long or multi-line text becomes a block
    # scalar.
    prose: bool = False

    def lines(self, tree: dict[str, Any], column: int) -> list[str]:
        """A block mapping whose keys are at `column`."""
        lines = []
        blank = " " * column
        for key, value in tree.items():
            if isinstance(key, Comment):
                lines += [f"{blank}# {line}".rstrip() for line in key.splitlines()]
                continue
            head = f"{blank}{self.scalar(key)}:"
            if isinstance(value, str):
                text = self.scalar(value, quote=self.style.quoted(key), column=column + self.indent)
                lines += f"{head} {text}".split("\n")
            elif isinstance(value, dict) and value:
                lines += [head, *self.lines(value, column + self.indent)]
            elif isinstance(value, list | tuple) and _has_lines(value):
                lines += [head, *self.items(value, column + self.list_indent)]
            else:
                lines.append(f"{head} {self.flow(value)}")
        return lines

    def items(self, values: Sequence[Any], column: int) -> list[str]:
        """A block sequence whose dashes are at `column`."""
        lines = []
        head = " " * column + "-"
        for value in values:
            if isinstance(value, dict) and value:
                first, *rest = self.lines(value, column + 2)
                lines += [f"{head} {first[column + 2 :]}", *rest]
            elif isinstance(value, list | tuple) and _has_lines(value):
                lines += [head, *self.items(value, column + 2)]
            else:
                is_text = isinstance(value, str)
                text = self.scalar(value, column=column + 2) if is_text else self.flow(value)
                lines += f"{head} {text}".split("\n")
        return lines

    def flow(self, value: Any, *, quote: bool = False) -> str:
        """`{a: 1, b: [c]}` on one line; with `quote` as JSON."""
        if isinstance(value, dict):
            inside = []
            for key, item in value.items():
                seen = quote or (isinstance(item, str) and self.style.quoted(key))
                inside.append(
                    f"{self.scalar(key, flow=True, quote=quote)}: {self.flow(item, quote=seen)}"
                )
            return "{" + ", ".join(inside) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(self.flow(item, quote=quote) for item in value) + "]"
        return self.scalar(value, flow=True, quote=quote)

    def scalar(
        self, value: Any, *, flow: bool = False, quote: bool = False, column: int = 0
    ) -> str:
        """One value.

        The lines of a block scalar begin at `column` (0: it has to be on one line).
        """
        if not isinstance(value, str):
            return _not_text(value)
        text = str(value)
        if quote:
            return quoted(text)
        if _is_word(text) and not (self.prose and len(text) > WIDTH):
            return text
        if self.style.plain is not None and not flow and self.style.plain.fullmatch(text):
            return text
        if self.prose:
            candidate = text
            if "\n" in text:
                candidate = _literal(text, column)
            elif len(text) > WIDTH:
                candidate = self._folded(text, column)
            if (column or candidate is text) and reads_back(candidate, text):
                return candidate
        return quoted(text)

    def _folded(self, text: str, column: int) -> str:
        """A `>-` scalar, broken before arguments: folding joins its lines with one blank each."""
        lines = [""]
        for word in text.split(" "):
            starts = word.startswith(self.style.fold_before) and len(lines[-1]) > 20
            if lines[-1] and (starts or len(lines[-1]) + len(word) > WIDTH):
                lines.append(word)
            else:
                lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
        return ">-\n" + "\n".join(" " * column + line for line in lines)


def file_text(tree: dict[str, Any], style: YamlStyle | None = None) -> str:
    """A whole new file, in the order given."""
    return "".join(f"{line}\n" for line in Writer(style or YamlStyle(), prose=True).lines(tree, 0))


def _not_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, date):  # and datetime
        return value.isoformat()
    raise Refused(f"a value of type {type(value).__name__} has no safe form in YAML")


def quoted(value: Any) -> str:
    """Text in double quotes on one line, as YAML and, unless it has strange characters, JSON.

    Numbers as they are.
    """
    if not isinstance(value, str):
        return _not_text(value)
    written = json.dumps(value, ensure_ascii=False)
    return written if written.isprintable() else "".join(map(_escaped, written))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def _has_lines(items: Sequence[Any]) -> bool:
    """Whether a list takes a line for each item: not an empty one, nor one of numbers."""
    return not all(isinstance(item, int | float) for item in items)


def number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    mantissa, exponent, power = repr(value).partition("e")
    # YAML 1.1 takes `1e-05` for a word: its numbers need the point.
    return mantissa + (".0" if exponent and "." not in mantissa else "") + exponent + power


def _literal(text: str, column: int) -> str:
    body = text.removesuffix("\n")
    lines = [" " * column + line if line else "" for line in body.split("\n")]
    return ("|-\n" if body == text else "|\n") + "\n".join(lines)


@lru_cache(maxsize=256)  # every new component names the same schema
def reads_back(candidate: str, text: str) -> bool:
    """Whether this is the same text to YAML 1.1 and 1.2, as a value, as an item and as a key."""
    import yaml

    from arc_toolkit.edit.yaml.nodes import STR, core_tag

    documents = [f"k: {candidate}\n"]
    if "\n" not in candidate:
        if core_tag(candidate) != STR:
            return False
        documents += [f"- {candidate}\n", f"{candidate}: 1\n"]
    expected: list[object] = [{"k": text}, [text], {text: 1}]
    try:
        return all(
            yaml.safe_load(document) == value  # PyYAML's own scanner rejects more than libyaml
            for document, value in zip(documents, expected, strict=False)
        )
    except (yaml.YAMLError, ValueError):
        return False
