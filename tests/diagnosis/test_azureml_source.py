"""Logs of an AzureML job: the SDK's own run history client against a server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from arc_toolkit.diagnosis.model import LogFile
from arc_toolkit.diagnosis.scan import Scanned, scan
from arc_toolkit.diagnosis.sources import azureml
from arc_toolkit.errors import ArcError
from tests.support import unavailable

LOGS = {
    "/store/first": b"++ echo 'Run on node: aks-spot-12345678-vmss000001'\n",
    "/store/second": b"++ echo 'Run on node: aks-spot-12345678-vmss000002'\n",
    "/store/user": b"secrets of the user's own log\n",
}


class Service(ThreadingHTTPServer):
    """Run history (`.../runs/NAME/details`) and signed blob addresses; `asked` is what was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[str] = []
        self.details: dict[str, dict[str, str]] = {}

    def log_files(self, job: str) -> dict[str, str] | None:
        files = self.details.get(job)
        return files and {path: f"{self.url}{place}?sig=very-secret" for path, place in files.items()}


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        if path.endswith("/details"):
            name = path.split("/")[-2]
            files = self.server.log_files(name)
            if files is None:
                body = {"error": {"code": "UserError", "message": f"RunId {name} was not found."}}
                return self.answer(404, json.dumps(body).encode())
            return self.answer(200, json.dumps({"runId": name, "status": "Completed", "logFiles": files}).encode())
        if path == "/store/cut":
            return self.answer(200, b"Run on node: aks-cut-1\n", length=9999)
        if path in LOGS:
            return self.answer(200, LOGS[path])
        return self.answer(403, b"expired")

    def answer(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    try:
        from azure.ai.ml._restclient.runhistory import RunHistoryClient
        from azure.ai.ml._scope_dependent_operations import OperationConfig, OperationScope
        from azure.ai.ml.operations._run_operations import RunOperations
        from azure.core.pipeline.policies import SansIOHTTPPolicy
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    with Service() as service:
        thread = threading.Thread(target=service.serve_forever, daemon=True)
        thread.start()
        # A credential is demanded, but none is sent over plain HTTP.
        nobody = SimpleNamespace(get_token=lambda *_, **__: None)
        history = RunHistoryClient(
            nobody, base_url=service.url, authentication_policy=SansIOHTTPPolicy(), retry_total=0
        )
        scope = OperationScope("sub", "group", "workspace")
        operations = RunOperations(scope, OperationConfig(False, False), history)
        children = {"pipe": ["pipe", "step"]}  # the SDK lists a parent among its children now and then
        jobs = SimpleNamespace(
            _runs_operations=operations,
            list=lambda parent_job_name: [
                SimpleNamespace(name=name) for name in children.get(parent_job_name, [])
            ],
        )
        monkeypatch.setattr(azureml, "_client", lambda *_: SimpleNamespace(jobs=jobs))
        yield service
        service.shutdown()
        thread.join()


def read(logs: list[LogFile]) -> dict[str, Any]:
    return {log.path: scan(log) for log in logs}


pytestmark = pytest.mark.real


def test_logs_of_a_job_with_its_retries_are_read_one_by_one(service: Service) -> None:
    service.details["brave_sky"] = {
        "system_logs/amlarc_cr_bootstrap.log": "/store/first",
        "system_logs/retry-001/amlarc_cr_bootstrap.log": "/store/second",
        "user_logs/std_log.txt": "/store/user",
    }
    logs = list(azureml.list_logs("azureml:brave_sky"))
    assert [log.path for log in logs] == [
        "azureml:brave_sky/system_logs/amlarc_cr_bootstrap.log",
        "azureml:brave_sky/system_logs/retry-001/amlarc_cr_bootstrap.log",
        "azureml:brave_sky/user_logs/std_log.txt",
    ]
    found = read(logs[:2])
    assert [one.nodes[0][-1] for one in found.values()] == ["1", "2"]
    assert "/store/user" not in service.asked  # only what is needed is fetched


def test_steps_of_a_pipeline_are_included_once(service: Service) -> None:
    service.details["pipe"] = {}
    service.details["step"] = {"system_logs/amlarc_cr_bootstrap.log": "/store/first"}
    assert [log.path for log in azureml.list_logs("azureml:pipe")] == [
        "azureml:step/system_logs/amlarc_cr_bootstrap.log"
    ]


def test_job_that_does_not_exist_is_one_sentence(service: Service) -> None:
    with pytest.raises(ArcError, match=r"reading the job nobody: .*was not found") as caught:
        list(azureml.list_logs("azureml:nobody"))
    assert "\n" not in str(caught.value)


def test_expired_address_is_a_reason_without_the_secret(service: Service) -> None:
    service.details["job"] = {"system_logs/amlarc_cr_bootstrap.log": "/store/expired"}
    [log] = azureml.list_logs("job")
    skipped = str(scan(log))
    assert "the storage answered 403" in skipped
    assert "very-secret" not in skipped


def test_connection_that_ends_early_keeps_what_was_read_and_says_so(service: Service) -> None:
    service.details["job"] = {"system_logs/amlarc_cr_bootstrap.log": "/store/cut"}
    [log] = azureml.list_logs("job")
    found = scan(log)
    assert isinstance(found, Scanned)
    assert found.nodes == ["aks-cut-1"]
    assert "too early" in found.note


def test_address_that_is_not_https_is_not_opened() -> None:
    with pytest.raises(OSError, match="not https"):
        azureml._open("file:///etc/passwd")


def test_workspace_that_nobody_names_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AZURE_ML_WORKSPACE", "AZURE_DEFAULTS_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_CONFIG_DIR", str(tmp_path))
    with pytest.raises(ArcError, match="which workspace"):
        list(azureml.list_logs("azureml:job"))


def test_sdk_still_has_what_the_source_uses() -> None:
    from azure.ai.ml.operations import JobOperations

    assert isinstance(JobOperations._runs_operations, property)
    assert callable(JobOperations.list)
