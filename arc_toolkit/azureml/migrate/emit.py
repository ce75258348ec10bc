"""Readable YAML text from plain data, with comments. Each scalar is proved as it is written.

Not a general dumper: it knows what the converters write. A scalar is put down in the plainest way that reads back
as the same value in YAML 1.1 (azure-ai-ml, through PyYAML) and in YAML 1.2 alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import yaml

from arc_toolkit.edit.yaml_core import core_tag
from arc_toolkit.edit.yaml_nodes import STR

WIDTH = 110


class Note(str):
    """As a key of a mapping (with the value None): a comment on lines of its own."""

    __slots__ = ()


def emit(value: Mapping[str, object], indent: int = 0) -> str:
    """A block mapping, one key a line, in the order given."""
    return "".join(f"{line}\n" for line in _mapping(value, indent))


def _mapping(value: Mapping[str, object], indent: int) -> list[str]:
    lines = []
    blank = " " * indent
    for key, item in value.items():
        if isinstance(key, Note):
            lines += [f"{blank}# {line}".rstrip() for line in key.splitlines()]
        else:
            lines += _entry(f"{blank}{scalar(key, 0)}:", item, indent)
    return lines


def _entry(head: str, item: object, indent: int) -> list[str]:
    if isinstance(item, Mapping):
        return [head, *_mapping(item, indent + 2)] if item else [f"{head} {{}}"]
    if isinstance(item, Sequence) and not isinstance(item, str):
        if all(isinstance(one, int | float) for one in item):  # also the empty one
            return [f"{head} [{', '.join(scalar(one, 0) for one in item)}]"]
        return [head, *_sequence(item, indent + 2)]
    return f"{head} {scalar(item, indent + 2)}".split("\n")


def _sequence(items: Sequence[object], indent: int) -> list[str]:
    blank = " " * indent
    lines = []
    for item in items:
        if isinstance(item, Mapping) and item:
            first, *rest = _mapping(item, indent + 2)
            lines += [f"{blank}- {first[indent + 2 :]}", *rest]
        else:
            lines += _entry(f"{blank}-", item, indent)
    return lines


def scalar(value: object, indent: int) -> str:
    """One value as YAML; a block scalar's lines are indented by `indent`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    text = str(value)
    long = len(text) > WIDTH
    for candidate in (
        text if "\n" not in text and not long else None,
        _folded(text, indent) if long and "\n" not in text and indent else None,
        _literal(text, indent) if "\n" in text and indent else None,
    ):
        if candidate is not None and _reads_back(candidate, text):
            return candidate
    return quoted(text)


def quoted(text: str) -> str:
    """A double-quoted scalar on one line."""
    out = []
    for character in text:
        code = ord(character)
        if character in '"\\':
            out.append("\\" + character)
        elif character == "\n":
            out.append("\\n")
        elif character == "\t":
            out.append("\\t")
        elif character.isprintable():
            out.append(character)
        else:
            out.append(f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def _number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    mantissa, exponent, power = repr(value).partition("e")
    # YAML 1.1 takes `1e-05` for a word: its numbers need the point.
    return mantissa + (".0" if exponent and "." not in mantissa else "") + exponent + power


def _folded(text: str, indent: int) -> str:
    """A `>-` scalar, broken before arguments: folding joins its lines with one blank each."""
    lines = [""]
    for word in text.split(" "):
        starts = word.startswith(("-", "$[[")) and len(lines[-1]) > 20
        if lines[-1] and (starts or len(lines[-1]) + len(word) > WIDTH):
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    blank = " " * indent
    return ">-\n" + "\n".join(blank + line for line in lines)


def _literal(text: str, indent: int) -> str:
    blank = " " * indent
    body = text.removesuffix("\n")
    lines = [blank + line if line else "" for line in body.split("\n")]
    return ("|-\n" if body == text else "|\n") + "\n".join(lines)


def _reads_back(candidate: str, text: str) -> bool:
    # In a mapping under a key, and in a sequence: wherever the emitter may put it.
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
