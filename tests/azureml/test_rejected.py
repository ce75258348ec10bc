"""What azure-ai-ml rejects is found, once; what it takes is not reported. The real library decides about each case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.azureml.support import patch

JOB = "type: command\ncommand: python a.py\nenvironment: azureml:e:1\ncompute: azureml:c\n"
COMPONENT = "$schema: {}\ntype: command\nname: train\nversion: '1'\ncommand: python a.py\nenvironment: azureml:e:1\n"
COMPONENT = COMPONENT.format(
    "https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json"
)
SWEEP = (
    "type: sweep\ncompute: azureml:c\nsampling_algorithm: random\nobjective: {goal: minimize, primary_metric: m}\n"
    "search_space: {x: {type: uniform, min_value: 0, max_value: 1}}\nlimits: {max_total_trials: 2}\n"
    "trial:\n  command: python a.py ${{search_space.x}}\n  environment: azureml:e:1\n"
)
PIPELINE = "type: pipeline\nsettings: {default_compute: azureml:c}\njobs:\n"
INLINE = (
    PIPELINE + "  s:\n    type: command\n    command: python a.py\n    environment: azureml:e:1\n"
)
STEP = PIPELINE + "  s:\n    type: command\n    component: ./train.yml\n"
FILES = {"train.yml": COMPONENT + "outputs: {model: {type: uri_folder}}\n", "src/a.py": ""}

SCHEMA = "$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\n"
WORD = "is rejected"

REJECTED = [
    (JOB + "retries: 3\n", "unknown-key", "command job has no key `retries`: it is rejected"),
    (JOB + "resources: {cpu: 8}\n", "unknown-key", "`resources` of command job has no key `cpu`"),
    (
        JOB + "resources: {limits: {cpu: 8}}\n",
        "unknown-key",
        "`resources` of command job has no key `limits`",
    ),
    (
        STEP + "    resources: {memory: 8Gi}\n",
        "unknown-key",
        "`resources` of step `s` has no key `memory`",
    ),
    (INLINE + "    retries: 3\n", "unknown-key", "step `s` has no key `retries`"),
    (SWEEP + "  retries: 3\n", "unknown-key", "sweep trial has no key `retries`"),
    (SWEEP + "  compute: azureml:c\n", "misplaced-key", "it belongs to the sweep, beside `trial`"),
    (
        STEP + "defaults: {compute: azureml:c}\n",
        "unknown-key",
        "pipeline job has no key `defaults`",
    ),
    (
        STEP + "resources: {instance_type: a}\n",
        "misplaced-key",
        "a pipeline job has no `resources`",
    ),
    (STEP + "default_compute: azureml:c\n", "misplaced-key", "is read below `settings` only"),
    (
        JOB.replace("azureml:e:1", "{image: i, resources: {}}"),
        "misplaced-key",
        "it belongs beside it",
    ),
    (JOB.replace("azureml:c", "{target: azureml:c}"), "not-a-value", "`compute` of command job"),
    (JOB.replace("azureml:c", "[azureml:c]"), "not-a-value", "`compute` of command job"),
    (JOB + "code: {local_path: src}\n", "not-a-value", "`code` of command job"),
    (
        JOB + "resources: {instance_type: [a]}\n",
        "not-a-value",
        "`resources.instance_type` of command job",
    ),
    (JOB.replace("python a.py", "[python, a.py]"), "not-a-value", "`command` of command job"),
    (COMPONENT + "code: {local_path: src}\n", "not-a-value", "`code` of command component"),
    (JOB + "inputs: [{a: 1}]\n", "not-a-mapping", "`inputs` of command job"),
    (
        PIPELINE.replace("jobs:\n", "jobs: [{component: ./train.yml}]\n"),
        "not-a-mapping",
        "`jobs` of pipeline job",
    ),
    (
        STEP.replace("{default_compute: azureml:c}", "azureml:c"),
        "not-a-mapping",
        "`settings` of pipeline job",
    ),
    (
        STEP.replace("  s:", "  train-model:"),
        "invalid-name",
        "`train-model` is rejected as the name of a step",
    ),
    (STEP.replace("  s:", "  trainModel:"), "invalid-name", "`trainModel`"),
    (STEP.replace("  s:", "  1s:"), "invalid-name", "`1s`"),
    (COMPONENT.replace("train\n", "train-model\n"), "invalid-name", "as the name of a component"),
    (COMPONENT.replace("train\n", "_train\n"), "invalid-name", "`_train`"),
    (
        STEP.replace("type: command", "type: component"),
        "unknown-type",
        "`type: component` of step `s`",
    ),
    (STEP.replace("type: command", "type: comand"), "unknown-type", "`type: comand` of step `s`"),
    (
        COMPONENT.replace("type: command", "type: comand"),
        "unknown-type",
        "`type: comand` of command component",
    ),
    (
        JOB + "code: ./nowhere\n",
        "missing-reference",
        "`code` of command job names a folder that does not exist",
    ),
    (COMPONENT + "code: ./nowhere\n", "missing-reference", "`code` of command component"),
    (INLINE + "    code: ./nowhere\n", "missing-reference", "`code` of step `s`"),
]
# Loaded, and without effect or against what the service has.
REJECTED += [
    (
        SCHEMA + INLINE + f"inputs: {{a: {value}}}\n",
        "unknown-type",
        f"of input `a` of pipeline job {WORD}",
    )
    for value in (
        *("{type: string}", "{type: number, default: -1.0}", "{type: Boolean, value: true}"),
        *("{type: tabular, path: 'azureml:d:1'}", "{type: path, path: ./src}"),
    )
]
REJECTED += [
    (
        STEP + "    inputs: {a: {type: integer, default: 1}}\n",
        "unknown-type",
        f"of input `a` of step `s` {WORD}",
    ),
]
WITHOUT_EFFECT = [
    (COMPONENT + "resources: {cpu: 8}\n", "unknown-key", "has no key `cpu`: it is dropped"),
    (COMPONENT + "resources: {compute: azureml:c}\n", "misplaced-key", "it belongs to its step"),
    (
        STEP
        + "  t:\n    component: ./train.yml\n    inputs: {a: '${{parent.jobs.s.outputs.nope}}'}\n",
        "undeclared-input",
        "the component of step `s` has no output `nope`",
    ),
    (
        "$schema: https://azuremlschemas.azureedge.net/latest/environment.schema.json\n" + JOB,
        "wrong-schema",
        "`$schema` names the kind environment, and `type` says command",
    ),
    (
        COMPONENT.replace("commandComponent", "pipelineJob"),
        "wrong-schema",
        "`$schema` names the kind pipeline, and `type` says command",
    ),
]
TAKEN = [
    JOB + "code: .\n",
    JOB + "code: ./src\n",
    JOB + "code: git+https://example.org/a/b\n",
    JOB + "distribution: {type: mpi, process_count_per_instance: 2}\nlimits: {timeout: 60}\n",
    COMPONENT + "anything: 1\nlimits: {timeout: 60}\n",
    STEP + "    anything: 1\n",
    STEP.replace("type: command", "type: Command") + "    resources: {instance_count: 2}\n",
    STEP.replace("  s:", "  _s1:"),
    STEP
    + "  t:\n    component: ./train.yml\n    inputs: {a: '${{parent.jobs.s.outputs.model}}'}\n",
    STEP.replace("{default_compute: azureml:c}", "{default_compute: azureml:c, anything: 1}"),
    SWEEP,
    SCHEMA
    + INLINE
    + "inputs: {a: 1, b: {value: 1}, c: {path: ./src}, d: {type: uri_file, path: ./src/a.py}}\n",
    SCHEMA
    + INLINE
    + "inputs: {a: {type: MLTable, path: ./src}, b: {type: mlflow_model, path: ./src}}\n",
    # It is a pipeline component, which its inputs say.
    COMPONENT.replace("command\nname", "command\ninputs: {a: {type: string}}\nname"),
    "$schema: http://azureml/sdk-2-0/SparkComponent.json\nname: s\nversion: '1'\ntype: spark\ncode: ./src\n"
    "entry: {file: a.py}\nresources: {instance_type: standard_e8s_v3, runtime_version: '3.4'}\n"
    "conf: {spark.driver.cores: 1, spark.driver.memory: 2g, spark.executor.cores: 2, spark.executor.memory: 2g,"
    " spark.executor.instances: 2}\n",
]


@pytest.mark.parametrize(("text", "rule", "message"), REJECTED + WITHOUT_EFFECT)
def test_it_is_found_once(text: str, rule: str, message: str) -> None:
    [finding] = [item for item in patch(text, files=FILES).findings if item.severity != "note"]
    assert (finding.rule, message in finding.message) == (rule, True), finding


def test_an_input_that_is_missing_is_one_finding_however_often_it_is_used() -> None:
    step = "    type: command\n    component: azureml:x:1\n    inputs: {a: '${{parent.inputs.n}}'}"
    text = PIPELINE + f"  s:\n{step}\n  t:\n{step}\n"
    [finding] = patch(text).findings
    assert (finding.message, finding.line, finding.reason) == (
        "the pipeline has no input `n`",
        7,
        "it is used 2 times",
    )
    ignored = text.replace(
        "n}}'}\n  t", "n}}'}  # arc-toolkit: ignore[undeclared-input] set later\n  t"
    )
    [finding] = patch(ignored).findings
    assert (finding.line, finding.reason) == (11, "")


@pytest.mark.parametrize("text", TAKEN)
def test_what_is_taken_is_not_reported(text: str) -> None:
    assert [item for item in patch(text, files=FILES).findings if item.severity != "note"] == []


@pytest.mark.parametrize("schema", ["", SCHEMA])
def test_declared_types_make_a_component_of_what_is_used_as_one(schema: str) -> None:
    text = schema + INLINE + "inputs: {a: {type: string}}\n"
    around = PIPELINE + "  s:\n    type: pipeline\n    component: ./inner.yml\n"
    findings = patch(text, path="inner.yml", files={"inner.yml": text, "p.yml": around}).findings
    assert "unknown-type" not in {item.rule for item in findings}


NAMED = COMPONENT.replace("name: train", "name: train-model")


@pytest.mark.parametrize("text", [STEP, SWEEP.split("trial:")[0] + "trial: ./train.yml\n"])
def test_the_name_of_a_component_whose_file_is_used_is_not_rejected(text: str) -> None:
    findings = patch(NAMED, path="train.yml", files={"train.yml": NAMED, "p.yml": text}).findings
    assert [(item.rule, item.severity) for item in findings] == [("invalid-name", "note")]


@pytest.mark.parametrize(
    ("name", "text"), [("p.yml", "a: b\n"), ("p.py", "x = load_component('./train.yml')\n")]
)
def test_the_name_of_a_component_that_is_loaded_is_rejected(name: str, text: str) -> None:
    findings = patch(NAMED, path="train.yml", files={"train.yml": NAMED, name: text}).findings
    assert [(item.rule, item.severity) for item in findings] == [("invalid-name", "error")]


@pytest.mark.real
def test_azure_ai_ml_agrees_about_names(tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(NAMED)
    assert not _loads(NAMED, tmp_path)
    assert _loads(STEP, tmp_path)


@pytest.mark.real
def test_azure_ai_ml_agrees(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    accepted = [text for text, *_ in REJECTED if _loads(text, tmp_path)]
    refused = [
        text
        for text in [*(text for text, *_ in WITHOUT_EFFECT), *TAKEN]
        if not _loads(text, tmp_path)
    ]
    assert (accepted, refused) == ([], [])


def _loads(text: str, folder: Path) -> bool:
    from azure.ai.ml import load_component, load_job

    path = folder / "file.yml"
    path.write_text(text)
    try:
        (load_component if "\nversion:" in text else load_job)(path)
    except Exception:  # several classes, some of them private
        return False
    return True
