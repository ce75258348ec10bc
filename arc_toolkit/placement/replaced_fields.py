"""Kinds in which the fields of one part replace those of another: a new field of a part would hide what it inherits.

In a workflow of Argo those of a template replace those of the template that calls it, and those of the workflow; in a
PipelineRun of Tekton those of a task replace those of the run. So a part says only what it already says by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import yaml

from arc_toolkit.edit.yaml.nodes import is_null
from arc_toolkit.kube.workloads import Shape
from arc_toolkit.placement.manifests import PodSpec, Workload, makes_pod

# Where a workflow says what is for all of its templates.
_TOP = ("spec", "workflowSpec")
Fields = tuple[bool, bool]  # the tolerations, the affinity


def own_fields(spec: PodSpec) -> Fields:
    """Which fields of a part replace those that it would inherit."""
    tolerations, affinity = spec.get("tolerations"), spec.get("affinity")
    # Argo inherits also where the list is there and empty.
    is_empty = isinstance(tolerations, yaml.SequenceNode) and not tolerations.value
    replaces = tolerations is not None and not is_null(tolerations)
    return (
        replaces and not (is_empty and spec.shape is Shape.WORKFLOW),
        affinity is not None and not is_null(affinity),
    )


def is_top(spec: PodSpec) -> bool:
    """Whether it is the workflow itself, and not one of its templates."""
    return spec.shape is Shape.WORKFLOW and spec.path[-1] in _TOP


def workflow_fields(
    workload: Workload, specs: Iterable[PodSpec]
) -> Iterator[tuple[PodSpec, Fields]]:
    """Where a workflow of Argo says it: at its top, and in the parts that would replace that with their own.

    A template of a WorkflowTemplate is also used without the top of its workflow, so there each of them says it, unless
    fields that it inherits would be replaced by that.
    """
    passed_on = any(any(own_fields(spec)) for spec in workload.pod_specs if not makes_pod(spec))
    by_template = workload.kind.kind.endswith("WorkflowTemplate") and not passed_on
    for spec in specs:
        if is_top(spec):
            if not by_template:
                yield spec, (True, True)
            continue
        fields = (True, True) if by_template and makes_pod(spec) else own_fields(spec)
        if any(fields) or spec.get("nodeSelector") is not None:
            yield spec, fields
