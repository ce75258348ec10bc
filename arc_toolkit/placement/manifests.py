"""Reading Kubernetes manifests: the workloads in a file, their pod specs, and what these inherit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import yaml

from arc_toolkit.edit.yaml.nodes import (
    MAP,
    SEQ,
    STR,
    KeyPath,
    YamlNode,
    YamlText,
    get,
    is_null,
    items_of,
    pairs,
    text_of,
)
from arc_toolkit.kube.quantities import devices_in
from arc_toolkit.kube.workloads import (
    EACH_ITEM,
    EACH_KEY,
    Retry,
    Shape,
    SpecPath,
    WorkloadKind,
    workload_kind,
)
from arc_toolkit.placement.intents import Intent, Intents

REQUIRED = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)
PREFERRED = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
_TERM_FIELDS = ("matchExpressions", "matchFields")


@dataclass(eq=False)
class PodSpec:
    """One pod spec, or fields in place of one. Never changed; not frozen, which is slower."""

    path: KeyPath
    node: YamlNode
    role: str
    shape: Shape
    coordinator: bool = False

    # Where terms of a node affinity are written; a pipeline of kfp has another place for them.
    required_path: ClassVar[KeyPath] = REQUIRED
    preferred_path: ClassVar[KeyPath] = PREFERRED

    def __post_init__(self) -> None:
        fields = {
            key.value: value for key, value in self.node.value if isinstance(key, yaml.ScalarNode)
        }
        # The values by their keys, of which a dozen are asked for; None if it has a merge key.
        self._fields = None if "<<" in fields else fields
        labels = pairs(self.get("nodeSelector"))
        # The nodeSelector; values that are not text are left out, because the API server refuses
        # them.
        self.selector = {
            key: value for key, (_, node) in labels.items() if (value := text_of(node))
        }
        terms = items_of(self.get(*REQUIRED)) if self.get("affinity") is not None else ()
        # The nodeSelectorTerms by their index, without empty ones: those match no node, and must
        # not begin to.
        self.required_terms = {
            index: term
            for index, term in enumerate(terms)
            if any(items_of(get(term, name)) for name in _TERM_FIELDS)
        }

    def get(self, name: str, *path: str | int) -> YamlNode | None:
        fields = self._fields
        node = get(self.node, name) if fields is None else fields.get(name)
        return get(node, *path) if path else node

    def text(self, name: str, *path: str | int) -> str | None:
        return text_of(self.get(name, *path))

    @property
    def obstacle(self) -> str:
        """Why nothing can be set in it; empty if it can."""
        containers = self.get("containers")
        is_empty = is_null(containers) or not getattr(containers, "value", None)
        if self.shape is not Shape.POD_SPEC or not is_empty:
            return ""
        return (
            "its pod spec has no containers, as in a patch of kustomize: "
            "place the manifest that it patches"
        )


@dataclass(frozen=True, slots=True)
class Workload:
    """One object of a known kind; `pod_specs` is empty if none is where it should be."""

    kind: WorkloadKind
    name: str
    namespace: str
    path: KeyPath
    node: YamlNode
    pod_specs: tuple[PodSpec, ...]
    # What its file says about spot nodes.
    intent: Intent | None = None

    @property
    def shown(self) -> str:
        """`Job train`; of an object without a name, its kind."""
        return f"{self.kind.kind} {self.name}" if self.name else self.kind.kind

    def get(self, *path: str | int) -> YamlNode | None:
        return get(self.node, *path)

    def text(self, *path: str | int) -> str | None:
        return text_of(self.get(*path))


@dataclass(frozen=True, slots=True)
class UnknownObject:
    """An object of a kind that is not in the table, with a pod template inside."""

    api_version: str
    kind: str
    name: str
    node: YamlNode
    template: KeyPath
    intent: Intent | None = None


def duplicate_key(node: YamlNode) -> YamlNode | None:
    """The second of two equal keys below a node; None if all keys differ."""
    nodes, seen = [node], {id(node)}
    for current in nodes:  # grows
        children = current.value
        if isinstance(current, yaml.MappingNode):
            keys = {str(key.value) for key, _ in children}
            if len(keys) < len(children):
                values = [key.value for key, _ in children]
                second: YamlNode = next(
                    key for index, (key, _) in enumerate(children) if key.value in values[:index]
                )
                return second
            children = [child for _, child in children]
        for child in children:
            if isinstance(child, yaml.CollectionNode) and id(child) not in seen:
                seen.add(id(child))
                nodes.append(child)
    return None


def holder(workload: Workload, spec: PodSpec) -> YamlNode | None:
    """The object with the template of a pod spec: a Job, or a replica of a training job."""
    return get(workload.node, *spec.path[len(workload.path) : -2])


def pod_count(workload: Workload, spec: PodSpec) -> int:
    """The pods of a role; one if there is no plain number."""
    count = text_of(get(holder(workload, spec), "replicas")) or ""
    return int(count) if count.isdigit() else 1


def gpu_count(pod_spec: YamlNode | None) -> int:
    """The GPUs of one pod, whole ones or parts; those whose number is not plain count as none."""
    count = 0
    for container in items_of(get(pod_spec, "containers")):
        limits = pairs(get(container, "resources", "limits"))
        amounts = {key: text_of(value) or "" for key, (_, value) in limits.items()}
        plain = {key: value for key, value in amounts.items() if value.isdigit()}
        count += sum(devices_in(plain).values())
    return count


def made_node(value: Any, start: yaml.Mark | None, end: yaml.Mark | None = None) -> YamlNode:
    """Mappings and lists that no file has, for nodes that are written in another form there."""
    if isinstance(value, Mapping):
        fields: list[tuple[YamlNode, YamlNode]] = [
            (yaml.ScalarNode(STR, name, start, start), made_node(child, start))
            for name, child in value.items()
        ]
        return yaml.MappingNode(MAP, fields, start, end or start)
    if isinstance(value, list):
        return yaml.SequenceNode(SEQ, [made_node(item, start) for item in value], start, start)
    node: YamlNode = value
    return node


def is_manifest(node: YamlNode | None) -> bool:
    """Whether a document is a Kubernetes object."""
    return text_of(get(node, "apiVersion")) is not None and text_of(get(node, "kind")) is not None


def read_objects(source: YamlText) -> Iterator[Workload | UnknownObject]:
    """Every workload of a file, also those in lists and inside of other objects."""
    intents = Intents(source.text)
    for number, document in enumerate(source.documents):
        if document is not None:
            yield from _read_object(document, (number,), intents)


def objects_in(source: YamlText) -> Iterator[YamlNode]:
    """The objects of a file of any kind, also those in lists."""
    for document in source.documents:
        items = items_of(get(document, "items"))
        is_list = items and (text_of(get(document, "kind")) or "").endswith("List")
        yield from items if is_list else (document,) if document is not None else ()


def _read_object(
    node: YamlNode, path: KeyPath, intents: Intents
) -> Iterator[Workload | UnknownObject]:
    api_version, kind = text_of(get(node, "apiVersion")), text_of(get(node, "kind"))
    if api_version is None or kind is None:
        return
    if kind.endswith("List") and isinstance(items := get(node, "items"), yaml.SequenceNode):
        for index, item in enumerate(items.value):
            yield from _read_object(item, (*path, "items", index), intents)
        return
    metadata = get(node, "metadata")
    name = text_of(get(metadata, "name")) or text_of(get(metadata, "generateName")) or ""
    row = workload_kind(api_version, kind)
    paths = row.texts if row is not None and intents.lines else ()
    intent = intents.of(node, [text for at in paths for _, text, _ in expand(node, at)])
    if row is None:
        template = _hidden_template(node, path)
        if template is not None:
            yield UnknownObject(api_version, kind, name, node, template, intent)
        return
    if row.label is not None:
        key, value = row.label
        if text_of(get(metadata, "labels", key)) != value:
            return
    namespace = text_of(get(metadata, "namespace")) or ""
    yield Workload(row, name, namespace, path, node, _pod_specs(row, node, path), intent)
    for inner in row.objects:
        for place, child, _ in expand(node, inner):
            yield from _read_object(child, (*path, *place), intents)


def _pod_specs(row: WorkloadKind, node: YamlNode, path: KeyPath) -> tuple[PodSpec, ...]:
    specs = []
    for entry in row.specs:
        places = list(expand(node, entry.path))
        spec = get(node, "spec") if entry.may_be_made and not places else None
        if isinstance(spec, yaml.MappingNode):
            places = [(entry.path, made_node({}, spec.start_mark, spec.end_mark), "")]
        for place, child, passed in places:
            if isinstance(child, yaml.MappingNode):
                role = (entry.role or passed or "pod").lower()
                is_coordinator = row.is_coordinator(role) or only_waits(entry.shape, child)
                specs.append(PodSpec((*path, *place), child, role, entry.shape, is_coordinator))
    return _with_coordinators(row, specs, _ending_roles(row, node))


# Jobs whose only role does the work, whatever its name.
_SINGLE_ROLE = (Retry.REPLICAS, Retry.JOB_SET, Retry.VOLCANO, Retry.RAY_JOB)


def _with_coordinators(
    row: WorkloadKind, specs: list[PodSpec], ending: set[str]
) -> tuple[PodSpec, ...]:
    """The pod specs with `ending` roles as coordinators, unless nothing but those is left.

    A PyTorchJob with a Master and no Worker is a job of one pod, which does the work.
    """
    working = [spec for spec in specs if spec.role != "submitter"]
    if row.retry in _SINGLE_ROLE and len({spec.role for spec in working}) == 1:
        return tuple(
            replace(spec, coordinator=False) if spec in working else spec for spec in specs
        )
    if all(spec.coordinator or spec.role in ending for spec in working):
        return tuple(specs)
    return tuple(replace(spec, coordinator=True) if spec.role in ending else spec for spec in specs)


def _ending_roles(row: WorkloadKind, node: YamlNode) -> set[str]:
    """The roles whose end is that of the whole job, where a field says so."""
    job = get(node, *row.job)
    names: list[str | None] = []
    if row.retry is Retry.JOB_SET:
        # https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/
        names = [text_of(get(job, "coordinator", "replicatedJob"))]
    elif row.retry is Retry.VOLCANO:
        # https://volcano.sh/en/docs/vcjob/; plugins have arguments such as `--master=mpimaster`
        names = [text_of(get(task, "name")) for task in items_of(get(job, "tasks")) if _ends(task)]
        for _, arguments in pairs(get(job, "plugins")).values():
            for argument in items_of(arguments):
                option, _, name = (text_of(argument) or "").partition("=")
                names += [name] if option == "--master" else []
    return {name.lower() for name in names if name}


def _ends(task: YamlNode) -> bool:
    """Whether a task of Volcano is one pod without a GPU, at whose end the job is complete."""
    is_one = text_of(get(task, "replicas")) in (None, "1")
    return (
        is_one
        and not gpu_count(get(task, "template", "spec"))
        and any(
            text_of(get(policy, "action")) == "CompleteJob"
            for policy in items_of(get(task, "policies"))
        )
    )


def expand(
    node: YamlNode, path: SpecPath, at: KeyPath = (), name: str = ""
) -> Iterator[tuple[KeyPath, YamlNode, str]]:
    """Every place on a path of the table, with the last key or item name on the way to it."""
    for number, step in enumerate(path):
        if step == EACH_KEY:
            at, rest = (*at, *path[:number]), path[number + 1 :]
            for key, (_, child) in pairs(node).items():
                yield from expand(child, rest, (*at, key), key)
            return
        if step == EACH_ITEM:
            at, rest = (*at, *path[:number]), path[number + 1 :]
            for index, child in enumerate(items_of(node)):
                yield from expand(child, rest, (*at, index), _item_name(child) or name)
            return
        below = get(node, step)
        if below is None:
            return
        node = below
    yield (*at, *path), node, name


def _item_name(node: YamlNode) -> str:
    """What an item of a list is called: by its own name, or by the jobs that it is for."""
    for field in (("name",), ("groupName",), ("pipelineTaskName",), ("targetJobs", 0, "name")):
        if (text := text_of(get(node, *field))) is not None:
            return text
    return ""


def _hidden_template(node: YamlNode, path: KeyPath) -> KeyPath | None:
    """The place of the first pod spec below a node: a mapping with containers that have images."""
    stack: list[tuple[YamlNode, KeyPath]] = [(node, path)]
    seen: set[int] = set()
    while stack:
        current, at = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        containers = pairs(current).get("containers")
        if containers is not None and text_of(get(containers[1], 0, "image")) is not None:
            return at
        if isinstance(current, yaml.MappingNode):
            stack += [(child, (*at, key)) for key, (_, child) in pairs(current).items()]
        elif isinstance(current, yaml.SequenceNode):
            stack += [(child, (*at, index)) for index, child in enumerate(current.value)]
    return None


# --- parts that inherit ---------------------------------------------------------------------------
#
# Argo takes each field of a pod by itself from the template, else from the template that calls it,
# else from the workflow (argo-workflows, workflow/controller/workflowpod.go); `templateDefaults`
# are merged into every template. Tekton takes those of a task, else those of the run. A new field
# of a part would hide what it inherits, so `place` writes a field where it already is, and else for
# the whole.

# Templates of Argo that run no pod of their own; requests and plugins run in the pod of its agent.
_WITHOUT_POD = ("steps", "dag", "suspend", "http", "plugin")


def only_waits(shape: Shape, node: YamlNode) -> bool:
    """Whether it is a template of Argo whose pod runs kubectl and waits for what that creates:
    workflow/executor/resource.go"""
    return shape is Shape.WORKFLOW and "resource" in pairs(node)


def makes_pod(spec: PodSpec) -> bool:
    """Whether a template of an Argo workflow runs a pod; everything else with a pod spec does."""
    if spec.shape is not Shape.WORKFLOW:
        return True
    is_template = isinstance(spec.path[-1], int) or spec.path[-1] == "inline"
    return is_template and not any(name in pairs(spec.node) for name in _WITHOUT_POD)


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
