"""The InstanceType resource as data: the one reader of its manifests, and its rules.

https://learn.microsoft.com/azure/machine-learning/how-to-manage-kubernetes-instance-types
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.labels import is_label, matches, name_problem
from arc_toolkit.kube.quantities import (
    GPU_RESOURCES,
    MI,
    QuantityError,
    bytes_requested,
    cpu_requested,
    devices_in,
    is_device,
    parse,
)
from arc_toolkit.kube.raw import mapping
from arc_toolkit.text import nearest

GROUP = "amlarc.azureml.com/"
API_VERSION = f"{GROUP}v1alpha1"
KIND = "InstanceType"
LIST_KIND = "InstanceTypeList"
# How our annotations begin: they say what a type was made for.
PREFIX = "arc-toolkit.io/"
MANAGED_BY = "app.kubernetes.io/managed-by"
# Everything that a spec may have.
SPEC_KEYS = ("nodeSelector", "resources")
SECTIONS = ("requests", "limits")
MANIFEST_KEYS = ("apiVersion", "kind", "metadata", "spec", "status")
# What people write in the metadata of any object; the others are the API server's.
METADATA_KEYS = ("name", "labels", "annotations")
_SERVER_KEYS = (
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "managedFields",
    "ownerReferences",
    "selfLink",
)
# No container starts with less (runc needs about 6 MiB), so less is a forgotten unit.
LEAST_MEMORY = 4 * MI
_MISSING = (
    "is missing: all four of requests and limits, cpu and memory, are required "
    '(such as "4" and "16Gi")'
)


class SpecRule(Enum):
    """What a manifest can break: by itself, or (the last two, and SELECTOR) on its nodes."""

    API_VERSION = "api-version"
    NAME = "name"
    MISPLACED = "misplaced"
    UNKNOWN_KEY = "unknown-key"
    SELECTOR = "selector"
    FIELD = "field"
    REQUEST_LIMIT = "request-limit"
    ABOVE_LIMIT = "above-limit"
    GPU = "gpu"
    NODE_SIZE = "node-size"
    SCHEDULABLE = "schedulable"


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One broken rule. `path`: the place in the manifest; `at_key`: the key, not its value.

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
    devices: Mapping[str, int] = field(default_factory=dict)
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
        return cls(
            name=str(metadata["name"]),
            cpu_m=cpu_requested(str(requests["cpu"])),
            memory=bytes_requested(str(requests["memory"])),
            devices=devices_in({key: value for key, value in limits.items() if value is not None}),
            selector=selector_of(manifest),
            annotations=mapping(metadata.get("annotations")),
        )

    @property
    def gpus(self) -> int:
        """Devices of any kind."""
        return sum(self.devices.values())

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
    """The InstanceTypes of a document with their paths: itself, or the items of a list.

    The items of an InstanceTypeList may leave out apiVersion and kind; those of a List, as `kubectl
    get` prints it, have both. What only looks like one, by its kind or its group, is one too:
    `problems` says what is wrong.
    """
    document = mapping(document)
    kind, items = str(document.get("kind")).lower(), document.get("items")
    if kind == "list" or (kind == LIST_KIND.lower() and isinstance(items, list)):
        inherited = (
            {} if kind == "list" else {"apiVersion": document.get("apiVersion"), "kind": KIND}
        )
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict) and _is_type({**inherited, **item}):
                yield ("items", index), {**inherited, **item}
    elif kind != LIST_KIND.lower() and _is_type(document):
        yield (), document


def _is_type(item: Mapping[str, Any]) -> bool:
    """Whether it is an InstanceType, or is meant to be one."""
    return str(item.get("kind")).lower() == KIND.lower() or str(item.get("apiVersion")).startswith(
        GROUP
    )


def problems(manifest: Mapping[str, Any], *, implied: bool = False) -> Iterator[SpecProblem]:
    """Every broken rule, in the manifest's order; `implied`: also mere consequences.

    A value that YAML does not read as a string, but whose text must be shown as written, comes as a
    subclass of str.
    """
    spec = mapping(manifest.get("spec"))
    resources = mapping(spec.get("resources"))
    yield from _version_problems(manifest)
    yield from _name_problems(manifest)
    yield from _key_problems(manifest, spec, resources)
    misplaced = any(spec.get(key) is not None for key in SECTIONS)
    values: dict[tuple[str, str], str] = {}
    for section in SECTIONS:
        for name in ("cpu", "memory"):
            value = mapping(resources.get(section)).get(name)
            text, problem = _amount(value, name)
            # Where requests are beside resources, a missing cpu follows from that.
            if problem and (implied or not (misplaced and value is None)):
                path = ("spec", "resources", section, name)
                yield SpecProblem(
                    SpecRule.FIELD, f"{'.'.join(path)} {problem}", path, fatal=not text
                )
            if text:
                values[section, name] = text
    for name in ("cpu", "memory"):
        request, limit = values.get(("requests", name)), values.get(("limits", name))
        if request and limit and parse(request) > parse(limit):
            message = (
                f"{name} request {request} is above its limit {limit}: "
                "Kubernetes refuses the pods of such a job"
            )
            yield SpecProblem(
                SpecRule.ABOVE_LIMIT, message, ("spec", "resources", "requests", name)
            )
        elif request and limit and parse(request) != parse(limit):
            message = f"{name} request {request} is not its limit {limit}: a job may get less than the limit"
            yield SpecProblem(
                SpecRule.REQUEST_LIMIT, message, ("spec", "resources", "requests", name)
            )
    yield from _gpu_problems(resources)


def _version_problems(manifest: Mapping[str, Any]) -> Iterator[SpecProblem]:
    for key, right in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = manifest.get(key)
        if value != right:
            message = (
                f"{key} is {value}: write {right}"
                if value is not None
                else f"{key} is missing: write {right}"
            )
            yield SpecProblem(SpecRule.API_VERSION, message, (key,) if value is not None else ())


def _name_problems(manifest: Mapping[str, Any]) -> Iterator[SpecProblem]:
    name = mapping(manifest.get("metadata")).get("name")
    path = ("metadata", "name")
    if name is None or name == "":
        yield SpecProblem(
            SpecRule.NAME, "metadata.name is missing", path if name is not None else (), fatal=True
        )
    elif type(name) is not str:
        yield SpecProblem(
            SpecRule.NAME, f'metadata.name must be a string: write "{name}"', path, fatal=True
        )
    elif problem := name_problem(name):
        yield SpecProblem(SpecRule.NAME, problem, path)


def _key_problems(
    manifest: Mapping[str, Any], spec: Mapping[str, Any], resources: Mapping[str, Any]
) -> Iterator[SpecProblem]:
    yield from _unknown_keys(manifest, MANIFEST_KEYS, ())
    metadata = mapping(manifest.get("metadata"))
    yield from _unknown_keys(
        {key: None for key in metadata if key not in _SERVER_KEYS}, METADATA_KEYS, ("metadata",)
    )
    for key in spec:
        if key in SECTIONS:
            message = f"{key} is beside resources and is ignored: indent it below resources"
            yield SpecProblem(SpecRule.MISPLACED, message, ("spec", key), at_key=True)
    yield from _unknown_keys(
        {key: None for key in spec if key not in SECTIONS}, SPEC_KEYS, ("spec",)
    )
    selector = spec.get("nodeSelector")
    if selector is not None and not isinstance(selector, dict):
        message = "nodeSelector must be a map of labels: write KEY: VALUE below it"
        yield SpecProblem(SpecRule.SELECTOR, message, ("spec", "nodeSelector"), fatal=True)
    for key, value in mapping(selector).items():
        if type(value) is not str:
            message = f'nodeSelector.{key} must be a string: write "{value}"'
            yield SpecProblem(SpecRule.SELECTOR, message, ("spec", "nodeSelector", key))
        elif not is_label(str(key), value):
            message = (
                f"nodeSelector.{key}: {value!r} is not a label that a node can have: "
                "Kubernetes refuses the pods"
            )
            yield SpecProblem(SpecRule.SELECTOR, message, ("spec", "nodeSelector", key))
    yield from _unknown_keys(resources, SECTIONS, ("spec", "resources"))
    for section in SECTIONS:
        path = ("spec", "resources", section)
        for key in mapping(resources.get(section)):
            if key not in ("cpu", "memory") and not is_device(str(key)):
                hint = _suggestion(str(key), ("cpu", "memory", *GPU_RESOURCES))
                message = f"{'.'.join(path)}.{key} is not a resource that a type can have{hint}"
                yield SpecProblem(SpecRule.UNKNOWN_KEY, message, (*path, str(key)), at_key=True)


def _unknown_keys(
    keys: Mapping[str, Any], allowed: Sequence[str], path: tuple[str, ...]
) -> Iterator[SpecProblem]:
    for key in map(str, keys):
        if key not in allowed:
            choices = f"there are {' and '.join(allowed)}{_suggestion(key, allowed)}"
            message = f"{'.'.join((*path, key))} does not exist; {choices}"
            yield SpecProblem(SpecRule.UNKNOWN_KEY, message, (*path, key), at_key=True)


def _suggestion(key: str, allowed: Sequence[str]) -> str:
    """`: did you mean nodeSelector?`"""
    # `gpu` is NVIDIA's
    by_lower = {name.rpartition("/")[2].lower(): name for name in reversed(allowed)}
    by_lower.update({name.lower(): name for name in allowed})
    near = nearest(key.lower(), by_lower)
    return f": did you mean {by_lower[near]}?" if near else ""


def _gpu_problems(resources: Mapping[str, Any]) -> Iterator[SpecProblem]:
    requests, limits = (mapping(resources.get(section)) for section in SECTIONS)
    for resource in requests:
        if is_device(str(resource)):
            message = f"{resource} is under requests: it belongs under limits only"
            yield SpecProblem(SpecRule.GPU, message, ("spec", "resources", "requests", resource))
    for resource, limit in limits.items():
        if is_device(str(resource)) and limit is not None and not str(limit).isdecimal():
            message = f"{resource} is {limit}: use a whole number of GPUs"
            yield SpecProblem(
                SpecRule.GPU, message, ("spec", "resources", "limits", resource), fatal=True
            )


def _amount(value: Any, name: str) -> tuple[str, str]:
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
    if name == "memory" and text.endswith("m"):
        return text, f"is {text}, in thousandths of a byte: write {text[:-1]}Mi for mebibytes"
    if name == "memory" and amount < LEAST_MEMORY:
        return (
            text,
            f"is {text}, which is only {float(amount):g} bytes: "
            f"add a unit, such as {text.rstrip('kK')}Gi",
        )
    if type(value) is not str:
        return text, f'must be a string: write "{text}"'
    return text, ""
