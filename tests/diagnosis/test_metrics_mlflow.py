"""Restarts read from a real MLflow: an SQLite store, a folder store, and a tracking server."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis.metrics import find_restarts
from arc_toolkit.errors import ArcError
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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVER, str(port), f"sqlite:///{folder}/mlflow.db", str(folder / "artifacts")]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            if process.poll() is not None:
                pytest.fail(f"the MLflow server ended: {(folder / 'server.log').read_text()[-500:]}")
            try:
                urllib.request.urlopen(f"{url}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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
    run_id: str = client.create_run(client.create_experiment(f"retried {time.time_ns()}")).info.run_id
    steps = [(step, START_MS + step * 1000) for step in range(points)]
    steps += [(step, steps[-1][1] + 120_000 + n * 1000) for n, step in enumerate(range(resume, resume + 100))]
    logged = [Metric(key, 1.0 / (1 + step), when, step) for step, when in steps for key in ("loss", "val/acc")]
    for first in range(0, len(logged), 500):
        client.log_batch(run_id, metrics=logged[first : first + 500])
    return run_id


def check(uri: str, run_id: str) -> None:
    [restart] = find_restarts(f"mlflow:{uri}#{run_id}")
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
        find_restarts(f"mlflow:{server}#0123abcd")
    assert "\n" not in str(caught.value)


def test_server_that_is_away_is_one_sentence() -> None:
    needs()
    with socket.socket() as taken:  # bound, not listening
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ArcError, match="cannot read metrics from") as caught:
            find_restarts(f"mlflow:http://127.0.0.1:{taken.getsockname()[1]}#0123abcd")
    assert "\n" not in str(caught.value)
