"""Logs of an AzureML job: the real azure-ai-ml against a server on loopback."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arc_toolkit.diagnosis.model import LogFile
from arc_toolkit.diagnosis.read.scan import LogScan, scan
from arc_toolkit.diagnosis.read.sources import azureml_jobs
from arc_toolkit.errors import ArcError
from tests.cluster.certificates import Authority
from tests.support import Result, unavailable

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
LOGS = {
    "/store/first": b"++ echo 'Run on node: aks-spot-12345678-vmss000001'\n",
    "/store/second": b"++ echo 'Run on node: aks-spot-12345678-vmss000002'\n",
    "/store/user": b"secrets of the user's own log\n",
}


class Service(ThreadingHTTPServer):
    """As much of Azure as the SDK asks for, with TLS: the workspace, its endpoints, run history, signed addresses."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        authority = Authority()
        pair = authority.issue("localhost")
        self.authority = folder / "ca.pem"
        self.authority.write_bytes(authority.certificate)
        for name, data in (("server.pem", pair.certificate), ("server.key", pair.key)):
            (folder / name).write_bytes(data)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        self.asked: list[str] = []
        self.details: dict[str, dict[str, str]] = {}
        self.children: dict[str, list[str]] = {}


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        parts = path.split("/")
        if path.endswith("/workspaces/ml-ws"):
            return self.json(
                200,
                {"name": "ml-ws", "properties": {"discoveryUrl": f"{self.server.url}/discovery"}},
            )
        if path == "/discovery":
            return self.json(200, {"api": self.server.url, "history": self.server.url})
        if path.endswith("/details") and parts[-2] in self.server.details:
            places = self.server.details[parts[-2]]
            files = {
                name: f"{self.server.url}{place}?sig=very-secret" for name, place in places.items()
            }
            return self.json(200, {"runId": parts[-2], "status": "Completed", "logFiles": files})
        if path.endswith("/children"):
            return self.json(
                200,
                {"value": [{"runId": name} for name in self.server.children.get(parts[-2], [])]},
            )
        if path == "/store/cut":
            return self.answer(200, b"Run on node: aks-cut-1\n", length=9999)
        if path in LOGS:
            return self.answer(200, LOGS[path])
        if path.startswith("/store/"):
            return self.answer(403, b"expired")
        return self.json(
            404, {"error": {"code": "UserError", "message": f"{parts[-2]} was not found."}}
        )

    def json(self, status: int, body: object) -> None:
        self.answer(status, json.dumps(body).encode())

    def answer(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Service]:
    try:
        import azure.ai.ml  # noqa: F401
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    from arc_toolkit.azure import session

    with Service(tmp_path) as service:
        threading.Thread(
            target=service.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        cloud = session.Cloud(f"loopback-{service.server_address[1]}", service.url, service.url)
        token = SimpleNamespace(token="a-token-of-the-tests", expires_on=int(time.time()) + 3600)
        credential = SimpleNamespace(get_token=lambda *_, **__: token)
        options = {"connection_verify": str(service.authority), "retry_total": 0}
        monkeypatch.setattr(
            session, "open_session", lambda _: session.Session(credential, cloud, options)
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(service.authority))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(service.authority))
        monkeypatch.setenv(
            "AZUREML_CURRENT_CLOUD", "AzureCloud"
        )  # azure-ai-ml writes it; this puts it back
        yield service
        service.shutdown()


def list_logs(job: str) -> list[LogFile]:
    return list(azureml_jobs.list_logs(job, "ml-ws", "ml-rg", SUBSCRIPTION))


def read(logs: list[LogFile]) -> dict[str, Any]:
    return {log.path: scan(log) for log in logs}


pytestmark = pytest.mark.real


def test_logs_of_a_job_with_its_retries_are_read_one_by_one(service: Service) -> None:
    service.details["brave_sky"] = {
        "system_logs/amlarc_cr_bootstrap.log": "/store/first",
        "system_logs/retry-001/amlarc_cr_bootstrap.log": "/store/second",
        "user_logs/std_log.txt": "/store/user",
    }
    logs = list_logs("azureml:brave_sky")
    assert [log.path for log in logs] == [
        "azureml:brave_sky/system_logs/amlarc_cr_bootstrap.log",
        "azureml:brave_sky/system_logs/retry-001/amlarc_cr_bootstrap.log",
        "azureml:brave_sky/user_logs/std_log.txt",
    ]
    found = read(logs[:2])
    assert [one.nodes[0][-1] for one in found.values()] == ["1", "2"]
    assert "/store/user" not in service.asked  # only what is needed is fetched


def test_diagnose_names_the_job_and_both_nodes(
    service: Service, arc: Callable[..., Result]
) -> None:
    service.details["brave_sky"] = {
        "system_logs/amlarc_cr_bootstrap.log": "/store/first",
        "system_logs/retry-001/amlarc_cr_bootstrap.log": "/store/second",
        "user_logs/std_log.txt": "/store/user",
    }
    options = ("--workspace", "ml-ws", "--resource-group", "ml-rg", "--subscription", SUBSCRIPTION)
    result = arc("diagnose", "azureml:brave_sky", *options, "--format", "json")
    assert result.code == 0, result.err
    [job] = json.loads(result.out)["jobs"]
    assert (job["name"], [node[-1] for node in job["nodes"]]) == ("brave_sky", ["1", "2"])
    assert "very-secret" not in result.out + result.err
    assert "/store/user" not in service.asked


def test_steps_of_a_pipeline_are_included_once(service: Service) -> None:
    service.details["pipe"] = {}
    service.children["pipe"] = ["pipe", "step"]  # a parent may be listed among its children
    service.details["step"] = {"system_logs/amlarc_cr_bootstrap.log": "/store/first"}
    assert [log.path for log in list_logs("azureml:pipe")] == [
        "azureml:step/system_logs/amlarc_cr_bootstrap.log"
    ]


def test_job_that_does_not_exist_is_one_sentence(service: Service) -> None:
    with pytest.raises(ArcError, match=r"reading the job nobody: .*was not found") as caught:
        list_logs("azureml:nobody")
    assert "\n" not in str(caught.value)


def test_expired_url_is_a_reason_without_the_secret(service: Service) -> None:
    service.details["job"] = {"system_logs/amlarc_cr_bootstrap.log": "/store/expired"}
    [log] = list_logs("job")
    skipped = str(scan(log))
    assert "the storage answered 403" in skipped
    assert "very-secret" not in skipped


def test_connection_that_ends_early_keeps_what_was_read_and_is_reported(service: Service) -> None:
    service.details["job"] = {"system_logs/amlarc_cr_bootstrap.log": "/store/cut"}
    [log] = list_logs("job")
    found = scan(log)
    assert isinstance(found, LogScan)
    assert found.nodes == ["aks-cut-1"]
    assert "before the end" in found.note


def test_url_that_is_not_https_is_not_opened() -> None:
    with pytest.raises(OSError, match="not https"):
        azureml_jobs._open("file:///etc/passwd")


def test_a_missing_workspace_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AZURE_ML_WORKSPACE", "AZURE_DEFAULTS_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_CONFIG_DIR", str(tmp_path))
    with pytest.raises(ArcError, match="which workspace"):
        list(azureml_jobs.list_logs("azureml:job"))
