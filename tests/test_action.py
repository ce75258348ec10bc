"""The GitHub Action: its words reach the command as they were written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (".", ["."]),
        (". --skip unused-component", [".", "--skip", "unused-component"]),
        ("training\npipelines/a\n--skip x\n", ["training", "pipelines/a", "--skip", "x"]),
        ("'my files/job.yml' other", ["my files/job.yml", "other"]),
        ("$(touch owned) `id` *.yml", ["$(touch", "owned)", "`id`", "*.yml"]),
    ],
)
def test_arguments_may_have_several_lines_and_quotes(
    tmp_path: Path, arguments: str, words: list[str]
) -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    command = tmp_path / "arc-toolkit"
    command.write_text('#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done\n')
    command.chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", steps[-1]["run"]],
        env={
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "COMMAND": "check",
            "ARGUMENTS": arguments,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["check", *words, "--format", "github"]
    assert not (tmp_path / "owned").exists()
