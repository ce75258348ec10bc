"""Reading YAML as nodes with marks, within bounds, and looking into them. No editing here.

PyYAML's `compose()` gives every node its place in the text and expands no alias: a file full of
anchors costs no more than its length. What cannot be read safely is `Unreadable`, with its
position.
"""

from __future__ import annotations

import gc
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import CollectionNode, MappingNode, ScalarNode, SequenceNode

from arc_toolkit.edit.files.edits import Unreadable

YamlNode = yaml.Node
# The number of the document, then keys and indexes.
KeyPath = tuple[str | int, ...]

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 1000
MAX_EXPANDED = 1_000_000
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_IS_TEMPLATE = "a template with placeholders, not YAML yet"

STR, INT, FLOAT, BOOL, NULL, MERGE, MAP, SEQ = (
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "merge", "map", "seq")
)


@lru_cache(maxsize=8192)
def _plain_tag(value: str) -> str:
    """What a plain scalar is; the same words come again and again, in one file and in all."""
    resolvers: Any = yaml.SafeLoader.yaml_implicit_resolvers
    for tag, pattern in resolvers.get(value[:1], ()):
        if pattern.match(value):
            return str(tag)
    return STR


# libyaml is ten times faster; wheels for some platforms come without it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(_Base):  # type: ignore[misc]
    """The safe loader, with the part of `compose()` that is Python cut down to what SafeLoader's
    rules need.
    """

    # Called before and after every node, for path resolvers, of which there are none. Functions of
    # C that do nothing with two arguments and with none, because methods make `compose()` 6 %
    # slower.
    descend_resolver = staticmethod(operator.is_)
    ascend_resolver = staticmethod(gc.isenabled)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is ScalarNode:
            return _plain_tag(value) if implicit[0] else STR
        return MAP if kind is MappingNode else SEQ


# What is before a token is looked at last, because a search for literal text is fast. The name of
# an alias is of letters, digits, `-` and `_`: not `*.py` of a shell command.
_ALIAS = re.compile(r"\*[\w-](?<![^\s\[{,:?-]..)")
# What a mapping begins with that has a mapping as its key; not `${{`, nor `"{{` as workflows of
# Argo have it.
_DOUBLE_BRACE = re.compile(r"\{\{(?<![^\s\[{,:]..)")
# `- - - -` and `? ? ?` nest without brackets; the C loader's stack does not survive 100,000 of
# them.
_COMPACT_NESTING = re.compile(rf"(?:[-?][ \t]+){{{MAX_DEPTH},}}")
_TEMPLATE = re.compile(
    r"(?<!\$)\{\{|\{%|^\s*<<[^:\n]*>>|<[A-Z][A-Z0-9_]*>|__[A-Z][A-Z0-9_]*__", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class YamlText:
    """Decoded text without its BOM, and the root node of each document in it (None for an empty
    one).
    """

    text: str
    bom: bool
    documents: tuple[YamlNode | None, ...]

    @property
    def encoding(self) -> str:
        return "utf-8"

    @property
    def size(self) -> int:
        return len(self.text)

    def encode(self) -> bytes:
        return (b"\xef\xbb\xbf" if self.bom else b"") + self.text.encode()


def decode(data: bytes) -> tuple[str, bool]:
    """UTF-8 text without its BOM, and whether there was one."""
    bom = data.startswith(b"\xef\xbb\xbf")
    try:
        return (data[3:] if bom else data).decode(), bom
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None


def read(data: bytes, loader: type[Loader] = Loader) -> YamlText:
    """All documents of a file, or `Unreadable`; `loader` decides what a plain scalar is."""
    if len(data) > MAX_BYTES:
        raise Unreadable(f"larger than {MAX_BYTES // 1024 // 1024} MiB")
    text, bom = decode(data)
    return YamlText(text, bom, compose(text, loader))


def compose(text: str, loader: type[Loader] = Loader) -> tuple[YamlNode | None, ...]:
    """The root node of each document."""
    _guard_depth(text)
    try:
        documents = tuple(yaml.compose_all(text, Loader=loader))
    except yaml.YAMLError as error:
        raise _unreadable(text, error) from None
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None
    if "{{" in text and _DOUBLE_BRACE.search(text):
        _refuse_templates(documents)
    if "*" in text and "&" in text and _ALIAS.search(text):
        _guard_expansion(documents)
    return documents


def _guard_depth(text: str) -> None:
    if len(text) <= MAX_DEPTH:
        return
    if text.count("[") + text.count("{") > MAX_DEPTH:
        depth = 0
        for match in re.finditer(r"[\[\]{}]", text):
            depth = depth + 1 if match[0] in "[{" else max(0, depth - 1)
            if depth > MAX_DEPTH:
                raise Unreadable(_TOO_DEEP, text.count("\n", 0, match.start()) + 1)
    if text.count("-") + text.count("?") > MAX_DEPTH and _COMPACT_NESTING.search(text):
        raise Unreadable(_TOO_DEEP)


def _unreadable(text: str, error: yaml.YAMLError) -> Unreadable:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    if isinstance(error, yaml.reader.ReaderError):
        return Unreadable("broken YAML: a control character that YAML does not allow")
    if _TEMPLATE.search(text):
        return Unreadable(_IS_TEMPLATE, line, column)
    problem = getattr(error, "problem", None) or "it cannot be read"
    return Unreadable(f"broken YAML: {problem}", line, column)


def _refuse_templates(documents: tuple[YamlNode | None, ...]) -> None:
    """`key: {{ name }}` is valid YAML: a mapping whose key is a mapping. Nobody means that."""
    for node in walk(documents):
        for key, _ in node.value if isinstance(node, MappingNode) else ():
            if isinstance(key, MappingNode):
                raise Unreadable(_IS_TEMPLATE, *position_of(key))


def _guard_expansion(documents: tuple[YamlNode | None, ...]) -> None:
    """Refuse anchors that contain themselves, or expand to more nodes than any real file has."""
    sizes: dict[int, int] = {}
    working: set[int] = set()

    def size(node: YamlNode) -> int:
        key = id(node)
        if key in sizes:
            return sizes[key]
        if key in working:
            raise Unreadable("an anchor that contains itself", *position_of(node))
        working.add(key)
        total = 1 + sum(size(child) for child in children(node))
        working.discard(key)
        sizes[key] = total
        if total > MAX_EXPANDED:
            reason = f"its anchors expand to more than {MAX_EXPANDED:,} values"
            raise Unreadable(reason, position_of(node)[0])
        return total

    try:
        for document in documents:
            if document is not None:
                size(document)
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None


def children(node: YamlNode) -> Iterator[YamlNode]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, SequenceNode):
        yield from node.value


def walk(documents: tuple[YamlNode | None, ...]) -> Iterator[YamlNode]:
    """Every node once, also where several aliases point to it."""
    seen: set[int] = set()
    stack = [node for node in documents if node is not None]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack.extend(children(node))


# --- looking into nodes -------------------------------------------------------------------------


def pairs(node: YamlNode | None) -> dict[str, tuple[YamlNode, YamlNode]]:
    """Key text -> (key node, value node) of a mapping's own keys; {} for anything else.

    The last of twins wins.
    """
    if not isinstance(node, MappingNode):
        return {}
    return {pair[0].value: pair for pair in node.value if isinstance(pair[0], ScalarNode)}


def get(node: YamlNode | None, *path: str | int) -> YamlNode | None:
    """The node at a path; merge keys (`<<`) are followed."""
    for step in path:
        if isinstance(node, MappingNode):
            name = step if isinstance(step, str) else str(step)
            for key, value in reversed(node.value):
                if key.value == name:
                    node = value
                    break
            else:
                merged = [value for key, value in node.value if key.tag == MERGE]
                node = _merged(merged[-1], name) if merged else None
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        else:
            return None
    return node


def _merged(node: YamlNode, name: str) -> YamlNode | None:
    """The value of a key that a mapping has from others, by its merge key."""
    for source in node.value if isinstance(node, SequenceNode) else [node]:
        value = get(source, name) if isinstance(source, MappingNode) else None
        if value is not None:
            return value
    return None


def last_scalar(node: YamlNode) -> YamlNode:
    """The scalar or flow collection that a block collection ends with."""
    while isinstance(node, CollectionNode) and not node.flow_style and node.value:
        node = node.value[-1][1] if isinstance(node, MappingNode) else node.value[-1]
    return node


def items_of(node: YamlNode | None) -> list[YamlNode]:
    """The items of a sequence; none for anything else."""
    return list(node.value) if isinstance(node, SequenceNode) else []


def text_of(node: YamlNode | None) -> str | None:
    """The value of a scalar; None for null and for anything that is not a scalar."""
    if isinstance(node, ScalarNode) and node.tag != NULL:
        return str(node.value)
    return None


def is_null(node: YamlNode | None) -> bool:
    return isinstance(node, ScalarNode) and node.tag == NULL


def position_of(node: YamlNode) -> tuple[int, int]:
    """Line and column of a node, from 1."""
    return node.start_mark.line + 1, node.start_mark.column + 1


def construct(node: YamlNode) -> Any:
    """Plain Python data of a node, for small parts (inputs, environments).

    Aliases are shared, not copied.
    """
    try:
        return SafeConstructor().construct_document(node)
    except (yaml.YAMLError, ValueError):
        return None


# --- YAML 1.2 -----------------------------------------------------------------------------------

# PyYAML reads YAML 1.1, where `1e-5` is a word and `on` is a boolean. ruamel.yaml, and with it the
# AzureML SDK v1.5, reads the core schema of YAML 1.2, where the first is a number and the second is
# a word. INT comes before FLOAT, so that a whole number stays whole; the merge key is that of 1.1,
# as in ruamel.yaml.
_CORE_PATTERNS = {
    BOOL: re.compile(r"true|True|TRUE|false|False|FALSE"),
    NULL: re.compile(r"~|null|Null|NULL|"),
    INT: re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    FLOAT: re.compile(
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    ),
    MERGE: re.compile(r"<<"),
}
_CORE_VALUES: dict[str, Callable[[str], Any]] = {
    STR: str,
    NULL: lambda text: None,
    BOOL: lambda text: text.lower() == "true",
    INT: lambda text: int(text, 0 if text[:2] in ("0o", "0x") else 10),
    FLOAT: lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
}


def core_tag(text: str) -> str:
    """The tag of a plain scalar."""
    return next((tag for tag, pattern in _CORE_PATTERNS.items() if pattern.fullmatch(text)), STR)


class CoreLoader(Loader):
    """Gives plain scalars the tags of the core schema."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is ScalarNode and implicit[0]:
            return core_tag(value)
        return super().resolve(kind, value, implicit)


def core_value(node: YamlNode) -> Any:
    """The value of a scalar that `CoreLoader` read."""
    try:
        return _CORE_VALUES[node.tag](str(node.value))
    except (KeyError, ValueError):
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        reason = f"broken YAML: {node.value} cannot be read as {tag}"
        raise Unreadable(reason, *position_of(node)) from None
