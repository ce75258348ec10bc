"""What shows that a workload is always on: a server, a session or a part of the control plane.

The kind does, fields of its pods do, and other objects do in any file of the run: a Service that
selects the pods, an autoscaler of the workload, a disruption budget. Images and names are hints.
Training has Services, too, but headless ones, through which its ranks find each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from arc_toolkit.edit.files.edits import Unreadable
from arc_toolkit.edit.yaml.nodes import YamlNode, YamlText, get, items_of, pairs, read, text_of
from arc_toolkit.kube.spot_refusals import image_refusal, name_refusal, namespace_refusal
from arc_toolkit.placement.manifests import PodSpec, Workload, objects_in

# Kind -> where its selector or its target is.
_SELECTORS = {
    "Service": ("spec", "selector"),
    "PodDisruptionBudget": ("spec", "selector", "matchLabels"),
}
_TARGETS = {"HorizontalPodAutoscaler": "scaleTargetRef", "VerticalPodAutoscaler": "targetRef"}
_WORDS = tuple(kind.encode() for kind in (*_SELECTORS, *_TARGETS))
_PROBES = ("readinessProbe", "livenessProbe", "startupProbe")


class _Reference(NamedTuple):
    """An object that refers to pods by their labels, or to a workload by its kind and name."""

    shown: str
    namespace: str
    labels: frozenset[tuple[str, str]] = frozenset()
    target: tuple[str, str] | None = None


class RunEvidence:
    """The objects of all files of a run that refer to workloads."""

    def __init__(self) -> None:
        self._references: dict[str, list[_Reference]] = {}

    def add(self, path: str, data: bytes) -> None:
        """See a file, once."""
        if path in self._references:
            return
        self._references[path] = []
        if not any(word in data for word in _WORDS):
            return
        try:
            source = read(data)
        except Unreadable:
            return  # reported when it is processed
        self._references[path] = list(_references(source))

    def of(self, workload: Workload, labels: frozenset[tuple[str, str]]) -> str:
        """`Service web selects its pods`; empty if nothing refers to it."""
        for reference in (row for rows in self._references.values() for row in rows):
            if reference.namespace and workload.namespace not in ("", reference.namespace):
                continue
            if reference.labels and reference.labels <= labels:
                return f"{reference.shown} selects its pods"
            if reference.target == (workload.kind.kind, workload.name):
                return f"{reference.shown} scales it"
        return ""


def _references(source: YamlText) -> Iterator[_Reference]:
    for node in objects_in(source):
        kind = text_of(get(node, "kind")) or ""
        name = text_of(get(node, "metadata", "name")) or ""
        reference = _Reference(f"{kind} {name}", text_of(get(node, "metadata", "namespace")) or "")
        if kind in _SELECTORS and text_of(get(node, "spec", "clusterIP")) != "None":
            labels = frozenset(_labels(get(node, *_SELECTORS[kind])))
            yield reference._replace(labels=labels)
        elif kind in _TARGETS:
            target = get(node, "spec", _TARGETS[kind])
            named = text_of(get(target, "kind")) or "", text_of(get(target, "name")) or ""
            yield reference._replace(target=named)


def _labels(node: YamlNode | None) -> Iterator[tuple[str, str]]:
    for key, (_, value) in pairs(node).items():
        yield key, text_of(value) or ""


def always_on_evidence(workload: Workload, evidence: RunEvidence | None) -> str:
    """Why a workload must not run on spot capacity; empty if nothing speaks against it.

    A Deployment with `ports` and a `readinessProbe`: "it has ports and a readinessProbe, as a
    server has". Of a Job nothing counts but its kind and the namespaces of the control plane.
    """
    if workload.kind.refused:
        return workload.kind.refused
    is_always_on = workload.kind.is_always_on
    if reason := namespace_refusal(workload.namespace, is_always_on=is_always_on):
        return reason
    if not is_always_on and workload.kind.kind != "Pod":
        return ""
    for spec in workload.pod_specs:
        labels = frozenset(_labels(get(_template(workload, spec), "metadata", "labels")))
        if evidence is not None and (reason := evidence.of(workload, labels)):
            return reason
        if reason := _pod_evidence(workload, spec):
            return reason
    return name_refusal(workload.name) if is_always_on else ""


def _template(workload: Workload, spec: PodSpec) -> YamlNode | None:
    """The object or template that has the pod spec."""
    return get(workload.node, *spec.path[len(workload.path) : -1])


def _pod_evidence(workload: Workload, spec: PodSpec) -> str:
    for container in items_of(spec.get("containers")):
        image = text_of(get(container, "image")) or ""
        if reason := image_refusal(image):
            return f"{image}: {reason}"
        if items_of(get(container, "ports")):
            for probe in _PROBES:
                if get(container, probe) is not None:
                    return f"it has ports and a {probe}, as a server has"
            # A batch pod would begin again for ever.
            if workload.kind.kind == "Pod" and spec.text("restartPolicy") in (None, "Always"):
                return "it has ports and always restarts, as a server does"
        words = (*items_of(get(container, "command")), *items_of(get(container, "args")))
        if any("leader-elect" in (text_of(word) or "") for word in words):
            return "it elects a leader, as a controller does"
    volumes = items_of(spec.get("volumes")) if workload.kind.kind == "Deployment" else ()
    if any(get(volume, "persistentVolumeClaim") is not None for volume in volumes):
        return "it keeps data in a PersistentVolumeClaim"
    return ""
