"""Resources of steps as parameters of their pipeline function, which outer pipelines pass on.

    def train(data):
        node = fit(data)

under `@dsl.pipeline` becomes

    def train(data, instance_type="big"):
        node = fit(data)
        node.resources = JobResourceConfiguration(instance_type=instance_type)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.expose import EXPOSE, Exposer, parameter_names
from arc_toolkit.azureml.kinds import Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.python_targets import PythonPipeline, PythonTarget
from arc_toolkit.azureml.python.python_writer import PythonWriter
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import PipelineFunction, PipelineJob, Step
from arc_toolkit.edit.code import layout
from arc_toolkit.edit.code.editor import quoted
from arc_toolkit.edit.code.names import Binding, Statement, calls_in, last_name, short
from arc_toolkit.edit.code.nodes import place_node
from arc_toolkit.edit.files.edits import Refused

_SLOTS = (Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT)


class PythonExposer(Exposer):
    """The parameters of the pipeline functions of one module."""

    def __init__(
        self,
        plan: Plan,
        resolver: SdkResolver,
        pipelines: Sequence[PythonPipeline],
        targets: Sequence[PythonTarget],
    ) -> None:
        self._plan = plan
        self._resolver = resolver
        self._targets = targets
        self._pipelines = {id(pipeline.function): pipeline for pipeline in pipelines}
        # Functions with parameters that their steps are bound to.
        self._exposed: set[int] = set()
        # The parameters that a function has, or gets in this run, and their defaults.
        self._declared: dict[tuple[int, str], str | int] = {}
        self._names: dict[tuple[int, Slot], str] = {}

    @property
    def _writer(self) -> PythonWriter:
        writer: PythonWriter = self._plan.editor
        return writer

    def pipelines(self) -> Iterator[tuple[Target, list[Target]]]:
        steps: dict[int, list[Target]] = {}
        for target in self._targets:
            if target.pipeline is None or target.refusal or target.legacy_sweep:
                continue
            if not (target.is_trial and isinstance(target.made, Step)):
                steps.setdefault(id(target.pipeline.function), []).append(target)
        for key, pipeline in self._pipelines.items():
            yield pipeline, steps.get(key, [])

    def declared_default(self, pipeline: Target, name: str) -> str | None:
        assert isinstance(pipeline, PythonPipeline)
        default = pipeline.parameters.get(name)
        if isinstance(default, ast.Constant) and isinstance(default.value, str):
            return default.value
        return short(default) if default else None

    def exposes(self, pipeline: PipelineFunction | None) -> bool:
        return pipeline is not None and id(pipeline.function) in self._exposed

    def parameter(self, pipeline: Target, slot: Slot) -> str:
        """Of the slot's name, unless the function has such a parameter for something else."""
        assert isinstance(pipeline, PythonPipeline)
        key = (id(pipeline.function), slot)
        if key not in self._names:
            self._names[key] = slot.path[-1]  # also for two functions that call each other
            names = parameter_names(slot)
            self._names[key] = next(
                name
                for name in names
                if name not in pipeline.parameters or self._is_for(pipeline, name, slot)
            )
        return self._names[key]

    def declare(self, pipeline: Target, slot: Slot, default: str | int) -> bool:
        assert isinstance(pipeline, PythonPipeline)
        function, statement = pipeline.function, pipeline.statement
        name, settings = self.parameter(pipeline, slot), self._plan.settings
        text = str(default) if isinstance(default, int) else quoted(default, statement.source)
        if name in pipeline.parameters:
            present = pipeline.parameters[name]
            wanted = getattr(settings, slot.path[-1]) if settings.wants(slot.rule) else None
            if isinstance(present, ast.Constant) and wanted not in (None, present.value):
                self._writer.changes.replace(statement, present, text)
            self._declared[id(function), name] = default
        else:
            if reason := self._obstacle(pipeline, name):
                message = f"{name} is not exposed"
                self._plan.add_finding(EXPOSE, "warning", message, pipeline.at, reason=reason)
                return False

            def add() -> None:
                self._writer.changes.set(statement, function, name, text)
                self._declared[id(function), name] = default

            self._writer.on_bound(function, name, add)
        self._exposed.add(id(function))
        return True

    def _obstacle(self, pipeline: PythonPipeline, name: str) -> str:
        """Why a function cannot get a parameter of this name."""
        scope = self._resolver.scopes.get(id(pipeline.function))
        statements = scope.statements if scope is not None else []
        inside = statements[-1] if statements else pipeline.statement
        if isinstance(self._resolver.binding(name, inside), Binding):
            return f"the name {name} is already a variable here"
        try:
            layout.append_parameters(pipeline.statement.source, pipeline.function, [])
        except Refused as refusal:
            return refusal.reason
        return ""

    def _is_for(self, pipeline: PythonPipeline, name: str, slot: Slot) -> bool:
        """Whether a parameter is used for resources only; an inner pipeline may take it for its
        own.
        """
        fields = {slot.path[-1], *(("node_count",) if slot == Slot.INSTANCE_COUNT else ())}
        inner = {
            id(call): self.parameter(target, slot) for target, _, call in self._calls(pipeline)
        }
        right: set[int] = set()
        for node in ast.walk(pipeline.function):
            match node:
                case ast.Call(keywords=keywords) if id(node) in inner:
                    right |= {id(item.value) for item in keywords if item.arg == inner[id(node)]}
                case ast.Call(keywords=keywords) if last_name(node.func) in sdk.TAKE_RESOURCES:
                    right |= {id(item.value) for item in keywords if item.arg in fields}
                case ast.Dict(keys=keys, values=values):
                    pairs = zip(keys, values, strict=True)
                    right |= {id(item) for key, item in pairs if getattr(key, "value", 0) in fields}
                case ast.Assign(targets=[ast.Attribute(attr=attribute)], value=value):
                    right |= {id(value)} if attribute in fields else set()
        return all(
            id(node) in right
            for node in ast.walk(pipeline.function)
            if isinstance(node, ast.Name) and node.id == name
        )

    # --- pipelines in pipelines ---

    def expose_others(self) -> None:
        """A pipeline that calls another one passes the parameters of that one on."""
        calls = [
            (outer, *call) for outer in self._pipelines.values() for call in self._calls(outer)
        ]
        for _ in self._pipelines:  # as deep as pipelines can be in each other
            before = len(self._declared)
            for outer, inner, statement, call in calls:
                for slot in _SLOTS:
                    self._pass_on(outer, inner, statement, call, slot)
            if len(self._declared) == before:
                return

    def _calls(self, outer: PythonPipeline) -> Iterator[tuple[PythonPipeline, Statement, ast.Call]]:
        """The calls of other pipelines in a pipeline function."""
        scope = self._resolver.scopes.get(id(outer.function))
        for statement in scope.statements if scope is not None else ():
            for call in calls_in(statement.stmt):
                made = self._resolver.object_of(call, statement)
                if isinstance(made, PipelineJob):
                    inner = self._pipelines.get(id(made.function.function))
                    if inner is not None:
                        yield inner, statement, call

    def _pass_on(
        self,
        outer: PythonPipeline,
        inner: PythonPipeline,
        statement: Statement,
        call: ast.Call,
        slot: Slot,
    ) -> None:
        outer_name, name = self.parameter(outer, slot), self.parameter(inner, slot)
        default = self._declared.get((id(inner.function), name))
        is_passed = any(keyword.arg in (name, None) for keyword in call.keywords)
        if default is None or is_passed:
            return
        present = self._declared.get((id(outer.function), outer_name))
        if present is None and not self.declare(outer, slot, default):
            return
        if present not in (None, default):
            reason = f"its pipelines have the defaults {present} and {default}"
            node = place_node(statement.source, call)
            message = f"{name} is not passed on"
            self._plan.add_finding(EXPOSE, "warning", message, node, reason=reason)
            return
        self._writer.bind(outer.function, outer_name)
        self._writer.changes.set(statement, call, name, outer_name)
