"""Programs as people write them, each with what must become of its steps: the answers were written before the code.

Each runs with azure-ai-ml as it is: `job` is a pipeline job or an entity. `expected` maps the steps of the job after
`patch --instance-type big --instance-count 2` to their resources in the REST body (None: the same as before);
`reasons` are what must be reported about the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

BIG = {"instance_type": "big", "instance_count": 2}
FILES = {
    "train.yml": """\
        $schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
        type: command
        name: train
        inputs: {x: {type: number, default: 1}}
        outputs: {model: {type: uri_folder}}
        command: echo ${{inputs.x}}
        environment: azureml:env:1
        """,
    "sized.yml": """\
        $schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
        type: command
        name: sized
        command: echo
        environment: azureml:env:1
        resources: {instance_count: 3, shm_size: 4g, docker_args: --ipc=host}
        """,
    "spark.yml": """\
        $schema: https://azuremlschemas.azureedge.net/latest/sparkComponent.schema.json
        type: spark
        name: sparkle
        code: ./code
        entry: {file: s.py}
        conf:
          spark.driver.cores: 1
          spark.driver.memory: 2g
          spark.executor.cores: 1
          spark.executor.memory: 2g
          spark.executor.instances: 1
        """,
    "code/s.py": "print(1)\n",
}
HEAD = """\
import os
from pathlib import Path
from azure.ai.ml import Input, command, dsl, load_component
from azure.ai.ml.entities import JobResourceConfiguration
"""
SPARK = "Spark takes a fixed list of VM sizes, not an instance type"


@dataclass(frozen=True)
class Idiom:
    """A program and what must become of it."""

    code: str
    expected: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    settings: dict[str, Any] = field(
        default_factory=lambda: {"instance_type": "big", "instance_count": 2}
    )

    @property
    def text(self) -> str:
        return HEAD + dedent(self.code)


def _step(made: str) -> str:
    return f"train = load_component({made})\n\n@dsl.pipeline()\ndef p():\n    a = train()\n\njob = p()\n"


def body(*lines: str, made: str = '"train.yml"', after: str = "job = p()") -> str:
    steps = "".join(f"    {line}\n" for line in lines)
    return f"train = load_component({made})\n\n@dsl.pipeline()\ndef p():\n{steps}\n{after}\n"


SOURCES = {
    "a literal": '"spark.yml"',
    "the working directory": '"./spark.yml"',
    "Path(__file__).parent": 'Path(__file__).parent / "spark.yml"',
    "resolve": 'str(Path(__file__).resolve().parent / "spark.yml")',
    "parents": 'Path(__file__).parents[0].joinpath("spark.yml")',
    "dirname": 'os.path.join(os.path.dirname(__file__), "spark.yml")',
    "abspath": 'os.path.join(os.path.dirname(os.path.abspath(__file__)), "code", "..", "spark.yml")',
    "f-string": 'f"{os.path.dirname(__file__)}/spark.yml"',
    "format": '"{}/spark.yml".format(os.path.dirname(__file__))',
    "percent": '"%s/spark.yml" % os.path.dirname(__file__)',
    "getcwd": 'os.path.join(os.getcwd(), "spark.yml")',
    "cwd": 'Path.cwd() / "spark.yml"',
}
CONSTANTS = {
    "a constant": ('FILE = "spark.yml"', "FILE"),
    "a folder": ("HERE = Path(__file__).parent", 'HERE / "spark.yml"'),
    "a constant of a class": ("class Config:\n    FILE = 'spark.yml'\n", "Config.FILE"),
}

IDIOMS: dict[str, Idiom] = {
    **{
        f"kind: {name}": Idiom(_step(made), {"a": None}, (SPARK,)) for name, made in SOURCES.items()
    },
    **{
        f"kind: {name}": Idiom(f"{line}\n{_step(made)}", {"a": None}, (SPARK,))
        for name, (line, made) in CONSTANTS.items()
    },
    "kind: a command": Idiom(_step('Path(__file__).parent / "train.yml"'), {"a": BIG}),
    "kind: not known": Idiom(
        _step('os.environ["TRAIN_FILE"]'),
        {"a": None},
        ("its kind is not known: its component file is known only",),
    ),
    "kind: assumed": Idiom(
        _step('os.environ["TRAIN_FILE"]'),
        {"a": BIG},
        settings={"instance_type": "big", "instance_count": 2, "assume": "command"},
    ),
    "effective: the resources of the component are repeated": Idiom(
        body("a = train()", made='"sized.yml"'),
        {
            "a": {
                "instance_type": "big",
                "instance_count": 3,
                "shm_size": "4g",
                "docker_args": "--ipc=host",
            }
        },
        settings={"instance_type": "big"},
    ),
    "effective: an alias": Idiom(
        body(
            "a = train()", "b = a", 'b.resources = JobResourceConfiguration(instance_type="small")'
        ),
        {"b": BIG},
    ),
    "effective: resources under another name": Idiom(
        body("a = train()", "r = a.resources", 'r.instance_type = "small"', made='"sized.yml"'),
        {
            "a": {
                "instance_type": "big",
                "instance_count": 2,
                "shm_size": "4g",
                "docker_args": "--ipc=host",
            }
        },
    ),
    "effective: a loop over nodes": Idiom(
        body(
            "a = train()",
            "b = train()",
            "for node in [a, b]:",
            '    node.resources = JobResourceConfiguration(instance_type="small")',
        ),
        {"a": None, "node": None},
        ("its resources is set in a loop (line 12)",),
    ),
    "effective: a step of the job": Idiom(
        body(
            "a = train()",
            "b = train()",
            after='job = p()\njob.jobs["a"].resources = JobResourceConfiguration(instance_type="small")',
        ),
        {"a": None, "b": BIG},
        ("its resources is set again after the pipeline is made (line 13)",),
    ),
    "effective: all steps of the job": Idiom(
        body(
            "a = train()",
            after="job = p()\nfor node in job.jobs.values():\n"
            '    node.resources = JobResourceConfiguration(instance_type="small")',
        ),
        {"a": None},
        ("its resources is set again after the pipeline is made (line 13)",),
    ),
    "effective: a step and its namesake": Idiom(
        body(
            "a = train()", "b = train()", 'a.resources.instance_type = "small"', made='"sized.yml"'
        ),
        {"a": None, "b": None},
        ("its resources are those of its component, which another step uses too",),
        {"instance_type": "big", "steps": ("a",)},
    ),
    "effective: a bound count in a dict": Idiom(
        body("a = train()", 'a.resources = {"instance_type": "small", "instance_count": 4}'),
        {"a": {"instance_type": "${{parent.inputs.instance_type}}", "instance_count": 4}},
        ("a bound count in these resources fails to serialize",),
        {"instance_type": "big", "instance_count": 2, "expose_parameters": True},
    ),
    "effective: an outer pipeline": Idiom(
        """
        train = load_component("train.yml")

        @dsl.pipeline()
        def inner():
            a = train()

        @dsl.pipeline()
        def job_of():
            a = inner()

        job = job_of()
        assert not job.inputs or {name: value._data for name, value in job.inputs.items()} == {
            "instance_type": "big", "instance_count": 2
        }
        """,
        {"a": {name: f"${{{{parent.inputs.{name}}}}}" for name in BIG}},
        settings={"instance_type": "big", "instance_count": 2, "expose_parameters": True},
    ),
    "target: CommandJob": Idiom(
        """
        from azure.ai.ml.entities import CommandJob

        job = CommandJob(command="echo", environment="azureml:env:1", compute="cpu")
        """,
        {"": BIG},
    ),
    "target: CommandJob with resources": Idiom(
        """
        from azure.ai.ml.entities import CommandJob

        job = CommandJob(
            command="echo",
            environment="azureml:env:1",
            compute="cpu",
            resources=JobResourceConfiguration(instance_type="small", shm_size="2g"),
        )
        """,
        {"": {**BIG, "shm_size": "2g"}},
    ),
    "target: SweepJob": Idiom(
        """
        from azure.ai.ml.entities import CommandJob
        from azure.ai.ml.sweep import Choice, Objective, SweepJob, SweepJobLimits

        trial = CommandJob(command="echo ${{search_space.x}}", environment="azureml:env:1", inputs={"x": 1})
        job = SweepJob(
            trial=trial,
            compute="cpu",
            sampling_algorithm="random",
            search_space={"x": Choice([1, 2])},
            objective=Objective(goal="minimize", primary_metric="m"),
            limits=SweepJobLimits(max_total_trials=2),
        )
        """,
        {"": BIG},
    ),
    "target: a component of a helper": Idiom(
        """
        def load():
            return load_component("train.yml")

        @dsl.pipeline()
        def p():
            a = load()()

        job = p()
        """,
        {"a": BIG},
    ),
    "target: a step of a helper": Idiom(
        """
        train = load_component("train.yml")

        def make():
            return train()

        @dsl.pipeline()
        def p():
            a = make()

        job = p()
        """,
        {"a": None},
        ("no name of its own holds it",),
    ),
    "target: a component of a class": Idiom(
        """
        class Pipelines:
            def __init__(self):
                self.train = load_component("train.yml")

            def build(self):
                @dsl.pipeline()
                def p():
                    a = self.train()

                return p()

        job = Pipelines().build()
        """,
        {"a": BIG},
    ),
    "target: partial": Idiom(
        """
        import functools

        make = functools.partial(command, environment="azureml:env:1", shm_size="1g")
        work = make(command="echo")

        @dsl.pipeline()
        def p():
            a = work()

        job = p()
        """,
        {"a": {**BIG, "shm_size": "1g"}},
    ),
    "target: an import that may fail": Idiom(
        """
        try:
            from azure.ai.ml import load_component as load
        except ImportError:
            load = None
        train = load("train.yml")

        @dsl.pipeline()
        def p():
            a = train()

        job = p()
        """,
        {"a": BIG},
    ),
    "target: steps in a loop": Idiom(
        body("for x in (1, 2):", "    a = train(x=x)", "    b = a.outputs.model"),
        {"a": BIG, "a_1": BIG},
    ),
    "target: steps in branches": Idiom(
        body("if os.sep:", "    a = train(x=1)", "else:", "    a = train(x=2)"), {"a": BIG}
    ),
    "target: CommandComponent": Idiom(
        """
        from azure.ai.ml.entities import CommandComponent

        made = CommandComponent(
            name="made",
            command="echo",
            environment="azureml:env:1",
            resources=JobResourceConfiguration(shm_size="2g"),
        )

        @dsl.pipeline()
        def p():
            a = made()

        job = p()
        """,
        {"a": {**BIG, "shm_size": "2g"}},
    ),
}
