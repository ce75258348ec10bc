"""The steps, sweeps and command objects of a module, as targets with the fields that code sets for
them.

A target that must not be changed has its `refusal`; nothing that looks like a step is passed over
in silence. `find_targets` collects them, `read_fields` reads what is said about each, and
`build_documents` groups them by pipeline, as the documents of a YAML file.
"""

from __future__ import annotations

import ast
import builtins
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.kinds import KINDS, Family, Role
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.module import Module
from arc_toolkit.azureml.python.python_targets import (
    PROVEN_KIND,
    SETTINGS,
    FieldReader,
    Fields,
    PythonPipeline,
    PythonTarget,
)
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import (
    ASSUME,
    Builder,
    Component,
    PipelineJob,
    Step,
    Sweep,
    UnknownSdkObject,
    V1Job,
)
from arc_toolkit.edit.code import layout
from arc_toolkit.edit.code.names import (
    Binding,
    Scope,
    Statement,
    Use,
    calls_in,
    chain,
    last_name,
    short,
)
from arc_toolkit.edit.code.nodes import place_node, tree
from arc_toolkit.edit.files.edits import Refused

_BUILTINS = frozenset(dir(builtins))
_SETTING_PATHS = tuple((name,) for name in SETTINGS)
# Only these can make a step.
_CALLS = frozenset({ast.Call, ast.IfExp, ast.BoolOp, ast.Await})
_JOB_COMPUTE = (("settings", "default_compute"), ("compute",))


def find_targets(module: Module, resolver: SdkResolver) -> list[PythonTarget]:
    """All targets of the scopes to be looked at, in the order of the text."""
    targets: list[PythonTarget] = []
    for scope in module.scopes:
        targets += _ScopeTargets(scope, resolver).find()
    refuse_later_settings(targets, resolver)
    _mark_trials(targets, resolver)
    by_call = {id(target.call): target for target in targets}
    for target in targets:
        if target.builder is not None and target.builder.call is not target.call:
            target.template = by_call.get(id(target.builder.call))
    order = {id(source): index for index, source in enumerate(module.sources)}
    targets.sort(key=lambda target: (order[id(target.statement.source)], target.call.lineno))
    read_fields(targets, resolver)
    return targets


class _ScopeTargets:
    """The targets of a module, function or class body."""

    def __init__(self, scope: Scope, resolver: SdkResolver) -> None:
        self.scope = scope
        self.resolver = resolver
        self.pipeline = resolver.pipeline(scope)

    def find(self) -> list[PythonTarget]:
        named = list(self._named_targets())
        by_name: dict[str, list[PythonTarget]] = {}
        for target in named:
            by_name.setdefault(target.name, []).append(target)
        # `train(x).sweep(...)`: the sweep has the settings, so its trial needs no name.
        trials = {
            id(target.made.base.call)
            for target in named
            if isinstance(target.made, Sweep)
            and isinstance(target.made.base, Step)
            and isinstance(target.made.base.origin, Component)
        }
        targets = [*named, *self._nameless({id(target.call) for target in named} | trials)]
        for target in targets:
            namesakes = by_name.get(target.name, [])
            target.refusal = target.refusal or _refusal(target, namesakes, self.resolver)
        return targets

    @cached_property
    def _other_names(self) -> dict[str, list[tuple[Binding, tuple[str, ...]]]]:
        """Name of a step -> its other names, each with the part of the step that it is."""
        names: dict[str, list[tuple[Binding, tuple[str, ...]]]] = {}
        for bindings in self.scope.bindings.values():
            for binding in bindings:
                for root, path in _meant(self.scope, binding):
                    if root != binding.name:
                        names.setdefault(root, []).append((binding, path))
        return names

    @cached_property
    def has_settings(self) -> bool:
        """Whether something in this scope is set in a way that only steps have."""
        return any(
            use.path[0] in ("runsettings", "set_resources")
            for name in self.scope.uses
            for use in self.uses(name)
            if use.how != "argument"
        )

    def uses(self, name: str, depth: int = 0) -> list[Use]:
        """Everything that is said about a name, in order; that of a part of it with the path to
        that part.
        """
        uses = self.scope.uses.get(name, [])
        if name not in self._other_names or depth > 3:
            return uses
        uses = list(uses)
        for binding, path in self._other_names[name]:
            uses += [
                replace(use, path=(*path, *use.path))
                for use in self.uses(binding.name, depth + 1)
                if use.statement.order > binding.statement.order and use.how != "argument"
            ]
        return sorted(uses, key=lambda use: use.statement.order)

    def _target(
        self,
        name: str,
        made: Step | Builder | Sweep | V1Job | UnknownSdkObject,
        statement: Statement,
        call: ast.Call,
        uses: list[Use],
        generation: sdk.SdkVersion = "v2",
        refusal: str = "",
    ) -> PythonTarget:
        is_step = self.pipeline is not None or isinstance(made, Step | UnknownSdkObject)
        family = getattr(made, "family", Family.OTHER)
        role = Role.STEP if is_step else Role.JOB
        if generation == "v1.5":
            role = Role.V15_STEP
        if isinstance(made, Sweep):
            family = Family.SWEEP
        elif isinstance(made, V1Job):
            family, role = Family.COMMAND, Role.STEP if made.is_step else Role.JOB
            generation, refusal = "v1", sdk.V1_WAY
        # parallel_run_function(...) is never a job of its own
        as_step = KINDS.get((family, Role.STEP), KINDS[Family.OTHER, Role.STEP])
        kind = KINDS.get((family, role), as_step)
        if family == Family.OTHER and isinstance(made, Step):
            if any(map(is_proof, uses)):
                kind = PROVEN_KIND
            elif isinstance(made.origin, Component) and made.origin.why:
                refusal = refusal or f"its kind is not known: {made.origin.why}{ASSUME}"
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
            made=made,
            pipeline=self.pipeline,
            uses=uses,
            refusal=refusal,
        )

    def _named_targets(self) -> Iterator[PythonTarget]:
        seen: set[int] = set()
        for name, bindings in self.scope.bindings.items():
            for index, binding in enumerate(bindings):
                if type(binding.value) not in _CALLS:
                    continue
                later = (bindings[number].statement for number in range(index + 1, len(bindings)))
                target = self._named_target(name, binding, later)
                if target is not None and id(target.call) not in seen:
                    seen.add(id(target.call))
                    yield target

    def _named_target(
        self, name: str, binding: Binding, later: Iterable[Statement]
    ) -> PythonTarget | None:
        value, statement = binding.value, binding.statement
        assert isinstance(value, ast.expr)
        made = self.resolver.object_of(value, statement)
        if not isinstance(made, Step | Builder | Sweep | V1Job | UnknownSdkObject):
            return None
        is_unknown = isinstance(made, UnknownSdkObject)
        if is_unknown and self.pipeline is None and not self.has_settings:
            return None
        uses = _uses_between(statement, self.uses(name), later)
        match made:
            case Step() if isinstance(value, ast.Call):
                return self._target(name, made, statement, value, uses, made.generation)
            case Builder() | Sweep() | V1Job() if made.call is value and (
                not isinstance(made, Sweep) or _is_certain(made)
            ):
                return self._target(name, made, statement, made.call, uses)
            case UnknownSdkObject():
                return self._candidate(name, value, statement, made, uses)
        return None

    def _candidate(
        self,
        name: str,
        value: ast.expr,
        statement: Statement,
        made: UnknownSdkObject,
        uses: list[Use],
    ) -> PythonTarget | None:
        """A step of unknown origin: a target when its settings prove that it is one, else reported."""
        resolver, pipeline = self.resolver, self.pipeline
        attributes = {use.path[0] for use in uses if use.how != "argument"}
        call = next(calls_in(value), None)
        if call is None or (
            pipeline is None and attributes.isdisjoint(("runsettings", "set_resources"))
        ):
            return None
        generation: sdk.SdkVersion = "v1.5" if "runsettings" in attributes else "v2"
        if pipeline is not None:
            generation = pipeline.generation
        is_one_call = call is value and not made.chosen
        family = Family.OTHER if is_one_call and any(map(is_proof, uses)) else None
        if family is None:
            is_step = (
                made.is_component
                or name in resolver.module.read_steps
                or attributes & sdk.STEP_ATTRIBUTES
                or (_may_be_component(call.func) and self._may_be_imported(made))
            )
            if made.is_made or not is_step:
                return None
            family = resolver.assume if is_one_call else None
        if family is not None:
            step = Step(generation, family, Component(generation, family), call)
            return self._target(name, step, statement, call, uses, generation)
        if not attributes & sdk.LEAF_ATTRIBUTES and resolver.imports_settings(made.imported):
            return None  # it is a target of that file
        why = made.why or f"made by {short(call.func)}(), which is not known here"
        return self._target(name, made, statement, call, uses, generation, why)

    def _may_be_imported(self, made: UnknownSdkObject) -> bool:
        return made.chosen or self.resolver.may_import_component(made.imported)

    def _nameless(self, named: Container[int]) -> Iterator[PythonTarget]:
        """Steps that no name holds: `f(x)`, `steps.append(f(x))`, `{"a": f(x).outputs.y}`; and lone
        command(...).
        """
        module, scope = self.resolver.module, self.scope
        is_read = self.pipeline is not None
        if not is_read and scope.statement is not None and not module.mentions(scope.statement):
            return
        for statement in scope.statements:
            if not is_read and not module.mentions(statement):
                continue
            for call in calls_in(statement.stmt):
                if id(call) in named:
                    continue
                made = self.resolver.object_of(call, statement)
                if not isinstance(made, Builder | V1Job | Step | Sweep) or made.call is not call:
                    continue
                if isinstance(made, Builder | V1Job):
                    yield self._target("", made, statement, call, [])
                elif isinstance(made, Step) or _is_certain(made):
                    generation = made.generation if isinstance(made, Step) else "v2"
                    refusal = "no name of its own holds it: assign it to a variable"
                    yield self._target("", made, statement, call, [], generation, refusal)


def _uses_between(
    statement: Statement, uses: Sequence[Use], later: Iterable[Statement]
) -> list[Use]:
    """What is said about a name while it is what `statement` made it, before one of the later ones
    binds it again.

    After a branch it may be either. A name may be bound thousands of times, so the search ends
    where the name is another one for certain.
    """
    branches: list[Statement] = []
    end = None
    for other in later:
        if not other.block.is_conditional() or other.block.within(statement.block):
            end = other.order
            break
        branches.append(other)

    def order(use: Use) -> int:
        return use.statement.order

    def is_other(use: Use) -> bool:
        return any(
            branch.order < order(use) and use.statement.block.within(branch.block)
            for branch in branches
        )

    first = bisect_right(uses, statement.order, key=order)
    last = len(uses) if end is None else bisect_right(uses, end, key=order)
    return [use for use in uses[first:last] if not is_other(use)]


def _is_certain(made: Sweep) -> bool:
    """Whether a `sweep` is that of the SDK: its base is known, or its arguments are of no other
    function.
    """
    if not isinstance(made.base, UnknownSdkObject):
        return True
    names = {keyword.arg for keyword in made.call.keywords}
    return bool(names & {"primary_metric", "sampling_algorithm"})


def is_proof(use: Use) -> bool:
    """Whether a statement is one that only a command, parallel or sweep step allows: Spark has
    `resources` too.
    """
    if use.path == ("resources",):
        return isinstance(use.value, ast.Call) and last_name(use.value.func) == sdk.RESOURCES_CLASS
    return use.path in sdk.PROOFS


def _may_be_component(function: ast.expr) -> bool:
    name = last_name(function)
    return name not in _BUILTINS and not name[:1].isupper()


def _refusal(target: PythonTarget, namesakes: list[PythonTarget], resolver: SdkResolver) -> str:
    """The reason, if any, why this target must not be changed."""
    call, statement = target.call, target.statement
    # The arguments of a step are inputs of its component, and nothing else (azure-ai-ml raises
    # UnexpectedKeywordError).
    if not isinstance(target.made, Step):
        unpacked = [short(keyword.value) for keyword in call.keywords if keyword.arg is None]
        unpacked += ["kwargs" for argument in call.args if isinstance(argument, ast.Starred)]
        if unpacked:
            return f"its arguments come from **{unpacked[0]}"
    for use in target.named(*_SETTING_PATHS):
        # A statement in the same block as the step is about this step, whatever happens around the
        # block.
        if use.statement.block.within(statement.block):
            continue
        if statement.block.has("loop", until=use.statement.block):
            line = use.statement.stmt.lineno
            return f"it is made in a loop, and line {line} sets its {use.path[0]} after that"
        if len(namesakes) > 1:
            return "it is chosen at run time: several branches make it"
    for use in target.uses:
        if use.how == "argument":
            is_call = isinstance(use.statement.stmt, ast.Expr)
            if target.pipeline is not None and is_call and _is_helper(use, resolver):
                assert isinstance(use.value, ast.Call)
                return f"its settings go through a helper, {short(use.value.func)}()"
        elif use.path[0] in SETTINGS and use.statement.block.is_conditional(statement.block):
            in_loop = use.statement.block.has("loop", until=statement.block)
            how = "in a loop" if in_loop else "under a condition"
            return f"its {use.path[0]} is set {how} (line {use.statement.stmt.lineno})"
    if not isinstance(target.made, Builder):
        try:
            layout.after_statement(statement.source, statement.stmt, [])
        except Refused as error:
            return str(error)
    return ""


def _is_helper(use: Use, resolver: SdkResolver) -> bool:
    if use.path[-1] in sdk.HARMLESS_CALLS:
        return False
    made = resolver.object_of(use.value, use.statement)
    return not isinstance(made, Step | Builder | Sweep | PipelineJob)


# --- sweeps ---


def _mark_trials(targets: list[PythonTarget], resolver: SdkResolver) -> None:
    by_statement = {(id(target.statement), target.name): target for target in targets}
    by_call = {id(target.call): target for target in targets}
    for target in targets:
        base = _trial_expression(target)
        trial = by_call.get(id(base))
        if isinstance(base, ast.Name):
            binding = resolver.certain(base.id, target.statement)
            place = (id(binding.statement), binding.name) if binding is not None else (0, "")
            trial = by_statement.get(place)
        if trial is not None:
            trial.is_trial = True
            trial.parent = target
            if trial.generation == "v2":
                role = Role.TRIAL if target.pipeline is None else Role.STEP_TRIAL
                trial.kind = KINDS[Family.SWEEP, role]


def _trial_expression(target: PythonTarget) -> ast.expr | None:
    """What a sweep is made of: `trial.sweep(...)`, `SweepJob(trial=...)`."""
    if isinstance(target.made, Sweep) and isinstance(target.call.func, ast.Attribute):
        return target.call.func.value
    is_entity = isinstance(target.made, Builder) and target.made.is_entity
    keywords = target.call.keywords if is_entity and target.family == Family.SWEEP else []
    return next((keyword.value for keyword in keywords if keyword.arg == "trial"), None)


# --- fields ---


def read_fields(targets: list[PythonTarget], resolver: SdkResolver) -> None:
    """What the code says about each target, as the tree that YAML would have."""
    reader = FieldReader(resolver)
    shared = _shared_resources(targets, reader)
    trials: dict[int, Fields] = {}
    # A sweep after its trial, whose settings it has.
    for index, target in sorted(enumerate(targets), key=lambda pair: pair[1].is_sweep):
        fields = _made_fields(target, reader, trials)
        fields |= _inherited(shared.get(id(target), {}))
        is_v15 = target.generation == "v1.5"
        reader.apply_uses(target.uses, fields, target.statement, is_v15=is_v15)
        if target.parent is not None and target.is_trial:
            trials[id(target.parent)] = {
                path: value for path, value in fields.items() if path[0] != "component"
            }
        target.path = (index,)
        target.read(tree(fields, target.at))
        if target.component is not None and target.component.file:
            target.reference = target.component.file


def _made_fields(target: PythonTarget, reader: FieldReader, trials: dict[int, Fields]) -> Fields:
    """What a target has when it is made: by its call, its command object, or its trial."""
    made, statement = target.made, target.statement
    base = made.base if isinstance(made, Sweep) else made
    builder = base.origin if isinstance(base, Step) else base
    inner: Fields = {}
    if isinstance(builder, Builder):
        place = builder.statement or statement
        if builder.defaults is not None:
            inner = _inherited(reader.call_fields(builder.defaults, place))
        inner |= reader.call_fields(builder.call, place)
    if isinstance(made, Builder):
        return inner
    if isinstance(made, Sweep):
        inner |= trials.get(id(target), {})
        compute = inner.pop(("compute",), None)
        fields = _inherited({("compute",): compute}) if compute is not None else {}
        fields |= reader.call_fields(target.call, statement)
        return fields | {("trial", *path): value for path, value in inner.items()}
    if target.template is not None:
        # In another scope, all that is said about the command object counts.
        uses = [
            use
            for use in target.template.uses
            if use.statement.scope is not statement.scope or use.statement.order < statement.order
        ]
        reader.apply_uses(uses, inner, target.template.statement)
    fields = _inherited(inner)
    component = target.component
    if component is not None and component.call is not None:
        # As a component that is written in place in YAML.
        inline = reader.call_fields(component.call, component.statement or statement)
        return fields | {("component", *path): value for path, value in inline.items()}
    fields[("component",)] = reader.value(target.call.func, statement)
    return fields


def _inherited(fields: Fields) -> Fields:
    """What a step has of the command object that it is made of.

    `Command.__call__` and `Parallel.__call__` copy compute, resources, environment variables,
    distribution, environment and task, and `Command.sweep` the compute (azure-ai-ml 1.35.2).
    """
    copies = {path: copy(value) for path, value in fields.items()}
    for value in copies.values():
        value.inherited = True
    return copies


def _shared_resources(targets: list[PythonTarget], reader: FieldReader) -> dict[int, Fields]:
    """What steps have by what is said about other steps of their component, in the same function.

    Their `resources` are one object, if the file of the component has any: `b.resources.shm_size =
    ...` changes it for all of them, the earlier ones too (azure-ai-ml 1.35.2). A command object is
    copied instead.
    """
    groups: dict[tuple[int, int], list[PythonTarget]] = {}
    for target in targets:
        document = target.component.document if target.component is not None else None
        has_resources = document is not None and document.root.get("resources") is not None
        if target.generation == "v2" and has_resources and not target.named(("resources",)):
            groups.setdefault((id(target.component), id(target.statement.scope)), []).append(target)
    shared: dict[int, Fields] = {}
    for group in groups.values():
        uses = [use for target in group for use in target.field_assignments]
        uses.sort(key=lambda use: use.statement.order)
        fields: Fields = {}
        reader.apply_uses(uses, fields, group[0].statement)
        shared |= dict.fromkeys(map(id, group), fields)
    return shared


# --- documents ---


def build_documents(
    targets: list[PythonTarget], resolver: SdkResolver
) -> tuple[list[PythonPipeline], tuple[Document, ...]]:
    """The pipelines, and the jobs and pipelines that rules can read: of SDK v2, and certain.

    A command object that steps are made of is read with its steps.
    """
    templates = {id(target.template) for target in targets if target.template is not None}
    by_function: dict[int, list[PythonTarget]] = {}
    by_parent: dict[int, list[PythonTarget]] = {}
    jobs: list[PythonTarget] = []
    for target in targets:
        is_template = id(target) in templates and not target.is_trial
        if target.generation != "v2" or is_template or isinstance(target.made, UnknownSdkObject):
            continue
        if target.pipeline is not None:
            by_function.setdefault(id(target.pipeline.function), []).append(target)
        elif target.parent is None:
            jobs.append(target)
        by_parent.setdefault(id(target.parent), []).append(target)
    pipelines: list[PythonPipeline] = []
    documents: list[Document] = []
    for root, generation in _pipelines(resolver):
        pipelines.append(root)
        steps = list(by_function.get(id(root.function), ()))
        for step in steps:
            step.parent = step.parent or root
        # The trial of a sweep may be made outside of the pipeline function.
        trials = [trial for step in steps for trial in by_parent.get(id(step), ())]
        steps += [trial for trial in trials if trial not in steps]
        if steps and generation == "v2":
            documents.append(Document(len(documents), root, (root, *steps)))
    for job in jobs:
        documents.append(Document(len(documents), job, (job, *by_parent.get(id(job), ()))))
    return pipelines, tuple(documents)


def _pipelines(resolver: SdkResolver) -> Iterator[tuple[PythonPipeline, sdk.SdkVersion]]:
    scopes = resolver.module.scopes
    functions = [
        (pipeline, scope.statement)
        for scope in scopes
        if (pipeline := resolver.pipeline(scope)) is not None and scope.statement is not None
    ]
    computes = list(_computes_of_jobs(resolver)) if functions else []
    reader = FieldReader(resolver)
    for index, (pipeline, statement) in enumerate(functions):
        function = pipeline.function
        fields = reader.decorator_fields(function, statement)
        for other, use in computes:
            if other is function:
                fields[use.path] = reader.value(use.value, use.statement)
        at = place_node(statement.source, function)
        root = PythonPipeline(
            KINDS[Family.PIPELINE, Role.JOB],
            function.name,
            ("pipeline", index),
            tree(fields, at),
            at,
            statement=statement,
            function=function,
        )
        yield root, pipeline.generation


def _computes_of_jobs(resolver: SdkResolver) -> Iterator[tuple[ast.FunctionDef, Use]]:
    """`job.settings.default_compute = ...`, and the function that the job is made of."""
    for scope in resolver.module.scopes:
        for name, uses in scope.uses.items():
            for use in uses:
                if use.how == "assign" and use.path in _JOB_COMPUTE:
                    made = resolver.object_of_name(name, use.statement)
                    if isinstance(made, PipelineJob):
                        yield made.function.function, use


# --- statements that do not begin with the name of their step ---------------------------------------

_PARTS = frozenset({"resources", "runsettings", "environment_variables"})


def _meant(scope: Scope, binding: Binding) -> Iterator[tuple[str, tuple[str, ...]]]:
    value, stmt = binding.value, binding.statement.stmt
    if isinstance(value, ast.Name):
        yield value.id, ()
    elif isinstance(value, ast.Attribute):
        parts = chain(value)
        if parts is not None and _PARTS.intersection(parts[1][:1]):
            yield parts
    elif isinstance(stmt, ast.For) and value is None:
        for item in _items(scope, stmt.iter):
            if isinstance(item, ast.Name):
                yield item.id, ()


# Calls that give the items of what they are called with.
_ITEMS_OF = frozenset(
    {"enumerate", "reversed", "list", "tuple", "sorted", "set", "iter", "zip", "chain"}
)


def _items(scope: Scope, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    """What a loop goes over: the parts of a list or dict display, also by a name, or in
    `enumerate(...)`.
    """
    bound = scope.bindings.get(node.id, []) if isinstance(node, ast.Name) else []
    if len(bound) == 1 and isinstance(bound[0].value, ast.expr):
        node = bound[0].value
    match node:
        case (
            ast.List(elts=items)
            | ast.Tuple(elts=items)
            | ast.Set(elts=items)
            | ast.Dict(values=items)
        ):
            for item in items:
                yield from (
                    _items(scope, item, depth + 1) if isinstance(item, ast.Tuple) else (item,)
                )
        case ast.Call(func=ast.Attribute(value=holder, attr="values" | "items"), args=[]) if (
            depth < 5
        ):
            yield from _items(scope, holder, depth + 1)
        case ast.Call(func=function, args=arguments) if (
            last_name(function) in _ITEMS_OF and depth < 5
        ):
            for argument in arguments:
                yield from _items(scope, argument, depth + 1)


def refuse_later_settings(targets: list[PythonTarget], resolver: SdkResolver) -> None:
    """Steps whose settings are set again on the job: what is written where they are made would not
    count.
    """
    by_function: dict[int, list[PythonTarget]] = {}
    for target in targets:
        if target.pipeline is not None:
            by_function.setdefault(id(target.pipeline.function), []).append(target)
    for name, use, step, setting in _on_jobs(resolver) if by_function else ():
        if setting not in SETTINGS:
            continue
        sdk_object = resolver.object_of_name(name, use.statement)
        if isinstance(sdk_object, PipelineJob):
            affected = by_function.get(id(sdk_object.function.function), [])
        elif _may_be_job(name, use, resolver):
            affected = [target for group in by_function.values() for target in group]
        else:
            continue
        for target in affected:
            if step in ("", target.name) and not target.refusal:
                line = use.statement.stmt.lineno
                target.refusal = (
                    f"its {setting} is set again after the pipeline is made (line {line})"
                )


def _may_be_job(name: str, use: Use, resolver: SdkResolver) -> bool:
    """Whether a name with `jobs` is a parameter, or made by code of its own: it may be a job of any
    pipeline here.
    """
    binding = resolver.binding(name, use.statement)
    if not isinstance(binding, Binding):
        return True
    path = (
        resolver.import_path(binding.value.func, binding.statement)
        if isinstance(binding.value, ast.Call)
        else None
    )
    return path is None and not isinstance(binding.value, str)


def _on_jobs(resolver: SdkResolver) -> Iterator[tuple[str, Use, str, str]]:
    """The name of a job, the statement, the name of its step (empty for any of them), and the
    setting.
    """
    for scope in resolver.module.scopes:
        # `steps = job.jobs`, and `node = job.jobs["a"]` or a loop over them: what they are of
        holders: dict[str, str] = {}
        nodes: dict[str, tuple[str, str]] = {}
        loops = []
        for bindings in scope.bindings.values():
            for binding in bindings:
                stmt = binding.statement.stmt
                parts = (
                    chain(binding.value)
                    if isinstance(binding.value, ast.Attribute | ast.Subscript)
                    else None
                )
                if parts is not None and parts[1][:1] == ("jobs",):
                    if len(parts[1]) == 1:
                        holders[binding.name] = parts[0]
                    elif len(parts[1]) == 2:
                        nodes[binding.name] = parts[0], parts[1][1][1:-1]
                elif isinstance(stmt, ast.For) and binding.value is None:
                    loops.append((binding.name, stmt.iter))
        for name, items in loops:
            if job := _job_of(items, holders):
                nodes[name] = job, ""
        for name, uses in scope.uses.items():
            for use in uses:
                if use.how == "argument":
                    continue
                if name in nodes:
                    yield nodes[name][0], use, nodes[name][1], use.path[0]
                elif name in holders and len(use.path) > 1 and use.path[0].startswith("["):
                    yield holders[name], use, use.path[0][1:-1], use.path[1]
                elif use.path[0] == "jobs" and len(use.path) > 2:
                    yield name, use, use.path[1][1:-1], use.path[2]


def _job_of(items: ast.expr, holders: Mapping[str, str]) -> str | None:
    """The job that `job.jobs`, `job.jobs.values()` or `job.jobs.items()` is about."""
    parts = chain(items.func if isinstance(items, ast.Call) else items)
    if parts is None or parts[1][-1:] not in ((), ("jobs",), ("values",), ("items",)):
        return None  # `client.jobs.list()` is about jobs of the workspace
    return parts[0] if parts[1][:1] == ("jobs",) else holders.get(parts[0])
