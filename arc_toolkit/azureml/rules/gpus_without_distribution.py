"""Several nodes with several GPUs each, and no distribution."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.threads import gpus_of, launched_processes
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        if target.kind.family != Family.COMMAND or target.kind.role not in (
            Role.JOB,
            Role.STEP,
            Role.COMPONENT,
        ):
            continue
        path = target.path_of(Slot.INSTANCE_COUNT.path)
        count = plan.planned(target, *map(str, path)) or ""
        if not count.isdigit() or int(count) < 2:
            continue
        gpus = gpus_of(plan.instance_type(target), plan.settings) or 0
        if (
            gpus > 1
            and not plan.is_distributed(target)
            and not launched_processes(plan.effective(target, "command"))
        ):
            message = f"{target.shown} asks for {count} x {gpus} GPUs and has no distribution: one process uses one"
            at = target.get(*path) or target.at
            plan.report(RULE, message, at)


RULE = Rule(
    "gpus-without-distribution",
    "warning",
    language="yaml, python",
    check=_check,
    needs=("instance_count",),
)
