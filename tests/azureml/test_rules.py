"""Every rule: what it finds, what it leaves alone, what it fixes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.azureml.settings import SETTING_NAMES
from arc_toolkit.ignore_rules import IGNORE_RULES
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
from arc_toolkit.kube.quantities import GI
from tests.azureml.support import (
    COMMAND_JOB,
    COMPONENT,
    check_noop,
    check_transformed,
    patch,
    rules_of,
)

JOB = "command: x\nenvironment: e\ncompute: azureml:c\n"
STEP = "type: pipeline\njobs:\n  s:\n    type: {}\n    component: azureml:x:1\n"
TYPES = {
    "8cpu32g": InstanceTypeSpec("8cpu32g", 8000, 32 * GI),
    "96cpu880g8gpu": InstanceTypeSpec("96cpu880g8gpu", 96000, 880 * GI, {"nvidia.com/gpu": 8}),
}

# rule -> (a file that it finds, the same file when it is right, settings)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "amlarc-restep": (
        JOB + "environment_variables: {AMLARC_RESTEP: x}\n",
        JOB + "environment_variables: {AMLARC_PRESTEP: x}\n",
        {},
    ),
    "bound-instance-count": (
        COMPONENT + "resources: {instance_count: '${{inputs.n}}'}\n",
        STEP.format("command") + "    resources: {instance_count: '${{parent.inputs.n}}'}\n",
        {},
    ),
    "circular-reference": (
        "type: pipeline\njobs:\n  s: {type: pipeline, component: ./job.yml}\n",
        "type: pipeline\njobs:\n  s: {type: pipeline, component: 'azureml:other:1'}\n",
        {},
    ),
    "dropped-environment-variables": (
        COMPONENT + "environment_variables: {A: b}\n",
        JOB + "environment_variables: {A: b}\n",
        {},
    ),
    "duplicate-key": (JOB + "compute: azureml:d\n", JOB, {}),
    "faiss-threads": (
        JOB.replace("e\n", "azureml:faiss:1\n", 1).replace(":c", ":aks"),
        JOB.replace("e\n", "azureml:faiss:1\n", 1).replace(":c", ":aks")
        + "environment_variables: {OMP_NUM_THREADS: '1'}\n",
        {},
    ),
    "gpus-without-distribution": (
        JOB + "resources: {instance_type: 96cpu880g8gpu, instance_count: 2}\n",
        JOB
        + "resources: {instance_type: 96cpu880g8gpu, instance_count: 2}\ndistribution: {type: pytorch}\n",
        {},
    ),
    "ignore-of-unknown-rule": (
        JOB + "code: .  # arc-toolkit: ignore[thread] for a reason\n",
        JOB + "code: .  # arc-toolkit: ignore[threads, amlarc-restep] for a reason\n",
        {},
    ),
    "ignore-without-reason": (
        JOB + "code: .  # arc-toolkit: ignore[threads]\n",
        JOB + "code: .  # arc-toolkit: ignore[threads] for a reason\n",
        {},
    ),
    "legacy-sweep": (
        "type: SweepComponent\ntrial: file:./t.yml\n",
        "type: CommandComponent\ncommand: x\n",
        {},
    ),
    "lightgbm-threads": (
        COMMAND_JOB.replace(":cluster", ":aks"),
        COMMAND_JOB.replace(":cluster", ":aks")
        + "environment_variables: {AMLARC_PRESTEP: 'export OMP_NUM_THREADS=` get_cores `'}\n",
        {},
    ),
    "misplaced-key": (
        STEP.format("parallel") + "    task: {type: run_function, environment_variables: {A: b}}\n",
        STEP.format("parallel") + "    environment_variables: {A: b}\n",
        {},
    ),
    "missing-reference": (
        STEP.format("command").replace("azureml:x:1", "./nowhere.yml"),
        STEP.format("command"),
        {},
    ),
    "misspelt-key": (
        COMPONENT + "resorces: {instance_type: x}\n",
        COMPONENT + "resources: {instance_type: x}\n",
        {},
    ),
    "missing-instance-type": (
        JOB.replace(":c", ":aks-gpu"),
        JOB.replace(":c", ":aks-gpu") + "resources: {instance_type: x}\n",
        {},
    ),
    "old-base-image": (
        JOB.replace("e\n", "{image: 'mcr.microsoft.com/azureml/openmpi3.1.2-ubuntu18.04'}\n", 1),
        JOB.replace("e\n", "{image: 'mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04'}\n", 1),
        {},
    ),
    "threads-above-cores": (
        JOB
        + "resources: {instance_type: 8cpu32g}\nenvironment_variables: {OMP_NUM_THREADS: '64'}\n",
        JOB
        + "resources: {instance_type: 8cpu32g}\nenvironment_variables: {OMP_NUM_THREADS: '8'}\n",
        {},
    ),
    "unknown-instance-type": (
        JOB + "resources: {instance_type: 8cpu-32g}\n",
        JOB + "resources: {instance_type: 8cpu32g}\n",
        {"instance_types": TYPES},
    ),
    "wrong-schema": (
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ntype: pipeline\njobs: {}\n",
        "$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\ntype: pipeline\njobs: {}\n",
        {},
    ),
    "not-a-mapping": (
        JOB + "resources: 8cpu32g\n",
        JOB + "resources: {instance_type: 8cpu32g}\n",
        {},
    ),
    "invalid-instance-count": (
        JOB + "resources: {instance_count: 0}\n",
        JOB + "resources: {instance_count: 1}\n",
        {},
    ),
    "legacy-key": (
        COMPONENT + "resources: {node_count: 2}\n",
        COMPONENT + "resources: {instance_count: 2}\n",
        {},
    ),
    "undeclared-input": (
        JOB.replace("x", "python a.py ${{inputs.a}}", 1) + "inputs: {b: 1}\n",
        JOB.replace("x", "python a.py ${{inputs.b}}", 1) + "inputs: {b: 1}\n",
        {},
    ),
    "unused-component": (COMPONENT, JOB, {"in_folder": True}),
    "unknown-key": (
        JOB + "resources: {cpu: 8}\n",
        JOB + "resources: {instance_type: 8cpu32g}\n",
        {},
    ),
    "unknown-type": (STEP.format("component"), STEP.format("Command"), {}),
    "invalid-name": (STEP.format("command").replace(" s:", " s-1:"), STEP.format("command"), {}),
    "not-a-value": (JOB.replace("azureml:c", "{target: azureml:c}"), JOB, {}),
}


@pytest.mark.parametrize(
    "rule", [name for name, rule in all_rules().items() if "yaml" in rule.language]
)
def test_a_rule_finds_its_case_and_not_the_right_form(rule: str) -> None:
    wrong, right, settings = CASES[rule]
    found = [finding for finding in patch(wrong, **settings).findings if finding.rule == rule]
    assert found
    assert found[0].line >= 1
    assert found[0].severity == all_rules()[rule].severity
    assert rule not in rules_of(patch(right, **settings))


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_can_be_skipped_and_ignored(rule: str) -> None:
    wrong, _, settings = CASES[rule]
    assert rule not in rules_of(patch(wrong, skip=frozenset([rule]), **settings))
    if rule != "ignore-without-reason":
        ignored = f"# arc-toolkit: ignore-file[{rule}] known\n" + wrong
        result = patch(ignored, **settings)
        assert rule not in rules_of(result)
        assert result.after is None


def test_restep_is_fixed_in_keys_and_in_commands() -> None:
    text = "command: >-\n  export AMLARC_RESTEP=x &&\n  run\nenvironment: e\ncompute: c\n"
    result = check_transformed(text, text.replace("RESTEP", "PRESTEP"))
    assert [(finding.rule, finding.applied) for finding in result.findings] == [
        ("amlarc-restep", True)
    ]
    both = JOB + "environment_variables: {AMLARC_RESTEP: x, AMLARC_PRESTEP: y}\n"
    finding = check_noop(both).findings[0]
    assert not finding.applied
    assert "already exists" in finding.reason


def test_unsafe_fixes_wait_for_their_option() -> None:
    wrong = CASES["misspelt-key"][0]
    assert check_noop(wrong).findings[0].fixable == "unsafe"
    check_transformed(wrong, CASES["misspelt-key"][1], unsafe_fixes=True)


def test_a_tasks_variables_move_to_the_step() -> None:
    text = (
        STEP.format("parallel")
        + "    task:\n      type: run_function\n      environment_variables:\n        A: b\n"
    )
    after = (
        STEP.format("parallel")
        + '    environment_variables:\n      A: "b"\n    task:\n      type: run_function\n'
    )
    check_transformed(text, after, unsafe_fixes=True)


def test_an_instance_type_at_the_top_moves_below_resources() -> None:
    after = JOB + "resources:\n  instance_type: x\n"
    check_transformed(JOB + "instance_type: x\n", after, unsafe_fixes=True)


def test_a_prestep_for_all_cores_is_wrong_with_several_processes() -> None:
    text = (
        STEP.format("parallel").replace("azureml:x:1", "azureml:lightgbm:1")
        + "    environment: azureml:lightgbm:1\n    max_concurrency_per_instance: 4\n"
        + "    resources: {instance_type: 32cpu128g}\n"
        + "    environment_variables: {AMLARC_PRESTEP: 'export OMP_NUM_THREADS=` get_cores `'}\n"
    )
    [finding] = [finding for finding in patch(text).findings if finding.rule == "lightgbm-threads"]
    assert "it has to be 8" in finding.message


def test_settings_of_the_same_run_count_for_the_rules() -> None:
    wrong = CASES["missing-instance-type"][0]
    assert "missing-instance-type" not in rules_of(patch(wrong, instance_type="x"))
    assert "lightgbm-threads" not in rules_of(patch(COMMAND_JOB, threads="auto"))
    assert "unknown-instance-type" in rules_of(
        patch(JOB, instance_type="nope", instance_types=TYPES)
    )


def test_the_dockerfile_is_looked_into() -> None:
    text = JOB.replace("environment: e\n", "environment:\n  build:\n    path: ./docker\n")
    result = patch(text, files={"docker/Dockerfile": "FROM ubuntu:18.04\n"})
    assert "old-base-image" in rules_of(result)


@pytest.mark.parametrize(
    "image", ["ubuntu:bionic", "nvidia/cuda:11.0-base-ubuntu18.04", "azureml-ubuntu1604"]
)
def test_old_images(image: str) -> None:
    assert "old-base-image" in rules_of(patch(JOB.replace("e\n", f"{{image: '{image}'}}\n", 1)))


@pytest.mark.parametrize(
    "image", ["ubuntu:20.04", "openmpi4.1.0-ubuntu20.04", "python:3.11-slim", "x:20180401"]
)
def test_images_that_are_fine(image: str) -> None:
    assert "old-base-image" not in rules_of(patch(JOB.replace("e\n", f"{{image: '{image}'}}\n", 1)))


# --- their documentation ---------------------------------------------------------------------------------------


def test_every_rule_has_a_test_and_a_legal_name() -> None:
    rules = all_rules()
    assert len(rules) >= 19
    assert set(CASES) == {name for name, rule in rules.items() if "yaml" in rule.language}
    assert {name for name, rule in rules.items() if rule.check is None} == {*IGNORE_RULES}
    for name in rules:
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", name)
        assert name not in SETTING_NAMES


def messages(rule: str, text: str, **settings: Any) -> list[str]:
    return [finding.message for finding in patch(text, **settings).findings if finding.rule == rule]


def test_a_circle_by_way_of_another_file_is_found() -> None:
    files = {"b.yml": "type: pipeline\nname: b\nversion: 1\njobs:\n  s: {component: ./job.yml}\n"}
    text = "type: pipeline\nname: a\nversion: 1\njobs:\n  s: {component: ./b.yml}\n"
    assert messages("circular-reference", text, files=files) == [
        "step `s` makes the pipeline include itself by way of b.yml"
    ]
    assert messages("circular-reference", text.replace("./b.yml", "./c.yml"), files=files) == []


def test_files_that_are_there_are_not_missing() -> None:
    job = "command: x\nenvironment: {image: i, conda_file: env/conda.yml}\ncompute: c\n"
    assert messages("missing-reference", job) == [
        "`conda_file` of command job names a file that does not exist"
    ]
    assert messages("missing-reference", job, files={"env/conda.yml": "dependencies: []"}) == []
    sweep = "type: sweep\ntrial: ./t.yml\nsearch_space: {}\nobjective: {}\n"
    assert messages("missing-reference", sweep) == [
        "`trial` of sweep job names a file that does not exist"
    ]
    assert messages("missing-reference", sweep, files={"t.yml": COMPONENT}) == []
    assert messages("missing-reference", sweep, path="-") == []


def test_a_misspelt_key_beside_the_right_one_is_reported_and_not_renamed() -> None:
    text = COMPONENT + "resorces: {instance_type: a}\nresources: {instance_count: 1}\n"
    result = check_noop(text, unsafe_fixes=True)
    assert [one.message for one in result.findings if one.rule == "misspelt-key"] == [
        "`resorces` is not a key of a command component; `resources` is there too"
    ]


def test_compute_of_a_component_is_misplaced() -> None:
    assert len(messages("misplaced-key", COMPONENT + "compute: azureml:c\n")) == 1
    assert messages("misplaced-key", JOB) == []


def test_a_name_that_no_instance_type_can_have_is_found_on_kubernetes_only() -> None:
    text = JOB + "resources: {instance_type: Standard_NC6}\n"
    assert messages("unknown-instance-type", text) == []
    assert len(messages("unknown-instance-type", text.replace("azureml:c", "azureml:aks"))) == 1
    assert (
        messages(
            "unknown-instance-type",
            text.replace("azureml:c", "azureml:aks").replace("Standard_NC6", "a-1"),
        )
        == []
    )


@pytest.mark.parametrize(
    "text",
    [
        "type: import\nsource: {type: database, query: q, connection: c}\noutput: {type: mltable, path: p}\n",
        "type: pipeline\njobs:\n  s: {type: data_transfer, task: import_data, source: {type: database, query: q}}\n",
        "type: pipeline\njobs:\n  s: {type: data_transfer, task: export_data, sink: {type: database}}\n",
        "type: pipeline\njobs:\n  s: {type: if_else, condition: c, true_block: a, false_block: b}\n",
        COMPONENT.replace("type: command", "type: spark") + "entry: {file: a.py}\n",
    ],
)
def test_keys_of_every_kind_are_known(text: str) -> None:
    """Issue 11: `source` and `sink` were called misspelt, and --unsafe-fixes renamed them."""
    found = {finding.rule for finding in check_noop(text, unsafe_fixes=True).findings}
    assert not found & {"misspelt-key", "misplaced-key", "not-a-mapping"}


def test_a_key_is_looked_for_in_the_mapping_that_has_it() -> None:
    task = (
        STEP.format("parallel")
        + "    task: {type: run_function, mini_batch_size: '1', entry_script: a.py}\n"
    )
    assert messages("misplaced-key", task) == [
        "`mini_batch_size` below `task` is not read: it belongs beside it"
    ]
    high = STEP.format("parallel") + "    entry_script: a.py\n"
    assert messages("misplaced-key", high) == [
        "`entry_script` of step `s` is read below `task` only"
    ]
    after = JOB + "distribution:\n  process_count_per_instance: 2\n"
    check_transformed(JOB + "process_count_per_instance: 2\n", after, unsafe_fixes=True)


def test_an_instance_type_of_a_step_that_names_a_component_is_read() -> None:
    """azure-ai-ml takes it there, and it wins over `resources`; in a step that is written in place it is rejected."""
    assert messages("misplaced-key", STEP.format("command") + "    instance_type: x\n") == []
    inline = "type: pipeline\njobs:\n  s: {type: command, command: x, environment: e, instance_type: x}\n"
    assert len(messages("misplaced-key", inline)) == 1


@pytest.mark.parametrize(
    ("inputs", "binding", "known"),
    [
        ("{a: 1}", "${{parent.inputs.a}}", True),
        ("{a: 1}", "${{parent.inputs.b}}", False),
        ("{g.a: 1}", "${{parent.inputs.g.a}}", True),
        ("{g.a: 1}", "${{parent.inputs.g}}", True),
        ("{g: {a: 1}}", "${{parent.inputs.g.a}}", True),
        ("{ab: 1}", "${{parent.inputs.a}}", False),
    ],
)
def test_what_a_step_is_bound_to_is_declared(inputs: str, binding: str, known: bool) -> None:
    text = (
        STEP.format("command").replace("jobs:", f"inputs: {inputs}\njobs:")
        + f"    inputs: {{x: '{binding}'}}\n"
    )
    assert (messages("undeclared-input", text) == []) is known


def test_a_trial_has_the_inputs_of_its_sweep() -> None:
    text = (
        "type: sweep\ninputs: {data: 1}\nsearch_space: {lr: {type: choice, values: [1]}}\n"
        "objective: {goal: minimize, primary_metric: m}\n"
        "trial: {command: 'python a.py ${{inputs.data}} ${{search_space.lr}} ${{search_space.x}}', environment: e}\n"
    )
    assert messages("undeclared-input", text) == ["sweep trial has no search space `x`"]


PRS = "type: parallel\nname: p\nversion: 1\ntask: {type: run_function, entry_script: s.py, environment: e}\n"
AUTOML = "type: automl\ntask: regression\nname: a\nversion: 1\n"


@pytest.mark.parametrize(
    ("text", "rule", "message"),
    [
        # azure-ai-ml 1.35 sends what is beside `component`, and drops what is below `resources`.
        (
            STEP.format("command") + "    instance_type: a\n    resources: {instance_type: b}\n",
            "misplaced-key",
            "the one beside `component` wins",
        ),
        (
            STEP.format("command") + "    instance_count: 0\n",
            "invalid-instance-count",
            "instance_count: 0",
        ),
        (
            STEP.format("parallel") + "    instance_count: ${{parent.inputs.n}}\ninputs: {n: 1}\n",
            "bound-instance-count",
            "beside `component` is rejected",
        ),
        (
            STEP.format("sweep") + "    instance_type: a\n",
            "misplaced-key",
            "is read below `resources` only",
        ),
        (PRS + "instance_count: 2\n", "misplaced-key", "is read below `resources` only"),
        (PRS + "entry_script: s.py\n", "misplaced-key", "is read below `task` only"),
        (
            PRS.replace("environment: e", "environment: e, mini_batch_size: 1"),
            "misplaced-key",
            "belongs beside it",
        ),
        (
            PRS.replace("environment: e", "environment: e, instance_count: 2"),
            "misplaced-key",
            "below `resources`",
        ),
        (PRS + "compute: azureml:c\n", "misplaced-key", "has no `compute`"),
        (AUTOML + "resources: {instance_type: a}\n", "misplaced-key", "has no `resources`"),
        (
            AUTOML + "environment_variables: {A: b}\n",
            "dropped-environment-variables",
            "A never reaches the job",
        ),
        (
            "type: pipeline\nversion: 1\njobs: {}\nenvironment_variables: {A: b}\n",
            "dropped-environment-variables",
            "a pipeline component has no environment variables",
        ),
        (PRS + "node_count: 2\n", "legacy-key", "in v2 it is `resources.instance_count`"),
        (JOB + "resources: [8cpu32g]\n", "not-a-mapping", "has to be a mapping"),
        (
            STEP.format("command") + "    inputs: {a: '${{parent.jobs.prepare.outputs.data}}'}\n",
            "undeclared-input",
            "the pipeline has no step `prepare`",
        ),
        (
            "type: pipeline\njobs:\n  b: {type: if_else, condition: '${{parent.jobs.c.outputs.output}}'}\n",
            "undeclared-input",
            "the pipeline has no step `c`",
        ),
    ],
)
def test_what_azure_ai_ml_rejects_or_drops_is_found(text: str, rule: str, message: str) -> None:
    [finding] = [item for item in patch(text).findings if item.severity != "note"]
    assert (finding.rule, message in finding.message) == (rule, True), finding.message


@pytest.mark.parametrize(
    "text",
    [
        STEP.format("command") + "    instance_type: a\n    instance_count: 2\n",
        STEP.format("parallel") + "    instance_count: 2\n    resources: {instance_type: a}\n",
        STEP.format("command") + "    inputs: {a: '${{parent.jobs.s.outputs.data}}'}\n",
        AUTOML + "inputs: {x: {type: mltable}}\n",
        # A deployment of a pipeline component has its type, and no jobs.
        "$schema: https://azuremlschemas.azureedge.net/latest/pipelineComponentBatchDeployment.schema.json\n"
        "type: pipeline\nname: d\ncompute: azureml:c\nsettings: {default_compute: c}\n",
        # A Spark job of the first preview, whose schema is that of a v1.5 component.
        "$schema: http://azureml/sdk-2-0/SparkComponent.json\nname: s\ntype: spark\ncode: .\n"
        "entry: {file: main.py}\nresources: {instance_type: standard_e8s_v3, runtime_version: '3.4'}\n",
    ],
)
def test_what_azure_ai_ml_takes_is_not_reported(text: str) -> None:
    assert [item for item in patch(text).findings if item.severity != "note"] == []
