"""The InstanceType resource as data: the one reader of its manifests, and its rules.

https://learn.microsoft.com/azure/machine-learning/how-to-manage-kubernetes-instance-types
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.labels import matches, name_problem
from arc_toolkit.kube.nodes import GPU_RESOURCES
from arc_toolkit.kube.quantities import QuantityError, bytes_requested, cpu_requested, parse
from arc_toolkit.kube.raw import mapping

GROUP = "amlarc.azureml.com/"
API_VERSION = f"{GROUP}v1alpha1"
KIND = "InstanceType"
LIST_KIND = "InstanceTypeList"
# Everything that a spec may have.
SPEC_KEYS = ("nodeSelector", "resources")
SECTIONS = ("requests", "limits")
_MISSING = 'is missing: all four of requests and limits, cpu and memory, are required (such as "4" and "16Gi")'


class SpecRule(Enum):
    """What a manifest can break: by itself, or (the last two, and SELECTOR) on the nodes it is for."""

    NAME = "name"
    MISPLACED = "misplaced"
    UNKNOWN_KEY = "unknown-key"
    SELECTOR = "selector"
    FIELD = "field"
    REQUEST_LIMIT = "request-limit"
    GPU = "gpu"
    NODE_SIZE = "node-size"
    SCHEDULABLE = "schedulable"


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One broken rule. `path` leads to the place in the manifest, and `at_key` means the last key, not its value.

    `fatal`: the request of the type is not known.
    """

    rule: SpecRule
    message: str
    path: tuple[str, ...] = ()
    at_key: bool = False
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class InstanceTypeSpec:
    """What one InstanceType asks for, and of which nodes."""

    name: str
    cpu_m: int
    memory: int
    gpus: int = 0
    gpu_resource: str | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, manifest: Mapping[str, Any]) -> InstanceTypeSpec:
        """An ArcError says what is missing if the request is not known."""
        for problem in problems(manifest, implied=True):
            if problem.fatal:
                raise ArcError(problem.message)
        metadata, spec = mapping(manifest.get("metadata")), mapping(manifest.get("spec"))
        resources = mapping(spec.get("resources"))
        requests, limits = (mapping(resources.get(section)) for section in SECTIONS)
        gpu = next((key for key in GPU_RESOURCES if int(limits.get(key) or 0) > 0), None)
        return cls(
            name=str(metadata["name"]),
            cpu_m=cpu_requested(str(requests["cpu"])),
            memory=bytes_requested(str(requests["memory"])),
            gpus=int(limits[gpu]) if gpu else 0,
            gpu_resource=gpu,
            selector=selector_of(manifest),
            annotations=mapping(metadata.get("annotations")),
        )

    @property
    def cores(self) -> int:
        """Threads that make sense: whole cores, at least one."""
        return max(1, self.cpu_m // 1000)

    def selects(self, labels: Mapping[str, str]) -> bool:
        return matches(self.selector, labels)


def selector_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Its nodeSelector; empty means every node."""
    selector = mapping(mapping(manifest.get("spec")).get("nodeSelector"))
    return {key: str(value) for key, value in selector.items()}


def manifests_in(document: Any) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """The InstanceTypes of a document with their paths: the document itself, or the items of a list of them.

    The items of an InstanceTypeList may leave out apiVersion and kind; those of a List, as `kubectl get` prints it,
    have both.
    """
    document = mapping(document)
    kind, version = document.get("kind"), document.get("apiVersion")
    ours = version is None or str(version).startswith(GROUP)
    if kind == KIND and ours:
        yield (), document
    elif kind == "List" or (kind == LIST_KIND and ours):
        default = KIND if kind == LIST_KIND else None
        items = document.get("items")
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict) and item.get("kind", default) == KIND:
                yield ("items", index), item


def problems(manifest: Mapping[str, Any], *, implied: bool = False) -> Iterator[SpecProblem]:
    """Every broken rule, in the order of the manifest's parts; with `implied` also what only follows from another.

    A value that YAML does not read as a string, but whose text must be shown as written, comes as a subclass of str.
    """
    spec = mapping(manifest.get("spec"))
    resources = mapping(spec.get("resources"))
    yield from _name_problems(manifest)
    yield from _key_problems(spec, resources)
    misplaced = any(spec.get(key) is not None for key in SECTIONS)
    values: dict[tuple[str, str], str] = {}
    for section in SECTIONS:
        for name in ("cpu", "memory"):
            value = mapping(resources.get(section)).get(name)
            text, problem = _amount(value)
            # Where requests are beside resources, that is the problem; that cpu is missing follows from it.
            if problem and (implied or not (misplaced and value is None)):
                path = ("spec", "resources", section, name)
                yield SpecProblem(SpecRule.FIELD, f"{'.'.join(path)} {problem}", path, fatal=not text)
            if text:
                values[section, name] = text
    for name in ("cpu", "memory"):
        request, limit = values.get(("requests", name)), values.get(("limits", name))
        if request and limit and parse(request) != parse(limit):
            message = f"{name} request {request} is not its limit {limit}: training jobs need both equal"
            yield SpecProblem(SpecRule.REQUEST_LIMIT, message, ("spec", "resources", "requests", name))
    yield from _gpu_problems(resources)


def _name_problems(manifest: Mapping[str, Any]) -> Iterator[SpecProblem]:
    name = mapping(manifest.get("metadata")).get("name")
    if not isinstance(name, str) or not name:
        path = ("metadata", "name") if name is not None else ()
        yield SpecProblem(SpecRule.NAME, "metadata.name is missing", path, fatal=True)
    elif problem := name_problem(name):
        yield SpecProblem(SpecRule.NAME, problem, ("metadata", "name"))


def _key_problems(spec: Mapping[str, Any], resources: Mapping[str, Any]) -> Iterator[SpecProblem]:
    for key in spec:
        if key in SECTIONS:
            message = f"{key} is beside resources and is ignored: indent it below resources"
            yield SpecProblem(SpecRule.MISPLACED, message, ("spec", key), at_key=True)
        elif key not in SPEC_KEYS:
            message = f"spec.{key} does not exist; there are {' and '.join(SPEC_KEYS)}"
            yield SpecProblem(SpecRule.UNKNOWN_KEY, message, ("spec", key), at_key=True)
    for key, value in mapping(spec.get("nodeSelector")).items():
        if type(value) is not str:
            message = f'nodeSelector.{key} must be a string: write "{value}"'
            yield SpecProblem(SpecRule.SELECTOR, message, ("spec", "nodeSelector", key))
    for section in SECTIONS:
        for key in mapping(resources.get(section)):
            if key not in ("cpu", "memory", *GPU_RESOURCES):
                path = ("spec", "resources", section, key)
                message = f"{'.'.join(path)} is not a resource that a type can have"
                yield SpecProblem(SpecRule.UNKNOWN_KEY, message, path, at_key=True)


def _gpu_problems(resources: Mapping[str, Any]) -> Iterator[SpecProblem]:
    requests, limits = (mapping(resources.get(section)) for section in SECTIONS)
    for resource in GPU_RESOURCES:
        if resource in requests:
            message = f"{resource} is under requests: it belongs under limits only"
            yield SpecProblem(SpecRule.GPU, message, ("spec", "resources", "requests", resource))
        limit = limits.get(resource)
        if limit is not None and not str(limit).isdecimal():
            message = f"{resource} is {limit}: use a whole number of GPUs"
            yield SpecProblem(SpecRule.GPU, message, ("spec", "resources", "limits", resource), fatal=True)


def _amount(value: Any) -> tuple[str, str]:
    """The text of a usable quantity (else nothing), and what is wrong with it."""
    if value is None or value == "" or isinstance(value, (dict, list)):
        return "", _MISSING
    text = str(value)
    try:
        amount = parse(text)
    except QuantityError as error:
        return "", f"is not a quantity: {error}"
    if amount <= 0:
        return "", f"is {text}: it must be above zero"
    if type(value) is not str:
        return text, f'must be a string: write "{text}"'
    return text, ""
