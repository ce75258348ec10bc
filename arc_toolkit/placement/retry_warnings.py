"""Retries that are set, and evictions that still count as an error or as the end.

An evicted process gets SIGTERM first. If it ends before its pod is gone, its exit code decides, and
0 or 1 mean something else than 143:
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from arc_toolkit.edit.yaml.nodes import YamlNode, get, items_of, text_of
from arc_toolkit.kube.workloads import Retry
from arc_toolkit.placement.manifests import Workload, makes_pod
from arc_toolkit.placement.retries import (
    VOLCANO_EVENTS,
    VOLCANO_FAILED,
    holder_of,
    volcano_policies,
)

# `trap 'save; exit 0' TERM` in the text of a shell.
_EXITS_WITH_0 = re.compile(
    r"""\btrap\s+(['"])(?:(?!\1).)*\bexit\s+0\s*;?\s*\1\s[^\n;&|]*\b(?:SIG)?TERM\b""", re.DOTALL
)
# Counted by Volcano 1.15, and not by 1.10: pkg/controllers/job/state/running.go
_VOLCANO_PARTS = ("RestartTask", "RestartPod", "RestartPartition")


def retry_warnings(workload: Workload) -> Iterator[str]:
    """How some evictions still count or end the workload, with what to do about it."""
    match workload.kind.retry:
        case Retry.JOB:
            yield from _job(workload)
        case Retry.REPLICAS:
            yield from _replicas(workload)
        case Retry.VOLCANO:
            yield from _volcano(workload)
        case Retry.ARGO:
            yield from _argo(workload)
    if any(
        _exits_with_0(container)
        for spec in workload.pod_specs
        for container in items_of(spec.get("containers"))
    ):
        yield (
            "its command exits with 0 at SIGTERM, with which an evicted pod counts as done: "
            "exit with 143 there"
        )


def _job(workload: Workload) -> Iterator[str]:
    for spec in workload.pod_specs:
        for rule in items_of(get(holder_of(workload, spec), "podFailurePolicy", "rules")):
            if get(rule, "onPodConditions") is not None:
                return  # comes first
            codes = {text_of(code) for code in items_of(get(rule, "onExitCodes", "values"))}
            action = text_of(get(rule, "action"))
            if "1" in codes and action != "Ignore":
                yield (
                    f"its podFailurePolicy has {action} for exit code 1, with which many programs "
                    "end at SIGTERM: exit with 143 there, or put the rule with DisruptionTarget "
                    "first"
                )
                return


def _replicas(workload: Workload) -> Iterator[str]:
    """Exit codes of 1 to 127 are for good:
    https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/tensorflow/"""
    for spec in workload.pod_specs:
        policy = text_of(get(holder_of(workload, spec), "restartPolicy"))
        if policy == "ExitCode" and not spec.coordinator:
            yield (
                f"restartPolicy of {spec.role} is ExitCode: an evicted process that exits with 1 "
                "at SIGTERM ends the job; exit with 143 there, or make it OnFailure"
            )
            return


def _volcano(workload: Workload) -> Iterator[str]:
    advice = "make maxRetry larger than the evictions and errors that you expect"
    for event, action in volcano_policies(workload):
        policy = f"its policy {event} -> {action}"
        if event in VOLCANO_FAILED and action == "RestartJob":
            yield (
                f"{policy} also counts an eviction against maxRetry when the process ends before "
                f"its pod is gone: {advice}"
            )
            return
        if event in (*VOLCANO_EVENTS, *VOLCANO_FAILED) and action in _VOLCANO_PARTS:
            yield (
                f"{policy} counts evictions against maxRetry in newer releases of Volcano (1.15): "
                f"{advice}"
            )
            return


def _argo(workload: Workload) -> Iterator[str]:
    for spec in workload.pod_specs:
        if makes_pod(spec) and text_of(get(spec.get("retryStrategy"), "retryPolicy")) == "OnError":
            yield (
                f"the retryPolicy of {spec.role} is OnError, which retries deleted pods, but not "
                "those that fail when their node shuts down: Always does"
            )
            return


def _exits_with_0(container: YamlNode) -> bool:
    words = (*items_of(get(container, "command")), *items_of(get(container, "args")))
    texts = (text_of(word) or "" for word in words)
    return any("trap" in text and _EXITS_WITH_0.search(text) for text in texts)
