"""Pipelines of Kubeflow Pipelines (kfp 2), compiled to YAML: what each task that runs a container says about nodes.

A pipeline is one document, followed by one with the settings of the platform, or both are fields of a PipelineVersion:

    root.dag.tasks.T.componentRef.name -> components.C.executorLabel -> deploymentSpec.executors.E.container
    platforms.kubernetes.deploymentSpec.executors.E: tolerations, nodeSelector.labels, nodeAffinity

The fields are those of the message KubernetesExecutorConfig:
https://github.com/kubeflow/pipelines/blob/2.17.0/kubernetes_platform/proto/kubernetes_executor_config.proto
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import yaml

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import (
    MAP,
    SEQ,
    STR,
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
from arc_toolkit.placement.manifests import PREFERRED, REQUIRED, PodSpec
from arc_toolkit.placement.node_choice import add_toleration, refuse_contradictions
from arc_toolkit.placement.place_plan import GRACE, RETRIES, SPOT, PlacePlan, PlaceSettings
from arc_toolkit.placement.spec_editor import SpecEditor
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
_PLATFORM = "platforms:\n  kubernetes:\n    deploymentSpec:\n      executors:\n"
NOT_RETRIED = (
    "kfp 2.15 to 2.17 makes an Argo retryStrategy without a retryPolicy of it, which does not start deleted pods "
    "again: errors are retried, and so is a process that exits at SIGTERM; most evictions are not"
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
    # Whether there is a place for settings of the platform.
    has_platform: bool = True

    def pod_spec(self, executor: str, role: str, at: YamlNode) -> PodSpec:
        """What an executor says about nodes, in the form of a pod spec; the path is that of its settings."""
        own = self.settings.get(executor)
        fields = {
            "tolerations": get(own, "tolerations"),
            "nodeSelector": get(own, "nodeSelector", "labels"),
            "affinity": _affinity(own),
        }
        node = _mapping({name: value for name, value in fields.items() if value is not None}, at)
        return PodSpec((*self.platform, *EXECUTORS, executor), node, role, Shape.POD_SPEC, False)


# --- reading ---------------------------------------------------------------------------------------------------


def read_pipelines(source: YamlText) -> Iterator[CompiledPipeline]:
    """The pipelines of a file, with the tasks of nested ones."""
    documents = source.documents
    if 1 <= len(documents) <= 2 and _is_pipeline(documents[0]):
        assert documents[0] is not None
        pipeline = _pipeline(documents[0], (0,), (1,), documents[1] if len(documents) > 1 else None)
        yield replace(pipeline, has_platform=len(documents) > 1)
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
    own = {name: value for name, (_, value) in pairs(get(settings, *EXECUTORS)).items()}
    name = text_of(get(node, "pipelineInfo", "name")) or ""
    return CompiledPipeline(name, node, tuple(tasks), platform, own)


def _affinity(settings: YamlNode | None) -> YamlNode | None:
    """`nodeAffinity` as a pod spec has it: terms without a weight are required, and any of them is enough."""
    terms = items_of(get(settings, "nodeAffinity"))
    if not terms:
        return None
    required = [term for term in terms if get(term, "weight") is None]
    preferred = [
        _mapping({"preference": term}, term) for term in terms if get(term, "weight") is not None
    ]
    fields = {
        REQUIRED[2]: _mapping({REQUIRED[3]: yaml.SequenceNode(SEQ, required)}, terms[0]),
        PREFERRED[2]: yaml.SequenceNode(SEQ, preferred),
    }
    return _mapping({"nodeAffinity": _mapping(fields, terms[0])}, terms[0])


def _mapping(fields: dict[str, YamlNode], at: YamlNode) -> YamlNode:
    value = [(yaml.ScalarNode(STR, name), node) for name, node in fields.items()]
    return yaml.MappingNode(MAP, value, at.start_mark, at.end_mark)


# --- the second document ---------------------------------------------------------------------------------------


def with_platform(source: YamlText) -> YamlText:
    """A pipeline of one document followed by settings of its platform, which are empty; any other file as it is."""
    root = source.documents[0]
    if len(source.documents) != 1 or not _is_pipeline(root) or getattr(root, "flow_style", False):
        return source
    text = source.text + _platform(source.text)
    return YamlText(text, source.bom, compose(text))


def without_platform(text: str, documents: tuple[YamlNode | None, ...]) -> YamlText:
    """The same text without settings of its platform that stayed empty."""
    for newline in ("\n", "\r\n") if len(documents) == 2 else ():
        end = _platform(text[: text.rfind("---")]).replace("\n", newline)
        if text.endswith(end):
            return YamlText(text.removesuffix(end), False, documents[:1])
    return YamlText(text, False, documents)


def _platform(text: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    return ("" if text.endswith("\n") else newline) + ("---\n" + _PLATFORM).replace("\n", newline)


# --- placing ---------------------------------------------------------------------------------------------------


def place_pipelines(plan: PlacePlan, pipelines: Iterable[CompiledPipeline]) -> None:
    """Everything that was asked for, for every pipeline of a file. Roles are the names of tasks."""
    settings = plan.settings
    for pipeline in pipelines:
        plan.kinds.add(KIND)
        plan.names.add(pipeline.name)
        plan.roles |= {task.name.lower() for task in pipeline.tasks}
        if not is_chosen_pipeline(pipeline, settings):
            continue
        if settings.spot is not None and settings.wants(SPOT):
            _place_tasks(plan, pipeline, settings.spot)
        if settings.grace is not None and settings.wants(GRACE):
            message = f"pipeline {pipeline.name}: the grace period is not set"
            plan.refuse(GRACE, message, pipeline.node, "kfp has no field for it")
        if (
            settings.retries is not None
            and settings.wants(RETRIES)
            and settings.spot is not SpotPolicy.AVOID
        ):
            _retry_tasks(plan, pipeline, settings.retries)


def is_chosen_pipeline(pipeline: CompiledPipeline, settings: PlaceSettings) -> bool:
    return (not settings.kinds or KIND in settings.kinds) and (
        not settings.names or pipeline.name in settings.names
    )


def _chosen(plan: PlacePlan, task: ContainerTask) -> bool:
    return not plan.settings.roles or task.name.lower() in plan.settings.roles


def _place_tasks(plan: PlacePlan, pipeline: CompiledPipeline, spot: SpotPolicy) -> None:
    by_executor: dict[str, list[ContainerTask]] = {}
    for task in pipeline.tasks:
        by_executor.setdefault(task.executor, []).append(task)
    for executor, tasks in by_executor.items():
        chosen = [task for task in tasks if _chosen(plan, task)]
        if not chosen:
            continue
        others = ", ".join(task.name for task in tasks if task not in chosen)
        spec = pipeline.pod_spec(executor, chosen[0].name, chosen[0].node)
        settings = pipeline.settings.get(executor)

        def operation(
            editor: SpecEditor,
            spec: PodSpec = spec,
            settings: YamlNode | None = settings,
            others: str = others,
        ) -> None:
            if others:
                raise Refused(f"{others} runs with the same executor")
            place_executor(editor, spec, settings, spot, plan.settings.capacity)

        message = f"pipeline {pipeline.name}, task {chosen[0].name} is not changed"
        if not pipeline.has_platform:
            plan.refuse(
                SPOT,
                message,
                chosen[0].node,
                "kfp keeps such settings in a second document of YAML: compile it to YAML",
            )
        else:
            plan.attempt(SPOT, message, chosen[0].node, operation)


def place_executor(
    editor: SpecEditor,
    spec: PodSpec,
    settings: YamlNode | None,
    spot: SpotPolicy,
    capacity: SpotCapacity,
) -> None:
    """Ask for these nodes in the settings of one executor; `Refused` with the reason if they say the opposite."""
    terms = items_of(get(settings, "nodeAffinity"))
    by_parameter = [
        get(settings, "nodeSelector", "nodeSelectorJson"),
        *(get(term, "nodeAffinityJson") for term in terms),
    ]
    by_parameter += [get(row, "tolerationJson") for row in items_of(get(settings, "tolerations"))]
    if any(node is not None for node in by_parameter):
        raise Refused(
            "a parameter of the pipeline says it: give the tolerations and the selector there"
        )
    directions = refuse_contradictions(spec, spot, capacity)
    path: KeyPath = (*spec.path, "nodeAffinity")
    if spot is not SpotPolicy.AVOID:
        add_toleration(editor, spec, capacity)
    if spot is SpotPolicy.PREFER:
        if not prefers(spec, capacity.label):
            editor.append(path, {**capacity.term("In"), "weight": WEIGHT})
    elif spot is SpotPolicy.REQUIRE:
        # Every release of kfp-kubernetes has the selector, and it holds beside terms that are alternatives.
        if SpotPreference.TOWARDS not in directions:
            editor.set((*spec.path, "nodeSelector", "labels", capacity.label[0]), capacity.label[1])
    elif SpotPreference.AWAY not in directions:
        added = capacity.term("NotIn")
        required = [index for index, term in enumerate(terms) if get(term, "weight") is None]
        if not required:
            editor.append(path, added)
        for index in required:
            if term_preference(terms[index], capacity.label) is not SpotPreference.AWAY:
                editor.append((*path, index, "matchExpressions"), *added["matchExpressions"])


def _retry_tasks(plan: PlacePlan, pipeline: CompiledPipeline, retries: int) -> None:
    for task in pipeline.tasks:
        if not _chosen(plan, task) or get(task.node, "retryPolicy", "maxRetryCount") is not None:
            continue
        path: KeyPath = (*task.path, "retryPolicy", "maxRetryCount")

        def operation(editor: SpecEditor, path: KeyPath = path) -> None:
            editor.set(path, retries)

        message = f"pipeline {pipeline.name}, task {task.name}: retries are not set"
        plan.attempt(RETRIES, message, task.node, operation)
    if pipeline.tasks:
        message = f"pipeline {pipeline.name}: retries are for errors"
        plan.add_finding(RETRIES, "warning", message, pipeline.node, NOT_RETRIED)
