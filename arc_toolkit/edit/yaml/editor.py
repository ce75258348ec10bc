"""Changing YAML text at the marks of its nodes, and proving the result. Every other byte stays as it is.

The operations are a closed set, each with its limits; what cannot be done safely raises `Refused`:

    set      put a value at a path: text, a number, a boolean, a list or a mapping; missing mappings are made
    append   put an item at the end of a list, unless it has that item; a missing or empty list is made
    remove   take a key with its value out of a block mapping that keeps another key
    rename   give a key another name
    replace  change a word inside a scalar (or key), without touching its quotes or folding
    prepend  put a line of its own before the text of a scalar

`finish` applies them, reads the new text again and compares: the data must be the old data with exactly the asked
changes, else `Refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Any, Self

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
from arc_toolkit.edit.yaml.proof import APPENDED, Change, Drop, Named, Put, Value, holds, same
from arc_toolkit.edit.yaml.writer import YamlStyle

# How far a path goes in the file, the node there, its key (None for an item), and whether it is in a flow collection.
Place = tuple[int, YamlNode | None, YamlNode | None, bool]
_NO_PREFERENCE = YamlStyle()
# Up to so many keys are looked through; more are looked up.
_FEW = 30


class YamlEditor:
    """Collects operations on one file; `finish` makes and proves them."""

    def __init__(self, source: YamlText, style: YamlStyle = _NO_PREFERENCE) -> None:
        self._source = source
        self._text = source.text
        self._layout = YamlLayout(source, style)
        self._changes: Change = {}
        # By identity of node, so that an alias and its anchor are one place.
        self._replaced: dict[int, tuple[Edit, Value]] = {}
        self._added: dict[int, tuple[yaml.MappingNode, YamlNode | None, dict[str, Any]]] = {}
        self._filled: dict[int, tuple[YamlNode | None, YamlNode, Any]] = {}
        self._appended: dict[int, tuple[yaml.SequenceNode, YamlNode | None, list[Any]]] = {}
        self._removed: dict[int, Edit] = {}
        self._own_pairs: dict[int, dict[str, tuple[YamlNode, YamlNode]]] = {}
        self._last: tuple[KeyPath, Place] = ((-1,), (0, None, None, False))

    @property
    def empty(self) -> bool:
        return not self._changes

    def fresh(self) -> YamlEditor:
        """An editor of the same text without any operation; what is known about the text is shared."""
        editor = copy(self)
        editor._changes, editor._replaced, editor._added, editor._filled = {}, {}, {}, {}
        editor._appended, editor._removed = {}, {}
        return editor

    def apply(self, operation: Callable[[YamlEditor], object]) -> Self:
        """One or more operations given as a function; `YamlEditor(source).apply(fix).edits()`."""
        operation(self)
        return self

    # --- operations ----------------------------------------------------------------------------------------

    def set(self, path: KeyPath, value: Value) -> None:
        """Put `value` at `path`. A value that is there and equal is not a change; a list or mapping is not replaced."""
        if _is_collection(value):
            value = deepcopy(value) if value else copy(value)  # `append` may add to it
        self._set(path, value, self._descend(path))

    def _set(self, path: KeyPath, value: Value, place: Place) -> None:
        depth, node, key, flow = place
        rest = path[depth:]
        if any(isinstance(step, int) for step in rest):
            raise Refused(f"there is no `{_shown(path)}`")
        if not rest:
            assert node is not None
            if holds(node, value):
                return
            if _is_collection(value):
                if not is_null(node):
                    raise Refused(f"`{_shown(path)}` already exists")
                self._fill(path, rest, key, node, value)
            elif isinstance(node, yaml.ScalarNode):
                self._replace_scalar(node, value, flow)
                _plant(self._changes, path, Put(value))
            else:
                raise Refused(f"`{_shown(path)}` is not a single value")
        elif isinstance(node, yaml.MappingNode):
            if isinstance(get(node, str(rest[0])), yaml.CollectionNode) and (
                len(rest) > 1 or _is_collection(value)
            ):
                raise Refused(
                    f"`{rest[0]}` comes from a merge key (<<): a key of its own would hide it"
                )
            _plant(self._changes, path, Put(value))
            _plant(self._added.setdefault(id(node), (node, key, {}))[2], rest, value)
        elif node is not None and is_null(node):
            self._fill(path, rest, key, node, value)
        else:
            raise Refused(f"`{_shown(path[:depth])}` is not a mapping")

    def append(self, path: KeyPath, item: Value) -> None:
        """Put `item` at the end of the list at `path`, unless an item is the same; the list may be one that was set."""
        place = depth, node, key, _ = self._descend(path)
        sequence = node if depth == len(path) and isinstance(node, yaml.SequenceNode) else None
        if sequence is not None and any(holds(child, item) for child in sequence.value):
            return
        if sequence is None:
            items = self._planned(path)
            if items is None:
                items = []
                self._set(path, items, place)
        else:
            items = self._planned((*path, APPENDED))
            if items is None:
                if id(sequence) in self._appended:
                    raise Refused(f"`{_shown(path)}` is one list with another, by an anchor")
                items = []
                _plant(self._changes, (*path, APPENDED), items)
                self._appended[id(sequence)] = (sequence, key, items)
        if not isinstance(items, list):
            raise Refused(f"two changes want `{_shown(path)}`")
        if not any(repr(old) == repr(item) for old in items):  # repr: True is 1 to Python
            items.append(item)

    def lines(self, path: KeyPath, *, comments: bool = False) -> str:
        """The lines of a key and its value, without their indent; with the comments right above them if asked."""
        _, key, child = self._pair(path)
        edit, column = self._layout.removal(key, child, comments=comments), key.start_mark.column
        lines = self._text[edit.start : edit.end].splitlines()
        return "".join(
            f"{line[column:] if not line[:column].strip() else line}\n" for line in lines
        )

    def remove(self, path: KeyPath, *, comments: bool = False) -> None:
        """Take out a key and its value: whole lines of a block mapping that has another key; with the comments right
        above them if asked."""
        mapping, key, child = self._pair(path)
        if (
            mapping.flow_style
            or len(mapping.value) - sum(id(k) in self._removed for k, _ in mapping.value) < 2
        ):
            raise Refused(f"`{_shown(path)}` cannot be taken out of its mapping line by line")
        edit = self._layout.removal(key, child, comments=comments)
        _plant(self._changes, path, Drop())
        self._removed[id(key)] = edit

    def rename(self, path: KeyPath, name: str, value: str | None = None) -> None:
        """Give a key another name, and its value another text where asked; quotes stay."""
        mapping, key, child = self._pair(path)
        if name in pairs(mapping):
            raise Refused(f"`{name}` already exists")
        edit = self._layout.word(key, str(path[-1]), name)
        if value is not None:
            if not isinstance(child, yaml.ScalarNode):
                raise Refused(f"`{_shown(path)}` is not a single value")
            self._replace_scalar(child, value, block=False)
        _plant(self._changes, path, Named(name, value))
        self._replaced[id(key)] = (edit, name)

    def replace(self, path: KeyPath, old: str, new: str) -> None:
        """Change every `old` inside a scalar to `new`; both are plain words, so that no quoting is needed."""
        node = self._scalar(path)
        edit = self._layout.word(node, old, new)
        _plant(self._changes, path, Put(node.value.replace(old, new)))
        self._replaced[id(node)] = (edit, new)

    def prepend(self, path: KeyPath, line: str) -> None:
        """Put a line of its own before the text of a scalar; text on one line becomes a block scalar."""
        node = self._scalar(path)
        _, _, key, flow = self._descend(path)
        edit = self._layout.line_before(None if flow else key, node, line)
        _plant(self._changes, path, Put(f"{line}\n{node.value}"))
        self._replaced[id(node)] = (edit, "")

    # --- the result ----------------------------------------------------------------------------------------

    def edits(self) -> tuple[Edit, ...]:
        """The edits of all operations so far, not proved yet."""
        spans: list[Edit | Lines] = [edit for edit, _ in self._replaced.values()]
        spans += self._removed.values()
        for sequence, key, items in self._appended.values():
            spans += self._layout.appending(sequence, key, items)
        for node, key, tree in self._added.values():
            spans += self._layout.insertion(node, key, tree, self._removed)
        spans += [
            self._layout.filling(key, child, value) for key, child, value in self._filled.values()
        ]
        # Lines that go to the same place: those of an inner collection come first, items before the next key.
        lines = sorted(
            (span for span in spans if isinstance(span, Lines)), key=lambda span: -span.column
        )
        edits = [span for span in spans if isinstance(span, Edit)] + [span.edit for span in lines]
        return tuple(
            self._without_newline(edits)
            if self._removed and not self._text.endswith("\n")
            else edits
        )

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
        if not self._is_as_asked(documents):
            hint = (
                ", probably because an anchor or a merge key shares it"
                if _has_alias(before)
                else ""
            )
            raise Refused(f"the edit would change something that was not asked for{hint}")
        return text, documents

    def _is_as_asked(self, documents: tuple[YamlNode | None, ...]) -> bool:
        """Whether they are the old documents with exactly the asked changes."""
        before = self._source.documents
        # Only aliases make a node be seen twice.
        memo: set[tuple[int, int]] | None = set() if "*" in self._text else None
        return len(before) == len(documents) and all(
            same(old, new, self._changes.get(index), memo)
            for index, (old, new) in enumerate(zip(before, documents, strict=True))
        )

    def _without_newline(self, edits: list[Edit]) -> list[Edit]:
        """A file without a final newline has none either when its last lines are removed."""
        start = len(self._text)
        for edit in sorted(self._removed.values(), key=lambda edit: -edit.start):
            start = edit.start if edit.end == start else start
        if start == len(self._text):
            return edits
        newline = "\r\n" if self._text.endswith("\r\n", 0, start) else "\n"
        for index in reversed(range(len(edits))):
            edit = edits[index]
            if edit.start == edit.end == start:  # new lines in place of the last ones
                edits[index] = Edit(start, start, edit.text.removesuffix(newline))
                return edits
        return [
            Edit(start - len(newline), edit.end, "") if edit.start == start else edit
            for edit in edits
        ]

    # --- finding nodes -------------------------------------------------------------------------------------

    def _descend(self, path: KeyPath) -> Place:
        """As far down a path as there are nodes."""
        # Operations come in groups: most often one begins where the one before it ended.
        last, place = self._last
        if path[: len(last)] == last:
            start, node, key, flow = place
        else:
            documents, first = self._source.documents, int(path[0])
            start, node, key, flow = (
                1,
                documents[first] if first < len(documents) else None,
                None,
                False,
            )
        for depth in range(start, len(path)):
            step = path[depth]
            below: tuple[YamlNode | None, YamlNode] | None = None
            if isinstance(node, yaml.MappingNode):
                below = self._own(node, str(step))
            elif (
                isinstance(node, yaml.SequenceNode)
                and isinstance(step, int)
                and step < len(node.value)
            ):
                below = None, node.value[step]
            if below is None or not isinstance(node, yaml.CollectionNode):
                self._last = path[:depth], (depth, node, key, flow)
                return self._last[1]
            flow = flow or bool(node.flow_style)
            key, node = below
        return len(path), node, key, flow

    def _own(self, node: yaml.MappingNode, name: str) -> tuple[YamlNode, YamlNode] | None:
        named: list[tuple[YamlNode, YamlNode]]
        if len(node.value) <= _FEW:
            named = [pair for pair in node.value if pair[0].value == name]
        else:
            if id(node) not in self._own_pairs:
                self._own_pairs[id(node)] = pairs(node)
            own = self._own_pairs[id(node)]
            named = [own[name]] if name in own else []
            if named and len(own) < len(node.value):
                named = [pair for pair in node.value if pair[0].value == name]
        if not named or named[0][0].tag == MERGE:
            return None
        if len(named) > 1:
            raise Refused(f"duplicate key `{name}` (line {named[1][0].start_mark.line + 1})")
        return named[0]

    def _pair(self, path: KeyPath) -> tuple[yaml.MappingNode, YamlNode, YamlNode]:
        depth, mapping, _, _ = self._descend(path[:-1])
        if depth == len(path) - 1 and isinstance(mapping, yaml.MappingNode):
            own = self._own(mapping, str(path[-1]))
            if own is not None:
                return mapping, *own
        raise Refused(f"there is no `{_shown(path)}` of its own")

    def _scalar(self, path: KeyPath) -> yaml.ScalarNode:
        depth, node, _, _ = self._descend(path)
        if depth < len(path):
            raise Refused(f"there is no `{_shown(path)}` of its own")
        if not isinstance(node, yaml.ScalarNode):
            raise Refused(f"`{_shown(path)}` is not a single value")
        return node

    # --- collecting ----------------------------------------------------------------------------------------

    def _replace_scalar(
        self, node: yaml.ScalarNode, value: Value, flow: bool = False, block: bool = True
    ) -> None:
        old = self._replaced.get(id(node))
        if old is not None and old[1] != value:
            raise Refused("two different values are asked for where an anchor makes them one")
        self._replaced[id(node)] = (self._layout.scalar(node, value, flow=flow, block=block), value)

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
        if not rest:
            if id(node) in self._filled:
                raise Refused(f"two changes want `{_shown(path)}`")
            _plant(self._changes, path, Put(value))
            self._filled[id(node)] = (key, node, value)
            return
        tree = self._filled.setdefault(id(node), (key, node, {}))[2]
        if not isinstance(tree, dict):
            raise Refused(f"two changes want `{_shown(path)}`")
        _plant(self._changes, path, Put(value))
        _plant(tree, rest, value)


def _has_alias(documents: tuple[YamlNode | None, ...]) -> bool:
    """Whether a node is in two places."""
    nodes = list(walk(documents))
    return sum(1 for node in nodes for _ in children(node)) + len(documents) > len(
        nodes
    ) + documents.count(None)


def _plant(tree: dict[Any, Any], path: Sequence[Any], leaf: Any) -> None:
    *steps, last = path
    for step in steps:
        below = tree.get(step)
        if below is None:
            below = tree[step] = {}
        elif not isinstance(below, dict):
            raise Refused(f"two changes want `{step}`")
        tree = below
    if last in tree and tree[last] != leaf:
        raise Refused(f"two changes want `{last}`")
    tree[last] = leaf


def _is_collection(value: Value) -> bool:
    return isinstance(value, dict) or isinstance(value, list)  # noqa: SIM101


def _shown(path: KeyPath) -> str:
    return ".".join(str(step) for step in path[1:])
