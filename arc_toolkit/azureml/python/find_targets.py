"""The targets of a file: steps, sweeps and command objects, each with what is said about it, or why it is not changed.

A target that may not be rewritten carries its `refusal`; nothing that looks like a step is passed over in silence.
"""

from __future__ import annotations

import ast
import builtins
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence

from arc_toolkit.azureml.kinds import KINDS, Family, Role
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.aliases import Aliases, refuse_later_settings
from arc_toolkit.azureml.python.module import Module
from arc_toolkit.azureml.python.python_targets import PROVEN_KIND, SETTINGS, PythonTarget
from arc_toolkit.azureml.python.read_targets import read_settings
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import (
    ASSUME,
    Builder,
    Component,
    PipelineFunction,
    PipelineJob,
    Step,
    Sweep,
    UnknownSdkObject,
    V1Job,
)
from arc_toolkit.edit.code import layout
from arc_toolkit.edit.code.expressions import calls_in, last_name, short
from arc_toolkit.edit.code.names import Binding, Scope, Statement, Use
from arc_toolkit.edit.code.nodes import place_node, tree
from arc_toolkit.edit.files.edits import Refused

_BUILTINS = frozenset(dir(builtins))

_SET_LATER = tuple((name,) for name in SETTINGS)
# Only these can make a step.
_CALLS = frozenset({ast.Call, ast.IfExp, ast.BoolOp, ast.Await})


def _make(
    name: str,
    sdk_object: Step | Builder | Sweep | V1Job | UnknownSdkObject,
    statement: Statement,
    call: ast.Call,
    pipeline: PipelineFunction | None,
    uses: list[Use],
    generation: sdk.Generation = "v2",
    refusal: str = "",
) -> PythonTarget:
    family = (
        Family.SWEEP
        if isinstance(sdk_object, Sweep)
        else getattr(sdk_object, "family", Family.OTHER)
    )
    role = (
        Role.STEP
        if pipeline is not None or isinstance(sdk_object, Step | UnknownSdkObject)
        else Role.JOB
    )
    role = Role.V15_STEP if generation == "v1.5" else role
    if isinstance(sdk_object, V1Job):
        family, role = Family.COMMAND, Role.STEP if sdk_object.is_step else Role.JOB
    # parallel_run_function(...) is never a job of its own
    kind = KINDS.get((family, role)) or KINDS.get(
        (family, Role.STEP), KINDS[Family.OTHER, Role.STEP]
    )
    if family == Family.OTHER and isinstance(sdk_object, Step):
        if any(is_proof(use) for use in uses):
            kind = PROVEN_KIND
        elif isinstance(sdk_object.origin, Component) and sdk_object.origin.why:
            refusal = refusal or f"its kind is not known: {sdk_object.origin.why}{ASSUME}"
    at = place_node(statement.source, call)
    return PythonTarget(
        kind,
        name,
        (),
        tree({}, at),
        at,
        generation=generation,
        statement=statement,
        call=call,
        sdk_object=sdk_object,
        pipeline=pipeline,
        uses=uses,
        refusal=refusal,
    )


def find_targets(module: Module, resolver: SdkResolver) -> list[PythonTarget]:
    """All targets of the scopes to be looked at, in the order of the text."""
    targets: list[PythonTarget] = []
    for scope in module.scopes:
        pipeline = resolver.pipeline(scope)
        aliases = Aliases(scope)
        named: dict[int, PythonTarget] = {}
        here: dict[str, list[PythonTarget]] = {}
        for name, bindings in scope.bindings.items():
            for index, binding in enumerate(bindings):
                if type(binding.value) not in _CALLS:
                    continue
                others = (bindings[number].statement for number in range(index + 1, len(bindings)))
                target = _target(aliases, name, binding, others, pipeline, resolver)
                if target is not None:
                    named[id(target.call)] = target
                    here.setdefault(name, []).append(target)
        targets += named.values()
        # `train(x).sweep(...)`: the sweep has the settings, so that its trial needs no name.
        trials = {
            id(target.sdk_object.base.call)
            for target in named.values()
            if isinstance(target.sdk_object, Sweep)
            and isinstance(target.sdk_object.base, Step)
            and isinstance(target.sdk_object.base.origin, Component)
        }
        nameless = list(_nameless(scope, pipeline, resolver, named.keys() | trials))
        targets += nameless
        for target in (*named.values(), *nameless):
            target.refusal = target.refusal or _why_not(target, here.get(target.name, []), resolver)
    refuse_later_settings(targets, resolver)
    _mark_trials(targets, resolver)
    by_call = {id(target.call): target for target in targets}
    for target in targets:
        if target.builder is not None and target.builder.call is not target.call:
            target.template = by_call.get(id(target.builder.call))
    order = {id(source): index for index, source in enumerate(module.sources)}
    targets.sort(key=lambda target: (order[id(target.statement.source)], target.call.lineno))
    read_settings(targets, resolver)
    return targets


def _target(
    aliases: Aliases,
    name: str,
    binding: Binding,
    others: Iterable[Statement],
    pipeline: PipelineFunction | None,
    resolver: SdkResolver,
) -> PythonTarget | None:
    value, statement = binding.value, binding.statement
    assert isinstance(value, ast.expr)
    sdk_object = resolver.object_of(value, statement)
    if not isinstance(sdk_object, Step | Builder | Sweep | V1Job | UnknownSdkObject):
        return None
    if isinstance(sdk_object, UnknownSdkObject) and pipeline is None and not aliases.has_settings:
        return None
    uses = _uses_of(statement, aliases.uses(name), others)
    match sdk_object:
        case Step() if isinstance(value, ast.Call):
            return _make(name, sdk_object, statement, value, pipeline, uses, sdk_object.generation)
        case Builder() | Sweep() if sdk_object.call is value and _is_certain(sdk_object):
            return _make(name, sdk_object, statement, sdk_object.call, pipeline, uses)
        case V1Job() if sdk_object.call is value:
            return _make(
                name, sdk_object, statement, sdk_object.call, pipeline, uses, "v1", sdk.V1_WAY
            )
        case UnknownSdkObject():
            return _candidate(name, value, statement, sdk_object, pipeline, uses, resolver)
    return None


def _uses_of(statement: Statement, uses: Sequence[Use], others: Iterable[Statement]) -> list[Use]:
    """What is said about a name while it is what `statement` made it, not one of the others that bind it later.

    After a branch it may be either. A name may be bound thousands of times, so the search ends where the name is
    another one for certain.
    """
    branches: list[Statement] = []
    end = None
    for other in others:
        if not other.block.is_conditional() or other.block.within(statement.block):
            end = other.order
            break
        branches.append(other)

    def order(use: Use) -> int:
        return use.statement.order

    last = len(uses) if end is None else bisect_right(uses, end, key=order)
    return [
        use
        for use in uses[bisect_right(uses, statement.order, key=order) : last]
        if not any(
            branch.order < order(use) and use.statement.block.within(branch.block)
            for branch in branches
        )
    ]


def _is_certain(sdk_object: Step | Builder | Sweep) -> bool:
    """Whether a `sweep` is that of the SDK: its base is known, or its arguments are of no other function."""
    if not isinstance(sdk_object, Sweep) or not isinstance(sdk_object.base, UnknownSdkObject):
        return True
    return bool(
        {keyword.arg for keyword in sdk_object.call.keywords}
        & {"primary_metric", "sampling_algorithm"}
    )


def _candidate(
    name: str,
    value: ast.expr,
    statement: Statement,
    sdk_object: UnknownSdkObject,
    pipeline: PipelineFunction | None,
    uses: list[Use],
    resolver: SdkResolver,
) -> PythonTarget | None:
    """A step of unknown origin: a target when its settings prove that it is one, else reported."""
    attributes = {use.path[0] for use in uses if use.how != "argument"}
    if pipeline is None and attributes.isdisjoint(("runsettings", "set_resources")):
        return None
    call = next(calls_in(value), None)
    if call is None:
        return None
    generation: sdk.Generation = "v1.5" if "runsettings" in attributes else "v2"
    if pipeline is not None:
        generation = pipeline.generation
    if call is value and not sdk_object.chosen and any(is_proof(use) for use in uses):
        step = Step(generation, Family.OTHER, Component(generation, Family.OTHER), call)
        return _make(name, step, statement, call, pipeline, uses, generation)
    if sdk_object.is_made or not (
        sdk_object.is_component
        or name in resolver.module.read_steps
        or attributes & sdk.STEP_ATTRIBUTES
        or (
            _may_be_component(call.func)
            and (sdk_object.chosen or resolver.may_import_component(sdk_object.imported))
        )
    ):
        return None
    if resolver.assume is not None and call is value and not sdk_object.chosen:
        step = Step(generation, resolver.assume, Component(generation, resolver.assume), call)
        return _make(name, step, statement, call, pipeline, uses, generation)
    if (
        sdk_object.imported
        and not attributes & sdk.LEAF_ATTRIBUTES
        and resolver.imports_settings(sdk_object.imported)
    ):
        return None  # it is a target of that file
    why = sdk_object.why or f"made by {short(call.func)}(), which is not known here"
    return _make(name, sdk_object, statement, call, pipeline, uses, generation, why)


def is_proof(use: Use) -> bool:
    """Whether a statement is one that only a command, parallel or sweep step allows: Spark has `resources` too."""
    if use.path == ("resources",):
        return isinstance(use.value, ast.Call) and last_name(use.value.func) == sdk.RESOURCES_CLASS
    return use.path in sdk.PROOFS


def _may_be_component(function: ast.expr) -> bool:
    name = last_name(function)
    return name not in _BUILTINS and not name[:1].isupper()


def _nameless(
    scope: Scope, pipeline: PipelineFunction | None, resolver: SdkResolver, named: Container[int]
) -> Iterator[PythonTarget]:
    """Steps that no name holds: `f(x)`, `steps.append(f(x))`, `{"a": f(x).outputs.y}`; and lone command(...)."""
    module = resolver.module
    if pipeline is None and scope.statement is not None and not module.mentions(scope.statement):
        return
    for statement in scope.statements:
        if pipeline is None and not module.mentions(statement):
            continue
        for call in calls_in(statement.stmt):
            if id(call) in named:
                continue
            sdk_object = resolver.object_of(call, statement)
            if isinstance(sdk_object, Builder) and sdk_object.call is call:
                yield _make("", sdk_object, statement, call, pipeline, [])
            elif (
                isinstance(sdk_object, Step | Sweep)
                and sdk_object.call is call
                and _is_certain(sdk_object)
            ):
                generation = sdk_object.generation if isinstance(sdk_object, Step) else "v2"
                refusal = "no name of its own holds it: assign it to a variable"
                yield _make("", sdk_object, statement, call, pipeline, [], generation, refusal)
            elif isinstance(sdk_object, V1Job) and sdk_object.call is call:
                yield _make("", sdk_object, statement, call, pipeline, [], "v1", sdk.V1_WAY)


def _why_not(target: PythonTarget, namesakes: list[PythonTarget], resolver: SdkResolver) -> str:
    """The reason, if any, why this target must not be changed."""
    call, statement = target.call, target.statement
    # The arguments of a step are inputs of its component, and nothing else (azure-ai-ml raises UnexpectedKeywordError).
    is_open = any(keyword.arg is None for keyword in call.keywords) or any(
        isinstance(argument, ast.Starred) for argument in call.args
    )
    if is_open and not isinstance(target.sdk_object, Step):
        return "its arguments come from **" + next(
            (short(keyword.value) for keyword in call.keywords if keyword.arg is None),
            "kwargs",
        )
    later = target.named(*_SET_LATER)
    for use in later:
        # A statement in the same block as the step is about this step, whatever happens around the block.
        if use.statement.block.within(statement.block):
            continue
        if statement.block.has("loop", until=use.statement.block):
            return f"it is made in a loop, and line {use.statement.stmt.lineno} sets its {use.path[0]} after that"
        if len(namesakes) > 1:
            return "it is chosen at run time: several branches make it"
    for use in target.uses:
        if use.how == "argument":
            if (
                target.pipeline is not None
                and isinstance(use.statement.stmt, ast.Expr)
                and _is_helper(use, resolver)
            ):
                assert isinstance(use.value, ast.Call)
                return f"its settings go through a helper, {short(use.value.func)}()"
        elif use.path[0] in SETTINGS and use.statement.block.is_conditional(statement.block):
            how = (
                "in a loop"
                if use.statement.block.has("loop", until=statement.block)
                else "under a condition"
            )
            return f"its {use.path[0]} is set {how} (line {use.statement.stmt.lineno})"
    if isinstance(target.sdk_object, Builder):
        return ""
    try:
        layout.after_statement(statement.source, statement.stmt, [])
    except Refused as error:
        return str(error)
    return ""


def _is_helper(use: Use, resolver: SdkResolver) -> bool:
    assert isinstance(use.value, ast.Call)
    if use.path[-1] in sdk.HARMLESS_CALLS:
        return False
    sdk_object = resolver.object_of(use.value, use.statement)
    return not isinstance(sdk_object, Step | Builder | Sweep | PipelineJob)


def _trial(target: PythonTarget) -> ast.expr | None:
    """What a sweep is made of: `trial.sweep(...)`, `SweepJob(trial=...)`."""
    if isinstance(target.sdk_object, Sweep) and isinstance(target.call.func, ast.Attribute):
        return target.call.func.value
    is_entity = isinstance(target.sdk_object, Builder) and target.sdk_object.is_entity
    keywords = target.call.keywords if is_entity and target.family == Family.SWEEP else []
    return next((keyword.value for keyword in keywords if keyword.arg == "trial"), None)


def _mark_trials(targets: list[PythonTarget], resolver: SdkResolver) -> None:
    by_statement = {(id(target.statement), target.name): target for target in targets}
    by_call = {id(target.call): target for target in targets}
    for target in targets:
        base = _trial(target)
        trial = by_call.get(id(base))
        if isinstance(base, ast.Name):
            binding = resolver.binding(base.id, target.statement)
            place = (
                (id(binding.statement), binding.name) if isinstance(binding, Binding) else (0, "")
            )
            trial = by_statement.get(place)
        if trial is not None:
            trial.is_trial = True
            trial.parent = target
            if trial.generation == "v2":
                trial.kind = KINDS[
                    Family.SWEEP, Role.TRIAL if target.pipeline is None else Role.STEP_TRIAL
                ]
