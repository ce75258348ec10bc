"""`--expose-parameters`: the resources of the steps of a pipeline become inputs of it.

`expose_parameters` decides, whatever the language. An `Exposer` declares and binds: that of YAML is
here, that of Python is its plan. A leaf cannot have such inputs, because azure-ai-ml rejects
`instance_count: ${{inputs.x}}` there: only pipelines get them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping

import yaml

from arc_toolkit.azureml.documents import (
    RESOURCE_KEYS,
    Parameter,
    Setting,
    State,
    Target,
    items_below,
)
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import MAX_PIPELINE_DEPTH, Plan, YamlPlan
from arc_toolkit.edit.yaml.nodes import KeyPath, construct, pairs, text_of
from arc_toolkit.findings import Severity

EXPOSE = "expose-parameters"


class Exposer(ABC):
    """How a language declares the inputs of a pipeline and binds its steps to them."""

    @abstractmethod
    def pipelines(self) -> Iterator[tuple[Target, list[Target]]]:
        """The pipelines, each with the steps that may be bound to its inputs."""

    @abstractmethod
    def parameter(self, pipeline: Target, slot: Slot) -> str:
        """The name of the input that is exposed for a slot."""

    @abstractmethod
    def declared_default(self, pipeline: Target, name: str) -> str | None:
        """The default of an input that a pipeline has already."""

    @abstractmethod
    def declare(self, pipeline: Target, slot: Slot, default: str | int) -> bool:
        """An input of a pipeline with a default; why it cannot be declared is reported."""

    @abstractmethod
    def expose_others(self) -> None:
        """Expose the resources of what is not a pipeline, where the language has a way."""

    def can_bind(self, step: Target, slot: Slot) -> bool:
        """Whether a step can be bound to an input; why not is reported."""
        return True

    def leaves_to_parameters(self, target: Target) -> bool:
        """Whether a target gets no literal resources, because exposed parameters go around it."""
        return False


def parameter_names(slot: Slot) -> Iterator[str]:
    """What the input for a slot may be called, the best first."""
    field = slot.path[-1]
    yield field
    yield f"job_{field}"
    yield from (f"job_{field}_{number}" for number in range(2, 100))


def expose_parameters(plan: Plan, exposer: Exposer) -> set[tuple[Target, Slot]]:
    """Bind the steps of every pipeline; the steps and slots that are bound to an input."""
    exposed: set[tuple[Target, Slot]] = set()
    if not plan.settings.wants(EXPOSE):
        return exposed
    for pipeline, steps in exposer.pipelines():
        bindings: dict[Target, list[Setting]] = {step: [] for step in steps}
        for slot, value in plan.requested_resources().items():
            free = [
                step
                for step in steps
                if _is_wanted(plan, step, slot) and exposer.can_bind(step, slot)
            ]
            binding = Setting(EXPOSE, slot, Parameter(exposer.parameter(pipeline, slot)))
            default = value if plan.settings.wants(slot.rule) else None
            if free and default is None:
                default = _default(plan, exposer, pipeline, free, binding)
            if free and default is not None and exposer.declare(pipeline, slot, default):
                exposed |= {(step, slot) for step in steps}
                for step in free:
                    _check_workers(plan, step, binding)
                    bindings[step].append(binding)
        for step, settings in bindings.items():
            plan.place(step, settings)
    exposer.expose_others()
    return exposed


def _is_wanted(plan: Plan, step: Target, slot: Slot, path: KeyPath = ()) -> bool:
    """An ignore of the setting itself keeps a value as much as one of expose-parameters."""
    return plan.wants(EXPOSE, step) and not any(
        plan.ignored(rule, step, path or slot.path) for rule in (slot.rule, EXPOSE)
    )


def _check_workers(plan: Plan, step: Target, setting: Setting) -> None:
    """Warn if the workers of TensorFlow will not follow a new binding."""
    workers = ("distribution", "worker_count")
    is_new = not step.is_bound(step.path_of(setting.path))
    if is_new and setting.slot == Slot.INSTANCE_COUNT and step.owns(workers):
        message = f"worker_count of {step.shown} does not follow the parameter"
        reason = "without it, TensorFlow has one worker per instance: remove it"
        plan.warn(EXPOSE, message, step.place_of(workers), reason)


def _default(
    plan: Plan, exposer: Exposer, pipeline: Target, steps: list[Target], binding: Setting
) -> str | int | None:
    """The default of the new input, without a change to what the steps get; None after a finding
    that says why.
    """
    slot, name = binding.slot, exposer.parameter(pipeline, binding.slot)
    bound = (State.BOUND, State.OPAQUE, State.EQUAL)
    unbound = [step for step in steps if step.state(binding) not in bound]
    values = {plan.values.effective(step, *slot.path) for step in unbound}
    present = sorted(value for value in values if value is not None)
    declared = exposer.declared_default(pipeline, name)
    option = f"use --{slot.rule}"
    reason = ""
    if len(values) > 1 and present:
        shown = ", ".join(present) + (" and none" if None in values else "")
        reason = f"its steps differ ({shown}): {option} to use one value for all"
    elif present and declared is not None and present[0] != declared:
        default = f"the default of the parameter is {declared!r}"
        reason = f"its steps have {present[0]}, and {default}: {option}"
    elif not present and declared is None and slot == Slot.INSTANCE_TYPE:
        reason = f"no step says which: {option}"
    if reason:
        plan.warn(EXPOSE, f"{name} is not exposed", pipeline.at, reason)
        return None
    return _typed(slot, present[0] if present else declared or "1")


def _typed(slot: Slot, value: str) -> str | int:
    return int(value) if slot == Slot.INSTANCE_COUNT and value.isdigit() else value


# --- YAML -----------------------------------------------------------------------------------------

# Of pipeline files, by their full path: the input for each slot, and its default.
InnerParameters = Mapping[str, Mapping[Slot, tuple[str, str]]]


class YamlExposer(Exposer):
    """The inputs of the pipelines of a YAML file."""

    def __init__(self, plan: YamlPlan, inner_parameters: InnerParameters) -> None:
        self._plan = plan
        # The parameters of the pipeline files that steps of this one name, after this run.
        self._inner_parameters = inner_parameters
        self._names: dict[tuple[KeyPath, Slot], str] = {}

    def pipelines(self) -> Iterator[tuple[Target, list[Target]]]:
        for document in self._plan.documents:
            root = document.root
            if root.kind.family == Family.PIPELINE:
                steps = (step for step in document.steps if step.parent is root)
                yield root, [step for step in steps if step.kind.resources]

    def parameter(self, pipeline: Target, slot: Slot) -> str:
        """The slot's name, unless the pipeline has such an input for something else."""
        key = (pipeline.path, slot)
        if key not in self._names:
            steps = self._plan.known_targets()
            names = parameter_names(slot)
            self._names[key] = next(
                name for name in names if self._is_free(pipeline, slot, name, steps)
            )
        return self._names[key]

    def _is_free(
        self, pipeline: Target, slot: Slot, name: str, targets: Iterable[Target], depth: int = 0
    ) -> bool:
        """Whether there is no such input, or all that it is used for is this slot."""
        declared = pipeline.get("inputs", name)
        if declared is None:
            return True
        value = construct(declared)
        fields = value if isinstance(value, dict) else {"value": value}
        type_name, type_of_value = (
            ("integer", int) if slot == Slot.INSTANCE_COUNT else ("string", str)
        )
        default = fields.get("default", fields.get("value"))
        if fields.get("type", type_name) != type_name or "enum" in fields:
            return False
        if default is not None and type(default) is not type_of_value:
            return False
        steps = {step.name: step for step in targets if step.parent is pipeline}
        return all(
            self._is_for(steps, slot, path, depth)
            for path, _, node in items_below(pipeline.get("jobs"))
            if isinstance(node, yaml.ScalarNode) and str(Parameter(name)) in node.value
        )

    def _is_for(self, steps: Mapping[str, Target], slot: Slot, path: KeyPath, depth: int) -> bool:
        """Whether a place below `jobs` takes the value of a slot; an inner pipeline may take it as
        its own input.
        """
        if path[1:] in (slot.path, slot.path[1:]):
            return True
        step, name = steps.get(str(path[0])), str(path[-1])
        if step is None or step.kind.family != Family.PIPELINE or path[1:-1] != ("inputs",):
            return False
        if name not in parameter_names(slot):
            return False
        inner = self._plan.project.referenced(step) if depth < MAX_PIPELINE_DEPTH else None
        return inner is None or self._is_free(inner.root, slot, name, inner.targets, depth + 1)

    def declared_default(self, pipeline: Target, name: str) -> str | None:
        return text_of(pipeline.get("inputs", name)) or pipeline.text("inputs", name, "default")

    def declare(self, pipeline: Target, slot: Slot, default: str | int) -> bool:
        """A plain value in a job, a typed one with a default in a component."""
        path: KeyPath = ("inputs", self.parameter(pipeline, slot))
        declared = pipeline.get(*path)
        is_component = pipeline.kind.role == Role.COMPONENT
        if is_component and declared is None:
            kind = "string" if slot == Slot.INSTANCE_TYPE else "integer"
            value = {"type": kind, "default": default}
            return self._plan.set(EXPOSE, pipeline, path, value)
        fields = pairs(declared)
        if is_component or fields:
            path = (*path, "value" if "value" in fields and not is_component else "default")
        is_same = pipeline.text(*path) == str(default)
        return is_same or self._plan.set(EXPOSE, pipeline, path, default)

    def can_bind(self, step: Target, slot: Slot) -> bool:
        """An inline command step cannot bind its count (azure-ai-ml: "component missing"), and keys
        beside `component` win over `resources`.
        """
        winning = [name for name in RESOURCE_KEYS if name in step.fields]
        if winning and step.overrides_resources:
            reason = f"{', '.join(winning)} beside `component` wins over `resources`: move it there"
            message = f"{slot.path[-1]} of {step.shown} is not exposed"
            self._plan.warn(EXPOSE, message, step.at, reason)
            return False
        is_inline = step.kind.family == Family.COMMAND and step.get("component") is None
        if not is_inline or slot != Slot.INSTANCE_COUNT or step.is_bound(slot.path):
            return True
        is_lost = self._plan.settings.instance_count is not None or step.owns(slot.path)
        severity: Severity = "warning" if is_lost else "note"
        message = f"instance_count of {step.shown} is not exposed"
        reason = "an inline command step cannot bind its count: move its job to a component file"
        self._plan.add_finding(EXPOSE, severity, message, step.at, reason)
        return False

    def leaves_to_parameters(self, target: Target) -> bool:
        step = target if target.kind.role == Role.STEP else target.parent
        pipeline = step.parent if step is not None else None
        return pipeline is not None and pipeline.parent is None

    def expose_others(self) -> None:
        """A pipeline that uses another one passes the parameters of that one on."""
        for document in self._plan.documents:
            root = document.root
            if root.kind.family != Family.PIPELINE:
                self._report_root(root)
            for step in document.steps:
                if step.kind.family == Family.PIPELINE and step.parent is root:
                    inner = self._inner_parameters.get(step.reference or "", {})
                    for slot, (name, default) in inner.items():
                        self._pass_on(root, step, slot, name, default)

    def _report_root(self, root: Target) -> None:
        """Why what is not a pipeline has no parameters."""
        kind = root.kind
        if kind.role == Role.SPEC:
            message = "a v1.5 spec has no place for parameters of resources"
            call = "`runsettings.resource_layout.configure(...)`"
            reason = f"pass them from `@dsl.pipeline` parameters to {call}"
        elif not kind.resources or self._plan.project.uses(self._plan.path):
            return
        else:
            message = f"a {kind.name} cannot expose its resources"
            rejected = "azure-ai-ml rejects `instance_count: ${{inputs.x}}` in it"
            reason = f"{rejected}: only a pipeline has such inputs"
        self._plan.add_finding(EXPOSE, "note", message, root.at, reason)

    def _pass_on(self, outer: Target, step: Target, slot: Slot, name: str, default: str) -> None:
        """What the pipeline of a step exposes as `name`, `outer` exposes too."""
        plan, path = self._plan, ("inputs", name)
        parameter = self.parameter(outer, slot)
        is_passed = step.text(*path) == str(Parameter(parameter))
        if (step.is_bound(path) and not is_passed) or not _is_wanted(plan, step, slot, path):
            return
        requested = plan.requested_resources()[slot] if plan.settings.wants(slot.rule) else None
        inner = step.text(*path) or default
        own = plan.values.own
        declared = own(outer, "inputs", parameter) or own(outer, "inputs", parameter, "default")
        if requested is None and not is_passed and declared not in (None, inner):
            defaults = f"the defaults differ ({inner}, and {declared} of the parameter)"
            message = f"{name} is not passed on to {step.shown}"
            plan.warn(EXPOSE, message, step.place_of(path), f"{defaults}: use --{slot.rule}")
            return
        has_value = requested is None and declared is not None
        value = requested or _typed(slot, inner)
        if (has_value or self.declare(outer, slot, value)) and not is_passed:
            plan.set(EXPOSE, step, path, Parameter(parameter))
