"""SDK v2: `node.resources = JobResourceConfiguration(...)`, and keyword arguments of command objects.

`node.set_resources(...)` writes into the component that all nodes share, so it becomes an assignment. A sweep takes
no `instance_type=` (TypeError); its `resources` do.
"""

from __future__ import annotations

import ast

from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.python import place_compute as compute
from arc_toolkit.azureml.python import variables as environment
from arc_toolkit.azureml.python.expose_python import Exposure
from arc_toolkit.azureml.python.meaning import Builder, Step, Sweep
from arc_toolkit.azureml.python.names import Use
from arc_toolkit.azureml.python.planner import Planner, Wanted, constant, given
from arc_toolkit.azureml.python.targets import SETTINGS, Target
from arc_toolkit.edit.edits import Refused
from arc_toolkit.edit.python_editor import Changes

SET_RESOURCES = "set-resources"
SWEEP_ARGUMENT = "sweep-instance-type"
# What is said about the resources of a command object after its call.
_SAID_LATER = (
    ("resources",),
    ("set_resources",),
    ("resources", "instance_type"),
    ("resources", "instance_count"),
)
# Arguments of command(...) that end up in `resources`, so that a new `resources` of a node has to repeat them.
_RESOURCE_ARGUMENTS = ("instance_type", "instance_count", "locations", "docker_args", "shm_size")


def place(planner: Planner, target: Target, exposure: Exposure, chosen: bool) -> None:
    """Mend what is wrong with a target, and give it what was asked for."""
    wanted = exposure.wanted(target) if chosen else []
    _without_resources(planner, target)
    with planner.changes.record() as fix:
        moved = _drop_sweep_arguments(planner, target, wanted)
        if chosen and isinstance(target.meaning, Builder):
            _builder(planner, target, wanted, exposure)
        elif target.name and not target.refusal:
            # The step that a sweep is made of hands everything on: the sweep gets it.
            _node(planner, target, [] if target.swept else [*wanted, *moved], exposure)
    _report_sweep_arguments(planner, target, fix)
    if chosen:
        environment.place_v2(planner, target)
        compute.place_v2(planner, target)


def _without_resources(planner: Planner, target: Target) -> None:
    """`node.resources.x = ...` where nothing gave it any: `resources` is None then (azure-ai-ml 1.35.2)."""
    if isinstance(target.meaning, Builder):
        there = given(target.call)
        if there is None or any(name in there for name in _RESOURCE_ARGUMENTS):
            return
        giver = f"its {target.family}(...)" if target.family == Family.COMMAND else "its call"
    elif target.component is not None and target.component.document is not None:
        if target.component.document.root.get("resources") is not None:
            return
        giver = target.component.file
    else:
        return
    for use in target.uses:
        if use.how == "argument" or use.path[0] not in ("resources", "set_resources"):
            continue
        if len(use.path) == 1:
            return
        planner.finding(
            "instance-type",
            "error",
            f"{target.name}.resources is None, since {giver} has no resources (AttributeError)",
            use.spot.source,
            use.spot.stmt,
            reason=f"write {target.name}.resources = JobResourceConfiguration(...)",
        )


def _builder(planner: Planner, target: Target, wanted: list[Wanted], exposure: Exposure) -> None:
    # What is said about its resources after the call overrules the arguments.
    if exposure.exposes(target) or target.named(*_SAID_LATER):
        _node(planner, target, wanted, exposure)
    else:
        literals = [item for item in wanted if item.value is not None]
        planner.fill(target, target.spot, target.call, literals)


def _node(planner: Planner, target: Target, wanted: list[Wanted], exposure: Exposure) -> None:
    configured = target.named(("resources",))
    calls = [use for use in target.named(("set_resources",)) if use.how == "call"]
    if calls and not _mend_set_resources(planner, target, calls, configured):
        for item in wanted:
            planner.left(target, item, "set_resources stays, see there")
        return
    if not wanted:
        return
    written: list[Wanted] = []
    single = {item.name: target.named(("resources", item.name)) for item in wanted}
    alone = [item for item in wanted if single[item.name]]
    for item in alone:
        use = single[item.name][-1]
        if planner.decide(target, use.value, item, use.spot):
            planner.changes.replace(use.spot, use.value, item.text)
            written.append(item)
    rest = [item for item in wanted if not single[item.name]]
    holder = calls[0] if calls else configured[-1] if configured else None
    if not rest:
        pass
    elif holder is not None:
        if isinstance(holder.value, ast.Call | ast.Dict) and _is_config(planner, holder, bool(calls)):
            written += planner.fill(target, holder.spot, holder.value, rest)
        else:
            for item in rest:
                planner.left(target, item, f"its resources are {ast.unparse(holder.value)[:60]}, made elsewhere")
    elif others := [use for use in target.uses if use.how == "assign" and use.path[:1] == ("resources",)]:
        # `node.resources.x = ...` is there, so `resources` is not None: one more of the same kind.
        for item in rest:
            planner.changes.insert_after(others[-1].spot, f"{target.name}.resources.{item.name} = {item.text}")
        written += rest
    elif not _inherits(planner, target, exposure):
        written += _assign(planner, target, rest)
    for item in written:
        exposure.use(target, item)


def _inherits(planner: Planner, target: Target, exposure: Exposure) -> bool:
    """Whether the command object of this step is given the values itself, so that the step has them."""
    builder = target.builder
    if builder is None or target.builder is target.meaning or exposure.exposes(target):
        return False
    for other in planner.targets:
        if isinstance(other.meaning, Builder) and other.call is builder.call:
            return planner.chosen(other) and not other.refusal
    return False


def inherits_all(planner: Planner, target: Target, exposure: Exposure) -> bool:
    """Whether a step needs nothing of its own: its command object is given all, and nothing is said about it here."""
    own = any(use.how == "argument" or use.path[0] in SETTINGS for use in target.uses)
    return not own and isinstance(target.meaning, Step) and _inherits(planner, target, exposure)


def _assign(planner: Planner, target: Target, wanted: list[Wanted]) -> list[Wanted]:
    """`node.resources = JobResourceConfiguration(...)` after the step."""
    values = {item.name: item.text for item in wanted}
    try:
        if target.builder is not None:
            values = {**_kept(target), **values}
        name = planner.resources_class(target.spot)
    except Refused as error:
        for item in wanted:
            planner.left(target, item, str(error))
        return []
    arguments = ", ".join(f"{key}={value}" for key, value in values.items())
    planner.changes.insert_after(target.spot, f"{target.name}.resources = {name}({arguments})")
    return wanted


def _kept(target: Target) -> dict[str, str]:
    """What command(...) says about resources: a new `resources` would forget it."""
    builder = target.builder
    assert builder is not None
    kept = {}
    source = builder.spot.source if builder.spot is not None else target.spot.source
    for keyword in builder.call.keywords:
        if keyword.arg in _RESOURCE_ARGUMENTS:
            if not all(isinstance(part, ast.Constant | ast.List | ast.Load) for part in ast.walk(keyword.value)):
                raise Refused(f"its command object sets {keyword.arg} to {ast.unparse(keyword.value)[:60]}")
            kept[keyword.arg] = " ".join(source.slice(keyword.value).split())
    return kept


def _is_config(planner: Planner, holder: Use, is_call: bool) -> bool:
    if is_call or isinstance(holder.value, ast.Dict):
        return True
    return planner.meanings.makes_resources(holder.value, holder.spot)


# --- what the SDK does wrong -------------------------------------------------------------------------------------


def _mend_set_resources(planner: Planner, target: Target, calls: list[Use], configured: list[Use]) -> bool:
    """`node.set_resources(a)` -> `node.resources = JobResourceConfiguration(a)`; False when it has to stay."""
    if not planner.settings.wants(SET_RESOURCES):
        return True
    call = calls[0].value
    assert isinstance(call, ast.Call)
    reason = ""
    fix: Changes | None = None
    if len(calls) > 1:
        reason = "it is called more than once"
    elif configured:
        reason = "resources is assigned as well"
    elif call.args or any(keyword.arg is None for keyword in call.keywords):
        reason = "its arguments come from ** or by position"
    else:
        try:
            with planner.changes.record() as fix:
                name = planner.resources_class(calls[0].spot)
                planner.changes.call_to_assignment(calls[0].spot, f"{target.name}.resources", name)
        except Refused as error:
            reason = str(error)
    for use in calls:
        planner.finding(
            SET_RESOURCES,
            "warning",
            f"{target.name}.set_resources() writes into the component that all its steps share, and a bound"
            " instance_count then fails to serialize: assign resources = JobResourceConfiguration(...) instead",
            use.spot.source,
            use.spot.stmt,
            reason=reason,
            fix=None if reason else fix,
            title=f"Assign {target.name}.resources",
        )
    return not reason


def _sweep_arguments(planner: Planner, target: Target) -> dict[str, ast.keyword]:
    """The arguments of `.sweep(instance_type=...)`, which raises TypeError."""
    if not isinstance(target.meaning, Sweep) or not planner.settings.wants(SWEEP_ARGUMENT):
        return {}
    names = ("instance_type", "instance_count")
    return {keyword.arg: keyword for keyword in target.call.keywords if keyword.arg in names}


def _drop_sweep_arguments(planner: Planner, target: Target, wanted: list[Wanted]) -> list[Wanted]:
    """What the `resources` of the sweep have to say instead of its arguments, where it has a name."""
    if not target.name or target.refusal:
        return []
    names = {item.name for item in wanted}
    moved = []
    for name, keyword in _sweep_arguments(planner, target).items():
        planner.changes.drop_argument(target.spot, target.call, name)
        if name not in names:
            text = target.spot.source.slice(keyword.value)
            value = constant(target.call, name)
            moved.append(Wanted(SWEEP_ARGUMENT, name, text, text if value is None else value))
    return moved


def _report_sweep_arguments(planner: Planner, target: Target, fix: Changes) -> None:
    fixable = target.name and not target.refusal
    for name, keyword in _sweep_arguments(planner, target).items():
        planner.finding(
            SWEEP_ARGUMENT,
            "error",
            f"sweep() has no argument {name} (TypeError): it belongs in the resources of the sweep",
            target.spot.source,
            keyword,
            reason="" if fixable else target.refusal or "the sweep has no name to set its resources by",
            fix=fix if fixable else None,
            title=f"Assign {target.name}.resources",
        )
