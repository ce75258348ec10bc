"""What the apiserver, TLS and the network can refuse, each as one sentence that says what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from arc_toolkit.errors import ArcError

if TYPE_CHECKING:
    import ssl

INSTANCE_TYPES = "/apis/amlarc.azureml.com/v1alpha1/instancetypes"

_OF_JOBS = frozenset({"pods", "nodes", "events", "podgroups", "jobs"})
# The ClusterRoles of docs/rbac.yaml: verb -> resources. tests/cluster/test_rbac.py tries each.
ROLES = {
    "arc-toolkit-read": {"list": frozenset({"nodes", "pods", "instancetypes", "namespaces"})},
    "arc-toolkit-watch": {"watch": frozenset({"nodes"})},
    "arc-toolkit-apply": dict.fromkeys(("create", "patch"), frozenset({"instancetypes"})),
    "arc-toolkit-prune": {"delete": frozenset({"instancetypes"})},
    "arc-toolkit-diagnose": {"list": _OF_JOBS},
    "arc-toolkit-record": {"watch": _OF_JOBS},
}

# AKS with Azure RBAC for Kubernetes adds a sentence: «User does not have access to the resource in
# Azure. ...». Custom resources are only covered by managedClusters/*/read:
# https://learn.microsoft.com/azure/aks/manage-azure-rbac
_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)


def _causes(body: dict[str, Any]) -> list[dict[str, Any]]:
    return (body.get("details") or {}).get("causes") or []


class Unreachable(ArcError):
    """No answer: the network, the address or TLS."""


class ApiError(ArcError):
    """An error as answer; `status` is the HTTP code and `body` the Status object (or {})."""

    def __init__(self, sentence: str, status: int, body: dict[str, Any]) -> None:
        super().__init__(sentence)
        self.status = status
        self.body = body


class NotFound(ApiError):
    """404: no such object, or no such kind of object."""


class Forbidden(ApiError):
    """403; the sentence names the verb, the resource and the role that gives it."""


class Conflict(ApiError):
    """409: another field manager owns a field, or the object changed meanwhile."""

    def fields(self) -> list[tuple[str, str]]:
        """(field, manager) of each conflict of a server-side apply."""
        pairs = []
        for cause in _causes(self.body):
            manager = re.search(r'"([^"]+)"', cause.get("message", ""))
            pairs.append(
                (cause.get("field", "?").lstrip("."), manager[1] if manager else "another manager")
            )
        return pairs


class Gone(ApiError):
    """The server has no changes after this resource version: too old (410), or too new.

    List again.
    """


def response_error(
    status: int, body: dict[str, Any], *, method: str, path: str, server: str, hint: str = ""
) -> ApiError:
    """The error for an answer of 400 or more; `hint`: a known problem of the credentials."""
    message = str(body.get("message") or "no message").strip()
    if status == 401:
        sentence = (
            f"{server} does not accept these credentials (401): {f'{hint}; ' if hint else ''}"
            "sign in again or refresh the kubeconfig (for AKS: `az aks get-credentials`)"
        )
        return ApiError(sentence, status, body)
    if status == 403:
        return Forbidden(_forbidden_text(message, server), status, body)
    if status == 404:
        return NotFound(_not_found_text(message, body, path, server), status, body)
    if status == 409:
        return Conflict(f"{server}: {message}", status, body)
    if status == 410 or any(
        cause.get("reason") == "ResourceVersionTooLarge" for cause in _causes(body)
    ):
        return Gone(f"{server}: what was read has expired ({message})", status, body)
    return ApiError(f"{server} answered {status} to {method} {path}: {message}", status, body)


def _forbidden_text(message: str, server: str) -> str:
    denied = _DENIED.search(message)
    if not denied:
        return f"{server} forbids it: {message}"
    if denied["user"] == "system:anonymous":
        return (
            f"{server} needs a sign-in, and the user of this context has no credentials: "
            "check the kubeconfig"
        )
    verb, resource = denied["verb"], denied["resource"]
    full = f"{resource}.{denied['group']}" if denied["group"] else resource
    scope = f" in namespace {denied['namespace']}" if denied["namespace"] else ""
    sentence = f'user "{denied["user"]}" may not {verb} {full}{scope} on {server}: '
    if verb == "impersonate":
        return sentence + "--as needs the right to impersonate"
    if "in Azure" in message[denied.end() :]:
        return sentence + (
            "this cluster asks Azure for rights, so a ClusterRole does not help: "
            "ask for an Azure role such as "
            "Azure Kubernetes Service RBAC Cluster Admin, or one of your own"
            + (
                " with Microsoft.ContainerService/managedClusters/*/read"
                if verb in ("list", "watch", "get")
                else ""
            )
        )
    roles = [role for role, rights in ROLES.items() if resource in rights.get(verb, ())]
    if not roles:
        return sentence + "ask for that right"
    return sentence + f"the ClusterRole {' or '.join(roles)} of docs/rbac.yaml gives that right"


def _not_found_text(message: str, body: dict[str, Any], path: str, server: str) -> str:
    # A kind that the server does not know is answered without the name of an object.
    if path.startswith(INSTANCE_TYPES) and not (body.get("details") or {}).get("name"):
        return (
            f"the AzureML extension is not installed, because {server} has no resource "
            "instancetypes.amlarc.azureml.com: "
            "install it with `arc-toolkit cluster extension install`"
        )
    return f"{server} has no {path}: {message}"


def transport_error(error: Exception, server: str) -> Unreachable:
    """The error for a request without an answer, by the cause inside of urllib3's error."""
    # From the outside in: an earlier attempt must not explain the last one.
    chain = _chain(error)
    sentences = (_sentence(cause, server) for cause in chain)
    unexplained = f"cannot reach {server} ({chain[-1]}): check that it runs, and --context"
    return Unreachable(next(filter(None, sentences), unexplained))


def _sentence(cause: BaseException, server: str) -> str | None:
    """What one error of the chain says about the request; None if another one explains it."""
    import ssl
    from http.client import IncompleteRead

    name = type(cause).__name__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _untrusted_text(cause, server)
    # A connection that is closed within TLS is an SSLError too, though TLS is not wrong.
    lost = (
        ssl.SSLEOFError,
        ssl.SSLZeroReturnError,
        ConnectionResetError,
        BrokenPipeError,
        IncompleteRead,
    )
    if isinstance(cause, lost) or name == "IncompleteRead":
        return (
            f"lost the connection to {server} before its answer was complete: "
            "check the network, a proxy or the VPN"
        )
    if isinstance(cause, ssl.SSLError):
        return (
            f"{server} does not speak TLS as expected ({cause.reason or cause}): check the address"
        )
    if isinstance(cause, TimeoutError) or "Timeout" in name:
        return f"{server} does not answer (timed out): check the address, the network or the VPN"
    if isinstance(cause, OSError) and cause.strerror:
        problem = cause.strerror[:1].lower() + cause.strerror[1:]
        return f"cannot reach {server} ({problem}): check that it runs, and --context"
    return None


# OpenSSL's x509_vfy.h: X509_V_ERR_CERT_HAS_EXPIRED, _HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH.
_EXPIRED, _OTHER_ADDRESS = 10, (62, 64)


def _untrusted_text(cause: ssl.SSLCertVerificationError, server: str) -> str:
    message = cause.verify_message.rstrip(".")
    if cause.verify_code == _EXPIRED:
        return f"the certificate of {server} has expired: renew it (for AKS: `az aks rotate-certs`)"
    if cause.verify_code in _OTHER_ADDRESS:
        return (
            f"the certificate of {server} is for another address ({message}): "
            "check the address of the server"
        )
    return (
        f"the certificate of {server} is not trusted ({message}): refresh the kubeconfig "
        "(for AKS: `az aks get-credentials`)"
    )


def _chain(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        cause = todo.pop(0)
        if cause is None or cause in causes:
            continue
        causes.append(cause)
        reasons = [getattr(cause, "reason", None), cause.__cause__, cause.__context__, *cause.args]
        todo += [reason for reason in reasons if isinstance(reason, BaseException)]
    return causes
