"""The targets of a file: steps, sweeps and command objects, each with what is said about it, or why it stays as it is.

A target that may not be rewritten carries its `refusal`; nothing that looks like a step is passed over in silence.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.python import sdk_names as sdk
from arc_toolkit.azureml.python.meaning import (
    Builder,
    Component,
    Meanings,
    PipelineFunction,
    PipelineJob,
    Step,
    Sweep,
    Unknown,
)
from arc_toolkit.azureml.python.names import Binding, Module, Scope, Spot, Use, calls_in
from arc_toolkit.edit import python_layout as layout
from arc_toolkit.edit.edits import Refused

_BUILTINS = frozenset(dir(builtins))


# Attributes that the settings of `patch` go to.
SETTINGS = frozenset({"resources", "set_resources", "runsettings", "environment_variables", "compute"})
_SET_LATER = tuple((name,) for name in SETTINGS)
# Only these can make a step.
_CALLS = (ast.Call, ast.IfExp, ast.BoolOp, ast.Await)


@dataclass(eq=False)
class Target:
    """A step, sweep or command object that settings may go to."""

    name: str
    family: Family
    generation: sdk.Generation
    spot: Spot
    call: ast.Call
    meaning: Step | Builder | Sweep | Unknown
    pipeline: PipelineFunction | None = None
    uses: list[Use] = field(default_factory=list)
    refusal: str = ""
    # The sweep made of this step, if any: it takes the settings then.
    swept: bool = False

    @property
    def builder(self) -> Builder | None:
        """The command object whose settings this one has."""
        if isinstance(self.meaning, Builder):
            return self.meaning
        return (
            self.meaning.origin
            if isinstance(self.meaning, Step) and isinstance(self.meaning.origin, Builder)
            else None
        )

    @property
    def component(self) -> Component | None:
        meaning = self.meaning
        if isinstance(meaning, Sweep) and isinstance(meaning.base, Step):
            meaning = meaning.base
        return meaning.origin if isinstance(meaning, Step) and isinstance(meaning.origin, Component) else None

    @property
    def legacy_sweep(self) -> bool:
        """Whether it is a sweep of SDK v1.5, which takes no instance type."""
        if self.generation != "v1.5":
            return False
        return self.family == Family.SWEEP or any(use.path[:2] == ("runsettings", "sweep") for use in self.uses)

    def named(self, *paths: tuple[str, ...]) -> list[Use]:
        """What is said about these attributes, in order."""
        return [use for use in self.uses if use.how != "argument" and use.path in paths]


def find_targets(module: Module, meanings: Meanings) -> list[Target]:
    """All targets of the scopes to be looked at, in the order of the text."""
    read = {name for source in module.sources for name in _read(source.text)}
    found: list[Target] = []
    for scope in module.scopes:
        pipeline = meanings.pipeline(scope)
        named: dict[int, Target] = {}
        here: dict[str, list[Target]] = {}
        for name, bindings in scope.bindings.items():
            for index, binding in enumerate(bindings):
                if not isinstance(binding.value, _CALLS):
                    continue
                following = bindings[index + 1] if index + 1 < len(bindings) else None
                target = _target(scope, name, binding, following, pipeline, meanings, read)
                if target is not None:
                    named[id(target.call)] = target
                    here.setdefault(name, []).append(target)
        found += named.values()
        # `train(x).sweep(...)`: the sweep has the settings, so that its trial needs no name.
        trials = {
            id(target.meaning.base.call)
            for target in named.values()
            if isinstance(target.meaning, Sweep) and isinstance(target.meaning.base, Step)
        }
        found += _nameless(scope, pipeline, meanings, named.keys() | trials)
        for target in named.values():
            target.refusal = target.refusal or _why_not(target, here[target.name], meanings)
    for target in found:
        if not target.name and not target.refusal:
            target.refusal = _why_not(target, [], meanings)
    _mark_swept(found, meanings)
    order = {id(source): index for index, source in enumerate(module.sources)}
    found.sort(key=lambda target: (order[id(target.spot.source)], target.call.lineno))
    return found


def _read(text: str) -> Iterator[str]:
    """Names whose `.outputs` are read somewhere."""
    at = text.find(".outputs")
    while at >= 0:
        start = at
        while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        yield text[start:at]
        at = text.find(".outputs", at + 1)


def _target(
    scope: Scope,
    name: str,
    binding: Binding,
    following: Binding | None,
    pipeline: PipelineFunction | None,
    meanings: Meanings,
    read: set[str],
) -> Target | None:
    value, spot = binding.value, binding.spot
    assert isinstance(value, ast.expr)
    meaning = meanings.of(value, spot)
    stop = following.spot.order if following is not None else 1 << 60
    branch = following is not None and not following.spot.block.within(spot.block)
    uses = [
        use
        for use in scope.uses.get(name, ())
        # In another branch of an `if` the later binding does not end this one's life.
        if spot.order < use.spot.order and (use.spot.order <= stop or branch)
    ]
    call = value if isinstance(value, ast.Call) else None
    match meaning:
        case Step() if call is not None and value is call:
            return Target(name, meaning.family, meaning.generation, spot, call, meaning, pipeline, uses)
        case Builder() if meaning.call is value:
            return Target(name, meaning.family, "v2", spot, meaning.call, meaning, pipeline, uses)
        case Sweep() if meaning.call is value:
            if not _is_sweep(meaning):
                return None
            return Target(name, Family.SWEEP, "v2", spot, meaning.call, meaning, pipeline, uses)
        case Unknown():
            return _candidate(name, value, spot, meaning, pipeline, uses, read)
    return None


def _is_sweep(meaning: Sweep) -> bool:
    """Whether it is the SDK's `sweep`: its base is known, or its arguments are of no other function."""
    if not isinstance(meaning.base, Unknown):
        return True
    return bool({keyword.arg for keyword in meaning.call.keywords} & {"primary_metric", "sampling_algorithm"})


def _candidate(
    name: str,
    value: ast.expr,
    spot: Spot,
    meaning: Unknown,
    pipeline: PipelineFunction | None,
    uses: list[Use],
    read: set[str],
) -> Target | None:
    """A step of unknown origin: a target when its settings prove that it is one, else reported."""
    attributes = {use.path[0] for use in uses if use.how != "argument"}
    generation: sdk.Generation = "v1.5" if "runsettings" in attributes else "v2"
    if pipeline is not None:
        generation = pipeline.generation
    if not (pipeline is not None or {"runsettings", "set_resources"} & attributes):
        return None
    call = next(calls_in(value), None)
    if call is None:
        return None
    if call is value and not meaning.chosen and any(use.path in sdk.PROOFS for use in uses):
        step = Step(generation, Family.OTHER, Component(generation, Family.OTHER), call)
        return Target(name, Family.OTHER, generation, spot, call, step, pipeline, uses)
    if not (
        name in read
        or attributes & sdk.STEP_ATTRIBUTES
        or ((meaning.foreign or meaning.chosen) and _may_be_component(call.func))
    ):
        return None
    why = meaning.why or f"made by {ast.unparse(call.func)}(), which is not known here"
    return Target(name, Family.OTHER, generation, spot, call, meaning, pipeline, uses, refusal=why)


def _may_be_component(function: ast.expr) -> bool:
    last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "x")
    return last not in _BUILTINS and not last[:1].isupper()


def _nameless(
    scope: Scope, pipeline: PipelineFunction | None, meanings: Meanings, named: Container[int]
) -> Iterator[Target]:
    """Steps that no name holds: `f(x)`, `steps.append(f(x))`, `{"a": f(x).outputs.y}`; and lone command(...)."""
    module = meanings.module
    if pipeline is None and scope.spot is not None and not module.mentions(scope.spot):
        return
    for spot in scope.spots:
        if pipeline is None and not module.mentions(spot):
            continue
        for call in calls_in(spot.stmt):
            if id(call) in named:
                continue
            meaning = meanings.of(call, spot)
            if isinstance(meaning, Builder) and meaning.call is call:
                yield Target("", meaning.family, "v2", spot, call, meaning, pipeline)
            elif isinstance(meaning, Step | Sweep) and meaning.call is call:
                family = meaning.family if isinstance(meaning, Step) else Family.SWEEP
                if isinstance(meaning, Sweep) and not _is_sweep(meaning):
                    continue
                generation = meaning.generation if isinstance(meaning, Step) else "v2"
                yield Target(
                    "",
                    family,
                    generation,
                    spot,
                    call,
                    meaning,
                    pipeline,
                    refusal="no name of its own holds it: assign it to a variable",
                )


def _why_not(target: Target, namesakes: list[Target], meanings: Meanings) -> str:
    """The reason, if any, why this target must stay as it is."""
    call, spot = target.call, target.spot
    if target.family in sdk.NO_RESOURCES:
        return sdk.NO_RESOURCES[target.family]
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return "its arguments come from **" + next(
            (ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg is None), "kwargs"
        )
    # A job of its own takes everything in its call, wherever that stands.
    alone = isinstance(target.meaning, Builder) and target.pipeline is None and not target.named(*_SET_LATER)
    if target.name and spot.block.has("loop") and not alone:
        return "it is made in a loop, so one name stands for several steps"
    for other in namesakes if not alone else ():
        mine, theirs = spot.block, other.spot.block
        if not (mine.within(theirs) or theirs.within(mine)) and mine.has("if") and theirs.has("if"):
            return "it is chosen at run time: several branches make it"
    for use in target.uses:
        if use.how == "argument":
            if target.pipeline is not None and isinstance(use.spot.stmt, ast.Expr) and _is_helper(use, meanings):
                assert isinstance(use.value, ast.Call)
                return f"its settings go through a helper, {ast.unparse(use.value.func)}()"
        elif use.path[0] in SETTINGS and use.spot.block.is_conditional(spot.block):
            return f"its {use.path[0]} is set under a condition (line {use.spot.stmt.lineno})"
    if isinstance(target.meaning, Builder):
        return ""
    try:
        layout.after_statement(spot.source, spot.stmt, [])
    except Refused as error:
        return str(error)
    return ""


def _is_helper(use: Use, meanings: Meanings) -> bool:
    assert isinstance(use.value, ast.Call)
    if use.path[-1] in sdk.HARMLESS_CALLS:
        return False
    meaning = meanings.of(use.value, use.spot)
    return not isinstance(meaning, Step | Builder | Sweep | PipelineJob)


def _mark_swept(found: list[Target], meanings: Meanings) -> None:
    by_spot = {id(target.spot): target for target in found}
    for target in found:
        if isinstance(target.meaning, Sweep) and isinstance(target.call.func, ast.Attribute):
            base = target.call.func.value
            if isinstance(base, ast.Name):
                binding = meanings.binding(base.id, target.spot)
                if isinstance(binding, Binding) and id(binding.spot) in by_spot:
                    by_spot[id(binding.spot)].swept = True
