"""What the three AzureML SDKs call things: import paths, spellings, and where settings live. Tables only.

Sources: azure-ai-ml 1.35.2, azure-ml-component 0.9.18, azureml-pipeline-steps 1.62 and mldesigner (their public
names), and the v1.5 to v2 map in the tests of azure-sdk-for-python (`tests/internal/_utils.py`).
"""

from __future__ import annotations

import re
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

# Import path -> what it is here.
ROLES: dict[str, str] = {
    "azure.ai.ml.command": "command",
    "azure.ai.ml.parallel.parallel_run_function": "parallel",
    "azure.ai.ml.spark": "spark",
    "azure.ai.ml.load_component": "load_component",
    "azure.ai.ml.entities.load_component": "load_component",
    "azure.ai.ml.entities.CommandComponent": "component:command",
    "azure.ai.ml.entities.ParallelComponent": "component:parallel",
    "azure.ai.ml.entities.SparkComponent": "component:spark",
    "azure.ai.ml.dsl.pipeline": "pipeline:v2",
    "azure.ai.ml.dsl._pipeline_decorator.pipeline": "pipeline:v2",
    "mldesigner.dsl.pipeline": "pipeline:v2",
    "mldesigner.command_component": "command_component:v2",
    "azure.ai.ml.dsl.command_component": "command_component:v2",
    "azure.ai.ml.entities.ResourceConfiguration": "resources",
    "azure.ml.component.dsl.pipeline": "pipeline:v1.5",
    "azure.ml.component.pipeline.pipeline": "pipeline:v1.5",
    "azure.ml.component.dsl.command_component": "command_component:v1.5",
    "azure.ml.component.Component.from_yaml": "from_yaml",
    "azure.ml.component.Component.from_func": "from_func",
    "azure.ml.component.Component.from_notebook": "from_func",
    "azure.ml.component.Component.load": "workspace",
    "azure.ml.component.Component.batch_load": "workspace",
    "azure.ml.component.component.Component.from_yaml": "from_yaml",
    "azure.ml.component.component.Component.load": "workspace",
    "azureml.pipeline.steps.ParallelRunConfig": "ParallelRunConfig",
    "azureml.pipeline.steps.ParallelRunStep": "ParallelRunStep",
    "azureml.pipeline.steps.parallel_run_config.ParallelRunConfig": "ParallelRunConfig",
    "azureml.pipeline.steps.parallel_run_step.ParallelRunStep": "ParallelRunStep",
    "azureml.contrib.pipeline.steps.ParallelRunConfig": "ParallelRunConfig",
    "azureml.contrib.pipeline.steps.ParallelRunStep": "ParallelRunStep",
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
