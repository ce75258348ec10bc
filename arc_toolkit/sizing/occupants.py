"""Pods that are already on a node: DaemonSet profiles, a file, or the pods of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.nodes import PLATFORM_LABELS
from arc_toolkit.kube.pods import Pod, PodKind
from arc_toolkit.kube.quantities import NO_DEVICES, QuantityError, bytes_requested, cpu_requested
from arc_toolkit.kube.raw import mapping
from arc_toolkit.resources import data_rows
from arc_toolkit.sizing.reservations import Version, parse_version

# The default of `az k8s-extension create --release-namespace` for the AzureML extension.
EXTENSION_NAMESPACE = "azureml"


class Occupant(NamedTuple):
    """Requests of pods on a node. Only DaemonSet and static pods belong to the node for good."""

    name: str
    cpu_m: int
    memory: int
    kind: PodKind = PodKind.DAEMONSET
    namespace: str = ""
    source: str = ""
    devices: Mapping[str, int] = NO_DEVICES
    pods: int = 1  # a row of a profile may stand for several
    selector: Mapping[str, str] | None = None  # of a Deployment's pod

    @property
    def permanent(self) -> bool:
        return self.kind in (PodKind.DAEMONSET, PodKind.STATIC)


@cache
def profiles() -> dict[str, dict[str, list[Occupant]]]:
    """Shipped profiles: name -> Kubernetes version ("" for any) -> occupants."""
    by_name: dict[str, dict[str, list[Occupant]]] = {}
    for row in data_rows("daemonsets.csv"):
        cpu_m, memory = cpu_requested(row["cpu"]), bytes_requested(row["memory"])
        source = f"profile {row['profile']}" + (
            f", seen on {row['kubernetes']}" if row["kubernetes"] else ""
        )
        occupant = Occupant(row["name"], cpu_m, memory, source=source, pods=int(row["pods"]))
        by_name.setdefault(row["profile"], {}).setdefault(row["kubernetes"], []).append(occupant)
    return by_name


@cache
def profile(name: str, version: Version) -> list[Occupant]:
    """A profile on that Kubernetes version; `aks-overlay-1.30` pins the version it was seen on.

    Between two versions that were seen, each resource is the larger of the two: nobody saw the ones
    between.
    """
    if name == "none":
        return []
    base, _, pinned = name.rpartition("-")
    if base in profiles() and pinned in profiles()[base]:
        return profiles()[base][pinned]
    if name not in profiles():
        names = [
            *profiles(),
            *(f"{p}-{v}" for p, versions in profiles().items() for v in versions if v),
            "none",
        ]
        raise ArcError(
            f"no DaemonSet profile or file {name!r}: the profiles are {', '.join(names)}"
        )
    versions = profiles()[name]
    if "" in versions:
        return versions[""]
    order = sorted(versions, key=parse_version)
    below = [text for text in order if parse_version(text) <= version]
    above = [text for text in order if parse_version(text) >= version]
    if not below or not above or below[-1] == above[0]:
        return versions[below[-1] if below else above[0]]
    neighbours = versions[below[-1]], versions[above[0]]
    return [
        Occupant(
            "AKS DaemonSets",
            max(sum(row.cpu_m for row in rows) for rows in neighbours),
            max(sum(row.memory for row in rows) for rows in neighbours),
            source=f"profile {name}, the larger of {below[-1]} and {above[0]}",
            pods=max(sum(row.pods for row in rows) for rows in neighbours),
        )
    ]


def read_occupants(data: Any, place: str) -> list[Occupant]:
    """A file of one's own: a list of `{name, cpu, memory}`."""
    if not isinstance(data, list) or not all(
        isinstance(row, dict) and "name" in row for row in data
    ):
        raise ArcError(f"{place}: expected a list of DaemonSets, each with name, cpu and memory")
    rows = []
    for row in data:
        unknown = set(row) - {"name", "cpu", "memory"}
        if unknown:
            raise ArcError(
                f"{place}: {row['name']}: unknown key {sorted(unknown)[0]!r}; "
                "there are name, cpu and memory"
            )
        try:
            cpu_m, memory = (
                cpu_requested(str(row.get("cpu", "0"))),
                bytes_requested(str(row.get("memory", "0"))),
            )
        except QuantityError as error:
            raise ArcError(f"{place}: {row['name']}: {error}") from None
        if cpu_m < 0 or memory < 0:
            raise ArcError(f"{place}: {row['name']}: a request cannot be negative")
        rows.append(Occupant(str(row["name"]), cpu_m, memory, source=place))
    return rows


def occupants_by_node(pods: Iterable[Mapping[str, Any]]) -> dict[str, list[Occupant]]:
    """The pods of a cluster (raw objects of a PodList) by their node.

    Waiting pods of Deployments are under "": they say where the extension may run.
    """
    occupants: dict[str, list[Occupant]] = {}
    for raw in pods:
        pod = Pod.parse(raw)
        try:
            if not pod.is_finished and (pod.node_name or pod.is_of_deployment):
                kind, name = pod.owner()
                cpu_m, memory = pod.requests()
                occupant = Occupant(
                    name,
                    cpu_m,
                    memory,
                    kind,
                    pod.namespace,
                    "pods",
                    pod.devices(),
                    selector=mapping(pod.spec.get("nodeSelector"))
                    if pod.is_of_deployment
                    else None,
                )
                occupants.setdefault(pod.node_name or "", []).append(occupant)
        except (QuantityError, ValueError) as error:
            raise ArcError(f"pod {pod.name}: {error}") from None
        except (AttributeError, TypeError, KeyError):
            raise ArcError(f"pod {pod.name} is not shaped like a Pod object") from None
    return occupants


def extension_selector(
    occupants: Mapping[str, list[Occupant]], namespace: str = EXTENSION_NAMESPACE
) -> dict[str, str]:
    """The nodeSelector of the extension, as its own pods show it.

    Every Deployment of the extension has it, so what all of their pods ask for, waiting ones too,
    is the setting: `{"agentpool": "system"}`. Without such a pod nothing is known or assumed.
    """
    selectors = [
        set(row.selector.items())
        for rows in occupants.values()
        for row in rows
        if row.namespace == namespace and row.selector is not None
    ]
    common = set.intersection(*selectors) if selectors else set()
    return {key: value for key, value in sorted(common) if key not in PLATFORM_LABELS}
