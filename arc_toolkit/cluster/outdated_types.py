"""Types that arc-toolkit applied and no longer generates: which to delete or keep, and why.

A type is replaced if the nodes that it was made for are there now, can take jobs and show all of
their GPUs, and this run generated other types for them. Anything else may pass: a pool at zero
nodes, a node that is joining, a device plugin that is down. So such a type is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from arc_toolkit.cluster.client import Client, Conflict
from arc_toolkit.cluster.failures import Unreachable
from arc_toolkit.cluster.live_types import ApplyResult, apply, is_adopted, is_ours, path_of
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import PREFIX, selector_of
from arc_toolkit.kube.labels import matches, some_names
from arc_toolkit.kube.nodes import Node
from arc_toolkit.kube.raw import Json, mapping
from arc_toolkit.sizing.fits import Candidate


def outdated_types(
    manifests: Sequence[Json], present: Mapping[str, Json], nodes: Sequence[Candidate]
) -> tuple[list[Json], list[tuple[Json, str]]]:
    """Types to prune, and types to keep with the reason. Ours are those with our label."""
    generated = {manifest["metadata"]["name"] for manifest in manifests}
    sources = sorted({_annotation(manifest, "source") for manifest in manifests})
    sizes = {size.lower() for manifest in manifests for size in _sizes(manifest)}
    prune, keep = [], []
    for name, item in sorted(present.items()):
        if name in generated or not is_ours(item):
            continue
        if is_adopted(item):
            keep.append((item, "it was written by hand before arc-toolkit took it over"))
        elif _annotation(item, "source") not in sources:
            source = _annotation(item, "source") or "an unknown source"
            keep.append((item, f"made from {source}, not {' or '.join(sources)}"))
        elif reason := _why_not_replaced(item, nodes, sizes):
            keep.append((item, reason))
        else:
            prune.append(item)
    return prune, keep


def apply_and_prune(
    client: Client,
    manifests: Sequence[Json],
    present: Mapping[str, Json],
    old: Sequence[Json],
    unchanged: Iterable[tuple[Json, str]] = (),
    *,
    force: bool = False,
    dry_run: bool = False,
) -> Iterator[ApplyResult]:
    """Apply the manifests, delete the `old` types, and say why others are `unchanged`.

    One result per type, as it happens. An error is raised after the results of all types: it names
    the type that was sent last; those after it were not sent.
    """
    names = [item["metadata"]["name"] for item in [*manifests, *old]]
    applied = 0
    failure: ArcError | None = None
    try:
        for result in chain(
            apply(client, manifests, present, force=force, dry_run=dry_run),
            prune(client, old, dry_run=dry_run),
        ):
            applied += 1
            yield result
    except ArcError as error:
        lost = isinstance(error, Unreachable)
        yield ApplyResult(names[applied], "unknown" if lost else "refused")
        for name in names[applied + 1 :]:
            yield ApplyResult(name, "not sent")
        state = f"{names[applied]} {'may have been changed or not' if lost else 'was refused'}"
        failure = ArcError(
            f"{error}; {applied} of {len(names)} types applied, {state}, the rest not sent: "
            "run the command again"
        )
    for item, reason in unchanged:
        yield ApplyResult(item["metadata"]["name"], "kept", reason)
    if failure:
        raise failure


def prune(client: Client, items: Iterable[Json], *, dry_run: bool = False) -> Iterator[ApplyResult]:
    """Delete types, each only if it is still as it was read."""
    for item in items:
        name, version = item["metadata"]["name"], item["metadata"]["resourceVersion"]
        try:
            client.delete(path_of(name), resource_version=version, dry_run=dry_run)
        except Conflict:
            yield ApplyResult(name, "kept", "it changed in the meantime; run again to check it")
            continue
        yield ApplyResult(name, "pruned")


def _why_not_replaced(
    item: Json, nodes: Sequence[Candidate], generated_sizes: set[str]
) -> str | None:
    """Why its nodes, as they are now, do not show that nobody needs the type; None if they do."""
    # A pool at zero has no nodes, though the spot pool of its size may have some.
    priority = _annotation(item, "priority")
    selected = [
        row
        for row in nodes
        if row.node.spot == (priority == "spot") and matches(selector_of(item), row.node.labels)
    ]
    sizes = _sizes(item)
    for size in sizes or [""]:
        own_nodes = [row for row in selected if not size or row.node.size.lower() == size.lower()]
        if not own_nodes:
            missing_text = f"node of {size}" if size else "node that it selects"
            return (
                f"there is no {missing_text} now: "
                "its pool may be at zero nodes, or its nodes are joining"
            )
        usable = [row.node for row in own_nodes if not row.unusable]
        if not usable:
            reasons = some_names(sorted({row.unusable.brief for row in own_nodes if row.unusable}))
            return f"all of its nodes are left out now ({reasons})"
        if size and size.lower() not in generated_sizes:
            return f"this run generates no type for {size}"
        if short := _gpus_missing(item, usable):
            return short
    return None


def _gpus_missing(item: Json, nodes: Sequence[Node]) -> str | None:
    """Why nodes that are not left out still speak for a device plugin that is down: those of a size
    that is not in the table, or that was divided in another way. Any other node with too few GPUs
    is left out.
    """
    limits = mapping(mapping(mapping(item.get("spec")).get("resources")).get("limits"))
    for resource, amount in limits.items():
        if "/" not in resource:  # cpu and memory; devices have the domain of their maker
            continue
        expected = int(amount) if str(amount).isdecimal() else 0
        visible = min(node.devices.get(resource, 0) for node in nodes)
        if visible < expected:
            return (
                f"its nodes show {visible} of {expected} {resource} now: "
                "is the device plugin healthy?"
            )
    return None


def _sizes(item: Json) -> list[str]:
    """The VM sizes that it was made for; a merged type has several."""
    return [size for size in _annotation(item, "size").split(",") if size]


def _annotation(item: Json, key: str) -> str:
    return str((item["metadata"].get("annotations") or {}).get(PREFIX + key, ""))
