"""The same job gets the same findings as YAML and as Python code."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.azureml.azureml_files import patch_yaml
from arc_toolkit.azureml.python.python_plan import patch_source
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.azureml.settings import Settings
from tests.azureml.test_rules import TYPES

COMPONENT = """\
$schema: https://azuremlschemas.azureedge.net/latest/{family}Component.schema.json
type: {family}
name: train
version: 1
{task}
"""
COMMAND = COMPONENT.format(
    family="command", task="command: python train.py\nenvironment: azureml:lightgbm@latest"
)
PARALLEL = COMPONENT.format(
    family="parallel",
    task="task: {type: run_function, entry_script: s.py, environment: 'azureml:lightgbm@latest'}",
)
CODE = """\
from azure.ai.ml import command, dsl, load_component
from azure.ai.ml.entities import Environment, JobResourceConfiguration
from azure.ai.ml.parallel import RunFunction, parallel_run_function

"""
SWEEP = "sampling_algorithm='random', primary_metric='m', goal='minimize'"

# name -> (rules that must be found, YAML, code, settings)
PAIRS: dict[str, tuple[set[str], str, str, dict[str, Any]]] = {
    "command job": (
        {"missing-instance-type", "lightgbm-threads"},
        """
        type: command
        command: python train.py
        environment: azureml:lightgbm@latest
        compute: azureml:aks-gpu
        """,
        """
        job = command(command="python train.py", environment="azureml:lightgbm@latest", compute="azureml:aks-gpu")
        """,
        {},
    ),
    "command job with resources": (
        {"gpus-without-distribution", "threads-above-cores", "old-base-image"},
        """
        type: command
        command: python train.py
        environment: {image: 'ubuntu:18.04'}
        compute: azureml:aks-gpu
        resources: {instance_type: 96cpu880g8gpu, instance_count: 2}
        environment_variables: {OMP_NUM_THREADS: '128'}
        """,
        """
        IMAGE = "ubuntu:18.04"
        job = command(
            command="python train.py",
            environment=Environment(image=IMAGE),
            compute="azureml:aks-gpu",
            instance_type="96cpu880g8gpu",
            instance_count=2,
            environment_variables={"OMP_NUM_THREADS": "128"},
        )
        """,
        {"instance_types": TYPES},
    ),
    "resources that are said later": (
        {"unknown-instance-type", "faiss-threads"},
        """
        type: command
        command: python search.py
        environment: azureml:faiss:1
        compute: azureml:aks
        resources: {instance_type: 8cpu-32g}
        """,
        """
        job = command(command="python search.py", environment="azureml:faiss:1")
        job.compute = "azureml:aks"
        job.resources = JobResourceConfiguration(instance_type="8cpu-32g")
        """,
        {"instance_types": TYPES},
    ),
    "nothing wrong": (
        set(),
        """
        type: command
        command: python train.py
        environment: azureml:lightgbm@latest
        compute: azureml:aks-gpu
        resources: {instance_type: 8cpu32g}
        distribution: {type: pytorch}
        environment_variables: {AMLARC_PRESTEP: 'export OMP_NUM_THREADS=` get_cores `'}
        """,
        """
        size = "8cpu32g"
        job = command(
            command="python train.py",
            environment="azureml:lightgbm@latest",
            compute="azureml:aks-gpu",
            instance_type=size,
            distribution=PyTorchDistribution(),
            environment_variables=dict(AMLARC_PRESTEP="export OMP_NUM_THREADS=` get_cores `"),
        )
        """,
        {"instance_types": TYPES},
    ),
    "pipeline step": (
        {"missing-instance-type", "lightgbm-threads", "amlarc-restep"},
        """
        type: pipeline
        settings: {default_compute: 'azureml:k8s'}
        jobs:
          node:
            type: command
            component: ./train.yml
            environment_variables: {AMLARC_RESTEP: x}
        """,
        """
        train = load_component(source="./train.yml")

        @dsl.pipeline(default_compute="azureml:k8s")
        def pipeline(data):
            node = train(data=data)
            node.environment_variables = {"AMLARC_RESTEP": "x"}
        """,
        {},
    ),
    "pipeline step with a bound count": (
        {"lightgbm-threads", "unknown-instance-type"},
        """
        type: pipeline
        inputs: {n: 1}
        jobs:
          node:
            type: command
            component: ./train.yml
            compute: azureml:aks
            resources: {instance_type: Standard_NC6, instance_count: '${{parent.inputs.n}}'}
        """,
        """
        train = load_component(source="./train.yml")

        @dsl.pipeline
        def pipeline(n):
            node = train()
            node.compute = "azureml:aks"
            node.resources = JobResourceConfiguration(instance_type="Standard_NC6", instance_count=n)
        """,
        {},
    ),
    "inline step with a bound count": (
        {"bound-instance-count"},
        """
        type: pipeline
        inputs: {n: 1}
        jobs:
          node:
            type: command
            command: x
            environment: e
            resources: {instance_count: '${{parent.inputs.n}}'}
        """,
        """
        @dsl.pipeline
        def pipeline(n):
            node = command(command="x", environment="e", instance_count="${{parent.inputs.n}}")
        """,
        {},
    ),
    "parallel step": (
        {"missing-instance-type", "lightgbm-threads"},
        """
        type: pipeline
        jobs:
          node:
            type: parallel
            component: ./score.yml
            compute: azureml:kubernetes
            max_concurrency_per_instance: 4
            environment_variables: {OMP_NUM_THREADS: '8'}
        """,
        """
        score = load_component("score.yml")

        @dsl.pipeline()
        def pipeline(data):
            node = score(data=data)
            node.compute = "azureml:kubernetes"
            node.max_concurrency_per_instance = 4
            node.environment_variables["OMP_NUM_THREADS"] = "8"
        """,
        {"cores": 16},
    ),
    "parallel_run_function": (
        {"lightgbm-threads", "threads-above-cores"},
        """
        type: pipeline
        jobs:
          node:
            type: parallel
            task: {type: run_function, entry_script: s.py, environment: 'azureml:lightgbm:1'}
            resources: {instance_type: 8cpu32g}
            environment_variables: {OMP_NUM_THREADS: '64'}
        """,
        """
        @dsl.pipeline
        def pipeline():
            node = parallel_run_function(
                task=RunFunction(entry_script="s.py", environment="azureml:lightgbm:1"),
                instance_type="8cpu32g",
                environment_variables={"OMP_NUM_THREADS": "64"},
            )
        """,
        {},
    ),
    "sweep job": (
        {"missing-instance-type", "lightgbm-threads", "old-base-image"},
        """
        type: sweep
        compute: azureml:aks
        trial:
          command: python train.py
          environment: azureml:lightgbm-ubuntu18.04:1
        search_space: {}
        objective: {}
        """,
        f"""
        trial = command(command="python train.py", environment="azureml:lightgbm-ubuntu18.04:1")
        tuned = trial.sweep({SWEEP}, compute="azureml:aks")
        """,
        {},
    ),
    "sweep step": (
        {"missing-instance-type", "lightgbm-threads", "dropped-environment-variables"},
        """
        type: pipeline
        jobs:
          tuned:
            type: sweep
            compute: azureml:aks
            trial:
              command: python train.py
              environment: azureml:lightgbm:1
              environment_variables: {A: b}
        """,
        f"""
        @dsl.pipeline
        def pipeline():
            trial = command(
                command="python train.py", environment="azureml:lightgbm:1", environment_variables={{"A": "b"}}
            )
            tuned = trial.sweep({SWEEP}, compute="azureml:aks")
        """,
        {},
    ),
    "sweep step over a component file": (
        {"lightgbm-threads"},
        """
        type: pipeline
        jobs:
          tuned: {type: sweep, trial: ./train.yml, resources: {instance_type: 8cpu32g}}
        """,
        f"""
        train = load_component("./train.yml")

        @dsl.pipeline
        def pipeline(data):
            tuned = train(data=data).sweep({SWEEP})
            tuned.resources = JobResourceConfiguration(instance_type="8cpu32g")
        """,
        {},
    ),
    "ignores": (
        {"ignore-without-reason", "ignore-of-unknown-rule"},
        """
        type: command
        command: x  # arc-toolkit: ignore[threads]
        environment: e  # arc-toolkit: ignore[thread] one is enough
        compute: c
        """,
        """
        job = command(
            command="x",  # arc-toolkit: ignore[threads]
            environment="e",  # arc-toolkit: ignore[thread] one is enough
            compute="c",
        )
        """,
        {},
    ),
}


# The same with a command object that is made outside of the pipeline function and called there: the step copies it.
# What azure-ai-ml copies is tested in python/test_real.py.
CALLED: dict[str, tuple[set[str], str, str, dict[str, Any]]] = {
    "resources, image and variables": (
        {"old-base-image", "threads-above-cores", "gpus-without-distribution"},
        """
        type: pipeline
        settings: {default_compute: 'azureml:k8s'}
        jobs:
          a:
            type: command
            command: python train.py
            environment: {image: 'ubuntu:18.04'}
            resources: {instance_type: 96cpu880g8gpu, instance_count: 2}
            environment_variables: {OMP_NUM_THREADS: '128'}
        """,
        """
        step = command(
            command="python train.py",
            environment=Environment(image="ubuntu:18.04"),
            instance_type="96cpu880g8gpu",
            instance_count=2,
            environment_variables={"OMP_NUM_THREADS": "128"},
        )

        @dsl.pipeline(default_compute="azureml:k8s")
        def pipeline():
            a = step()
        """,
        {"instance_types": TYPES},
    ),
    "a distribution": (
        set(),
        """
        type: pipeline
        jobs:
          a:
            type: command
            command: python train.py
            environment: e
            distribution: {type: pytorch}
            resources: {instance_type: 96cpu880g8gpu, instance_count: 2}
        """,
        """
        step = command(
            command="python train.py",
            environment="e",
            distribution=PyTorchDistribution(),
            instance_type="96cpu880g8gpu",
            instance_count=2,
        )

        @dsl.pipeline
        def pipeline():
            a = step()
        """,
        {"instance_types": TYPES},
    ),
    "no resources": (
        {"missing-instance-type", "lightgbm-threads", "amlarc-restep"},
        """
        type: pipeline
        jobs:
          a:
            type: command
            command: python train.py
            environment: azureml:lightgbm:1
            compute: azureml:aks
            environment_variables: {AMLARC_RESTEP: 'export OMP_NUM_THREADS=4'}
        """,
        """
        step = command(
            command="python train.py",
            environment="azureml:lightgbm:1",
            compute="azureml:aks",
            environment_variables={"AMLARC_RESTEP": "export OMP_NUM_THREADS=4"},
        )

        @dsl.pipeline
        def pipeline():
            a = step()
        """,
        {},
    ),
    "exports in the command": (
        {"faiss-threads"},
        """
        type: pipeline
        jobs:
          a: {type: command, command: export OMP_NUM_THREADS=4 && python train.py, environment: 'azureml:lightgbm:1'}
          b: {type: command, command: python search.py, environment: 'azureml:faiss:1'}
        """,
        """
        train = command(command="export OMP_NUM_THREADS=4 && python train.py", environment="azureml:lightgbm:1")
        search = command(command="python search.py", environment="azureml:faiss:1")

        @dsl.pipeline
        def pipeline():
            a = train()
            b = search()
        """,
        {},
    ),
    "settings of the command object that are assigned": (
        {"unknown-instance-type"},
        """
        type: pipeline
        jobs:
          a:
            type: command
            command: python train.py
            environment: azureml:lightgbm:1
            compute: azureml:aks
            resources: {instance_type: 8cpu-32g, instance_count: 2}
            environment_variables: {OMP_NUM_THREADS: '4'}
        """,
        """
        step = command(command="python train.py", environment="azureml:lightgbm:1", instance_count=3)
        step.compute = "azureml:aks"
        step.resources = JobResourceConfiguration(instance_type="8cpu-32g", instance_count=2)
        step.environment_variables["OMP_NUM_THREADS"] = "4"

        @dsl.pipeline
        def pipeline():
            a = step()
        """,
        {"instance_types": TYPES},
    ),
    "settings of the step that replace those of the command object": (
        {"lightgbm-threads"},
        """
        type: pipeline
        jobs:
          a:
            type: command
            command: python train.py
            environment: azureml:lightgbm:1
            resources: {instance_type: 96cpu880g8gpu}
            environment_variables: {A: b}
          b:
            type: command
            command: python train.py
            environment: azureml:lightgbm:1
            resources: {instance_type: 8cpu32g, instance_count: 2}
            environment_variables: {OMP_NUM_THREADS: '4', A: b}
        """,
        """
        step = command(
            command="python train.py",
            environment="azureml:lightgbm:1",
            instance_type="8cpu-32g",
            instance_count=2,
            environment_variables={"OMP_NUM_THREADS": "4"},
        )

        @dsl.pipeline
        def pipeline():
            a = step()
            a.resources = JobResourceConfiguration(instance_type="96cpu880g8gpu")
            a.environment_variables = {"A": "b"}
            b = step()
            b.resources.instance_type = "8cpu32g"
            b.environment_variables["A"] = "b"
        """,
        {"instance_types": TYPES},
    ),
    "parallel step": (
        {"missing-instance-type", "lightgbm-threads", "old-base-image", "threads-above-cores"},
        """
        type: pipeline
        jobs:
          a:
            type: parallel
            compute: azureml:aks
            task: {type: run_function, entry_script: s.py, environment: 'azureml:lightgbm-ubuntu18.04:1'}
            max_concurrency_per_instance: 4
            environment_variables: {OMP_NUM_THREADS: '64'}
        """,
        """
        step = parallel_run_function(
            task=RunFunction(entry_script="s.py", environment="azureml:lightgbm-ubuntu18.04:1"),
            compute="azureml:aks",
            max_concurrency_per_instance=4,
            environment_variables={"OMP_NUM_THREADS": "64"},
        )

        @dsl.pipeline
        def pipeline():
            a = step()
        """,
        {"cores": 16},
    ),
    "a bound count": (
        {"bound-instance-count"},
        """
        type: pipeline
        inputs: {n: 1}
        jobs:
          a:
            type: command
            command: x
            environment: e
            resources: {instance_count: '${{parent.inputs.n}}'}
          b:
            type: command
            component: {type: command, command: x, environment: e}
            resources: {instance_count: '${{parent.inputs.n}}'}
          c: {type: command, command: x, environment: e, resources: {instance_count: 2}}
        """,
        """
        rejected = command(command="x", environment="e", instance_count="${{parent.inputs.n}}")
        taken = command(command="x", environment="e", instance_count=2)
        unknown = command(command="x", environment="e", instance_count=options.count)

        @dsl.pipeline
        def pipeline(n):
            a = rejected()
            b = taken()
            b.resources.instance_count = n
            c = unknown()
        """,
        {},
    ),
    "parallel step with resources": (
        {"unknown-instance-type", "threads-above-cores"},
        """
        type: pipeline
        jobs:
          a:
            type: parallel
            task: {type: run_function, entry_script: s.py, environment: e}
            resources: {instance_type: 8cpu-32g}
          b:
            type: parallel
            task: {type: run_function, entry_script: s.py, environment: e}
            resources: {instance_type: 8cpu32g}
            environment_variables: {OMP_NUM_THREADS: '64'}
        """,
        """
        task = RunFunction(entry_script="s.py", environment="e")
        first = parallel_run_function(task=task, instance_type="8cpu-32g")
        second = parallel_run_function(
            task=task, instance_type="8cpu32g", environment_variables={"OMP_NUM_THREADS": "64"}
        )

        @dsl.pipeline
        def pipeline():
            a = first()
            b = second()
        """,
        {"instance_types": TYPES},
    ),
    "sweep step": (
        {
            "lightgbm-threads",
            "dropped-environment-variables",
            "old-base-image",
            "unknown-instance-type",
        },
        """
        type: pipeline
        jobs:
          tuned:
            type: sweep
            compute: azureml:aks
            trial:
              command: python train.py
              environment: azureml:lightgbm-ubuntu18.04:1
              resources: {instance_type: 8cpu-32g}
              environment_variables: {A: b}
        """,
        f"""
        trial = command(
            command="python train.py",
            environment="azureml:lightgbm-ubuntu18.04:1",
            compute="azureml:aks",
            instance_type="8cpu-32g",
            environment_variables={{"A": "b"}},
        )

        @dsl.pipeline
        def pipeline():
            tuned = trial.sweep({SWEEP})
        """,
        {"instance_types": TYPES},
    ),
    "sweep step over a step": (
        {"missing-instance-type", "lightgbm-threads", "dropped-environment-variables"},
        """
        type: pipeline
        jobs:
          first: &sweep
            type: sweep
            compute: azureml:aks
            trial: {command: x, environment: 'azureml:lightgbm:1', environment_variables: {A: b}}
          second: *sweep
        """,
        f"""
        trial = command(
            command="x", environment="azureml:lightgbm:1", compute="azureml:aks", environment_variables={{"A": "b"}}
        )

        @dsl.pipeline
        def pipeline():
            step = trial()
            first = step.sweep({SWEEP})
            second = trial().sweep({SWEEP})
        """,
        {},
    ),
    "sweep step over a step without a name": (
        {"lightgbm-threads", "dropped-environment-variables"},
        """
        type: pipeline
        jobs:
          tuned:
            type: sweep
            trial: {command: x, environment: 'azureml:lightgbm:1', environment_variables: {A: b}}
        """,
        f"""
        trial = command(command="x", environment="azureml:lightgbm:1", environment_variables={{"A": "b"}})

        @dsl.pipeline
        def pipeline():
            tuned = trial().sweep({SWEEP})
        """,
        {},
    ),
    "step and sweep of the same command object": (
        {"dropped-environment-variables"},
        """
        type: pipeline
        jobs:
          a: {type: command, command: x, environment: e, environment_variables: {A: b}}
          tuned: {type: sweep, trial: {command: x, environment: e, environment_variables: {A: b}}}
        """,
        f"""
        step = command(command="x", environment="e", environment_variables={{"A": "b"}})

        @dsl.pipeline
        def pipeline():
            a = step()
            tuned = step.sweep({SWEEP})
        """,
        {},
    ),
    "sweep job over a step": (
        {"missing-instance-type", "lightgbm-threads"},
        """
        type: sweep
        compute: azureml:aks
        trial: {command: x, environment: 'azureml:lightgbm:1', environment_variables: {A: b}}
        search_space: {}
        objective: {}
        """,
        f"""
        base = command(
            command="x", environment="azureml:lightgbm:1", compute="azureml:aks", environment_variables={{"A": "b"}}
        )
        step = base()
        tuned = step.sweep({SWEEP})
        """,
        {},
    ),
    "ignores": (
        {"ignore-without-reason", "ignore-of-unknown-rule"},
        """
        type: pipeline
        jobs:
          a:
            type: command
            command: x  # arc-toolkit: ignore[threads]
            environment: e  # arc-toolkit: ignore[thread] one is enough
            compute: aks
            resources: {instance_type: A_B}  # arc-toolkit: ignore[unknown-instance-type] made later
        """,
        """
        step = command(
            command="x",  # arc-toolkit: ignore[threads]
            environment="e",  # arc-toolkit: ignore[thread] one is enough
            compute="aks",
            instance_type="A_B",  # arc-toolkit: ignore[unknown-instance-type] made later
        )

        @dsl.pipeline
        def pipeline():
            a = step()
        """,
        {},
    ),
}


def _compare(pair: tuple[set[str], str, str, dict[str, Any]], folder: Path) -> None:
    rules, text, code, settings = pair
    (folder / "train.yml").write_text(COMMAND)
    (folder / "score.yml").write_text(PARALLEL)
    project = ProjectFiles(lambda path: Path(path).read_bytes())
    yaml_file, code_file = str(folder / "job.yml"), str(folder / "job.py")
    data = textwrap.dedent(text).encode()
    as_yaml = patch_yaml(yaml_file, data, Settings(**settings), project)
    # YAML has no such thing as a step that is not called.
    in_code = Settings(**settings, skip=frozenset({"uncalled-command"}))
    as_code = patch_source(code_file, (CODE + textwrap.dedent(code)).encode(), in_code)
    yaml_findings, code_findings = (
        {(finding.rule, finding.severity, finding.message) for finding in result.findings}
        for result in (as_yaml, as_code)
    )
    assert yaml_findings == code_findings
    assert {rule for rule, _, _ in code_findings} == rules


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_job_gets_the_same_findings(name: str, tmp_path: Path) -> None:
    _compare(PAIRS[name], tmp_path)


@pytest.mark.parametrize("name", CALLED)
def test_a_step_has_the_findings_of_the_command_object_that_it_copies(
    name: str, tmp_path: Path
) -> None:
    _compare(CALLED[name], tmp_path)


@pytest.mark.parametrize("pairs", [PAIRS, CALLED], ids=["inside", "called"])
def test_every_rule_of_both_languages_is_compared(
    pairs: dict[str, tuple[set[str], str, str, Any]],
) -> None:
    compared = set().union(*(rules for rules, *_ in pairs.values()))
    both = {name for name, rule in all_rules().items() if rule.language == "yaml, python"}
    # In YAML it is a file of its own, in code the run settings of a step.
    assert both - compared == {"legacy-sweep"}
