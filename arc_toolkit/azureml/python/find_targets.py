"""The targets of a file: steps, sweeps and command objects, each with what is said about it, or why it is not changed.

A target that may not be rewritten carries its `refusal`; nothing that looks like a step is passed over in silence.
"""

from __future__ import annotations

import ast
import builtins
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence

from arc_toolkit.azureml.kinds import KINDS, Family, Role
from arc_toolkit.azureml.python import sdk_names as sdk
from arc_toolkit.azureml.python.aliases import Aliases, refuse_later_settings
from arc_toolkit.azureml.python.meaning import (
    ASSUME,
    Builder,
    Component,
    PipelineFunction,
    PipelineJob,
    Step,
    Sweep,
    UnknownMeaning,
    V1Job,
)
from arc_toolkit.azureml.python.names import Module
from arc_toolkit.azureml.python.python_targets import PROVEN_KIND, SETTINGS, PythonTarget
from arc_toolkit.azureml.python.read_meaning import Meanings
from arc_toolkit.azureml.python.read_targets import read_settings
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
    meaning: Step | Builder | Sweep | V1Job | UnknownMeaning,
    statement: Statement,
    call: ast.Call,
    pipeline: PipelineFunction | None,
    uses: list[Use],
    generation: sdk.Generation = "v2",
    refusal: str = "",
) -> PythonTarget:
    family = (
        Family.SWEEP if isinstance(meaning, Sweep) else getattr(meaning, "family", Family.OTHER)
    )
    role = (
        Role.STEP
        if pipeline is not None or isinstance(meaning, Step | UnknownMeaning)
        else Role.JOB
    )
    role = Role.V15_STEP if generation == "v1.5" else role
    if isinstance(meaning, V1Job):
        family, role = Family.COMMAND, Role.STEP if meaning.is_step else Role.JOB
    # parallel_run_function(...) is never a job of its own
    kind = KINDS.get((family, role)) or KINDS.get(
        (family, Role.STEP), KINDS[Family.OTHER, Role.STEP]
    )
    if family == Family.OTHER and isinstance(meaning, Step):
        if any(is_proof(use) for use in uses):
            kind = PROVEN_KIND
        elif isinstance(meaning.origin, Component) and meaning.origin.why:
            refusal = refusal or f"its kind is not known: {meaning.origin.why}{ASSUME}"
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
        meaning=meaning,
        pipeline=pipeline,
        uses=uses,
        refusal=refusal,
    )


def find_targets(module: Module, meanings: Meanings) -> list[PythonTarget]:
    """All targets of the scopes to be looked at, in the order of the text."""
    targets: list[PythonTarget] = []
    for scope in module.scopes:
        pipeline = meanings.pipeline(scope)
        aliases = Aliases(scope)
        named: dict[int, PythonTarget] = {}
        here: dict[str, list[PythonTarget]] = {}
        for name, bindings in scope.bindings.items():
            for index, binding in enumerate(bindings):
                if type(binding.value) not in _CALLS:
                    continue
                others = (bindings[number].statement for number in range(index + 1, len(bindings)))
                target = _target(aliases, name, binding, others, pipeline, meanings)
                if target is not None:
                    named[id(target.call)] = target
                    here.setdefault(name, []).append(target)
        targets += named.values()
        # `train(x).sweep(...)`: the sweep has the settings, so that its trial needs no name.
        trials = {
            id(target.meaning.base.call)
            for target in named.values()
            if isinstance(target.meaning, Sweep)
            and isinstance(target.meaning.base, Step)
            and isinstance(target.meaning.base.origin, Component)
        }
        nameless = list(_nameless(scope, pipeline, meanings, named.keys() | trials))
        targets += nameless
        for target in (*named.values(), *nameless):
            target.refusal = target.refusal or _why_not(target, here.get(target.name, []), meanings)
    refuse_later_settings(targets, meanings)
    _mark_swept(targets, meanings)
    by_call = {id(target.call): target for target in targets}
    for target in targets:
        if target.builder is not None and target.builder.call is not target.call:
            target.maker = by_call.get(id(target.builder.call))
    order = {id(source): index for index, source in enumerate(module.sources)}
    targets.sort(key=lambda target: (order[id(target.statement.source)], target.call.lineno))
    read_settings(targets, meanings)
    return targets


def _target(
    aliases: Aliases,
    name: str,
    binding: Binding,
    others: Iterable[Statement],
    pipeline: PipelineFunction | None,
    meanings: Meanings,
) -> PythonTarget | None:
    value, statement = binding.value, binding.statement
    assert isinstance(value, ast.expr)
    meaning = meanings.of(value, statement)
    if not isinstance(meaning, Step | Builder | Sweep | V1Job | UnknownMeaning):
        return None
    if isinstance(meaning, UnknownMeaning) and pipeline is None and not aliases.has_settings:
        return None
    uses = _uses_of(statement, aliases.uses(name), others)
    match meaning:
        case Step() if isinstance(value, ast.Call):
            return _make(name, meaning, statement, value, pipeline, uses, meaning.generation)
        case Builder() | Sweep() if meaning.call is value and _is_certain(meaning):
            return _make(name, meaning, statement, meaning.call, pipeline, uses)
        case V1Job() if meaning.call is value:
            return _make(name, meaning, statement, meaning.call, pipeline, uses, "v1", sdk.V1_WAY)
        case UnknownMeaning():
            return _candidate(name, value, statement, meaning, pipeline, uses, meanings)
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


def _is_certain(meaning: Step | Builder | Sweep) -> bool:
    """Whether a `sweep` is that of the SDK: its base is known, or its arguments are of no other function."""
    if not isinstance(meaning, Sweep) or not isinstance(meaning.base, UnknownMeaning):
        return True
    return bool(
        {keyword.arg for keyword in meaning.call.keywords}
        & {"primary_metric", "sampling_algorithm"}
    )


def _candidate(
    name: str,
    value: ast.expr,
    statement: Statement,
    meaning: UnknownMeaning,
    pipeline: PipelineFunction | None,
    uses: list[Use],
    meanings: Meanings,
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
    if call is value and not meaning.chosen and any(is_proof(use) for use in uses):
        step = Step(generation, Family.OTHER, Component(generation, Family.OTHER), call)
        return _make(name, step, statement, call, pipeline, uses, generation)
    if meaning.is_made or not (
        meaning.is_component
        or name in meanings.module.read_steps
        or attributes & sdk.STEP_ATTRIBUTES
        or (
            _may_be_component(call.func)
            and (meaning.chosen or meanings.own_modules.may_have(meaning.imported))
        )
    ):
        return None
    if meanings.assume is not None and call is value and not meaning.chosen:
        step = Step(generation, meanings.assume, Component(generation, meanings.assume), call)
        return _make(name, step, statement, call, pipeline, uses, generation)
    if (
        meaning.imported
        and not attributes & sdk.LEAF_ATTRIBUTES
        and meanings.own_modules.makes(meaning.imported)
    ):
        return None  # it is a target of that file
    why = meaning.why or f"made by {short(call.func)}(), which is not known here"
    return _make(name, meaning, statement, call, pipeline, uses, generation, why)


def is_proof(use: Use) -> bool:
    """Whether a statement is one that only a command, parallel or sweep step allows: Spark has `resources` too."""
    if use.path == ("resources",):
        return isinstance(use.value, ast.Call) and last_name(use.value.func) == sdk.RESOURCES_CLASS
    return use.path in sdk.PROOFS


def _may_be_component(function: ast.expr) -> bool:
    name = last_name(function)
    return name not in _BUILTINS and not name[:1].isupper()


def _nameless(
    scope: Scope, pipeline: PipelineFunction | None, meanings: Meanings, named: Container[int]
) -> Iterator[PythonTarget]:
    """Steps that no name holds: `f(x)`, `steps.append(f(x))`, `{"a": f(x).outputs.y}`; and lone command(...)."""
    module = meanings.module
    if pipeline is None and scope.statement is not None and not module.mentions(scope.statement):
        return
    for statement in scope.statements:
        if pipeline is None and not module.mentions(statement):
            continue
        for call in calls_in(statement.stmt):
            if id(call) in named:
                continue
            meaning = meanings.of(call, statement)
            if isinstance(meaning, Builder) and meaning.call is call:
                yield _make("", meaning, statement, call, pipeline, [])
            elif (
                isinstance(meaning, Step | Sweep) and meaning.call is call and _is_certain(meaning)
            ):
                generation = meaning.generation if isinstance(meaning, Step) else "v2"
                refusal = "no name of its own holds it: assign it to a variable"
                yield _make("", meaning, statement, call, pipeline, [], generation, refusal)
            elif isinstance(meaning, V1Job) and meaning.call is call:
                yield _make("", meaning, statement, call, pipeline, [], "v1", sdk.V1_WAY)


def _why_not(target: PythonTarget, namesakes: list[PythonTarget], meanings: Meanings) -> str:
    """The reason, if any, why this target must not be changed."""
    call, statement = target.call, target.statement
    # The arguments of a step are inputs of its component, and nothing else (azure-ai-ml raises UnexpectedKeywordError).
    is_open = any(keyword.arg is None for keyword in call.keywords) or any(
        isinstance(argument, ast.Starred) for argument in call.args
    )
    if is_open and not isinstance(target.meaning, Step):
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
                and _is_helper(use, meanings)
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
    if isinstance(target.meaning, Builder):
        return ""
    try:
        layout.after_statement(statement.source, statement.stmt, [])
    except Refused as error:
        return str(error)
    return ""


def _is_helper(use: Use, meanings: Meanings) -> bool:
    assert isinstance(use.value, ast.Call)
    if use.path[-1] in sdk.HARMLESS_CALLS:
        return False
    meaning = meanings.of(use.value, use.statement)
    return not isinstance(meaning, Step | Builder | Sweep | PipelineJob)


def _trial(target: PythonTarget) -> ast.expr | None:
    """What a sweep is made of: `trial.sweep(...)`, `SweepJob(trial=...)`."""
    if isinstance(target.meaning, Sweep) and isinstance(target.call.func, ast.Attribute):
        return target.call.func.value
    is_entity = isinstance(target.meaning, Builder) and target.meaning.is_entity
    keywords = target.call.keywords if is_entity and target.family == Family.SWEEP else []
    return next((keyword.value for keyword in keywords if keyword.arg == "trial"), None)


def _mark_swept(targets: list[PythonTarget], meanings: Meanings) -> None:
    by_statement = {(id(target.statement), target.name): target for target in targets}
    by_call = {id(target.call): target for target in targets}
    for target in targets:
        base = _trial(target)
        trial = by_call.get(id(base))
        if isinstance(base, ast.Name):
            binding = meanings.binding(base.id, target.statement)
            place = (
                (id(binding.statement), binding.name) if isinstance(binding, Binding) else (0, "")
            )
            trial = by_statement.get(place)
        if trial is not None:
            trial.swept = True
            trial.parent = target
            if trial.generation == "v2":
                trial.kind = KINDS[
                    Family.SWEEP, Role.TRIAL if target.pipeline is None else Role.STEP_TRIAL
                ]
