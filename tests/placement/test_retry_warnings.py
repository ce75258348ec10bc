"""What still counts as an error or ends a workload after `--retries`, by the source of each controller."""

from __future__ import annotations

from typing import Any

import pytest

from tests.placement.support import place
from tests.placement.test_retries import IGNORE, POD, dump, job, refusal, retried

JOB_SET = "jobset.x-k8s.io/v1alpha2"
VOLCANO = "batch.volcano.sh/v1alpha1"
ARGO = "argoproj.io/v1alpha1"
SPARK = "sparkoperator.k8s.io/v1beta2"
TASKS = [{"name": "w", "template": {"spec": POD}}]


def warnings(text: str) -> list[str]:
    result = place(text, None, retries=3)
    assert result.refused is None
    return [finding.reason for finding in result.findings if finding.severity == "warning"]


def test_a_limit_per_index_gets_no_limit_for_all_indexes() -> None:
    """kubernetes, pkg/apis/batch/v1/defaults.go: with backoffLimitPerIndex the default of backoffLimit is MaxInt32."""
    spec = retried(job(completionMode="Indexed", completions=4, backoffLimitPerIndex=2))
    assert spec["podFailurePolicy"]["rules"] == [IGNORE]
    assert "backoffLimit" not in spec


def test_a_replacement_policy_that_the_api_server_would_refuse() -> None:
    """kubernetes, pkg/apis/batch/validation/validation.go, validatePodReplacementPolicy."""
    assert "must be Failed" in refusal(job(podReplacementPolicy="TerminatingOrFailed"))
    assert retried(job(podReplacementPolicy="Failed"))["podFailurePolicy"]["rules"] == [IGNORE]
    inner = {"podReplacementPolicy": "TerminatingOrFailed", "template": {"spec": POD}}
    assert "must be Failed" in refusal(job_set(inner=inner))


def test_a_condition_that_is_false_does_not_match_an_eviction() -> None:
    own = {
        "action": "FailJob",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}],
    }
    assert retried(job(podFailurePolicy={"rules": [own]}))["podFailurePolicy"]["rules"] == [
        own,
        IGNORE,
    ]


def job_set(*rules: dict[str, Any], inner: dict[str, Any] | None = None) -> str:
    replicated = [{"name": "w", "template": {"spec": inner or {"template": {"spec": POD}}}}]
    return dump(
        JOB_SET, "JobSet", {"failurePolicy": {"rules": list(rules)}, "replicatedJobs": replicated}
    )


@pytest.mark.parametrize(
    "reasons", [{"onJobFailureReasons": ["PodFailurePolicy"]}, {"onJobFailureReasons": []}, {}]
)
@pytest.mark.parametrize("action", ["FailJobSet", "RestartJobSet"])
def test_the_first_rule_of_a_jobset_that_applies_counts(
    action: str, reasons: dict[str, Any]
) -> None:
    """jobset, pkg/controllers/failure_policy.go, ruleIsApplicable: an empty list is for every failure."""
    assert f"the action {action}" in refusal(job_set({"name": "x", "action": action, **reasons}))


def test_a_rule_of_a_jobset_for_other_failures_or_jobs_stays_before_the_new_one() -> None:
    other = {"name": "x", "action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}
    elsewhere = {"name": "y", "action": "FailJobSet", "targetReplicatedJobs": ["v"]}
    rules = retried(job_set(other, elsewhere))["failurePolicy"]["rules"]
    assert rules[:2] == [other, elsewhere]
    assert rules[2]["action"] == "RestartJobSetAndIgnoreMaxRestarts"


@pytest.mark.parametrize(
    "action", ["RestartJobSetAndIgnoreMaxRestarts", "RestartJobAndIgnoreMaxRestarts"]
)
def test_a_rule_of_a_jobset_that_does_not_count_is_enough(action: str) -> None:
    rule = {"name": "x", "action": action}
    assert retried(job_set(rule))["failurePolicy"]["rules"] == [rule]


def workflow(strategy: dict[str, Any]) -> str:
    return dump(
        ARGO, "Workflow", {"templates": [{"name": "m", "container": {"image": "x"}, **strategy}]}
    )


def spark(**spec: Any) -> str:
    return dump(SPARK, "SparkApplication", {"driver": {}, "executor": {}, **spec})


def test_no_retries_at_all_survive_no_eviction() -> None:
    assert "limit of m is 0" in refusal(workflow({"retryStrategy": {"limit": 0}}))
    assert "0 onFailureRetries" in refusal(
        spark(restartPolicy={"type": "OnFailure", "onFailureRetries": 0})
    )
    ray = {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": POD}}}}
    for text in (workflow({}), spark(), dump("ray.io/v1", "RayJob", ray)):
        assert "with 0 no eviction is survived" in refusal(text, retries=0)
    # volcano, pkg/webhooks/admission/jobs/mutate/mutate_job.go, patchDefaultMaxRetry
    assert "default" in refusal(dump(VOLCANO, "Job", {"tasks": TASKS}), retries=0)


def test_a_restart_policy_of_spark_without_a_number_restarts_nothing() -> None:
    """spark-operator, pkg/util/sparkapplication.go, ShouldRetry."""
    assert (
        retried(spark(restartPolicy={"type": "OnFailure"}))["restartPolicy"]["onFailureRetries"]
        == 3
    )
    assert place(spark(restartPolicy={"type": "Always"}), None, retries=3).after is None


def replicas(policy: str, role: str = "Worker") -> str:
    spec = {"pytorchReplicaSpecs": {role: {"restartPolicy": policy, "template": {"spec": POD}}}}
    return dump("kubeflow.org/v1", "PyTorchJob", spec)


def test_exit_codes_decide_for_kubeflow() -> None:
    assert ["exits with 1 at SIGTERM" in text for text in warnings(replicas("ExitCode"))] == [True]
    assert warnings(replicas("OnFailure")) == []


def test_a_master_that_goes_to_spot_nodes_needs_retries_too() -> None:
    result = place(replicas("Never", "Master"), roles=frozenset(["master"]), retries=3)
    assert "restartPolicy of master is Never: make it OnFailure" in [
        finding.reason for finding in result.findings
    ]


@pytest.mark.parametrize(("code", "is_said"), [(1, True), (42, False)])
def test_a_rule_for_exit_code_1_comes_before_that_for_evictions(code: int, is_said: bool) -> None:
    own = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [code]}}
    said = warnings(job(podFailurePolicy={"rules": [own]}))
    assert ["FailJob for exit code 1" in text for text in said] == [True] * is_said
    assert warnings(job(podFailurePolicy={"rules": [IGNORE, own]})) == []


@pytest.mark.parametrize(
    ("shell", "is_said"),
    [
        ("trap 'exit 0' TERM; python train.py", True),
        ('trap "save; exit 0" INT SIGTERM\npython train.py', True),
        ("trap 'exit 143' TERM; python train.py", False),
        ("trap 'exit 0' INT; python train.py", False),
        ("trap 'kill $PID' TERM; python train.py; exit 0", False),
    ],
)
def test_a_shell_that_ends_well_at_sigterm(shell: str, is_said: bool) -> None:
    containers = [{"name": "c", "image": "busybox", "command": ["sh", "-c", shell]}]
    text = job(template={"spec": {"restartPolicy": "Never", "containers": containers}})
    assert ["counts as done" in reason for reason in warnings(text)] == [True] * is_said


@pytest.mark.parametrize("event", ["PodEvicted", "*", "PodFailed"])
@pytest.mark.parametrize("action", ["RestartTask", "RestartPod"])
def test_a_part_that_volcano_restarts_counts_in_newer_releases(event: str, action: str) -> None:
    """volcano, pkg/controllers/job/state/running.go: RetryCount grows with each of them."""
    text = dump(VOLCANO, "Job", {"policies": [{"event": event, "action": action}], "tasks": TASKS})
    assert [f"{event} -> {action} counts evictions" in reason for reason in warnings(text)] == [
        True
    ]
    other = {"event": "TaskCompleted", "action": "RestartTask"}
    assert warnings(dump(VOLCANO, "Job", {"policies": [other], "tasks": TASKS})) == []


def test_a_policy_of_argo_for_errors_leaves_failed_pods() -> None:
    said = warnings(workflow({"retryStrategy": {"limit": 3, "retryPolicy": "OnError"}}))
    assert ["OnError" in reason for reason in said] == [True]
    assert warnings(workflow({"retryStrategy": {"limit": 3, "retryPolicy": "Always"}})) == []
