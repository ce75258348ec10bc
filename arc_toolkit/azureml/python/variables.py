"""`--threads` in Python: the environment variables of a step, merged with those that it has.

Which variables, and why, is decided in `azureml/threads.py`; here is only where they go.
"""

from __future__ import annotations

import ast
import json
import os.path
from collections.abc import Iterator, Mapping

from arc_toolkit.azureml import threads
from arc_toolkit.azureml.documents import parse
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.python.meaning import Builder, Sweep
from arc_toolkit.azureml.python.names import Binding, Spot, calls_in
from arc_toolkit.azureml.python.planner import Planner, Wanted, given, short
from arc_toolkit.azureml.python.targets import Target
from arc_toolkit.azureml.threads import PRESTEP, RESTEP, Decision, Evidence
from arc_toolkit.edit.python_editor import Place, quoted


def place_v2(planner: Planner, target: Target) -> None:
    """Variables on a command object, or on a step of a component."""
    decision = _decision(planner, target)
    if decision is None:
        return
    in_pipeline = target.pipeline is not None
    if isinstance(target.meaning, Sweep) or target.swept:
        if isinstance(target.meaning, Sweep) and in_pipeline:
            reason = "a sweep in a pipeline loses environment variables: export them in the command of its trial"
            _cannot(planner, target, reason)
        if in_pipeline or isinstance(target.meaning, Sweep):
            return  # standalone: the command object of the trial has them
    assigned = [use for use in target.named(("environment_variables",)) if use.how == "assign"]
    if assigned:
        _merge(planner, target, assigned[-1].spot, assigned[-1].value, decision)
    elif isinstance(target.meaning, Builder):
        own = next((item.value for item in target.call.keywords if item.arg == "environment_variables"), None)
        if own is not None:
            _merge(planner, target, target.spot, own, decision)
        elif variables := decision.variables({}):
            planner.changes.set_argument(target.spot, target.call, "environment_variables", display(variables))
            _said(planner, target, variables, decision)
    elif target.builder is None:
        _subscripts_or_new(planner, target, f"{target.name}.environment_variables", decision)


def place_v15(planner: Planner, target: Target) -> None:
    decision = _decision(planner, target)
    if decision is None:
        return
    assigned = [use for use in target.named(("runsettings", "environment_variables")) if use.how == "assign"]
    if assigned:
        _merge(planner, target, assigned[-1].spot, assigned[-1].value, decision)
        return
    for use in target.named(("runsettings", "configure")):
        if isinstance(use.value, ast.Call):
            for keyword in use.value.keywords:
                if keyword.arg == "environment_variables":
                    _merge(planner, target, use.spot, keyword.value, decision)
                    return
    _subscripts_or_new(planner, target, f"{target.name}.runsettings.environment_variables", decision)


# --- where --------------------------------------------------------------------------------------------------------


def _merge(planner: Planner, target: Target, place: Place, holder: ast.expr, decision: Decision) -> None:
    """Into a dict display or `dict(...)`."""
    if planner.kept(Wanted("threads", "environment_variables", ""), place, holder):
        return None
    is_dict = isinstance(holder, ast.Dict)
    if not is_dict and not (
        isinstance(holder, ast.Call) and isinstance(holder.func, ast.Name) and holder.func.id == "dict"
    ):
        return _cannot(
            planner, target, f"its environment variables are {ast.unparse(holder)[:60]}, made elsewhere"
        )
    assert isinstance(holder, ast.Dict | ast.Call)
    there = given(holder)
    if there is None:
        return _cannot(planner, target, "some of its environment variables come from **")
    if RESTEP in there and PRESTEP not in there and planner.settings.wants("amlarc-restep"):
        there[PRESTEP] = there[RESTEP]  # the rule renames it in the same run
    bound = [name for name in (*decision.names, PRESTEP) if not _is_text(there.get(name))]
    if bound:
        return _cannot(planner, target, f"its {bound[0]} is not a literal")
    old = {name: str(node.value) for name, node in there.items() if isinstance(node, ast.Constant)}
    variables = decision.variables(old)
    if not variables:
        return planner.equal(target, Wanted("threads", "environment_variables", "as it should be"))
    for name, value in variables.items():
        if name in there and name not in (given(holder) or {}):
            planner.changes.replace(place, there[name], quoted(value))
        elif isinstance(holder, ast.Dict):
            planner.changes.set_item(place, holder, name, quoted(value))
        else:
            planner.changes.set_argument(place, holder, name, quoted(value))
    return _said(planner, target, variables, decision)


def _subscripts_or_new(planner: Planner, target: Target, holder: str, decision: Decision) -> None:
    """`step.environment_variables["NAME"] = ...` where that is the habit, else one new assignment."""
    path = tuple(holder.split(".")[1:])
    single = [use for use in target.uses if use.how == "assign" and use.path[:-1] == path]
    old = {
        use.path[-1][1:-1]: str(use.value.value)
        for use in single
        if use.path[-1].startswith("[") and isinstance(use.value, ast.Constant)
    }
    if any(not isinstance(use.value, ast.Constant) for use in single):
        return _cannot(planner, target, "one of its environment variables is not a literal")
    variables = decision.variables(old)
    if not variables:
        return planner.equal(target, Wanted("threads", "environment_variables", "as it should be"))
    if not single:
        planner.changes.insert_after(target.spot, f"{holder} = {display(variables)}")
        return _said(planner, target, variables, decision)
    for name, value in variables.items():
        existing = [use for use in single if use.path[-1] == f"[{name}]"]
        if existing:
            planner.changes.replace(existing[-1].spot, existing[-1].value, quoted(value))
        else:
            planner.changes.insert_after(single[-1].spot, f"{holder}[{quoted(name)}] = {quoted(value)}")
    return _said(planner, target, variables, decision)


def display(variables: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{quoted(name)}: {quoted(value)}" for name, value in variables.items()) + "}"


def _is_text(node: ast.expr | None) -> bool:
    return node is None or isinstance(node, ast.Constant)


# --- what ---------------------------------------------------------------------------------------------------------


def _decision(planner: Planner, target: Target) -> Decision | None:
    """What to write, or None; a decision that something is missing is reported here."""
    settings = planner.settings
    if settings.threads in (None, "off") or not planner.allows("threads", target.spot.source, target.call.lineno):
        return None
    from arc_toolkit.azureml.python.expose_python import current

    instance_type = settings.instance_type
    if instance_type is None:
        there = current(target, "instance_type", planner.meanings)
        instance_type = there if isinstance(there, str) else None
    processes = _processes(target)
    number = processes.value if isinstance(processes, ast.Constant) else None
    number = number if isinstance(number, int) else None
    decision = threads.decide(
        settings,
        _evidence(planner, target),
        instance_type=instance_type,
        # Any step with several processes on a node shares its cores among them.
        parallel=target.family == Family.PARALLEL or (number or 0) > 1,
        processes=number,
    )
    if decision.how in ("prestep", "literal") and processes is not None and number is None:
        _cannot(planner, target, f"its processes per node are {short(processes)}, which is not a literal")
        return None
    if decision.how == "cannot":
        _cannot(planner, target, decision.reason)
    return decision if decision.how in ("prestep", "literal") else None


_SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json"
# Arguments of command(...) and parallel_run_function(task=RunFunction(...)) that say what runs.
_TELLING = {"command": "command", "program_arguments": "command", "code": "code"}


def _evidence(planner: Planner, target: Target) -> list[Evidence]:
    """What the code, the component file and all that they name say about frameworks and workers."""
    found: list[Evidence] = []
    if target.builder is not None:
        found += _of_builder(planner, target.builder, target.spot)
    component = target.component
    if component is not None and component.file:
        path = os.path.normpath(os.path.join(planner.meanings.folder, component.file))
        if component.document is not None:
            found += planner.library.evidence(component.document.root, path)
        found += threads.evidence_in_command(os.path.basename(component.file), "the name of the component file")
    return list(dict.fromkeys(found))


def _of_builder(planner: Planner, builder: Builder, spot: Spot) -> Iterator[Evidence]:
    """The literals of the call, looked at as the YAML that would say the same."""
    spec: dict[str, object] = {"$schema": _SCHEMA, "type": "command", "command": ""}
    environment: dict[str, str] = {}
    spot = builder.spot or spot
    for call in calls_in(builder.call):
        for keyword in call.keywords:
            value = planner.meanings.text(keyword.value, spot)
            if value is not None and keyword.arg in _TELLING:
                spec[_TELLING[keyword.arg]] = value
            elif keyword.arg == "environment":
                environment |= _environment(planner, keyword.value, spot)
    if environment:
        spec["environment"] = environment.get("", environment)
    document = parse(planner.path, json.dumps(spec).encode(), planner.library.kind_of).documents[0]
    yield from planner.library.evidence(document.root, planner.path)


def _environment(planner: Planner, node: ast.expr, spot: Spot) -> dict[str, str]:
    """`environment="name"` as {"": name}, or the literals of the `Environment(...)` that it names."""
    if (name := planner.meanings.text(node, spot)) is not None:
        return {"": name}
    if isinstance(node, ast.Name):
        found = planner.meanings.binding(node.id, spot)
        if isinstance(found, Binding) and isinstance(found.value, ast.expr):
            node, spot = found.value, found.spot
    if not isinstance(node, ast.Call):
        return {}
    pairs = ((keyword.arg, planner.meanings.text(keyword.value, spot)) for keyword in node.keywords)
    return {name: value for name, value in pairs if name in ("image", "conda_file", "name") and value is not None}


def _processes(target: Target) -> ast.expr | None:
    """Processes per node of a step, where it says so: PRS in its own words, v1.5 in three places."""
    found: ast.expr | None = None
    if target.builder is not None:
        found = (given(target.builder.call) or {}).get("max_concurrency_per_instance")
    if target.component is not None and target.component.document is not None:
        written = target.component.document.root.text("max_concurrency_per_instance")
        found = ast.Constant(int(written)) if written is not None and written.isdigit() else found
    names = ("process_count_per_node", "max_concurrency_per_instance")
    for use in target.uses:
        if use.how == "assign" and use.path[-1] in names:
            found = use.value
        elif use.path[-1] == "configure" and isinstance(use.value, ast.Call):
            found = (given(use.value) or {}).get("process_count_per_node", found)
    return found


def _said(planner: Planner, target: Target, variables: Mapping[str, str], decision: Decision) -> None:
    names = ", ".join(variables)
    message = f"{target.name or target.family}: environment variable{'s' if len(variables) > 1 else ''} {names}"
    planner.finding(
        "threads", "note", message, target.spot.source, target.call, applied=True, reason=decision.reason
    )


def _cannot(planner: Planner, target: Target, reason: str) -> None:
    planner.finding(
        "threads",
        "warning",
        f"{target.name or target.family}: thread settings are not written",
        target.spot.source,
        target.call,
        reason=reason,
    )
