"""An instance type that the cluster's manifests do not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from arc_toolkit.azureml.documents import is_bound
from arc_toolkit.azureml.kinds import Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules._compute import kubernetes
from arc_toolkit.findings import Rule
from arc_toolkit.kube.labels import name_problem

_TYPE = Slot.INSTANCE_TYPE.path


def _check(plan: Plan) -> None:
    known = plan.settings.instance_types
    for target in plan.known_targets():
        path = target.path_of(_TYPE)
        name = plan.planned(target, *map(str, path)) if target.kind.resources else None
        if not name or is_bound(name) or name in known:
            continue
        if known:
            message, reason = f"no instance type {name} in --instance-types", _hint(name, known)
        else:  # what cannot be a name in Kubernetes is the name of no instance type
            message = name_problem(name) or ""
            reason = kubernetes(plan, target) if message else ""
        if reason:
            plan.report(RULE, message, target.get(*path) or target.at, reason=reason)


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known)[:5])}"


RULE = Rule("unknown-instance-type", "error", language="yaml, python", check=_check)
