"""Restarts read from a real MLflow: an SQLite store, a folder store, and a tracking server."""

from __future__ import annotations

import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis.assemble.restarts import scan_metrics
from arc_toolkit.errors import ArcError
from tests.cluster.processes import Server, free_ports
from tests.support import unavailable

pytestmark = pytest.mark.real

START_MS = 1_700_000_000_000

# MLflow's own Flask application with its SQLite store, without the gateway that `mlflow server` adds (and that
# needs pandas and a job queue).
SERVER = """
import os, sys
os.environ["_MLFLOW_SERVER_FILE_STORE"], os.environ["_MLFLOW_SERVER_ARTIFACT_ROOT"] = sys.argv[2], sys.argv[3]
from werkzeug.serving import make_server
from mlflow.server import app
make_server("127.0.0.1", int(sys.argv[1]), app, threaded=True).serve_forever()
"""


@pytest.fixture(autouse=True)
def _silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs("flask", "flask_cors", "sqlalchemy", "alembic")
    folder = tmp_path_factory.mktemp("mlflow")
    [port] = free_ports(1)
    command = [
        sys.executable,
        "-c",
        SERVER,
        str(port),
        f"sqlite:///{folder}/mlflow.db",
        str(folder / "artifacts"),
    ]
    server = Server(command, folder / "server.log")
    url = f"http://127.0.0.1:{port}"
    try:
        server.wait_until(lambda: answers(f"{url}/health"))
        yield url
    finally:
        server.stop()


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


def needs(*modules: str) -> None:
    for module in ("mlflow", *modules):
        try:
            __import__(module)
        except ImportError:
            unavailable(f"{module} is not installed")


def log_retried_run(uri: str, points: int = 213, resume: int = 201) -> str:
    """A run that crashed after `points` steps and went on from `resume` two minutes later."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    client: Any = MlflowClient(tracking_uri=uri)
    run_id: str = client.create_run(
        client.create_experiment(f"retried {time.time_ns()}")
    ).info.run_id
    steps = [(step, START_MS + step * 1000) for step in range(points)]
    steps += [
        (step, steps[-1][1] + 120_000 + n * 1000)
        for n, step in enumerate(range(resume, resume + 100))
    ]
    logged = [
        Metric(key, 1.0 / (1 + step), when, step)
        for step, when in steps
        for key in ("loss", "val/acc")
    ]
    for first in range(0, len(logged), 500):
        client.log_batch(run_id, metrics=logged[first : first + 500])
    return run_id


def check(uri: str, run_id: str) -> None:
    [restart] = scan_metrics(f"mlflow:{uri}#{run_id}").restarts
    assert (restart.run, restart.kind) == (run_id, "resumed")
    assert (restart.last_step, restart.first_step, restart.lost_steps) == (212, 201, 11)
    assert (restart.gap_seconds, restart.lost_seconds) == (120, 131)
    assert restart.keys == ("loss", "val/acc")


def test_restart_is_found_in_an_sqlite_store(tmp_path: Path) -> None:
    needs("sqlalchemy", "alembic")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    check(uri, log_retried_run(uri))


def test_restart_is_found_in_a_folder_store(tmp_path: Path) -> None:
    needs()
    uri = (tmp_path / "mlruns").as_uri()
    check(uri, log_retried_run(uri))


def test_restart_is_found_on_a_tracking_server(server: str) -> None:
    check(server, log_retried_run(server))


def test_run_that_the_server_does_not_have_is_one_sentence(server: str) -> None:
    with pytest.raises(ArcError, match=r"cannot read metrics from http://127.*0123abcd") as caught:
        scan_metrics(f"mlflow:{server}#0123abcd")
    assert "\n" not in str(caught.value)


def test_unreachable_server_is_one_sentence() -> None:
    needs()
    with socket.socket() as taken:  # bound, not listening
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ArcError, match="cannot read metrics from") as caught:
            scan_metrics(f"mlflow:http://127.0.0.1:{taken.getsockname()[1]}#0123abcd")
    assert "\n" not in str(caught.value)
