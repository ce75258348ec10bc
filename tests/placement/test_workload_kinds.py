"""Every row of the table of workload kinds: where the pod specs are, and which roles stay off spot nodes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from arc_toolkit.kube.workloads import EACH_ITEM, EACH_KEY, KINDS, RolePath, Shape, WorkloadKind
from tests.placement.support import expression, place, placed, required

POD = {"containers": [{"name": "c", "image": "busybox"}]}
PLACEABLE = [
    (version, row)
    for (version, _), row in KINDS.items()
    if row.specs and not row.refused and row.kind != "TrainJob"
]


def build(tree: Any, path: tuple[str, ...], name: str) -> Any:
    """A tree with a pod spec at a path of the table."""
    if not path:
        return dict(POD)
    step, rest = path[0], path[1:]
    if step == EACH_ITEM:
        return [{"name": name, **build({}, rest, name)}]
    key = name if step == EACH_KEY else step
    return {**(tree or {}), key: build((tree or {}).get(key), rest, name)}


def manifest(version: str, row: WorkloadKind, entry: RolePath, name: str = "worker") -> str:
    tree = {"apiVersion": version, "kind": row.kind, "metadata": {"name": "x"}}
    return yaml.safe_dump(build(tree, entry.path, name), sort_keys=False)


def at(tree: Any, path: tuple[str, ...], name: str = "worker") -> Any:
    for step in path:
        tree = tree[0] if step == EACH_ITEM else tree[name if step == EACH_KEY else step]
    return tree


@pytest.mark.parametrize(
    ("version", "row"), PLACEABLE, ids=lambda value: value if isinstance(value, str) else value.kind
)
def test_every_pod_spec_of_a_row_is_placed(version: str, row: WorkloadKind) -> None:
    for entry in row.specs:
        if entry.shape is Shape.WORKFLOW:
            continue
        role = entry.role or "worker"
        (document,) = placed(manifest(version, row, entry), roles=frozenset([role]))
        spec = at(document, entry.path)
        assert spec["affinity"] == required(expression()), entry
        assert spec["tolerations"]


@pytest.mark.parametrize(
    ("version", "row"), PLACEABLE, ids=lambda value: value if isinstance(value, str) else value.kind
)
def test_coordinators_stay_off_spot_nodes(version: str, row: WorkloadKind) -> None:
    for role in sorted(row.coordinators):
        for entry in row.specs:
            if entry.role not in (None, role):
                continue
            result = place(manifest(version, row, entry, role))
            spec = at(yaml.safe_load(result.after or b""), entry.path, role)
            assert spec["affinity"] == required(expression("NotIn"))
            assert "tolerations" not in spec
            assert "stays off spot nodes" in result.findings[0].message


@pytest.mark.parametrize("key", [key for key, row in KINDS.items() if row.refused], ids=str)
def test_what_serves_or_is_interactive_is_refused(key: tuple[str, str]) -> None:
    version, kind = key
    result = place(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{}}\n")
    assert result.after is None
    assert result.refused == KINDS[key].refused
    assert (
        place(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{}}\n", "avoid").refused is None
    )
