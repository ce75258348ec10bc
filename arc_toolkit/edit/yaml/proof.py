"""Comparing two readings of a file: the second must mean what the first does, with exactly the asked change made.

Nodes are compared, not Python data: `"2"` and `2` differ, and no alias is expanded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from arc_toolkit.edit.yaml.nodes import BOOL, FLOAT, INT, NULL, STR, YamlNode, is_null, pairs
from arc_toolkit.edit.yaml.writer import number

Value = str | int | float | bool | None | list[Any] | dict[str, Any]


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


_ABOUT_KEYS = (Drop, Named)
# Pairs of nodes that are known to be the same; None where no alias makes a node come twice.
Memo = set[tuple[int, int]] | None
# What was asked, as a tree beside the document: key or index -> Change, Put, Drop or Named.
Change = dict[Any, Any]
# As a key of a change of a list: the items that come after its last one.
APPENDED = object()


def same(
    old: YamlNode | None, new: YamlNode | None, change: Change | Put | None, memo: Memo
) -> bool:
    """Whether `new` means what `old` means, with exactly the asked change made."""
    if old is None or new is None:
        return old is new
    if isinstance(change, Put):
        return holds(new, change.value)
    if change and is_null(old):
        return holds(new, {key: _values(leaf) for key, leaf in change.items()})
    if old.tag != new.tag:
        return False
    if isinstance(old, ScalarNode):
        return bool(old.value == new.value) and not change
    if not change:
        if old is new:
            return True
        if memo is not None:
            if (id(old), id(new)) in memo:
                return True
            memo.add((id(old), id(new)))
        if isinstance(old, MappingNode):
            return _same_keys(old, new, {}, memo)
        return len(old.value) == len(new.value) and all(
            same(item, other, None, memo) for item, other in zip(old.value, new.value, strict=True)
        )
    if isinstance(old, SequenceNode):
        size = len(old.value)
        return holds(SequenceNode(old.tag, new.value[size:]), change.get(APPENDED, [])) and all(
            same(
                item, new.value[index] if index < len(new.value) else None, change.get(index), memo
            )
            for index, item in enumerate(old.value)
        )
    return _same_mapping(old, new, change, memo)


def _same_mapping(old: YamlNode, new: YamlNode, change: Change, memo: Memo) -> bool:
    names = _names(old)
    added = change.keys() - names
    if not added and not any(isinstance(leaf, _ABOUT_KEYS) for leaf in change.values()):
        return _same_keys(old, new, change, memo)  # the change is further down, as in most mappings
    leaves = zip(old.value, map(change.get, names), strict=True)
    kept = [(pair, leaf) for pair, leaf in leaves if leaf is None or not isinstance(leaf, Drop)]
    there: list[tuple[YamlNode, YamlNode]] = []
    extra: list[tuple[YamlNode, YamlNode]] = []
    for pair in new.value:
        (extra if isinstance(pair[0], ScalarNode) and pair[0].value in added else there).append(
            pair
        )
    if len(there) != len(kept) or len(extra) != len(added):
        return False
    for ((old_key, old_value), leaf), (key, value) in zip(kept, there, strict=True):
        if isinstance(leaf, Named):
            is_same = (
                same(old_value, value, None, memo)
                if leaf.value is None
                else holds(value, leaf.value)
            )
            if key.value != leaf.name or not is_same:
                return False
        elif old_key.tag != key.tag or (
            old_key.value != key.value and not same(old_key, key, None, memo)
        ):
            return False
        elif leaf is None and value is old_value:
            continue
        elif leaf is None and isinstance(value, ScalarNode):
            if value.value != old_value.value or value.tag != old_value.tag:
                return False
        elif not same(old_value, value, leaf, memo):
            return False
    return len({key.value for key, _ in extra}) == len(added) and all(
        holds(value, _values(change[key.value])) for key, value in extra
    )


def _same_keys(old: YamlNode, new: YamlNode, change: Change, memo: Memo) -> bool:
    """Whether two mappings have the same keys, and below them the same but for the asked change."""
    if len(old.value) != len(new.value):
        return False
    for (key, value), (new_key, new_value) in zip(old.value, new.value, strict=True):
        # Keys and most values are scalars; same() for the rest.
        if key.tag != new_key.tag or (
            key.value != new_key.value and not same(key, new_key, None, memo)
        ):
            return False
        leaf = change.get(key.value) if change and isinstance(key, ScalarNode) else None
        if leaf is None and value is new_value:
            continue
        if leaf is None and isinstance(value, ScalarNode):
            if value.tag != new_value.tag or value.value != new_value.value:
                return False
        elif not same(value, new_value, leaf, memo):
            return False
    return True


def _names(mapping: YamlNode) -> list[str | None]:
    """The keys of a mapping; None for one that is a collection."""
    return [key.value if isinstance(key, ScalarNode) else None for key, _ in mapping.value]


def _values(leaf: Any) -> Any:
    return (
        leaf.value
        if isinstance(leaf, Put)
        else {key: _values(child) for key, child in leaf.items()}
    )


def holds(node: YamlNode | None, value: Any) -> bool:
    """Whether a node is exactly this value."""
    if isinstance(value, str):
        return isinstance(node, ScalarNode) and bool(node.tag == STR and node.value == value)
    if isinstance(value, dict):
        if not isinstance(node, MappingNode) or len(node.value) != len(value):
            return False
        own = pairs(node)
        for key, child in value.items():
            below = own[key][1] if key in own else None
            if isinstance(child, str):  # as below, without a call
                if below is None or below.tag != STR or below.value != child:
                    return False
            elif not holds(below, child):
                return False
        return True
    if isinstance(value, list):
        return (
            isinstance(node, SequenceNode)
            and len(node.value) == len(value)
            and all(holds(item, child) for item, child in zip(node.value, value, strict=True))
        )
    if not isinstance(node, ScalarNode):
        return False
    if value is None:
        return bool(node.tag == NULL)
    if isinstance(value, bool):  # `yes` is a word in YAML 1.2
        return bool(node.tag == BOOL and node.value.lower() == str(value).lower())
    if isinstance(value, float):
        return bool(node.tag == FLOAT and node.value == number(value))
    return bool(node.tag == INT and node.value == str(value))
