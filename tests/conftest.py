"""Fixtures for every test."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from arc_toolkit.cli.main import main
from arc_toolkit.output import json_document
from tests.azurite import azurite, container  # noqa: F401  (fixtures)
from tests.cluster.fixtures import cluster, control_plane, older_cluster, own_cluster  # noqa: F401  (fixtures)
from tests.support import CORPUS, ROOT, Result, unavailable

# A shell starts background jobs with SIGINT ignored, and children inherit that; tests of Ctrl-C need the usual way.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as under nohup

# Tests assert no times: the machines that run them are shared. People look for new examples, CI for the same ones.
settings.register_profile("arc-toolkit", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("arc-toolkit")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on the colours or the cluster of the person who runs it."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)


if importlib.util.find_spec("jsonschema"):

    @pytest.fixture(autouse=True)
    def _documents_follow_their_schemas(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Every JSON document that a test makes has exactly the fields of its schema."""
        problems: list[str] = []
        json_text = json_document.json_text

        def checked(data: dict[str, Any], *, indent: int | None = 2) -> str:
            from tests.output.schema_check import (
                schema_problem,
            )  # only here: it imports what the schemas are about

            text = json_text(data, indent=indent)
            if problem := schema_problem(text):
                problems.append(problem)
            return text

        # A command would turn an exception into exit code 3, which a test may expect for another reason.
        monkeypatch.setattr(json_document, "json_text", checked)
        yield
        assert not problems, problems[0]


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real AzureML files. Missing, it skips the test; in CI it fails it."""
    if not CORPUS.is_dir():
        unavailable(f"there are no real AzureML files in {CORPUS}")
    return CORPUS


@pytest.fixture(scope="session")
def frameworks() -> str:
    """The Python of scripts/frameworks: PyTorch, Lightning, transformers, Keras, JAX, XGBoost, Ray."""
    done = subprocess.run(
        [ROOT / "scripts" / "frameworks"], capture_output=True, text=True, timeout=1800, check=False
    )
    if done.returncode:
        unavailable(f"scripts/frameworks: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


@pytest.fixture
def arc(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """`arc("patch", path)` runs the command in this process and gives its exit code and both outputs."""

    def run(*words: object) -> Result:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:  # --help
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
