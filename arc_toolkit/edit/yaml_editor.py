"""Changing YAML text at the marks of its nodes, and proving the result. Every other byte stays as it is.

The operations are a closed set, each with its limits; what cannot be done safely raises `Refused`:

    set      put a string, a number or a mapping of these at a path; missing mappings are made
    remove   take a key with its value out of a block mapping that keeps another key
    rename   give a key another name
    replace  change a word inside a scalar (or key), without touching its quotes or folding
    prepend  put text before the first character of a scalar

`finish` applies them, reads the new text again and compares: the data must be the old data with exactly the asked
changes, else `Refused`. It knows nothing of AzureML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from arc_toolkit.edit.edits import Edit, Refused, Unreadable, apply_edits
from arc_toolkit.edit.yaml_nodes import MERGE, Node, YamlText, compose, get, is_null, pairs
from arc_toolkit.edit.yaml_proof import Change, Drop, Named, Put, Value, same
from arc_toolkit.edit.yaml_writer import block_lines, flow_text, scalar_text

Path = tuple[str | int, ...]

# A new key goes under one of these where it stands on one line; else after the last key of the mapping.
_NEIGHBOURS = {
    "resources": ("compute", "component", "trial", "environment", "code", "type"),
    "environment_variables": ("environment", "component", "trial", "compute", "code", "type"),
    "compute": ("component", "trial", "environment", "code", "type"),
    "component": ("type",),
    "settings": ("experiment_name", "display_name", "description", "type"),
    "inputs": ("description", "display_name", "version", "type", "experiment_name"),
}
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_ALIAS = re.compile(r"[ \t]*:[ \t]+\*[^\s,\[\]{}]+(?=\s|\Z)")
_BEFORE_KEY = re.compile(r"[ ]*(?:-[ ]+)*")


class Editor:
    """Collects operations on one file; `finish` makes and proves them."""

    def __init__(self, source: YamlText) -> None:
        self._source = source
        self._text = source.text
        self._changes: Change = {}
        # By identity of node, so that an alias and its anchor are one place.
        self._replaced: dict[int, tuple[Edit, Value]] = {}
        self._added: dict[int, tuple[yaml.MappingNode, dict[str, Any]]] = {}
        self._filled: dict[int, tuple[Node, Node, dict[str, Any]]] = {}
        self._removed: dict[int, Edit] = {}
        self._others = False
        self._indexes: dict[int, dict[str, list[tuple[Node, Node]]]] = {}

    @property
    def empty(self) -> bool:
        return not self._changes

    @property
    def only_sets(self) -> bool:
        """Whether `set` was the only operation."""
        return not self._others

    # --- operations ----------------------------------------------------------------------------------------

    def set(self, path: Path, value: Value) -> None:
        """Put `value` at `path` (document number first). A value that is there and equal is no change."""
        documents = self._source.documents
        node = documents[int(path[0])] if int(path[0]) < len(documents) else None
        flow = False
        for depth, step in enumerate(path[1:], start=1):
            rest = path[depth + 1 :]
            flow = flow or bool(isinstance(node, yaml.CollectionNode) and node.flow_style)
            if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                continue
            if not isinstance(node, yaml.MappingNode):
                raise Refused(f"`{_shown(path[:depth])}` is not a mapping")
            key, child = self._own(node, str(step))
            if child is None:
                if rest and isinstance(get(node, str(step)), yaml.MappingNode):
                    raise Refused(f"`{step}` comes from a merge key (<<): a key of its own would hide it")
                _, tree = self._added.setdefault(id(node), (node, {}))
                _plant(tree, (str(step), *map(str, rest)), value)
                break
            if rest and is_null(child):
                assert key is not None
                _, _, tree = self._filled.setdefault(id(child), (key, child, {}))
                _plant(tree, tuple(map(str, rest)), value)
                break
            node = child
        else:
            if isinstance(value, dict):
                raise Refused(f"`{_shown(path)}` is there already")
            if not isinstance(node, yaml.ScalarNode):
                raise Refused(f"`{_shown(path)}` is not a single value")
            if node.value == str(value):
                return
            self._replace_scalar(node, value, flow)
        _plant(self._changes, path, Put(value))

    def remove(self, path: Path) -> None:
        """Take out a key and its value: whole lines of a block mapping that has another key."""
        self._others = True
        mapping, key, child = self._pair(path)
        if mapping.flow_style or len(mapping.value) - sum(id(k) in self._removed for k, _ in mapping.value) < 2:
            raise Refused(f"`{_shown(path)}` cannot be taken out of its mapping line by line")
        start = self._line_start(key)
        if self._text[start : key.start_mark.index].strip():
            raise Refused(f"`{_shown(path)}` shares its line with something else")
        end = self._content_end(key, child)
        if end is None:
            raise Refused(f"the end of `{_shown(path)}` is not clear")
        line_end = self._text.find("\n", end)
        self._removed[id(key)] = Edit(start, len(self._text) if line_end < 0 else line_end + 1, "")
        _plant(self._changes, path, Drop())

    def rename(self, path: Path, name: str, value: str | None = None) -> None:
        """Give a key another name, and its value another text where asked; quotes stay."""
        self._others = True
        mapping, key, child = self._pair(path)
        if name in pairs(mapping):
            raise Refused(f"`{name}` is there already")
        self._replace_inside(key, str(path[-1]), name)
        if value is not None:
            if not isinstance(child, yaml.ScalarNode):
                raise Refused(f"`{_shown(path)}` is not a single value")
            self._replace_scalar(child, value)
        _plant(self._changes, path, Named(name, value))

    def replace(self, path: Path, old: str, new: str) -> None:
        """Change every `old` inside a scalar to `new`; both are plain words, so that no quoting is needed."""
        self._others = True
        node = self._scalar(path)
        self._replace_inside(node, old, new)
        _plant(self._changes, path, Put(node.value.replace(old, new)))

    def prepend(self, path: Path, text: str) -> None:
        """Put text without quotes, `#` or `: ` before a scalar's first character."""
        self._others = True
        node = self._scalar(path)
        start = self._first_character(node)
        self._replaced[id(node)] = (Edit(start, start, text), "")
        _plant(self._changes, path, Put(text + node.value))

    # --- the result ----------------------------------------------------------------------------------------

    def finish(self) -> tuple[str, tuple[Node | None, ...]]:
        """The new text and its documents, proved; `Refused` otherwise."""
        if "\r" in self._text and "\r" in self._text.replace("\r\n", ""):
            raise Refused("its lines end with bare carriage returns")
        try:
            text = self._new_text()
            documents = compose(text)
        except (Refused, Unreadable) as error:
            raise Refused(f"the edit would not be valid YAML ({error})") from None
        before = self._source.documents
        # Only aliases make a node be seen twice.
        memo: set[tuple[int, int]] | None = set() if "*" in self._text else None
        if len(before) != len(documents) or not all(
            same(old, new, self._changes.get(index), memo)
            for index, (old, new) in enumerate(zip(before, documents, strict=True))
        ):
            hint = ", probably because an anchor or a merge key shares it" if "*" in self._text else ""
            raise Refused(f"the edit would change something that was not asked for{hint}")
        return text, documents

    def edits(self) -> list[Edit]:
        """The operations as edits of the text, not proved."""
        edits = self._plain_edits()
        after = self._new_text()
        if apply_edits(self._text, edits) == after:
            return edits
        # The last line went, and the newline before it with it: one edit over all that differs.
        before, head = self._text, 0
        while before[head : head + 1] == after[head : head + 1] != "":
            head += 1
        tail = 0
        while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
            tail += 1
        return [Edit(head, len(before) - tail, after[head : len(after) - tail])]

    def _plain_edits(self) -> list[Edit]:
        edits = [edit for edit, _ in self._replaced.values()]
        edits += self._removed.values()
        edits += [self._insertion(node, tree) for node, tree in self._added.values()]
        edits += [self._filling(key, child, tree) for key, child, tree in self._filled.values()]
        return edits

    def _new_text(self) -> str:
        text = apply_edits(self._text, self._plain_edits())
        if self._removed and not self._text.endswith("\n"):  # the last line went: no final newline stays none
            text = text.removesuffix("\n").removesuffix("\r")
        return text

    # --- finding places ------------------------------------------------------------------------------------

    def _own(self, node: yaml.MappingNode, name: str) -> tuple[Node | None, Node | None]:
        index = self._indexes.get(id(node))
        if index is None:
            index = self._indexes[id(node)] = {}
            for pair in node.value:
                if isinstance(pair[0], yaml.ScalarNode) and pair[0].tag != MERGE:
                    index.setdefault(pair[0].value, []).append(pair)
        found = index.get(name)
        if not found:
            return None, None
        if len(found) > 1:
            raise Refused(f"the key `{name}` stands twice in one mapping (line {found[1][0].start_mark.line + 1})")
        return found[0]

    def _pair(self, path: Path) -> tuple[yaml.MappingNode, Node, Node]:
        mapping = self._source.documents[int(path[0])]
        for step in path[1:-1]:
            if isinstance(mapping, yaml.SequenceNode):
                mapping = mapping.value[int(step)]
            elif isinstance(mapping, yaml.MappingNode):
                mapping = self._own(mapping, str(step))[1]
        if isinstance(mapping, yaml.MappingNode):
            key, child = self._own(mapping, str(path[-1]))
            if key is not None and child is not None:
                return mapping, key, child
        raise Refused(f"there is no `{_shown(path)}` of its own")

    def _scalar(self, path: Path) -> yaml.ScalarNode:
        node: Node | None
        if isinstance(path[-1], int):
            node = get(self._source.documents[int(path[0])], *path[1:])
        else:
            node = self._pair(path)[2]
        if not isinstance(node, yaml.ScalarNode):
            raise Refused(f"`{_shown(path)}` is not a single value")
        return node

    def _line_start(self, node: Node) -> int:
        return self._text.rfind("\n", 0, node.start_mark.index) + 1

    def _content_end(self, key: Node, value: Node) -> int | None:
        """Where the last character of a key's value stands; None where it is not clear."""
        start = value.start_mark.index
        if start < key.end_mark.index:  # an alias: the node stands at its anchor
            alias = _ALIAS.match(self._text, key.end_mark.index)
            return alias.end() if alias else None
        if isinstance(value, yaml.ScalarNode):
            if value.style in ("|", ">"):
                return start + len(self._text[start : value.end_mark.index].rstrip())
            return value.end_mark.index
        if not isinstance(value, yaml.CollectionNode) or value.flow_style or not value.value:
            return value.end_mark.index
        if isinstance(value, yaml.MappingNode):
            return self._content_end(*value.value[-1])
        return self._content_end(key, value.value[-1])

    def _scalar_slice(self, node: yaml.ScalarNode) -> tuple[int, int]:
        """Where a scalar stands, without its anchor and tag and without the newlines after a block scalar."""
        start, end = node.start_mark.index, node.end_mark.index
        match = _PROPERTIES.match(self._text, start, end)
        start = match.end() if match else start
        if node.style in ("|", ">"):
            end = start + len(self._text[start:end].rstrip())
        return start, end

    def _first_character(self, node: yaml.ScalarNode) -> int:
        start, end = self._scalar_slice(node)
        if node.style in ("|", ">"):
            header = re.compile(r"[|>][-+0-9]*[ \t]*(?:#[^\n]*)?\r?\n(?:[ \t]*\r?\n)*[ ]*").match(
                self._text, start
            )
            if header is None or header.end() >= end:
                raise Refused("a block scalar without a first line")
            return header.end()
        return start + 1 if node.style else start

    # --- writing -------------------------------------------------------------------------------------------

    def _replace_scalar(self, node: yaml.ScalarNode, value: Value, flow: bool = False) -> None:
        start, end = self._scalar_slice(node)
        if start == end:  # an empty value: `key:` with nothing behind it
            text = " " + scalar_text(value, flow=flow)
        elif isinstance(value, str) and node.style == "'" and value.isprintable():
            text = "'" + value.replace("'", "''") + "'"
        else:
            text = scalar_text(value, flow=flow, quote=node.style == '"')
        old = self._replaced.get(id(node))
        if old is not None and old[1] != value:
            raise Refused("two different values are wanted where an anchor makes them one")
        self._replaced[id(node)] = (Edit(start, end, text), value)

    def _replace_inside(self, node: Node, old: str, new: str) -> None:
        start, end = node.start_mark.index, node.end_mark.index
        piece = self._text[start:end]
        if old not in piece:
            raise Refused(f"`{old}` is folded or escaped in the text")
        self._replaced[id(node)] = (Edit(start, end, piece.replace(old, new)), new)

    def _insertion(self, node: yaml.MappingNode, tree: dict[str, Any]) -> Edit:
        if node.flow_style:
            return self._flow_insertion(node, tree)
        key, end = self._neighbour(node, next(iter(tree)))
        column = key.start_mark.column
        return self._lines_after(end, column, tree)

    def _neighbour(self, node: yaml.MappingNode, new: str) -> tuple[Node, int]:
        """The key after whose value new lines go, and where that value ends."""
        preferred = _NEIGHBOURS.get(new, ())
        own = pairs(node) if preferred else {}
        for name in preferred:
            if name in own and (found := self._usable(*own[name])) is not None and found[1]:
                return own[name][0], found[0]
        # Inputs, variables and resources grow at their end; a job or step rather next to its short lines.
        last: tuple[Node, int] | None = None
        for key, value in reversed(node.value):
            if (found := self._usable(key, value)) is not None:
                if found[1] or not preferred:
                    return key, found[0]
                last = last or (key, found[0])
        if last is None:
            raise Refused(f"there is no line after which `{new}` could stand")
        return last

    def _usable(self, key: Node, value: Node) -> tuple[int, bool] | None:
        """Where a value ends and whether it is a scalar on one line; None where no line can be put after it."""
        end = self._content_end(key, value)
        if end is None or id(key) in self._removed:
            return None
        if not _BEFORE_KEY.fullmatch(self._text, self._line_start(key), key.start_mark.index):
            return None
        if not isinstance(value, yaml.ScalarNode):
            return end, False
        if value.style in ("|", ">"):
            header = self._text[value.start_mark.index : end].split("\n", 1)[0]
            if "+" in header.partition("#")[0] or self._text.find("\n", end) < 0:
                return None  # blank lines behind it, or the missing newline, are part of its value
        return end, "\n" not in self._text[key.start_mark.index : end]

    def _lines_after(self, end: int, column: int, tree: dict[str, Any]) -> Edit:
        newline = "\r\n" if "\r\n" in self._text else "\n"
        body = newline.join(block_lines(tree, column, self._indent())) + newline
        line_end = self._text.find("\n", end)
        if line_end < 0:
            return Edit(len(self._text), len(self._text), newline + body.removesuffix(newline))
        return Edit(line_end + 1, line_end + 1, body)

    def _filling(self, key: Node, child: Node, tree: dict[str, Any]) -> Edit:
        """A null value becomes a mapping: lines below an empty one, `{...}` in place of a written one."""
        if child.start_mark.index == child.end_mark.index:
            before = self._text[self._line_start(key) : key.start_mark.index]
            if _BEFORE_KEY.fullmatch(before):
                return self._lines_after(child.end_mark.index, key.start_mark.column + self._indent(), tree)
            raise Refused(f"`{key.value}` is empty inside of a flow mapping")
        return Edit(child.start_mark.index, child.end_mark.index, flow_text(tree))

    def _flow_insertion(self, node: yaml.MappingNode, tree: dict[str, Any]) -> Edit:
        start = node.start_mark.index
        match = _PROPERTIES.match(self._text, start)
        start = match.end() if match else start
        if self._text[start : start + 1] != "{":
            raise Refused("a mapping without braces inside of a list")
        if not node.value:
            return Edit(start + 1, start + 1, flow_text(tree)[1:-1])
        first = node.value[0][0]
        inside = flow_text(tree, quote=first.style == '"')[1:-1]
        return Edit(first.start_mark.index, first.start_mark.index, inside + ", ")

    def _indent(self) -> int:
        """The blanks by which this file indents a mapping in a mapping."""
        for root in self._source.documents:
            if isinstance(root, yaml.MappingNode) and not root.flow_style:
                for key, value in root.value:
                    if isinstance(value, yaml.MappingNode) and not value.flow_style and value.value:
                        step = value.start_mark.column - key.start_mark.column
                        if value.start_mark.line > key.start_mark.line and 1 <= step <= 8:
                            return int(step)
        return 2


def _plant(tree: dict[Any, Any], path: Sequence[Any], leaf: Any) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            raise Refused(f"two changes want `{step}`")
    if tree.get(path[-1], leaf) != leaf:
        raise Refused(f"two changes want `{path[-1]}`")
    tree[path[-1]] = leaf


def _shown(path: Path) -> str:
    return ".".join(str(step) for step in path[1:])
