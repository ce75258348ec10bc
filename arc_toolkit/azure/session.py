"""Signing in, plain reads of Azure's management API, and errors as one sentence.

Nothing of azure.* is imported before it is needed. Tests pass their own credential, cloud and
client options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.errors import ArcError, missing_extra

NOT_SIGNED_IN = (
    "not signed in to Azure: run `az login`, "
    "or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, "
    "or run where a managed identity is"
)
# Microsoft Entra's own reason, among all that DefaultAzureCredential tells.
_REFUSED = re.compile(r"AADSTS\d+: [^.\r\n]+")


@dataclass(frozen=True)
class Cloud:
    """One Azure cloud: where its management API is and where one signs in."""

    name: str
    management_url: str
    authority: str


# As in azure-ai-ml: https://learn.microsoft.com/azure/developer/identity-platform/national-clouds
CLOUDS = {
    cloud.name: cloud
    for cloud in (
        Cloud("AzureCloud", "https://management.azure.com", "https://login.microsoftonline.com"),
        Cloud(
            "AzureUSGovernment",
            "https://management.usgovcloudapi.net",
            "https://login.microsoftonline.us",
        ),
        Cloud(
            "AzureChinaCloud",
            "https://management.chinacloudapi.cn",
            "https://login.chinacloudapi.cn",
        ),
    )
}


class AzureUnavailable(ArcError):
    """No sign-in or no network: nothing can be read, whatever is asked."""


class WouldSend(Exception):
    """The first request that would have changed something, as the SDK made it, in a dry run."""

    def __init__(self, method: str, path: str, body: Any) -> None:
        super().__init__(method, path)
        self.method, self.path, self.body = method, path, body


@dataclass(frozen=True)
class Session:
    """A credential and a cloud. `options` (proxies, polling_interval) go to every SDK client."""

    credential: Any
    cloud: Cloud = CLOUDS["AzureCloud"]
    options: Mapping[str, Any] = field(default_factory=dict)

    def client_options(self, *, read_only: bool) -> dict[str, Any]:
        """Options for an SDK client; a read-only one raises WouldSend for any method but GET.

        The guard is there twice: first in the pipeline, so that a dry run needs no token for its
        last request, and again behind the SDK's own policies, because one of those registers
        resource providers by itself.
        """
        options = dict(self.options)
        if read_only:
            guard = _guard()
            options |= {"per_call_policies": guard, "per_retry_policies": guard}
        return options

    def get(self, path: str, api_version: str) -> dict[str, Any] | None:
        """One resource as raw JSON; None where it does not exist."""
        with explain_errors(f"reading {path}"):
            response = self._send(f"{path}?api-version={api_version}")
            return None if response.status_code == 404 else _content(response)

    def list(self, path: str, api_version: str) -> list[dict[str, Any]]:
        """Every item of a paged list, raw."""
        items: list[dict[str, Any]] = []
        with explain_errors(f"listing {path}"):
            url: str | None = f"{path}?api-version={api_version}"
            while url:
                page = _content(self._send(url))
                items += page.get("value") or []
                url = page.get("nextLink")
        return items

    def query(self, path: str, api_version: str, body: dict[str, Any]) -> dict[str, Any]:
        """A question that Azure takes as POST, such as to Resource Graph; it changes nothing."""
        with explain_errors(f"asking {path}"):
            return _content(self._send(f"{path}?api-version={api_version}", body))

    def _send(self, url: str, body: dict[str, Any] | None = None) -> Any:
        from azure.core.pipeline import policies
        from azure.core.rest import HttpRequest
        from azure.mgmt.core import ARMPipelineClient
        from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

        base = self.cloud.management_url
        if url.startswith("https:") and not url.startswith(base + "/"):
            raise ArcError(
                f"Azure's answer points to another host ({url.split('/')[2]}): not followed"
            )
        chain = [
            policies.UserAgentPolicy("arc-toolkit"),
            policies.RetryPolicy(**self.options),
            ARMChallengeAuthenticationPolicy(self.credential, f"{base}/.default"),
        ]
        with ARMPipelineClient(base_url=base, policies=chain, **self.options) as client:
            full = url if url.startswith("https:") else base + url
            response = client.send_request(HttpRequest("POST" if body else "GET", full, json=body))
            response.read()
            return response


def open_session(cloud_name: str | None = None) -> Session:
    """Sign in as the person or service that runs this, by DefaultAzureCredential."""
    cloud = CLOUDS.get(cloud_name or "AzureCloud")
    if cloud is None:
        raise ArcError(
            f"unknown Azure cloud {cloud_name!r}: "
            f"there are {', '.join(CLOUDS)} (`az cloud set --name ...`)"
        )
    return sign_in(cloud, {"retry_total": 3, "polling_interval": 10})


def sign_in(cloud: Cloud, options: Mapping[str, Any]) -> Session:
    """A session on any cloud. The token comes with the first request."""
    try:
        import azure.mgmt.core  # noqa: F401
        from azure.identity import DefaultAzureCredential
    except ImportError:
        raise missing_extra("azure", "talking to Azure") from None
    quiet_logs()
    # A cloud that Microsoft Entra does not know cannot be looked up there.
    unknown = cloud.name not in CLOUDS
    credential = DefaultAzureCredential(
        authority=cloud.authority, disable_instance_discovery=unknown, **options
    )
    return Session(credential, cloud, options)


def quiet_logs() -> None:
    """The SDKs log what we report in a sentence; without a handler Python prints it on stderr."""
    import logging

    for name in ("azure", "msal", "msrest"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


@contextmanager
def explain_errors(doing: str) -> Iterator[None]:
    """Turn what the SDKs raise into one sentence that says what was being done and what to do."""
    try:
        from azure.core import exceptions
    except ImportError:
        raise missing_extra("azure", doing) from None
    try:
        yield
    except WouldSend as request:
        if request.path.split("?")[0].endswith("/register"):
            raise ArcError(
                f"{doing}: a resource provider is not registered: "
                "run `az provider register --namespace Microsoft.KubernetesConfiguration`"
            ) from None
        raise
    except exceptions.ClientAuthenticationError as error:
        if error.response is None or error.status_code != 401:
            refused = _REFUSED.search(str(error))
            raise AzureUnavailable(
                NOT_SIGNED_IN + (f" ({refused[0]})" if refused else "")
            ) from error
        raise ArcError(
            f"{doing}: Azure does not accept the sign-in: {error_text(error)}; run `az login` again"
        ) from error
    except exceptions.HttpResponseError as error:
        raise ArcError(f"{doing}: {error_text(error)}{_advice(error)}") from error
    except (exceptions.ServiceRequestError, exceptions.ServiceResponseError) as error:
        raise AzureUnavailable(f"{doing}: cannot reach Azure: {_one_line(str(error))}") from error
    except exceptions.AzureError as error:  # such as azure-ai-ml's own refusals
        raise ArcError(f"{doing}: {_one_line(str(error))}") from error


def error_text(error: Any) -> str:
    """`Code: message`, with the innermost reason, from an SDK error."""
    return _one_line(
        "; ".join(messages(_error_body(error))) or str(getattr(error, "message", error))
    )


def messages(body: Any) -> list[str]:
    """`Code: message` of an error object, then those inside it, without repeats."""
    texts: list[str] = []
    while isinstance(body, dict):
        texts.append(message(body))
        inner = body.get("details")
        body = inner[0] if isinstance(inner, list) and inner else None
    return [text for text in dict.fromkeys(texts) if text]


def message(row: Mapping[str, Any]) -> str:
    """`Code: message` in one line."""
    return " ".join(": ".join(str(row[key]) for key in ("code", "message") if row.get(key)).split())


def _error_body(error: Any) -> Any:
    """The `error` object of the response: of the request, or of the long-running operation."""
    try:
        data = json.loads(error.response.text())
    except (AttributeError, ValueError, TypeError):
        return None
    body = data.get("error") if isinstance(data, dict) else None
    if body is None and isinstance(data, dict) and isinstance(data.get("properties"), dict):
        body = data["properties"].get("errorInfo") or data["properties"].get("error")
    return body


# HTTP status -> what to do about it.
_ADVICE = {
    403: "; ask for a role that allows this action at that scope "
    "(such as Contributor on the cluster)",
    409: "; it exists, or another operation is in progress: "
    "look with `arc-toolkit cluster extension show`",
    429: "; Azure asks to wait: try again in a minute",
}


def _advice(error: Any) -> str:
    method = getattr(getattr(error.response, "request", None), "method", "")
    if error.status_code == 403 and method in ("GET", "HEAD"):
        return "; ask for the role Reader at that scope, which is enough to read"
    return _ADVICE.get(error.status_code, "")


def _one_line(text: str) -> str:
    from arc_toolkit.output.redaction import redact
    from arc_toolkit.text import printable

    return redact(printable(" ".join(text.split()))).rstrip(". ")


def _content(response: Any) -> dict[str, Any]:
    from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

    if response.status_code == 401:
        raise ClientAuthenticationError(response=response)
    if response.status_code >= 400:
        raise HttpResponseError(response=response)
    content: dict[str, Any] = response.json()
    return content


def _guard() -> Any:
    """A pipeline policy that lets nothing but reads through."""
    from urllib.parse import urlsplit

    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class Guard(SansIOHTTPPolicy):  # type: ignore[misc]
        def on_request(self, request: Any) -> None:
            http = request.http_request
            if http.method in ("GET", "HEAD"):
                return
            parts = urlsplit(http.url)
            # new and old request class
            content = getattr(http, "content", None) or getattr(http, "data", None)
            if isinstance(content, bytes):
                content = content.decode("utf-8")
            raise WouldSend(
                http.method,
                parts.path + (f"?{parts.query}" if parts.query else ""),
                json.loads(content) if content else None,
            )

    return Guard()
