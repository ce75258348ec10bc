"""Retries that survive evictions, for each kind of workload.

An eviction leaves a deleted pod (a drain, the removal of its node) or a failed one (a node that
shuts down in order, a process that exits at SIGTERM; its exit code decides if it ends before its
pod is gone). Each kind has its own field for what happens then; the comments name the source of
each rule. Where a policy of the user makes a retry wrong nothing is changed, and the reason says
what to change; where some evictions still count, or a number of retries would end a job that
survives without one, a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import YamlNode, get, items_of, pairs, text_of
from arc_toolkit.edit.yaml.proof import Value
from arc_toolkit.kube.workloads import KindFamily, Retry
from arc_toolkit.placement.manifests import (
    SHARED_STEPS,
    PodSpec,
    Workload,
    holder,
    makes_pod,
    only_waits,
    pod_count,
)
from arc_toolkit.placement.pipelines import ExecutorSpec
from arc_toolkit.placement.place_plan import RETRIES, PlacementDecision, SetElsewhere

# The condition of an evicted pod.
DISRUPTED = {"type": "DisruptionTarget"}
# Exit codes of a process that SIGTERM ends, or SIGKILL when its grace period is over.
_SIGNAL_CODES = ("143", "137")
# `trap 'save; exit 0' TERM` in the text of a shell.
_EXITS_WITH_0 = re.compile(
    r"""\btrap\s+(['"])(?:(?!\1).)*\bexit\s+0\s*;?\s*\1\s[^\n;&|]*\b(?:SIG)?TERM\b""", re.DOTALL
)
_COUNTED = (
    "this kind counts evictions as failures: with 0 no eviction is survived; "
    "use --retries 1 or more"
)


@dataclass
class _Retries:
    """What is asked for a workload: retries of its pods after evictions, and `count` after errors.

    `is_retried` says of a pod spec whether its pods must survive evictions; a coordinator off spot
    nodes need not.
    """

    decision: PlacementDecision
    workload: Workload
    is_retried: Callable[[PodSpec], bool]
    count: int

    @property
    def specs(self) -> Iterator[PodSpec]:
        return filter(self.is_retried, self.workload.pod_specs)

    def get(self, *path: str | int) -> YamlNode | None:
        """A field of the job."""
        return self.workload.get(*self.workload.kind.job, *path)

    def set(self, value: Value, *path: str | int) -> None:
        self.decision.set((*self.workload.path, *self.workload.kind.job, *path), value)

    def set_count(self, *path: str | int, value: Any = None) -> None:
        """The number of retries, or a value with it, of a kind in which evictions count."""
        if self.count == 0:
            raise Refused(_COUNTED)
        self.set(self.count if value is None else value, *path)

    def warn(self, reason: str) -> None:
        message = ": an eviction can still count as an error or end it"
        self.decision.note(RETRIES, "warning", message, reason)

    def explain(self, message: str, reason: str) -> None:
        self.decision.note(RETRIES, "note", message, reason)


def set_retries(
    decision: PlacementDecision, is_retried: Callable[[PodSpec], bool], count: int
) -> None:
    """Survive evictions, and retry errors `count` times; refused if that is wrong."""
    workload = decision.workload
    retries = _Retries(decision, workload, is_retried, count)
    setter = _SETTERS.get(workload.kind.retry)
    if setter is not None and workload.kind.family in (KindFamily.PODS, KindFamily.TRAIN_JOB):
        setter(retries)
    if any(
        _exits_with_0(container)
        for spec in workload.pod_specs
        for container in items_of(spec.get("containers"))
    ):
        retries.warn(
            "its command exits with 0 at SIGTERM, with which an evicted pod counts as done: "
            "exit with 143 there"
        )


def _exits_with_0(container: YamlNode) -> bool:
    words = (*items_of(get(container, "command")), *items_of(get(container, "args")))
    texts = (text_of(word) or "" for word in words)
    return any("trap" in text and _EXITS_WITH_0.search(text) for text in texts)


def _never(retries: _Retries) -> None:
    raise Refused("a pod on its own is never started again: make it a Job")


# Kinds whose retries are a field of another object.
_ELSEWHERE = {
    "TrainJob": "only its TrainingRuntime has the field (spec.template.spec.failurePolicy)",
    "PodTemplate": "what makes pods of it has the field",
    "JobFlow": "only its JobTemplates have the field (spec.maxRetry)",
}


def _elsewhere(retries: _Retries) -> None:
    kind = retries.workload.kind.kind
    raise SetElsewhere(_ELSEWHERE.get(kind, "its kind has no field for it"))


# --- batch/v1 -------------------------------------------------------------------------------------


def _job(retries: _Retries) -> None:
    """podFailurePolicy, stable since 1.31:
    https://kubernetes.io/docs/concepts/workloads/controllers/job/"""
    for spec in retries.workload.pod_specs:
        path = spec.path[:-2]  # above template.spec
        job = holder(retries.workload, spec)
        restart_policy = spec.text("restartPolicy")
        if restart_policy != "Never":
            raise Refused(
                f"restartPolicy is {restart_policy or 'missing'}: podFailurePolicy, without which "
                "evictions count as errors, needs Never"
            )
        action = _disruption_action(job)
        if action is None:
            rule = {"action": "Ignore", "onPodConditions": [DISRUPTED]}
            retries.decision.append((*path, "podFailurePolicy", "rules"), rule)
        elif action != "Ignore":
            raise Refused(
                f"its podFailurePolicy has the action {action} for evictions: make it Ignore"
            )
        _refuse_replacement(job)
        # With a limit per index there is none for all of them: a number would be less, not more.
        if get(job, "backoffLimit") is None and get(job, "backoffLimitPerIndex") is None:
            retries.decision.set((*path, "backoffLimit"), retries.count)
        if action := _action_of_exit_code_1(job):
            retries.warn(
                f"its podFailurePolicy has {action} for exit code 1, with which many programs end "
                "at SIGTERM: exit with 143 there, or put the rule with DisruptionTarget first"
            )


def _refuse_replacement(job: YamlNode | None) -> None:
    """https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy"""
    if (policy := text_of(get(job, "podReplacementPolicy"))) not in (None, "Failed"):
        raise Refused(
            f"its podReplacementPolicy is {policy}: with a podFailurePolicy it must be Failed"
        )


def _disruption_action(job: YamlNode | None) -> str | None:
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


def _action_of_exit_code_1(job: YamlNode | None) -> str | None:
    """An action other than Ignore for exit code 1, in a rule before those for conditions."""
    for rule in items_of(get(job, "podFailurePolicy", "rules")):
        if get(rule, "onPodConditions") is not None:
            return None
        action = text_of(get(rule, "action"))
        if "1" in _texts(get(rule, "onExitCodes", "values")) and action != "Ignore":
            return action
    return None


# --- JobSet, and the runtimes of Kubeflow Trainer, which contain one ------------------------------

# Actions after which the set, or the job, restarts without counting: JobSet,
# api/jobset/v1alpha2/jobset_types.go
_UNCOUNTED = ("RestartJobSetAndIgnoreMaxRestarts", "RestartJobAndIgnoreMaxRestarts")


def _job_set(retries: _Retries) -> None:
    """Restart without counting: https://jobset.sigs.k8s.io/docs/concepts/failure_policy/"""
    workload, decision = retries.workload, retries.decision
    for spec in workload.pod_specs:
        _fail_on_eviction(decision, spec, holder(workload, spec))
    policy = retries.get("failurePolicy")
    actions = {_job_set_action(policy, spec.role) for spec in workload.pod_specs}
    for action in sorted(action for action in actions if action and action not in _UNCOUNTED):
        raise Refused(
            f"the first rule of its failurePolicy for evictions has the action {action}: "
            f"make it {_UNCOUNTED[0]}"
        )
    path = (*workload.path, *workload.kind.job, "failurePolicy")
    if None in actions:
        rule = {"name": "evictions", "action": _UNCOUNTED[0]}
        decision.append((*path, "rules"), {**rule, "onJobFailureReasons": ["PodFailurePolicy"]})
    if get(policy, "maxRestarts") is None:
        decision.set((*path, "maxRestarts"), retries.count)


def _fail_on_eviction(decision: PlacementDecision, spec: PodSpec, job: YamlNode | None) -> None:
    """A job of the set fails with a reason of its own when one of its pods is evicted."""
    restart_policy = spec.text("restartPolicy")
    if restart_policy not in (None, "Never"):
        raise Refused(
            f"restartPolicy of {spec.role} is {restart_policy}: podFailurePolicy needs Never"
        )
    action = _disruption_action(job)
    if action not in (None, "FailJob"):
        raise Refused(
            f"the podFailurePolicy of {spec.role} has the action {action} for evictions: "
            "make it FailJob"
        )
    for rule in items_of(get(job, "podFailurePolicy", "rules")):
        # Its failures have the reason PodFailurePolicy, too.
        if text_of(get(rule, "action")) == "FailJob" and get(rule, "onPodConditions") is None:
            raise Refused(
                f"the podFailurePolicy of {spec.role} has a FailJob of its own, after which the "
                "set would also be restarted without a limit: take it out"
            )
    _refuse_replacement(job)
    path = spec.path[:-2]
    # The webhook's default is OnFailure, with which a podFailurePolicy is refused.
    decision.set((*spec.path, "restartPolicy"), "Never")
    if get(job, "backoffLimit") is None:
        decision.set((*path, "backoffLimit"), 0)
    if action is None:
        eviction = {"action": "FailJob", "onPodConditions": [DISRUPTED]}
        decision.append((*path, "podFailurePolicy", "rules"), eviction)


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

# Kinds of the training operator, v1, whose replicas restart by default:
# https://github.com/kubeflow/trainer/tree/v1.9.4/pkg/apis/kubeflow.org/v1
_RESTARTS_BY_DEFAULT = frozenset(["PyTorchJob", "PaddleJob"])
_SUMMED = (
    "the training operator adds up the restarts in place of all running pods, and one eviction "
    "makes every other rank of a distributed job restart"
)


def _replicas(retries: _Retries) -> None:
    """With OnFailure the operator recreates evicted and failed pods without a limit; a
    runPolicy.backoffLimit ends jobs that survive without it (pkg/core/job.go, PastBackoffLimit), so
    none is written."""
    workload = retries.workload
    for spec in retries.specs:
        policy = text_of(get(holder(workload, spec), "restartPolicy"))
        if policy == "Never":
            raise Refused(f"restartPolicy of {spec.role} is Never: make it OnFailure")
        if policy is None and workload.kind.kind not in _RESTARTS_BY_DEFAULT:
            retries.decision.set((*spec.path[:-2], "restartPolicy"), "OnFailure")
    # Exit codes of 1 to 127 are for good:
    # https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/tensorflow/
    for spec in retries.specs:
        if text_of(get(holder(workload, spec), "restartPolicy")) == "ExitCode":
            retries.warn(
                f"restartPolicy of {spec.role} is ExitCode: an evicted process that exits with 1 "
                "at SIGTERM ends the job; exit with 143 there, or make it OnFailure"
            )
            break
    limit = text_of(retries.get("runPolicy", "backoffLimit"))
    if limit is None:
        retries.explain(
            ": the number of retries is not written",
            "evicted and failed pods of a replica with restartPolicy OnFailure are recreated "
            f"without a limit; with a runPolicy.backoffLimit, {_SUMMED}",
        )
        return
    if limit == "0":
        raise Refused("runPolicy.backoffLimit is 0: the first failed pod ends it; take it out")
    others = sum(pod_count(workload, spec) for spec in workload.pod_specs) - 1
    if limit.isdigit() and int(limit) <= others * max(retries.count, 1):
        retries.warn(
            f"its runPolicy.backoffLimit of {limit} is low for {others + 1} pods: {_SUMMED}; "
            "take it out"
        )


# The backoffLimit of the launcher, which is a Job, if none is set:
# https://github.com/kubeflow/mpi-operator, pkg/apis/kubeflow/v2beta1
_LAUNCHER_RETRIES = 6


def _mpi_job(retries: _Retries) -> None:
    """A worker that is lost ends mpirun, and so counts as a failure of the launcher. Its retries
    begin after 10, 20, 40 s and so on; a new spot node takes minutes, so fewer than the default
    would end the job before the worker is back."""
    limit = text_of(retries.get("runPolicy", "backoffLimit"))
    if limit == "0":
        raise Refused("runPolicy.backoffLimit is 0: the first failed launcher ends it; raise it")
    if limit is None and retries.count > _LAUNCHER_RETRIES:
        retries.set(retries.count, "runPolicy", "backoffLimit")
    elif limit is None and retries.count < _LAUNCHER_RETRIES:
        retries.explain(
            ": the number of retries is not written",
            f"the launcher is tried again {_LAUNCHER_RETRIES} times by default, each time after a "
            "longer wait; with fewer the job can end before an evicted worker is back",
        )
    retries.explain(
        ": a worker that fails is not replaced",
        "the MPI operator recreates evicted and deleted workers, but one whose process ends with "
        "137 or another error stays Failed: delete that pod, and it is recreated",
    )


# --- Volcano --------------------------------------------------------------------------------------

# Actions that end a job, and those that are counted by Volcano 1.15, and not by 1.10:
# pkg/controllers/job/state/running.go
_VOLCANO_ENDS = ("AbortJob", "TerminateJob", "CompleteJob")
_VOLCANO_PARTS = ("RestartTask", "RestartPod", "RestartPartition")
# The events that an eviction is, and those that it also is if the process ends before its pod is
# gone; by its exit code if a policy has one: pkg/controllers/job/job_controller_handler.go,
# updatePod
_VOLCANO_EVENTS = ("PodEvicted", "*", "AnyEvent")
_VOLCANO_FAILED = ("PodFailed", *_SIGNAL_CODES)
# The maxRetry of a job without one.
_VOLCANO_RETRIES = 3


def _volcano(retries: _Retries) -> None:
    """Without a policy evicted pods are always recreated; RestartJob counts against maxRetry."""
    advice = "make maxRetry larger than the evictions and errors that you expect"
    warning = ""
    for event, action in _volcano_policies(retries.get()):
        policy = f"its policy {event} -> {action}"
        is_eviction, is_failure = event in _VOLCANO_EVENTS, event in _VOLCANO_FAILED
        if is_eviction and action in _VOLCANO_ENDS:
            raise Refused(f"{policy} ends it at the first eviction: take it out")
        if is_failure and action in _VOLCANO_ENDS:
            raise Refused(
                f"{policy} also ends it when the process of an evicted pod ends before the pod is "
                "gone: make it RestartTask"
            )
        if is_eviction and action == "RestartJob":
            raise Refused(
                f"{policy} counts evictions against maxRetry (3 by default): take it out, and "
                "evicted pods are recreated without a limit"
            )
        if is_failure and action == "RestartJob":
            warning = warning or (
                f"{policy} also counts an eviction against maxRetry when the process ends before "
                f"its pod is gone: {advice}"
            )
        elif (is_eviction or is_failure) and action in _VOLCANO_PARTS:
            warning = warning or (
                f"{policy} counts evictions against maxRetry in newer releases of Volcano (1.15): "
                f"{advice}"
            )
    if warning:
        retries.warn(warning)
    if retries.get("maxRetry") is not None:
        return
    if retries.count == 0:
        raise Refused(
            "Volcano takes a maxRetry of 0 for the default, which is 3: use --retries 1 or more"
        )
    if warning and retries.count < _VOLCANO_RETRIES:
        retries.explain(
            ": the number of retries is not written",
            f"its policies count evictions, and the default of {_VOLCANO_RETRIES} allows more",
        )
    else:
        retries.set(retries.count, "maxRetry")


def _volcano_policies(job: YamlNode | None) -> Iterator[tuple[str, str]]:
    """Event, or exit code, and action of every policy, of the job and of its tasks."""
    for part in (job, *items_of(get(job, "tasks"))):
        for policy in items_of(get(part, "policies")):
            single = text_of(get(policy, "event")) or text_of(get(policy, "exitCode")) or ""
            events = _texts(get(policy, "events")) or {single}
            for event in sorted(events):
                yield event, text_of(get(policy, "action")) or ""


# --- others ---------------------------------------------------------------------------------------


def _argo(retries: _Retries) -> None:
    """A deleted pod is an Error, which OnFailure, the default, does not retry:
    https://argo-workflows.readthedocs.io/en/latest/retries/"""
    specs = retries.workload.pod_specs
    # A retry of a pod that creates a workload would create it a second time.
    waiting = [spec for spec in specs if only_waits(spec.shape, spec.node)]
    templates = [spec for spec in specs if makes_pod(spec) and spec not in waiting]
    # For every template that has none; `{}` is one without a limit.
    shared = [
        spec
        for spec in specs
        if spec.path[-1] in SHARED_STEPS and isinstance(spec.get("retryStrategy"), yaml.MappingNode)
    ]
    creating = [spec for spec in waiting if spec.text("resource", "action") == "create"]
    inheriting = [spec.role for spec in creating if spec.get("retryStrategy") is None]
    if shared and inheriting:
        raise Refused(
            f"its retryStrategy is also that of {inheriting[0]}, which would create its workload "
            "a second time: put it into the templates that run containers"
        )
    for spec in (*templates, *shared):
        path, strategy = (*spec.path, "retryStrategy"), spec.get("retryStrategy")
        policy = text_of(get(strategy, "retryPolicy"))
        # Evictions count: https://argo-workflows.readthedocs.io/en/latest/fields/#retrystrategy
        if text_of(get(strategy, "limit")) == "0":
            raise Refused(f"the limit of {spec.role} is 0: nothing is retried; raise it")
        if not isinstance(strategy, yaml.MappingNode):
            if not shared and retries.count == 0:
                raise Refused(_COUNTED)
            if not shared:
                limited = {"limit": str(retries.count), "retryPolicy": "Always"}
                retries.decision.set(path, limited)
        elif policy is None and get(strategy, "expression") is None:
            retries.decision.set((*path, "retryPolicy"), "Always")
        elif policy in ("OnFailure", "OnTransientError"):
            raise Refused(
                f"the retryPolicy of {spec.role} is {policy}, which does not retry deleted pods: "
                "Always does"
            )
    for spec in templates:
        if text_of(get(spec.get("retryStrategy"), "retryPolicy")) == "OnError":
            retries.warn(
                f"the retryPolicy of {spec.role} is OnError, which retries deleted pods, but not "
                "those that fail when their node shuts down: Always does"
            )
            return


def _ray_job(retries: _Retries) -> None:
    """Each retry is a new cluster; evicted workers are recreated in any case."""
    # https://github.com/ray-project/kuberay, ray-operator/controllers/ray/utils/validation.go
    if pairs(retries.get("clusterSelector")):
        raise Refused(
            "it runs in an existing cluster (clusterSelector), for which KubeRay takes no "
            "backoffLimit"
        )
    if text_of(retries.get("submissionMode")) == "InteractiveMode":
        raise Refused("KubeRay takes no backoffLimit in InteractiveMode")
    if retries.get("backoffLimit") is None:
        retries.set_count("backoffLimit")


def _spark(retries: _Retries) -> None:
    """The whole application restarts: kubeflow.org/docs/components/spark-operator/user-guide"""
    policy = retries.get("restartPolicy")
    kind, number = text_of(get(policy, "type")), get(policy, "onFailureRetries")
    if kind == "Never":
        raise Refused("its restartPolicy has the type Never: make it OnFailure")
    if text_of(number) == "0":
        raise Refused("its restartPolicy has 0 onFailureRetries: raise it")
    if not pairs(policy):
        count = {"onFailureRetries": retries.count, "onFailureRetryInterval": 10}
        retries.set_count("restartPolicy", value={"type": "OnFailure", **count})
    elif kind == "OnFailure" and number is None:
        # Without a number there is no retry: spark-operator, pkg/util/sparkapplication.go
        retries.set_count("restartPolicy", "onFailureRetries")


def _tekton(retries: _Retries) -> None:
    """Deleted pods are recreated, failed ones retried: tektoncd/pipeline,
    pkg/reconciler/taskrun/taskrun.go; a Pipeline has the number in each of its tasks."""
    if retries.workload.kind.kind == "TaskRun":
        tasks: list[tuple[str | int, ...]] = [()]
    elif retries.get() is None:
        raise SetElsewhere("only the tasks of its Pipeline have the field (spec.tasks[].retries)")
    else:
        tasks = [
            (name, index)
            for name in ("tasks", "finally")
            for index, _ in enumerate(items_of(retries.get(name)))
        ]
    for task in tasks:
        count = text_of(retries.get(*task, "retries"))
        if count == "0":
            raise Refused("its retries are 0: raise that")
        if count is None:
            retries.set_count(*task, "retries")


def _pipeline(retries: _Retries) -> None:
    """https://github.com/kubeflow/pipelines/issues/4333"""
    for spec in retries.specs:
        if isinstance(spec, ExecutorSpec) and spec.retry_count is None:
            retries.decision.set((*spec.task_path, "retryPolicy", "maxRetryCount"), retries.count)
    retries.warn(
        "kfp 2.15 to 2.17 makes an Argo retryStrategy without a retryPolicy of it, which does not "
        "retry deleted pods: errors are retried, and so is a process that exits at SIGTERM; most "
        "evictions are not"
    )


def _texts(node: YamlNode | None) -> set[str]:
    return {text for item in items_of(node) if (text := text_of(item)) is not None}


# Retries without a setter need no field: lost pods are always recreated.
_SETTERS: dict[Retry, Callable[[_Retries], None]] = {
    Retry.NEVER: _never,
    Retry.ELSEWHERE: _elsewhere,
    Retry.JOB: _job,
    Retry.JOB_SET: _job_set,
    Retry.REPLICAS: _replicas,
    Retry.MPI_V2: _mpi_job,
    Retry.VOLCANO: _volcano,
    Retry.ARGO: _argo,
    Retry.RAY_JOB: _ray_job,
    Retry.SPARK: _spark,
    Retry.TEKTON: _tekton,
    Retry.PIPELINE: _pipeline,
}
