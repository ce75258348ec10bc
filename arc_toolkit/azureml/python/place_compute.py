"""`--compute`: on the pipeline where it has a default, on each step that names its own, else on each step."""

from __future__ import annotations

import ast

from arc_toolkit.azureml.python.meaning import Builder, PipelineJob, Sweep
from arc_toolkit.azureml.python.names import Spot
from arc_toolkit.azureml.python.planner import Planner, Wanted, short
from arc_toolkit.azureml.python.targets import Target
from arc_toolkit.edit.python_editor import quoted

# Spellings of the default of a pipeline, in the decorator.
_DECORATOR = ("default_compute", "default_compute_target", "compute")
_JOB_DEFAULT = ("settings", "default_compute")


def _wanted(planner: Planner, target: Target | None = None) -> Wanted | None:
    compute = planner.settings.compute
    if compute is None or not planner.settings.wants("compute"):
        return None
    if target is not None and not planner.allows("compute", target.spot.source, target.call.lineno):
        return None
    return Wanted("compute", "compute", quoted(compute), compute)


def pipeline_defaults(planner: Planner) -> None:
    """Bring the defaults of pipelines up to what is asked: the decorator and `job.settings.default_compute`."""
    wanted = _wanted(planner)
    if wanted is None:
        return
    for spot, pipeline in planner.pipelines():
        for decorator in pipeline.function.decorator_list:
            for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
                if keyword.arg in _DECORATOR and isinstance(decorator, ast.Call):
                    what = f"pipeline {pipeline.function.name}: {keyword.arg}"
                    if _differs(planner, keyword.value, wanted, what, spot):
                        planner.changes.set_argument(spot, decorator, keyword.arg, wanted.text)
    for scope in planner.module.scopes:
        for name, uses in scope.uses.items():
            for use in uses:
                if use.how != "assign" or use.path != _JOB_DEFAULT:
                    continue
                of_pipeline = isinstance(planner.meanings.of_name(name, use.spot), PipelineJob)
                if of_pipeline and _differs(planner, use.value, wanted, ".".join((name, *use.path)), use.spot):
                    planner.changes.replace(use.spot, use.value, wanted.text)


def _differs(planner: Planner, existing: ast.expr, wanted: Wanted, what: str, spot: Spot) -> bool:
    outcome = planner.compare(existing, wanted)
    if outcome == "bound":
        reason = f"it is bound to {short(existing)}"
        planner.finding("compute", "note", f"{what} is left as it is", spot.source, existing, reason=reason)
    return outcome == "set" and planner.allows("compute", spot.source, existing.lineno)


def _has_default(planner: Planner, target: Target) -> bool:
    """Whether the pipeline of a target says where its steps run."""
    if target.pipeline is None:
        return False
    for decorator in target.pipeline.function.decorator_list:
        if isinstance(decorator, ast.Call) and any(keyword.arg in _DECORATOR for keyword in decorator.keywords):
            return True
    return any(
        use.path == _JOB_DEFAULT for scope in planner.module.scopes for uses in scope.uses.values() for use in uses
    )


def place_v2(planner: Planner, target: Target) -> None:
    wanted = _wanted(planner, target)
    if wanted is None:
        return
    assigned = [use for use in target.named(("compute",)) if use.how == "assign"]
    if assigned:
        if planner.decide(target, assigned[-1].value, wanted, assigned[-1].spot):
            planner.changes.replace(assigned[-1].spot, assigned[-1].value, wanted.text)
        return
    if isinstance(target.meaning, Builder | Sweep):
        own = next((keyword.value for keyword in target.call.keywords if keyword.arg == "compute"), None)
        used_in_pipeline = own is None and _has_default(planner, _first_step(planner, target))
        if not used_in_pipeline and planner.decide(target, own, wanted, target.spot):
            planner.changes.set_argument(target.spot, target.call, "compute", wanted.text)
        return
    inherited = target.builder is not None or target.swept
    if not target.name or inherited or _has_default(planner, target):
        return
    planner.changes.insert_after(target.spot, f"{target.name}.compute = {wanted.text}")


def _first_step(planner: Planner, target: Target) -> Target:
    """A step in a pipeline that was made of this command object, else the object itself."""
    for other in planner.targets:
        if other.pipeline is not None and other.builder is not None and other.builder.call is target.call:
            return other
    return target


def place_v15(planner: Planner, target: Target) -> None:
    wanted = _wanted(planner, target)
    if wanted is None:
        return
    assigned = [use for use in target.named(("runsettings", "target")) if use.how == "assign"]
    if assigned:
        if planner.decide(target, assigned[-1].value, wanted, assigned[-1].spot):
            planner.changes.replace(assigned[-1].spot, assigned[-1].value, wanted.text)
        return
    for use in target.named(("runsettings", "configure")):
        if isinstance(use.value, ast.Call):
            for keyword in use.value.keywords:
                if keyword.arg == "target":
                    if planner.decide(target, keyword.value, wanted, use.spot):
                        planner.changes.set_argument(use.spot, use.value, "target", wanted.text)
                    return
    if not _has_default(planner, target):
        planner.changes.insert_after(target.spot, f"{target.name}.runsettings.target = {wanted.text}")
