"""More programs as people write them: those of `idioms.py` under another guise, with the answers written first."""

from __future__ import annotations

from tests.azureml.python.idioms import BIG, SPARK, Idiom, body

SMALL = 'JobResourceConfiguration(instance_type="small")'
EXPOSED = {"instance_type": "big", "instance_count": 2, "expose_parameters": True}
AGAIN = "its resources is set again after the pipeline is made (line {})"

MORE: dict[str, Idiom] = {
    "kind: several on one line": Idiom(
        """
        train, sparkle = load_component("train.yml"), load_component("spark.yml")

        @dsl.pipeline()
        def p():
            a = train()
            b = sparkle()

        job = p()
        """,
        {"a": BIG, "b": None},
        (SPARK,),
    ),
    "kind: a dict": Idiom(
        """
        parts = {"train": load_component("train.yml"), "spark": load_component("spark.yml")}

        @dsl.pipeline()
        def p():
            a = parts["train"]()
            b = parts["spark"]()

        job = p()
        """,
        {"a": BIG, "b": None},
        (SPARK,),
    ),
    "kind: a dict that is changed": Idiom(
        """
        parts = {"train": load_component("train.yml")}
        parts["train"] = load_component("spark.yml")

        @dsl.pipeline()
        def p():
            a = parts["train"]()

        job = p()
        """,
        {"a": None},
        ("picked from a collection at run time",),
    ),
    "kind: a namespace": Idiom(
        """
        from types import SimpleNamespace

        parts = SimpleNamespace(train=load_component("train.yml"), spark=load_component("spark.yml"))

        @dsl.pipeline()
        def p():
            a = parts.train()
            b = parts.spark()

        job = p()
        """,
        {"a": BIG, "b": None},
        (SPARK,),
    ),
    "kind: a method": Idiom(
        """
        class Pipelines:
            def train(self):
                return load_component("train.yml")

            def build(self):
                @dsl.pipeline()
                def p():
                    a = self.train()()

                return p()

        job = Pipelines().build()
        """,
        {"a": BIG},
    ),
    "target: two steps on one line": Idiom(body("a, b = train(), train()"), {"a": BIG, "b": BIG}),
    "effective: enumerate": Idiom(
        body(
            "a = train()",
            "b = train()",
            "for i, node in enumerate((a, b)):",
            f"    node.resources = {SMALL}",
        ),
        {"a": None, "node": None},
        ("its resources is set in a loop (line 12)",),
    ),
    "effective: the values of a dict": Idiom(
        body("a = train()", "for node in {'x': a}.values():", f"    node.resources = {SMALL}"),
        {"node": None},
        ("its resources is set in a loop (line 11)",),
    ),
    "effective: the steps of the job under another name": Idiom(
        body(
            "a = train()",
            "b = train()",
            after=f'job = p()\nsteps = job.jobs\nsteps["a"].resources = {SMALL}',
        ),
        {"a": None, "b": BIG},
        (AGAIN.format(14),),
    ),
    "effective: a step of the job under another name": Idiom(
        body(
            "a = train()",
            "b = train()",
            after=f'job = p()\nnode = job.jobs["a"]\nnode.resources = {SMALL}',
        ),
        {"a": None, "b": BIG},
        (AGAIN.format(14),),
    ),
    "effective: a helper for jobs": Idiom(
        body(
            "a = train()",
            after=f"job = p()\ndef shrink(some):\n    for name in some.jobs:\n"
            f"        some.jobs[name].resources = {SMALL}\nshrink(job)",
        ),
        {"a": None},
        (AGAIN.format(14),),
    ),
    "effective: a job of a helper": Idiom(
        body(
            "a = train()",
            after=f'def build():\n    return p()\njob = build()\njob.jobs["a"].resources = {SMALL}',
        ),
        {"a": None},
        (AGAIN.format(14),),
    ),
    "effective: jobs of the workspace": Idiom(
        body(
            "a = train()",
            after="job = p()\ndef clean(client):\n    for other in client.jobs.list():\n"
            f"        other.resources = {SMALL}",
        ),
        {"a": BIG},
    ),
    "exposed: a parameter of that name for something else": Idiom(
        """
        train = load_component("train.yml")
        deploy = command(name="d", command="echo ${{inputs.vm}}", inputs={"vm": "x"}, environment="azureml:e:1")

        @dsl.pipeline()
        def p(instance_type="Standard_DS3_v2"):
            a = train()
            b = deploy(vm=instance_type)

        job = p()
        assert job.inputs.instance_type._data == "Standard_DS3_v2"
        """,
        {
            name: {
                "instance_type": "${{parent.inputs.job_instance_type}}",
                "instance_count": "${{parent.inputs.instance_count}}",
            }
            for name in "ab"
        },
        settings=EXPOSED,
    ),
    "exposed: an inner pipeline has such a parameter": Idiom(
        """
        train = load_component("train.yml")
        deploy = command(name="d", command="echo ${{inputs.vm}}", inputs={"vm": "x"}, environment="azureml:e:1")

        @dsl.pipeline()
        def inner(instance_type="x"):
            b = deploy(vm=instance_type)

        @dsl.pipeline()
        def outer(instance_type="Standard_DS3_v2"):
            a = inner(instance_type=instance_type)

        job = outer()
        assert job.inputs.instance_type._data == "Standard_DS3_v2"
        """,
        {
            "a": {
                "instance_type": "${{parent.inputs.instance_type}}",
                "job_instance_type": "${{parent.inputs.job_instance_type}}",
                "instance_count": "${{parent.inputs.instance_count}}",
            }
        },
        settings=EXPOSED,
    ),
    # The steps of a component with resources share them, whichever comes first; a command object is copied.
    "shared: set on another step": Idiom(
        body(
            "a = train()",
            "b = train()",
            'b.resources.shm_size = "8g"',
            "c = train()",
            made='"sized.yml"',
        ),
        {key: {**BIG, "shm_size": "8g", "docker_args": "--ipc=host"} for key in "abc"},
    ),
    "shared: a count that is not asked for": Idiom(
        body(
            "a = train()",
            "b = train()",
            "b.resources.instance_count = 5",
            "c = train()",
            made='"sized.yml"',
        ),
        {
            key: {
                "instance_type": "big",
                "instance_count": 5,
                "shm_size": "4g",
                "docker_args": "--ipc=host",
            }
            for key in "abc"
        },
        settings={"instance_type": "big"},
    ),
    "shared: one of the steps": Idiom(
        body("a = train()", "b = train()", 'b.resources.shm_size = "8g"', made='"sized.yml"'),
        {"a": {**BIG, "shm_size": "8g", "docker_args": "--ipc=host"}, "b": None},
        settings={**BIG, "steps": ("a",)},
    ),
    "shared: set on both": Idiom(
        body(
            *(
                "a = train()",
                'a.resources.shm_size = "1g"',
                "b = train()",
                'b.resources.shm_size = "8g"',
            ),
            made='"sized.yml"',
        ),
        {key: {**BIG, "shm_size": "8g", "docker_args": "--ipc=host"} for key in "ab"},
    ),
    "shared: with a step of its own": Idiom(
        body(
            "a = train()",
            f"a.resources = {SMALL}",
            'a.resources.shm_size = "1g"',
            "b = train()",
            made='"sized.yml"',
        ),
        {
            "a": {**BIG, "shm_size": "1g"},
            "b": {**BIG, "shm_size": "4g", "docker_args": "--ipc=host"},
        },
    ),
    "shared: a value that is not plain": Idiom(
        body(
            "a = train()",
            "b = train()",
            'b.resources.shm_size = os.environ.get("S", "8g")',
            made='"sized.yml"',
        ),
        {"a": None, "b": None},
        ("another step of its component sets shm_size to os.environ.get",),
        settings={**BIG, "steps": ("a",)},
    ),
    "shared: not by a command object": Idiom(
        """
        train = command(name="d", command="echo", environment="azureml:e:1", shm_size="1g")

        @dsl.pipeline()
        def p():
            a = train()
            b = train()
            b.resources.shm_size = "8g"

        job = p()
        """,
        {"a": {**BIG, "shm_size": "1g"}, "b": {**BIG, "shm_size": "8g"}},
    ),
}
