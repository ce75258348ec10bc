"""What already sits on a node: named DaemonSet profiles, a file of one's own, or the pods of a cluster."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.quantities import QuantityError, bytes_asked, cpu_asked
from arc_toolkit.resources import data_file
from arc_toolkit.sizing.reservations import Version, parse_version

Kind = Literal["daemonset", "static", "job", "other"]

# The namespace that `az k8s-extension create --release-namespace` gets for the AzureML extension by default.
EXTENSION_NAMESPACE = "azureml"


@dataclass(frozen=True, slots=True)
class Occupant:
    """Requests that sit on a node. Only DaemonSet and static pods belong to the node for good."""

    name: str
    cpu_m: int
    memory: int
    kind: Kind = "daemonset"
    namespace: str = ""
    source: str = ""
    gpus: int = 0
    pods: int = 1  # a row of a profile may stand for several

    @property
    def stays(self) -> bool:
        return self.kind in ("daemonset", "static")


@cache
def profiles() -> dict[str, dict[str, list[Occupant]]]:
    """Shipped profiles: name -> Kubernetes version ("" for any) -> occupants."""
    found: dict[str, dict[str, list[Occupant]]] = {}
    with open(data_file("daemonsets.csv"), encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(line for line in stream if not line.startswith("#")):
            source = f"profile {row['profile']}" + (f", seen on {row['kubernetes']}" if row["kubernetes"] else "")
            occupant = Occupant(
                row["name"],
                cpu_asked(row["cpu"]),
                bytes_asked(row["memory"]),
                source=source,
                pods=int(row["pods"]),
            )
            found.setdefault(row["profile"], {}).setdefault(row["kubernetes"], []).append(occupant)
    return found


def profile(name: str, version: Version) -> list[Occupant]:
    """A profile as it is on that Kubernetes version; `aks-overlay-1.30` pins the version it was seen on.

    Between two versions that were seen, each resource is the larger of the two: nobody saw the ones between.
    """
    if name == "none":
        return []
    base, _, pinned = name.rpartition("-")
    if base in profiles() and pinned in profiles()[base]:
        return profiles()[base][pinned]
    if name not in profiles():
        names = [*profiles(), *(f"{p}-{v}" for p, seen in profiles().items() for v in seen if v), "none"]
        raise ArcError(f"no DaemonSet profile or file {name!r}: the profiles are {', '.join(names)}")
    seen = profiles()[name]
    if "" in seen:
        return seen[""]
    order = sorted(seen, key=parse_version)
    below = [text for text in order if parse_version(text) <= version]
    above = [text for text in order if parse_version(text) >= version]
    if not below or not above or below[-1] == above[0]:
        return seen[below[-1] if below else above[0]]
    older, newer = seen[below[-1]], seen[above[0]]
    return [
        Occupant(
            "AKS DaemonSets",
            max(sum(o.cpu_m for o in older), sum(o.cpu_m for o in newer)),
            max(sum(o.memory for o in older), sum(o.memory for o in newer)),
            source=f"profile {name}, the larger of {below[-1]} and {above[0]}",
            pods=max(sum(o.pods for o in older), sum(o.pods for o in newer)),
        )
    ]


def from_document(data: Any, where: str) -> list[Occupant]:
    """A file of one's own: a list of `{name, cpu, memory}`."""
    if not isinstance(data, list) or not all(isinstance(row, dict) and "name" in row for row in data):
        raise ArcError(f"{where}: expected a list of DaemonSets, each with name, cpu and memory")
    found = []
    for row in data:
        unknown = set(row) - {"name", "cpu", "memory"}
        if unknown:
            raise ArcError(
                f"{where}: {row['name']}: unknown key {sorted(unknown)[0]!r}; there are name, cpu and memory"
            )
        try:
            cpu_m, memory = cpu_asked(str(row.get("cpu", "0"))), bytes_asked(str(row.get("memory", "0")))
        except QuantityError as error:
            raise ArcError(f"{where}: {row['name']}: {error}") from None
        if cpu_m < 0 or memory < 0:
            raise ArcError(f"{where}: {row['name']}: a request cannot be negative")
        found.append(Occupant(str(row["name"]), cpu_m, memory, source=where))
    return found


def by_node(pods: Iterable[Mapping[str, Any]]) -> dict[str, list[Occupant]]:
    """The running pods of a cluster (raw objects of a PodList) by the node they sit on."""
    found: dict[str, list[Occupant]] = {}
    for pod in pods:
        try:
            spec = pod.get("spec") or {}
            node = spec.get("nodeName")
            if not node or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            found.setdefault(node, []).append(_occupant(pod.get("metadata") or {}, spec))
        except (QuantityError, ValueError) as error:
            raise ArcError(f"pod {_name(pod)}: {error}") from None
        except (AttributeError, TypeError):
            raise ArcError(f"pod {_name(pod)} is not shaped like a Pod object") from None
    return found


def _name(pod: Mapping[str, Any]) -> str:
    metadata = pod.get("metadata")
    return str(metadata.get("name", "?")) if isinstance(metadata, dict) else "?"


def _occupant(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Occupant:
    labels = metadata.get("labels") or {}
    name, kind = str(metadata.get("name", "?")), "other"
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("kind") == "DaemonSet":
            name, kind = owner.get("name", name), "daemonset"
        elif owner.get("kind") == "Node":  # a mirror pod of the kubelet's static pod
            kind = "static"
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        kind = "static"
    if "ml.azure.com/run-id" in labels or labels.get("jobsource") == "aml":
        kind = "job"
    cpu_m, memory, gpus = pod_requests(spec)
    return Occupant(name, cpu_m, memory, kind, str(metadata.get("namespace", "")), "pods", gpus)  # type: ignore[arg-type]


def pod_requests(spec: Mapping[str, Any]) -> tuple[int, int, int]:
    """Milli-cores, bytes and GPUs that the scheduler counts for a pod.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    cpu_m = memory = gpus = 0
    for container in spec.get("containers") or ():
        a, b, c = _requests(container)
        cpu_m, memory, gpus = cpu_m + a, memory + b, gpus + c
    if inits := spec.get("initContainers"):
        sidecar_cpu = sidecar_memory = sidecar_gpus = 0
        peak_cpu = peak_memory = peak_gpus = 0
        for container in inits:
            a, b, c = _requests(container)
            if container.get("restartPolicy") == "Always":
                sidecar_cpu, sidecar_memory, sidecar_gpus = sidecar_cpu + a, sidecar_memory + b, sidecar_gpus + c
                a = b = c = 0
            peak_cpu = max(peak_cpu, sidecar_cpu + a)
            peak_memory = max(peak_memory, sidecar_memory + b)
            peak_gpus = max(peak_gpus, sidecar_gpus + c)
        cpu_m = max(cpu_m + sidecar_cpu, peak_cpu)
        memory = max(memory + sidecar_memory, peak_memory)
        gpus = max(gpus + sidecar_gpus, peak_gpus)
    if whole := (spec.get("resources") or {}).get("requests"):  # pod-level resources win (from 1.32)
        cpu_m = cpu_asked(str(whole["cpu"])) if "cpu" in whole else cpu_m
        memory = bytes_asked(str(whole["memory"])) if "memory" in whole else memory
    if overhead := spec.get("overhead"):
        cpu_m += cpu_asked(str(overhead.get("cpu", "0")))
        memory += bytes_asked(str(overhead.get("memory", "0")))
    return cpu_m, memory, gpus


def _requests(container: Mapping[str, Any]) -> tuple[int, int, int]:
    asked = (container.get("resources") or {}).get("requests")
    if not asked:
        return 0, 0, 0
    gpus = asked.get("nvidia.com/gpu") or asked.get("amd.com/gpu") or 0
    return cpu_asked(str(asked.get("cpu", "0"))), bytes_asked(str(asked.get("memory", "0"))), int(gpus)
