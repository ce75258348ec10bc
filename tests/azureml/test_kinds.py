"""Documents are recognised by type, then schema, then shape."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from arc_toolkit.azureml.documents import parse, recognise
from arc_toolkit.azureml.kinds import KINDS, Family, Role, Slot, TargetKind
from arc_toolkit.azureml.python.python_plan import patch_source
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.files.edits import Unreadable
from arc_toolkit.file_io import read_raw
from tests.azureml.support import patch

V2 = "$schema: https://azuremlschemas.azureedge.net/latest/{}.schema.json\n"
V1 = "$schema: https://componentsdk.azureedge.net/jsonschema/{}.json\n"
OLD = "$schema: http://azureml/sdk-2-0/{}.json\n"


def root_of(text: str) -> yaml.Node:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert root is not None
    return root


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (V2.format("commandJob") + "command: x\n", "command job"),
        (V2.format("commandComponent") + "type: command\ncommand: x\n", "command component"),
        (V2.format("parallelComponent") + "type: parallel\n", "parallel component"),
        (V2.format("sweepJob") + "type: sweep\n", "sweep job"),
        (V2.format("pipelineJob") + "type: pipeline\njobs: {}\n", "pipeline job"),
        (V2.format("pipelineComponent") + "jobs: {}\n", "pipeline component"),
        (V2.format("sparkJob") + "type: spark\n", "spark job"),
        (
            "$schema: https://azuremlsdk2.blob.core.windows.net/preview/0.0.1/autoMLJob.schema.json\n",
            "automl job",
        ),
        (V1.format("CommandComponent") + "command: x\n", "command spec"),
        (V1.format("SweepComponent"), "sweep spec"),
        (
            "$schema: http://azureml/sdk-1-5/DistributedComponent.json\ntype: DistributedComponent\n",
            "distributed spec",
        ),
        ("type: CommandComponent@1-legacy\n", "command spec"),
        ("type: ParallelComponent\n", "parallel spec"),
        ("type: ScopeComponent\n", "other spec"),
        (OLD.format("CommandComponent") + "command: x\n", "command spec"),
        # The same schema with a v2 type is v2.
        (OLD.format("CommandComponent") + "type: command\ncommand: x\n", "command component"),
        (OLD.format("CommandJob") + "type: command\ncommand: x\n", "command job"),
        ("type: command\nname: x\nversion: 1\ncommand: x\n", "command component"),
        ("type: command\ncommand: x\ncompute: c\nname: x\n", "command job"),
        ("command: x\nenvironment: e\ncompute: c\n", "command job"),
        ("jobs:\n  a:\n    component: ./x.yml\n", "pipeline job"),
        ("trial: {}\nsearch_space: {}\nobjective: {}\n", "sweep job"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    found, reason = recognise(root_of(text))
    assert found is not None, reason
    assert found.name == kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("on: push\njobs:\n  build:\n    runs-on: x\n    steps: []\n", "not AzureML"),
        ("jobs:\n  build:\n    runs-on: x\n", "not AzureML"),
        ("type: object\nproperties: {}\n", "not AzureML"),
        ("type: command\nrun: x\n", "not AzureML"),
        ("apiVersion: v1\nkind: Pod\n", "not AzureML"),
        # Broken, which nobody asked about: nothing in it names AzureML.
        ("apiVersion: v1\nkind: [Pod\n", "not AzureML"),
        ("name: env\ndependencies: [python]\n", "not AzureML"),
        (V2.format("environment") + "image: x\n", "an AzureML document"),
        (V2.format("data") + "type: uri_folder\n", "an AzureML document"),
        ("apiVersion: amlarc.azureml.com/v1alpha1\nkind: InstanceType\n", "an InstanceType: see"),
        ("on: push\n---\n" + V2.format("data") + "---\non: push\n", "an AzureML document"),
    ],
)
def test_what_is_none_of_ours_is_reported(text: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        parse("x.yml", text.encode(), ProjectFiles(read_raw))


def test_the_kinds_of_steps() -> None:
    text = """\
type: pipeline
jobs:
  by_type: {type: parallel}
  by_trial: {trial: ./t.yml}
  by_task: {task: {type: run_function}}
  by_file: {component: ./pipe.yml}
  registered: {component: "azureml:x:1"}
  inline: {command: x, environment: e}
  branch: {type: if_else}
  loop: {type: do_while}
  copy: {type: data_transfer}
  odd: {type: fl_scatter_gather}
"""
    file = parse(
        "p.yml", text.encode(), ProjectFiles(lambda _: b"type: pipeline\nversion: 1\njobs: {}\n")
    )
    assert {target.name: target.kind.name for target in file.documents[0].steps} == {
        "by_type": "parallel step",
        "by_trial": "sweep step",
        "by_task": "parallel step",
        "by_file": "pipeline step",
        "registered": "command step",
        "inline": "command step",
        "branch": "control step",
        "loop": "control step",
        "copy": "data_transfer step",
        "odd": "other step",
    }


@pytest.mark.parametrize(
    "text", ["# all indented\n\n  command: x\n  environment: e\n  code: .\n", '{"type": "sweep"}']
)
def test_roots_that_do_not_start_in_the_first_column(text: str) -> None:
    assert parse("x.yml", text.encode(), ProjectFiles(read_raw)).documents


STEP = "type: pipeline\njobs:\n  s:\n    type: {}\n    compute: azureml:c\n"
SWEEP = "type: sweep\ntrial: {command: x, environment: e}\nsearch_space: {}\nobjective: {}\n"
SWEEP_STEP = STEP.format("sweep") + "    trial: {command: x, environment: e}\n"
# kind -> a document of it, the path to the target in it, and the settings that stay in what is sent
ROWS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "command job": (V2.format("commandJob") + "command: x\n", (), "type count compute variables"),
    "command component": (V2.format("commandComponent") + "command: x\n", (), "type count"),
    "command step": (STEP.format("command"), ("jobs", "s"), "type count compute variables"),
    "parallel component": ("type: parallel\n", (), "type count"),
    "parallel step": (STEP.format("parallel"), ("jobs", "s"), "type count compute variables"),
    "sweep job": (SWEEP, (), "type count compute"),
    "sweep trial": (SWEEP, ("trial",), "type count variables"),
    "sweep step": (SWEEP_STEP, ("jobs", "s"), "type count compute"),
    "sweep step trial": (SWEEP_STEP, ("jobs", "s", "trial"), "type count"),
    "automl job": ("type: automl\n", (), "type count compute variables"),
    "automl step": (STEP.format("automl"), ("jobs", "s"), "type count compute variables"),
    "pipeline job": ("type: pipeline\njobs: {}\n", (), "default_compute"),
    "pipeline component": (V2.format("pipelineComponent") + "jobs: {}\n", (), ""),
    "pipeline step": (STEP.format("pipeline"), ("jobs", "s"), ""),
    "spark job": (V2.format("sparkJob") + "type: spark\n", (), ""),
    "spark component": (V2.format("sparkComponent") + "type: spark\n", (), ""),
    "spark step": (STEP.format("spark"), ("jobs", "s"), ""),
    "import job": ("type: import\n", (), ""),
    "import step": (STEP.format("import"), ("jobs", "s"), ""),
    "finetuning job": ("type: finetuning\n", (), ""),
    "finetuning step": (STEP.format("finetuning"), ("jobs", "s"), ""),
    "automl component": (V2.format("automlComponent") + "type: automl\n", (), ""),
    "import component": (V2.format("importComponent") + "type: import\n", (), ""),
    "data_transfer job": ("type: data_transfer\n", (), ""),
    "data_transfer component": (
        V2.format("dataTransferCopyComponent") + "type: data_transfer\n",
        (),
        "",
    ),
    "data_transfer step": (STEP.format("data_transfer"), ("jobs", "s"), ""),
    "control step": (STEP.format("parallel_for"), ("jobs", "s"), ""),
    "other step": (STEP.format("fl_scatter_gather"), ("jobs", "s"), ""),
    "command spec": ("type: CommandComponent\ncommand: x\n", (), "variables"),
    "distributed spec": ("type: DistributedComponent\n", (), "variables"),
    # The processes per node of a ParallelComponent are run settings, so its threads are reported and not set.
    "parallel spec": ("type: ParallelComponent\n", (), ""),
    "sweep spec": ("type: SweepComponent\n", (), "variables"),
    "other spec": ("type: ScopeComponent\n", (), ""),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_kind_gets_the_settings_that_it_keeps(name: str) -> None:
    text, path, expected = ROWS[name]
    [target] = [
        target
        for target in parse("x.yml", text.encode(), ProjectFiles(read_raw)).documents[0].targets
        if target.path[1:] == path
    ]
    assert target.kind.name == name
    # A kind that loses something says why.
    assert bool(target.kind.why) == (len(target.kind.slots) < 4 and name != "sweep trial")
    result = patch(
        text, instance_type="t", instance_count=2, compute="k", threads="lightgbm", cores=8
    )
    data = yaml.safe_load(result.after or text)
    for step in path:
        data = data[step]
    places = {
        "type": data.get("resources", {}).get("instance_type") == "t",
        "count": data.get("resources", {}).get("instance_count") == 2,
        "compute": data.get("compute") == "azureml:k",
        "default_compute": data.get("settings", {}).get("default_compute") == "azureml:k",
        "variables": bool(data.get("environment_variables")),
    }
    assert " ".join(place for place, is_set in places.items() if is_set) == expected


STEPS = {
    "CommandComponent": ("command v1.5 step", "type count compute variables"),
    "DistributedComponent": ("distributed v1.5 step", "type count compute variables"),
    "ParallelComponent": ("parallel v1.5 step", "type count compute variables"),
    "SweepComponent": ("sweep v1.5 step", ""),
}


@pytest.mark.parametrize("component", STEPS)
def test_a_v15_step_gets_the_settings_that_it_keeps(component: str, tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(f"type: {component}\n")
    code = "from azure.ml.component import Component, dsl\n\ntrain = Component.from_yaml(ws, yaml_file='train.yaml')\n"
    code += "\n@dsl.pipeline()\ndef p(x):\n    step = train(x=x)\n"
    settings = Settings(
        instance_type="t", instance_count=2, compute="k", threads="lightgbm", cores=8
    )
    result = patch_source(str(tmp_path / "p.py"), code.encode(), settings)
    after = (result.after or code.encode()).decode()
    places = {
        "type": 'instance_type="t"' in after,
        "count": "instance_count=2" in after,
        "compute": 'step.runsettings.target = "k"' in after,
        "variables": "step.runsettings.environment_variables = {" in after,
    }
    assert " ".join(place for place, is_set in places.items() if is_set) == STEPS[component][1]


def test_every_kind_has_a_row() -> None:
    assert {kind.name for kind in KINDS.values()} == {*ROWS, *(name for name, _ in STEPS.values())}


ALL = "resources compute variables"
# What azure-ai-ml sends for each kind, and Component SDK v1.5 keeps; some of these no setting can reach today.
SLOTS = {
    "command job": ALL,
    "command component": "resources",
    "command step": ALL,
    "parallel component": "resources",
    "parallel step": ALL,
    "sweep job": "resources compute",
    "sweep trial": "resources variables",
    "sweep step": "resources compute",
    "sweep step trial": "resources",
    "automl job": ALL,
    "automl step": ALL,
    "pipeline job": "compute",
    "command spec": "variables",
    "distributed spec": "variables",
    "parallel spec": "variables",
    "sweep spec": "variables",
    "command v1.5 step": ALL,
    "distributed v1.5 step": ALL,
    "parallel v1.5 step": ALL,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_kind_has_exactly_these_slots(kind: TargetKind) -> None:
    groups = {
        "resources": kind.resources,
        "compute": Slot.COMPUTE in kind.slots,
        "variables": kind.variables,
    }
    assert " ".join(name for name, kept in groups.items() if kept) == SLOTS.get(kind.name, "")


@pytest.mark.parametrize(
    "key", ["compute", "experiment_name", "settings", "services", "queue_settings"]
)
def test_keys_that_only_a_job_has(key: str) -> None:
    root = root_of(f"type: command\ncommand: x\nname: n\nversion: 1\n{key}: x\n")
    assert recognise(root)[0] is KINDS[Family.COMMAND, Role.JOB]


@pytest.mark.parametrize("key", ["name", "version", "is_deterministic"])
def test_keys_that_only_a_component_has(key: str) -> None:
    root = root_of(f"type: command\ncommand: x\n{key}: x\n")
    assert recognise(root)[0] is KINDS[Family.COMMAND, Role.COMPONENT]


@pytest.mark.parametrize(
    "text",
    [
        "type: command\nrun: x\n",
        "type: pipeline\nsteps: []\n",
        "type: spark\nentry: x\n",
        "type: spark\ncode: x\n",
    ],
)
def test_a_type_without_the_keys_of_azureml_is_something_else(text: str) -> None:
    assert recognise(root_of(text))[0] is None
