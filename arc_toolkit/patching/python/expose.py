"""`--expose-parameters`: instance type and count as parameters of the pipeline function, bound in its steps.

A parameter is added when the first step is bound to it, with a default: what was asked for, else the one value that
the steps had, else (for the count) 1, which is what the SDKs assume.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from arc_toolkit.patching.python import layout
from arc_toolkit.patching.python.changes import quoted
from arc_toolkit.patching.python.meaning import Meanings
from arc_toolkit.patching.python.names import Binding, Spot
from arc_toolkit.patching.python.plan import Planner, Wanted, constant
from arc_toolkit.patching.python.targets import Target

_NAMES = ("instance_type", "instance_count")


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
            inside = [target for target in inside if planner.chosen(target) and not target.refusal]
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
        found = [item for item in found if self.planner.allows(item.rule, target.spot.source, target.call.lineno)]
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
        asked = {item.name: item.text for item in self.planner.resources_wanted}
        for name in _NAMES:
            if _default_of(function, name) is not None or _has(function, name):
                found[name] = _Parameter(name, "", exists=True)
                continue
            default = asked.get(name) or self._common(name, inside)
            reason = "" if default else f"the steps differ or have none: give --{name.replace('_', '-')}"
            if isinstance(self.planner.meanings.binding(name, _inner(self.planner, function, spot)), Binding):
                reason = f"the name {name} is already a variable here"
            else:
                try:
                    layout.append_parameters(spot.source, function, [])
                except layout.Impossible as error:
                    reason = str(error)
            if reason:
                message = f"pipeline {function.name}: {name} is not exposed"
                self.planner.finding("expose-parameters", "warning", message, spot.source, function, reason=reason)
            else:
                found[name] = _Parameter(name, default, exists=False)
        return found

    def _common(self, name: str, inside: list[Target]) -> str:
        """The one literal that the steps have; 1 for a count that nothing says."""
        values = {
            value for target in inside if (value := current(target, name, self.planner.meanings)) is not None
        }
        if len(values) == 1:
            value = values.pop()
            return quoted(value) if isinstance(value, str) else str(value)
        return "1" if name == "instance_count" and not values else ""


def current(target: Target, name: str, meanings: Meanings) -> str | int | None:
    """The literal that a target has now: on itself, on its command object, or in its component file."""
    found: str | int | None = None
    for use in target.uses:
        if use.how == "argument":
            continue
        if use.path[-1] == name and isinstance(use.value, ast.Constant):
            found = use.value.value if isinstance(use.value.value, str | int) else None
        elif isinstance(use.value, ast.Call) and use.path[-1] in ("resources", "set_resources", "configure"):
            value = constant(use.value, name)
            if value is None and name == "instance_count":
                value = constant(use.value, "node_count")
            found = found if value is None else value
    if found is not None:
        return found
    if target.builder is not None:
        return constant(target.builder.call, name)
    if target.component is not None and target.component.text:
        written = re.search(rf"(?m)^[ \t]+{name}:[ \t]*['\"]?([\w.-]+)", target.component.text)
        if written:
            return int(written[1]) if name == "instance_count" and written[1].isdigit() else written[1]
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
