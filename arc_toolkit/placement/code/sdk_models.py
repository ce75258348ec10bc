"""The classes of the Kubernetes and Kubeflow SDKs: their objects, and the classes of their fields.

Read from kubernetes 30.1, kubeflow-training 1.9.4 (`openapi_types` of the models) and kubeflow 0.5
(kubeflow/trainer/options/kubernetes.py); a test compares this with the real packages.
"""

from __future__ import annotations

import re

# Packages of models: classes whose arguments are the fields of a manifest in snake case.
PACKAGES = (
    "kubernetes",
    "kubernetes_asyncio",
    "kubeflow.training",
    "kubeflow.katib",
    "kubeflow.trainer",
)
_MODEL = re.compile(r"(?:KubeflowOrg)?V\d+(?:alpha\d+|beta\d+)?[A-Z]\w*")
_MODEL_FILE = re.compile(r"(?<=\.models)\.\w+$")

_TRAINING_KINDS = ("TFJob", "PyTorchJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
# Class -> apiVersion and kind of its object. Before 1.6 the training SDK had no prefix.
OBJECTS = {
    "V1Pod": ("v1", "Pod"),
    "V1Job": ("batch/v1", "Job"),
    "V1CronJob": ("batch/v1", "CronJob"),
    "V1beta1CronJob": ("batch/v1beta1", "CronJob"),
    **{
        f"V1{kind}": ("apps/v1", kind)
        for kind in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")
    },
    **{
        f"{prefix}{kind}": ("kubeflow.org/v1", kind)
        for prefix in ("KubeflowOrgV1", "V1")
        for kind in _TRAINING_KINDS
    },
}
POD_SPEC = "V1PodSpec"
# Field -> the class of its value, or of its items. A training job always has a `run_policy`.
FIELDS = {
    "tolerations": "V1Toleration",
    "affinity": "V1Affinity",
    "nodeAffinity": "V1NodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution": "V1NodeSelector",
    "nodeSelectorTerms": "V1NodeSelectorTerm",
    "preferredDuringSchedulingIgnoredDuringExecution": "V1PreferredSchedulingTerm",
    "preference": "V1NodeSelectorTerm",
    "matchExpressions": "V1NodeSelectorRequirement",
    "podFailurePolicy": "V1PodFailurePolicy",
    "rules": "V1PodFailurePolicyRule",
    "onPodConditions": "V1PodFailurePolicyOnPodConditionsPattern",
}
# What a model insists on although the API has a default for it, which is this.
COMPLETED = {"onPodConditions": {"status": "True"}}

# The options of `TrainerClient.train` with their fields in order, because of positional arguments.
PATCHES = {
    "RuntimePatch": ("training_runtime_spec",),
    "TrainingRuntimeSpecPatch": ("template",),
    "JobSetTemplatePatch": ("metadata", "spec"),
    "JobSetSpecPatch": ("replicated_jobs",),
    "ReplicatedJobPatch": ("name", "template"),
    "JobTemplatePatch": ("metadata", "spec"),
    "JobSpecPatch": ("template",),
    "PodTemplatePatch": ("metadata", "spec"),
    "PodSpecPatch": (
        *("service_account_name", "volumes", "init_containers", "containers", "image_pull_secrets"),
        *("security_context", "node_selector", "affinity", "tolerations", "scheduling_gates"),
    ),
}
# Calls that make pods on unknown nodes, by the class of the client, with what to do instead.
_NO_ARGUMENT = (
    "it takes no argument for their nodes: make the object yourself, or place what it makes"
)
WITHOUT_PLACE = {
    "TrainingClient": {"train": _NO_ARGUMENT, "create_job": _NO_ARGUMENT},
    "KatibClient": {"tune": _NO_ARGUMENT},
    "TrainerClient": {
        "train": "it has no options: add a RuntimePatch with a PodSpecPatch, which can be placed"
    },
}
# Frameworks whose pods no file here has: an import, what it shows, and whether pods are certain.
# The first that fits counts.
_AIRFLOW, _FLYTE, _DASK, _METAFLOW = "Airflow", "Flyte", "Dask", "Metaflow"
FRAMEWORKS = (
    ("airflow.providers.cncf.kubernetes", _AIRFLOW, True),
    ("airflow.contrib.operators.kubernetes_pod_operator", _AIRFLOW, True),
    ("airflow", _AIRFLOW, False),
    ("flytekit", _FLYTE, True),
    ("flytekitplugins", _FLYTE, True),
    ("flyte", _FLYTE, True),
    ("dask_kubernetes", _DASK, True),
    ("dask_gateway", _DASK, True),
    ("dask", _DASK, False),
    ("distributed", _DASK, False),
    ("metaflow.kubernetes", _METAFLOW, True),
    ("metaflow", _METAFLOW, False),
)
FRAMEWORK_WORDS = (b"airflow", b"flyte", b"dask", b"distributed", b"metaflow")


def framework_of(path: str) -> tuple[str, bool] | None:
    """The framework that an import is of, and whether its pods are certain."""
    for prefix, name, is_certain in FRAMEWORKS:
        if path == prefix or path.startswith(f"{prefix}."):
            return name, is_certain
    return None


def is_model_path(path: str) -> bool:
    """Whether an import path is that of a class of these SDKs."""
    module, _, name = path.rpartition(".")
    return any(module == package or module.startswith(f"{package}.") for package in PACKAGES) and (
        name in PATCHES or name in WITHOUT_PLACE or _MODEL.fullmatch(name) is not None
    )


def class_module(path: str) -> str:
    """The module to import another class of the same SDK from."""
    return _MODEL_FILE.sub("", path.rpartition(".")[0])


def field_class(field: str, holder: str) -> str | None:
    """The class of a field of a model; None for plain data, such as the fields of a patch."""
    return None if holder in PATCHES else FIELDS.get(field)


def camel_case(name: str) -> str:
    first, *words = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in words)


def snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name)
