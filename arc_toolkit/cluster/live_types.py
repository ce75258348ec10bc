"""InstanceTypes in a cluster: read them, apply ours, prune what we no longer make.

Each type is one server-side apply, which is whole or not at all; so after an interruption a second run completes
what the first began, and finds the rest unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arc_toolkit.cluster.client import FIELD_MANAGER, Client, Conflict
from arc_toolkit.cluster.failures import INSTANCE_TYPES
from arc_toolkit.kube.instance_type_spec import API_VERSION, KIND, selector_of
from arc_toolkit.kube.labels import matches
from arc_toolkit.kube.nodes import Node, UnusableNode
from arc_toolkit.sizing.instance_types import MANAGED_BY, PREFIX

Action = Literal["created", "configured", "unchanged", "conflict", "pruned", "kept"]
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What became of one type."""

    name: str
    action: Action
    detail: str = ""


def read(client: Client) -> dict[str, Object]:
    """Every InstanceType of the cluster by name, whole objects."""
    types = {}
    for item in client.list(INSTANCE_TYPES):
        item.setdefault("apiVersion", API_VERSION)  # the items of a list come without
        item.setdefault("kind", KIND)
        types[item["metadata"]["name"]] = item
    return types


def apply(
    client: Client,
    manifests: Iterable[Object],
    present: Mapping[str, Object],
    *,
    force: bool = False,
    dry_run: bool = False,
) -> Iterator[ApplyResult]:
    """One result per type, as it happens. A conflict changes nothing, unless `force` takes the fields over."""
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        try:
            applied = client.apply(f"{INSTANCE_TYPES}/{name}", manifest, force=force, dry_run=dry_run)
        except Conflict as conflict:
            owned = [f"{field} belongs to {manager}" for field, manager in conflict.fields()] or [str(conflict)]
            yield ApplyResult(name, "conflict", "; ".join(owned))
            continue
        if applied.created:
            yield ApplyResult(name, "created")
        elif name in present and _content(applied.object) == _content(present[name]):
            yield ApplyResult(name, "unchanged")
        else:
            yield ApplyResult(name, "configured", _changes(present.get(name, {}), applied.object))


def outdated(
    manifests: Iterable[Object],
    present: Mapping[str, Object],
    nodes: Sequence[Node] = (),
    unusable: Sequence[UnusableNode] = (),
) -> tuple[list[Object], list[tuple[Object, str]]]:
    """Types that this tool made and no longer makes: those to prune, and those to keep with the reason.

    Ours are those that carry our label and that we applied. A type made from another kind of source (`--sku`
    against `--from-cluster`) is kept: its pool may just have no nodes now. So is one whose nodes are there, but all
    left out of this run for a reason that passes.
    """
    generated = {manifest["metadata"]["name"]: _source(manifest) for manifest in manifests}
    sources = set(generated.values())
    refused = {row.node.name: row for row in unusable}
    prune, keep = [], []
    for name, item in sorted(present.items()):
        if name in generated or not _ours(item):
            continue
        states = [refused.get(node.name) for node in nodes if matches(selector_of(item), node.labels)]
        if _source(item) not in sources:
            keep.append((item, f"made from {_source(item) or 'an unknown source'}, not {' or '.join(sources)}"))
        elif states and all(state is not None and state.why.temporary for state in states):
            keep.append((item, f"its nodes are {' or '.join(sorted({str(state) for state in states}))} now"))
        else:
            prune.append(item)
    return prune, keep


def prune(client: Client, items: Iterable[Object], *, dry_run: bool = False) -> Iterator[ApplyResult]:
    """Delete types, each only if it is still as it was read."""
    for item in items:
        name, version = item["metadata"]["name"], item["metadata"]["resourceVersion"]
        try:
            client.delete(f"{INSTANCE_TYPES}/{name}", resource_version=version, dry_run=dry_run)
        except Conflict:
            yield ApplyResult(name, "kept", "it changed in the meantime; run again to check it")
            continue
        yield ApplyResult(name, "pruned")


def _ours(item: Object) -> bool:
    metadata = item["metadata"]
    applied = [row for row in metadata.get("managedFields") or () if row.get("operation") == "Apply"]
    ours = any(row.get("manager") == FIELD_MANAGER for row in applied)
    return ours and (metadata.get("labels") or {}).get(MANAGED_BY) == "arc-toolkit"


def _source(item: Object) -> str:
    return str((item["metadata"].get("annotations") or {}).get(PREFIX + "source", ""))


def _content(item: Object) -> Object:
    metadata = item.get("metadata") or {}
    return {"spec": item.get("spec"), **{key: metadata.get(key) or {} for key in ("labels", "annotations")}}


def _changes(old: Object, new: Object) -> str:
    """`requests.memory 100Mi -> 90Mi, ...`"""
    before, after = _flat(_content(old)), _flat(_content(new))
    changed = [
        f"{key} {before.get(key, 'absent')} -> {after.get(key, 'absent')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
    return ", ".join(changed)


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {prefix: str(value)}
    values: dict[str, str] = {}
    for key, inner in value.items():
        values |= _flat(inner, f"{prefix}.{key}" if prefix else key)
    return values
