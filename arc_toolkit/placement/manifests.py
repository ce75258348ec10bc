"""Reading Kubernetes manifests: the workloads in a file, their pod specs, and where they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from arc_toolkit.edit.yaml.nodes import (
    MAP,
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
from arc_toolkit.kube.workloads import (
    EACH_ITEM,
    EACH_KEY,
    WITHOUT_PODS,
    Shape,
    SpecPath,
    WorkloadKind,
    workload_kind,
)

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
    coordinator: bool

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
    def is_whole(self) -> bool:
        """Whether it has containers; a patch of kustomize has none."""
        containers = self.get("containers")
        is_empty = is_null(containers) or (
            isinstance(containers, yaml.SequenceNode) and not containers.value
        )
        return self.shape is not Shape.POD_SPEC or not (containers is None or is_empty)


@dataclass(frozen=True, slots=True)
class Workload:
    """One object of a known kind; `pod_specs` is empty if none is where it should be."""

    kind: WorkloadKind
    name: str
    namespace: str
    path: KeyPath
    node: YamlNode
    pod_specs: tuple[PodSpec, ...]

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


def mapping_node(
    fields: Mapping[str, YamlNode], start: yaml.Mark | None, end: yaml.Mark | None = None
) -> yaml.MappingNode:
    """A mapping that no file has, for values that are written in another form."""
    pairs_of_nodes: list[tuple[YamlNode, YamlNode]] = [
        (yaml.ScalarNode(STR, name, start, start), node) for name, node in fields.items()
    ]
    return yaml.MappingNode(MAP, pairs_of_nodes, start, end or start)


# Templates of Argo that run no pod of their own; requests and plugins run in the pod of its agent.
_WITHOUT_POD = ("steps", "dag", "suspend", "http", "plugin")


def makes_pod(spec: PodSpec) -> bool:
    """Whether a template of an Argo workflow runs a pod; everything else with a pod spec does."""
    if spec.shape is not Shape.WORKFLOW:
        return True
    is_template = isinstance(spec.path[-1], int) or spec.path[-1] == "inline"
    return is_template and not any(name in pairs(spec.node) for name in _WITHOUT_POD)


def is_manifest(node: YamlNode | None) -> bool:
    """Whether a document is a Kubernetes object."""
    return text_of(get(node, "apiVersion")) is not None and text_of(get(node, "kind")) is not None


def read_objects(source: YamlText) -> Iterator[Workload | UnknownObject]:
    """Every workload of a file, also those in lists and inside of other objects."""
    for number, document in enumerate(source.documents):
        if document is not None:
            yield from _read_object(document, (number,))


def _read_object(node: YamlNode, path: KeyPath) -> Iterator[Workload | UnknownObject]:
    api_version, kind = text_of(get(node, "apiVersion")), text_of(get(node, "kind"))
    if api_version is None or kind is None:
        return
    if kind.endswith("List") and isinstance(items := get(node, "items"), yaml.SequenceNode):
        for index, item in enumerate(items.value):
            yield from _read_object(item, (*path, "items", index))
        return
    metadata = get(node, "metadata")
    name = text_of(get(metadata, "name")) or text_of(get(metadata, "generateName")) or ""
    row = workload_kind(api_version, kind)
    if row is None:
        if (api_version, kind) not in WITHOUT_PODS:
            template = _hidden_template(node, path)
            if template is not None:
                yield UnknownObject(api_version, kind, name, node, template)
        return
    namespace = text_of(get(metadata, "namespace")) or ""
    yield Workload(row, name, namespace, path, node, tuple(_pod_specs(row, node, path)))
    for inner in row.objects:
        for place, child, _ in expand(node, inner):
            yield from _read_object(child, (*path, *place))


def _pod_specs(row: WorkloadKind, node: YamlNode, path: KeyPath) -> Iterator[PodSpec]:
    for entry in row.specs:
        places = list(expand(node, entry.path))
        spec = get(node, "spec") if entry.may_be_made and not places else None
        if isinstance(spec, yaml.MappingNode):
            places = [(entry.path, mapping_node({}, spec.start_mark, spec.end_mark), "")]
        for place, child, passed in places:
            if isinstance(child, yaml.MappingNode):
                role = (entry.role or passed or "pod").lower()
                yield PodSpec((*path, *place), child, role, entry.shape, role in row.coordinators)


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
