"""Where every kind of workload keeps its pod specs, and which role each of them has.

One table, keyed by apiVersion and kind. The paths were read from the CRD schemas of the releases
named below, and an API server accepts a toleration and an affinity at each of them. A new kind is a
new row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from arc_toolkit.kube.spot_refusals import INTERACTIVE, SERVING

# Kubernetes 1.34; kubeflow trainer 1.9.4 and 2.1 to 2.3; mpi-operator 0.8; Katib 0.19; JobSet 0.12;
# KubeRay 1.7; Volcano 1.15; Argo Workflows 4.1; Spark operator 2.5; LeaderWorkerSet 0.10;
# AppWrapper 1.2; Tekton 1.15; Kueue 0.19; dask-kubernetes 2025.7.
EACH_KEY = "*"
EACH_ITEM = "[]"
SpecPath = tuple[str, ...]


class Shape(Enum):
    """Which fields there are where a pod spec is."""

    POD_SPEC = "pod spec"  # all of them
    TEMPLATE_OVERRIDE = (
        "template override"  # TrainJob 2.1: with an affinity, without a grace period
    )
    RUNTIME_PATCH = "runtime patch"  # TrainJob 2.2 and 2.3: a grace period since 2.3
    PATCH = "patch"  # a part of a pod spec that is merged into another: no containers
    WORKFLOW = (
        "workflow"  # Argo: tolerations, affinity and nodeSelector; the grace period by podSpecPatch
    )
    SPARK = "spark"  # the fields of a driver or executor, with a grace period
    SPARK_V1BETA1 = "spark v1beta1"  # the same without it
    POD_TEMPLATE = "pod template"  # Tekton: tolerations, affinity and nodeSelector
    TASK_TEMPLATE = "task template"  # the same for one task: each field replaces that of the run
    # A pod spec that may have none of them, unless a flag of the cluster says so:
    # https://knative.dev/docs/serving/configuration/feature-flags/
    KNATIVE = "knative"
    EXECUTOR = "executor"  # kfp: tolerations, nodeSelector.labels and nodeAffinity

    @property
    def has_grace(self) -> bool:
        return self in (Shape.POD_SPEC, Shape.PATCH, Shape.SPARK, Shape.RUNTIME_PATCH)


class Retry(Enum):
    """How a kind starts pods again after an eviction, and in which field it says so."""

    NEVER = "never"  # a Pod on its own
    CONTROLLER = "controller"  # always on, such as a Deployment: lost pods are always recreated
    HEAD = "head"  # a head or server recreates its workers, and is recreated itself
    JOB = "job"
    JOB_SET = "job set"
    REPLICAS = "replicas"  # Kubeflow's training operator, v1
    MPI_V2 = "mpi v2"
    VOLCANO = "volcano"
    ARGO = "argo"
    RAY_JOB = "ray job"
    SPARK = "spark"
    TEKTON = "tekton"
    PIPELINE = "pipeline"  # kfp
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
    # Paths to texts that are manifests themselves.
    texts: tuple[SpecPath, ...] = ()
    # Only objects with this label have such texts.
    label: tuple[str, str] | None = None
    # Where the fields of the job are; those of a cron job are in its template.
    job: SpecPath = ("spec",)
    # Why it must not run on spot capacity.
    refused: str = ""

    @property
    def is_always_on(self) -> bool:
        """Whether its pods run until someone deletes it, as those of a Deployment do."""
        return self.retry is Retry.CONTROLLER

    def is_coordinator(self, role: str) -> bool:
        """Whether a role has the name of a coordinator, or one as a word of its name:
        `mpi-launcher`, `chief-0`."""
        words = re.findall("[a-z]+", role.lower())
        return not self.coordinators.isdisjoint(words) and _WORKERS.isdisjoint(words)


# Names of coordinators where people choose the names: tasks of Volcano, jobs of a JobSet. `server`
# is a parameter server, as of MXNet.
COORDINATOR_NAMES = frozenset(
    (
        *("launcher", "mpimaster", "master", "chief", "ps", "head", "driver", "coordinator"),
        *("leader", "scheduler", "server", "pserver", "tracker", "controller"),
    )
)
# With one of these words a role is not a coordinator, such as `head-workers`.
_WORKERS = frozenset(("worker", "workers", "executor", "executors"))


def _path(text: str) -> SpecPath:
    """`spec.tasks[].template.spec` as ("spec", "tasks", "[]", "template", "spec")."""
    return tuple(text.replace(EACH_ITEM, f".{EACH_ITEM}").split("."))


def _at(
    text: str, role: str | None = None, shape: Shape = Shape.POD_SPEC, *, may_be_made: bool = False
) -> RolePath:
    return RolePath(_path(text), role, shape, may_be_made)


def _row(
    kind: str,
    versions: str,
    *specs: RolePath,
    coordinators: Iterable[str] = (),
    retry: Retry = Retry.ELSEWHERE,
    family: KindFamily = KindFamily.PODS,
    objects: str = "",
    texts: Iterable[str] = (),
    label: tuple[str, str] | None = None,
    job: str = "spec",
    refused: str = "",
) -> WorkloadKind:
    return WorkloadKind(
        kind,
        tuple(versions.split()),
        specs,
        frozenset(coordinators),
        retry,
        family,
        (_path(objects),) if objects else (),
        tuple(_path(text) for text in texts),
        label,
        _path(job),
        refused,
    )


_POD = _at("spec.template.spec", "pod")
_REPLICATED = "replicatedJobs[].template.spec.template.spec"
_RUNTIME = f"template.spec.{_REPLICATED}"
_TASKS = "tasks[].template.spec"
_RAY = "ray.io/v1 ray.io/v1alpha1"
_VOLCANO = "batch.volcano.sh/v1alpha1"
_FLOW = "flow.volcano.sh/v1alpha1"
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_SELDON = "mlops.seldon.io/v1alpha1"


def _kubeflow(kind: str, field: str, *coordinators: str) -> WorkloadKind:
    spec = _at(f"spec.{field}.*.template.spec")
    return _row(kind, "kubeflow.org/v1", spec, coordinators=coordinators, retry=Retry.REPLICAS)


def _ray(prefix: str, submitter: str = "") -> tuple[RolePath, ...]:
    cluster = (
        _at(f"{prefix}.headGroupSpec.template.spec", "head"),
        _at(f"{prefix}.workerGroupSpecs[].template.spec", "worker"),
    )
    pod = _at(f"{submitter}.submitterPodTemplate.spec", "submitter")
    return (*cluster, pod) if submitter else cluster


def _argo(kind: str, prefix: str = "spec") -> WorkloadKind:
    # Fields of a template replace those of the workflow, and a template that another workflow
    # refers to has only its own:
    # https://argo-workflows.readthedocs.io/en/latest/workflow-templates/
    shape = Shape.WORKFLOW
    templates = (
        f"{prefix}.templates[]",
        f"{prefix}.templates[].steps[][].inline",
        f"{prefix}.templates[].dag.tasks[].inline",
    )
    return _row(
        kind,
        "argoproj.io/v1alpha1",
        _at(prefix, "workflow", shape),
        _at(f"{prefix}.templateDefaults", "defaults", shape),
        *(_at(template, None, shape) for template in templates),
        texts=[f"{template}.resource.manifest" for template in templates],
        retry=Retry.ARGO,
    )


def _spark(kind: str, prefix: str, version: str, shape: Shape) -> WorkloadKind:
    specs = (_at(f"{prefix}.{role}", role, shape) for role in ("driver", "executor"))
    version = f"sparkoperator.k8s.io/{version}"
    return _row(kind, version, *specs, coordinators=["driver"], retry=Retry.SPARK, job=prefix)


def _dask(kind: str, prefix: str = "", *specs: RolePath) -> WorkloadKind:
    # Scheduler and workers are Deployments of the operator; the runner of a DaskJob is a pod.
    # https://github.com/dask/dask-kubernetes, dask_kubernetes/operator/controller/controller.py
    pods = (_at(f"spec.{prefix}{role}.spec", role) for role in ("scheduler", "worker"))
    names = ("scheduler", "job")
    version = "kubernetes.dask.org/v1"
    return _row(kind, version, *specs, *pods, coordinators=names, retry=Retry.HEAD)


def _volcano(kind: str, version: str, job: str) -> WorkloadKind:
    spec = _at(f"{job}.{_TASKS}")
    return _row(kind, version, spec, coordinators=COORDINATOR_NAMES, retry=Retry.VOLCANO, job=job)


def _job_set(kind: str, version: str, job: str) -> WorkloadKind:
    spec = _at(f"{job}.{_REPLICATED}")
    return _row(kind, version, spec, coordinators=COORDINATOR_NAMES, retry=Retry.JOB_SET, job=job)


def _serving(kind: str, versions: str, *specs: RolePath, refused: str = SERVING) -> WorkloadKind:
    return _row(kind, versions, *specs, retry=Retry.CONTROLLER, refused=refused)


_ROWS = (
    _row("Pod", "v1", _at("spec", "pod"), retry=Retry.NEVER),
    _row("Job", "batch/v1", _POD, retry=Retry.JOB),
    _row(
        "CronJob",
        "batch/v1 batch/v1beta1",
        _at("spec.jobTemplate.spec.template.spec", "pod"),
        retry=Retry.JOB,
    ),
    # Whoever makes pods of it decides about retries: Flyte, for one, takes it for all its tasks.
    _row("PodTemplate", "v1", _at("template.spec", "pod")),
    *(
        _row(kind, versions, _POD, retry=Retry.CONTROLLER)
        for kind, versions in (
            ("Deployment", "apps/v1 apps/v1beta1 apps/v1beta2 extensions/v1beta1"),
            ("StatefulSet", "apps/v1 apps/v1beta1 apps/v1beta2"),
            ("ReplicaSet", "apps/v1 extensions/v1beta1"),
            ("DaemonSet", "apps/v1 apps/v1beta2 extensions/v1beta1"),
            ("ReplicationController", "v1"),
            ("DeploymentConfig", "apps.openshift.io/v1"),
            ("Rollout", "argoproj.io/v1alpha1"),
        )
    ),
    _kubeflow("TFJob", "tfReplicaSpecs", "chief", "master", "ps"),
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs", "master"),
    _kubeflow("MPIJob", "mpiReplicaSpecs", "launcher"),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs", "master"),
    _kubeflow("PaddleJob", "paddleReplicaSpecs", "master"),
    _kubeflow("JAXJob", "jaxReplicaSpecs"),
    _row(
        "MPIJob",
        "kubeflow.org/v2beta1",
        _at("spec.mpiReplicaSpecs.*.template.spec"),
        coordinators=["launcher"],
        retry=Retry.MPI_V2,
    ),
    _row(
        "TrainJob",
        _TRAINER,
        _at("spec.podTemplateOverrides[].spec", None, Shape.TEMPLATE_OVERRIDE),
        _at(f"spec.runtimePatches[].trainingRuntimeSpec.{_RUNTIME}", None, Shape.RUNTIME_PATCH),
        coordinators=COORDINATOR_NAMES,
        family=KindFamily.TRAIN_JOB,
    ),
    _job_set("TrainingRuntime", _TRAINER, "spec.template.spec"),
    _job_set("ClusterTrainingRuntime", _TRAINER, "spec.template.spec"),
    _job_set("JobSet", "jobset.x-k8s.io/v1alpha2", "spec"),
    _row("RayCluster", _RAY, *_ray("spec"), coordinators=["head"], retry=Retry.HEAD),
    _row(
        "RayJob",
        _RAY,
        *_ray("spec.rayClusterSpec", "spec"),
        coordinators=["head", "submitter"],
        retry=Retry.RAY_JOB,
    ),
    _row(
        "RayCronJob",
        "ray.io/v1",
        *_ray("spec.jobTemplate.rayClusterSpec", "spec.jobTemplate"),
        coordinators=["head", "submitter"],
        retry=Retry.RAY_JOB,
        job="spec.jobTemplate",
    ),
    _row(
        "RayService",
        _RAY,
        *_ray("spec.rayClusterConfig"),
        coordinators=["head"],
        retry=Retry.CONTROLLER,
        refused=SERVING,
    ),
    _volcano("Job", _VOLCANO, "spec"),
    _volcano("CronJob", _VOLCANO, "spec.jobTemplate.spec"),
    _volcano("JobTemplate", _FLOW, "spec"),
    _row(
        "JobFlow",
        _FLOW,
        _at(f"spec.flows[].patch.jobSpec.{_TASKS}", None, Shape.PATCH),
        coordinators=COORDINATOR_NAMES,
    ),
    _argo("Workflow"),
    _argo("WorkflowTemplate"),
    _argo("ClusterWorkflowTemplate"),
    _argo("CronWorkflow", "spec.workflowSpec"),
    *(
        _spark(kind, prefix, version, shape)
        for kind, prefix in (
            ("SparkApplication", "spec"),
            ("ScheduledSparkApplication", "spec.template"),
        )
        for version, shape in (("v1beta2", Shape.SPARK), ("v1beta1", Shape.SPARK_V1BETA1))
    ),
    _dask("DaskCluster"),
    _dask("DaskJob", "cluster.spec.", _at("spec.job.spec", "job")),
    _dask("DaskWorkerGroup"),
    _row(
        "SparkConnect",
        "sparkoperator.k8s.io/v1alpha1",
        _at("spec.server.template.spec", "server"),
        _at("spec.executor.template.spec", "executor"),
        coordinators=["server"],
        retry=Retry.HEAD,
    ),
    _row(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        _at("spec.leaderWorkerTemplate.leaderTemplate.spec", "leader"),
        _at("spec.leaderWorkerTemplate.workerTemplate.spec", "worker"),
        retry=Retry.CONTROLLER,
    ),
    _row(
        "AppWrapper",
        "workload.codeflare.dev/v1beta2",
        family=KindFamily.WRAPPER,
        objects="spec.components[].template",
    ),
    _row(
        "Experiment",
        "kubeflow.org/v1beta1",
        family=KindFamily.WRAPPER,
        objects="spec.trialTemplate.trialSpec",
    ),
    # https://www.kubeflow.org/docs/components/katib/user-guides/trial-template/
    _row(
        "ConfigMap",
        "v1",
        family=KindFamily.WRAPPER,
        texts=["data.*"],
        label=("katib.kubeflow.org/component", "trial-templates"),
    ),
    _row(
        "TaskRun",
        "tekton.dev/v1 tekton.dev/v1beta1",
        _at("spec.podTemplate", "pod", Shape.POD_TEMPLATE, may_be_made=True),
        retry=Retry.TEKTON,
    ),
    _row("Pipeline", "tekton.dev/v1 tekton.dev/v1beta1", retry=Retry.TEKTON),
    _row(
        "PipelineRun",
        "tekton.dev/v1",
        _at("spec.taskRunTemplate.podTemplate", "pod", Shape.POD_TEMPLATE, may_be_made=True),
        _at("spec.taskRunSpecs[].podTemplate", None, Shape.TASK_TEMPLATE),
        retry=Retry.TEKTON,
        job="spec.pipelineSpec",
    ),
    _row(
        "PipelineRun",
        "tekton.dev/v1beta1",
        _at("spec.podTemplate", "pod", Shape.POD_TEMPLATE, may_be_made=True),
        _at("spec.taskRunSpecs[].taskPodTemplate", None, Shape.TASK_TEMPLATE),
        retry=Retry.TEKTON,
        job="spec.pipelineSpec",
    ),
    _serving(
        "Notebook",
        "kubeflow.org/v1 kubeflow.org/v1beta1 kubeflow.org/v1alpha1",
        _POD,
        refused=INTERACTIVE,
    ),
    _serving(
        "InferenceService",
        "serving.kserve.io/v1beta1",
        *(
            _at(f"spec.{role}", role, Shape.PATCH)
            for role in ("predictor", "transformer", "explainer")
        ),
        _at("spec.canary[].predictor", "predictor", Shape.PATCH),
    ),
    *(
        _serving(kind, "serving.kserve.io/v1alpha1", _at("spec", "pod", Shape.PATCH))
        for kind in ("ServingRuntime", "ClusterServingRuntime")
    ),
    _serving("Service", "serving.knative.dev/v1", _at("spec.template.spec", "pod", Shape.KNATIVE)),
    _serving(
        "SeldonDeployment",
        "machinelearning.seldon.io/v1 machinelearning.seldon.io/v1alpha2",
        _at("spec.predictors[].componentSpecs[].spec", None, Shape.PATCH),
    ),
    _serving("Server", _SELDON, _at("spec.podSpec", "pod", Shape.PATCH, may_be_made=True)),
    _row("Model", _SELDON, refused=SERVING),
    # Kueue puts its labels and tolerations into every pod that it admits, so the administrators of
    # the cluster decide. https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/
    _row(
        "ResourceFlavor",
        "kueue.x-k8s.io/v1beta1 kueue.x-k8s.io/v1beta2",
        family=KindFamily.FLAVOR,
    ),
)

# What kfp compiles has neither apiVersion nor kind; `placement/pipelines.py` reads it.
PIPELINE = _row("pipeline", "", retry=Retry.PIPELINE)
KINDS = {(version, row.kind): row for row in _ROWS for version in row.versions}


def workload_kind(api_version: str, kind: str) -> WorkloadKind | None:
    """The row of an object; None if its kind is not known."""
    return KINDS.get((api_version, kind))
