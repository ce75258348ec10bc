"""What the three AzureML SDKs call things, and the objects that expressions make of them.

Tables of import paths and spellings, then the classes: a component, a command object, a step, a
sweep, or something unknown. `resolve.py` finds out which. A step made from something unknown is
reported and not changed.

Sources: azure-ai-ml 1.35.2, azure-ml-component 0.9.18, azureml-pipeline-steps 1.62 and mldesigner
(their public names), and the v1.5 to v2 map in the tests of azure-sdk-for-python
(`tests/internal/_utils.py`).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.edit.code.names import Binding, Statement

SdkVersion = Literal["v1", "v1.5", "v2"]

# A file without any of these is not parsed. `azure` is looked for first, since most Python has none
# of it.
KEY_WORDS = (
    *(b"azureml.core", b"azureml.train.estimator", b"azureml.train.dnn"),
    *(b"azureml.train.sklearn", b"azure.ai.ml", b"azure.ai import", b"azure.ml.component"),
    *(b"azure.ml import", b"azureml.pipeline", b"azureml.contrib.pipeline"),
    *(b"azureml.train.hyperdrive", b"azureml.train import", b"mldesigner"),
)
# Of the files with one of those, only files with one of these can hold a target or break a rule.
ACTIONS = (
    *(b"command", b"pipeline", b"component", b"Component", b"sweep", b"parallel_run_function"),
    *(b"set_resources", b"runsettings", b"ParallelRun", b"HyperDrive", b"CommandJob"),
    *(b"SweepJob", b"ParallelJob", b"ScriptRunConfig", b"Estimator(", b"azureml.train.dnn"),
    *(b"azureml.train.sklearn",),
)
# An import of one of the SDKs, wherever it is: the file may not parse.
IMPORT = re.compile(
    rb"(?:^|[\0;\s])(?:import|from)[ \t]+(?:azure\.ai\.ml|azure\.ml\b|azureml\.|mldesigner)"
)
MISSPELT = b"AMLARC_RESTEP"


@dataclass(frozen=True, slots=True)
class SdkRole:
    """What a name of an SDK is here; with the kind of job that it makes, and the SDK, where they
    matter.
    """

    name: str
    family: Family = Family.COMMAND
    generation: SdkVersion = "v2"


NO_ROLE = SdkRole("")
_V2, _V15 = "azure.ai.ml", "azure.ml.component"
# Package, then the names in it by what they are here.
_ROWS: tuple[tuple[str, SdkRole, tuple[str, ...]], ...] = (
    (_V2, SdkRole("command"), ("command",)),
    (_V2, SdkRole("parallel", Family.PARALLEL), ("parallel.parallel_run_function",)),
    (_V2, SdkRole("spark", Family.SPARK), ("spark",)),
    (
        f"{_V2}.data_transfer",
        SdkRole("no resources", Family.DATA_TRANSFER),
        ("copy_data", "import_data", "export_data"),
    ),
    (_V2, SdkRole("entity", Family.SWEEP), ("sweep.SweepJob",)),
    (_V2, SdkRole("entity", Family.PARALLEL), ("parallel.ParallelJob",)),
    (_V2, SdkRole("load_component"), ("load_component", "entities.load_component")),
    (_V2, SdkRole("component"), ("entities.CommandComponent",)),
    (_V2, SdkRole("component", Family.PARALLEL), ("entities.ParallelComponent",)),
    (_V2, SdkRole("component", Family.SPARK), ("entities.SparkComponent",)),
    (_V2, SdkRole("pipeline"), ("dsl.pipeline", "dsl._pipeline_decorator.pipeline")),
    (_V2, SdkRole("command_component"), ("dsl.command_component",)),
    (_V2, SdkRole("resources"), ("entities.ResourceConfiguration",)),
    ("mldesigner", SdkRole("pipeline"), ("dsl.pipeline",)),
    ("mldesigner", SdkRole("command_component"), ("command_component",)),
    (
        _V15,
        SdkRole("command_component", Family.SWEEP, "v1.5"),
        ("dsl.sweep_component",),
    ),
    (_V15, SdkRole("pipeline", generation="v1.5"), ("dsl.pipeline", "pipeline.pipeline")),
    (_V15, SdkRole("command_component", generation="v1.5"), ("dsl.command_component",)),
    (_V15, SdkRole("from_yaml"), ("Component.from_yaml", "component.Component.from_yaml")),
    (_V15, SdkRole("from_func"), ("Component.from_func", "Component.from_notebook")),
    (
        _V15,
        SdkRole("workspace"),
        ("Component.load", "Component.batch_load", "component.Component.load"),
    ),
    *(
        (f"azureml.{module}", SdkRole(name), (name,))
        for name, own in (
            ("ParallelRunConfig", "parallel_run_config"),
            ("ParallelRunStep", "parallel_run_step"),
        )
        for module in ("pipeline.steps", f"pipeline.steps.{own}", "contrib.pipeline.steps")
    ),
)
# Import path -> what it is here.
ROLES: dict[str, SdkRole] = {
    f"{package}.{name}": role for package, role, names in _ROWS for name in names
}
SDK_PACKAGES = ("azure.", "azureml.", "mldesigner")
AUTOML = "azure.ai.ml.automl."
# Classes of jobs, by their own names: they are imported from several modules.
ENTITIES = {
    "CommandJob": SdkRole("entity", family=Family.COMMAND),
    "SweepJob": SdkRole("entity", family=Family.SWEEP),
    "ParallelJob": SdkRole("entity", family=Family.PARALLEL),
}
# SDK v1 (azureml-core 1.61): the classes that run code, by module. They are reported, with what can
# be done.
_V1 = {
    "azureml.core": ("ScriptRunConfig",),
    "azureml.core.script_run_config": ("ScriptRunConfig",),
    "azureml.train.estimator": ("Estimator", "MMLBaseEstimator"),
    "azureml.train.dnn": ("PyTorch", "TensorFlow", "Chainer", "Keras"),
    "azureml.train.sklearn": ("SKLearn",),
    "azureml.pipeline.steps": (
        "PythonScriptStep",
        "CommandStep",
        "EstimatorStep",
        "MpiStep",
        "RScriptStep",
    ),
    "azureml.pipeline.steps.python_script_step": ("PythonScriptStep",),
    "azureml.pipeline.steps.command_step": ("CommandStep",),
    "azureml.pipeline.steps.mpi_step": ("MpiStep",),
}
ROLES |= {
    f"{module}.{name}": SdkRole("v1", generation="v1")
    for module, names in _V1.items()
    for name in names
}
V1_WAY = (
    "SDK v1 is not rewritten: the instance type is kubernetescompute.instance_type of its run"
    " configuration, the count is node_count; or move it to command() of SDK v2"
)


def _target_words() -> re.Pattern[bytes]:
    """What is in every text that has a target: the name of what makes it, as a name (not
    `command=`, `"command"` or `my_command`), a decorator of pipelines, or a statement that only
    steps have.
    """
    names = (
        {path.rpartition(".")[2] for path in ROLES} - {"pipeline"}
        | set(ENTITIES)
        | {"automl", "sweep"}
    )
    name = "|".join(sorted(names))
    words = (
        rf"""(?<![\w"'-])(?:{name})(?![\w"'-]|[ \t]*=[^=])|@[\w.]*pipeline\b|\bpipeline[ \t]+as\b"""
    )
    words += r"|HyperDrive|ParallelRun|set_resources|runsettings|components?\.(?:get|load)"
    return re.compile(words.encode())


# Of the files that are parsed, only those that match can have a target.
TARGET_WORDS = _target_words()

# Arguments of command(...) that end up in its `resources`.
RESOURCE_ARGUMENTS = ("instance_type", "instance_count", "locations", "docker_args", "shm_size")
RESOURCES_MODULE = "azure.ai.ml.entities"
RESOURCES_CLASS = "JobResourceConfiguration"

# Calls whose `instance_type=` and `instance_count=` are resources.
TAKE_RESOURCES = frozenset(
    {RESOURCES_CLASS, "ResourceConfiguration", "set_resources", "configure", "dict", "command"}
)

# Statements that only a leaf step allows: one proves that a call of unknown origin made such a
# step.
PROOFS = frozenset(
    {
        ("resources", "instance_type"),
        ("resources", "instance_count"),
        ("set_resources",),
        ("runsettings", "resource_layout", "configure"),
        ("runsettings", "resource_layout", "instance_type"),
        ("runsettings", "resource_layout", "instance_count"),
        ("runsettings", "resource_layout", "node_count"),
    }
)
# Attributes of a leaf step that hold settings.
LEAF_ATTRIBUTES = frozenset(
    (
        *("resources", "set_resources", "environment_variables", "distribution", "limits"),
        *("runsettings", "compute"),
    )
)
STEP_ATTRIBUTES = LEAF_ATTRIBUTES | {"outputs", "sweep"}

# Calls that may take a step without changing its settings.
HARMLESS_CALLS = frozenset(
    (
        *("do_while", "parallel_for", "stream", "begin_create_or_update", "archive", "print"),
        *("display", "append", "extend", "add", "create_or_update", "submit", "validate", "len"),
        *("repr", "str", "type", "isinstance", "id", "vars", "dir", "pprint", "info", "debug"),
        *("Pipeline", "condition", "if_else"),
    )
)


ASSUME = " (--assume command, if it is one)"


def is_resources_class(path: str) -> bool:
    """JobResourceConfiguration, from its public module or from where it is written."""
    return path.startswith("azure.ai.ml.") and path.endswith(f".{RESOURCES_CLASS}")


@dataclass(frozen=True)
class SdkName:
    """A thing of an SDK, by its import path."""

    path: str

    @property
    def role(self) -> SdkRole:
        if (role := ROLES.get(self.path)) is not None:
            return role
        if self.path.startswith(AUTOML):
            return SdkRole("automl", family=Family.AUTOML)
        if is_resources_class(self.path):
            return SdkRole("resources")
        # Entities are imported from their private modules too.
        is_entity = self.path.startswith("azure.ai.ml.entities.")
        return ENTITIES.get(self.path.rpartition(".")[2], NO_ROLE) if is_entity else NO_ROLE


@dataclass(frozen=True)
class Component:
    """Something that makes a step when it is called: a file, with its full path and content where
    it is here, or a call such as `CommandComponent(...)`. `why` its kind is not known, where it is
    not.
    """

    generation: SdkVersion
    family: Family
    file: str = ""
    document: Document | None = None
    call: ast.Call | None = None
    statement: Statement | None = None
    why: str = ""


@dataclass(frozen=True)
class Builder:
    """`command(...)` or `parallel_run_function(...)`: a job of its own, and a template of steps.

    An entity, such as `CommandJob(...)`, is only a job. `defaults`: of `partial(command, ...)`.
    """

    family: Family
    call: ast.Call
    name: str = ""
    statement: Statement | None = None
    is_entity: bool = False
    defaults: ast.Call | None = None


@dataclass(frozen=True)
class Partial:
    """`functools.partial(command, ...)`."""

    of: SdkName
    call: ast.Call


@dataclass(frozen=True)
class V1Job:
    """A job or step of SDK v1, which is reported and not changed."""

    call: ast.Call
    is_step: bool


@dataclass(frozen=True)
class Step:
    """A node: the result of calling a component or builder."""

    generation: SdkVersion
    family: Family
    origin: Component | Builder
    call: ast.Call


@dataclass(frozen=True)
class Sweep:
    """The result of `step.sweep(...)`."""

    call: ast.Call
    base: Step | Builder | UnknownSdkObject


@dataclass(frozen=True)
class PipelineFunction:
    """A function under `@dsl.pipeline`."""

    generation: SdkVersion
    function: ast.FunctionDef


@dataclass(frozen=True)
class PipelineJob:
    """The result of calling one."""

    function: PipelineFunction


@dataclass(frozen=True)
class UnknownSdkObject:
    """Not known, and why.

    `chosen`: one of several at run time. `imported`: its path in another module. `is_component`: a
    component for certain, such as one of a workspace. `is_made`: the place that makes it is a
    target already.
    """

    why: str
    chosen: bool = False
    imported: str = ""
    is_component: bool = False
    is_made: bool = False
    generation: SdkVersion = "v2"
    options: tuple[Binding, ...] = ()


SdkObject = (
    SdkName
    | Component
    | Builder
    | Partial
    | V1Job
    | Step
    | Sweep
    | PipelineFunction
    | PipelineJob
    | UnknownSdkObject
)
NOTHING = UnknownSdkObject("")
