"""The whole output of the commands that report findings, in every format, on a small sample.

ARC_TOOLKIT_UPDATE_GOLDEN=1 writes the files of `golden/` anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from arc_toolkit import __version__
from tests.support import Result

GOLDEN = Path(__file__).parent / "golden"
JOB = """\
# é
command: python train.py
environment: azureml:sklearn:1
compute: azureml:aks-cpu
environment_variables: {AMLARC_RESTEP: x}
instance_type: 8cpu32g
"""
CODE = """\
from azure.ai.ml import dsl, load_component

train = load_component("train.yml")


@dsl.pipeline
def pipeline():
    first = train()
    first.set_resources(instance_type="8cpu32g")
"""
TYPES = """\
apiVersion: amlarc.azureml.com/v1alpha1
kind: InstanceType
metadata:
  name: Half
spec:
  resources:
    requests: {cpu: "4", memory: "16Gi"}
    limits: {cpu: "8", memory: "16Gi"}
"""
COMMANDS = {
    "check": ("check", "."),
    "patch": ("patch", ".", "--instance-count", "2"),
    "patch-check": ("patch", ".", "--check", "--unsafe-fixes"),
    "patch-write": ("patch", ".", "--write", "--instance-count", "2"),
    "validate": ("validate", "types.yaml"),
}


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_whole_output(
    arc: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    form: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sample.yml").write_bytes(JOB.replace("\n", "\r\n").encode())
    Path("code.py").write_text(CODE)
    Path("broken.yml").write_text("command: [\n")
    Path("types.yaml").write_text(TYPES)
    result = arc(*COMMANDS[name], "--format", form)
    out = result.out.replace(__version__, "VERSION")
    text = f"exit code {result.code}\n--- stdout\n{out}--- stderr\n{result.err}"
    golden = GOLDEN / f"{name}.{form}.txt"
    if os.environ.get("ARC_TOOLKIT_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(text.encode())
    assert text.encode() == golden.read_bytes()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_sample_is_changed_by_write_only(
    arc: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sample.yml").write_text(JOB)
    Path("types.yaml").write_text(TYPES)
    findings = json.loads(arc(*COMMANDS[name], "--format", "json").out)["findings"]
    changed = Path("sample.yml").read_text() != JOB
    assert changed == (name == "patch-write")
    assert any(finding["fixed"] for finding in findings) == changed
    for finding in findings:
        assert finding["fixable"] in ("safe", "unsafe", False)
        assert (finding["fix"] is not None) == bool(finding["fixable"])
