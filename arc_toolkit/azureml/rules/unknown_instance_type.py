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


RULE = Rule(
    id="unknown-instance-type",
    severity="error",
    fix="none",
    summary="an instance type that does not exist",
    why="""\
A job with an instance type that the cluster does not know fails after it was submitted. With `--instance-types DIR`
(the folder that `gen-instance-types -o` writes) every name is checked beforehand. Without it, a name that no instance
type can have (`Standard_NC6`) is found where the compute is taken for Kubernetes, as by `missing-instance-type`.""",
    before="""\
resources:
  instance_type: 32cpu-128g
""",
    after="""\
resources:
  instance_type: 32cpu128g
""",
    language="yaml, python",
    check=_check,
)
