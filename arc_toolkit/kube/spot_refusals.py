"""What must not run on spot capacity, by its namespace or by its image."""

from __future__ import annotations

SERVING = "it serves requests, which fail while an evicted pod starts elsewhere"
INTERACTIVE = "a person works in it, and an eviction takes the open session away"
_CONTROLLER = (
    "it is a part of the control plane: while it is away, nothing that it looks after goes on"
)

_CONTROL_PLANE = frozenset(
    (
        # https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#initial-namespaces
        *("kube-system", "kube-public", "kube-node-lease"),
        # AKS and its add-ons: https://learn.microsoft.com/azure/aks/limit-egress-traffic
        # (gatekeeper-system), .../private-cluster-connect (aks-command),
        # .../app-routing-gateway-api (aks-istio-system), .../cluster-extensions (azure-arc),
        # .../supported-kubernetes-versions (tigera-operator); azureml has AzureML's extension.
        *(
            "gatekeeper-system",
            "calico-system",
            "tigera-operator",
            "aks-command",
            "aks-istio-system",
        ),
        *("app-routing-system", "azure-arc", "azureml"),
        # https://github.com/kubeflow/manifests, common/*/base, and
        # https://github.com/kubeflow/trainer, manifests/
        *(
            "istio-system",
            "cert-manager",
            "knative-serving",
            "oauth2-proxy",
            "auth",
            "kubeflow-system",
        ),
        *("jobset-system", "lws-system"),
        # As their own instructions install them: volcano installer/, kuberay apiserver/deploy,
        # spark-operator config/manager, kueue, kyverno, Argo CD.
        *("volcano-system", "kueue-system", "kyverno", "ray-system", "spark-operator", "argocd"),
    )
)
# Those in which people also run jobs: what is always on there belongs to the control plane. From
# kubeflow/manifests, kubeflow/katib manifests/, tektoncd/pipeline config/,
# .../aks/deploy-ray-infrastructure (kuberay); monitoring is usual for the charts of Prometheus.
_SHARED = frozenset(
    (
        *(
            "kubeflow",
            "argo",
            "kserve",
            "knative-eventing",
            "tekton-pipelines",
            "tekton-pipelines-resolvers",
        ),
        *("kuberay", "monitoring"),
    )
)


def namespace_refusal(namespace: str, *, is_always_on: bool) -> str:
    """Why a workload of this namespace must not run on spot capacity; empty if it may."""
    if namespace in _CONTROL_PLANE or (is_always_on and namespace in _SHARED):
        return f"the namespace {namespace} belongs to the control plane of the cluster"
    return ""


# The last part of an image's name, without its tag, or words of it between dashes. Most are in
# public manifests, as in kubernetes/examples, kubeflow/manifests and GoogleCloudPlatform/ai-on-gke;
# it stays a guess by the name.
_DATA = (
    *(
        "postgres",
        "postgresql",
        "mysql",
        "mariadb",
        "mongo",
        "mongodb",
        "redis",
        "valkey",
        "minio",
        "etcd",
    ),
    *(
        "elasticsearch",
        "opensearch",
        "cassandra",
        "kafka",
        "zookeeper",
        "rabbitmq",
        "influxdb",
        "clickhouse",
    ),
    *(
        "cockroach",
        "neo4j",
        "milvus",
        "qdrant",
        "weaviate",
        "couchdb",
        "prometheus",
        "loki",
        "seaweedfs",
    ),
    *("azurite", "gitea"),
)
# The last three are of https://github.com/kubeflow/kubeflow, components/example-notebook-servers.
_SESSIONS = ("jupyterhub", "notebook", "jupyter", "rstudio", "codeserver")
_DASHBOARDS = ("dashboard", "centraldashboard", "grafana", "kibana", "tensorboard", "superset")
_SERVERS = (
    *("tritonserver", "torchserve", "kserve", "vllm", "bentoml", "serving", "ollama", "sglang"),
    *("text-generation-inference", "text-embeddings-inference", "jetstream", "maxengine"),
    *("nginx", "httpd", "haproxy", "caddy", "traefik", "envoy", "frontend", "webserver"),
)
_IMAGES = {
    **dict.fromkeys(_DATA, "it keeps data, which an eviction takes away or corrupts"),
    **dict.fromkeys(_SESSIONS, INTERACTIVE),
    **dict.fromkeys(_DASHBOARDS, "it is a dashboard: people look at it while other things fail"),
    **dict.fromkeys(_SERVERS, SERVING),
}
# Last words of images that look after others.
_CONTROLLERS = frozenset(("controller", "operator", "webhook", "apiserver", "metacontroller"))
# Words of images that only talk to such a thing, or watch it.
_BESIDE = frozenset(
    (
        *("exporter", "client", "cli", "benchmark", "bench", "backup", "proxy", "tools", "adapter"),
        *(
            "migrate",
            "migration",
            "migrations",
            "test",
            "tests",
            "init",
            "loader",
            "example",
            "worker",
            "ui",
        ),
        *("consumer", "producer", "streams"),
    )
)


def name_refusal(name: str) -> str:
    """The same by the name of an always-on workload, such as one that a patch of kustomize has."""
    words = name.lower().split("-")
    if words[-1] in _CONTROLLERS or name.endswith("controller-manager"):
        return _CONTROLLER
    return SERVING if words[-1] in ("server", "ui", "api", "gateway") else ""


def image_refusal(image: str) -> str:
    """Why a pod with this image must not run on spot capacity; empty if it may."""
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0].lower()
    words = (name, *name.replace("_", "-").split("-"))
    if words[-1] in _CONTROLLERS or name.endswith("controller-manager"):
        return _CONTROLLER
    if not _BESIDE.isdisjoint(words):
        return ""
    return next((_IMAGES[word] for word in words if word in _IMAGES), "")
