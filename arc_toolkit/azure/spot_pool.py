"""A spot node pool of AKS as data: early refusals, and the body of the request. Pure.

Facts: https://learn.microsoft.com/azure/aks/spot-node-pool,
https://learn.microsoft.com/azure/virtual-machines/spot-vms and, for sizes and labels,
https://learn.microsoft.com/azure/aks/quotas-skus-regions and .../aks/use-labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.labels import labels_text, parse_label
from arc_toolkit.kube.taints import EFFECTS, SPOT_KEY, Taint
from arc_toolkit.sizing import vm_sizes
from arc_toolkit.sizing.vm_sizes import VmSize

ON_DEMAND_PRICE = Decimal(-1)
EVICTION_POLICIES = ("Delete", "Deallocate")
MAX_NODES = 1000
RESERVED_PREFIX = "kubernetes.azure.com/"

_NAME = re.compile(r"[a-z][a-z0-9]{0,11}", re.ASCII)
# Sizes without spot VMs: the B-series, and promotional versions of any size.
_BURSTABLE = re.compile(r"standard_b\d", re.IGNORECASE)


@dataclass(frozen=True)
class SpotPool:
    """A spot pool with the cluster autoscaler; refuses what Azure would refuse."""

    name: str
    size: VmSize
    minimum: int = 0
    maximum: int = 4
    count: int = 0
    eviction_policy: str = EVICTION_POLICIES[0]
    max_price: Decimal = ON_DEMAND_PRICE
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    zones: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ArcError(
                f"{self.name!r} cannot be the name of a node pool: "
                "use 1 to 12 lower-case letters and digits, a letter first"
            )
        _check_size(self.size)
        if not 0 <= self.minimum <= self.maximum <= MAX_NODES or not self.maximum:
            raise ArcError(
                f"--min {self.minimum} --max {self.maximum}: "
                f"the autoscaler needs 0 <= min <= max <= {MAX_NODES}, "
                "and a max of at least 1"
            )
        if not self.minimum <= self.count <= self.maximum:
            raise ArcError(
                f"--count {self.count} is not between --min {self.minimum} and "
                f"--max {self.maximum}: Azure refuses it"
            )

    @property
    def description(self) -> str:
        """One line for each property that has a value."""
        size = self.size
        gpus = f", {size.node_gpus} GPUs" if size.gpus else ""
        is_limited = self.max_price != ON_DEMAND_PRICE
        limit = (
            f"{price_text(self.max_price)} USD per hour" if is_limited else "the on-demand price"
        )
        rows = {
            "size": f"{size.name} ({size.vcpus_available} vCPUs, "
            f"{float(size.memory_gib):g} GiB{gpus})",
            "nodes": f"{self.minimum} to {self.maximum} by the autoscaler, {self.count} at first",
            "eviction policy": self.eviction_policy,
            "price": f"at most {limit}",
            "labels": labels_text(self.labels),
            "taints": ", ".join(map(str, self.taints)),
            "zones": ", ".join(self.zones),
        }
        return "\n".join(f"  {key:<15}  {value}" for key, value in rows.items() if value)

    @property
    def notes(self) -> list[str]:
        """What is allowed and may still surprise."""
        notes = []
        if self.eviction_policy == "Deallocate":
            notes.append(
                "--eviction-policy Deallocate: evicted nodes keep their disks and "
                "count against the quota, "
                "and disturb the autoscaler; AKS's default is Delete"
            )
        if self.size.architecture != "amd64":
            notes.append(
                f"{self.size.name} is {self.size.architecture}: "
                "images built for amd64 do not start there"
            )
        if self.max_price != ON_DEMAND_PRICE:
            notes.append(
                "nodes are also evicted when the spot price is above --max-price; -1 avoids that"
            )
        return notes


def spot_pool(
    name: str,
    size: str,
    *,
    minimum: int,
    maximum: int,
    count: int | None,
    eviction_policy: str,
    max_price: str,
    labels: Iterable[str] = (),
    taints: Iterable[str] = (),
    zones: Iterable[str] = (),
) -> SpotPool:
    """From what a person writes; `count` is the minimum if it is not given."""
    return SpotPool(
        name,
        vm_sizes.lookup(size),
        minimum,
        maximum,
        minimum if count is None else count,
        eviction_policy,
        parse_price(max_price),
        _labels(labels),
        tuple(dict.fromkeys(_taint(text) for text in taints)),
        _zones(zones),
    )


def parse_price(text: str) -> Decimal:
    """US dollars per hour, or -1 for no limit below the on-demand price."""
    try:
        price = Decimal(text)
    except InvalidOperation:
        price = Decimal("NaN")
    if price == ON_DEMAND_PRICE:
        return ON_DEMAND_PRICE
    if not price.is_finite() or price <= 0 or price != round(price, 5):
        raise ArcError(
            f"--max-price {text}: use -1 (at most the on-demand price), "
            "or US dollars per hour above 0 with at most 5 decimals"
        )
    return price


def price_text(price: Decimal) -> str:
    """Without an exponent and without zeros at the end."""
    text = f"{price:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def check_size(size: VmSize) -> None:
    """Refuse a size of which there are no spot VMs."""
    if _BURSTABLE.match(size.name):
        raise ArcError(
            f"{size.name}: there are no spot VMs of the B-series; "
            "choose another size, such as D4s_v5"
        )
    if size.name.lower().endswith("_promo"):
        raise ArcError(
            f"{size.name}: there are no spot VMs of promotional sizes; "
            "choose the size without _Promo"
        )


def _check_size(size: VmSize) -> None:
    check_size(size)
    # "fewer than two CPUs may not be used with AKS": .../aks/quotas-skus-regions
    if size.vcpus_available < 2:
        raise ArcError(f"{size.name} is too small: AKS needs nodes with at least 2 vCPUs")


def check_cluster(resource: Mapping[str, Any], name: str) -> None:
    """Refuse a cluster that cannot have this pool; `resource` is the cluster's own JSON."""
    properties = resource.get("properties") or {}
    cluster = resource.get("name")
    pools = properties.get("agentPoolProfiles") or ()
    if any(str(pool.get("name")) == name for pool in pools):
        raise ArcError(
            f"{cluster} has a pool {name!r} already, "
            "and priority, eviction policy and price of a pool cannot be "
            "changed: choose another name"
        )
    if any(str(pool.get("type")) == "AvailabilitySet" for pool in pools):
        raise ArcError(
            f"{cluster} uses availability sets: spot pools need a cluster with scale sets"
        )
    if str((properties.get("networkProfile") or {}).get("loadBalancerSku", "")).lower() == "basic":
        raise ArcError(f"{cluster} has a Basic load balancer: spot pools need the Standard one")
    if str((properties.get("powerState") or {}).get("code")) == "Stopped":
        raise ArcError(f"{cluster} is stopped: start it first with `az aks start`")


def pool_body(pool: SpotPool) -> dict[str, Any]:
    """The body of the PUT. AKS adds the spot label and taint by itself."""
    properties: dict[str, Any] = {
        "mode": "User",
        "osType": "Linux",
        "vmSize": pool.size.name,
        "count": pool.count,
        "enableAutoScaling": True,
        "minCount": pool.minimum,
        "maxCount": pool.maximum,
        "scaleSetPriority": "Spot",
        "scaleSetEvictionPolicy": pool.eviction_policy,
        "spotMaxPrice": float(pool.max_price),
    }
    if pool.labels:
        properties["nodeLabels"] = dict(pool.labels)
    if pool.taints:
        properties["nodeTaints"] = [str(taint) for taint in pool.taints]
    if pool.zones:
        properties["availabilityZones"] = list(pool.zones)
    return {"properties": properties}


def _labels(texts: Iterable[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        label = parse_label(text)
        if label is None:
            raise ArcError(f"--label {text!r}: write KEY=VALUE, such as team=vision")
        key, value = label
        _check_reserved("--label", key)
        if labels.setdefault(key, value) != value:
            raise ArcError(f"--label {key} is given twice, as {labels[key]!r} and {value!r}")
    return labels


def _taint(text: str) -> Taint:
    label, _, effect = text.rpartition(":")
    pair = parse_label(label)
    if pair is None or effect not in EFFECTS:
        raise ArcError(f"--taint {text!r}: write KEY=VALUE:EFFECT, with {', '.join(EFFECTS)}")
    _check_reserved("--taint", pair[0])
    return Taint(*pair, effect)


def _check_reserved(option: str, key: str) -> None:
    if key == SPOT_KEY:
        raise ArcError(
            f"{option} {key}: AKS sets label and taint of a spot pool by itself; leave it out"
        )
    if key.startswith(RESERVED_PREFIX):
        raise ArcError(f"{option} {key}: the prefix {RESERVED_PREFIX} is reserved for AKS")


def _zones(texts: Iterable[str]) -> tuple[str, ...]:
    zones = tuple(dict.fromkeys(texts))
    for zone in zones:
        if zone not in ("1", "2", "3"):
            raise ArcError(f"--zone {zone}: an availability zone is 1, 2 or 3")
    return zones
