"""`--expose-parameters`: instance type and count as parameters of the pipeline function, bound in its steps.

A parameter is added when the first step is bound to it, with a default: what was asked for, else the one value that
all steps have, else (for a count that no step says) 1, which is what the SDKs assume. Steps that differ, one of them
without any value included, are not made equal: the parameter is refused.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from arc_toolkit.azureml.python.meaning import Builder, Meanings, Sweep
from arc_toolkit.azureml.python.names import Binding, Spot
from arc_toolkit.azureml.python.planner import Planner, Wanted, given, short
from arc_toolkit.azureml.python.targets import Target
from arc_toolkit.edit import python_layout as layout
from arc_toolkit.edit.edits import Refused
from arc_toolkit.edit.python_editor import quoted

_NAMES = ("instance_type", "instance_count")
# What holds both values.
_HOLDERS = (
    ("resources",),
    ("set_resources",),
    ("runsettings", "configure"),
    ("runsettings", "parallel", "configure"),
    ("runsettings", "resource_layout", "configure"),
)


@dataclass(frozen=True)
class _Parameter:
    name: str
    default: str
    exists: bool


class Exposure:
    """What each pipeline function can expose."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self._functions: dict[int, dict[str, _Parameter]] = {}
        self._spots: dict[int, Spot] = {}
        self._used: set[tuple[int, str]] = set()
        settings = planner.settings
        if not (settings.expose_parameters and settings.wants("expose-parameters")):
            return
        for spot, pipeline in planner.pipelines():
            inside = [
                target
                for target in planner.targets
                if target.pipeline is not None and target.pipeline.function is pipeline.function
            ]
            inside = [
                target
                for target in inside
                if planner.chosen(target) and not (target.refusal or target.legacy_sweep)
            ]
            if inside:
                self._spots[id(pipeline.function)] = spot
                self._functions[id(pipeline.function)] = self._parameters(spot, pipeline.function, inside)

    def wanted(self, target: Target) -> list[Wanted]:
        """The values for a target: parameters where its pipeline exposes them, else literals."""
        parameters = {}
        if target.pipeline is not None:
            parameters = self._functions.get(id(target.pipeline.function), {})
        found = [item for item in self.planner.resources_wanted if item.name not in parameters]
        found += [Wanted("expose-parameters", name, name) for name in parameters]
        source, line = target.spot.source, target.call.lineno
        found = [item for item in found if self.planner.allows(item.rule, source, line)]
        found = [item for item in found if not self.planner.kept(item, target.spot, target.call)]
        return sorted(found, key=lambda item: _NAMES.index(item.name))

    def exposes(self, target: Target) -> bool:
        return target.pipeline is not None and bool(self._functions.get(id(target.pipeline.function)))

    def use(self, target: Target, wanted: Wanted) -> None:
        """A step was bound: see that the parameter is there."""
        if wanted.value is not None or target.pipeline is None:
            return
        function = target.pipeline.function
        key = id(function), wanted.name
        if key in self._used:
            return
        self._used.add(key)
        parameter, spot = self._functions[id(function)][wanted.name], self._spots[id(function)]
        if not parameter.exists:
            self.planner.changes.add_parameter(spot, function, wanted.name, parameter.default)

    def finish(self) -> None:
        """Bring the defaults of parameters that were there up to what is asked."""
        for identity, parameters in self._functions.items():
            spot = self._spots[identity]
            function = spot.stmt
            assert isinstance(function, ast.FunctionDef)
            for parameter in parameters.values():
                if parameter.exists:
                    self._default(spot, function, parameter.name)

    def _default(self, spot: Spot, function: ast.FunctionDef, name: str) -> None:
        asked = {item.name: item for item in self.planner.resources_wanted}.get(name)
        default = _default_of(function, name)
        if asked is None or not isinstance(default, ast.Constant) or default.value == asked.value:
            return
        self.planner.changes.replace(spot, default, asked.text)

    def _parameters(self, spot: Spot, function: ast.FunctionDef, inside: list[Target]) -> dict[str, _Parameter]:
        found = {}
        for name in _NAMES:
            exists = _has(function, name)
            free = [target for target in inside if not target.swept and not self._kept(target, name)]
            if not free:
                continue
            default, reason = self._start(name, free, _default_of(function, name) if exists else None)
            if exists:
                pass
            elif isinstance(self.planner.meanings.binding(name, _inner(self.planner, function, spot)), Binding):
                reason = f"the name {name} is already a variable here"
            else:
                try:
                    layout.append_parameters(spot.source, function, [])
                except Refused as error:
                    reason = str(error)
            if reason:
                message = f"pipeline {function.name}: {name} is not exposed"
                self.planner.finding("expose-parameters", "warning", message, spot.source, function, reason=reason)
            else:
                found[name] = _Parameter(name, default, exists)
        return found

    def _kept(self, target: Target, name: str) -> bool:
        """Whether a comment at the step, or at the line that says the value, keeps it as it is."""
        wanted = Wanted("expose-parameters", name, name)
        said = stated(target, name, self.planner.meanings)
        places = [(target.spot, target.call), *([(said[1], said[0])] if said is not None else [])]
        return any(self.planner.kept(wanted, place, node) for place, node in places)

    def _start(self, name: str, targets: list[Target], declared: ast.expr | None) -> tuple[str, str]:
        """The default of a parameter that all these steps can share without a change of theirs; or why there is none.

        `declared` is the default that a parameter of this name has already.
        """
        asked = {item.name: item.text for item in self.planner.resources_wanted}
        if name in asked:
            return asked[name], ""
        values = {self._value(target, name) for target in targets} - {BOUND}
        there = declared.value if isinstance(declared, ast.Constant) else None
        option = f"give --{name.replace('_', '-')}"
        if len(values) > 1:
            known = ", ".join(sorted(str(value) for value in values if value is not None))
            shown = known + (" and none" if None in values else "")
            return "", f"its steps differ ({shown}): {option} to use one value for all"
        value = values.pop() if values else None
        if declared is not None and value not in (None, there):
            return "", f"its steps have {value}, and the default of the parameter is {short(declared)}: {option}"
        if isinstance(value, str):
            return quoted(value), ""
        if value is None and declared is None and name == "instance_type":
            return "", f"no step says which: {option}"
        return "1" if value is None else str(value), ""

    def _value(self, target: Target, name: str) -> str | int | None:
        """What a step has now; a sweep has what its trial has, unless it says otherwise."""
        said = stated(target, name, self.planner.meanings)
        if said is not None and not isinstance(said[0], ast.Constant):
            return BOUND
        value = current(target, name, self.planner.meanings)
        if value is None and isinstance(target.meaning, Sweep):
            base = getattr(target.meaning.base, "call", None)
            trial = next((other for other in self.planner.targets if other.call is base), None)
            return self._value(trial, name) if trial is not None else None
        return value


# Stands for a value that is no literal: its step is left as it is.
BOUND = "\0bound"


def stated(target: Target, name: str, meanings: Meanings) -> tuple[ast.expr, Spot] | None:
    """The expression that says a value of a target, and where; what holds it, when its inside is not known."""
    names = (name, "node_count") if name == "instance_count" else (name,)
    found = None
    for use in target.uses:
        if use.how == "argument":
            continue
        if use.path[-1] in names:
            found = use.value, use.spot
        elif use.path in _HOLDERS:
            there = given(use.value) if isinstance(use.value, ast.Call | ast.Dict) else None
            elsewhere = use.path == ("resources",) and isinstance(use.value, ast.Call)
            if there is None or (elsewhere and not meanings.makes_resources(use.value, use.spot)):
                found = use.value, use.spot
            else:
                found = next(((there[key], use.spot) for key in names if key in there), found)
    # A command object says it in its call; a sweep cannot, but where it does, that is moved to its resources.
    holder: Builder | Sweep | None = target.meaning if isinstance(target.meaning, Sweep) else target.builder
    if found is None and holder is not None:
        spot = holder.spot if isinstance(holder, Builder) and holder.spot is not None else target.spot
        there = given(holder.call) or {}
        found = next(((there[key], spot) for key in names if key in there), None)
    return found


def current(target: Target, name: str, meanings: Meanings) -> str | int | None:
    """The literal that a target has now: on itself, on its command object, or in its component file."""
    said = stated(target, name, meanings)
    if said is not None:
        value = said[0].value if isinstance(said[0], ast.Constant) else None
        return value if isinstance(value, str | int) else None
    if target.component is not None and target.component.document is not None:
        written = target.component.document.root.text("resources", name)
        return int(written) if written is not None and name == "instance_count" and written.isdigit() else written
    return None


def _inner(planner: Planner, function: ast.FunctionDef, spot: Spot) -> Spot:
    """A place inside of the function: what a name means there."""
    for scope in planner.module.scopes:
        if scope.node is function and scope.spots:
            return scope.spots[-1]
    return spot


def _has(function: ast.FunctionDef, name: str) -> bool:
    arguments = function.args
    return any(
        argument.arg == name for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    )


def _default_of(function: ast.FunctionDef, name: str) -> ast.expr | None:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True))
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return next((default for argument, default in pairs if argument.arg == name), None)
