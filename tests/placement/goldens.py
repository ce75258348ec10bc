"""A manifest for every kind that is placed, as the documentation of its project writes it, and where its pods are.

The paths come from the pages named below, not from the table of the package. `on` is where pods go onto spot nodes,
`off` where they are kept away: with `--spot require` a toleration and an affinity at the former, an affinity that
excludes spot nodes at the latter, and nothing else anywhere. tests/cluster/test_placement.py has the API server accept
each of them, before and after.
"""

from __future__ import annotations

from tests.placement.golden_manifest import Golden, Place

MAIN = "containers: [{name: main, image: train}]"


def head(api_version: str, kind: str, spec: str, name: str = "x") -> str:
    return f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n{spec}"


def replicas(field: str, *roles: str, container: str = "main") -> str:
    """https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/: TFJob and its siblings."""
    rows = f"  {field}:\n"
    for role in roles:
        rows += f"    {role}:\n      replicas: 1\n      template:\n        spec:\n"
        rows += f"          containers: [{{name: {container}, image: train}}]\n"
    return rows


def kubeflow(
    kind: str, field: str, on: str, *off: str, version: str = "v1", crd: str = "trainer-v1.9.4"
) -> Golden:
    def place(role: str) -> Place:
        return ("spec", field, role, "template", "spec")

    text = head(f"kubeflow.org/{version}", kind, replicas(field, *off, on))
    return Golden(f"{kind} {version}", text, (place(on),), tuple(map(place, off)), crd)


def always_on(kind: str, spec: str) -> Golden:
    text, kinds = head("apps/v1", kind, spec), frozenset([kind.lower()])
    return Golden(kind, text, (JOB_SPEC,), kinds=kinds)


TEMPLATE = f"  template:\n    spec:\n      restartPolicy: Never\n      {MAIN}\n"
JOB_SPEC: Place = ("spec", "template", "spec")
APPS = f"""\
  selector: {{matchLabels: {{app: x}}}}
  template:
    metadata: {{labels: {{app: x}}}}
    spec:
      {MAIN}
"""
RAY_CLUSTER = f"""\
headGroupSpec:
  rayStartParams: {{}}
  template:
    spec:
      {MAIN}
workerGroupSpecs:
- groupName: small-group
  replicas: 1
  rayStartParams: {{}}
  template:
    spec:
      {MAIN}
"""
TASKS = f"""\
minAvailable: 1
schedulerName: volcano
tasks:
- name: mpimaster
  replicas: 1
  template:
    spec:
      {MAIN}
      restartPolicy: OnFailure
- name: mpiworker
  replicas: 2
  template:
    spec:
      {MAIN}
      restartPolicy: OnFailure
"""
REPLICATED = f"""\
replicatedJobs:
- name: driver
  template:
    spec:
      template:
        spec:
          restartPolicy: Never
          {MAIN}
- name: workers
  replicas: 1
  template:
    spec:
      template:
        spec:
          restartPolicy: Never
          {MAIN}
"""
STEPS = """\
entrypoint: main
templates:
- name: main
  steps:
  - - {name: a, template: train}
- name: train
  container: {image: train}
"""
SPARK = """\
type: Python
mode: cluster
image: spark
mainApplicationFile: local:///train.py
sparkVersion: 4.0.0
driver: {cores: 1}
executor: {cores: 1, instances: 2}
"""


def indent(text: str, by: int = 2) -> str:
    return "".join(" " * by + line + "\n" for line in text.splitlines())


def ray(kind: str, key: str, extra: str = "", version: str = "v1") -> Golden:
    """https://docs.ray.io/en/latest/cluster/kubernetes/: the cluster is at another place in each kind."""
    keys = key.split(".") if key else []
    spec = extra
    for depth, step in enumerate(keys):
        spec += " " * (2 + 2 * depth) + step + ":\n"
    spec += indent(RAY_CLUSTER, 2 + 2 * len(keys))
    top: Place = ("spec", *keys)
    head_at: Place = (*top, "headGroupSpec", "template", "spec")
    worker: Place = (*top, "workerGroupSpecs", 0, "template", "spec")
    return Golden(
        f"{kind} {version}",
        head(f"ray.io/{version}", kind, spec),
        (worker,),
        (head_at,),
        "kuberay-v1.7.0",
    )


def tasks(version: str, kind: str, top: Place, spec: str) -> Golden:
    """https://volcano.sh/en/docs/vcjob/, .../cronvolcanojob/ and .../vcjobflow/"""
    on, off = ((*top, "tasks", number, "template", "spec") for number in (1, 0))
    return Golden(f"{version} {kind}", head(version, kind, spec), (on,), (off,), "volcano-v1.15.1")


def replicated(api_version: str, kind: str, top: Place, spec: str, crd: str) -> Golden:
    on, off = (
        (*top, "replicatedJobs", number, "template", "spec", "template", "spec")
        for number in (1, 0)
    )
    return Golden(kind, head(api_version, kind, spec), (on,), (off,), crd)


def train_job(
    release: str, version: str, field: str, item: str, place: Place
) -> tuple[Golden, Golden]:
    """With the field of its release, and without it and with `--trainer`: both give the same entry."""
    crd = f"trainer-v{version}"
    spec = "  runtimeRef: {name: torch-distributed}\n"
    there = head("trainer.kubeflow.org/v1alpha1", "TrainJob", f"{spec}  {field}:\n{item}")
    return (
        Golden(f"TrainJob {release} with {field}", there, (("spec", field, 0, *place),), crd=crd),
        Golden(
            f"TrainJob {release} with --trainer",
            head("trainer.kubeflow.org/v1alpha1", "TrainJob", spec),
            (),
            crd=crd,
            trainer=release,
        ),
    )


_PATCH = "trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {"
RUNTIME_PATCH = f"  - manager: a.b/c\n    {_PATCH}serviceAccountName: x}}}}}}}}}}]}}}}}}\n"
PATCH_PLACE: Place = (
    *("trainingRuntimeSpec", "template", "spec", "replicatedJobs"),
    *(0, "template", "spec", "template", "spec"),
)
TARGET = "  - targetJobs: [{name: node}]\n"

GOLDENS = (
    # https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/
    Golden("Pod", head("v1", "Pod", f"  {MAIN}\n"), (("spec",),)),
    Golden(
        "PodTemplate",
        f"apiVersion: v1\nkind: PodTemplate\nmetadata: {{name: x}}\ntemplate:\n  spec:\n    {MAIN}\n",
        (("template", "spec"),),
    ),
    Golden("Job", head("batch/v1", "Job", TEMPLATE), (JOB_SPEC,)),
    Golden(
        "CronJob",
        head(
            "batch/v1",
            "CronJob",
            "  schedule: '0 0 * * *'\n  jobTemplate:\n    spec:\n" + indent(TEMPLATE, 4),
        ),
        (("spec", "jobTemplate", *JOB_SPEC),),
    ),
    always_on("Deployment", APPS),
    always_on("ReplicaSet", APPS),
    always_on("StatefulSet", "  serviceName: x\n" + APPS),
    kubeflow("TFJob", "tfReplicaSpecs", "Worker", "Chief", "PS"),
    kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Worker", "Master"),
    kubeflow("MPIJob", "mpiReplicaSpecs", "Worker", "Launcher"),
    kubeflow("XGBoostJob", "xgbReplicaSpecs", "Worker", "Master"),
    kubeflow("PaddleJob", "paddleReplicaSpecs", "Worker", "Master"),
    kubeflow("JAXJob", "jaxReplicaSpecs", "Worker"),
    # https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/
    kubeflow(
        "MPIJob",
        "mpiReplicaSpecs",
        "Worker",
        "Launcher",
        version="v2beta1",
        crd="mpi-operator-v0.8.0",
    ),
    # https://github.com/kubeflow/trainer/tree/master/docs/proposals, and the CRD of each release
    *train_job(
        "2.1",
        "2.1.0",
        "podTemplateOverrides",
        f"{TARGET}    spec: {{serviceAccountName: x}}\n",
        ("spec",),
    ),
    *train_job("2.2", "2.2.1", "runtimePatches", RUNTIME_PATCH, PATCH_PLACE),
    *train_job("2.3", "2.3.0", "runtimePatches", RUNTIME_PATCH, PATCH_PLACE),
    *(
        replicated(
            "trainer.kubeflow.org/v1alpha1",
            kind,
            ("spec", "template", "spec"),
            "  mlPolicy: {numNodes: 1}\n  template:\n    spec:\n" + indent(REPLICATED, 6),
            "trainer-v2.3.0",
        )
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    ),
    # https://jobset.sigs.k8s.io/docs/concepts/
    replicated(
        "jobset.x-k8s.io/v1alpha2", "JobSet", ("spec",), indent(REPLICATED), "jobset-v0.12.0"
    ),
    ray("RayCluster", ""),
    ray("RayCluster", "", version="v1alpha1"),
    ray("RayJob", "rayClusterSpec", "  entrypoint: python train.py\n"),
    ray("RayCronJob", "jobTemplate.rayClusterSpec", "  schedule: '0 0 * * *'\n"),
    tasks("batch.volcano.sh/v1alpha1", "Job", ("spec",), indent(TASKS)),
    tasks(
        "batch.volcano.sh/v1alpha1",
        "CronJob",
        ("spec", "jobTemplate", "spec"),
        "  schedule: '0 0 * * *'\n  jobTemplate:\n    spec:\n" + indent(TASKS, 6),
    ),
    tasks("flow.volcano.sh/v1alpha1", "JobTemplate", ("spec",), indent(TASKS)),
    tasks(
        "flow.volcano.sh/v1alpha1",
        "JobFlow",
        ("spec", "flows", 0, "patch", "jobSpec"),
        "  jobRetainPolicy: delete\n  flows:\n  - name: a\n    patch:\n      jobSpec:\n"
        + indent(TASKS, 8),
    ),
    # https://argo-workflows.readthedocs.io/en/latest/fields/
    Golden(
        "Workflow",
        head("argoproj.io/v1alpha1", "Workflow", indent(STEPS)),
        (("spec",),),
        crd="argo-v4.1.2-full",
    ),
    *(
        Golden(
            kind,
            head("argoproj.io/v1alpha1", kind, indent(STEPS)),
            (("spec", "templates", 1),),
            crd="argo-v4.1.2-full",
        )
        for kind in ("WorkflowTemplate", "ClusterWorkflowTemplate")
    ),
    Golden(
        "CronWorkflow",
        head(
            "argoproj.io/v1alpha1",
            "CronWorkflow",
            "  schedules: ['0 0 * * *']\n  workflowSpec:\n" + indent(STEPS, 4),
        ),
        (("spec", "workflowSpec"),),
        crd="argo-v4.1.2-full",
    ),
    # https://github.com/kubeflow/spark-operator/blob/master/docs/api-docs.md
    Golden(
        "SparkApplication",
        head("sparkoperator.k8s.io/v1beta2", "SparkApplication", indent(SPARK)),
        (("spec", "executor"),),
        (("spec", "driver"),),
        "spark-operator-v2.5.2",
    ),
    Golden(
        "ScheduledSparkApplication",
        head(
            "sparkoperator.k8s.io/v1beta2",
            "ScheduledSparkApplication",
            "  schedule: '@every 5m'\n  template:\n" + indent(SPARK, 4),
        ),
        (("spec", "template", "executor"),),
        (("spec", "template", "driver"),),
        "spark-operator-v2.5.2",
    ),
    Golden(
        "SparkConnect",
        head(
            "sparkoperator.k8s.io/v1alpha1",
            "SparkConnect",
            "  sparkVersion: 4.0.0\n"
            + "".join(
                f"  {role}:\n    template:\n      spec:\n        {MAIN}\n"
                for role in ("server", "executor")
            ),
        ),
        (("spec", "executor", "template", "spec"),),
        (("spec", "server", "template", "spec"),),
        "spark-operator-v2.5.2",
    ),
    # https://lws.sigs.k8s.io/docs/overview/: without a leaderTemplate the leader is made from the workerTemplate
    Golden(
        "LeaderWorkerSet",
        head(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            f"  leaderWorkerTemplate:\n    size: 2\n    workerTemplate:\n      spec:\n        {MAIN}\n",
        ),
        (("spec", "leaderWorkerTemplate", "workerTemplate", "spec"),),
        crd="lws-v0.10.0",
        kinds=frozenset(["leaderworkerset"]),
    ),
    Golden(
        "LeaderWorkerSet with leaderTemplate",
        head(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            f"  leaderWorkerTemplate:\n    size: 2\n    leaderTemplate:\n      spec:\n        {MAIN}\n"
            f"    workerTemplate:\n      spec:\n        {MAIN}\n",
        ),
        tuple(
            ("spec", "leaderWorkerTemplate", f"{role}Template", "spec")
            for role in ("leader", "worker")
        ),
        crd="lws-v0.10.0",
        kinds=frozenset(["leaderworkerset"]),
    ),
    # https://project-codeflare.github.io/appwrapper/
    Golden(
        "AppWrapper",
        head(
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            "  components:\n  - template:\n"
            + indent(head("batch/v1", "Job", TEMPLATE), 6)
            + "  - template:\n"
            + indent(kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Worker", "Master").text, 6),
        ),
        (
            ("spec", "components", 0, "template", *JOB_SPEC),
            (
                "spec",
                "components",
                1,
                "template",
                "spec",
                "pytorchReplicaSpecs",
                "Worker",
                *JOB_SPEC[1:],
            ),
        ),
        (
            (
                "spec",
                "components",
                1,
                "template",
                "spec",
                "pytorchReplicaSpecs",
                "Master",
                *JOB_SPEC[1:],
            ),
        ),
        "appwrapper-v1.2.1",
    ),
    # https://www.kubeflow.org/docs/components/katib/user-guides/hp-tuning/configure-experiment/
    Golden(
        "Experiment",
        head(
            "kubeflow.org/v1beta1",
            "Experiment",
            "  trialTemplate:\n    primaryContainerName: main\n    trialSpec:\n"
            + indent(head("batch/v1", "Job", TEMPLATE), 6),
        ),
        (("spec", "trialTemplate", "trialSpec", *JOB_SPEC),),
        crd="katib-v0.19.0",
    ),
    # https://tekton.dev/docs/pipelines/podtemplates/
    Golden(
        "TaskRun",
        head("tekton.dev/v1", "TaskRun", "  taskRef: {name: train}\n"),
        (("spec", "podTemplate"),),
        crd="tekton-v1.15.0",
    ),
    Golden(
        "PipelineRun",
        head(
            "tekton.dev/v1",
            "PipelineRun",
            "  pipelineRef: {name: train}\n  taskRunSpecs:\n"
            "  - pipelineTaskName: a\n    podTemplate: {hostNetwork: true}\n"
            "  - pipelineTaskName: b\n    serviceAccountName: x\n",
        ),
        (("spec", "taskRunTemplate", "podTemplate"),),
        crd="tekton-v1.15.0",
    ),
    Golden(
        "PipelineRun v1beta1",
        head("tekton.dev/v1beta1", "PipelineRun", "  pipelineRef: {name: train}\n"),
        (("spec", "podTemplate"),),
        crd="tekton-v1.15.0",
    ),
    Golden(
        "List",
        "apiVersion: v1\nkind: List\nitems:\n"
        f"- apiVersion: batch/v1\n  kind: Job\n  metadata: {{name: x}}\n  spec:\n{indent(TEMPLATE)}"
        "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: x}\n",
        (("items", 0, *JOB_SPEC),),
    ),
)


def dask(kind: str, spec: str, on: Place, *off: Place) -> Golden:
    """https://kubernetes.dask.org/en/latest/operator_resources.html"""
    return Golden(kind, head("kubernetes.dask.org/v1", kind, spec), (on,), off)


def _dask_role(role: str, extra: str = "") -> str:
    return f"{role}:\n{extra}  spec:\n    {MAIN}\n"


DASK_CLUSTER = _dask_role("worker", "  replicas: 2\n") + _dask_role("scheduler", "  service: {}\n")
# Kinds whose CRD is not at hand: releases that are gone, and operators that are not in ../shared/crds.
GOLDENS_WITHOUT_CRD = (
    dask(
        "DaskCluster",
        indent(DASK_CLUSTER),
        ("spec", "worker", "spec"),
        ("spec", "scheduler", "spec"),
    ),
    dask(
        "DaskWorkerGroup",
        "  cluster: c\n" + indent(_dask_role("worker", "  replicas: 2\n")),
        ("spec", "worker", "spec"),
    ),
    dask(
        "DaskJob",
        indent(_dask_role("job")) + "  cluster:\n    spec:\n" + indent(DASK_CLUSTER, 6),
        ("spec", "cluster", "spec", "worker", "spec"),
        ("spec", "job", "spec"),
        ("spec", "cluster", "spec", "scheduler", "spec"),
    ),
    # https://github.com/kubeflow/spark-operator/blob/v2.0.2/api/v1beta1: until release 2.2
    Golden(
        "SparkApplication v1beta1",
        head("sparkoperator.k8s.io/v1beta1", "SparkApplication", indent(SPARK)),
        (("spec", "executor"),),
        (("spec", "driver"),),
    ),
)
