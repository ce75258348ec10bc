"""The annotation of a namespace that gives every pod in it tolerations, when the pod is created.

It is read by the admission plugin PodTolerationRestriction, which AKS has on:
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podtolerationrestriction
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.labels import is_namespace
from arc_toolkit.kube.taints import EFFECTS, SPOT_TAINT, Toleration

ANNOTATION = "scheduler.alpha.kubernetes.io/defaultTolerations"


def annotation_text() -> str:
    """The toleration of AKS's spot pools as the plugin reads it: JSON on one line."""
    taint = SPOT_TAINT
    row = {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
    return json.dumps([row], separators=(",", ":"))


def annotate_command(namespace: str) -> str:
    """kubectl refuses it where another text is there: nobody's tolerations are lost."""
    return f"kubectl annotate namespace {namespace} {ANNOTATION}={shlex.quote(annotation_text())}"


def namespace_manifest(namespace: str) -> dict[str, Any]:
    """The same for `kubectl apply`, which makes the namespace where it is missing."""
    if not is_namespace(namespace):
        raise ArcError(
            f"{namespace!r} cannot be a namespace: use lower-case letters, digits and - (RFC 1123)"
        )
    metadata = {"name": namespace, "annotations": {ANNOTATION: annotation_text()}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def annotated_tolerations(annotations: Mapping[str, str]) -> list[Toleration]:
    """What pods of a namespace with these annotations tolerate; an ArcError where the plugin lets no pod in."""
    text = annotations.get(ANNOTATION)
    if not text:
        return []
    try:
        rows = json.loads(text) or []
    except ValueError:
        raise ArcError(f"its annotation {ANNOTATION} is not valid JSON") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ArcError(f"its annotation {ANNOTATION} is not a list of tolerations")
    if wrong := [row for row in rows if row.get("effect") not in (None, "", *EFFECTS)]:
        raise ArcError(f"its annotation {ANNOTATION} has the effect {wrong[0]['effect']!r}")
    return [
        Toleration(
            str(row.get("key") or ""),
            None if row.get("operator") == "Exists" else str(row.get("value") or ""),
            str(row.get("effect") or ""),
        )
        for row in rows
    ]
