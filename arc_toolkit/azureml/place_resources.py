"""Instance type, instance count and compute onto the targets that keep them (see `kinds.KINDS`)."""

from __future__ import annotations

from arc_toolkit.azureml.documents import Document, Target
from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.work import Work
from arc_toolkit.azureml.yaml_style import is_bound
from arc_toolkit.edit.yaml_nodes import Node, get, text_of

# Names of computes that are no references to a compute of the workspace.
_BARE_COMPUTES = frozenset(["local", "serverless"])


def place_resources(work: Work, document: Document) -> None:
    """`resources.instance_type` and `resources.instance_count`."""
    settings = work.settings
    wanted = [
        (rule, field, value)
        for rule, field, value in (
            ("instance-type", "instance_type", settings.instance_type),
            ("instance-count", "instance_count", settings.instance_count),
        )
        if value is not None
    ]
    if not wanted:
        return
    for target in document.targets:
        # Exposed parameters are bound in the steps instead.
        if settings.expose_parameters and target.parent is not None:
            continue
        resources = target.get("resources")
        for rule, field, value in wanted:
            if work.wants(rule, target):
                _place_resource(work, rule, target, resources, field, value)


def _place_resource(
    work: Work, rule: str, target: Target, resources: Node | None, field: str, value: str | int
) -> None:
    kind = target.kind
    if not kind.resources:
        if kind.family != Family.PIPELINE:
            work.found(rule, "note", f"not set on {target.shown}", target.at, reason=kind.why)
        return
    if target.parent is not None and kind.role == Role.COMPONENT:
        return  # written in place inside of a step, which overrides it
    current = text_of(get(resources, field)) if resources is not None else None
    if is_bound(current):
        node = target.get("resources", field)
        reason = "it is bound to a parameter, which gives the value"
        work.found(rule, "note", f"`{field}: {current}` is left as it is", node or target.at, reason=reason)
    elif current != str(value):
        work.set(rule, target, ("resources", field), value)


def place_compute(work: Work, document: Document) -> None:
    """`compute` of jobs, `settings.default_compute` of pipelines, and steps that name a compute of their own."""
    if work.settings.compute is None:
        return
    value = compute_reference(work.settings.compute)
    chosen = bool(work.settings.steps or work.settings.kinds)
    for target in document.targets:
        if not target.kind.compute or not work.wants("compute", target):
            continue
        if target.kind.family == Family.PIPELINE:
            if target.text("settings", "default_compute") is not None or target.text("compute") is None:
                _place_compute(work, target, ("settings", "default_compute"), value)
            if target.text("compute") is not None:
                _place_compute(work, target, ("compute",), value)
        elif target.kind.role == Role.JOB or target.text("compute") is not None or chosen:
            _place_compute(work, target, ("compute",), value)


def _place_compute(work: Work, target: Target, path: tuple[str, ...], value: str) -> None:
    current = target.text(*path)
    if current != value and not is_bound(current):
        work.set("compute", target, path, value)


def compute_reference(name: str) -> str:
    """`azureml:NAME`, unless it is a reference, a resource id, or one of the two names that stand for themselves."""
    if name.startswith(("azureml:", "/", "${{")) or name in _BARE_COMPUTES:
        return name
    return f"azureml:{name}"
