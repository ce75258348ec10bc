"""Where every kind of workload keeps its pod specs, and which role each of them has.

One table, keyed by apiVersion and kind. The paths were read from the CRD schemas of the releases
named below, and an API server accepts a toleration and an affinity at each of them. A new kind is a
new row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from arc_toolkit.kube.spot_refusals import INTERACTIVE, SERVING

# Kubernetes 1.34; kubeflow trainer 1.9.4 and 2.0 to 2.3; mpi-operator 0.8; Katib 0.19; JobSet 0.12;
# KubeRay 1.7; Volcano 1.15; Argo Workflows 4.1; Spark operator 2.5; LeaderWorkerSet 0.10;
# AppWrapper 1.2; Tekton 1.15; Kueue 0.19.
EACH_KEY = "*"
EACH_ITEM = "[]"
SpecPath = tuple[str, ...]

_TEMPLATE = ("template", "spec")
_JOB = ("spec", *_TEMPLATE)
_REPLICATED = ("replicatedJobs", EACH_ITEM, "template", *_JOB)


class Shape(Enum):
    """Which fields there are where a pod spec is."""

    POD_SPEC = "pod spec"  # all of them
    OVERRIDE = "override"  # TrainJob 2.0: nodeSelector and tolerations, no affinity
    TEMPLATE_OVERRIDE = (
        "template override"  # TrainJob 2.1: with an affinity, without a grace period
    )
    RUNTIME_PATCH = "runtime patch"  # TrainJob 2.2 and 2.3: a grace period since 2.3
    PATCH = "patch"  # a part of a pod spec that is merged into another: no containers
    WORKFLOW = (
        "workflow"  # Argo: tolerations, affinity and nodeSelector; the grace period by podSpecPatch
    )
    SPARK = "spark"  # the fields of a driver or executor, with a grace period
    POD_TEMPLATE = "pod template"  # Tekton: tolerations, affinity and nodeSelector
    TASK_TEMPLATE = "task template"  # the same for one task: each field replaces that of the run
    KNATIVE = (
        "knative"  # a pod spec that may have none of them, unless a flag of the cluster says so
    )

    @property
    def lack(self) -> str:
        """Why there is no affinity; empty if there is one."""
        return _LACKS.get(self, "")

    @property
    def has_affinity(self) -> bool:
        return not self.lack

    @property
    def has_grace(self) -> bool:
        return self in (Shape.POD_SPEC, Shape.PATCH, Shape.SPARK, Shape.RUNTIME_PATCH)


# https://knative.dev/docs/serving/configuration/feature-flags/
_LACKS = {
    Shape.OVERRIDE: "podSpecOverrides has no affinity",
    Shape.KNATIVE: "Knative takes an affinity only with its flag kubernetes.podspec-affinity",
}


class Retry(Enum):
    """How a kind starts pods again after an eviction, and in which field it says so."""

    NEVER = "never"  # a Pod on its own
    CONTROLLER = "controller"  # a Deployment or StatefulSet: lost pods are always recreated
    HEAD = "head"  # a head or server recreates its workers, and is recreated itself
    JOB = "job"
    JOB_SET = "job set"
    REPLICAS = "replicas"  # Kubeflow's training operator, v1
    MPI_V2 = "mpi v2"
    VOLCANO = "volcano"
    ARGO = "argo"
    RAY_JOB = "ray job"
    SPARK = "spark"
    TASK_RUN = "task run"  # Tekton
    ELSEWHERE = "elsewhere"  # another object has the field


class KindFamily(Enum):
    """How a kind says where its pods run."""

    PODS = "pods"  # in its pod specs
    TRAIN_JOB = "train job"  # in entries that are merged into the pod specs of its runtime
    WRAPPER = "wrapper"  # in the objects inside it
    FLAVOR = "flavor"  # Kueue's: what is put into the pods of workloads


@dataclass(frozen=True, slots=True)
class RolePath:
    """A path to pod specs. Without a role, the key or the item name on the path is the role."""

    path: SpecPath
    role: str | None = None
    shape: Shape = Shape.POD_SPEC
    # Whether it may be made where it is missing; the pods are there without it.
    may_be_made: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """One row: a kind of some API versions."""

    kind: str
    versions: tuple[str, ...]
    specs: tuple[RolePath, ...] = ()
    # Roles whose loss ends or restarts everything; in lower case.
    coordinators: frozenset[str] = frozenset()
    retry: Retry = Retry.ELSEWHERE
    family: KindFamily = KindFamily.PODS
    # Paths to whole objects inside.
    objects: tuple[SpecPath, ...] = ()
    # Why it must not run on spot capacity.
    refused: str = ""


# Names that people give to the coordinator where they may choose the name: tasks of Volcano, jobs
# of a JobSet.
COORDINATOR_NAMES = frozenset(
    (
        "launcher",
        "mpimaster",
        "master",
        "chief",
        "ps",
        "head",
        "driver",
        "coordinator",
        "leader",
        "scheduler",
    )
)


def _kubeflow(kind: str, field: str, *coordinators: str) -> WorkloadKind:
    path = RolePath(("spec", field, EACH_KEY, *_TEMPLATE))
    return WorkloadKind(
        kind, ("kubeflow.org/v1",), (path,), frozenset(coordinators), Retry.REPLICAS
    )


def _ray(prefix: SpecPath) -> tuple[RolePath, ...]:
    return (
        RolePath((*prefix, "headGroupSpec", *_TEMPLATE), "head"),
        RolePath((*prefix, "workerGroupSpecs", EACH_ITEM, *_TEMPLATE), "worker"),
    )


def _argo(kind: str, prefix: SpecPath = ("spec",)) -> WorkloadKind:
    shape = Shape.WORKFLOW
    # The fields of a template replace those of the workflow, and a template that another workflow
    # refers to takes only its own along:
    # https://argo-workflows.readthedocs.io/en/latest/workflow-templates/
    specs = (
        RolePath(prefix, "workflow", shape),
        RolePath((*prefix, "templateDefaults"), "defaults", shape),
        RolePath((*prefix, "templates", EACH_ITEM), None, shape),
        RolePath(
            (*prefix, "templates", EACH_ITEM, "steps", EACH_ITEM, EACH_ITEM, "inline"), None, shape
        ),
        RolePath(
            (*prefix, "templates", EACH_ITEM, "dag", "tasks", EACH_ITEM, "inline"), None, shape
        ),
    )
    return WorkloadKind(kind, ("argoproj.io/v1alpha1",), specs, retry=Retry.ARGO)


def _spark(kind: str, prefix: SpecPath) -> WorkloadKind:
    specs = tuple(RolePath((*prefix, role), role, Shape.SPARK) for role in ("driver", "executor"))
    return WorkloadKind(
        kind, ("sparkoperator.k8s.io/v1beta2",), specs, frozenset(["driver"]), Retry.SPARK
    )


def _apps(kind: str, retry: Retry = Retry.CONTROLLER) -> WorkloadKind:
    return WorkloadKind(kind, ("apps/v1",), (RolePath(_JOB, "pod"),), retry=retry)


_RAY = ("ray.io/v1", "ray.io/v1alpha1")
_VOLCANO = ("batch.volcano.sh/v1alpha1",)
_FLOW = ("flow.volcano.sh/v1alpha1",)
_TASKS = ("tasks", EACH_ITEM, *_TEMPLATE)
_RAY_JOB = ("spec", "rayClusterSpec")
_CRON = ("spec", "jobTemplate")
_TRAINER = ("trainer.kubeflow.org/v1alpha1",)
_RUNTIME_SPEC = ("template", "spec", *_REPLICATED)

_ROWS = (
    WorkloadKind("Pod", ("v1",), (RolePath(("spec",), "pod"),), retry=Retry.NEVER),
    WorkloadKind("Job", ("batch/v1",), (RolePath(_JOB, "pod"),), retry=Retry.JOB),
    WorkloadKind(
        "CronJob",
        ("batch/v1", "batch/v1beta1"),
        (RolePath((*_CRON, *_JOB), "pod"),),
        retry=Retry.JOB,
    ),
    _apps("Deployment"),
    _apps("StatefulSet"),
    _apps("ReplicaSet"),
    _apps("DaemonSet"),
    _kubeflow("TFJob", "tfReplicaSpecs", "chief", "master", "ps"),
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs", "master"),
    _kubeflow("MPIJob", "mpiReplicaSpecs", "launcher"),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs", "master"),
    _kubeflow("PaddleJob", "paddleReplicaSpecs", "master"),
    _kubeflow("JAXJob", "jaxReplicaSpecs"),
    WorkloadKind(
        "MPIJob",
        ("kubeflow.org/v2beta1",),
        (RolePath(("spec", "mpiReplicaSpecs", EACH_KEY, *_TEMPLATE)),),
        frozenset(["launcher"]),
        Retry.MPI_V2,
    ),
    WorkloadKind(
        "TrainJob",
        _TRAINER,
        (
            RolePath(("spec", "podSpecOverrides", EACH_ITEM), None, Shape.OVERRIDE),
            RolePath(
                ("spec", "podTemplateOverrides", EACH_ITEM, "spec"), None, Shape.TEMPLATE_OVERRIDE
            ),
            RolePath(
                ("spec", "runtimePatches", EACH_ITEM, "trainingRuntimeSpec", *_RUNTIME_SPEC),
                None,
                Shape.RUNTIME_PATCH,
            ),
        ),
        COORDINATOR_NAMES,
        family=KindFamily.TRAIN_JOB,
    ),
    *(
        WorkloadKind(
            kind, _TRAINER, (RolePath(("spec", *_RUNTIME_SPEC)),), COORDINATOR_NAMES, Retry.JOB_SET
        )
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    ),
    WorkloadKind(
        "JobSet",
        ("jobset.x-k8s.io/v1alpha2",),
        (RolePath(("spec", *_REPLICATED)),),
        COORDINATOR_NAMES,
        Retry.JOB_SET,
    ),
    WorkloadKind("RayCluster", _RAY, _ray(("spec",)), frozenset(["head"]), Retry.HEAD),
    WorkloadKind(
        "RayJob",
        _RAY,
        (*_ray(_RAY_JOB), RolePath(("spec", "submitterPodTemplate", "spec"), "submitter")),
        frozenset(["head", "submitter"]),
        Retry.RAY_JOB,
    ),
    WorkloadKind(
        "RayCronJob",
        ("ray.io/v1",),
        (
            *_ray((*_CRON, "rayClusterSpec")),
            RolePath((*_CRON, "submitterPodTemplate", "spec"), "submitter"),
        ),
        frozenset(["head", "submitter"]),
        Retry.RAY_JOB,
    ),
    WorkloadKind(
        "RayService",
        _RAY,
        _ray(("spec", "rayClusterConfig")),
        frozenset(["head"]),
        Retry.HEAD,
    ),
    WorkloadKind(
        "Job",
        _VOLCANO,
        (RolePath(("spec", *_TASKS)),),
        COORDINATOR_NAMES,
        Retry.VOLCANO,
    ),
    WorkloadKind(
        "CronJob",
        _VOLCANO,
        (RolePath((*_CRON, "spec", *_TASKS)),),
        COORDINATOR_NAMES,
        Retry.VOLCANO,
    ),
    WorkloadKind(
        "JobTemplate", _FLOW, (RolePath(("spec", *_TASKS)),), COORDINATOR_NAMES, Retry.VOLCANO
    ),
    WorkloadKind(
        "JobFlow",
        _FLOW,
        (RolePath(("spec", "flows", EACH_ITEM, "patch", "jobSpec", *_TASKS), None, Shape.PATCH),),
        COORDINATOR_NAMES,
    ),
    *map(_argo, ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate")),
    _argo("CronWorkflow", ("spec", "workflowSpec")),
    _spark("SparkApplication", ("spec",)),
    _spark("ScheduledSparkApplication", ("spec", "template")),
    WorkloadKind(
        "SparkConnect",
        ("sparkoperator.k8s.io/v1alpha1",),
        tuple(RolePath(("spec", role, *_TEMPLATE), role) for role in ("server", "executor")),
        frozenset(["server"]),
        Retry.HEAD,
    ),
    WorkloadKind(
        "LeaderWorkerSet",
        ("leaderworkerset.x-k8s.io/v1",),
        tuple(
            RolePath(("spec", "leaderWorkerTemplate", f"{role}Template", "spec"), role)
            for role in ("leader", "worker")
        ),
        retry=Retry.CONTROLLER,
    ),
    WorkloadKind(
        "AppWrapper",
        ("workload.codeflare.dev/v1beta2",),
        family=KindFamily.WRAPPER,
        objects=(("spec", "components", EACH_ITEM, "template"),),
    ),
    WorkloadKind(
        "Experiment",
        ("kubeflow.org/v1beta1",),
        family=KindFamily.WRAPPER,
        objects=(("spec", "trialTemplate", "trialSpec"),),
    ),
    WorkloadKind(
        "TaskRun",
        ("tekton.dev/v1", "tekton.dev/v1beta1"),
        (RolePath(("spec", "podTemplate"), "pod", Shape.POD_TEMPLATE, may_be_made=True),),
        retry=Retry.TASK_RUN,
    ),
    WorkloadKind(
        "PipelineRun",
        ("tekton.dev/v1",),
        (
            RolePath(
                ("spec", "taskRunTemplate", "podTemplate"),
                "pod",
                Shape.POD_TEMPLATE,
                may_be_made=True,
            ),
            RolePath(("spec", "taskRunSpecs", EACH_ITEM, "podTemplate"), None, Shape.TASK_TEMPLATE),
        ),
    ),
    WorkloadKind(
        "PipelineRun",
        ("tekton.dev/v1beta1",),
        (
            RolePath(("spec", "podTemplate"), "pod", Shape.POD_TEMPLATE, may_be_made=True),
            RolePath(
                ("spec", "taskRunSpecs", EACH_ITEM, "taskPodTemplate"), None, Shape.TASK_TEMPLATE
            ),
        ),
    ),
    WorkloadKind(
        "Notebook",
        ("kubeflow.org/v1", "kubeflow.org/v1beta1"),
        (RolePath(_JOB, "pod"),),
        retry=Retry.CONTROLLER,
        refused=INTERACTIVE,
    ),
    WorkloadKind(
        "InferenceService",
        ("serving.kserve.io/v1beta1",),
        (
            *(
                RolePath(("spec", role), role, Shape.PATCH)
                for role in ("predictor", "transformer", "explainer")
            ),
            RolePath(("spec", "canary", EACH_ITEM, "predictor"), "predictor", Shape.PATCH),
        ),
        retry=Retry.CONTROLLER,
        refused=SERVING,
    ),
    WorkloadKind(
        "Service",
        ("serving.knative.dev/v1",),
        (RolePath(_JOB, "pod", Shape.KNATIVE),),
        retry=Retry.CONTROLLER,
        refused=SERVING,
    ),
    WorkloadKind(
        "SeldonDeployment",
        ("machinelearning.seldon.io/v1", "machinelearning.seldon.io/v1alpha2"),
        (
            RolePath(
                ("spec", "predictors", EACH_ITEM, "componentSpecs", EACH_ITEM, "spec"),
                None,
                Shape.PATCH,
            ),
        ),
        retry=Retry.CONTROLLER,
        refused=SERVING,
    ),
    WorkloadKind(
        "Server",
        ("mlops.seldon.io/v1alpha1",),
        (RolePath(("spec", "podSpec"), "pod", Shape.PATCH, may_be_made=True),),
        retry=Retry.CONTROLLER,
        refused=SERVING,
    ),
    # Kueue puts its labels and tolerations into every pod that it admits: for whoever runs the
    # cluster to decide. https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/
    WorkloadKind(
        "ResourceFlavor",
        ("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"),
        family=KindFamily.FLAVOR,
    ),
    WorkloadKind("Model", ("mlops.seldon.io/v1alpha1",), refused=SERVING),
)

KINDS = {(version, row.kind): row for row in _ROWS for version in row.versions}
# Kinds that have no pods, although they look as if they had: nothing to place, and nothing to
# report.
WITHOUT_PODS = frozenset([("v1", "PodTemplate")])


def workload_kind(api_version: str, kind: str) -> WorkloadKind | None:
    """The row of an object; None if its kind is not known."""
    return KINDS.get((api_version, kind))
