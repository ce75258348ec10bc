"""Reading and changing the extension and node pools through the management SDKs.

A dry run is the same call with a client that raises WouldSend at its first write, so it shows what
would be sent.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arc_toolkit.azure import extension
from arc_toolkit.azure.scope import Cluster
from arc_toolkit.azure.session import Session, error_text, explain_errors
from arc_toolkit.errors import ArcError, missing_extra
from arc_toolkit.stderr import Progress

PROVIDER = "Microsoft.KubernetesConfiguration"
PROVIDERS_API = "2021-04-01"
# Cluster kind -> api-version of its own resource.
CLUSTER_API = {"managedClusters": "2024-09-01", "connectedClusters": "2024-01-01"}


def provider_state(session: Session, subscription: str) -> str:
    """`Registered`, `NotRegistered`, `Registering` or `Unregistering`."""
    provider = session.get(f"/subscriptions/{subscription}/providers/{PROVIDER}", PROVIDERS_API)
    return str((provider or {}).get("registrationState") or "unknown")


def check_provider(session: Session, cluster: Cluster) -> None:
    """Registering changes the whole subscription, and the SDK would otherwise do it unasked."""
    state = provider_state(session, cluster.subscription)
    if state in ("NotRegistered", "Unregistered"):
        raise ArcError(
            f"{PROVIDER} is {state} in this subscription: run `az provider register "
            f"--namespace {PROVIDER} --subscription {cluster.subscription}`"
        )


def cluster_resource(session: Session, cluster: Cluster) -> dict[str, Any]:
    """The cluster itself, raw; refuses one that is not there."""
    resource = session.get(cluster.resource_id, CLUSTER_API[cluster.kind])
    if resource is None:
        raise ArcError(
            f"no {cluster.kind[:-1]} {cluster.name!r} "
            f"in resource group {cluster.resource_group!r}, "
            "subscription "
            f"{cluster.subscription}: "
            f"see `az resource list --resource-type {cluster.provider}/{cluster.kind}`"
        )
    return resource


def find(session: Session, cluster: Cluster) -> Mapping[str, Any] | None:
    """The AzureML extension of the cluster as in the REST API, or None."""
    with (
        explain_errors(f"reading the extensions of {cluster.name}"),
        _client(session, cluster, read_only=True) as client,
    ):
        extensions = client.extensions.list(
            cluster.resource_group, cluster.provider, cluster.kind, cluster.name
        )
        return extension.pick(item.serialize(keep_readonly=True) for item in extensions)


def change(
    session: Session,
    cluster: Cluster,
    name: str,
    body: Mapping[str, Any],
    progress: Progress,
    *,
    installing: bool,
    dry_run: bool,
) -> Mapping[str, Any]:
    """PUT (install) or PATCH (update), and wait."""
    doing = f"{'installing' if installing else 'updating'} the extension {name!r} on {cluster.name}"
    target = (cluster.resource_group, cluster.provider, cluster.kind, cluster.name, name)
    with explain_errors(doing), _client(session, cluster, read_only=dry_run) as client:
        from azure.core.exceptions import HttpResponseError

        call = client.extensions.begin_create if installing else client.extensions.begin_update
        poller = call(*target, json.dumps(body).encode())
        try:
            changed: Mapping[str, Any] = wait(poller, doing, progress).serialize(keep_readonly=True)
        except HttpResponseError as error:
            raise _failure(session, cluster, doing, error) from error
    verdict = extension.health(changed)
    if not verdict.ok:
        raise ArcError(f"{doing}: {verdict.reason}; {extension.advice(verdict.reason)}")
    return changed


def wait(poller: Any, doing: str, progress: Progress) -> Any:
    """The result of a long-running operation; says every moment how it stands."""
    started = time.monotonic()
    while not poller.done():
        progress(f"{doing}: {poller.status()}, {time.monotonic() - started:.0f} s")
        poller.wait(0.2)
    return poller.result()


def _failure(session: Session, cluster: Cluster, doing: str, error: Any) -> ArcError:
    """What the operation says, what the extension itself says, and what to do."""
    reasons = [error_text(error)]
    try:
        installed = find(session, cluster)
    except ArcError:
        installed = None
    if installed is not None:
        reasons += [text for text in extension.failure_reasons(installed) if text not in reasons[0]]
    text = "; ".join(reasons)
    return ArcError(f"{doing} failed: {text}; {extension.advice(text)}")


def _client(session: Session, cluster: Cluster, *, read_only: bool) -> Any:
    try:
        from azure.mgmt.kubernetesconfiguration import SourceControlConfigurationClient
    except ImportError:
        raise missing_extra("azure", "the AzureML extension") from None
    return SourceControlConfigurationClient(
        session.credential,
        cluster.subscription,
        base_url=session.cloud.management_url,
        credential_scopes=[f"{session.cloud.management_url}/.default"],
        **session.client_options(read_only=read_only),
    )


def add_pool(
    session: Session,
    cluster: Cluster,
    name: str,
    body: Mapping[str, Any],
    progress: Progress,
    *,
    dry_run: bool,
) -> Mapping[str, Any]:
    """PUT and wait; gives the pool as Azure then shows it."""
    try:
        from azure.mgmt.containerservice import ContainerServiceClient
    except ImportError:
        raise missing_extra("azure", "adding a node pool") from None
    doing = f"adding the node pool {name!r} to {cluster.name}"
    client = ContainerServiceClient(
        session.credential,
        cluster.subscription,
        base_url=session.cloud.management_url,
        credential_scopes=[f"{session.cloud.management_url}/.default"],
        **session.client_options(read_only=dry_run),
    )
    with explain_errors(doing), client:
        poller = client.agent_pools.begin_create_or_update(
            cluster.resource_group, cluster.name, name, json.dumps(body).encode()
        )
        pool: Mapping[str, Any] = wait(poller, doing, progress).as_dict()
    state = (pool.get("properties") or {}).get("provisioningState")
    if state != "Succeeded":
        raise ArcError(f"{doing}: Azure says {state}; see `az aks nodepool show`")
    return pool


PATH = "/providers/Microsoft.ResourceGraph/resources"
API_VERSION = "2022-10-01"
_WORD = re.compile(r"[A-Za-z0-9_-]+")

RATE_QUERY = """\
SpotResources
| where type =~ 'microsoft.compute/skuspotevictionrate/location'
| where sku.name in~ ('{size}') and location in~ ('{region}')
| project rate = tostring(properties.evictionRate)"""
PRICE_QUERY = """\
SpotResources
| where type =~ 'microsoft.compute/skuspotpricehistory/ostype/location'
| where sku.name in~ ('{size}') and location in~ ('{region}') and properties.osType =~ 'linux'
| project price = todouble(properties.spotPrices[0].priceUSD)"""


@dataclass(frozen=True)
class SpotFacts:
    """`rate` as Azure writes its bands: `5-10`, `20+`; `price` in USD per hour, if it is known."""

    rate: str
    price: float | None


def spot_facts(session: Session, size: str, region: str) -> SpotFacts:
    for word in (size, region):
        if not _WORD.fullmatch(word):
            raise ArcError(f"{word!r} is not the name of a size or region")
    rates = _ask(session, RATE_QUERY.format(size=size.lower(), region=region.lower()))
    if not rates or not rates[0].get("rate"):
        raise ArcError(
            f"Azure Resource Graph has no eviction rate of {size} in {region}: use --eviction-rate"
        )
    prices = _ask(session, PRICE_QUERY.format(size=size.lower(), region=region.lower()))
    price = prices[0].get("price") if prices else None
    return SpotFacts(
        str(rates[0]["rate"]),
        float(price) if isinstance(price, int | float) and price > 0 else None,
    )


def _ask(session: Session, query: str) -> list[dict[str, object]]:
    answer = session.query(
        PATH, API_VERSION, {"query": query, "options": {"resultFormat": "objectArray"}}
    )
    rows = answer.get("data")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
