"""Programs whose components are in other modules of the project, or loaded by a function of their own."""

from __future__ import annotations

from tests.azureml.python.idioms import BIG, SPARK, Idiom

MODULES = {
    "own_config.py": """\
        import os
        from pathlib import Path

        PARTS = Path(__file__).parent
        TRAIN, ENDING = "train", ".yml"
        ANYWHERE = os.environ.get("PARTS", str(PARTS))
        if "FAST" in os.environ:
            SPEED = "spark.yml"
        else:
            SPEED = "train.yml"

        class Config:
            folder = os.path.join(os.path.dirname(__file__), "code", "..")
        """,
    "own_parts/__init__.py": """\
        from . import made
        from .made import from_call, sized, sparkle, train
        """,
    "own_parts/made.py": """\
        from azure.ai.ml import command, load_component
        from own_config import Config, PARTS

        train = load_component(PARTS / "train.yml")
        sparkle = load_component(f"{Config.folder}/spark.yml")
        sized = load_component(source=str(PARTS / "sized.yml"))
        from_call = command(name="c", command="echo", environment="azureml:e:1", shm_size="8g")
        """,
}
UNKNOWN = "its component file is known only when the code runs"
ONLY_TYPE = {"instance_type": "big"}


def _steps(made: str, *calls: str) -> str:
    lines = "".join(f"    {name} = {call}()\n" for name, call in zip("abc", calls, strict=False))
    return f"{made}\n\n@dsl.pipeline()\ndef p():\n{lines}\njob = p()\n"


def _loads(made: str, *sources: str) -> str:
    names = ("first", "second", "third")[: len(sources)]
    loads = "".join(f"{name} = {source}\n" for name, source in zip(names, sources, strict=True))
    return _steps(f"{made}\n{loads}", *names)


_BOTH = {"a": BIG, "b": None}
IMPORTS: dict[str, Idiom] = {
    "a constant": Idiom(
        _loads(
            "from own_config import PARTS",
            'load_component(PARTS / "train.yml")',
            'load_component(PARTS / "spark.yml")',
        ),
        _BOTH,
        (SPARK,),
    ),
    "constants of a module": Idiom(
        _loads(
            "import own_config as config",
            'load_component(os.path.join(config.PARTS, f"{config.TRAIN}{config.ENDING}"))',
            'load_component(str(config.PARTS) + "/spark.yml")',
        ),
        _BOTH,
        (SPARK,),
    ),
    "a constant of a class": Idiom(
        _loads("from own_config import Config", 'load_component(Config.folder + "/train.yml")'),
        {"a": BIG},
    ),
    "a constant that the environment decides": Idiom(
        _loads("from own_config import ANYWHERE", 'load_component(ANYWHERE + "/train.yml")'),
        {"a": None},
        (UNKNOWN,),
    ),
    "a constant of two branches": Idiom(
        _loads("from own_config import SPEED", "load_component(SPEED)"), {"a": None}, (UNKNOWN,)
    ),
    "components": Idiom(
        _steps("from own_parts import sparkle, train", "train", "sparkle"), _BOTH, (SPARK,)
    ),
    "components of a module": Idiom(
        _steps("import own_parts.made as parts", "parts.train", "parts.sparkle"), _BOTH, (SPARK,)
    ),
    "a module of a package": Idiom(_steps("from own_parts import made", "made.train"), {"a": BIG}),
    "a component with resources": Idiom(
        _steps("from own_parts import sized as imported", "imported"),
        {"a": {**ONLY_TYPE, "instance_count": 3, "shm_size": "4g", "docker_args": "--ipc=host"}},
        settings=ONLY_TYPE,
    ),
    # What it sets is in the other module, and a step's resources would replace it.
    "a command object": Idiom(
        _steps("from own_parts import from_call", "from_call"),
        {"a": None},
        ("from_call is imported from own_parts",),
    ),
    "a loader": Idiom(
        _loads(
            "def load(name, ending='.yml'):\n    return load_component(Path(__file__).parent / (name + ending))",
            'load("train")',
            'load("spark.y", ending="ml")',
        ),
        _BOTH,
        (SPARK,),
    ),
    "a loader with a path of its own": Idiom(
        _loads(
            "from own_config import PARTS\n"
            "def load(folder, *, name):\n"
            "    path = os.path.join(folder, f'{name}.yml')\n"
            "    component = load_component(source=path)\n"
            "    return component",
            'load(PARTS, name="train")',
            'load(folder=".", name="spark")',
        ),
        _BOTH,
        (SPARK,),
    ),
    "a loader that is a method": Idiom(
        """
        class Flow:
            def load(self, name):
                return load_component(name + ".yml")

            def make(self):
                train = self.load("train")
                sparkle = self.load(name="spark")

                @dsl.pipeline()
                def p():
                    a = train()
                    b = sparkle()

                return p()

        job = Flow().make()
        """,
        _BOTH,
        (SPARK,),
    ),
    "a loader that changes its argument": Idiom(
        _loads(
            "def load(name):\n    name = {'train': 'spark.yml'}.get(name)\n    return load_component(name)",
            'load("train")',
        ),
        {"a": None},
        (UNKNOWN,),
    ),
    "a loader that is called with a list": Idiom(
        _loads("def load(*names):\n    return load_component(names[0])", 'load(*["spark.yml"])'),
        {"a": None},
        (UNKNOWN,),
    ),
}
