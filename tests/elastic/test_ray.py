"""Elastic runs on real Ray nodes, in a network namespace of their own, so that Ray cannot be reached from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT, unavailable

pytestmark = [pytest.mark.real, pytest.mark.slow]


def isolated(words: list[str], folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command with loopback only; everything that it starts ends with it."""
    unshare = shutil.which("unshare")
    shell = 'ip link set lo up && exec "$@"'
    prefix = [
        unshare or "false",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        shell,
        "_",
    ]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        unavailable("a network namespace cannot be made here")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder), "RAY_AUTH_MODE": "disabled"}
    return subprocess.run(
        [*prefix, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=seconds,
        env=environment,
        check=False,
    )


def test_a_local_ray_needs_no_cluster(frameworks: str, tmp_path: Path) -> None:
    words = [
        frameworks,
        "-m",
        "arc_toolkit",
        "elastic",
        "-f",
        str(ROOT / "examples" / "elastic_numpy.py"),
        "-m",
        "2",
    ]
    result = isolated([*words, "--cloud", "none", "--", "60", "0.01"], tmp_path, 300)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "after 60 steps, 2 workers at the end" in result.stdout
    assert "finished: trained" in result.stderr
