"""InstanceTypes in a cluster: read them, and apply ours exactly as generated.

Each type is one server-side apply, which is whole or not at all; so after an interruption a second
run completes what the first began, and finds the rest unchanged. A server-side apply leaves every
field alone that only another manager set: a second label in the nodeSelector, a GPU count of
before. The type would then be neither theirs nor ours, so the object that the server returns is
compared with the manifest.
https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from arc_toolkit.cluster.client import FIELD_MANAGER, Client, Conflict
from arc_toolkit.cluster.failures import INSTANCE_TYPES
from arc_toolkit.kube.instance_type_spec import API_VERSION, KIND, MANAGED_BY, PREFIX
from arc_toolkit.kube.raw import Json, mapping

Action = Literal[
    "created",
    "configured",
    "unchanged",
    "conflict",
    "differs",
    "pruned",
    "kept",
    "refused",
    "unknown",
    "not sent",
]
ObjectPath = tuple[str, ...]

ADOPTED = PREFIX + "adopted"

# What is left to do by hand: the type is not what this run generated.
UNSOLVED: tuple[Action, ...] = ("conflict", "differs")


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What became of one type.

    `conflict`: nothing was changed. `differs`: it was applied, and the server still has something
    else. `refused`: by the server. `unknown`: the answer was lost. `not sent`: an error came first.
    """

    name: str
    action: Action
    detail: str = ""


def read(client: Client) -> dict[str, Json]:
    """Every InstanceType of the cluster by name, whole objects."""
    types = {}
    for item in client.list(INSTANCE_TYPES):
        item.setdefault("apiVersion", API_VERSION)  # the items of a list come without
        item.setdefault("kind", KIND)
        types[item["metadata"]["name"]] = item
    return types


def path_of(name: str) -> str:
    return f"{INSTANCE_TYPES}/{name}"


def apply(
    client: Client,
    manifests: Iterable[Json],
    present: Mapping[str, Json],
    *,
    force: bool = False,
    dry_run: bool = False,
) -> Iterator[ApplyResult]:
    """One result per type, as it happens. A conflict changes nothing, unless `force` is set."""
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        before = present.get(name)
        try:
            # Fields that only others set make no conflict: a dry run shows what would remain.
            if before and not force and (leftovers := _leftovers(before, manifest)):
                trial = client.apply(path_of(name), manifest, dry_run=True).object
                if leftovers := _leftovers(trial, manifest):
                    yield ApplyResult(
                        name, "conflict", "; ".join(_owner_text(trial, path) for path in leftovers)
                    )
                    continue
            yield _apply(client, manifest, before, force=force, dry_run=dry_run)
        except Conflict as conflict:
            owned = [f"{field} belongs to {manager}" for field, manager in conflict.fields()] or [
                str(conflict)
            ]
            yield ApplyResult(name, "conflict", "; ".join(owned))


def _apply(
    client: Client, manifest: Json, before: Json | None, *, force: bool, dry_run: bool
) -> ApplyResult:
    name = manifest["metadata"]["name"]
    taken_over = before is not None and not is_ours(before)
    if before is not None and (taken_over or is_adopted(before)):
        manifest = _as_adopted(manifest)
    applied = client.apply(path_of(name), manifest, force=force, dry_run=dry_run)
    stored = applied.object
    if force and (leftovers := _leftovers(stored, manifest)):
        try:
            without = client.merge(path_of(name), _removal(stored, leftovers), dry_run=dry_run)
        except Conflict:
            return ApplyResult(
                name, "differs", "another manager changed it in the meantime: run the command again"
            )
        # A dry run has not stored the apply, so the second answer lacks what the first one changed.
        stored = _remove_fields(stored, leftovers) if dry_run else without
    if differences := _differences(stored, manifest):
        return ApplyResult(name, "differs", "; ".join(differences))
    if applied.created:
        return ApplyResult(name, "created")
    if before and _content(stored) == _content(before):
        return ApplyResult(name, "unchanged")
    changes = _changes(before or {}, stored)
    if taken_over:
        changes = f"taken over, written by hand before: --prune does not delete it; {changes}"
    return ApplyResult(name, "configured", changes)


def is_ours(item: Json) -> bool:
    """Whether arc-toolkit applied it; a type that somebody wrote and we took over is ours too."""
    metadata = item["metadata"]
    applied = [
        row for row in metadata.get("managedFields") or () if row.get("operation") == "Apply"
    ]
    ours = any(row.get("manager") == FIELD_MANAGER for row in applied)
    return ours and (metadata.get("labels") or {}).get(MANAGED_BY) == "arc-toolkit"


def is_adopted(item: Json) -> bool:
    """Whether it was written by hand before arc-toolkit took it over."""
    return ADOPTED in (item["metadata"].get("annotations") or {})


def _as_adopted(manifest: Json) -> Json:
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ADOPTED: "true"}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


# --- the stored object against the manifest -------------------------------------------------------


def _leftovers(item: Json, manifest: Json) -> list[ObjectPath]:
    """Fields of the spec outside the manifest that a manager set (a default has none)."""
    requested, present = _leaves(manifest["spec"], ("spec",)), _leaves(item.get("spec"), ("spec",))
    return [path for path in present if path not in requested and _managers(item, path)]


def _differences(item: Json, manifest: Json) -> list[str]:
    """Each field that is not as the manifest has it, in words."""
    present = _leaves(_content(item))
    differences = [
        f"{_text(path)} is {present.get(path, 'absent')}, not {value}"
        for path, value in _leaves(_content(manifest)).items()
        if present.get(path) != value
    ]
    return differences + [_owner_text(item, path) for path in _leftovers(item, manifest)]


def _owner_text(item: Json, path: ObjectPath) -> str:
    value = _leaves(item)[path]
    managers = ", ".join(_managers(item, path))
    return f"{_text(path)} = {value} is not generated and belongs to {managers}"


def _managers(item: Json, path: ObjectPath) -> list[str]:
    """Who set a field, by metadata.managedFields."""
    names = []
    for row in item["metadata"].get("managedFields") or ():
        fields = mapping(row.get("fieldsV1"))
        for key in path:
            if f"f:{key}" not in fields:
                break
            fields = fields[f"f:{key}"]
            if not fields:  # a leaf: the field itself, or a map that is owned as a whole
                names.append(str(row.get("manager") or "an unknown manager"))
                break
    return list(dict.fromkeys(names))


def _removal(item: Json, paths: Iterable[ObjectPath]) -> Json:
    """A merge patch that removes fields, if the object is still the one that was looked at."""
    patch: Json = {"metadata": {"resourceVersion": item["metadata"]["resourceVersion"]}}
    for path in paths:
        inner = patch
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = None
    return patch


def _remove_fields(item: Json, paths: Iterable[ObjectPath]) -> Json:
    import copy

    copied = copy.deepcopy(item)
    for path in paths:
        inner = copied
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
    return copied


def _content(item: Json) -> Json:
    metadata = item.get("metadata") or {}
    pairs = {key: metadata.get(key) or {} for key in ("labels", "annotations")}
    return {"spec": item.get("spec") or {}, "metadata": pairs}


def _changes(old: Json, new: Json) -> str:
    """`spec.resources.requests.memory 100Mi -> 90Mi, ...`"""
    before, after = _leaves(_content(old)), _leaves(_content(new))
    changed = [
        f"{_text(path)} {before.get(path, 'absent')} -> {after.get(path, 'absent')}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]
    return ", ".join(changed)


def _text(path: ObjectPath) -> str:
    return ".".join(path)


def _leaves(value: Any, path: ObjectPath = ()) -> dict[ObjectPath, str]:
    """Every value that is not a map, by its path. Null is the same as absent."""
    if isinstance(value, dict):
        return {
            leaf: text
            for key, inner in value.items()
            for leaf, text in _leaves(inner, (*path, key)).items()
        }
    return {} if value is None else {path: str(value)}
