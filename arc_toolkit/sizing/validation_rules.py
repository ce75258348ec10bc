"""The rules of `validate`: what can be wrong with a hand-written InstanceType. The checks are
`problems` in `kube/instance_type_spec.py`, if the manifest alone shows it, and in `validation.py`.

https://learn.microsoft.com/azure/machine-learning/how-to-manage-kubernetes-instance-types
"""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.ignore_rules import OF_UNKNOWN_RULE, WITHOUT_REASON

PREFIX = "instance-type-"


_WARNINGS = ("request-limit",)
# Name -> summary, why, before, after.
_TEXTS = {
    "above-limit": (
        "a request above its limit",
        "Kubernetes refuses a pod whose request is above its limit: no job of such a type ever starts.",
        'requests:\n  memory: "16Gi"\nlimits:\n  memory: "8Gi"\n',
        'requests:\n  memory: "16Gi"\nlimits:\n  memory: "16Gi"\n',
    ),
    "api-version": (
        "another apiVersion or kind",
        """\
An InstanceType has `apiVersion: amlarc.azureml.com/v1alpha1` and `kind: InstanceType`, letter by letter. With another
group or version, `kubectl apply` fails or makes an object that AzureML does not look at.""",
        "apiVersion: azureml.com/v1\nkind: InstanceType\n",
        "apiVersion: amlarc.azureml.com/v1alpha1\nkind: InstanceType\n",
    ),
    "duplicate-key": (
        "a key that is in a map twice",
        "YAML readers take the last one and drop the others without a word; `kubectl` refuses the file.",
        'limits:\n  cpu: "4"\nlimits:\n  memory: "16Gi"\n',
        'limits:\n  cpu: "4"\n  memory: "16Gi"\n',
    ),
    "duplicate": (
        "two InstanceTypes with the same name",
        "InstanceTypes are resources of the cluster, not of a namespace: the one that is applied last wins.",
        "metadata:\n  name: half\n---\nmetadata:\n  name: half\n",
        "metadata:\n  name: half\n---\nmetadata:\n  name: whole\n",
    ),
    "field": (
        "missing cpu or memory, or one that is not a quantity",
        """\
`requests` and `limits` both need `cpu` and `memory`, each a quantity above zero, written as a string. Memory without a
unit is in bytes, and `m` means thousandths of a byte: `512m` is not 512 MiB.""",
        "resources:\n  requests:\n    cpu: 4\n    memory: 16 GB\n",
        'resources:\n  requests:\n    cpu: "4"\n    memory: "16Gi"\n',
    ),
    "gpu": (
        "GPUs under requests, not a whole number of them, or of another maker",
        """\
Extended resources such as `nvidia.com/gpu` and `nvidia.com/mig-1g.10gb` belong under `limits`, where Kubernetes takes
the request from; they cannot be shared, so the number is whole. If the selector names a VM size, its GPUs are of that
maker.""",
        "resources:\n  requests:\n    nvidia.com/gpu: 1\n",
        "resources:\n  limits:\n    nvidia.com/gpu: 1\n",
    ),
    "misplaced": (
        "requests or limits beside resources",
        """\
`requests` and `limits` belong below `resources`. Beside it they are ignored without an error, and the type has no
resources.""",
        'spec:\n  resources:\n  requests:\n    cpu: "4"\n',
        'spec:\n  resources:\n    requests:\n      cpu: "4"\n',
    ),
    "name": (
        "a name that Kubernetes does not allow",
        "A name has lower case letters, digits, `-` and `.` only, and at most 253 characters (RFC 1123).",
        "metadata:\n  name: Standard_NC6s_v3\n",
        "metadata:\n  name: standard-nc6s-v3\n",
    ),
    "node-size": (
        "larger than the largest node",
        """\
No node with the labels of the type has as much as it asks for, even if it is empty: a job of this type fails at once
with Code 9. Needs nodes: `--nodes` or `--sku`.""",
        '# on Standard_D64s_v5, which has 64 cores and 256 GiB\nrequests:\n  cpu: "64"\n  memory: "300Gi"\n',
        '# on Standard_D64s_v5, which has 64 cores and 256 GiB\nrequests:\n  cpu: "31"\n  memory: "100Gi"\n',
    ),
    "request-limit": (
        "a request that is not its limit",
        "Training jobs of AzureML need requests and limits that are equal, for cpu and for memory.",
        'requests:\n  cpu: "4"\nlimits:\n  cpu: "8"\n',
        'requests:\n  cpu: "8"\nlimits:\n  cpu: "8"\n',
    ),
    "schedulable": (
        "larger than what is schedulable on a node",
        """\
The type is smaller than the node, but larger than what the kubelet, the system and the pods that run on every node
leave of it: a job of this type stays Pending. Needs nodes: `--nodes` or `--sku`.""",
        '# on Standard_D64s_v5\nrequests:\n  cpu: "64"\n',
        '# on Standard_D64s_v5\nrequests:\n  cpu: "62"\n',
    ),
    "selector": (
        "a node selector that no usable node matches",
        """\
Labels are compared letter by letter, and their values are strings. If no node that jobs can
use matches the selector, the jobs of the type have none. The comparison with nodes needs `--nodes` or `--sku`.""",
        "nodeSelector:\n  node.kubernetes.io/instance-type: standard_d64s_v5\n",
        "nodeSelector:\n  node.kubernetes.io/instance-type: Standard_D64s_v5\n",
    ),
    "unknown-key": (
        "a key that an InstanceType does not have",
        """\
A spec has `nodeSelector` and `resources`, and nothing else (no tolerations); resources are cpu, memory and GPUs.
Other keys are ignored without an error.""",
        "spec:\n  tolerations: []\n",
        "spec:\n  nodeSelector:\n    pool: spot\n",
    ),
}
RULES: dict[str, Rule] = {rule.id: rule for rule in (OF_UNKNOWN_RULE, WITHOUT_REASON)} | {
    PREFIX + name: Rule(
        PREFIX + name,
        "warning" if name in _WARNINGS else "error",
        "none",
        *texts,
        language="yaml",
        command="validate",
    )
    for name, texts in _TEXTS.items()
}
