"""What the apiserver, TLS and the network can refuse, each as one sentence that says what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from arc_toolkit.errors import ArcError

if TYPE_CHECKING:
    import ssl

INSTANCE_TYPES = "/apis/amlarc.azureml.com/v1alpha1/instancetypes"

_OF_JOBS = frozenset({"pods", "nodes", "events", "podgroups", "jobs"})
# The ClusterRoles of docs/rbac.yaml: verb -> resources. tests/cluster/test_rbac.py compares them, and tries each verb.
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
    """An answer that is an error; `status` is the HTTP code and `body` the Status object (or {})."""

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
    """The server has no changes after this resource version: it is too old (410) or, after a restore, too new.

    List again.
    """


def from_response(
    status: int, body: dict[str, Any], *, method: str, path: str, where: str, hint: str = ""
) -> ApiError:
    """The error for an answer of 400 or more; `hint` is what is known to be wrong with the credentials."""
    message = str(body.get("message") or "no message").strip()
    if status == 401:
        sentence = (
            f"{where} does not accept these credentials (401): {f'{hint}; ' if hint else ''}"
            "sign in again or refresh the kubeconfig (for AKS: `az aks get-credentials`)"
        )
        return ApiError(sentence, status, body)
    if status == 403:
        return Forbidden(_forbidden(message, where), status, body)
    if status == 404:
        return NotFound(_not_found(message, body, path, where), status, body)
    if status == 409:
        return Conflict(f"{where}: {message}", status, body)
    if status == 410 or any(
        cause.get("reason") == "ResourceVersionTooLarge" for cause in _causes(body)
    ):
        return Gone(f"{where}: what was read has expired ({message})", status, body)
    return ApiError(f"{where} answered {status} to {method} {path}: {message}", status, body)


def _forbidden(message: str, where: str) -> str:
    denied = _DENIED.search(message)
    if not denied:
        return f"{where} forbids it: {message}"
    if denied["user"] == "system:anonymous":
        return f"{where} needs a sign-in, and the user of this context has no credentials: check the kubeconfig"
    verb, resource = denied["verb"], denied["resource"]
    full = f"{resource}.{denied['group']}" if denied["group"] else resource
    scope = f" in namespace {denied['namespace']}" if denied["namespace"] else ""
    sentence = f'user "{denied["user"]}" may not {verb} {full}{scope} on {where}: '
    if verb == "impersonate":
        return sentence + "--as needs the right to impersonate"
    if "in Azure" in message[denied.end() :]:
        return sentence + (
            "this cluster asks Azure for rights, so a ClusterRole does not help: ask for an Azure role such as "
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


def _not_found(message: str, body: dict[str, Any], path: str, where: str) -> str:
    # A kind that the server does not know is answered without the name of an object.
    if path.startswith(INSTANCE_TYPES) and not (body.get("details") or {}).get("name"):
        return (
            f"the AzureML extension is not installed, because {where} has no resource "
            "instancetypes.amlarc.azureml.com: install it with `arc-toolkit cluster extension install`"
        )
    return f"{where} has no {path}: {message}"


def from_transport(error: Exception, where: str) -> Unreachable:
    """The error for a request that got no answer. Takes what urllib3 raises, and finds the cause inside."""
    # From the outside in, so that an earlier attempt (in the context of the last one) does not explain the last.
    chain = _chain(error)
    sentences = (_sentence(cause, where) for cause in chain)
    unexplained = f"cannot reach {where} ({chain[-1]}): check that it runs, and --context"
    return Unreachable(next(filter(None, sentences), unexplained))


def _sentence(cause: BaseException, where: str) -> str | None:
    """What one error of the chain says about the request; None if another one explains it."""
    import ssl
    from http.client import IncompleteRead

    name = type(cause).__name__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _untrusted(cause, where)
    # A connection that is closed in the middle of TLS is an SSLError too, though TLS is not what is wrong.
    lost = (
        ssl.SSLEOFError,
        ssl.SSLZeroReturnError,
        ConnectionResetError,
        BrokenPipeError,
        IncompleteRead,
    )
    if isinstance(cause, lost) or name == "IncompleteRead":
        return f"lost the connection to {where} before its answer was complete: check the network, a proxy or the VPN"
    if isinstance(cause, ssl.SSLError):
        return (
            f"{where} does not speak TLS as expected ({cause.reason or cause}): check the address"
        )
    if isinstance(cause, TimeoutError) or "Timeout" in name:
        return f"{where} does not answer (timed out): check the address, the network or the VPN"
    if isinstance(cause, OSError) and cause.strerror:
        problem = cause.strerror[:1].lower() + cause.strerror[1:]
        return f"cannot reach {where} ({problem}): check that it runs, and --context"
    return None


# Of OpenSSL's x509_vfy.h: X509_V_ERR_CERT_HAS_EXPIRED; X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH.
_EXPIRED, _OTHER_ADDRESS = 10, (62, 64)


def _untrusted(cause: ssl.SSLCertVerificationError, where: str) -> str:
    message = cause.verify_message.rstrip(".")
    if cause.verify_code == _EXPIRED:
        return f"the certificate of {where} has expired: renew it (for AKS: `az aks rotate-certs`)"
    if cause.verify_code in _OTHER_ADDRESS:
        return f"the certificate of {where} is for another address ({message}): check the address of the server"
    return (
        f"the certificate of {where} is not trusted ({message}): refresh the kubeconfig "
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
