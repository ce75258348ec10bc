"""Retries that survive evictions: for each kind the form that its project documents, and what must not be changed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.placement.support import place, placed, pod

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
POD: dict[str, Any] = {"containers": [{"name": "c", "image": "busybox"}]}


def dump(version: str, kind: str, spec: dict[str, Any]) -> str:
    tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    return yaml.safe_dump(tree, sort_keys=False)


def job(**spec: Any) -> str:
    return dump(
        "batch/v1", "Job", {"template": {"spec": {**POD, "restartPolicy": "Never"}}, **spec}
    )


def retried(text: str, retries: int = 3) -> Any:
    return placed(text, None, retries=retries)[0]["spec"]


def refusal(text: str, retries: int = 3) -> str:
    result = place(text, None, retries=retries)
    assert result.after is None
    assert [finding.rule for finding in result.findings] == ["retries"]
    return result.findings[0].reason


def test_a_job_ignores_evictions_and_counts_errors() -> None:
    spec = retried(job())
    assert spec["podFailurePolicy"] == {"rules": [IGNORE]}
    assert spec["backoffLimit"] == 3


def test_a_limit_of_the_user_stays() -> None:
    assert retried(job(backoffLimit=0))["backoffLimit"] == 0


def test_other_rules_of_a_policy_stay_before_the_new_one() -> None:
    own = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    assert retried(job(podFailurePolicy={"rules": [own]}))["podFailurePolicy"]["rules"] == [
        own,
        IGNORE,
    ]


@pytest.mark.parametrize(
    "codes",
    [{"operator": "NotIn", "values": [0]}, {"operator": "In", "values": [1, 137, 143]}],
    ids=str,
)
def test_a_rule_that_also_matches_sigterm_would_come_first(codes: dict[str, Any]) -> None:
    rules = [{"action": "FailJob", "onExitCodes": codes}]
    assert "FailJob for evictions" in refusal(job(podFailurePolicy={"rules": rules}))


def test_a_policy_that_ignores_evictions_is_enough() -> None:
    assert (
        place(job(podFailurePolicy={"rules": [IGNORE]}, backoffLimit=1), None, retries=3).after
        is None
    )


def test_a_job_that_restarts_in_place_is_refused() -> None:
    text = dump("batch/v1", "Job", {"template": {"spec": {**POD, "restartPolicy": "OnFailure"}}})
    assert "needs Never" in refusal(text)


def test_the_job_of_a_cron_job() -> None:
    inner = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
    spec = retried(
        dump("batch/v1", "CronJob", {"schedule": "@daily", "jobTemplate": {"spec": inner}})
    )
    assert spec["jobTemplate"]["spec"]["podFailurePolicy"]["rules"] == [IGNORE]


def test_a_jobset_restarts_without_counting_evictions() -> None:
    replicated = [{"name": "workers", "template": {"spec": {"template": {"spec": POD}}}}]
    spec = retried(dump("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": replicated}))
    (rule,) = spec["failurePolicy"]["rules"]
    assert rule["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]
    assert spec["failurePolicy"]["maxRestarts"] == 3
    child = spec["replicatedJobs"][0]["template"]["spec"]
    assert child["backoffLimit"] == 0
    assert child["podFailurePolicy"]["rules"][0]["action"] == "FailJob"
    assert child["template"]["spec"]["restartPolicy"] == "Never"


def test_replicas_of_kubeflow_are_made_again() -> None:
    replicas = {
        "Worker": {"template": {"spec": POD}},
        "PS": {"restartPolicy": "Never", "template": {"spec": POD}},
    }
    spec = retried(dump("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": replicas}))
    assert spec["tfReplicaSpecs"]["Worker"]["restartPolicy"] == "OnFailure"
    assert spec["tfReplicaSpecs"]["PS"]["restartPolicy"] == "Never"
    assert "runPolicy" not in spec


def test_a_replica_that_is_never_restarted_is_reported() -> None:
    replicas = {"Worker": {"restartPolicy": "Never", "template": {"spec": POD}}}
    text = dump("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas})
    assert refusal(text) == "restartPolicy of worker is Never: make it OnFailure"


@pytest.mark.parametrize("holder", ["job", "task"])
def test_the_policy_of_volcano_that_ends_a_job_at_the_third_eviction_is_reported(
    holder: str,
) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    task: dict[str, Any] = {"name": "worker", "template": {"spec": POD}}
    spec: dict[str, Any] = {"tasks": [task]}
    (spec if holder == "job" else task)["policies"] = policies
    assert "counts evictions against maxRetry" in refusal(
        dump("batch.volcano.sh/v1alpha1", "Job", spec)
    )
    del (spec if holder == "job" else task)["policies"]
    assert retried(dump("batch.volcano.sh/v1alpha1", "Job", spec))["maxRetry"] == 3


def test_templates_of_argo_retry_deleted_pods() -> None:
    container = {"image": "busybox"}
    templates = [
        {"name": "main", "dag": {"tasks": []}},
        {"name": "plain", "container": container},
        {"name": "own", "container": container, "retryStrategy": {"limit": "5"}},
    ]
    spec = retried(
        dump("argoproj.io/v1alpha1", "Workflow", {"entrypoint": "main", "templates": templates})
    )
    assert "retryStrategy" not in spec["templates"][0]
    assert spec["templates"][1]["retryStrategy"] == {"limit": "3", "retryPolicy": "Always"}
    assert spec["templates"][2]["retryStrategy"] == {"limit": "5", "retryPolicy": "Always"}
    templates[2]["retryStrategy"] = {"limit": "5", "retryPolicy": "OnFailure"}
    assert "does not retry deleted pods" in refusal(
        dump("argoproj.io/v1alpha1", "Workflow", {"entrypoint": "main", "templates": templates})
    )


def test_ray_and_spark() -> None:
    assert retried(dump("ray.io/v1", "RayJob", {"rayClusterSpec": {}}))["backoffLimit"] == 3
    spec = retried(
        dump("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"driver": {}, "executor": {}})
    )
    assert spec["restartPolicy"] == {
        "type": "OnFailure",
        "onFailureRetries": 3,
        "onFailureRetryInterval": 10,
    }


@pytest.mark.parametrize(("count", "is_written"), [(0, False), (3, False), (7, True)])
def test_the_launcher_of_an_mpi_job_v2_is_tried_again_six_times_or_more(
    count: int, is_written: bool
) -> None:
    """mpi-operator 0.8.0: without a backoffLimit, that of the launcher's Job is 6."""
    replicas = {role: {"template": {"spec": POD}} for role in ("Launcher", "Worker")}
    text = dump("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": replicas})
    result = place(text, None, retries=count)
    spec = yaml.safe_load(result.after or text)["spec"]
    assert spec.get("runPolicy") == ({"backoffLimit": count} if is_written else None)
    assert {finding.severity for finding in result.findings} == {"note"}
    assert "137 or another error stays Failed" in result.findings[-1].reason


@pytest.mark.parametrize("kind", ["PyTorchJob", "PaddleJob"])
def test_no_limit_is_written_for_the_training_operator(kind: str) -> None:
    """One eviction makes the other seven ranks restart in place, and the sum of all restarts is compared with the limit
    (training-operator, pkg/core/job.go, PastBackoffLimit): with a limit of 3 the job fails, without one it survives."""
    field = "pytorchReplicaSpecs" if kind == "PyTorchJob" else "paddleReplicaSpecs"
    replica = {"replicas": 8, "template": {"spec": POD}}

    def text(**spec: Any) -> str:
        return dump("kubeflow.org/v1", kind, {field: {"Worker": replica}, **spec})

    result = place(text(), None, retries=3)
    assert (result.after, result.refused) == (None, None)
    (finding,) = result.findings
    assert finding.severity == "note"
    assert "adds up the restarts in place" in finding.reason
    for limit, severities in ((3, ["warning"]), (21, ["warning"]), (22, [])):
        result = place(text(runPolicy={"backoffLimit": limit}), None, retries=3)
        assert result.after is None
        assert [entry.severity for entry in result.findings] == severities
        assert all("is low for 8 pods" in entry.reason for entry in result.findings)
    assert "take it out" in refusal(text(runPolicy={"backoffLimit": 0}))


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
def test_the_job_set_in_a_runtime_of_kubeflow_trainer(kind: str) -> None:
    replicated = [{"name": "node", "template": {"spec": {"template": {"spec": POD}}}}]
    spec = retried(
        dump(
            "trainer.kubeflow.org/v1alpha1",
            kind,
            {"template": {"spec": {"replicatedJobs": replicated}}},
        )
    )
    assert spec["template"]["spec"]["failurePolicy"]["maxRestarts"] == 3


def test_the_templates_of_scheduled_kinds() -> None:
    cluster = {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": POD}}}}
    spec = retried(dump("ray.io/v1", "RayCronJob", {"schedule": "@daily", "jobTemplate": cluster}))
    assert spec["jobTemplate"]["backoffLimit"] == 3
    tasks = {"tasks": [{"name": "worker", "template": {"spec": POD}}]}
    spec = retried(dump("batch.volcano.sh/v1alpha1", "CronJob", {"jobTemplate": {"spec": tasks}}))
    assert spec["jobTemplate"]["spec"]["maxRetry"] == 3
    assert retried(dump("flow.volcano.sh/v1alpha1", "JobTemplate", tasks))["maxRetry"] == 3
    parts: dict[str, Any] = {"driver": {}, "executor": {}}
    scheduled = dump(
        "sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication", {"template": parts}
    )
    assert retried(scheduled)["template"]["restartPolicy"]["onFailureRetries"] == 3


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "DaemonSet"),
        ("ray.io/v1", "RayCluster"),
        ("ray.io/v1", "RayService"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        ("workload.codeflare.dev/v1beta2", "AppWrapper"),
        ("kubeflow.org/v1beta1", "Experiment"),
        ("kueue.x-k8s.io/v1beta1", "ResourceFlavor"),
    ],
)
def test_what_starts_again_by_itself_needs_nothing(version: str, kind: str) -> None:
    result = place(dump(version, kind, {}), None, retries=3, kinds=frozenset([kind.lower()]))
    assert (result.after, result.findings) == (None, ())


def test_a_pod_alone_and_a_trainjob_cannot_say_it() -> None:
    assert "make it a Job" in refusal(pod())
    assert "TrainingRuntime" in refusal(
        dump("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "t"}})
    )


def test_a_rule_for_sigkill_would_come_first_too() -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [137]}}]
    assert "FailJob for evictions" in refusal(job(podFailurePolicy={"rules": rules}))
    rules[0]["onExitCodes"] = {"operator": "NotIn", "values": [143]}
    assert "FailJob for evictions" in refusal(job(podFailurePolicy={"rules": rules}))
    rules[0]["onExitCodes"] = {"operator": "NotIn", "values": [137, 143]}
    assert retried(job(podFailurePolicy={"rules": rules}))["podFailurePolicy"]["rules"][1] == IGNORE


def test_an_error_that_is_to_end_a_jobset_must_not_restart_it_for_ever() -> None:
    """Both failures have the reason PodFailurePolicy, which the rule for evictions does not count."""
    own = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    inner = {"podFailurePolicy": {"rules": [own]}, "template": {"spec": POD}}
    text = dump(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": [{"name": "w", "template": {"spec": inner}}]},
    )
    assert "FailJob of its own" in refusal(text)


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterSelector": {"ray.io/cluster": "x"}},
        {
            "submissionMode": "InteractiveMode",
            "rayClusterSpec": {"headGroupSpec": {"template": {"spec": POD}}},
        },
    ],
    ids=["clusterSelector", "InteractiveMode"],
)
def test_a_ray_job_that_cannot_be_tried_again(spec: dict[str, Any]) -> None:
    """kuberay, ray-operator/controllers/ray/utils/validation.go, ValidateRayJobSpec."""
    assert "no backoffLimit" in refusal(dump("ray.io/v1", "RayJob", spec))


WORKFLOW = {
    "templates": [{"name": "a", "container": {"image": "x"}}, {"name": "h", "http": {"url": "x"}}]
}


@pytest.mark.parametrize("top", [{}, {"templateDefaults": {}}], ids=["workflow", "defaults"])
def test_a_strategy_for_all_templates_of_a_workflow_stays(top: dict[str, Any]) -> None:
    """argo-workflows, workflow/controller/operator.go, retryStrategy: a template's own, else the workflow's."""

    def text(strategy: dict[str, Any]) -> str:
        spec = (
            {"templateDefaults": {"retryStrategy": strategy}}
            if top
            else {"retryStrategy": strategy}
        )
        return dump("argoproj.io/v1alpha1", "Workflow", {**WORKFLOW, **spec})

    assert place(text({"limit": 9, "retryPolicy": "Always"}), None, retries=3).after is None
    for strategy in ({"limit": 9}, {}):
        spec = retried(text(strategy))
        after = (spec["templateDefaults"] if top else spec)["retryStrategy"]
        assert after == {**strategy, "retryPolicy": "Always"}
        assert spec["templates"] == WORKFLOW["templates"]
    assert "OnFailure" in refusal(text({"retryPolicy": "OnFailure"}))


def test_a_request_runs_in_no_pod_of_its_own() -> None:
    train, request = retried(dump("argoproj.io/v1alpha1", "Workflow", WORKFLOW))["templates"]
    assert "retryStrategy" in train
    assert "retryStrategy" not in request


def test_a_strategy_without_a_limit_stays_one() -> None:
    templates = [{"name": "a", "container": {"image": "x"}, "retryStrategy": {}}]
    (template,) = retried(dump("argoproj.io/v1alpha1", "Workflow", {"templates": templates}))[
        "templates"
    ]
    assert template["retryStrategy"] == {"retryPolicy": "Always"}


@pytest.mark.parametrize(
    "event", [{"event": "PodFailed"}, {"events": ["PodFailed"]}, {"exitCode": 143}], ids=str
)
def test_a_policy_of_volcano_for_failures_also_ends_evicted_jobs(event: dict[str, Any]) -> None:
    """volcano, pkg/controllers/job/job_controller_handler.go, updatePod: Failed is looked at, a deletion is not."""

    def text(policy: dict[str, Any]) -> str:
        spec = {"policies": [policy], "tasks": [{"name": "w", "template": {"spec": POD}}]}
        return dump("batch.volcano.sh/v1alpha1", "Job", spec)

    assert "before the pod is gone" in refusal(text({**event, "action": "TerminateJob"}))
    assert retried(text({**event, "action": "RestartTask"}))["maxRetry"] == 3
    assert retried(text({"exitCode": 3, "action": "TerminateJob"}))["maxRetry"] == 3


@pytest.mark.parametrize("event", [{"event": "PodFailed"}, {"exitCode": 143}], ids=str)
def test_a_policy_of_volcano_that_counts_some_evictions_is_said(event: dict[str, Any]) -> None:
    """The job survives them, but each is one of maxRetry."""
    spec = {
        "policies": [{**event, "action": "RestartJob"}],
        "tasks": [{"name": "w", "template": {"spec": POD}}],
    }
    text = dump("batch.volcano.sh/v1alpha1", "Job", spec)
    assert retried(text)["maxRetry"] == 3
    (finding,) = place(text, None, retries=3).findings
    assert (finding.severity, finding.rule) == ("warning", "retries")
    assert "counts an eviction against maxRetry" in finding.reason
    assert place(text, None, grace=25).findings == ()


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [
        ("kubeflow.org/v1", "Notebook", {"template": {"spec": POD}}),
        ("serving.kserve.io/v1beta1", "InferenceService", {"predictor": POD}),
        ("serving.knative.dev/v1", "Service", {"template": {"spec": POD}}),
        (
            "machinelearning.seldon.io/v1",
            "SeldonDeployment",
            {"predictors": [{"componentSpecs": [{"spec": POD}]}]},
        ),
        ("mlops.seldon.io/v1alpha1", "Server", {"podSpec": POD}),
    ],
)
def test_a_controller_makes_its_pods_again_without_any_retries(
    version: str, kind: str, spec: dict[str, Any]
) -> None:
    asked = frozenset([kind.lower()])
    result = place(dump(version, kind, spec), None, retries=3, kinds=asked)
    assert (result.after, result.refused, result.findings) == (None, None, ())
