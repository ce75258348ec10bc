"""The examples under python, `arc-toolkit run` and `arc-toolkit elastic`, unchanged, with the real frameworks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, frameworks_python, wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow]
EXAMPLES = ROOT / "examples"


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder), "RAY_AUTH_MODE": "disabled"}


def ran(folder: Path, *words: object, code: int = 0) -> str:
    """What a command of the frameworks' Python prints, in a folder of its own."""
    folder.mkdir(exist_ok=True)
    command = [frameworks_python(), *map(str, words)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@contextmanager
def started(folder: Path, *words: object) -> Iterator[subprocess.Popen[str]]:
    folder.mkdir()
    command = [frameworks_python(), *map(str, words)]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def scenario(folder: Path, *words: object) -> dict[str, Any]:
    (folder / "run").mkdir(parents=True)
    text = ran(folder, "-m", "tests.elastic.example_scenario", folder / "run", *words)
    result: dict[str, Any] = json.loads(text.splitlines()[-1])
    assert result["code"] == 0
    assert result["workers"][0] == 3
    assert min(result["workers"]) < 3
    assert result["evictions"] >= 1
    return result


def answer(text: str, word: str) -> str:
    """The line that an example ends with, without the number of workers."""
    (line,) = [line for line in text.splitlines() if line.startswith(word)]
    return line.rpartition(",")[0]


@pytest.mark.parametrize(
    ("name", "word", "steps"),
    [("numpy", "weights", 400), ("torch", "weights", 400), ("xgboost", "accuracy", 300)],
)
def test_an_example_runs_alone_supervised_and_elastic(
    tmp_path: Path, name: str, word: str, steps: int
) -> None:
    script = EXAMPLES / f"elastic_{name}.py"
    alone = answer(ran(tmp_path / "alone", script, steps), word)
    # Evicted in the middle by a notice, and resumed.
    folder, notice = tmp_path / "supervised", tmp_path / "notice"
    words = ("-m", "arc_toolkit", "run", "--cloud", "none", "--checkpoints", "saved")
    command = (frameworks_python(), script, steps, 0.02)
    with started(folder, *words, "--notice-file", notice, "--", *command) as process:
        wait_until(lambda: any(folder.glob("saved/step-*")))
        notice.write_text("20")
        assert word not in process.communicate(timeout=120)[0]
    assert process.returncode == 143
    assert answer(ran(folder, *words, "--", *command[:-1]), word) == alone
    # On three nodes, of which one is evicted and one killed.
    result = scenario(tmp_path / "elastic", script, steps, 0.08)
    assert result["lost"] == 1
    elastic = answer("\n".join(result["output"]), word)
    if name != "xgboost":  # equal to the last bit, whatever the number of ranks was
        assert elastic == alone
    else:
        assert f"with {steps} trees" in elastic
        assert abs(float(elastic.split()[1]) - float(alone.split()[1])) < 0.02


def test_a_script_for_torchrun_runs_unchanged(tmp_path: Path) -> None:
    """It imports nothing of ours, and torchrun itself runs it: https://docs.pytorch.org/docs/stable/elastic/run.html."""
    script = EXAMPLES / "torchrun_ddp.py"
    assert "import arc_toolkit" not in script.read_text()
    assert "from arc_toolkit" not in script.read_text()
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    assert "after 20 steps, 2 workers" in ran(
        tmp_path / "torchrun", *launcher, script, "snapshot.pt", 20
    )
    result = scenario(tmp_path / "elastic", script, tmp_path / "snapshot.pt", 200, 0.05)
    starts = [line for line in result["output"] if line.startswith("rank 0 of")]
    assert starts[0] == "rank 0 of 3 starts at step 0"
    assert int(starts[-1].rpartition(" ")[2]) > 0, "it resumed from what it saved at SIGTERM"
    assert any("after 200 steps" in line for line in result["output"])
