"""What Azure says about an installed extension, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Health:
    """What Azure says about an installed extension."""

    ok: bool
    reason: str


def health(item: Mapping[str, Any]) -> Health:
    """From provisioningState, errorInfo and statuses of the extension resource."""
    properties = item.get("properties") or {}
    state = str(properties.get("provisioningState") or "unknown")
    reasons = failure_reasons(item)
    version = properties.get("currentVersion") or properties.get("version")
    if state == "Succeeded" and not reasons:
        return Health(True, f"{item.get('name')}" + (f" {version}" if version else ""))
    return Health(False, "; ".join([f"{item.get('name')} is {state}", *reasons]))


def failure_reasons(item: Mapping[str, Any]) -> list[str]:
    """Every message of an error, without repeats."""
    properties = item.get("properties") or {}
    reasons: list[str] = []
    info = properties.get("errorInfo")
    while isinstance(info, Mapping):
        reasons.append(_text(info.get("code"), info.get("message")))
        inner = info.get("details")
        info = inner[0] if isinstance(inner, list) and inner else None
    for row in properties.get("statuses") or ():
        if str(row.get("level") or "").lower() == "error":
            reasons.append(_text(row.get("code"), row.get("message")))
    return [text for text in dict.fromkeys(reasons) if text]


# Part of a failure's text, lower case -> what to do.
# https://learn.microsoft.com/azure/machine-learning/how-to-troubleshoot-kubernetes-extension
ADVICE = (
    ("name that is still in use", "an earlier install holds the name: wait about an hour, or see `helm list -Aa`"),
    (
        "operation (install/upgrade/rollback) is in progress",
        "an earlier operation is not finished: try again in an hour",
    ),
    ("because it is being terminated", "an uninstall is not finished: wait until the namespace azureml is gone"),
    ("path not found", "that version does not exist: leave out --extension-version to get the latest"),
    ("failed to resolve the extension version", "no such version on this release train in this region"),
    ("invalid ownership metadata", "a resource of that name is there already: if Volcano is, use --no-volcano"),
    (
        "extension-immutable-values",
        "register Microsoft.KubernetesConfiguration and restart the cluster's extension agent",
    ),
    ("load_balancer_not_support", "--set inferenceRouterServiceType=NodePort or ClusterIP"),
    ("insufficient_node", "three nodes are needed for the router: --set inferenceRouterHA=False"),
    ("prometheus_conflict", "a Prometheus operator is there already: --set installPromOp=False"),
    ("bad_network_connectivity", "the cluster cannot reach what AzureML needs: check firewall and proxy"),
    ("timed out waiting", "pods of the extension did not start: `kubectl get pods,events -n azureml`"),
)
MORE = "the cluster's own report: `kubectl describe configmap -n azureml arcml-healthcheck`"


def advice(text: str) -> str:
    """What to do about a failure."""
    lower = text.lower()
    return next((todo for part, todo in ADVICE if part in lower), MORE)


def _text(code: Any, message: Any) -> str:
    return " ".join(": ".join(str(part) for part in (code, message) if part).split())
