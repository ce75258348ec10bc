"""Comparing two readings of a file: the second must mean what the first does, with exactly the
asked change made.

Nodes are compared, not Python data: `"2"` and `2` differ, and no alias is expanded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from arc_toolkit.edit.yaml.nodes import BOOL, FLOAT, INT, NULL, STR, YamlNode, is_null, pairs
from arc_toolkit.edit.yaml.writer import number

Value = str | int | float | bool | None | list[Any] | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Put:
    """The value here is exactly this."""

    value: Value


@dataclass(frozen=True, slots=True)
class Drop:
    """The key here is gone."""


@dataclass(frozen=True, slots=True)
class Named:
    """The key here has a new name, and the same value unless another one is given."""

    name: str
    value: str | None = None


# The asked changes, as a tree beside the document: key or index -> Change, Put, Drop or Named.
Change = dict[Any, Any]
# As a key of a change of a list: the items after its last one.
APPENDED = object()
# Pairs of nodes that were compared before; None where no alias makes a node come twice.
ComparedPairs = set[tuple[int, int]] | None

_UNCHANGED: Mapping[Any, Any] = {}


def is_same_but_for(
    change: Change | Put | None, old: YamlNode | None, new: YamlNode | None, compared: ComparedPairs
) -> bool:
    """Whether `new` means what `old` means, with exactly the asked change made.

    For `{a: 1, b: [x]}` the change `{"b": {APPENDED: ["y"]}, "c": Put(2)}` wants `{a: 1, b: [x, y],
    c: 2}`, where `c` may be anywhere among the keys, and the others are in their old order.
    """
    if old is None or new is None:
        return old is new
    if isinstance(change, Put):
        return has_value(new, change.value)
    if change and is_null(old):
        return has_value(new, _plain_data(change))
    if old.tag != new.tag:
        return False
    if isinstance(old, ScalarNode):
        return bool(old.value == new.value) and not change
    if not change and compared is not None:
        if (id(old), id(new)) in compared:
            return True
        compared.add((id(old), id(new)))
    compare = _are_same_keys if isinstance(old, MappingNode) else _are_same_items
    return compare(change or _UNCHANGED, old, new, compared)


def _are_same_items(
    change: Mapping[Any, Any], old: YamlNode, new: YamlNode, compared: ComparedPairs
) -> bool:
    size, added = len(old.value), change.get(APPENDED, [])
    if len(new.value) != size + len(added):
        return False
    return all(
        is_same_but_for(change.get(index), item, new_item, compared)
        for index, (item, new_item) in enumerate(zip(old.value, new.value, strict=False))
    ) and all(map(has_value, new.value[size:], added))


def _are_same_keys(
    change: Mapping[Any, Any], old: YamlNode, new: YamlNode, compared: ComparedPairs
) -> bool:
    old_pairs, new_pairs = old.value, new.value
    # The changes of old keys, by their nodes: a key may be a collection.
    leaves: dict[int, Any] = {}
    if change:
        named = [key for key, _ in old_pairs if isinstance(key, ScalarNode)]
        leaves = {id(key): change[key.value] for key in named if key.value in change}
        added = change.keys() - {key.value for key in named}
        extra = [
            pair for pair in new_pairs if isinstance(pair[0], ScalarNode) and pair[0].value in added
        ]
        if len(extra) != len(added) or {key.value for key, _ in extra} != added:
            return False
        if not all(has_value(value, _plain_data(change[key.value])) for key, value in extra):
            return False
        new_pairs = [pair for pair in new_pairs if pair not in extra]
        old_pairs = [pair for pair in old_pairs if not isinstance(leaves.get(id(pair[0])), Drop)]
    if len(old_pairs) != len(new_pairs):
        return False
    for (old_key, old_value), (key, value) in zip(old_pairs, new_pairs, strict=True):
        leaf = leaves.get(id(old_key))
        if isinstance(leaf, Named):
            if not has_value(key, leaf.name):
                return False
            leaf = None if leaf.value is None else Put(leaf.value)
        elif (key.tag != old_key.tag or key.value != old_key.value) and not is_same_but_for(
            None, old_key, key, compared
        ):
            return False
        # Most keys and values are scalars that stay: no call for them.
        if leaf is None and value.tag == old_value.tag and value.value == old_value.value:
            continue
        if not is_same_but_for(leaf, old_value, value, compared):
            return False
    return True


def _plain_data(leaf: Any) -> Any:
    """The value that a change makes where nothing was before."""
    if isinstance(leaf, Put):
        return leaf.value
    return {key: _plain_data(child) for key, child in leaf.items()}


def has_value(node: YamlNode | None, value: Any) -> bool:
    """Whether a node is exactly this value."""
    if isinstance(value, dict):
        if not isinstance(node, MappingNode) or len(node.value) != len(value):
            return False
        node_pairs = pairs(node)
        return all(
            key in node_pairs and has_value(node_pairs[key][1], child)
            for key, child in value.items()
        )
    if isinstance(value, list):
        if not isinstance(node, SequenceNode) or len(node.value) != len(value):
            return False
        return all(map(has_value, node.value, value))
    if not isinstance(node, ScalarNode):
        return False
    if value is None:
        return bool(node.tag == NULL)
    if isinstance(value, bool):  # `yes` is a word in YAML 1.2
        return bool(node.tag == BOOL and node.value.lower() == str(value).lower())
    if isinstance(value, float):
        return bool(node.tag == FLOAT and node.value == number(value))
    tag = STR if isinstance(value, str) else INT
    return bool(node.tag == tag and node.value == str(value))
