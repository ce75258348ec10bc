"""A v1.5 spec: its values as SDK v1.5 sees them, the line of each key, its conversion's ledger."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from arc_toolkit.edit.files.edits import Refused, Unreadable
from arc_toolkit.edit.yaml.nodes import (
    MERGE,
    CoreLoader,
    YamlNode,
    core_value,
    position_of,
    read,
)
from arc_toolkit.errors import ArcError
from arc_toolkit.findings import LedgerOutcome
from arc_toolkit.migrate.ledger import NO_PLACE, Ledger, Place, argument_rows

SWEEP_RULE = "sweep-to-v2"

# Their keys have entries of their own.
_SECTIONS = (
    *("objective", "limits", "early_termination", "launcher", "environment"),
    *("environment.docker", "environment.conda"),
)
ReadFile = Callable[[str], bytes]
Keys = tuple[Hashable, ...]
Places = dict[Keys, tuple[int, int]]


@dataclass(frozen=True)
class LegacySpec:
    """One v1.5 document, or a mapping in it."""

    path: str
    data: dict[str, Any]
    # Line and column of each key or item, both from 1.
    places: Places = field(default_factory=dict)
    # Where `data` is in the document, for an inline trial.
    at: Keys = ()
    # A sweep and its trial share it.
    ledger: Ledger = field(default_factory=Ledger)
    # Its rows in the table of arguments; empty: its values come from code, which has its own.
    source: str = ""

    def place(self, *keys: Hashable) -> Place:
        """Path, line and column of a key, or of the nearest one above it; 0 is the file."""
        path = (*self.at, *keys)
        while path and path not in self.places:
            path = path[:-1]
        return self.path, *self.places.get(path, (0, 0))

    def refuse(self, reason: str, *keys: Hashable) -> Refused:
        return Refused(reason, self.path, self.place(*keys)[1])

    def refuse_value(self, hint: str, section: str, key: str) -> Refused:
        """The refusal of a value in a section; `hint` says what is allowed."""
        value = self.mapping(section).get(key)
        return self.refuse(f"{section}.{key} is {value!r}: {hint}", section, key)

    def note(self, reason: str, *keys: Hashable, outcome: LedgerOutcome = "mapped") -> None:
        """Say in the ledger what differs for a key."""
        argument = ".".join(map(str, keys))
        self.ledger.note(argument, reason, outcome, self.source, self.place(*keys))

    def account(self, section: dict[str, Any], *at: str, row: str = "") -> None:
        """An entry for each key of a section.

        `row` is the section in the table, if its name is free, as in `inputs.NAME.type`: keys that
        have a place are not listed then.
        """
        rows = argument_rows().get(self.source)
        for key in section if rows is not None else ():
            argument = ".".join((*at, str(key)))
            known = (rows or {}).get(f"{row}.{key}" if row else argument)
            if known is None:
                self.note(f"{NO_PLACE}, and it is not written", *at, key, outcome="lost")
            elif known.outcome != "refused" and not row and argument not in _SECTIONS:
                place = self.place(*at, key)
                entry = self.source, argument, known.outcome, known.becomes, known.reason
                self.ledger.add(*entry, place)

    def inside(self, key: str, source: str) -> LegacySpec:
        """The mapping under a key as a spec of its own, in the same file."""
        return replace(self, data=self.data[key], at=(*self.at, key), source=source)

    def mapping(self, *keys: str) -> dict[str, Any]:
        """The mapping under these keys; an absent or empty one is {}."""
        section = self.data
        for count, key in enumerate(keys, 1):
            value = section.get(key)
            if value is None:
                return {}
            if not isinstance(value, dict):
                name = ".".join(keys[:count])
                reason = f"{name} is not a mapping: write its settings below it"
                raise self.refuse(reason, *keys[:count])
            section = value
        return section

    def strings(self, key: str) -> dict[str, str]:
        """The mapping under a key with text for values."""
        return {str(name): str(value) for name, value in self.mapping(key).items()}


def parse_spec(path: str, data: bytes, source: str, ledger: Ledger | None = None) -> LegacySpec:
    """The one mapping of a file; anything else is refused."""
    try:
        root, *others = read(data, CoreLoader).documents or (None,)
        if others:
            raise Refused(f"{len(others) + 1} YAML documents: keep one in the file", path)
        if not isinstance(root, yaml.MappingNode):
            raise Refused("not a mapping: an AzureML spec is a list of `key: value` lines", path)
        places: Places = {}
        values = _value(root, (), places)
    except Unreadable as error:
        raise Refused(f"{error.reason}: fix it first", path, error.line) from None
    except RecursionError:
        raise Refused("the YAML is nested too deeply: make it flatter", path) from None
    return LegacySpec(path, values, places, ledger=ledger or Ledger(), source=source)


def _value(node: YamlNode, at: Keys, places: Places) -> Any:
    """Plain data of a node; the keys of its mappings are text."""
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            places[*at, index] = position_of(item)
            items.append(_value(item, (*at, index), places))
        return items
    if not isinstance(node, yaml.MappingNode):
        return core_value(node)
    merged: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise Unreadable("a key that is not text", *position_of(key))
        if key.tag == MERGE:
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in reversed(sources):
                if not isinstance(source, yaml.MappingNode):
                    reason = "broken YAML: `<<` merges something that is not a mapping"
                    raise Unreadable(reason, *position_of(key))
                merged |= _value(source, at, {})
        elif key.value in values:
            raise Unreadable(f"duplicate key {key.value}", *position_of(key))
        else:
            places[*at, key.value] = position_of(key)
            values[key.value] = _value(value, (*at, key.value), places)
    return {**merged, **values}


def read_or_none(read_file: ReadFile, path: str) -> bytes | None:
    """The bytes of a file, or None if it cannot be read."""
    try:
        return read_file(path)
    except (ArcError, OSError):
        return None
