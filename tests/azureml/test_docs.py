"""What the pages promise: every option, every rule, examples that work, hooks that parse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from arc_toolkit.cli.main import command_parser
from arc_toolkit.cli.rules import every_rule
from arc_toolkit.output.rule_pages import read_page
from tests.azureml.support import COMMAND_JOB
from tests.support import ROOT


@pytest.mark.parametrize("command", ["patch", "check", "rules"])
def test_every_option_is_on_the_page(command: str) -> None:
    text = (ROOT / "docs" / f"{command}.md").read_text()
    options = [
        word for action in command_parser(command)._actions for word in action.option_strings
    ]
    assert [
        word for word in options if word.startswith("--") and word != "--help" and word not in text
    ] == []


def test_the_list_of_rules_is_complete() -> None:
    text = (ROOT / "docs" / "rules.md").read_text()
    for rule in every_rule().values():
        facts = f"{rule.severity} | {rule.fix} | {rule.language}"
        summary = read_page(rule.id).summary
        assert f"| [{rule.id}](rules/{rule.id}.md) | {facts} | {summary} |" in text


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A tree with one file that is right, and `arc-toolkit` on the PATH."""
    (tmp_path / "tree").mkdir()
    right = COMMAND_JOB.replace("lightgbm", "sklearn")
    (tmp_path / "tree" / "job.yml").write_text(right)
    shim = tmp_path / "arc-toolkit"
    shim.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m arc_toolkit "$@"\n')
    shim.chmod(0o755)
    return tmp_path


def shell(line: str, top: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{top}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", line], cwd=top / "tree", env=environment, capture_output=True, text=True
    )


def test_the_workflows_do_what_they_say(repository: Path) -> None:
    text = (ROOT / "docs" / "github-action.md").read_text()
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    lines = [
        step["run"]
        for block in blocks
        for job in block.get("jobs", {}).values()
        for step in job["steps"]
        if "run" in step and not step["run"].startswith("pip ")
    ]
    assert len(lines) == 3
    for line in lines:
        assert shell(line, repository).returncode == 0
    (repository / "tree" / "job.yml").write_text(
        COMMAND_JOB + "environment_variables: {AMLARC_RESTEP: x}\n"
    )
    done = [shell(line, repository) for line in lines]
    assert [entry.returncode for entry in done] == [1, 1, 0]
    assert "::error file=job.yml,line=5" in done[0].stdout
    assert "AMLARC_RESTEP" in (repository / "tree" / "arc-toolkit.sarif").read_text()


def test_the_hooks_run(repository: Path) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks] == ["arc-toolkit-check", "arc-toolkit-patch"]
    text = (ROOT / "docs" / "github-action.md").read_text()
    assert all(f"- id: {hook['id']}" in text for hook in hooks)
    (repository / "tree" / "job.yml").write_text(
        COMMAND_JOB + "environment_variables: {AMLARC_RESTEP: x}\n"
    )
    for hook, code in zip(hooks, (1, 0), strict=True):
        line = " ".join([hook["entry"], *hook["args"]])
        assert shell(line, repository).returncode == code
    assert "AMLARC_PRESTEP" in (repository / "tree" / "job.yml").read_text()


@pytest.mark.parametrize("command", ["patch", "check", "rules"])
def test_the_examples_of_help_work_when_pasted(command: str, repository: Path) -> None:
    epilog = command_parser(command).epilog or ""
    lines = [line.strip() for line in epilog.splitlines() if "arc-toolkit" in line]
    (repository / "tree" / "components").mkdir()
    (repository / "tree" / "pipelines").mkdir()
    for folder in ("components", "pipelines"):
        (repository / "tree" / folder / "a.yml").write_text(COMMAND_JOB)
    (repository / "tree" / "instance_types").symlink_to(ROOT / "instance_types")
    for line in lines:
        if "instance_types/" in line and not any((ROOT / "instance_types").rglob("*.yaml")):
            continue
        done = shell(line, repository)
        assert done.returncode in (0, 1), (line, done.stderr)
