"""Every kind of workload: where its pods are placed, which roles stay off spot nodes, and what is refused."""

from __future__ import annotations

import pytest
import yaml

from arc_toolkit.kube.workloads import KINDS
from tests.placement.golden_manifest import Golden
from tests.placement.goldens import GOLDENS, GOLDENS_WITHOUT_CRD, PATCH_PLACE, head
from tests.placement.support import TOLERATION, expression, place, placed, required

PODS = {"tolerations": [TOLERATION], "affinity": required(expression())}
PODS_AT = ("spec", "template", "spec")


@pytest.mark.parametrize("golden", [*GOLDENS, *GOLDENS_WITHOUT_CRD], ids=lambda golden: golden.name)
def test_a_manifest_is_placed_where_the_documentation_says(golden: Golden) -> None:
    (document,) = placed(golden.text, kinds=golden.kinds, trainer=golden.trainer)
    if golden.on:
        assert document == golden.expected()


def test_every_row_of_the_table_has_a_manifest() -> None:
    seen = {
        (document["apiVersion"], document["kind"])
        for golden in (*GOLDENS, *GOLDENS_WITHOUT_CRD)
        for document in [yaml.safe_load(golden.text)]
    }
    # Elsewhere in this file, or another version of a kind that is above.
    others = {
        ("apps/v1", "DaemonSet"),
        ("batch/v1beta1", "CronJob"),
        ("tekton.dev/v1beta1", "TaskRun"),
        ("tekton.dev/v1", "Pipeline"),
        ("tekton.dev/v1beta1", "Pipeline"),
        ("v1", "ConfigMap"),
        ("sparkoperator.k8s.io/v1beta1", "ScheduledSparkApplication"),
    }
    others |= {("ray.io/v1alpha1", "RayJob")}
    kinds = {kind for _, kind in seen} | {"DaemonSet"}
    others |= {(version, kind) for version, kind in KINDS if "beta" in version and kind in kinds}
    # One row with a Deployment but for their names.
    others |= {("v1", "ReplicationController"), ("apps.openshift.io/v1", "DeploymentConfig")}
    others |= {("argoproj.io/v1alpha1", "Rollout")}
    others |= {
        (f"kueue.x-k8s.io/{version}", "ResourceFlavor") for version in ("v1beta1", "v1beta2")
    }
    assert {key for key, row in KINDS.items() if not row.refused} - others <= seen


# --- TrainJob --------------------------------------------------------------------------------------------------

TRAIN_JOB = head(
    "trainer.kubeflow.org/v1alpha1", "TrainJob", "  runtimeRef: {name: torch-distributed}\n"
)


def test_a_train_job_needs_its_release() -> None:
    result = place(TRAIN_JOB)
    assert result.after is None
    for word in ("--trainer 2.1", "podTemplateOverrides", "runtimePatches"):
        assert word in str(result.refused)


def test_a_train_job_gets_the_field_of_its_release() -> None:
    target = {"targetJobs": [{"name": "node"}]}
    (document,) = placed(TRAIN_JOB, trainer="2.1")
    assert document["spec"]["podTemplateOverrides"] == [{**target, "spec": PODS}]
    for release in ("2.2", "2.3"):
        (document,) = placed(TRAIN_JOB, trainer=release)
        (patch,) = document["spec"]["runtimePatches"]
        assert Golden.at(patch, PATCH_PLACE) == PODS
        assert Golden.at(patch, PATCH_PLACE[:5])["name"] == "node"
        domain, _, path = patch["manager"].partition("/")
        assert path
        assert "." in domain


def test_the_field_of_a_release_without_affinity_is_refused() -> None:
    text = f"{TRAIN_JOB}  podSpecOverrides:\n  - targetJobs: [{{name: node}}]\n"
    for spot in ("require", "prefer", "avoid"):
        result = place(text, spot, trainer="2.1")
        assert result.after is None
        assert "no affinity" in str(result.refused)


def test_the_job_of_the_runtime_can_be_named() -> None:
    result = place(TRAIN_JOB, trainer="2.1", roles=frozenset(["launcher"]))
    (entry,) = yaml.safe_load(result.after or b"")["spec"]["podTemplateOverrides"]
    assert entry["targetJobs"] == [{"name": "launcher"}]
    assert [finding.rule for finding in result.findings] == ["coordinator-on-spot"]


def test_an_entry_without_a_pod_spec_names_the_job() -> None:
    text = (
        TRAIN_JOB
        + "  podTemplateOverrides:\n  - targetJobs: [{name: trainer}]\n    metadata: {labels: {a: b}}\n"
    )
    (document,) = placed(text)
    assert document["spec"]["podTemplateOverrides"][1] == {
        "targetJobs": [{"name": "trainer"}],
        "spec": PODS,
    }


def test_the_launcher_of_a_train_job_stays_off_spot_nodes() -> None:
    entries = [{"targetJobs": [{"name": name}], "spec": {}} for name in ("launcher", "node")]
    (document,) = placed(f"{TRAIN_JOB}  podTemplateOverrides: {entries}\n", trainer="2.1")
    launcher, worker = (entry["spec"] for entry in document["spec"]["podTemplateOverrides"])
    assert launcher == {"affinity": required(expression("NotIn"))}
    assert worker == PODS


def test_the_grace_period_of_a_train_job_is_there_since_2_3() -> None:
    text = next(
        golden for golden in GOLDENS if golden.name == "TrainJob 2.3 with runtimePatches"
    ).text
    assert "2.3" in str(place(text, None, grace=25).refused)
    assert "2.3" in str(place(text, None, grace=25, trainer="2.2").refused)
    (document,) = placed(text, None, grace=25, trainer="2.3")
    patch = Golden.at(document["spec"]["runtimePatches"][0], PATCH_PLACE)
    assert patch["terminationGracePeriodSeconds"] == 25
    text = next(
        golden for golden in GOLDENS if golden.name == "TrainJob 2.1 with podTemplateOverrides"
    ).text
    assert "no field" in str(place(text, None, grace=25).refused)


# --- others ----------------------------------------------------------------------------------------------------

FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata:\n  name: spot\n"


def test_a_flavor_of_kueue_is_reported_and_not_changed() -> None:
    result = place(FLAVOR)
    assert (result.after, result.refused) == (None, None)
    (finding,) = result.findings
    assert finding.severity == "note"
    assert f"{TOLERATION['key']}: spot to its nodeLabels" in finding.reason
    assert place(FLAVOR.replace("spot", "other")).findings == ()
    result = place(FLAVOR, kinds=frozenset(["resourceflavor"]))
    assert result.after is None
    assert "by hand" in str(result.refused)


def test_a_daemonset_is_let_onto_spot_nodes_and_never_confined_to_them() -> None:
    """https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/: a pod on every node that fits."""
    text = next(golden for golden in GOLDENS if golden.name == "Deployment").text
    text, asked = text.replace("Deployment", "DaemonSet"), frozenset(["daemonset"])
    assert "every node" in str(place(text, kinds=asked).refused)
    (document,) = placed(text, "prefer", kinds=asked)
    spec = document["spec"]["template"]["spec"]
    assert spec["tolerations"] == [TOLERATION]
    assert "affinity" not in spec


def test_an_experiment_with_its_trial_in_a_config_map_names_what_to_place() -> None:
    spec = "  trialTemplate:\n    configMap: {configMapName: a, configMapNamespace: b, templatePath: c}\n"
    result = place(head("kubeflow.org/v1beta1", "Experiment", spec))
    assert (result.after, result.refused) == (None, None)
    assert [finding.reason for finding in result.findings] == [
        "its trial is in a ConfigMap: place that one"
    ]


def test_a_pod_spec_at_the_wrong_depth_is_refused() -> None:
    """The snippet of many pages: no `template` between the replica and its pod spec."""
    spec = "  tfReplicaSpecs:\n    Worker:\n      spec:\n        containers: [{name: tensorflow, image: train}]\n"
    result = place(head("kubeflow.org/v1", "TFJob", spec))
    assert result.after is None
    assert "spec.tfReplicaSpecs.*.template.spec" in str(result.refused)


COORDINATORS = {
    "TFJob v1": "chief",
    "PyTorchJob v1": "master",
    "MPIJob v1": "launcher",
    "MPIJob v2beta1": "launcher",
    "XGBoostJob v1": "master",
    "PaddleJob v1": "master",
    "JobSet": "driver",
    "TrainingRuntime": "driver",
    "RayCluster v1": "head",
    "RayJob v1": "head",
    "RayCronJob v1": "head",
    "batch.volcano.sh/v1alpha1 Job": "mpimaster",
    "SparkApplication": "driver",
    "SparkConnect": "server",
    "AppWrapper": "master",
}


@pytest.mark.parametrize("name", COORDINATORS)
def test_a_coordinator_goes_to_spot_nodes_only_when_asked(name: str) -> None:
    golden = next(golden for golden in GOLDENS if golden.name == name)
    result = place(golden.text, roles=frozenset([COORDINATORS[name]]))
    assert [finding.rule for finding in result.findings] == ["coordinator-on-spot"]
    after = Golden.at(yaml.safe_load(result.after or b""), golden.off[0])
    assert after["tolerations"] == [TOLERATION]
    assert after["affinity"] == required(expression())


SERVING = "it serves requests"
REFUSED = {
    ("kubeflow.org/v1", "Notebook"): "a person works in it",
    ("kubeflow.org/v1beta1", "Notebook"): "a person works in it",
    ("kubeflow.org/v1alpha1", "Notebook"): "a person works in it",
    ("serving.kserve.io/v1beta1", "InferenceService"): SERVING,
    ("serving.knative.dev/v1", "Service"): SERVING,
    ("machinelearning.seldon.io/v1", "SeldonDeployment"): SERVING,
    ("machinelearning.seldon.io/v1alpha2", "SeldonDeployment"): SERVING,
    ("mlops.seldon.io/v1alpha1", "Server"): SERVING,
    ("mlops.seldon.io/v1alpha1", "Model"): SERVING,
    ("serving.kserve.io/v1alpha1", "ServingRuntime"): SERVING,
    ("serving.kserve.io/v1alpha1", "ClusterServingRuntime"): SERVING,
    ("ray.io/v1", "RayService"): SERVING,
    ("ray.io/v1alpha1", "RayService"): SERVING,
}


@pytest.mark.parametrize(("version", "kind"), REFUSED)
def test_what_serves_or_is_interactive_is_refused(version: str, kind: str) -> None:
    text = head(version, kind, "  template: {spec: {containers: [{name: main, image: x}]}}\n")
    result = place(text, grace=25, retries=3, kinds=frozenset([kind.lower()]))
    assert result.after is None
    assert REFUSED[version, kind] in str(result.refused)
    # Without a word about it, it is passed over with a note: `place --check` can be green.
    result = place(text, grace=25, retries=3)
    assert (result.after, result.refused) == (None, None)
    assert [finding.severity for finding in result.findings] == ["note"]
    assert REFUSED[version, kind] in result.findings[0].reason


def test_every_kind_that_is_refused_has_a_row_above() -> None:
    assert {key for key, row in KINDS.items() if row.refused} == REFUSED.keys()


@pytest.mark.parametrize("kind", ["Task", "Pipeline"])
def test_tasks_of_tekton_are_placed_by_their_runs(kind: str) -> None:
    steps = (
        "  steps: [{name: main, image: x}]\n"
        if kind == "Task"
        else "  tasks: [{name: a, taskRef: {name: b}}]\n"
    )
    result = place(head("tekton.dev/v1", kind, steps))
    assert (result.after, result.refused, result.findings) == (None, None, ())


@pytest.mark.parametrize(
    ("version", "kind", "spec", "at"),
    [
        (
            "kubeflow.org/v1",
            "Notebook",
            "  template: {spec: {containers: [{name: c, image: x}]}}\n",
            PODS_AT,
        ),
        (
            "serving.kserve.io/v1beta1",
            "InferenceService",
            "  predictor: {sklearn: {storageUri: x}}\n",
            ("spec", "predictor"),
        ),
        (
            "serving.kserve.io/v1beta1",
            "InferenceService",
            "  predictor: {sklearn: {storageUri: x}}\n  canary: [{predictor: {sklearn: {storageUri: y}}}]\n",
            ("spec", "canary", 0, "predictor"),
        ),
        (
            "machinelearning.seldon.io/v1",
            "SeldonDeployment",
            "  predictors: [{name: a, componentSpecs: [{spec: {containers: [{name: c, image: x}]}}]}]\n",
            ("spec", "predictors", 0, "componentSpecs", 0, "spec"),
        ),
        ("mlops.seldon.io/v1alpha1", "Server", "  serverConfig: mlserver\n", ("spec", "podSpec")),
    ],
)
def test_what_must_not_be_there_can_be_kept_off_spot_nodes(
    version: str, kind: str, spec: str, at: tuple[str | int, ...]
) -> None:
    (document,) = placed(head(version, kind, spec), "avoid")
    assert Golden.at(document, at)["affinity"] == required(expression("NotIn"))


def test_knative_takes_no_affinity() -> None:
    """https://knative.dev/docs/serving/configuration/feature-flags/: a taint that is not tolerated keeps it off."""
    text = head(
        "serving.knative.dev/v1", "Service", "  template: {spec: {containers: [{image: x}]}}\n"
    )
    assert place(text, "avoid").after is None
    assert place(text, "avoid").refused is None
    assert "podspec-affinity" in str(place(text, "avoid", "eks").refused)


# --- what must not run on spot capacity ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "namespace", "reason"),
    [
        ("tensorflow/serving:2.16", "ml", "serves requests"),
        ("vllm/vllm-openai", "ml", "serves requests"),
        ("quay.io/kuberay/operator:v1.3.2", "ml", "control plane"),
        ("argoproj/workflow-controller@sha256:0", "ml", "control plane"),
        ("kubeflow/trainer-controller-manager", "ml", "control plane"),
        ("prom/prometheus", "ml", "keeps data"),
        ("train", "kubeflow", "namespace kubeflow"),
        ("train", "kube-system", "namespace kube-system"),
        ("redis-exporter", "ml", ""),
        ("robot-controller-training", "ml", ""),
    ],
)
def test_a_deployment_is_refused_by_its_image_or_namespace(
    image: str, namespace: str, reason: str
) -> None:
    text = next(golden for golden in GOLDENS if golden.name == "Deployment").text
    document = yaml.safe_load(text)
    document["metadata"]["namespace"] = namespace
    document["spec"]["template"]["spec"]["containers"][0]["image"] = image
    result = place(yaml.safe_dump(document), kinds=frozenset(["deployment"]))
    assert reason in (result.refused or "")
    assert (result.after is None) == bool(reason)
    assert place(yaml.safe_dump(document)).after is None


def test_people_run_jobs_in_the_namespace_of_kubeflow() -> None:
    text = next(golden for golden in GOLDENS if golden.name == "PyTorchJob v1").text
    assert place(text.replace("{name: x}", "{name: x, namespace: kubeflow}")).after is not None


# --- entries of a TrainJob that are not for the training ----------------------------------------------------------


@pytest.mark.parametrize("job", ["dataset-initializer", "launcher"])
def test_the_job_in_which_the_training_runs_gets_an_entry(job: str) -> None:
    entry = f"  podTemplateOverrides:\n  - targetJobs: [{{name: {job}}}]\n    spec: {{serviceAccountName: x}}\n"
    (document,) = placed(TRAIN_JOB + entry)
    assert document["spec"]["podTemplateOverrides"][1] == {
        "targetJobs": [{"name": "node"}],
        "spec": PODS,
    }


@pytest.mark.parametrize(
    "jobs", ["{name: node}, {name: launcher}", "{name: launcher}, {name: node}"]
)
def test_an_entry_for_jobs_that_belong_on_different_nodes_is_refused(jobs: str) -> None:
    entry = (
        f"  podTemplateOverrides:\n  - targetJobs: [{jobs}]\n    spec: {{serviceAccountName: x}}\n"
    )
    result = place(TRAIN_JOB + entry)
    assert result.after is None
    assert "make two" in str(result.refused)
    first = jobs.partition("}")[0].removeprefix("{name: ")
    assert "make two" in str(place(TRAIN_JOB + entry, roles=frozenset([first])).refused)


def test_a_ray_job_in_a_cluster_that_is_there_names_what_to_place() -> None:
    spec = "  entrypoint: python train.py\n  clusterSelector: {ray.io/cluster: mine}\n"
    result = place(head("ray.io/v1", "RayJob", spec))
    assert (result.after, result.refused) == (None, None)
    assert [
        (finding.severity, "place that one" in finding.reason) for finding in result.findings
    ] == [("note", True)]
