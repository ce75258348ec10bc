"""kfp pipelines in Python, and what kfp must compile of them after `place`, written by hand before the code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.placement.support import KEY, TOLERATION, expression

_GPU = {"key": "gpu", "operator": "Exists"}
REQUIRED = {"tolerations": [TOLERATION], "nodeSelector": {"labels": {KEY: "spot"}}}
PREFERRED = {
    "tolerations": [TOLERATION],
    "nodeAffinity": [{"matchExpressions": [expression()], "weight": 100}],
}
AVOIDED = {"nodeAffinity": [{"matchExpressions": [expression("NotIn")]}]}


@dataclass(frozen=True)
class PipelineCase:
    name: str
    # The inside of the pipeline function.
    body: str
    # The settings of the platform by executor; None: nothing changes.
    executors: dict[str, dict[str, Any]] | None
    spot: str | None = "require"
    settings: dict[str, Any] = field(default_factory=dict)
    # A part of the reason of what is refused; empty if nothing is.
    reason: str = ""
    # maxRetryCount by task.
    retries: dict[str, int] = field(default_factory=dict)
    imports: str = "from kfp import dsl\n"
    # Whether kfp can compile it here.
    compiles: bool = True

    @property
    def source(self) -> str:
        lines = "".join(f"    {line}\n" if line else "\n" for line in self.body.splitlines())
        head = _COMPONENTS + (_NESTED if "inner(" in self.body else "") + _PIPELINE
        return f"{self.imports}{head}{lines}"


_COMPONENTS = """

@dsl.component
def train(x: int) -> int:
    return x


@dsl.container_component
def report(text: str):
    return dsl.ContainerSpec(image="busybox", command=["echo", text])

"""
_NESTED = """

@dsl.pipeline
def inner(x: int):
    t = train(x=x)
"""
_PIPELINE = """

@dsl.pipeline(name="p")
def pipeline(x: int = 1, pool: dict = {}):
"""
_K8S = "from kfp import dsl, kubernetes\n"
_INNER = {"exec-train": REQUIRED}

PIPELINE_CASES = (
    PipelineCase("assigned", "a = report(text='a')", {"exec-report": REQUIRED}),
    PipelineCase("prefer", "a = report(text='a')", {"exec-report": PREFERRED}, "prefer"),
    PipelineCase("avoid", "a = report(text='a')", {"exec-report": AVOIDED}, "avoid"),
    PipelineCase("not-assigned", "report(text='a')", {"exec-report": REQUIRED}),
    PipelineCase(
        "several",
        "report(text='a')\nb = report(text='b').set_memory_limit('1G')\nreport_task = report(\n    text='c',\n)",
        {"exec-report": REQUIRED, "exec-report-2": REQUIRED, "exec-report-3": REQUIRED},
    ),
    PipelineCase(
        "blocks",
        "a = train(x=x)\nwith dsl.If(a.output == 1):\n    report(text='yes')\n"
        "with dsl.ParallelFor([1, 2]) as item:\n    b = train(x=item)\n"
        "for number in range(2):\n    c = train(x=number)",
        dict.fromkeys(
            ("exec-train", "exec-report", "exec-train-2", "exec-train-3", "exec-train-4"), REQUIRED
        ),
    ),
    PipelineCase(
        "nested-pipeline-and-importer",
        "inner(x=x)\ndsl.importer(artifact_uri='gs://x', artifact_class=dsl.Dataset)",
        _INNER,
    ),
    PipelineCase(
        "volume-claims-run-no-pod",
        "claim = kubernetes.CreatePVC(access_modes=['ReadWriteOnce'], size='1Gi', pvc_name='a')\n"
        "a = report(text='a')\nkubernetes.mount_pvc(a, pvc_name=claim.outputs['name'], mount_path='/data')",
        {"exec-report": REQUIRED},
        imports=_K8S,
    ),
    PipelineCase(
        "merged",
        "a = report(text='a')\nkubernetes.add_toleration(a, key='gpu', operator='Exists')\n"
        "kubernetes.add_node_selector(a, 'disk', 'ssd')",
        {
            "exec-report": {
                "tolerations": [_GPU, TOLERATION],
                "nodeSelector": {"labels": {"disk": "ssd", KEY: "spot"}},
            }
        },
        imports=_K8S,
    ),
    PipelineCase(
        "already-placed",
        f"a = report(text='a')\nk8s.add_toleration(a, key='{KEY}', operator='Exists')\n"
        f"k8s.add_node_selector(a, label_key='{KEY}', label_value='spot')",
        None,
        imports="from kfp import dsl\nfrom kfp import kubernetes as k8s\n",
    ),
    PipelineCase(
        "avoid-merges-with-terms",
        "a = report(text='a')\nkubernetes.add_node_affinity(a, match_expressions=[\n"
        "    {'key': 'b', 'operator': 'Exists'},\n])",
        {
            "exec-report": {
                "nodeAffinity": [
                    {"matchExpressions": [{"key": "b", "operator": "Exists"}, expression("NotIn")]}
                ]
            }
        },
        "avoid",
        imports=_K8S,
    ),
    PipelineCase(
        "other-pool",
        "a = report(text='a')\nkubernetes.add_node_selector(a, label_key='agentpool', label_value='cpu')",
        None,
        reason="pinned to one pool by agentpool=cpu",
        imports=_K8S,
    ),
    PipelineCase(
        "by-parameter",
        "a = report(text='a')\nkubernetes.add_node_selector_json(a, pool)",
        None,
        reason="it is set by a pipeline parameter",
        imports=_K8S,
    ),
    PipelineCase(
        "by-a-loop",
        "a = report(text='a')\nfor task in [a]:\n    kubernetes.add_toleration(task, key='gpu', operator='Exists')",
        None,
        reason="a task that is not named there",
        imports=_K8S,
    ),
    PipelineCase(
        "by-a-helper",
        "a = report(text='a')\nuse_gpu(a)",
        None,
        reason="gives it to use_gpu, which is about its nodes",
        imports=f"{_K8S}\n\ndef use_gpu(task):\n    kubernetes.add_toleration(task, key='gpu', operator='Exists')\n",
    ),
    PipelineCase(
        "under-a-condition",
        "a = report(text='a')\nif pool:\n    kubernetes.add_toleration(a, key='gpu', operator='Exists')",
        None,
        reason="runs in another block",
        imports=_K8S,
    ),
    PipelineCase(
        "inside-of-an-expression",
        "b = report(text=str(train(x=x).output))",
        {"exec-report": REQUIRED},
        reason="made inside of another expression",
        compiles=False,
    ),
    PipelineCase(
        "retries",
        "a = train(x=x).set_retry(5)\nb = train(x=x)",
        {},
        None,
        {"retries": 2},
        reason="does not retry deleted pods",
        retries={"train": 5, "train-2": 2},
    ),
    PipelineCase(
        "role",
        "a = train(x=x)\nb = train(x=a.output)",
        {"exec-train-2": REQUIRED},
        settings={"roles": frozenset(["train-2"])},
    ),
    PipelineCase(
        "imported",
        "a = fit(x=x)",
        None,
        reason="--role fit places it",
        imports="from kfp import dsl\nfrom parts import fit\n",
        compiles=False,
    ),
    PipelineCase(
        "imported-with-a-memory-limit",
        "a = fit(x=x)\na.set_memory_limit('1G')",
        {"exec-fit": REQUIRED},
        imports="from kfp import dsl\nfrom parts import fit\n",
        compiles=False,
    ),
    PipelineCase(
        "name-is-taken",
        "a = report(text='a')",
        None,
        reason="the name kubernetes means something else",
        imports="import kubernetes\nfrom kfp import dsl\n",
    ),
)
