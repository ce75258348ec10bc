"""Retries that survive evictions, for each kind of workload.

An eviction leaves a deleted pod (a drain, the removal of its node) or a failed one (a node that
shuts down in order, a process that exits at SIGTERM). Each kind has its own field for what happens
then; the comments name the source of each rule. Where a policy of the user makes a retry wrong
nothing is changed, and the reason says what to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import yaml

from arc_toolkit.edit.yaml.nodes import YamlNode, get, items_of, pairs, text_of
from arc_toolkit.kube.workloads import KindFamily, Retry
from arc_toolkit.placement.decisions import Obstacle, PlacementRefused, SpecEditor
from arc_toolkit.placement.field_inheritance import SHARED_STEPS
from arc_toolkit.placement.manifests import PodSpec, Workload, makes_pod

# The condition of an evicted pod.
DISRUPTED = {"type": "DisruptionTarget"}
# Exit codes of a process that SIGTERM ends, or SIGKILL when its grace period is over.
_SIGNAL_CODES = ("143", "137")
# Actions of Volcano that end a job, and the events that an eviction is.
_VOLCANO_ENDS = ("AbortJob", "TerminateJob", "CompleteJob")
VOLCANO_EVENTS = ("PodEvicted", "*", "AnyEvent")
# An eviction is also this if the process ends before its pod is gone; by its exit code if a policy
# has one: https://github.com/volcano-sh/volcano, pkg/controllers/job/job_controller_handler.go,
# updatePod
VOLCANO_FAILED = ("PodFailed", *_SIGNAL_CODES)
# Defaults of the training operator, v1:
# https://github.com/kubeflow/trainer/tree/v1.9.4/pkg/apis/kubeflow.org/v1
_RESTARTS_BY_DEFAULT = frozenset(["PyTorchJob", "PaddleJob"])
# Kinds whose retries are a field of another object.
_ELSEWHERE = {
    "TrainJob": "only its TrainingRuntime has the field (spec.template.spec.failurePolicy)",
    "PipelineRun": "only the tasks of its Pipeline have the field (spec.tasks[].retries)",
    "JobFlow": "only its JobTemplates have the field (spec.maxRetry)",
}


def set_retries(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Survive evictions, and retry errors `retries` times; refused if that is wrong."""
    setter = _SETTERS.get(workload.kind.retry)
    if setter is not None and workload.kind.family in (KindFamily.PODS, KindFamily.TRAIN_JOB):
        setter(editor, workload, retries)


def with_coordinators_on_spot(
    workload: Workload, is_on_spot: Callable[[PodSpec], bool]
) -> Workload:
    """The same workload, in which coordinators on spot nodes need retries like workers."""
    if not any(spec.coordinator and is_on_spot(spec) for spec in workload.pod_specs):
        return workload
    specs = (
        replace(spec, coordinator=spec.coordinator and not is_on_spot(spec))
        for spec in workload.pod_specs
    )
    return replace(workload, pod_specs=tuple(specs))


def _refused(reason: str) -> PlacementRefused:
    return PlacementRefused(Obstacle.CONTRADICTION, reason)


def _refuse_none(retries: int) -> None:
    if retries == 0:
        raise _refused(
            "this kind counts evictions as failures: with 0 no eviction is survived; "
            "use --retries 1 or more"
        )


def _never(editor: SpecEditor, workload: Workload, retries: int) -> None:
    raise PlacementRefused(
        Obstacle.NO_FIELD, "a pod on its own is never started again: make it a Job"
    )


def _elsewhere(editor: SpecEditor, workload: Workload, retries: int) -> None:
    reason = _ELSEWHERE.get(workload.kind.kind, "its kind has no field for it")
    raise PlacementRefused(Obstacle.ELSEWHERE, reason)


# --- batch/v1 -------------------------------------------------------------------------------------


def _job(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """podFailurePolicy, stable since 1.31:
    https://kubernetes.io/docs/concepts/workloads/controllers/job/"""
    for spec in workload.pod_specs:
        path = spec.path[:-2]  # above template.spec
        job = holder_of(workload, spec)
        restart_policy = spec.text("restartPolicy")
        if restart_policy != "Never":
            raise _refused(
                f"restartPolicy is {restart_policy or 'missing'}: podFailurePolicy, without which "
                "evictions count as errors, needs Never"
            )
        action = disruption_action(job)
        if action is None:
            rule = {"action": "Ignore", "onPodConditions": [DISRUPTED]}
            editor.append((*path, "podFailurePolicy", "rules"), rule)
        elif action != "Ignore":
            raise _refused(
                f"its podFailurePolicy has the action {action} for evictions: make it Ignore"
            )
        _refuse_replacement(job)
        # With a limit per index there is none for all of them: a number would be less, not more.
        if get(job, "backoffLimit") is None and get(job, "backoffLimitPerIndex") is None:
            editor.set((*path, "backoffLimit"), retries)


def holder_of(workload: Workload, spec: PodSpec) -> YamlNode | None:
    """The object with the template of a pod spec: a Job, or a replica of a training job."""
    return get(workload.node, *spec.path[len(workload.path) : -2])


def _refuse_replacement(job: YamlNode | None) -> None:
    """https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy"""
    if (policy := text_of(get(job, "podReplacementPolicy"))) not in (None, "Failed"):
        raise _refused(
            f"its podReplacementPolicy is {policy}: with a podFailurePolicy it must be Failed"
        )


def disruption_action(job: YamlNode | None) -> str | None:
    """What a podFailurePolicy does with an evicted pod; the first rule that matches counts.

    `onExitCodes: {operator: NotIn, values: [0]}` before a rule for DisruptionTarget also matches a
    process that SIGTERM ends, so its action is the answer.
    """
    for rule in items_of(get(job, "podFailurePolicy", "rules")):
        for condition in items_of(get(rule, "onPodConditions")):
            is_disruption = text_of(get(condition, "type")) == DISRUPTED["type"]
            if is_disruption and text_of(get(condition, "status")) in (None, "True"):
                return text_of(get(rule, "action"))
        codes = get(rule, "onExitCodes")
        values = _texts(get(codes, "values"))
        is_in = text_of(get(codes, "operator")) == "In"
        if codes is not None and any((code in values) == is_in for code in _SIGNAL_CODES):
            return text_of(get(rule, "action"))
    return None


# --- JobSet, and the runtimes of Kubeflow Trainer, which contain one ------------------------------

# Actions after which the set, or the job, restarts without counting: JobSet,
# api/jobset/v1alpha2/jobset_types.go
_UNCOUNTED = ("RestartJobSetAndIgnoreMaxRestarts", "RestartJobAndIgnoreMaxRestarts")


def _job_set(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Restart without counting: https://jobset.sigs.k8s.io/docs/concepts/failure_policy/"""
    prefix = ("spec",) if workload.kind.kind == "JobSet" else ("spec", "template", "spec")
    path = (*workload.path, *prefix, "failurePolicy")
    policy = workload.get(*prefix, "failurePolicy")
    for spec in workload.pod_specs:
        _fail_on_eviction(editor, workload, spec)
    actions = {_job_set_action(policy, spec.role) for spec in workload.pod_specs}
    for action in sorted(action for action in actions if action and action not in _UNCOUNTED):
        raise _refused(
            f"the first rule of its failurePolicy for evictions has the action {action}: "
            f"make it {_UNCOUNTED[0]}"
        )
    if None in actions:
        rule = {"name": "evictions", "action": _UNCOUNTED[0]}
        editor.append((*path, "rules"), {**rule, "onJobFailureReasons": ["PodFailurePolicy"]})
    if get(policy, "maxRestarts") is None:
        editor.set((*path, "maxRestarts"), retries)


def _fail_on_eviction(editor: SpecEditor, workload: Workload, spec: PodSpec) -> None:
    """A job of the set fails with a reason of its own when one of its pods is evicted."""
    path, job = spec.path[:-2], holder_of(workload, spec)
    restart_policy = spec.text("restartPolicy")
    if restart_policy not in (None, "Never"):
        raise _refused(
            f"restartPolicy of {spec.role} is {restart_policy}: podFailurePolicy needs Never"
        )
    action = disruption_action(job)
    if action not in (None, "FailJob"):
        raise _refused(
            f"the podFailurePolicy of {spec.role} has the action {action} for evictions: "
            "make it FailJob"
        )
    for rule in items_of(get(job, "podFailurePolicy", "rules")):
        # Its failures have the reason PodFailurePolicy, too.
        if text_of(get(rule, "action")) == "FailJob" and get(rule, "onPodConditions") is None:
            raise _refused(
                f"the podFailurePolicy of {spec.role} has a FailJob of its own, after which the "
                "set would also be restarted without a limit: take it out"
            )
    _refuse_replacement(job)
    # The webhook's default is OnFailure, with which a podFailurePolicy is refused.
    editor.set((*spec.path, "restartPolicy"), "Never")
    if get(job, "backoffLimit") is None:
        editor.set((*path, "backoffLimit"), 0)
    if action is None:
        eviction = {"action": "FailJob", "onPodConditions": [DISRUPTED]}
        editor.append((*path, "podFailurePolicy", "rules"), eviction)


def _job_set_action(policy: YamlNode | None, role: str) -> str | None:
    """What a failurePolicy does when an eviction fails a job of this role; the first rule that
    applies counts, and an empty list applies to all: jobset, pkg/controllers/failure_policy.go"""
    for rule in items_of(get(policy, "rules")):
        reasons = _texts(get(rule, "onJobFailureReasons"))
        targets = _texts(get(rule, "targetReplicatedJobs"))
        if (not reasons or "PodFailurePolicy" in reasons) and (not targets or role in targets):
            return text_of(get(rule, "action"))
    return None


# --- Kubeflow -------------------------------------------------------------------------------------


def _replicas(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """OnFailure recreates failed pods; backoffLimit 0 fails at the first one."""
    for spec in workload.pod_specs:
        if spec.coordinator:
            continue
        policy = text_of(get(holder_of(workload, spec), "restartPolicy"))
        if policy == "Never":
            raise _refused(f"restartPolicy of {spec.role} is Never: make it OnFailure")
        if policy is None and workload.kind.kind not in _RESTARTS_BY_DEFAULT:
            editor.set((*spec.path[:-2], "restartPolicy"), "OnFailure")
    _backoff_limit(editor, workload, retries)


def _backoff_limit(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Of an MPIJob v2beta1 it is the limit of the launcher's Job; deleted workers are recreated."""
    limit = workload.text("spec", "runPolicy", "backoffLimit")
    if limit == "0":
        raise _refused("runPolicy.backoffLimit is 0: the first failed pod ends it; raise it")
    if limit is None:
        if retries == 0:
            raise _refused(
                "backoffLimit 0 ends it at the first failed pod: use --retries 1 or more"
            )
        editor.set((*workload.path, "spec", "runPolicy", "backoffLimit"), retries)


# --- Volcano --------------------------------------------------------------------------------------


def _volcano(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Without a policy evicted pods are always recreated; RestartJob counts against maxRetry, 3."""
    for event, action in volcano_policies(workload):
        policy = f"its policy {event} -> {action}"
        if event in VOLCANO_EVENTS and action in _VOLCANO_ENDS:
            raise _refused(f"{policy} ends it at the first eviction: take it out")
        if event in VOLCANO_FAILED and action in _VOLCANO_ENDS:
            raise _refused(
                f"{policy} also ends it when the process of an evicted pod ends before the pod is "
                "gone: make it RestartTask"
            )
        if event in VOLCANO_EVENTS and action == "RestartJob":
            raise _refused(
                f"{policy} counts evictions against maxRetry (3 by default): take it out, and "
                "evicted pods are recreated without a limit"
            )
    top = _volcano_top(workload)
    if workload.get(*top, "maxRetry") is None:
        if retries == 0:
            raise _refused(
                "Volcano takes a maxRetry of 0 for the default, which is 3: use --retries 1 or more"
            )
        editor.set((*workload.path, *top, "maxRetry"), retries)


def _volcano_top(workload: Workload) -> tuple[str, ...]:
    return ("spec", "jobTemplate", "spec") if workload.kind.kind == "CronJob" else ("spec",)


def volcano_policies(workload: Workload) -> Iterator[tuple[str, str]]:
    """Event, or exit code, and action of every policy, of the job and of its tasks."""
    job = workload.get(*_volcano_top(workload))
    for holder in (job, *items_of(get(job, "tasks"))):
        for policy in items_of(get(holder, "policies")):
            single = text_of(get(policy, "event")) or text_of(get(policy, "exitCode")) or ""
            events = _texts(get(policy, "events")) or {single}
            for event in sorted(events):
                yield event, text_of(get(policy, "action")) or ""


# --- others ---------------------------------------------------------------------------------------


def _argo(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """A deleted pod is an Error, which OnFailure, the default, does not retry:
    https://argo-workflows.readthedocs.io/en/latest/retries/"""
    templates = [spec for spec in workload.pod_specs if makes_pod(spec)]
    # For every template that has none; `{}` is one without a limit.
    shared = [
        spec
        for spec in workload.pod_specs
        if spec.path[-1] in SHARED_STEPS and isinstance(spec.get("retryStrategy"), yaml.MappingNode)
    ]
    for spec in (*templates, *shared):
        path, strategy = (*spec.path, "retryStrategy"), spec.get("retryStrategy")
        policy = text_of(get(strategy, "retryPolicy"))
        # Evictions count: https://argo-workflows.readthedocs.io/en/latest/fields/#retrystrategy
        if text_of(get(strategy, "limit")) == "0":
            raise _refused(f"the limit of {spec.role} is 0: nothing is retried; raise it")
        if not isinstance(strategy, yaml.MappingNode):
            if not shared:
                _refuse_none(retries)
                editor.set(path, {"limit": str(retries), "retryPolicy": "Always"})
        elif policy is None and get(strategy, "expression") is None:
            editor.set((*path, "retryPolicy"), "Always")
        elif policy in ("OnFailure", "OnTransientError"):
            raise _refused(
                f"the retryPolicy of {spec.role} is {policy}, which does not retry deleted pods: "
                "Always does"
            )


def _ray_job(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Each retry is a new cluster; evicted workers are recreated in any case."""
    top = ("spec", "jobTemplate") if workload.kind.kind == "RayCronJob" else ("spec",)
    # https://github.com/ray-project/kuberay, ray-operator/controllers/ray/utils/validation.go
    if pairs(workload.get(*top, "clusterSelector")):
        raise _refused(
            "it runs in an existing cluster (clusterSelector), for which KubeRay takes no "
            "backoffLimit"
        )
    if workload.text(*top, "submissionMode") == "InteractiveMode":
        raise _refused("KubeRay takes no backoffLimit in InteractiveMode")
    if workload.get(*top, "backoffLimit") is None:
        _refuse_none(retries)
        editor.set((*workload.path, *top, "backoffLimit"), retries)


def _spark(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """The whole application restarts: kubeflow.org/docs/components/spark-operator/user-guide"""
    top = ("spec", "template") if workload.kind.kind == "ScheduledSparkApplication" else ("spec",)
    path, policy = (*workload.path, *top, "restartPolicy"), workload.get(*top, "restartPolicy")
    if text_of(get(policy, "type")) == "Never":
        raise _refused("its restartPolicy has the type Never: make it OnFailure")
    if text_of(get(policy, "onFailureRetries")) == "0":
        raise _refused("its restartPolicy has 0 onFailureRetries: raise it")
    if not pairs(policy):
        _refuse_none(retries)
        count = {"onFailureRetries": retries, "onFailureRetryInterval": 10}
        editor.set(path, {"type": "OnFailure", **count})
    elif text_of(get(policy, "type")) == "OnFailure" and get(policy, "onFailureRetries") is None:
        # Without a number there is no retry: spark-operator, pkg/util/sparkapplication.go
        _refuse_none(retries)
        editor.set((*path, "onFailureRetries"), retries)


def _task_run(editor: SpecEditor, workload: Workload, retries: int) -> None:
    """Deleted pods are recreated, failed ones retried: tektoncd/pipeline,
    pkg/reconciler/taskrun/taskrun.go"""
    if workload.text("spec", "retries") == "0":
        raise _refused("its retries are 0: raise that")
    if workload.get("spec", "retries") is None:
        _refuse_none(retries)
        editor.set((*workload.path, "spec", "retries"), retries)


def _texts(node: YamlNode | None) -> set[str]:
    return {text for item in items_of(node) if (text := text_of(item)) is not None}


# Retries without a setter need no field: lost pods are always recreated.
_SETTERS: dict[Retry, Callable[[SpecEditor, Workload, int], None]] = {
    Retry.NEVER: _never,
    Retry.ELSEWHERE: _elsewhere,
    Retry.JOB: _job,
    Retry.JOB_SET: _job_set,
    Retry.REPLICAS: _replicas,
    Retry.MPI_V2: _backoff_limit,
    Retry.VOLCANO: _volcano,
    Retry.ARGO: _argo,
    Retry.RAY_JOB: _ray_job,
    Retry.SPARK: _spark,
    Retry.TASK_RUN: _task_run,
}
