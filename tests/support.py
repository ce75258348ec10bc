"""What many tests share: running the command in this process, and where the corpus is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"

# With ARC_TOOLKIT_REQUIRE_REAL (as in CI) a missing corpus is a failure: see `corpus` in conftest.py.
needs_corpus = pytest.mark.usefixtures("corpus")


@dataclass(frozen=True)
class Result:
    """What one run of the command gave."""

    code: int
    out: str
    err: str


def unavailable(reason: str) -> NoReturn:
    """Skip a test whose real component is missing; with ARC_TOOLKIT_REQUIRE_REAL (as in CI) that is a failure."""
    if os.environ.get("ARC_TOOLKIT_REQUIRE_REAL"):
        pytest.fail(f"required here, but: {reason}")
    pytest.skip(reason)


def real_module(module: str) -> Any:
    """A module that a test measures against, as `unavailable` treats it when it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        unavailable(f"{module} is not installed")


def frameworks_python() -> str:
    """The Python of the environment with PyTorch, LightGBM, XGBoost and Ray."""
    return _printed("frameworks")


def cloud_models() -> str:
    """A folder with botocore and Google's API client."""
    return _printed("cloud-models", PYTHON=sys.executable)


def _printed(script: str, **variables: str) -> str:
    """What a script that prepares a real component prints: where it is."""
    answer = subprocess.run(
        [ROOT / "scripts" / script], env={**os.environ, **variables}, capture_output=True, text=True
    )
    if answer.returncode:
        unavailable(f"scripts/{script}: {answer.stderr.strip()}")
    return answer.stdout.strip()


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Until a fact holds; a test ends on it, and not on a clock."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this was waited for in vain"
        time.sleep(0.02)
