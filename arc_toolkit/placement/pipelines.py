"""Pipelines of Kubeflow Pipelines (kfp 2), compiled to YAML: what each task that runs a container
says about nodes.

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
from dataclasses import dataclass, replace

import yaml

from arc_toolkit.edit.yaml.nodes import (
    SEQ,
    KeyPath,
    YamlNode,
    YamlText,
    compose,
    get,
    items_of,
    pairs,
    text_of,
)
from arc_toolkit.kube.workloads import Shape
from arc_toolkit.placement.decisions import (
    FieldChange,
    Note,
    Obstacle,
    PlacementDecision,
    PlacementRefused,
    SpecEditor,
    decide,
)
from arc_toolkit.placement.manifests import PREFERRED, REQUIRED, PodSpec, mapping_node
from arc_toolkit.placement.node_choice import add_toleration, refuse_contradictions
from arc_toolkit.placement.place_plan import GRACE, RETRIES, SPOT, PlaceSettings
from arc_toolkit.placement.spot import (
    WEIGHT,
    SpotCapacity,
    SpotPolicy,
    SpotPreference,
    prefers,
    term_preference,
)

KIND = "pipeline"
# The driver does what these stand for, such as making a volume claim: no pod of theirs runs.
# https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/driver/k8s.go
_DRIVER_IMAGES = "argostub/"
EXECUTORS = ("platforms", "kubernetes", "deploymentSpec", "executors")
_PLATFORM = "---\nplatforms:\n  kubernetes:\n    deploymentSpec:\n      executors:\n"
NOT_RETRIED = (
    "kfp 2.15 to 2.17 makes an Argo retryStrategy without a retryPolicy of it, which does not "
    "retry deleted pods: errors are retried, and so is a process that exits at SIGTERM; most "
    "evictions are not"
)


@dataclass(frozen=True, slots=True)
class ContainerTask:
    """A task of a pipeline that runs a container."""

    name: str
    path: KeyPath
    node: YamlNode
    executor: str


@dataclass(frozen=True, slots=True)
class CompiledPipeline:
    """One pipeline: where it is, and where the settings of its platform are."""

    name: str
    node: YamlNode
    tasks: tuple[ContainerTask, ...]
    platform: KeyPath
    # The settings of its executors, by name.
    settings: dict[str, YamlNode]
    # Whether settings of the platform have a place; the second document may have to be added.
    has_platform: bool = True

    def pod_spec(self, executor: str, role: str, at: YamlNode) -> PodSpec:
        """The choice of nodes of an executor as a pod spec, with the path of its settings."""
        settings = self.settings.get(executor)
        fields = {
            "tolerations": get(settings, "tolerations"),
            "nodeSelector": get(settings, "nodeSelector", "labels"),
            "affinity": _affinity(settings),
        }
        present = {name: value for name, value in fields.items() if value is not None}
        node = mapping_node(present, at.start_mark, at.end_mark)
        return PodSpec((*self.platform, *EXECUTORS, executor), node, role, Shape.POD_SPEC, False)


# --- reading --------------------------------------------------------------------------------------


def read_pipelines(source: YamlText) -> Iterator[CompiledPipeline]:
    """The pipelines of a file, with the tasks of nested ones."""
    documents = source.documents
    root = documents[0] if documents else None
    if len(documents) <= 2 and root is not None and _is_pipeline(root):
        pipeline = _pipeline(root, (0,), (1,), documents[1] if len(documents) > 1 else None)
        # JSON has no second document.
        is_json = getattr(root, "flow_style", False) and len(documents) == 1
        yield replace(pipeline, has_platform=not is_json)
        return
    for number, document in enumerate(documents):
        spec = get(document, "spec")
        inner = get(spec, "pipelineSpec")
        if (
            text_of(get(document, "kind")) == "PipelineVersion"
            and inner is not None
            and _is_pipeline(inner)
        ):
            path: KeyPath = (number, "spec")
            yield _pipeline(
                inner, (*path, "pipelineSpec"), (*path, "platformSpec"), get(spec, "platformSpec")
            )


def _is_pipeline(node: YamlNode | None) -> bool:
    return (
        get(node, "root", "dag") is not None
        and get(node, "deploymentSpec", "executors") is not None
    )


def _pipeline(
    node: YamlNode, path: KeyPath, platform: KeyPath, settings: YamlNode | None
) -> CompiledPipeline:
    containers = {
        name
        for name, (_, executor) in pairs(get(node, "deploymentSpec", "executors")).items()
        if get(executor, "container") is not None
        and not (text_of(get(executor, "container", "image")) or "").startswith(_DRIVER_IMAGES)
    }
    tasks = []
    dags: list[tuple[KeyPath, YamlNode | None]] = [
        ((*path, "root", "dag", "tasks"), get(node, "root", "dag", "tasks"))
    ]
    for name, (_, component) in pairs(get(node, "components")).items():
        dags.append(((*path, "components", name, "dag", "tasks"), get(component, "dag", "tasks")))
    for place, dag in dags:
        for name, (_, task) in pairs(dag).items():
            reference = text_of(get(task, "componentRef", "name")) or ""
            executor = text_of(get(node, "components", reference, "executorLabel"))
            if executor is not None and executor in containers:
                tasks.append(ContainerTask(name, (*place, name), task, executor))
    by_executor = {name: value for name, (_, value) in pairs(get(settings, *EXECUTORS)).items()}
    name = text_of(get(node, "pipelineInfo", "name")) or ""
    return CompiledPipeline(name, node, tuple(tasks), platform, by_executor)


def _affinity(settings: YamlNode | None) -> YamlNode | None:
    """`nodeAffinity` as in a pod spec: terms without a weight are required alternatives."""
    terms = items_of(get(settings, "nodeAffinity"))
    if not terms:
        return None
    mark = terms[0].start_mark
    required = [term for term in terms if get(term, "weight") is None]
    preferred: list[YamlNode] = [
        mapping_node({"preference": term}, mark) for term in terms if term not in required
    ]
    fields = {
        REQUIRED[2]: mapping_node({REQUIRED[3]: yaml.SequenceNode(SEQ, required)}, mark),
        PREFERRED[2]: yaml.SequenceNode(SEQ, preferred),
    }
    return mapping_node({"nodeAffinity": mapping_node(fields, mark)}, mark)


# --- the second document --------------------------------------------------------------------------


def with_platform(source: YamlText) -> YamlText:
    """A pipeline of one document, followed by a second one with empty settings of its platform."""
    newline = "\r\n" if "\r\n" in source.text else "\n"
    start = source.text if source.text.endswith("\n") else source.text + newline
    text = start + _PLATFORM.replace("\n", newline)
    return YamlText(text, source.bom, compose(text))


# --- placing --------------------------------------------------------------------------------------


def decide_pipeline(
    pipeline: CompiledPipeline, settings: PlaceSettings
) -> Iterator[PlacementDecision]:
    """What `place` would do with the tasks of a pipeline; their roles are their names."""
    if settings.spot is not None and settings.wants(SPOT):
        for executor in dict.fromkeys(task.executor for task in pipeline.tasks):
            yield from _decide_executor(pipeline, executor, settings, settings.spot)
    if settings.grace is not None and settings.wants(GRACE):
        message = f"pipeline {pipeline.name}: the grace period is not set"
        refusal = PlacementRefused(Obstacle.NO_FIELD, "kfp has no field for it")
        yield PlacementDecision(GRACE, message, pipeline.node, refusal=refusal)
    retries = settings.retries if settings.wants(RETRIES) else None
    if retries is not None and settings.spot is not SpotPolicy.AVOID:
        yield from _decide_retries(pipeline, settings, retries)


def is_chosen_pipeline(pipeline: CompiledPipeline, settings: PlaceSettings) -> bool:
    is_kind = not settings.kinds or KIND in settings.kinds
    return is_kind and (not settings.names or pipeline.name in settings.names)


def _is_chosen_task(task: ContainerTask, settings: PlaceSettings) -> bool:
    return not settings.roles or task.name.lower() in settings.roles


def _decide_executor(
    pipeline: CompiledPipeline, executor: str, settings: PlaceSettings, spot: SpotPolicy
) -> Iterator[PlacementDecision]:
    tasks = [task for task in pipeline.tasks if task.executor == executor]
    chosen = [task for task in tasks if _is_chosen_task(task, settings)]
    if not chosen:
        return
    others = ", ".join(task.name for task in tasks if task not in chosen)
    first = chosen[0]

    def operation(editor: SpecEditor) -> None:
        if not pipeline.has_platform:
            raise PlacementRefused(
                Obstacle.NO_FIELD,
                "kfp keeps such settings in a second document of YAML: compile it to YAML",
            )
        if others:
            raise PlacementRefused(Obstacle.CONTRADICTION, f"{others} runs with the same executor")
        spec = pipeline.pod_spec(executor, first.name, first.node)
        _place_executor(editor, spec, pipeline.settings.get(executor), spot, settings.capacity)

    message = f"pipeline {pipeline.name}, task {first.name} is not changed"
    yield decide(None, SPOT, message, first.node, operation, policy=spot)


def _place_executor(
    editor: SpecEditor,
    spec: PodSpec,
    settings: YamlNode | None,
    spot: SpotPolicy,
    capacity: SpotCapacity,
) -> None:
    """Ask for these nodes in the settings of one executor."""
    terms = items_of(get(settings, "nodeAffinity"))
    by_parameter = [
        get(settings, "nodeSelector", "nodeSelectorJson"),
        *(get(term, "nodeAffinityJson") for term in terms),
        *(get(row, "tolerationJson") for row in items_of(get(settings, "tolerations"))),
    ]
    if any(node is not None for node in by_parameter):
        raise PlacementRefused(
            Obstacle.ELSEWHERE,
            "it is set by a pipeline parameter: set tolerations and selector there",
        )
    preferences = refuse_contradictions(spec, spot, capacity)
    path: KeyPath = (*spec.path, "nodeAffinity")
    if spot is not SpotPolicy.AVOID:
        add_toleration(editor, spec, capacity)
    if spot is SpotPolicy.PREFER:
        if not prefers(spec, capacity.label):
            editor.append(path, {**capacity.term("In"), "weight": WEIGHT})
    elif spot is SpotPolicy.REQUIRE:
        # Every release of kfp-kubernetes has the selector, and it holds beside alternative terms.
        if SpotPreference.TOWARDS not in preferences:
            editor.set((*spec.path, "nodeSelector", "labels", capacity.label[0]), capacity.label[1])
    elif SpotPreference.AWAY not in preferences:
        added = capacity.term("NotIn")
        required = [index for index, term in enumerate(terms) if get(term, "weight") is None]
        if not required:
            editor.append(path, added)
        for index in required:
            if term_preference(terms[index], capacity.label) is not SpotPreference.AWAY:
                editor.append((*path, index, "matchExpressions"), *added["matchExpressions"])


def _decide_retries(
    pipeline: CompiledPipeline, settings: PlaceSettings, retries: int
) -> Iterator[PlacementDecision]:
    for task in pipeline.tasks:
        count = get(task.node, "retryPolicy", "maxRetryCount")
        if count is None and _is_chosen_task(task, settings):
            message = f"pipeline {pipeline.name}, task {task.name}: retries are not set"
            change = FieldChange((*task.path, "retryPolicy", "maxRetryCount"), retries)
            yield PlacementDecision(RETRIES, message, task.node, (change,))
    if pipeline.tasks:
        message = f"pipeline {pipeline.name}: retries are for errors"
        note = Note(RETRIES, "warning", message, NOT_RETRIED)
        yield PlacementDecision(RETRIES, message, pipeline.node, notes=(note,))
