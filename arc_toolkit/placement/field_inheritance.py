"""Kinds whose parts inherit fields about nodes: workflows of Argo and PipelineRuns of Tekton.

Argo takes each field of a pod by itself from the template, else from the template that calls it,
else from the workflow (argo-workflows, workflow/controller/workflowpod.go); `templateDefaults` are
merged into every template. Tekton takes those of a task, else those of the run. A new field of a
part would hide what it inherits, so `place` writes a field where it already is, and else for the
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import yaml

from arc_toolkit.edit.yaml.nodes import STR, YamlNode, is_null
from arc_toolkit.kube.workloads import Retry, Shape
from arc_toolkit.placement.manifests import PodSpec, Workload, makes_pod

# The last step of the path to a workflow as a whole, and to the defaults of its templates.
_WORKFLOW_STEPS = ("spec", "workflowSpec")
SHARED_STEPS = (*_WORKFLOW_STEPS, "templateDefaults")
_NODE_FIELDS = ("tolerations", "affinity", "nodeSelector")
ReplacedFields = tuple[bool, bool]  # the tolerations, the affinity


def replaced_fields(spec: PodSpec) -> ReplacedFields:
    """Which fields of a part replace those that it would inherit."""
    return _replaces(spec, "tolerations"), _replaces(spec, "affinity")


def _replaces(spec: PodSpec, name: str) -> bool:
    field = spec.get(name)
    # Argo inherits also where a list is empty; Tekton does not.
    is_empty = isinstance(field, yaml.SequenceNode) and not field.value
    return (
        field is not None and not is_null(field) and not (is_empty and spec.shape is Shape.WORKFLOW)
    )


def is_whole_workflow(spec: PodSpec) -> bool:
    """Whether it is the workflow itself, and not one of its templates."""
    return spec.shape is Shape.WORKFLOW and spec.path[-1] in _WORKFLOW_STEPS


def workflow_fields(
    workload: Workload, specs: Iterable[PodSpec]
) -> Iterator[tuple[PodSpec, ReplacedFields]]:
    """Where a workflow of Argo chooses nodes: as a whole, and in the parts with fields of their
    own.

    Other workflows use a template of a WorkflowTemplate without the rest of it. So there each
    template gets the fields, unless they would replace fields that it inherits.
    """
    inherited = any(
        any(replaced_fields(spec)) for spec in workload.pod_specs if not makes_pod(spec)
    )
    by_template = workload.kind.kind.endswith("WorkflowTemplate") and not inherited
    for spec in specs:
        if is_whole_workflow(spec):
            if not by_template:
                yield spec, (True, True)
            continue
        fields = (True, True) if by_template and makes_pod(spec) else replaced_fields(spec)
        if any(fields) or spec.get("nodeSelector") is not None:
            yield spec, fields


def pods_of(workload: Workload) -> tuple[PodSpec, ...]:
    """The pod specs with the fields about nodes that their pods really get.

    A Workflow with a toleration, and a template `train` with a nodeSelector and no toleration: one
    pod spec, at the template, with both. Parts without pods of their own (steps, a DAG) are left
    out. A workflow without templates, such as one with a workflowTemplateRef, is taken as its own pods.
    """
    specs = workload.pod_specs
    if workload.kind.retry is Retry.ARGO:
        templates = [spec for spec in specs if makes_pod(spec)]
        shared = [spec for spec in specs if spec.path[-1] in SHARED_STEPS]
        callers = [spec for spec in specs if not makes_pod(spec) and spec not in shared]
        holders = [*reversed(shared[1:]), *callers, *shared[:1]]
        return tuple(_with_inherited(spec, holders) for spec in templates) or specs
    if any(spec.shape is Shape.TASK_TEMPLATE for spec in specs):
        return (specs[0], *(_with_inherited(spec, specs[:1]) for spec in specs[1:]))
    return specs


def _with_inherited(spec: PodSpec, holders: Iterable[PodSpec]) -> PodSpec:
    added: list[tuple[YamlNode, YamlNode]] = []
    for name in _NODE_FIELDS:
        if _replaces(spec, name):
            continue
        for holder in holders:
            field = holder.get(name)
            if field is not None and _replaces(holder, name):
                added.append((yaml.ScalarNode(STR, name), field))
                break
    if not added:
        return spec
    names = {key.value for key, _ in added}
    fields = [pair for pair in spec.node.value if pair[0].value not in names]
    start, end = spec.node.start_mark, spec.node.end_mark
    node = yaml.MappingNode(spec.node.tag, [*fields, *added], start, end)
    return PodSpec(spec.path, node, spec.role, spec.shape, spec.coordinator)
