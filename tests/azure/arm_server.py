"""A small Azure Resource Manager on loopback, with TLS: enough of the published REST API for the real SDKs.

Sign-in, provider registration, AKS clusters, their node pools (GET, PUT), extensions (GET, PUT, PATCH) and AzureML
computes (GET, PUT), each change as a long-running operation with Azure-AsyncOperation polling; the spot tables of
Resource Graph (POST); errors in ARM's own format.
https://learn.microsoft.com/rest/api/kubernetesconfiguration, https://learn.microsoft.com/rest/api/azureml
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-of-the-tests"
SECRET = "a-secret-of-the-tests"
SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"

_EXTENSION = re.compile(
    r"(?P<cluster>/.*?)/providers/microsoft\.kubernetesconfiguration/extensions(/(?P<name>[^/]+))?",
    re.I,
)
_POOL = re.compile(r"(?P<cluster>/.*?/managedClusters/[^/]+)/agentPools/(?P<name>[^/]+)", re.I)
_COMPUTE = re.compile(r"(?P<workspace>/.*?/workspaces/[^/]+)/computes(/(?P<name>[^/]+))?", re.I)


_NOT_REGISTERED = (
    "The subscription is not registered to use namespace 'Microsoft.KubernetesConfiguration'."
)


class Failure(Exception):
    """An answer in ARM's error format."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass
class Operation:
    """A long-running operation: how many more polls it takes, and its error if it will fail."""

    resource: dict[str, Any]
    polls: int
    error: dict[str, Any] | None


@dataclass
class Arm:
    """The state, which a test sets, and what it was asked, which a test looks at."""

    provider_state: str = "Registered"
    resources: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # clusters and workspaces, by lower-case id
    extensions: dict[str, dict[str, Any]] = field(default_factory=dict)
    computes: dict[str, dict[str, Any]] = field(default_factory=dict)
    pools: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Rows of Resource Graph's SpotResources: (type, size, region) -> properties
    spot_resources: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    polls: int = 2
    fail_with: dict[str, Any] | None = None  # the error of the next operation
    error_info: dict[str, Any] | None = None  # what a failed extension then says about itself
    denied: set[str] = field(default_factory=set)  # methods that answer 403
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    operations: dict[str, Operation] = field(default_factory=dict)
    base: str = ""

    @property
    def writes(self) -> list[tuple[str, str, Any]]:
        return [row for row in self.requests if row[0] != "GET"]

    def sign_in(self, path: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Microsoft Entra: where its endpoints are, and a token for a client secret and the scope of this server."""
        tenant = path.split("/")[1]
        if path.endswith("/openid-configuration"):
            base = f"{self.base}/{tenant}/oauth2/v2.0"
            return 200, {
                "issuer": f"{self.base}/{tenant}/v2.0",
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
            }
        if (
            form.get("client_secret") != [SECRET]
            or f"{self.base}/.default" not in form["scope"][0].split()
        ):
            reason = "AADSTS7000215: Invalid client secret provided. Ensure that it is the value and not the id."
            return 401, {"error": "invalid_client", "error_description": reason}
        return 200, {"token_type": "Bearer", "expires_in": 3600, "access_token": TOKEN}

    def answer(
        self, method: str, url: str, body: Any
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        parts = urlsplit(url)
        path, query = parts.path, parse_qs(parts.query)
        self.requests.append((method, url, body))
        if "api-version" not in query:
            raise Failure(
                400, "MissingApiVersionParameter", "The api-version query parameter is required."
            )
        if method in self.denied:
            raise Failure(
                403,
                "AuthorizationFailed",
                f"The client does not have authorization to perform {method} on {path}.",
            )
        if "/operations/" in path:
            return self._operation(path)
        if path.lower().endswith("/providers/microsoft.kubernetesconfiguration"):
            return (
                200,
                {
                    "namespace": "Microsoft.KubernetesConfiguration",
                    "registrationState": self.provider_state,
                },
                {},
            )
        if path.lower() == "/providers/microsoft.resourcegraph/resources":
            return self._resource_graph(method, body)
        if match := _EXTENSION.fullmatch(path):
            return self._extension(method, path, match["cluster"], match["name"], body)
        if match := _POOL.fullmatch(path):
            return self._pool(method, path, match["cluster"], match["name"], body)
        if match := _COMPUTE.fullmatch(path):
            return self._compute(method, path, match["workspace"], match["name"], body, query)
        found = self.resources.get(path.lower())
        if method != "GET" or found is None:
            raise Failure(404, "ResourceNotFound", f"The Resource '{path}' was not found.")
        return 200, found, {}

    def _extension(
        self, method: str, path: str, cluster: str, name: str | None, body: Any
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        if self.provider_state != "Registered":
            raise Failure(409, "MissingSubscriptionRegistration", _NOT_REGISTERED)
        if cluster.lower() not in self.resources:
            raise Failure(
                404, "ParentResourceNotFound", f"The parent resource '{cluster}' was not found."
            )
        if name is None:
            return 200, {"value": list(self.extensions.values())}, {}
        there = self.extensions.get(path.lower())
        if method == "GET":
            if there is None:
                raise Failure(404, "ResourceNotFound", f"Extension {name} was not found.")
            return 200, there, {}
        properties = dict(body.get("properties") or {})
        if method == "PATCH":
            if there is None:
                raise Failure(404, "ResourceNotFound", f"Extension {name} was not found.")
            settings = {
                **there["properties"].get("configurationSettings", {}),
                **properties.pop("configurationSettings", {}),
            }
            merged = {**there["properties"], **properties, "configurationSettings": settings}
            item = {**there, "properties": {**merged, "provisioningState": "Updating"}}
        else:
            item = {
                "id": path,
                "name": name,
                "type": "Microsoft.KubernetesConfiguration/extensions",
                **body,
                "properties": {
                    **properties,
                    "provisioningState": "Creating",
                    "currentVersion": "1.1.60",
                },
            }
        self.extensions[path.lower()] = item
        headers = self._start(path, item)
        return (202 if method == "PATCH" else 201), item, headers

    def _resource_graph(self, method: str, body: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Only queries about one size and region, which is all that is asked; the answer as objectArray."""
        if method != "POST" or body["options"]["resultFormat"] != "objectArray":
            raise Failure(400, "BadRequest", "Please provide below info when asking for support.")
        query = body["query"]
        kind, size, region = (
            re.search(pattern, query, re.I)
            for pattern in (
                r"type =~ '([^']+)'",
                r"sku\.name in~ \('([^']+)'\)",
                r"location in~ \('([^']+)'\)",
            )
        )
        if not (query.startswith("SpotResources\n") and kind and size and region):
            raise Failure(400, "InvalidQuery", "Query is invalid.")
        properties = self.spot_resources.get((kind[1], size[1], region[1]))
        rows: list[dict[str, Any]] = []
        if properties and "evictionRate" in query:
            rows = [{"rate": properties["evictionRate"]}]
        elif properties and "spotPrices[0].priceUSD" in query:
            rows = [{"price": properties["spotPrices"][0]["priceUSD"]}]
        return (
            200,
            {
                "totalRecords": len(rows),
                "count": len(rows),
                "data": rows,
                "resultTruncated": "false",
            },
            {},
        )

    def _pool(
        self, method: str, path: str, cluster: str, name: str, body: Any
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        if cluster.lower() not in self.resources:
            raise Failure(404, "ResourceNotFound", f"The Resource '{cluster}' was not found.")
        if method == "GET":
            if path.lower() not in self.pools:
                raise Failure(404, "ResourceNotFound", f"There is no pool {name}.")
            return 200, self.pools[path.lower()], {}
        properties = {**body["properties"], "provisioningState": "Creating"}
        item = {
            "id": path,
            "name": name,
            "type": "Microsoft.ContainerService/managedClusters/agentPools",
            "properties": properties,
        }
        self.pools[path.lower()] = item
        return 201, item, self._start(path, item)

    def _compute(
        self,
        method: str,
        path: str,
        workspace: str,
        name: str | None,
        body: Any,
        query: dict[str, list[str]],
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        if workspace.lower() not in self.resources:
            raise Failure(404, "ResourceNotFound", f"The Resource '{workspace}' was not found.")
        if name is None:  # one item a page
            rows, skip = list(self.computes.values()), int(query.get("$skip", ["0"])[0])
            more = f"{self.base}{path}?api-version={query['api-version'][0]}&$skip={skip + 1}"
            page: dict[str, Any] = {"value": rows[skip : skip + 1]}
            if skip + 1 < len(rows):
                page["nextLink"] = more
            return 200, page, {}
        if method == "GET":
            if path.lower() not in self.computes:
                raise Failure(404, "ComputeNotFound", f"There is no compute {name}.")
            return 200, self.computes[path.lower()], {}
        item = {
            "id": path,
            "name": name,
            "type": "Microsoft.MachineLearningServices/workspaces/computes",
            **body,
            "properties": {**body["properties"], "provisioningState": "Creating"},
        }
        self.computes[path.lower()] = item
        return 201, item, self._start(path, item)

    def _start(self, path: str, item: dict[str, Any]) -> dict[str, str]:
        number = str(len(self.operations) + 1)
        self.operations[number] = Operation(item, self.polls, self.fail_with)
        self.fail_with = None
        return {
            "Azure-AsyncOperation": f"{self.base}{path}/operations/{number}?api-version=2023-05-01"
        }

    def _operation(self, path: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        number = path.rsplit("/", 1)[1]
        operation = self.operations.get(number)
        if operation is None:
            raise Failure(404, "OperationNotFound", f"There is no operation {number}.")
        operation.polls -= 1
        if operation.polls > 0:
            return (
                200,
                {"name": number, "status": operation.resource["properties"]["provisioningState"]},
                {},
            )
        state = "Failed" if operation.error else "Succeeded"
        operation.resource["properties"]["provisioningState"] = state
        if operation.error and self.error_info:
            operation.resource["properties"]["errorInfo"] = self.error_info
        status: dict[str, Any] = {"name": number, "status": state}
        if operation.error:
            status["error"] = operation.error
        return 200, status, {}


class LoopbackServer:
    """The Arm behind TLS on a free loopback port; stops for certain when left."""

    def __init__(self, folder: Path) -> None:
        self.arm = Arm()
        self.certificate = folder / "certificate.pem"
        key = folder / "key.pem"
        _write_certificate(self.certificate, key)
        arm = self.arm

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length)
                headers: dict[str, str] = {}
                try:
                    if "/v2.0/" in self.path:
                        status, body = arm.sign_in(self.path, parse_qs(raw.decode()))
                    elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
                        raise Failure(401, "AuthenticationFailed", "Authentication failed.")
                    else:
                        status, body, headers = arm.answer(
                            self.command, self.path, json.loads(raw) if raw else None
                        )
                except Failure as failure:
                    status = failure.status
                    body = {"error": {"code": failure.code, "message": failure.message}}
                data = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_PATCH = do_POST = _serve

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = arm.base = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> LoopbackServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _write_certificate(certificate: Path, key_file: Path) -> None:
    """A self-signed certificate for 127.0.0.1, so that the SDKs send their tokens as in production."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
