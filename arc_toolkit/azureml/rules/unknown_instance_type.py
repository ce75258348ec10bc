"""An instance type that the cluster's manifests do not have."""

from __future__ import annotations

import difflib

from arc_toolkit.azureml.documents import is_bound
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules.missing_instance_type import kubernetes
from arc_toolkit.findings import Rule
from arc_toolkit.kube.labels import name_problem


def _check(plan: Plan) -> None:
    known = plan.settings.instance_types
    if not known:
        _check_names(plan)
        return
    for target in plan.known_targets():
        name = plan.planned(target, "resources", "instance_type") if target.kind.resources else None
        if name and not is_bound(name) and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known)[:5])}"
            node = target.get("resources", "instance_type") or target.at
            plan.report(RULE, f"no instance type {name} in --instance-types", node, reason=hint)


def _check_names(plan: Plan) -> None:
    """Without manifests: what cannot be a name in Kubernetes is the name of no instance type."""
    for target in plan.known_targets():
        if target.kind.resources and "resources" in target.own:
            name = target.text("resources", "instance_type")
            if (
                name
                and not is_bound(name)
                and (problem := name_problem(name))
                and (why := kubernetes(plan, target))
            ):
                plan.report(RULE, problem, target.get("resources", "instance_type") or target.at, reason=why)


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
