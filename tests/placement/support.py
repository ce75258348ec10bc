"""Placing one text, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import yaml

from arc_toolkit.findings import FileResult
from arc_toolkit.placement.place_files import PlaceFiles
from arc_toolkit.placement.place_plan import PlaceSettings
from arc_toolkit.placement.spot import CLOUDS, SpotPolicy

KEY = "kubernetes.azure.com/scalesetpriority"
TOLERATION = {"key": KEY, "operator": "Equal", "value": "spot", "effect": "NoSchedule"}


def expression(operator: str = "In", key: str = KEY, value: str = "spot") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [value]}


def required(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def place(
    text: str, spot: str | None = "require", cloud: str = "aks", **settings: Any
) -> FileResult:
    chosen = PlaceSettings(
        spot=SpotPolicy(spot) if spot else None, capacity=CLOUDS[cloud], **settings
    )
    return PlaceFiles(chosen).process("x.yaml", text.encode(), in_folder=False)


def placed(
    text: str, spot: str | None = "require", cloud: str = "aks", **settings: Any
) -> list[Any]:
    """The documents after placing, which must change something, and nothing the second time."""
    result = place(text, spot, cloud, **settings)
    assert result.after is not None, result
    again = place(result.after.decode(), spot, cloud, **settings)
    assert again.after is None
    return list(yaml.safe_load_all(result.after))


def pod(spec: str = "") -> str:
    head = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    return f"{head}spec:\n  containers: [{{name: c, image: busybox}}]\n{spec}"
