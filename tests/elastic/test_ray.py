"""Elastic runs on real Ray nodes, in a network namespace of their own, so that Ray cannot be reached from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, unavailable

pytestmark = [pytest.mark.real, pytest.mark.slow]


def isolated(words: list[str], folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command with loopback only; everything that it starts ends with it."""
    unshare = shutil.which("unshare")
    # With an address that looks as if others could reach it, which Ray prefers to loopback.
    shell = 'ip link set lo up && ip address add 10.9.8.7/24 dev lo && ip route add default dev lo && exec "$@"'
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
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "RAY_AUTH_MODE": "disabled",
    }
    return subprocess.run(
        [*prefix, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=seconds,
        env=environment,
        check=False,
    )


def test_a_cluster_that_shrinks_grows_and_loses_its_controller(
    frameworks: str, tmp_path: Path
) -> None:
    words = [frameworks, "-m", "tests.elastic.ray_scenario", str(tmp_path)]
    result = isolated(words, tmp_path, 600)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")
    ]
    scenario = lines[-1]
    assert scenario["code"] == 0
    assert scenario["total"] == scenario["expected"]
    assert scenario["causes"] == ["start", "eviction", "lost node", "growing"]
    assert scenario["workers"] == [3, 2, 1, 2]
    assert scenario["attached"] == scenario["workers"], (
        "a controller that comes back knows what happened before"
    )
    assert scenario["drained"], "nothing else lands on a node with a notice"
    summary = scenario["summary"]
    assert (summary["outcome"], summary["evictions_survived"], summary["failures"]) == (
        "finished",
        2,
        0,
    )
    assert summary["steps_redone"] <= 20
    assert summary["steps"] == scenario["steps"]


def test_nodes_are_asked_for_and_an_agent_that_ends_is_replaced(
    frameworks: str, tmp_path: Path
) -> None:
    words = [frameworks, "-m", "tests.elastic.autoscaler_scenario", str(tmp_path)]
    result = isolated(words, tmp_path, 400)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    scenario = json.loads(result.stdout.splitlines()[-1])
    assert scenario["workers"] == 2, "an agent that was killed is started again"
    assert scenario["threads"] == ["threads 1"], "two workers of a node do not use its CPUs twice"
    assert scenario["twin"] == 2, "a second run of the same name is refused"
    assert scenario["codes"] == [0, 0], "both clients see the end"
    assert scenario["summaries"] == ["finished", "finished"]
    assert scenario["nodes_afterwards"] == 0, "the autoscaler may remove them"


def test_a_local_ray_needs_no_cluster_and_cannot_be_reached(
    frameworks: str, tmp_path: Path
) -> None:
    words = [frameworks, "-m", "arc_toolkit", "elastic", "-m", "1"]
    script = str(ROOT / "examples" / "elastic_numpy.py")
    watched = [frameworks, "-m", "tests.elastic.listening", *words, "-f", script, "--cloud", "none"]
    result = isolated([*watched, "--", "60", "0.01"], tmp_path, 300)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "after 60 steps, 1 workers at the end" in result.stdout
    assert "finished: trained" in result.stderr
    sockets = json.loads(result.stdout.splitlines()[-1])
    assert sockets["listening"] > 3
    assert sockets["reachable"] == []


def test_an_interrupted_local_run_saves_first(frameworks: str, tmp_path: Path) -> None:
    words = [frameworks, "-m", "tests.elastic.interrupt_scenario", str(tmp_path)]
    result = isolated(words, tmp_path, 300)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    scenario = json.loads(result.stdout.splitlines()[-1])
    assert scenario["code"] == 143
    summary = scenario["summary"]
    assert (summary["outcome"], summary["failures"]) == ("cancelled", 0)
    assert scenario["saved"] == summary["steps"] - 1, "the last step is saved"
    assert scenario["starts"] == 1, "no event is shown twice"


def test_a_run_in_a_cluster_is_stopped_by_name(frameworks: str, tmp_path: Path) -> None:
    words = [frameworks, "-m", "tests.elastic.stop_scenario", str(tmp_path)]
    result = isolated(words, tmp_path, 300)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    scenario = json.loads(result.stdout.splitlines()[-1])
    assert scenario["codes"] == [0, 143], (
        "of the command that stops the run, and of the one that looks at it"
    )
    assert scenario["events"] == ["stopping", "end"], "without what was before"
    summary = scenario["summary"]
    assert (summary["outcome"], summary["failures"]) == ("cancelled", 0)
    assert scenario["saved"] == summary["steps"] - 1, "the last step is saved"
    assert scenario["again"] == 2, "there is no such run any more"


@pytest.mark.parametrize(
    ("example", "arguments", "answer"),
    [
        ("elastic_numpy.py", ["60", "0.01"], "after 60 steps, 2 workers at the end"),
        ("elastic_torch.py", ["60", "0.01"], "after 60 steps, 2 workers at the end"),
        ("elastic_xgboost.py", ["20"], "with 20 trees, 2 workers at the end"),
        ("torchrun_ddp.py", ["snapshot.pt", "60", "0.01"], "after 60 steps, 2 workers at the end"),
    ],
)
def test_an_example_runs_on_a_local_ray(
    frameworks: str, tmp_path: Path, example: str, arguments: list[str], answer: str
) -> None:
    words = [
        frameworks,
        "-m",
        "arc_toolkit",
        "elastic",
        "-f",
        str(ROOT / "examples" / example),
        "-m",
        "2",
    ]
    arguments = [str(tmp_path / word) if word.endswith(".pt") else word for word in arguments]
    options = ["--cloud", "none", "--env", "GLOO_SOCKET_IFNAME=lo", "--max-failures", "0"]
    result = isolated([*words, *options, "--", *arguments], tmp_path, 400)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    assert answer in result.stdout
    assert "0 evictions survived, 0 failures" in result.stderr
