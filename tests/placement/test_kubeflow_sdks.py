"""What `place` writes, read by Kubeflow's own SDKs: kfp compiles, loads and parses it as protobuf."""

from __future__ import annotations

import json
import subprocess
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.cli.main import main
from arc_toolkit.placement.code import sdk_models
from tests.placement.code_cases import CASES, PATCH, PATCHED_POD, CodeCase, check_objects
from tests.placement.pipeline_cases import PIPELINE_CASES, PipelineCase
from tests.placement.support import KEY, TOLERATION, placed
from tests.placement.test_code_cases import place_python
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


def run_sdk(code: str, folder: Path, *, trainer: bool = False) -> str:
    """What some code prints; `trainer` for the SDK of Kubeflow Trainer 2."""
    command = [sdk_python(), "-W", "ignore", "-c", code]
    env = {"PYTHONPATH": str(Path(sdk_python()).parent.parent / "sdk")} if trainer else None
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, env=env
    )
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


# Runs each source and gives its objects as they would be sent to the API server.
OBJECTS = """\
import json, sys
from kubernetes import client
send = client.ApiClient().sanitize_for_serialization
results = []
for source in json.load(open("sources.json")):
    names = {}
    exec(compile(source, "<source>", "exec"), names)
    results.append([send(item) for item in names["objects"]])
print(json.dumps(results))
"""
CHANGED = [case for case in CASES if case.pods is not None]
# kubernetes' model has no object without the two; the class says which object it is.
KINDS = {"model": ("batch/v1", "Job"), "tf": ("kubeflow.org/v1", "TFJob")}


@cache
def sent_objects(folder: Path) -> list[tuple[list[Any], list[Any]]]:
    """The objects of every case before and after placing, made by the real SDKs."""
    sources = []
    for case in CHANGED:
        after = place_python(case.source, case.spot, **case.settings).after
        assert after is not None, case.name
        sources += [case.source, after.decode()]
    (folder / "sources.json").write_text(json.dumps(sources))
    found = json.loads(run_sdk(OBJECTS, folder))
    return list(zip(found[::2], found[1::2], strict=True))


@pytest.fixture(scope="module")
def sdk_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sdk")


@pytest.mark.parametrize("case", CHANGED, ids=lambda case: case.name)
def test_the_sdks_make_the_expected_pods(case: CodeCase, sdk_folder: Path) -> None:
    before, after = sent_objects(sdk_folder)[CHANGED.index(case)]
    check_objects(case, after)
    # The same as placing the manifest that the code made before.
    version, kind = KINDS.get(case.name.partition("-")[0], ("", ""))
    for old, new in zip(before, after, strict=True):
        manifest = {"apiVersion": version, "kind": kind, **old}
        expected = placed(json.dumps(manifest), case.spot, **case.settings)[0]
        assert _without_defaults({"apiVersion": version, "kind": kind, **new}) == expected


def _without_defaults(value: dict[str, Any]) -> dict[str, Any]:
    """Without the status of a condition, which the model insists on and the API has a default for."""
    value = deepcopy(value)
    for rule in value["spec"].get("podFailurePolicy", {}).get("rules", ()):
        for condition in rule["onPodConditions"]:
            condition.pop("status", None)
    return value


TABLES = """\
import json
import kubernetes.client as client
import kubeflow.training as training
models = {**vars(client), **vars(training)}
models = {name: model for name, model in models.items() if hasattr(model, "openapi_types")}
fields = {name: {model.attribute_map[key]: kind for key, kind in model.openapi_types.items()}
          for name, model in models.items()}
print(json.dumps([fields, {name: model.attribute_map for name, model in models.items()}]))
"""


def test_the_table_of_models_is_that_of_the_sdks(tmp_path: Path) -> None:
    fields, names = json.loads(run_sdk(TABLES, tmp_path))
    current = {name for name in sdk_models.OBJECTS if name in fields}
    assert {
        f"KubeflowOrgV1{kind}" for kind in ("TFJob", "PyTorchJob", "MPIJob", "JAXJob")
    } < current
    assert {"V1Job", "V1Pod", "V1CronJob", "V1Deployment"} < current
    for field, model in sdk_models.FIELDS.items():
        kinds = {
            kinds[field] for name, kinds in fields.items() if field in kinds and name in _PLACED
        }
        assert kinds in ({model}, {f"list[{model}]"}), field
        for snake, camel in names[model].items():
            assert (sdk_models.camel_case(snake), sdk_models.snake_case(camel)) == (camel, snake)


# The models that `place` puts something into.
_PLACED = ("V1PodSpec", "V1JobSpec", *sdk_models.FIELDS.values())
PATCH_FIELDS = """\
import dataclasses, json
from kubeflow.trainer.options import kubernetes
found = {name: [f.name for f in dataclasses.fields(kind) if f.init] for name, kind in vars(kubernetes).items()
         if dataclasses.is_dataclass(kind)}
print(json.dumps(found))
"""
PATCH_DATA = """\
import json
from kubeflow.trainer.options.kubernetes import _patch_to_dict
from patch import patch
print(json.dumps(_patch_to_dict(patch)))
"""


def test_the_patches_are_those_of_the_kubeflow_sdk(tmp_path: Path) -> None:
    found = json.loads(run_sdk(PATCH_FIELDS, tmp_path, trainer=True))
    assert {name: tuple(found[name]) for name in sdk_models.PATCHES} == sdk_models.PATCHES
    after = place_python(PATCH).after
    assert after is not None
    (tmp_path / "patch.py").write_bytes(after)
    data = json.loads(
        run_sdk("import sys; sys.path.insert(0, '.')\n" + PATCH_DATA, tmp_path, trainer=True)
    )
    (job,) = data["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert job["template"]["spec"]["template"]["spec"] == PATCHED_POD


# The executors and the retries of each pipeline, and the documents that kfp writes.
COMPILED = """\
import json, sys, yaml
sys.path.insert(0, ".")
from google.protobuf import json_format
from importlib import import_module
from kfp import compiler
from kfp.kubernetes import kubernetes_executor_config_pb2 as pb
found = []
for name in json.load(open("modules.json")):
    compiler.Compiler().compile(import_module(name).pipeline, "compiled.yaml")
    found.append(open("compiled.yaml").read())
print(json.dumps(found))
"""
COMPILABLE = [case for case in PIPELINE_CASES if case.compiles and case.executors is not None]


@cache
def compiled_pipelines(folder: Path) -> list[tuple[str, str]]:
    """What kfp compiles of every case before and after placing."""
    names = []
    for number, case in enumerate(COMPILABLE):
        after = place_python(case.source, case.spot, **case.settings).after
        assert after is not None, case.name
        for word, text in (("before", case.source.encode()), ("after", after)):
            names.append(f"case_{number}_{word}")
            (folder / f"{names[-1]}.py").write_bytes(text)
    (folder / "modules.json").write_text(json.dumps(names))
    found = json.loads(run_sdk(COMPILED, folder))
    return list(zip(found[::2], found[1::2], strict=True))


def executors_and_retries(documents: list[Any]) -> tuple[dict[str, Any], dict[str, int]]:
    platform = (
        documents[1]["platforms"]["kubernetes"]["deploymentSpec"] if len(documents) > 1 else {}
    )
    dags = [documents[0]["root"], *documents[0]["components"].values()]
    tasks = [task for dag in dags for task in dag.get("dag", {}).get("tasks", {}).items()]
    retries = {
        name: task["retryPolicy"]["maxRetryCount"] for name, task in tasks if "retryPolicy" in task
    }
    placed_ones = ("tolerations", "nodeSelector", "nodeAffinity")
    executors = {
        name: {key: value for key, value in own.items() if key in placed_ones}
        for name, own in platform.get("executors", {}).items()
    }
    return {name: own for name, own in executors.items() if own}, retries


@pytest.mark.parametrize("case", COMPILABLE, ids=lambda case: case.name)
def test_kfp_compiles_what_is_expected(case: PipelineCase, sdk_folder: Path) -> None:
    before, after = compiled_pipelines(sdk_folder)[COMPILABLE.index(case)]
    found = executors_and_retries(list(yaml.safe_load_all(after)))
    assert found == (case.executors, case.retries)
    # The same as placing what kfp compiled before.
    assert found == executors_and_retries(placed(before, case.spot, **case.settings))
