"""Retries that survive evictions, for each kind of workload.

An eviction leaves a deleted pod (a drain, the removal of its node) or a failed one (a node that shuts down in order, a
process that exits at SIGTERM). Each kind has its own field for what happens then; the comments name the source of
each rule. Where the user's own policy makes a retry wrong nothing is changed, and the reason says what to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import yaml

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, get, items_of, pairs, text_of
from arc_toolkit.kube.workloads import Retry
from arc_toolkit.placement.manifests import PodSpec, Workload, makes_pod
from arc_toolkit.placement.spec_editor import SpecEditor

DISRUPTED = {"type": "DisruptionTarget"}
# Exit codes of a process that SIGTERM ends, or SIGKILL when its grace period is over.
_ENDED = ("143", "137")
# Actions of Volcano that end or count a job at every eviction, and the events that an eviction is.
_VOLCANO_ENDS = ("AbortJob", "TerminateJob", "CompleteJob")
VOLCANO_EVENTS = ("PodEvicted", "*", "AnyEvent")
# What an eviction also is if the process ends before its pod is gone; by its exit code if a policy has one:
# https://github.com/volcano-sh/volcano, pkg/controllers/job/job_controller_handler.go, updatePod
VOLCANO_FAILED = ("PodFailed", *_ENDED)
# Defaults of the training operator, v1: https://github.com/kubeflow/trainer/tree/v1.9.4/pkg/apis/kubeflow.org/v1
_RESTARTS_BY_DEFAULT = frozenset(["PyTorchJob", "PaddleJob"])


def set_retries(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Evictions are survived, errors tried again `retries` times; `Refused` with the reason if that is wrong."""
    _SETTERS[workload.kind.retry](editor, workload, retries)


def on_spot_nodes(workload: Workload, is_there: Callable[[PodSpec], bool]) -> Workload:
    """The same workload with its coordinators that are on spot nodes all the same: they need retries, too."""
    if not any(spec.coordinator and is_there(spec) for spec in workload.pod_specs):
        return workload
    specs = (
        replace(spec, coordinator=spec.coordinator and not is_there(spec))
        for spec in workload.pod_specs
    )
    return replace(workload, pod_specs=tuple(specs))


def _nothing_to_do(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Its pods are made again in any case, or the object inside decides."""


def _no_field(editor: SpecEditor, workload: Workload, retries: int) -> None:
    if workload.kind.kind == "Pod":
        raise Refused("a pod on its own is never started again: make it a Job")
    raise Refused("its kind has no field for it")


def _runtime(editor: SpecEditor, workload: Workload, retries: int) -> None:
    raise Refused(
        "a TrainJob cannot say it, only its TrainingRuntime (spec.template.spec.failurePolicy)"
    )


# --- batch/v1 --------------------------------------------------------------------------------------------------


def _job(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """podFailurePolicy, stable since 1.31: https://kubernetes.io/docs/concepts/workloads/controllers/job/"""
    for spec in workload.pod_specs:
        job = spec.path[:-2]  # above template.spec
        node = get(workload.node, *job[len(workload.path) :])
        if spec.text("restartPolicy") != "Never":
            raise Refused(
                f"restartPolicy is {spec.text('restartPolicy') or 'missing'}: podFailurePolicy, without which "
                "evictions count as errors, needs Never"
            )
        action = disruption_action(node)
        if action is None:
            editor.append(
                (*job, "podFailurePolicy", "rules"),
                {"action": "Ignore", "onPodConditions": [DISRUPTED]},
            )
        elif action != "Ignore":
            raise Refused(
                f"its podFailurePolicy has the action {action} for evictions: make it Ignore"
            )
        _refuse_replacement(node)
        # With a limit per index there is none for all of them: a number would be less, not more.
        if get(node, "backoffLimit") is None and get(node, "backoffLimitPerIndex") is None:
            editor.set((*job, "backoffLimit"), retries)


def _refuse_replacement(job: YamlNode | None) -> None:
    """https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy"""
    if (policy := text_of(get(job, "podReplacementPolicy"))) not in (None, "Failed"):
        raise Refused(
            f"its podReplacementPolicy is {policy}: with a podFailurePolicy it must be Failed"
        )


def disruption_action(job: YamlNode | None) -> str | None:
    """What a podFailurePolicy does with an evicted pod; the first rule that matches counts."""
    for rule in items_of(get(job, "podFailurePolicy", "rules")):
        if any(
            text_of(get(condition, "type")) == DISRUPTED["type"]
            and text_of(get(condition, "status")) in (None, "True")
            for condition in items_of(get(rule, "onPodConditions"))
        ):
            return text_of(get(rule, "action"))
        codes = get(rule, "onExitCodes")
        values = {text_of(value) for value in items_of(get(codes, "values"))}
        listed = {code in values for code in _ENDED}
        if codes is not None and (text_of(get(codes, "operator")) == "In") in listed:
            return text_of(get(rule, "action"))  # also matches a process that an eviction ends
    return None


# --- JobSet, and the runtimes of Kubeflow Trainer, which contain one ---------------------------------------------


def _job_set(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """https://jobset.sigs.k8s.io/docs/concepts/failure_policy/: a host under maintenance does not count."""
    prefix = ("spec",) if workload.kind.kind == "JobSet" else ("spec", "template", "spec")
    top: KeyPath = (*workload.path, *prefix)
    policy = get(workload.node, *prefix, "failurePolicy")
    for spec in workload.pod_specs:
        if spec.text("restartPolicy") not in (None, "Never"):
            raise Refused(
                f"restartPolicy of {spec.role} is {spec.text('restartPolicy')}: podFailurePolicy needs Never"
            )
        job = spec.path[:-2]
        node = get(workload.node, *job[len(workload.path) :])
        action = disruption_action(node)
        if action not in (None, "FailJob"):
            raise Refused(
                f"the podFailurePolicy of {spec.role} has the action {action} for evictions: make it FailJob"
            )
        if any(
            text_of(get(rule, "action")) == "FailJob" and get(rule, "onPodConditions") is None
            for rule in items_of(get(node, "podFailurePolicy", "rules"))
        ):
            # Both have the reason PodFailurePolicy.
            raise Refused(
                f"the podFailurePolicy of {spec.role} has a FailJob of its own, after which the set would also be "
                "restarted without a limit: take it out"
            )
        _refuse_replacement(node)
        # The webhook's default is OnFailure, with which a podFailurePolicy is refused.
        editor.set((*spec.path, "restartPolicy"), "Never")
        if get(node, "backoffLimit") is None:
            editor.set((*job, "backoffLimit"), 0)
        if action is None:
            editor.append(
                (*job, "podFailurePolicy", "rules"),
                {"action": "FailJob", "onPodConditions": [DISRUPTED]},
            )
    actions = {_job_set_action(policy, spec.role) for spec in workload.pod_specs}
    if None in actions:
        editor.append(
            (*top, "failurePolicy", "rules"),
            {
                "name": "evictions",
                "action": _UNCOUNTED[0],
                "onJobFailureReasons": ["PodFailurePolicy"],
            },
        )
    for action in sorted(
        action for action in actions if action is not None and action not in _UNCOUNTED
    ):
        raise Refused(
            f"the first rule of its failurePolicy for evictions has the action {action}: make it {_UNCOUNTED[0]}"
        )
    if get(policy, "maxRestarts") is None:
        editor.set((*top, "failurePolicy", "maxRestarts"), retries)


# Actions after which the set, or the job, goes on without counting: JobSet, api/jobset/v1alpha2/jobset_types.go
_UNCOUNTED = ("RestartJobSetAndIgnoreMaxRestarts", "RestartJobAndIgnoreMaxRestarts")


def _job_set_action(policy: YamlNode | None, role: str) -> str | None:
    """What a failurePolicy does when an eviction fails a job of this role; the first rule that applies counts, and an
    empty list applies to all: https://github.com/kubernetes-sigs/jobset, pkg/controllers/failure_policy.go"""
    for rule in items_of(get(policy, "rules")):
        reasons, targets = (
            _texts(get(rule, "onJobFailureReasons")),
            _texts(get(rule, "targetReplicatedJobs")),
        )
        if (not reasons or "PodFailurePolicy" in reasons) and (not targets or role in targets):
            return text_of(get(rule, "action"))
    return None


# --- Kubeflow --------------------------------------------------------------------------------------------------


def _replicas(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """OnFailure makes failed pods again; backoffLimit 0 fails at the first. Coordinators are not on spot nodes."""
    for spec in (spec for spec in workload.pod_specs if not spec.coordinator):
        replica = spec.path[:-2]
        policy = text_of(get(workload.node, *replica[len(workload.path) :], "restartPolicy"))
        if policy == "Never":
            raise Refused(f"restartPolicy of {spec.role} is Never: make it OnFailure")
        if policy is None and workload.kind.kind not in _RESTARTS_BY_DEFAULT:
            editor.set((*replica, "restartPolicy"), "OnFailure")
    _backoff_limit(editor, workload, retries)


def _mpi_v2(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Deleted workers are made again; the limit is that of the launcher's Job."""
    _backoff_limit(editor, workload, retries)


def _backoff_limit(editor: SpecEditor, workload: Workload, retries: int) -> None:
    limit = workload.text("spec", "runPolicy", "backoffLimit")
    if limit == "0":
        raise Refused("runPolicy.backoffLimit is 0, so that the first failed pod ends it: raise it")
    if limit is None:
        if retries == 0:
            raise Refused("backoffLimit 0 ends it at the first failed pod: use --retries 1 or more")
        editor.set((*workload.path, "spec", "runPolicy", "backoffLimit"), retries)


# --- Volcano ---------------------------------------------------------------------------------------------------


def _volcano(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Without a policy evicted pods are made again for ever; RestartJob counts against maxRetry, which is 3."""
    top = _volcano_top(workload)
    for event, action in volcano_policies(workload):
        if event in VOLCANO_EVENTS and action in _VOLCANO_ENDS:
            raise Refused(
                f"its policy {event} -> {action} ends it at the first eviction: take it out"
            )
        if event in VOLCANO_FAILED and action in _VOLCANO_ENDS:
            raise Refused(
                f"its policy {event} -> {action} also ends it when the process of an evicted pod ends before the pod "
                "is gone: make it RestartTask"
            )
        if event in VOLCANO_EVENTS and action == "RestartJob":
            raise Refused(
                f"its policy {event} -> RestartJob counts evictions against maxRetry (3 by default): take it out, and "
                "evicted pods are made again without a limit"
            )
    if get(workload.node, *top, "maxRetry") is None:
        if retries == 0:
            raise Refused(
                "Volcano takes a maxRetry of 0 for the default, which is 3: use --retries 1 or more"
            )
        editor.set((*workload.path, *top, "maxRetry"), retries)


def _volcano_top(workload: Workload) -> tuple[str, ...]:
    return ("spec", "jobTemplate", "spec") if workload.kind.kind == "CronJob" else ("spec",)


def volcano_policies(workload: Workload) -> Iterator[tuple[str, str]]:
    """Event, or exit code, and action of every policy, of the job and of its tasks."""
    top = _volcano_top(workload)
    tasks = items_of(get(workload.node, *top, "tasks"))
    for holder in (get(workload.node, *top), *tasks):
        for policy in items_of(get(holder, "policies")):
            single = text_of(get(policy, "event")) or text_of(get(policy, "exitCode")) or ""
            events = _texts(get(policy, "events")) or {single}
            for event in sorted(events):
                yield event, text_of(get(policy, "action")) or ""


# --- others ----------------------------------------------------------------------------------------------------


_ARGO_SHARED = ("spec", "workflowSpec", "templateDefaults")


def _argo(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """A deleted pod is an Error, which OnFailure, the default, does not retry:
    https://argo-workflows.readthedocs.io/en/latest/retries/"""
    templates = [spec for spec in workload.pod_specs if makes_pod(spec)]
    # What the workflow, or its defaults, say for every template that has none; `{}` is one without a limit.
    shared = [
        spec
        for spec in workload.pod_specs
        if spec.path[-1] in _ARGO_SHARED and isinstance(spec.get("retryStrategy"), yaml.MappingNode)
    ]
    for spec in (*templates, *shared):
        strategy = spec.get("retryStrategy")
        # Evictions count here: https://argo-workflows.readthedocs.io/en/latest/fields/#retrystrategy
        if text_of(get(strategy, "limit")) == "0":
            raise Refused(f"the limit of {spec.role} is 0, so that nothing is retried: raise it")
        if not isinstance(strategy, yaml.MappingNode):
            if not shared:
                _refuse_none(retries)
                editor.set(
                    (*spec.path, "retryStrategy"), {"limit": str(retries), "retryPolicy": "Always"}
                )
        elif get(strategy, "retryPolicy") is None and get(strategy, "expression") is None:
            editor.set((*spec.path, "retryStrategy", "retryPolicy"), "Always")
        elif text_of(get(strategy, "retryPolicy")) in ("OnFailure", "OnTransientError"):
            policy = text_of(get(strategy, "retryPolicy"))
            raise Refused(
                f"the retryPolicy of {spec.role} is {policy}, which does not retry deleted pods: Always does"
            )


def _ray_job(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Each retry is a new cluster; workers that are evicted are made again in any case."""
    top = ("spec", "jobTemplate") if workload.kind.kind == "RayCronJob" else ("spec",)
    # https://github.com/ray-project/kuberay, ray-operator/controllers/ray/utils/validation.go
    if pairs(get(workload.node, *top, "clusterSelector")):
        raise Refused(
            "it runs in a cluster that is there (clusterSelector), and KubeRay then takes no backoffLimit"
        )
    if text_of(get(workload.node, *top, "submissionMode")) == "InteractiveMode":
        raise Refused("KubeRay takes no backoffLimit in InteractiveMode")
    if get(workload.node, *top, "backoffLimit") is None:
        _refuse_none(retries)
        editor.set((*workload.path, *top, "backoffLimit"), retries)


def _spark(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """https://www.kubeflow.org/docs/components/spark-operator/user-guide/running-sparkapplications/"""
    top = ("spec", "template") if workload.kind.kind == "ScheduledSparkApplication" else ("spec",)
    policy = get(workload.node, *top, "restartPolicy")
    if text_of(get(policy, "type")) == "Never":
        raise Refused("its restartPolicy has the type Never: make it OnFailure")
    if text_of(get(policy, "onFailureRetries")) == "0":
        raise Refused("its restartPolicy has 0 onFailureRetries: raise it")
    if not pairs(policy):
        _refuse_none(retries)
        value = {"type": "OnFailure", "onFailureRetries": retries, "onFailureRetryInterval": 10}
        editor.set((*workload.path, *top, "restartPolicy"), value)
    elif text_of(get(policy, "type")) == "OnFailure" and get(policy, "onFailureRetries") is None:
        # Without a number there is no retry: https://github.com/kubeflow/spark-operator, pkg/util/sparkapplication.go
        _refuse_none(retries)
        editor.set((*workload.path, *top, "restartPolicy", "onFailureRetries"), retries)


def _refuse_none(retries: int) -> None:
    if retries == 0:
        raise Refused(
            "its kind counts evictions as errors, so that 0 survives none: use --retries 1 or more"
        )


def _texts(node: YamlNode | None) -> set[str]:
    return {text for item in items_of(node) if (text := text_of(item)) is not None}


_SETTERS: dict[Retry, Callable[[SpecEditor, Workload, int], None]] = {
    Retry.NONE: _no_field,
    Retry.CONTROLLER: _nothing_to_do,
    Retry.WRAPPED: _nothing_to_do,
    Retry.FLAVOR: _nothing_to_do,
    Retry.RAY_CLUSTER: _nothing_to_do,
    Retry.RUNTIME: _runtime,
    Retry.JOB: _job,
    Retry.CRON_JOB: _job,
    Retry.JOB_SET: _job_set,
    Retry.REPLICAS: _replicas,
    Retry.MPI_V2: _mpi_v2,
    Retry.VOLCANO: _volcano,
    Retry.ARGO: _argo,
    Retry.RAY_JOB: _ray_job,
    Retry.SPARK: _spark,
}
