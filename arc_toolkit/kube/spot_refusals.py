"""What must not run on spot capacity, by its namespace or by its image."""

from __future__ import annotations

SERVING = "it serves requests, which fail while an evicted pod starts elsewhere"
INTERACTIVE = "a person works in it, and an eviction takes the open session away"
_CONTROLLER = "it is a part of the control plane: while it is away, nothing that it looks after goes on"

# The namespaces of Kubernetes itself, of AKS and of what clusters are run with.
_CONTROL_PLANE = frozenset(
    (
        *(
            "kube-system",
            "kube-public",
            "kube-node-lease",
            "gatekeeper-system",
            "calico-system",
            "tigera-operator",
        ),
        *("aks-command", "azure-arc", "azureml", "istio-system", "cert-manager", "knative-serving", "kyverno"),
        *("volcano-system", "kueue-system", "jobset-system", "lws-system", "ray-system", "spark-operator"),
        *("kubeflow-system", "argocd", "monitoring"),
    )
)
# Those in which people also run jobs: what is always on there belongs to the control plane.
_SHARED = frozenset(
    ("kubeflow", "argo", "kserve", "knative-eventing", "tekton-pipelines", "tekton-pipelines-resolvers", "kuberay")
)


def namespace_refusal(namespace: str, *, is_always_on: bool) -> str:
    """Why a workload of this namespace must not run on spot capacity; empty if it may."""
    if namespace in _CONTROL_PLANE or (is_always_on and namespace in _SHARED):
        return f"the namespace {namespace} belongs to the control plane of the cluster"
    return ""


# The last part of an image's name, without its tag, or words of it between dashes.
_IMAGES = {
    **dict.fromkeys(
        (
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
            *("cockroach", "neo4j", "milvus", "qdrant", "weaviate", "memcached", "mssql", "oracle", "couchdb"),
            *("prometheus", "loki", "seaweedfs", "azurite", "gitea"),
        ),
        "it keeps data, which an eviction takes away or corrupts",
    ),
    **dict.fromkeys(
        ("jupyter", "jupyterlab", "jupyterhub", "notebook", "rstudio", "codeserver", "vscode"), INTERACTIVE
    ),
    **dict.fromkeys(
        ("dashboard", "centraldashboard", "grafana", "kibana", "tensorboard", "superset"),
        "it is a dashboard: people look at it while other things fail",
    ),
    **dict.fromkeys(
        (
            *(
                "triton",
                "tritonserver",
                "torchserve",
                "tfserving",
                "kserve",
                "seldon",
                "vllm",
                "bentoml",
                "serving",
            ),
            *("ollama", "sglang", "tgi", "text-generation-inference", "text-embeddings-inference"),
            *("jetstream", "maxengine"),
        ),
        SERVING,
    ),
}
# Last words of images that look after others.
_CONTROLLERS = frozenset(("controller", "operator", "webhook", "apiserver", "metacontroller"))
# Words of images that only talk to such a thing, or watch it.
_BESIDE = frozenset(
    (
        *("exporter", "client", "cli", "benchmark", "bench", "backup", "proxy", "tools", "adapter"),
        *("migrate", "migration", "migrations", "test", "tests", "init", "loader", "example", "worker", "ui"),
    )
)


def image_refusal(image: str) -> str:
    """Why a pod with this image must not run on spot capacity; empty if nothing is known against it."""
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0].lower()
    words = (name, *name.replace("_", "-").split("-"))
    if words[-1] in _CONTROLLERS or name.endswith("controller-manager"):
        return _CONTROLLER
    if not _BESIDE.isdisjoint(words):
        return ""
    return next((_IMAGES[word] for word in words if word in _IMAGES), "")
