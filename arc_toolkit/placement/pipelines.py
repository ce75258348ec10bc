"""Pipelines of Kubeflow Pipelines (kfp 2), compiled to YAML, as workloads: a task that runs a
container is a pod spec.

A pipeline is one document, followed by one with the settings of the platform, or both are fields of
a PipelineVersion:

    root.dag.tasks.T.componentRef.name -> components.C.executorLabel ->
    deploymentSpec.executors.E.container platforms.kubernetes.deploymentSpec.executors.E:
    tolerations, nodeSelector.labels, nodeAffinity

The fields are those of the message KubernetesExecutorConfig:
https://github.com/kubeflow/pipelines/blob/2.17.0/kubernetes_platform/proto/kubernetes_executor_config.proto
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from arc_toolkit.edit.yaml.nodes import (
    KeyPath,
    YamlNode,
    YamlText,
    compose,
    get,
    items_of,
    pairs,
    text_of,
)
from arc_toolkit.kube.workloads import PIPELINE, Shape
from arc_toolkit.placement.manifests import PREFERRED, REQUIRED, PodSpec, Workload, made_node

# The driver does what these stand for, such as making a volume claim: no pod of theirs runs.
# https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/driver/k8s.go
_DRIVER_IMAGES = "argostub/"
EXECUTORS = ("platforms", "kubernetes", "deploymentSpec", "executors")
_PLATFORM = "---\nplatforms:\n  kubernetes:\n    deploymentSpec:\n      executors:\n"
_BY_PARAMETER = "it is set by a pipeline parameter: set tolerations and selector there"
_NO_PLATFORM = "kfp keeps such settings in a second document of YAML: compile it to YAML"


class ExecutorSpec(PodSpec):
    """What the settings of an executor say about nodes, for one task that it runs."""

    required_path: ClassVar[KeyPath] = ("nodeAffinity",)
    preferred_path: ClassVar[KeyPath] = ("nodeAffinity",)

    def __init__(
        self,
        path: KeyPath,
        settings: YamlNode | None,
        task_path: KeyPath,
        task: YamlNode,
        obstacle: str = "",
    ) -> None:
        affinity = items_of(get(settings, "nodeAffinity"))
        fields = {
            "tolerations": get(settings, "tolerations"),
            "nodeSelector": get(settings, "nodeSelector", "labels"),
            "affinity": _affinity(affinity) if affinity else None,
        }
        present = {name: value for name, value in fields.items() if value is not None}
        node = made_node(present, task.start_mark, task.end_mark)
        super().__init__(path, node, str(task_path[-1]).lower(), Shape.EXECUTOR)
        self.required_terms = {
            index: term for index, term in enumerate(affinity) if get(term, "weight") is None
        }
        self.task_path = task_path
        self.retry_count = get(task, "retryPolicy", "maxRetryCount")
        by_parameter = [
            get(settings, "nodeSelector", "nodeSelectorJson"),
            *(get(term, "nodeAffinityJson") for term in affinity),
            *(get(row, "tolerationJson") for row in items_of(get(settings, "tolerations"))),
        ]
        is_by_parameter = any(value is not None for value in by_parameter)
        self._obstacle = obstacle or (_BY_PARAMETER if is_by_parameter else "")

    @property
    def obstacle(self) -> str:
        return self._obstacle


def _affinity(terms: list[YamlNode]) -> dict[str, Any]:
    """`nodeAffinity` as in a pod spec: terms without a weight are required alternatives."""
    required = [term for term in terms if get(term, "weight") is None]
    preferred = [{"preference": term} for term in terms if term not in required]
    return {"nodeAffinity": {REQUIRED[2]: {REQUIRED[3]: required}, PREFERRED[2]: preferred}}


def read_pipelines(source: YamlText) -> Iterator[Workload]:
    """The pipelines of a file, with the tasks of nested ones."""
    documents = source.documents
    if len(documents) in (1, 2) and _is_pipeline(documents[0]):
        obstacle = _NO_PLATFORM if len(documents) == 1 else ""
        yield _pipeline(documents[0], (0,), documents[-1], (1,), obstacle)
        return
    for number, document in enumerate(documents):
        spec = get(document, "spec")
        inner = get(spec, "pipelineSpec")
        if text_of(get(document, "kind")) == "PipelineVersion" and _is_pipeline(inner):
            path: KeyPath = (number, "spec")
            platform = (*path, "platformSpec")
            yield _pipeline(inner, (*path, "pipelineSpec"), get(spec, "platformSpec"), platform)


def _is_pipeline(node: YamlNode | None) -> bool:
    return (
        get(node, "root", "dag") is not None
        and get(node, "deploymentSpec", "executors") is not None
    )


def _pipeline(
    node: YamlNode | None,
    path: KeyPath,
    settings: YamlNode | None,
    platform: KeyPath,
    obstacle: str = "",
) -> Workload:
    """The pipeline `node` at `path`, with the settings of its platform, which belong at `platform`."""
    assert node is not None
    dags: list[tuple[KeyPath, YamlNode | None]] = [
        (("root", "dag", "tasks"), get(node, "root", "dag", "tasks"))
    ]
    for name, (_, component) in pairs(get(node, "components")).items():
        dags.append((("components", name, "dag", "tasks"), get(component, "dag", "tasks")))
    specs = []
    for place, dag in dags:
        for name, (_, task) in pairs(dag).items():
            reference = text_of(get(task, "componentRef", "name")) or ""
            executor = text_of(get(node, "components", reference, "executorLabel")) or ""
            container = get(node, "deploymentSpec", "executors", executor, "container")
            image = text_of(get(container, "image")) or ""
            if container is not None and not image.startswith(_DRIVER_IMAGES):
                at = (*platform, *EXECUTORS, executor)
                fields = get(settings, *EXECUTORS, executor)
                specs.append(ExecutorSpec(at, fields, (*path, *place, name), task, obstacle))
    name = text_of(get(node, "pipelineInfo", "name")) or ""
    return Workload(PIPELINE, name, "", path, node, tuple(specs))


def with_platform(source: YamlText) -> YamlText:
    """A pipeline of one document, followed by a second one with empty settings of its platform; any
    other file as it is. JSON has no second document."""
    documents = source.documents
    is_yaml = not getattr(documents[0] if documents else None, "flow_style", False)
    if len(documents) != 1 or not is_yaml or not _is_pipeline(documents[0]):
        return source
    newline = "\r\n" if "\r\n" in source.text else "\n"
    start = source.text if source.text.endswith("\n") else source.text + newline
    text = start + _PLATFORM.replace("\n", newline)
    return YamlText(text, source.bom, compose(text))
