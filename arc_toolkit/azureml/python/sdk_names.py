"""What the three AzureML SDKs call things: import paths, spellings, and where settings live. Tables only.

Sources: azure-ai-ml 1.35.2, azure-ml-component 0.9.18, azureml-pipeline-steps 1.62 and mldesigner (their public
names), and the v1.5 to v2 map in the tests of azure-sdk-for-python (`tests/internal/_utils.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from arc_toolkit.azureml.kinds import Family

Generation = Literal["v1", "v1.5", "v2"]

# A file without any of these is not parsed. `azure` is looked for first, since most Python has none of it.
KEY_WORDS = (
    b"azure.ai.ml",
    b"azure.ai import",
    b"azure.ml.component",
    b"azure.ml import",
    b"azureml.pipeline",
    b"azureml.contrib.pipeline",
    b"azureml.train.hyperdrive",
    b"azureml.train import",
    b"mldesigner",
)
# Of the files with one of those, only files with one of these can hold a target or break a rule.
ACTIONS = (
    b"command",
    b"pipeline",
    b"component",
    b"Component",
    b"sweep",
    b"parallel_run_function",
    b"set_resources",
    b"runsettings",
    b"ParallelRun",
    b"HyperDrive",
)
# An import of one of the SDKs, wherever it is: the file may not parse.
IMPORT = re.compile(rb"(?:^|[\0;\s])(?:import|from)[ \t]+(?:azure\.ai\.ml|azure\.ml\b|azureml\.|mldesigner)")
MISSPELT = b"AMLARC_RESTEP"


@dataclass(frozen=True, slots=True)
class SdkRole:
    """What a name of an SDK is here; with the kind of job that it makes, and the SDK, where they matter."""

    name: str
    family: Family = Family.COMMAND
    generation: Generation = "v2"


NO_ROLE = SdkRole("")
# Import path -> what it is here.
ROLES: dict[str, SdkRole] = {
    "azure.ai.ml.command": SdkRole("command", family=Family.COMMAND),
    "azure.ai.ml.parallel.parallel_run_function": SdkRole("parallel", family=Family.PARALLEL),
    "azure.ai.ml.spark": SdkRole("spark", family=Family.SPARK),
    "azure.ai.ml.load_component": SdkRole("load_component"),
    "azure.ai.ml.entities.load_component": SdkRole("load_component"),
    "azure.ai.ml.entities.CommandComponent": SdkRole("component", family=Family.COMMAND),
    "azure.ai.ml.entities.ParallelComponent": SdkRole("component", family=Family.PARALLEL),
    "azure.ai.ml.entities.SparkComponent": SdkRole("component", family=Family.SPARK),
    "azure.ai.ml.dsl.pipeline": SdkRole("pipeline"),
    "azure.ai.ml.dsl._pipeline_decorator.pipeline": SdkRole("pipeline"),
    "mldesigner.dsl.pipeline": SdkRole("pipeline"),
    "mldesigner.command_component": SdkRole("command_component"),
    "azure.ai.ml.dsl.command_component": SdkRole("command_component"),
    "azure.ai.ml.entities.ResourceConfiguration": SdkRole("resources"),
    "azure.ml.component.dsl.pipeline": SdkRole("pipeline", generation="v1.5"),
    "azure.ml.component.pipeline.pipeline": SdkRole("pipeline", generation="v1.5"),
    "azure.ml.component.dsl.command_component": SdkRole("command_component", generation="v1.5"),
    "azure.ml.component.Component.from_yaml": SdkRole("from_yaml"),
    "azure.ml.component.Component.from_func": SdkRole("from_func"),
    "azure.ml.component.Component.from_notebook": SdkRole("from_func"),
    "azure.ml.component.Component.load": SdkRole("workspace"),
    "azure.ml.component.Component.batch_load": SdkRole("workspace"),
    "azure.ml.component.component.Component.from_yaml": SdkRole("from_yaml"),
    "azure.ml.component.component.Component.load": SdkRole("workspace"),
    "azureml.pipeline.steps.ParallelRunConfig": SdkRole("ParallelRunConfig"),
    "azureml.pipeline.steps.ParallelRunStep": SdkRole("ParallelRunStep"),
    "azureml.pipeline.steps.parallel_run_config.ParallelRunConfig": SdkRole("ParallelRunConfig"),
    "azureml.pipeline.steps.parallel_run_step.ParallelRunStep": SdkRole("ParallelRunStep"),
    "azureml.contrib.pipeline.steps.ParallelRunConfig": SdkRole("ParallelRunConfig"),
    "azureml.contrib.pipeline.steps.ParallelRunStep": SdkRole("ParallelRunStep"),
}
AUTOML = "azure.ai.ml.automl."

# Arguments of command(...) that end up in its `resources`.
RESOURCE_ARGUMENTS = ("instance_type", "instance_count", "locations", "docker_args", "shm_size")
RESOURCES_MODULE = "azure.ai.ml.entities"
RESOURCES_CLASS = "JobResourceConfiguration"

# Kinds that take no instance type, and why.
NO_RESOURCES = {
    Family.PIPELINE: "it is a pipeline: its own steps take the settings",
    Family.SPARK: "a Spark step takes VM sizes of a fixed list, not instance types",
    Family.AUTOML: "an AutoML step: set its resources by hand",
}

# Statements that only a leaf step allows: one proves that a call of unknown origin made such a step.
PROOFS = frozenset(
    {
        ("resources",),
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
    {"resources", "set_resources", "environment_variables", "distribution", "limits", "runsettings", "compute"}
)
STEP_ATTRIBUTES = LEAF_ATTRIBUTES | {"outputs", "sweep"}

# Calls that may take a step without changing its settings.
HARMLESS_CALLS = frozenset(
    {"print", "display", "append", "extend", "add", "create_or_update", "submit", "validate", "len", "repr", "str"}
    | {"type", "isinstance", "id", "vars", "dir", "pprint", "info", "debug", "Pipeline", "condition", "if_else"}
    | {"do_while", "parallel_for", "stream", "begin_create_or_update", "archive"}
)
