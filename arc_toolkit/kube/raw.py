"""Raw objects as the API server or `kubectl get -o json` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arc_toolkit.errors import ArcError

# An object of JSON.
Json = dict[str, Any]
# Kind -> what `kubectl get` needs to list all of them.
_ALL = {"Node": "", "Pod": "-A "}


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a map, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[dict[str, Any]]:
    """The maps of a list; anything else is left out."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def items_of(data: Any, kind: str, place: str) -> list[dict[str, Any]]:
    """The objects in a saved list (`kubectl get ... -o json`), or the one object itself."""
    if isinstance(data, dict) and isinstance(data.get("items"), list):
        items: list[dict[str, Any]] = data["items"]
    elif isinstance(data, dict) and data.get("kind") == kind:
        items = [data]
    else:
        plural = kind.lower() + "s"
        raise ArcError(
            f"{place}: no `items` in it: save it with `kubectl get {plural} {_ALL[kind]}-o json`"
        )
    stranger = next(
        (row for row in items if not isinstance(row, dict) or row.get("kind", kind) != kind), None
    )
    if stranger is not None:
        other = stranger.get("kind") if isinstance(stranger, dict) else type(stranger).__name__
        raise ArcError(f"{place}: expected {kind} objects, found {other}")
    return items
