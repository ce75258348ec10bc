"""Changing YAML text at the marks of its nodes, and proving the result. Every other byte stays as
it is.

The operations are a closed set, each with its limits; what cannot be done safely raises `Refused`:

    set      put a value at a path: text, a number, a boolean, a list or a mapping;
             missing mappings are made
    append   put an item at the end of a list, unless it has that item;
             a missing or empty list is made
    remove   take a key with its value out of a block mapping that keeps another key
    rename   give a key another name
    replace  change a word inside a scalar (or key), without touching its quotes or folding
    prepend  put a line of its own before the text of a scalar

`finish` applies them, reads the new text again and compares: the data must be the old data with
exactly the asked changes, else `Refused`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import yaml

from arc_toolkit.edit.files.edits import Edit, Refused, Unreadable, apply_edits
from arc_toolkit.edit.yaml.layout import Lines, YamlLayout
from arc_toolkit.edit.yaml.nodes import (
    MERGE,
    KeyPath,
    YamlNode,
    YamlText,
    children,
    compose,
    get,
    is_null,
    pairs,
    walk,
)
from arc_toolkit.edit.yaml.proof import (
    APPENDED,
    Change,
    Drop,
    Named,
    Put,
    Value,
    has_value,
    is_same_but_for,
)
from arc_toolkit.edit.yaml.writer import YamlStyle

_NO_PREFERENCE = YamlStyle()


class Descent(NamedTuple):
    """How far a path goes in the file."""

    depth: int
    node: YamlNode | None
    # None for an item of a list, and for a document.
    key: YamlNode | None
    # Whether the node is inside a flow collection.
    in_flow: bool


class YamlEditor:
    """Collects operations on one file; `finish` makes and proves them."""

    def __init__(self, source: YamlText, style: YamlStyle = _NO_PREFERENCE) -> None:
        self._source = source
        self._text = source.text
        self._layout = YamlLayout(source, style)
        self._changes: Change = {}
        # How many changes were collected: a group of operations that is refused at once made none.
        self.change_count = 0
        # By identity of node, so that an alias and its anchor are one place.
        self._replaced: dict[int, tuple[Edit, Value]] = {}
        self._added: dict[int, tuple[yaml.MappingNode, YamlNode | None, dict[str, Any]]] = {}
        self._filled: dict[int, tuple[YamlNode | None, YamlNode, Any]] = {}
        self._appended: dict[int, tuple[yaml.SequenceNode, YamlNode | None, list[Any]]] = {}
        self._removed: dict[int, Edit] = {}
        self._indexes: dict[int, dict[str, list[tuple[YamlNode, YamlNode]]]] = {}

    @property
    def empty(self) -> bool:
        return not self._changes

    def _change(self, path: Sequence[Any], leaf: Any) -> None:
        self.change_count += 1
        _plant(self._changes, path, leaf)

    # --- operations -----------------------------------------------------------------------------

    def set(self, path: KeyPath, value: Value) -> None:
        """Put `value` at `path`.

        An equal value is not a change; a list or mapping is not replaced.
        """
        if isinstance(value, (dict, list)):
            value = deepcopy(value)  # `append` may add to it
        depth, node, key, in_flow = self._descend(path)
        rest = path[depth:]
        is_collection = isinstance(value, (dict, list))
        if any(isinstance(step, int) for step in rest):
            raise Refused(f"there is no `{_dotted(path)}`")
        if node is not None and is_null(node) and (rest or is_collection):
            self._fill(path, rest, key, node, value)
        elif not rest:
            if has_value(node, value):
                return
            if is_collection:
                raise Refused(f"`{_dotted(path)}` already exists")
            if not isinstance(node, yaml.ScalarNode):
                raise Refused(f"`{_dotted(path)}` is not a single value")
            self._replace_scalar(node, value, self._layout.scalar(node, value, flow=in_flow))
            self._change(path, Put(value))
        elif isinstance(node, yaml.MappingNode):
            merged = get(node, str(rest[0]))
            if isinstance(merged, yaml.CollectionNode) and (len(rest) > 1 or is_collection):
                raise Refused(
                    f"`{rest[0]}` comes from a merge key (<<): a key of its own would hide it"
                )
            self._change(path, Put(value))
            _plant(self._added.setdefault(id(node), (node, key, {}))[2], rest, value)
        else:
            raise Refused(f"`{_dotted(path[:depth])}` is not a mapping")

    def append(self, path: KeyPath, item: Value) -> None:
        """Put `item` at the end of the list at `path`, unless it has that item.

        The list may be one that was set.
        """
        descent = self._descend(path)
        node = descent.node
        if descent.depth == len(path) and isinstance(node, yaml.SequenceNode):
            if any(has_value(child, item) for child in node.value):
                return
            items = self._planned((*path, APPENDED))
            if items is None:
                if id(node) in self._appended:
                    raise Refused(f"`{_dotted(path)}` is one list with another, by an anchor")
                items = []
                self._change((*path, APPENDED), items)
                self._appended[id(node)] = (node, descent.key, items)
        else:
            if self._planned(path) is None:
                self.set(path, [])
            items = self._planned(path)
        if not isinstance(items, list):
            raise Refused(f"two changes want `{_dotted(path)}`")
        if not any(repr(old) == repr(item) for old in items):  # repr: True is 1 to Python
            self.change_count += 1
            items.append(item)

    def remove(self, path: KeyPath) -> None:
        """Take out a key and its value: whole lines of a block mapping that keeps another key."""
        mapping, key, child = self._pair(path)
        others = [other for other, _ in mapping.value if id(other) not in self._removed]
        if mapping.flow_style or len(others) < 2:
            raise Refused(f"`{_dotted(path)}` cannot be taken out of its mapping line by line")
        edit = self._layout.removal(key, child)
        self._change(path, Drop())
        self._removed[id(key)] = edit

    def rename(self, path: KeyPath, name: str, value: str | None = None) -> None:
        """Give a key another name, and its value another text where asked; quotes stay."""
        mapping, key, child = self._pair(path)
        siblings = (self._planned(path[:-1]) or {}).values()
        if name in pairs(mapping) or any(
            isinstance(leaf, Named) and leaf.name == name for leaf in siblings
        ):
            raise Refused(f"`{name}` already exists")
        edit = self._layout.word(key, str(path[-1]), name)
        if value is not None:
            if not isinstance(child, yaml.ScalarNode):
                raise Refused(f"`{_dotted(path)}` is not a single value")
            # What a block scalar becomes is a name, on one line.
            text = self._layout.scalar(child, value, flow=False, block=False)
            self._replace_scalar(child, value, text)
        self._change(path, Named(name, value))
        self._replaced[id(key)] = (edit, name)

    def replace(self, path: KeyPath, old: str, new: str) -> None:
        """Change every `old` inside a scalar to `new`.

        Both are plain words, so that no quoting is needed.
        """
        node = self._scalar(path)[0]
        edit = self._layout.word(node, old, new)
        self._change(path, Put(node.value.replace(old, new)))
        self._replaced[id(node)] = (edit, new)

    def prepend(self, path: KeyPath, line: str) -> None:
        """Put a line of its own before the text of a scalar.

        Text on one line becomes a block scalar.
        """
        node, descent = self._scalar(path)
        edit = self._layout.line_before(None if descent.in_flow else descent.key, node, line)
        self._change(path, Put(f"{line}\n{node.value}"))
        self._replaced[id(node)] = (edit, "")

    # --- the result -----------------------------------------------------------------------------

    def edits(self) -> tuple[Edit, ...]:
        """The edits of all operations so far, not proved yet."""
        spans: list[Edit | Lines] = [edit for edit, _ in self._replaced.values()]
        spans += self._removed.values()
        for sequence, key, items in self._appended.values():
            spans += self._layout.appending(sequence, key, items)
        for node, key, tree in self._added.values():
            spans += self._layout.insertion(node, key, tree, self._removed)
        spans += [self._layout.filling(*filled) for filled in self._filled.values()]
        # Lines that go to the same place: those of an inner collection come first, items before the
        # next key.
        lines = sorted(
            (span for span in spans if isinstance(span, Lines)), key=lambda span: -span.column
        )
        edits = [span for span in spans if isinstance(span, Edit)] + [span.edit for span in lines]
        return tuple(edits if self._text.endswith("\n") else self._without_last_newline(edits))

    def _without_last_newline(self, edits: list[Edit]) -> list[Edit]:
        """A file without a final newline gets none where its last lines are removed.

        `a: 1`, `b: 2` without `b` is `a: 1`: the newline before `b` goes too, or behind the lines
        that take its place.
        """
        end = start = len(self._text)
        for edit in sorted(self._removed.values(), key=lambda edit: -edit.start):
            start = edit.start if edit.end == start else start
        if start == end:
            return edits
        newline = "\r\n" if self._text.endswith("\r\n", 0, start) else "\n"
        tail = newline + "".join(edit.text for edit in edits if edit.start >= start)
        last = Edit(start - len(newline), end, tail.removesuffix(newline))
        return [*(edit for edit in edits if edit.start < start), last]

    def finish(self) -> tuple[str, tuple[YamlNode | None, ...]]:
        """The new text and its documents, proved; `Refused` otherwise."""
        if "\r" in self._text and "\r" in self._text.replace("\r\n", ""):
            raise Refused("its lines end with bare carriage returns")
        before = self._source.documents
        try:
            text = apply_edits(self._text, self.edits())
            documents = compose(text)
        except (Refused, Unreadable) as error:
            raise Refused(f"the edit would not be valid YAML ({error.reason})") from None
        # Only aliases make a node be seen twice.
        compared: set[tuple[int, int]] | None = set() if "*" in self._text else None
        is_as_asked = len(before) == len(documents) and all(
            is_same_but_for(self._changes.get(index), old, new, compared)
            for index, (old, new) in enumerate(zip(before, documents, strict=True))
        )
        if not is_as_asked:
            cause = ", probably because an anchor or a merge key shares it"
            hint = cause if _has_alias(before) else ""
            raise Refused(f"the edit would change something that was not asked for{hint}")
        return text, documents

    # --- finding nodes --------------------------------------------------------------------------

    def _descend(self, path: KeyPath) -> Descent:
        """As far down a path as there are nodes."""
        documents, number = self._source.documents, int(path[0])
        node = documents[number] if number < len(documents) else None
        key: YamlNode | None = None
        in_flow = False
        for depth, step in enumerate(path[1:], 1):
            below: tuple[YamlNode | None, YamlNode] | None = None
            if isinstance(node, yaml.MappingNode):
                below = self._own_pair(node, str(step))
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                below = (None, node.value[step]) if step < len(node.value) else None
            if below is None or not isinstance(node, yaml.CollectionNode):
                return Descent(depth, node, key, in_flow)
            in_flow = in_flow or bool(node.flow_style)
            key, node = below
        return Descent(len(path), node, key, in_flow)

    def _own_pair(self, node: yaml.MappingNode, name: str) -> tuple[YamlNode, YamlNode] | None:
        """A key that the mapping has itself, not by a merge key, and its value."""
        # There are as many operations on a pipeline as it has keys.
        if id(node) not in self._indexes:
            index = self._indexes[id(node)] = defaultdict(list)
            for pair in node.value:
                if isinstance(pair[0], yaml.ScalarNode):
                    index[pair[0].value].append(pair)
        named = self._indexes[id(node)].get(name, [])
        if not named or named[0][0].tag == MERGE:
            return None
        if len(named) > 1:
            raise Refused(f"duplicate key `{name}` (line {named[1][0].start_mark.line + 1})")
        return named[0]

    def _pair(self, path: KeyPath) -> tuple[yaml.MappingNode, YamlNode, YamlNode]:
        depth, mapping, _, _ = self._descend(path[:-1])
        if depth == len(path) - 1 and isinstance(mapping, yaml.MappingNode):
            pair = self._own_pair(mapping, str(path[-1]))
            if pair is not None:
                return mapping, *pair
        raise Refused(f"there is no `{_dotted(path)}` of its own")

    def _scalar(self, path: KeyPath) -> tuple[yaml.ScalarNode, Descent]:
        descent = self._descend(path)
        if descent.depth < len(path):
            raise Refused(f"there is no `{_dotted(path)}` of its own")
        if not isinstance(descent.node, yaml.ScalarNode):
            raise Refused(f"`{_dotted(path)}` is not a single value")
        return descent.node, descent

    # --- collecting -----------------------------------------------------------------------------

    def _replace_scalar(self, node: yaml.ScalarNode, value: Value, edit: Edit) -> None:
        old = self._replaced.get(id(node))
        if old is not None and old[1] != value:
            raise Refused("two different values are asked for where an anchor makes them one")
        self._replaced[id(node)] = (edit, value)

    def _planned(self, path: Sequence[Any]) -> Any:
        """The new value at a path, or inside one that was set; None if there is none."""
        tree: Any = self._changes
        for step in path:
            tree = tree.value if isinstance(tree, Put) else tree
            tree = tree.get(step) if isinstance(tree, dict) else None
        return tree.value if isinstance(tree, Put) else tree

    def _fill(
        self, path: KeyPath, rest: KeyPath, key: YamlNode | None, node: YamlNode, value: Value
    ) -> None:
        """A null becomes a collection: `value` itself, or a mapping with it at `rest`."""
        tree = self._filled[id(node)][2] if id(node) in self._filled else {}
        if id(node) in self._filled and not (rest and isinstance(tree, dict)):
            raise Refused(f"two changes want `{_dotted(path)}`")
        self._change(path, Put(value))
        if rest:
            _plant(tree, rest, value)
        self._filled[id(node)] = (key, node, tree if rest else value)


def _has_alias(documents: tuple[YamlNode | None, ...]) -> bool:
    """Whether a node is in two places."""
    nodes = list(walk(documents))
    roots = len(documents) - documents.count(None)
    return sum(1 for node in nodes for _ in children(node)) + roots > len(nodes)


def _plant(tree: dict[Any, Any], path: Sequence[Any], leaf: Any) -> None:
    """Put a leaf into a tree of mappings, unless another one is in its place."""
    *steps, last = path
    for step in steps:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            raise Refused(f"two changes want `{step}`")
    if last in tree and tree[last] != leaf:
        raise Refused(f"two changes want `{last}`")
    tree[last] = leaf


def _dotted(path: KeyPath) -> str:
    return ".".join(str(step) for step in path[1:])
