"""Reading a v1.5 spec: its values as the v1.5 SDK sees them, and the line of every key.

The v1.5 SDK reads with ruamel.yaml, which is YAML 1.2: `1e-5` is a number and `on` is a word there. PyYAML's
YAML 1.1 would make a word of the first and a boolean of the second, so the scalars are resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from arc_toolkit.edit.edits import Refused
from arc_toolkit.errors import ArcError

Read = Callable[[str], bytes]
Path = tuple[Hashable, ...]


@dataclass(frozen=True)
class Source:
    """One v1.5 document: its values, and the place of each of them."""

    path: str
    data: dict[str, Any]
    # Line and column of each key or item, both from 1.
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)
    # Where `data` stands in the document; an inline trial has its own keys.
    at: Path = ()

    def place(self, *keys: Hashable) -> tuple[int, int]:
        """Line and column of a key; of the nearest one above it where it has none of its own; 0 is the file."""
        path = (*self.at, *keys)
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (0, 0))

    def refuse(self, what: str, *keys: Hashable) -> Refused:
        return Refused(what, self.path, self.place(*keys)[0])

    def inside(self, *keys: Hashable) -> Source:
        """The mapping under these keys as a document of its own, in the same file."""
        data: Any = self.data
        for key in keys:
            data = data[key]
        return Source(self.path, data, self.places, (*self.at, *keys))

    def mapping(self, key: str) -> dict[str, Any]:
        """The mapping under a key; an absent or empty one is {}."""
        value = self.data.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.refuse(f"{key} is not a mapping: write its settings as `name: value` lines", key)
        return value


def parse(path: str, data: bytes) -> Source:
    """One YAML document that is a mapping; anything else is refused."""
    import yaml

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused("not UTF-8 text: save it as UTF-8", path, line) from None
    loader = loader_1_2()(text)
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise Refused("not a mapping: an AzureML spec is a list of `key: value` lines", path)
        places: dict[Path, tuple[int, int]] = {}
        _mark(node, (), places, [])
        values = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not valid YAML ({error.problem or error.context}): mend it first"
        raise Refused(problem, path, mark.line + 1 if mark else 0) from None
    except (yaml.YAMLError, ValueError) as error:
        raise Refused(f"not valid YAML ({' '.join(str(error).split())}): mend it first", path) from None
    except RecursionError:
        raise Refused("the YAML is nested too deeply: make it flatter", path) from None
    finally:
        loader.dispose()
    return Source(path, values, places)


def read_or_none(read: Read, path: str) -> bytes | None:
    """The bytes of a file, or None where it is not there."""
    try:
        return read(path)
    except (ArcError, OSError):
        return None


def _mark(node: Any, at: Path, places: dict[Path, tuple[int, int]], above: list[Any]) -> None:
    import yaml

    if node in above:
        raise yaml.MarkedYAMLError(problem="an alias refers to itself", problem_mark=node.start_mark)
    above.append(node)
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.MarkedYAMLError(problem=f"{key.value} stands twice", problem_mark=key.start_mark)
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
                places[(*at, key.value)] = (key.start_mark.line + 1, key.start_mark.column + 1)
                _mark(value, (*at, key.value), places, above)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            places[(*at, index)] = (value.start_mark.line + 1, value.start_mark.column + 1)
            _mark(value, (*at, index), places, above)
    above.pop()


@cache
def loader_1_2() -> Any:
    """A PyYAML loader with the scalars of YAML 1.2 (core schema) and the merge key of 1.1, as ruamel.yaml has."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own way

    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
        (
            "float",
            r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
            "-+0123456789.",
        ),
        ("merge", r"<<", "<"),
    ):
        # `int` is added before `float`, so that a whole number stays whole.
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), list(first))

    def whole(loader: Any, node: Any) -> int:
        text = loader.construct_scalar(node)
        if text.startswith("0o"):
            return int(text[2:], 8)
        return int(text, 16) if text.startswith("0x") else int(text)

    Loader.add_constructor("tag:yaml.org,2002:int", whole)
    return Loader
