"""Files that are written to take all memory or time: `patch` and `check` read them like any other."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.edit.test_values import HOSTILE

MEMORY = 700 * 2**20
SECONDS = 120


def _as_file(text: str) -> str:
    """An expression wherever `patch` and `check` look at one."""
    *before, last = text.split("\n")
    lines = [
        "from azure.ai.ml import command, dsl, load_component",
        *before,
        f"hostile = {last}",
        f"train = load_component(source={last})",
        "score = load_component(source=hostile)",
        f"job = command(command='x', code={last}, instance_type={last}, compute=hostile)",
        "job.environment_variables = {'OMP_NUM_THREADS': " + last + "}",
        f"job.resources.instance_count = {last}",
        "@dsl.pipeline(default_compute=hostile)",
        "def pipeline():",
        "    first = train(x=1)",
        f"    first.resources.instance_type = {last}",
        "    second = job(x=1)",
        "    third = score(x=1)",
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "command", [("check",), ("patch", "--instance-type", "a", "--threads", "lightgbm")]
)
def test_hostile_files_take_little_memory(command: tuple[str, ...], tmp_path: Path) -> None:
    for index, text in enumerate(HOSTILE):
        (tmp_path / f"hostile_{index}.py").write_text(_as_file(text))
    (tmp_path / "good.py").write_text(
        "from azure.ai.ml import command\njob = command(command='x', code='.', environment='e')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "arc_toolkit", *command, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    assert done.returncode in (0, 1, 2), done.stderr
    assert "fault" not in done.stderr
    assert "good.py" in done.stdout or command[0] == "check"
