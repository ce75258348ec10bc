"""What the code says about each target, as the trees and documents that YAML would have for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.kinds import KINDS, Family, Role
from arc_toolkit.azureml.python.python_documents import CodeReader, Fields
from arc_toolkit.azureml.python.python_targets import PythonPipeline, PythonTarget
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import (
    Builder,
    PipelineFunction,
    PipelineJob,
    Step,
    Sweep,
    UnknownSdkObject,
)
from arc_toolkit.edit.code.names import Statement, Use
from arc_toolkit.edit.code.nodes import place_node, tree


def read_settings(targets: list[PythonTarget], resolver: SdkResolver) -> None:
    """What the code says about each target, as the tree that YAML would have."""
    reader = CodeReader(resolver)
    shared = _shared_resources(targets, reader)
    trials: dict[int, Fields] = {}
    # A sweep after its trial, whose settings it has.
    for index, target in sorted(enumerate(targets), key=lambda pair: pair[1].is_sweep):
        sdk_object, statement = target.sdk_object, target.statement
        base = sdk_object.base if isinstance(sdk_object, Sweep) else sdk_object
        builder = base.origin if isinstance(base, Step) else base
        inner: Fields = {}
        if isinstance(builder, Builder):
            if builder.defaults is not None:
                inner = _inherited(reader.call(builder.defaults, builder.statement or statement))
            inner |= reader.call(builder.call, builder.statement or statement)
        fields: Fields = {}
        if isinstance(sdk_object, Builder):
            fields = inner
        elif isinstance(sdk_object, Sweep):
            inner |= trials.get(id(target), {})
            if compute := inner.pop(("compute",), None):
                fields = _inherited({("compute",): compute})
            fields |= reader.call(target.call, statement)
            fields |= {("trial", *path): value for path, value in inner.items()}
        else:
            if target.template is not None:
                reader.uses(
                    _before(target.template.uses, statement),
                    inner,
                    target.template.statement,
                    False,
                )
            fields = _inherited(inner)
            component = target.component
            if (
                component is not None and component.call is not None
            ):  # as one that is written in place in YAML
                inline = reader.call(component.call, component.statement or statement)
                fields |= {("component", *path): value for path, value in inline.items()}
            else:
                fields[("component",)] = reader.value(target.call.func, statement)
        fields |= _inherited(shared.get(id(target), {}))
        reader.uses(target.uses, fields, statement, target.generation == "v1.5")
        if target.parent is not None and target.is_trial:
            trials[id(target.parent)] = {
                path: value for path, value in fields.items() if path[0] != "component"
            }
        target.path = (index,)
        target.read(tree(fields, target.at))
        if target.component is not None and target.component.file:
            target.reference = target.component.file


def _inherited(fields: Fields) -> Fields:
    """What a step has of the command object that it is made of.

    `Command.__call__` and `Parallel.__call__` copy compute, resources, environment variables, distribution,
    environment and task, and `Command.sweep` the compute (azure-ai-ml 1.35.2).
    """
    copies = {path: copy(value) for path, value in fields.items()}
    for value in copies.values():
        value.inherited = True
    return copies


def _shared_resources(targets: list[PythonTarget], reader: CodeReader) -> dict[int, Fields]:
    """What steps have by what is said about other steps of their component, in the same function.

    Their `resources` are one object, if the file of the component has any: `b.resources.shm_size = ...` changes it for
    all of them, the earlier ones too (azure-ai-ml 1.35.2). A command object is copied instead.
    """
    groups: dict[tuple[int, int], list[PythonTarget]] = {}
    for target in targets:
        document = target.component.document if target.component is not None else None
        has_resources = document is not None and document.root.get("resources") is not None
        if target.generation == "v2" and has_resources and not target.named(("resources",)):
            groups.setdefault((id(target.component), id(target.statement.scope)), []).append(target)
    shared: dict[int, Fields] = {}
    for group in groups.values():
        if uses := [use for target in group for use in target.field_assignments]:
            fields: Fields = {}
            uses.sort(key=lambda use: use.statement.order)
            reader.uses(uses, fields, group[0].statement, False)
            shared |= dict.fromkeys(map(id, group), fields)
    return shared


def _before(uses: list[Use], statement: Statement) -> list[Use]:
    """What is said about a command object before a step is made of it; in another scope, all of it."""
    return [
        use
        for use in uses
        if use.statement.scope is not statement.scope or use.statement.order < statement.order
    ]


def documents(
    targets: list[PythonTarget], resolver: SdkResolver
) -> tuple[list[PythonPipeline], tuple[Document, ...]]:
    """The pipelines, and the jobs and pipelines that rules can read: of SDK v2, and certain.

    A command object that steps are made of is read with its steps.
    """
    builders = [(target.builder, target) for target in targets if target.builder is not None]
    makers = {id(builder.call) for builder, target in builders if builder.call is not target.call}
    readable = [
        target
        for target in targets
        if target.generation == "v2"
        and not isinstance(target.sdk_object, UnknownSdkObject)
        and (target.is_trial or id(target.call) not in makers)
    ]
    pipelines: list[PythonPipeline] = []
    result: list[Document] = []
    on_jobs = (
        list(_computes_of_jobs(resolver))
        if any(map(resolver.pipeline, resolver.module.scopes))
        else []
    )
    by_function: dict[int, list[PythonTarget]] = {}
    by_parent: dict[int, list[PythonTarget]] = {}
    for target in readable:
        if target.pipeline is not None:
            by_function.setdefault(id(target.pipeline.function), []).append(target)
        by_parent.setdefault(id(target.parent), []).append(target)
    for scope in resolver.module.scopes:
        pipeline = resolver.pipeline(scope)
        if pipeline is None or scope.statement is None:
            continue
        root = _pipeline_target(resolver, scope.statement, pipeline, len(pipelines), on_jobs)
        pipelines.append(root)
        steps = list(by_function.get(id(pipeline.function), ()))
        for step in steps:
            step.parent = step.parent or root
        # The trial of a sweep may be made outside of the pipeline function.
        inside = set(steps)
        steps += [
            trial
            for step in tuple(steps)
            for trial in by_parent.get(id(step), ())
            if trial not in inside
        ]
        if steps and pipeline.generation == "v2":
            result.append(Document(len(result), root, (root, *steps)))
    for target in readable:
        if target.pipeline is None and target.parent is None:
            result.append(Document(len(result), target, (target, *by_parent.get(id(target), ()))))
    return pipelines, tuple(result)


def _computes_of_jobs(resolver: SdkResolver) -> Iterator[tuple[ast.FunctionDef, Use]]:
    """`job.settings.default_compute = ...`, and the function that the job is made of."""
    for scope in resolver.module.scopes:
        for name, uses in scope.uses.items():
            for use in uses:
                if use.how == "assign" and use.path in (
                    ("settings", "default_compute"),
                    ("compute",),
                ):
                    sdk_object = resolver.object_of_name(name, use.statement)
                    if isinstance(sdk_object, PipelineJob):
                        yield sdk_object.function.function, use


def _pipeline_target(
    resolver: SdkResolver,
    statement: Statement,
    pipeline: PipelineFunction,
    index: int,
    on_jobs: list[tuple[ast.FunctionDef, Use]],
) -> PythonPipeline:
    reader = CodeReader(resolver)
    fields = reader.pipeline(pipeline.function, statement)
    for function, use in on_jobs:
        if function is pipeline.function:
            fields[use.path] = reader.value(use.value, use.statement)
    at = place_node(statement.source, pipeline.function)
    kind = KINDS[Family.PIPELINE, Role.JOB]
    path = ("pipeline", index)
    return PythonPipeline(
        kind,
        pipeline.function.name,
        path,
        tree(fields, at),
        at,
        statement=statement,
        function=pipeline.function,
    )
