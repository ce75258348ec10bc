"""Python sources and the pods that they must make after `place`, written by hand before the code that does it.

Each source leaves its objects in a list `objects`. `test_code_cases.py` reads the expected pods with the reader of
`place`, and `test_kubeflow_sdks.py` runs the sources with the real SDKs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.placement.support import KEY, TOLERATION, expression, required

PREFERENCE = {"weight": 100, "preference": {"matchExpressions": [expression()]}}
PREFERRED = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERENCE]}}
ON_SPOT = {"tolerations": [TOLERATION], "affinity": required(expression())}
OFF_SPOT = {"affinity": required(expression("NotIn"))}
SOFT = {"tolerations": [TOLERATION], "affinity": PREFERRED}


@dataclass(frozen=True)
class CodeCase:
    name: str
    source: str
    # The scheduling fields of each pod, by its role; None: nothing changes.
    pods: dict[str, dict[str, Any]] | None
    spot: str | None = "require"
    settings: dict[str, Any] = field(default_factory=dict)
    # A part of the reason of what is refused; empty if nothing is.
    reason: str = ""
    # Values elsewhere in the first object, by path.
    others: dict[tuple[str | int, ...], Any] = field(default_factory=dict)


_CONTAINER = 'container = client.V1Container(name="c", image="busybox")\n'
_CLIENT = f"from kubernetes import client\n\n{_CONTAINER}"
_TRAINING = """\
from kubernetes.client import V1Container, V1ObjectMeta, V1PodSpec, V1PodTemplateSpec
from kubeflow.training import (
    KubeflowOrgV1PyTorchJob,
    KubeflowOrgV1PyTorchJobSpec,
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    KubeflowOrgV1TFJob,
    KubeflowOrgV1TFJobSpec,
    constants,
)

container = V1Container(name="pytorch", image="busybox")
"""


def _replica(name: str, pod: str = "V1PodSpec(containers=[container])") -> str:
    return f"""\
{name} = KubeflowOrgV1ReplicaSpec(
    replicas=1,
    restart_policy="OnFailure",
    template=V1PodTemplateSpec(
        metadata=V1ObjectMeta(annotations={{"sidecar.istio.io/inject": "false"}}),
        spec={pod},
    ),
)
"""


def _pytorch(
    replicas: str = '{"Master": master, "Worker": worker}', policy: str = "KubeflowOrgV1RunPolicy()"
) -> str:
    return f"""\
job = KubeflowOrgV1PyTorchJob(
    api_version=constants.API_VERSION,
    kind=constants.PYTORCHJOB_KIND,
    metadata=V1ObjectMeta(name="train"),
    spec=KubeflowOrgV1PyTorchJobSpec(
        run_policy={policy},
        pytorch_replica_specs={replicas},
    ),
)
objects = [job]
"""


def _job(pod: str, head: str = "") -> str:
    """A trial of Katib: a Job as a dictionary."""
    return f"""\
{head}trial_spec = {{
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {{
        "template": {{
            "metadata": {{"annotations": {{"sidecar.istio.io/inject": "false"}}}},
            "spec": {{
                "containers": [{{"name": "c", "image": "busybox"}}],
                "restartPolicy": "Never",
{pod}            }},
        }},
    }},
}}
objects = [trial_spec]
"""


def _model_job(arguments: str, head: str = "") -> str:
    return f"""\
{_CLIENT}{head}job = client.V1Job(
    metadata=client.V1ObjectMeta(name="train"),
    spec=client.V1JobSpec(
        template=client.V1PodTemplateSpec(
            spec=client.V1PodSpec(restart_policy="Never", containers=[container]{arguments}),
        ),
    ),
)
objects = [job]
"""


_ROLES = """\
trial_spec = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "spec": {"pytorchReplicaSpecs": {role: None for role in ()} or {
        "Master": {"template": {"spec": {"containers": [{"name": "pytorch", "image": "busybox"}]}}},
    }},
}
objects = [trial_spec]
"""
_GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["1"]}
_TWO_TERMS = """\
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                                {
                                    "matchExpressions": [
                                        {"key": "b", "operator": "In", "values": ["1"]}
                                    ]
                                },
                            ]
                        }
                    }
                },
"""
_MERGED_TERMS = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "Exists"}, expression()]},
                {
                    "matchExpressions": [
                        {"key": "b", "operator": "In", "values": ["1"]},
                        expression(),
                    ]
                },
            ]
        }
    }
}
_AFFINITY_MODEL = """\
affinity = client.V1Affinity(
    node_affinity=client.V1NodeAffinity(
        required_during_scheduling_ignored_during_execution=client.V1NodeSelector(
            node_selector_terms=[
                client.V1NodeSelectorTerm(
                    match_expressions=[
                        client.V1NodeSelectorRequirement(
                            key="topology.kubernetes.io/zone", operator="In", values=["1"]
                        )
                    ]
                )
            ]
        )
    )
)
"""
_POLICY = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
_POLICY_MODEL = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
}

CASES = (
    CodeCase("dict-job", _job(""), {"pod": ON_SPOT}),
    CodeCase("dict-job-prefer", _job(""), {"pod": SOFT}, "prefer"),
    CodeCase("dict-job-avoid", _job(""), {"pod": OFF_SPOT}, "avoid"),
    CodeCase(
        "dict-merges-with-what-is-there",
        _job(_TWO_TERMS),
        {"pod": {"tolerations": [_GPU, TOLERATION], "affinity": _MERGED_TERMS}},
    ),
    CodeCase(
        "dict-other-pool-is-refused",
        _job('                "nodeSelector": {"agentpool": "cpu"},\n'),
        None,
        reason="pinned to one pool by agentpool=cpu",
    ),
    CodeCase(
        "dict-with-tolerations-of-a-call",
        _job(
            '                "tolerations": tolerations_for("gpu"),\n',
            "def tolerations_for(name): return []\n\n\n",
        ),
        None,
        reason="`tolerations` comes from tolerations_for('gpu')",
    ),
    CodeCase(
        "dict-with-spread",
        _job("                **more,\n", "more = {}\n"),
        None,
        reason="keys that are not plain text",
    ),
    CodeCase(
        "dict-changed-later",
        _job("").replace(
            "objects =",
            'trial_spec["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}\nobjects =',
        ),
        None,
        reason="is changed again in line",
    ),
    CodeCase(
        "dict-retries",
        _job(""),
        {"pod": {}},
        None,
        {"retries": 3},
        others={("spec", "backoffLimit"): 3, ("spec", "podFailurePolicy"): _POLICY},
    ),
    CodeCase(
        "dict-retries-need-never",
        _job("").replace("Never", "OnFailure"),
        None,
        None,
        {"retries": 3},
        reason="restartPolicy is OnFailure",
    ),
    CodeCase(
        "dict-of-names",
        'worker = {"containers": [{"name": "pytorch", "image": "busybox"}]}\n'
        'master = {"template": {"spec": {"containers": [{"name": "pytorch", "image": "busybox"}]}}}\n'
        'replicas = {"Master": master, "Worker": {"replicas": 2, "template": {"spec": worker}}}\n'
        'body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": replicas}}\n'
        "objects = [body]\n",
        {"Master": OFF_SPOT, "Worker": ON_SPOT},
    ),
    CodeCase("dict-hidden-replicas", _ROLES, None, reason="a part of it comes from"),
    CodeCase("model-job", _model_job(""), {"pod": ON_SPOT}),
    CodeCase("model-job-prefer", _model_job(""), {"pod": SOFT}, "prefer"),
    CodeCase("model-job-avoid", _model_job(""), {"pod": OFF_SPOT}, "avoid"),
    CodeCase(
        "model-merges-with-an-affinity-by-name",
        _model_job(", affinity=affinity", _AFFINITY_MODEL),
        {"pod": {"tolerations": [TOLERATION], "affinity": required(_ZONE, expression())}},
    ),
    CodeCase(
        "model-null-is-filled",
        _model_job(", tolerations=None, affinity=None"),
        {"pod": ON_SPOT},
    ),
    CodeCase(
        "model-already-placed",
        _model_job(
            f', node_selector={{"{KEY}": "spot"}}, tolerations=[client.V1Toleration(operator="Exists")]',
        ),
        None,
    ),
    CodeCase(
        "model-retries-and-grace",
        _model_job(""),
        {"pod": {**ON_SPOT, "terminationGracePeriodSeconds": 25}},
        settings={"retries": 2, "grace": 25},
        others={("spec", "backoffLimit"): 2, ("spec", "podFailurePolicy"): _POLICY_MODEL},
    ),
    CodeCase(
        "pytorch-job",
        _TRAINING + _replica("master") + _replica("worker") + _pytorch(),
        {"Master": OFF_SPOT, "Worker": ON_SPOT},
        settings={"retries": 3},
        others={("spec", "runPolicy"): {}},
        reason="adds up the restarts in place",
    ),
    CodeCase(
        "pytorch-job-with-run-policy",
        _TRAINING
        + _replica("master")
        + _replica("worker")
        + _pytorch(policy='KubeflowOrgV1RunPolicy(clean_pod_policy="None")'),
        {"Master": OFF_SPOT, "Worker": ON_SPOT},
        settings={"retries": 3},
        others={("spec", "runPolicy"): {"cleanPodPolicy": "None"}},
        reason="adds up the restarts in place",
    ),
    CodeCase(
        "pytorch-master-by-role",
        _TRAINING + _replica("master") + _replica("worker") + _pytorch(),
        {"Master": ON_SPOT, "Worker": {}},
        settings={"roles": frozenset(["master"])},
    ),
    CodeCase(
        "tf-job",
        _TRAINING
        + _replica("chief")
        + _replica("ps")
        + _replica("worker")
        + "job = KubeflowOrgV1TFJob(spec=KubeflowOrgV1TFJobSpec(run_policy=KubeflowOrgV1RunPolicy(), "
        'tf_replica_specs={"Chief": chief, "PS": ps, "Worker": worker}))\nobjects = [job]\n',
        {"Chief": OFF_SPOT, "PS": OFF_SPOT, "Worker": ON_SPOT},
    ),
    CodeCase(
        "one-template-for-two-roles",
        _TRAINING + _replica("replica") + _pytorch('{"Master": replica, "Worker": replica}'),
        None,
        reason="master and worker are one object",
    ),
    CodeCase(
        "one-template-for-two-roles-avoid",
        _TRAINING + _replica("replica") + _pytorch('{"Master": replica, "Worker": replica}'),
        {"Master": OFF_SPOT, "Worker": OFF_SPOT},
        "avoid",
    ),
    CodeCase(
        "tolerations-used-elsewhere",
        _model_job(", tolerations=tolerations", "tolerations = []\nother = list(tolerations)\n"),
        None,
        reason="tolerations, which is used elsewhere too",
    ),
    CodeCase(
        "pod-spec-of-a-helper",
        _CLIENT
        + "def pods():\n    return client.V1PodSpec(containers=[container])\n\n\n"
        + "job = client.V1Job(spec=client.V1JobSpec(template=client.V1PodTemplateSpec(spec=pods())))\n"
        + "objects = [job]\n",
        None,
        reason="a part of it comes from pods()",
    ),
    CodeCase(
        "notebook-server-is-refused",
        _CLIENT.replace("busybox", "jupyter/base-notebook")
        + "template = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=[container]))\n"
        + "server = client.V1Deployment(spec=client.V1DeploymentSpec(selector={}, template=template))\n"
        + "objects = [server]\n",
        None,
        settings={"kinds": frozenset(["deployment"])},
        reason="a person works in it",
    ),
)
# The patches of the Kubeflow SDK, by position and by name; `patch` is what is left.
PATCH = """\
from kubeflow.trainer import TrainerClient
from kubeflow.trainer.options import (
    JobSetSpecPatch,
    JobSetTemplatePatch,
    JobSpecPatch,
    JobTemplatePatch,
    PodSpecPatch,
    PodTemplatePatch,
    ReplicatedJobPatch,
    RuntimePatch,
    TrainingRuntimeSpecPatch,
)

job = JobTemplatePatch(spec=JobSpecPatch(PodTemplatePatch(spec=PodSpecPatch(node_selector={"disk": "ssd"}))))
patch = RuntimePatch(
    TrainingRuntimeSpecPatch(JobSetTemplatePatch(spec=JobSetSpecPatch([ReplicatedJobPatch("node", job)])))
)


def train():
    TrainerClient().train(runtime="torch-distributed", options=[patch])
"""
PATCHED_POD = {"nodeSelector": {"disk": "ssd"}, **ON_SPOT}
_FIELDS = ("tolerations", "affinity", "nodeSelector", "terminationGracePeriodSeconds")


def pods_of(value: Any, role: str = "pod") -> Iterator[tuple[str, dict[str, Any]]]:
    """The scheduling fields of every pod spec in plain data, by role."""
    if isinstance(value, dict):
        if "containers" in value:
            yield role, {name: value[name] for name in _FIELDS if value.get(name) is not None}
        for key, item in value.items():
            yield from pods_of(item, key if key[:1].isupper() else role)
    elif isinstance(value, list):
        for item in value:
            yield from pods_of(item, role)


def check_objects(case: CodeCase, objects: list[Any]) -> None:
    """The objects after placing are those of the case."""
    assert case.pods is not None
    assert {role: pod for item in objects for role, pod in pods_of(item)} == case.pods
    for path, expected in case.others.items():
        value = objects[0]
        for step in path:
            value = value[step]
        assert value == expected, path
