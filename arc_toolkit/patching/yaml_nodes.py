"""Reading YAML as nodes with marks, within bounds, and comparing two readings. No editing, no AzureML here.

PyYAML's `compose()` gives every node the place in the text where it stands and expands no alias, so that a file
full of anchors costs no more than its length. What cannot be read safely is `Unusable`, with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

Node = yaml.Node

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 1000
MAX_EXPANDED = 1_000_000

STR, INT, NULL, MERGE, MAP, SEQ = (
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "null", "merge", "map", "seq")
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
    """The safe loader, with the part of `compose()` that is Python cut down to what SafeLoader's rules need."""

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        pass  # only for path resolvers, of which there are none

    def ascend_resolver(self) -> None:
        pass

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _plain_tag(value) if implicit[0] else STR
        return MAP if kind is yaml.MappingNode else SEQ


# `- - - -` and `? ? ?` nest without brackets; the C loader's stack does not survive 100,000 of them.
_COMPACT_NESTING = re.compile(rf"(?:[-?][ \t]+){{{MAX_DEPTH},}}")
_TEMPLATE = re.compile(r"(?<!\$)\{\{|\{%|^\s*<<[^:\n]*>>|<[A-Z][A-Z0-9_]*>|__[A-Z][A-Z0-9_]*__", re.MULTILINE)
_DOUBLE_BRACE = re.compile(r"(?<!\$)\{\{")


class Unusable(Exception):
    """Text that is no YAML that can be worked on; `reason` is a sentence without its place."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.line, self.column = reason, line, column


@dataclass(frozen=True, slots=True)
class YamlText:
    """Decoded text without its BOM, and the root node of each document in it (None for an empty one)."""

    text: str
    bom: bool
    documents: tuple[Node | None, ...]

    def encode(self, text: str) -> bytes:
        return (b"\xef\xbb\xbf" if self.bom else b"") + text.encode()


def decode(data: bytes) -> tuple[str, bool]:
    """UTF-8 text without its BOM, and whether there was one."""
    bom = data.startswith(b"\xef\xbb\xbf")
    try:
        return (data[3:] if bom else data).decode(), bom
    except UnicodeDecodeError as error:
        raise Unusable("not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None


def read(data: bytes) -> YamlText:
    """All documents of a file, or `Unusable`."""
    if len(data) > MAX_BYTES:
        raise Unusable(f"larger than {MAX_BYTES // 1024 // 1024} MiB")
    text, bom = decode(data)
    return YamlText(text, bom, compose(text))


def compose(text: str) -> tuple[Node | None, ...]:
    """The root node of each document."""
    _guard_depth(text)
    try:
        documents = tuple(yaml.compose_all(text, Loader=Loader))
    except yaml.YAMLError as error:
        raise _unusable(text, error) from None
    except RecursionError:
        raise Unusable(f"nested deeper than {MAX_DEPTH} levels") from None
    if "{{" in text and _DOUBLE_BRACE.search(text):
        _refuse_templates(documents)
    if "*" in text and "&" in text:
        _guard_expansion(documents)
    return documents


def _guard_depth(text: str) -> None:
    if text.count("[") + text.count("{") > MAX_DEPTH:
        depth = 0
        for match in re.finditer(r"[\[\]{}]", text):
            depth = depth + 1 if match[0] in "[{" else max(0, depth - 1)
            if depth > MAX_DEPTH:
                line = text.count("\n", 0, match.start()) + 1
                raise Unusable(f"nested deeper than {MAX_DEPTH} levels", line)
    if text.count("-") + text.count("?") > MAX_DEPTH and _COMPACT_NESTING.search(text):
        raise Unusable(f"nested deeper than {MAX_DEPTH} levels")


def _unusable(text: str, error: yaml.YAMLError) -> Unusable:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    if isinstance(error, yaml.reader.ReaderError):
        return Unusable("broken YAML: a control character that YAML does not allow")
    if _TEMPLATE.search(text):
        return Unusable("a template with placeholders, not YAML yet", line, column)
    problem = getattr(error, "problem", None) or "it cannot be read"
    return Unusable(f"broken YAML: {problem}", line, column)


def _refuse_templates(documents: tuple[Node | None, ...]) -> None:
    """`key: {{ name }}` is valid YAML: a mapping whose key is a mapping. Nobody means that."""
    for node in walk(documents):
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                if isinstance(key, yaml.MappingNode):
                    mark = key.start_mark
                    raise Unusable("a template with placeholders, not YAML yet", mark.line + 1, mark.column + 1)


def _guard_expansion(documents: tuple[Node | None, ...]) -> None:
    """Refuse anchors that contain themselves, or that expand to more nodes than any real file has."""
    sizes: dict[int, int] = {}
    working: set[int] = set()

    def size(node: Node) -> int:
        key = id(node)
        if key in sizes:
            return sizes[key]
        if key in working:
            raise Unusable("an anchor that contains itself", node.start_mark.line + 1, node.start_mark.column + 1)
        working.add(key)
        total = 1 + sum(size(child) for child in children(node))
        working.discard(key)
        sizes[key] = total
        if total > MAX_EXPANDED:
            raise Unusable(f"its anchors expand to more than {MAX_EXPANDED:,} values", node.start_mark.line + 1)
        return total

    try:
        for document in documents:
            if document is not None:
                size(document)
    except RecursionError:
        raise Unusable(f"nested deeper than {MAX_DEPTH} levels") from None


def children(node: Node) -> Iterator[Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def walk(documents: tuple[Node | None, ...]) -> Iterator[Node]:
    """Every node once, also where several aliases point to it."""
    seen: set[int] = set()
    stack = [node for node in documents if node is not None]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack.extend(children(node))


# --- looking into nodes ----------------------------------------------------------------------------------------


def pairs(node: Node | None) -> dict[str, tuple[Node, Node]]:
    """Key text -> (key node, value node) of a mapping's own keys; {} for anything else. The last of twins wins."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def get(node: Node | None, *path: str | int) -> Node | None:
    """The node at a path; merge keys (`<<`) are followed."""
    for step in path:
        if isinstance(node, yaml.MappingNode):
            node = _value(node, str(step))
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        else:
            return None
    return node


def _value(node: yaml.MappingNode, name: str) -> Node | None:
    found = merged = None
    for key, value in node.value:
        if key.value == name:
            found = value
        elif key.tag == MERGE:
            merged = value
    if found is not None or merged is None:
        return found
    for source in merged.value if isinstance(merged, yaml.SequenceNode) else [merged]:
        if isinstance(source, yaml.MappingNode) and (value := _value(source, name)) is not None:
            return value
    return None


def text_of(node: Node | None) -> str | None:
    """The value of a scalar; None for null and for anything that is no scalar."""
    if isinstance(node, yaml.ScalarNode) and node.tag != NULL:
        return str(node.value)
    return None


def is_null(node: Node | None) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == NULL


def is_bound(text: str | None) -> bool:
    """`${{parent.inputs.x}}`: a value that another place gives."""
    return text is not None and "${{" in text


def place(node: Node) -> tuple[int, int]:
    """Line and column of a node, from 1."""
    return node.start_mark.line + 1, node.start_mark.column + 1


def construct(node: Node | None) -> Any:
    """Plain Python data of a node, for small parts (inputs, environments); aliases are shared, not copied."""
    if node is None:
        return None
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    except (yaml.YAMLError, ValueError):
        return None
    finally:
        loader.dispose()


# --- comparing two readings ------------------------------------------------------------------------------------

# What was asked, as a tree beside the document: key -> subtree or leaf.
Value = str | int | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Put:
    """The value at this place is exactly this."""

    value: Value


@dataclass(frozen=True, slots=True)
class Drop:
    """The key at this place is gone."""


@dataclass(frozen=True, slots=True)
class Named:
    """The key at this place has a new name, and the same value unless another is given."""

    name: str
    value: str | None = None


# Pairs of nodes that are known to be the same; None where no alias makes a node come twice.
Memo = set[tuple[int, int]] | None
Change = dict[Any, Any]  # of Change, Put, Drop or Named; mypy has no recursive type for this


def same(old: Node | None, new: Node | None, change: Change | None, memo: Memo) -> bool:
    """Whether `new` means what `old` means, with exactly the asked change made."""
    if old is None or new is None:
        return old is new
    if change and is_null(old):
        return holds(new, {key: _values(leaf) for key, leaf in change.items()})
    if old.tag != new.tag:
        return False
    if isinstance(old, yaml.ScalarNode):
        return bool(old.value == new.value) and not change
    if not change:
        if memo is not None:
            if (id(old), id(new)) in memo:
                return True
            memo.add((id(old), id(new)))
        return _unchanged(old, new, memo)
    if isinstance(old, yaml.SequenceNode):
        return len(old.value) == len(new.value) and all(
            same(one, other, change.get(index), memo)
            for index, (one, other) in enumerate(zip(old.value, new.value, strict=True))
        )
    return _same_mapping(old, new, change, memo)


def _unchanged(old: Node, new: Node, memo: Memo) -> bool:
    if len(old.value) != len(new.value):
        return False
    if isinstance(old, yaml.SequenceNode):
        return all(same(one, other, None, memo) for one, other in zip(old.value, new.value, strict=True))
    for (key, value), (new_key, new_value) in zip(old.value, new.value, strict=True):
        # Keys are nearly always scalars; same() for the rest.
        if key.tag != new_key.tag or (key.value != new_key.value and not same(key, new_key, None, memo)):
            return False
        if isinstance(value, yaml.ScalarNode):
            if value.tag != new_value.tag or value.value != new_value.value:
                return False
        elif not same(value, new_value, None, memo):
            return False
    return True


def _same_mapping(old: Node, new: Node, change: Change, memo: Memo) -> bool:
    own = {key.value for key, _ in old.value if isinstance(key, yaml.ScalarNode)}
    added = {key: leaf for key, leaf in change.items() if key not in own}
    waiting = iter([pair for pair in old.value if not isinstance(change.get(_hashable(pair[0].value)), Drop)])
    for key, value in new.value:
        name = _hashable(key.value)
        if name in added:
            if not holds(value, _values(added.pop(name))):
                return False
            continue
        before = next(waiting, None)
        if before is None:
            return False
        leaf = change.get(_hashable(before[0].value))
        if isinstance(leaf, Named):
            kept = leaf.value is None and same(before[1], value, None, memo)
            if name != leaf.name or not (kept or (leaf.value is not None and holds(value, leaf.value))):
                return False
        elif before[0].tag != key.tag or (before[0].value != key.value and not same(before[0], key, None, memo)):
            return False
        elif leaf is None and isinstance(value, yaml.ScalarNode):
            if value.value != before[1].value or value.tag != before[1].tag:
                return False
        elif isinstance(leaf, Put):
            if not holds(value, leaf.value):
                return False
        elif not same(before[1], value, leaf, memo):
            return False
    return next(waiting, None) is None and not added


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _values(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, Put) else {key: _values(child) for key, child in leaf.items()}


def holds(node: Node | None, value: Any) -> bool:
    """Whether a node is exactly this value."""
    if isinstance(value, dict):
        if not isinstance(node, yaml.MappingNode) or len(node.value) != len(value):
            return False
        own = pairs(node)
        return all(key in own and holds(own[key][1], child) for key, child in value.items())
    tag = INT if isinstance(value, int) else STR
    return isinstance(node, yaml.ScalarNode) and node.tag == tag and node.value == str(value)
