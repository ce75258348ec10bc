"""Rules about calls of the SDKs in Python code, and about v1 steps, which have no instance type."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, cast

from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.python.parallel_runs import EQUIVALENTS, field_names, find_parallel_runs
from arc_toolkit.azureml.python.sdk_objects import LEAF_ATTRIBUTES, Builder
from arc_toolkit.findings import rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import PythonPlan
    from arc_toolkit.azureml.python.python_targets import PythonTarget
    from arc_toolkit.azureml.python.python_writer import PythonWriter
    from arc_toolkit.edit.code.names import Use

# Attributes of a command object that create no step.
_HARMLESS = LEAF_ATTRIBUTES | {
    *("outputs", "inputs", "name", "display_name", "description", "tags", "properties"),
    *("identity", "services", "set_limits", "set_queue_settings", "queue_settings"),
    *("environment", "code", "command"),
}


@rule("error", language="python", needs=(".resources.",))
def missing_resources(plan: Plan) -> None:
    code = cast("PythonPlan", plan)
    for target in code.python_targets:
        giver = target.what_lacks_resources if target.generation == "v2" else ""
        for use in target.uses if giver else ():
            if use.how == "argument" or use.path[0] not in ("resources", "set_resources"):
                continue
            if len(use.path) == 1:
                break  # from here on it has resources
            problem = f"since {giver} has no resources (AttributeError)"
            message = f"{target.name}.resources is None, {problem}"
            reason = f"write {target.name}.resources = JobResourceConfiguration(...)"
            plan.report(missing_resources, message, code.at(use.statement), reason=reason)


@rule("warning", fix="safe", language="python", needs=("set_resources",))
def set_resources(plan: Plan) -> None:
    code = cast("PythonPlan", plan)
    targets = {
        id(use): target
        for target in code.python_targets
        if target.generation == "v2" and not target.refusal
        for use in target.set_resources
    }
    for scope in code.module.scopes:
        for name, uses in scope.uses.items():
            for use in uses:
                if use.how == "call" and use.path == ("set_resources",):
                    _report_set_resources(code, name, use, targets.get(id(use)))


def _report_set_resources(
    plan: PythonPlan, name: str, use: Use, target: PythonTarget | None
) -> None:
    message = f"{name}.set_resources() writes into the component that all its steps share"
    advice = "assign resources = JobResourceConfiguration(...) instead"
    node = plan.at(use.statement)
    if target is None:
        if isinstance(plan.resolver.object_of_name(name, use.statement), Builder):
            return  # a standalone job does not share its component
        reason = f"it is not certain which step {name} is"
        plan.report(set_resources, f"{message}: {advice}", node, reason=reason)
        return

    def fix(writer: PythonWriter) -> None:
        writer.assign_resources(target, use)

    problem = target.set_resources_problem
    plan.report(
        set_resources,
        f"{message}, and a bound instance_count then fails to serialize: {advice}",
        node,
        reason=problem,
        fix=None if problem else fix,
        title=f"Assign {name}.resources",
    )


@rule("error", fix="safe", language="python", needs=("sweep",))
def sweep_instance_type(plan: Plan) -> None:
    code = cast("PythonPlan", plan)
    for target in code.python_targets:
        keywords = target.call.keywords if target.is_sweep else []
        arguments = [item for item in keywords if item.arg in ("instance_type", "instance_count")]
        for argument in arguments:
            _report_sweep(code, target, arguments, argument)


def _report_sweep(
    plan: PythonPlan, target: PythonTarget, arguments: list[ast.keyword], argument: ast.keyword
) -> None:
    def fix(writer: PythonWriter) -> None:
        """Move all arguments at once: moving one would leave a call that raises."""
        for item in arguments:
            name, value = str(item.arg), target.statement.source.slice(item.value)
            writer.changes.drop_argument(target.statement, target.call, name)
            writer.add_resource(target, name, value, keep=True)  # a value of this run wins

    has_no_name = "" if target.name else "the sweep has no name to set its resources by"
    problem = target.refusal or has_no_name
    place = "it belongs in the resources of the sweep"
    plan.report(
        sweep_instance_type,
        f"sweep() has no argument {argument.arg} (TypeError): {place}",
        plan.at(target.statement, argument),
        reason=problem,
        fix=None if problem else fix,
        title=f"Assign {target.name}.resources",
    )


@rule("error", language="python", needs=("command(", "parallel_run_function("))
def uncalled_command(plan: Plan) -> None:
    for target in cast("PythonPlan", plan).python_targets:
        builder, pipeline = target.builder, target.pipeline
        if builder is None or builder.call is not target.call or builder.is_entity:
            continue
        if target.refusal or pipeline is None or not target.name:
            continue
        if _creates_no_step(target.name, pipeline.function):
            message = f"{target.name} is not a step of {pipeline.function.name}: it is never called"
            call = f"{target.name} = {ast.unparse(target.call.func)}(...)()"
            reason = f"write {call}, with its inputs in the second call"
            plan.report(uncalled_command, message, target.at, reason=reason)


def _creates_no_step(name: str, function: ast.FunctionDef) -> bool:
    """Whether a function only reads and sets attributes of the command object with this name."""
    attributes = {
        id(node.value): node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)
    }
    return all(
        attributes.get(id(node)) in _HARMLESS
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    )


@rule("warning", language="yaml, python", needs=("SweepComponent", "runsettings"))
def legacy_sweep(plan: Plan) -> None:
    if plan.language == "python":
        _check_runsettings(cast("PythonPlan", plan))
        return
    for root in (document.root for document in plan.documents):
        if root.kind.family == Family.SWEEP and root.kind.role == Role.SPEC:
            problem = "a SweepComponent (v1.5) cannot name an instance type"
            message = f"{problem}: it has to become a v2 sweep"
            reason = "`patch --sweep-to-v2` writes the v2 sweep beside it"
            plan.report(legacy_sweep, message, root.at, reason=reason)


def _check_runsettings(plan: PythonPlan) -> None:
    """`step.runsettings.sweep...`, once for each step."""
    is_converting = plan.settings.sweep_to_v2
    for scope in plan.module.scopes:
        for name, uses in scope.uses.items():
            sweeps = [use for use in uses if use.path[:2] == ("runsettings", "sweep")]
            if sweeps:
                message = f"{name} is a sweep of SDK v1.5, which takes no instance type"
                reason = "convert it with --sweep-to-v2"
                if is_converting:
                    reason = "it is not converted, see there"
                plan.report(legacy_sweep, message, plan.at(sweeps[0].statement), reason=reason)


@rule("warning", language="python", needs=("ParallelRun",))
def prs_instance_type(plan: Plan) -> None:
    code = cast("PythonPlan", plan)
    settings = plan.settings
    for step, config in find_parallel_runs(code.resolver):
        run = step or config
        assert run is not None
        names = [name for name in field_names(step, config) if name in EQUIVALENTS]
        mapped = ", ".join(f"{name} -> {EQUIVALENTS[name]}" for name in dict.fromkeys(names))
        node = code.at(run.statement, run.call)
        is_converting = settings.prs_to_v2 and settings.wants("prs-to-v2")
        reason = f"v2: {mapped}" if mapped else ""
        if not is_converting or plan.covers("prs-to-v2", node):
            reason += "; --prs-to-v2 writes it as YAML"
        plan.report(
            prs_instance_type,
            "ParallelRunStep of SDK v1 cannot name an instance type, so on Kubernetes it always"
            " gets the default one: a v2 parallel step can",
            node,
            reason=reason,
        )
