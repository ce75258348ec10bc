"""What `place` writes, read by Kubeflow's own SDKs: kfp compiles, loads and parses it as protobuf."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.cli.main import main
from tests.placement.support import KEY, TOLERATION
from tests.support import ROOT, unavailable

pytestmark = pytest.mark.real

PIPELINE = """\
from kfp import dsl


@dsl.component
def train(x: int) -> str:
    return "model"


@dsl.container_component
def report(text: str):
    return dsl.ContainerSpec(image="busybox", command=["echo", text])


@dsl.pipeline
def inner(x: int):
    model = train(x=x)


@dsl.pipeline(name="p")
def pipeline(x: int = 1):
    first = train(x=x)
    with dsl.If(first.output == "model"):
        second = report(text="yes")
    dsl.importer(artifact_uri="gs://x", artifact_class=dsl.Dataset)
    inner(x=x)
"""
COMPILE = """\
import sys
from kfp import compiler
from pipeline import pipeline
compiler.Compiler().compile(pipeline, "compiled.yaml")
"""
# The executors as kfp's protobuf reads them; unknown fields are errors there. Its loader reads the file as well.
READ = """\
import json, yaml
from google.protobuf import json_format
from kfp import components
from kfp.kubernetes import kubernetes_executor_config_pb2 as pb
components.load_component_from_file("compiled.yaml")
documents = list(yaml.safe_load_all(open("compiled.yaml")))
executors = documents[1]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
messages = {name: json_format.ParseDict(own, pb.KubernetesExecutorConfig()) for name, own in executors.items()}
print(json.dumps({name: json_format.MessageToDict(message) for name, message in messages.items()}))
"""


@cache
def sdk_python() -> str:
    found = subprocess.run(
        [ROOT / "scripts" / "kubeflow"], capture_output=True, text=True, timeout=900, check=False
    )
    if found.returncode:
        unavailable(f"scripts/kubeflow: {found.stderr.strip()[-300:]}")
    return found.stdout.strip()


def run_sdk(code: str, folder: Path) -> str:
    command = [sdk_python(), "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def executors(folder: Path) -> dict[str, Any]:
    result = json.loads(run_sdk(READ, folder))
    assert isinstance(result, dict)
    return result


def compiled(folder: Path, source: str) -> Path:
    (folder / "pipeline.py").write_text(source)
    run_sdk(COMPILE, folder)
    return folder / "compiled.yaml"


@pytest.mark.parametrize("spot", ["require", "prefer", "avoid"])
def test_kfp_reads_the_placed_pipeline(tmp_path: Path, spot: str) -> None:
    path = compiled(tmp_path, PIPELINE)
    assert main(["place", str(path), "--spot", spot, "--write"]) == 0
    # Retries are set, and it is reported that they do not do what was asked for.
    assert main(["place", str(path), "--retries", "2", "--write"]) == 2
    read = executors(tmp_path)
    assert read.keys() == {"exec-train", "exec-train-2", "exec-report"}
    for executor in read.values():
        assert executor.get("tolerations") == (None if spot == "avoid" else [TOLERATION])
        assert (executor.get("nodeSelector") == {"labels": {KEY: "spot"}}) == (spot == "require")
        assert [term.get("weight") for term in executor.get("nodeAffinity", [])] == {
            "require": [],
            "prefer": [100],
            "avoid": [None],
        }[spot]
