"""What an expression can mean for AzureML: a component, a command object, a step, a sweep, or something unknown.

`read_meaning.py` finds out which. A step made from something unknown is reported and not changed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.python import sdk_names as sdk
from arc_toolkit.azureml.python.sdk_names import Generation
from arc_toolkit.edit.code.names import Binding, Statement

ASSUME = " (--assume command, if it is one)"


def is_resources_class(path: str) -> bool:
    """JobResourceConfiguration, from its public module or from where it is written."""
    return path.startswith("azure.ai.ml.") and path.endswith(f".{sdk.RESOURCES_CLASS}")


@dataclass(frozen=True)
class SdkName:
    """A thing of an SDK, by its import path."""

    path: str

    @property
    def role(self) -> sdk.SdkRole:
        if (role := sdk.ROLES.get(self.path)) is not None:
            return role
        if self.path.startswith(sdk.AUTOML):
            return sdk.SdkRole("automl", family=Family.AUTOML)
        if is_resources_class(self.path):
            return sdk.SdkRole("resources")
        # Entities are imported from their private modules too.
        is_entity = self.path.startswith("azure.ai.ml.entities.")
        return (
            sdk.ENTITIES.get(self.path.rpartition(".")[2], sdk.NO_ROLE)
            if is_entity
            else sdk.NO_ROLE
        )


@dataclass(frozen=True)
class Component:
    """Something that makes a step when it is called: a file, with its full path and content where it is here, or a
    call such as `CommandComponent(...)`. `why` its kind is not known, where it is not."""

    generation: Generation
    family: Family
    file: str = ""
    document: Document | None = None
    call: ast.Call | None = None
    statement: Statement | None = None
    why: str = ""


@dataclass(frozen=True)
class Builder:
    """`command(...)` or `parallel_run_function(...)`: a job of its own, and a maker of steps.

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

    generation: Generation
    family: Family
    origin: Component | Builder
    call: ast.Call


@dataclass(frozen=True)
class Sweep:
    """The result of `step.sweep(...)`."""

    call: ast.Call
    base: Step | Builder | UnknownMeaning


@dataclass(frozen=True)
class PipelineFunction:
    """A function under `@dsl.pipeline`."""

    generation: Generation
    function: ast.FunctionDef


@dataclass(frozen=True)
class PipelineJob:
    """The result of calling one."""

    function: PipelineFunction


@dataclass(frozen=True)
class UnknownMeaning:
    """Not known, and why.

    `chosen`: one of several at run time. `imported`: its path in another module. `is_component`: a component
    for certain, such as one of a workspace. `is_made`: the place that makes it is a target already.
    """

    why: str
    chosen: bool = False
    imported: str = ""
    is_component: bool = False
    is_made: bool = False
    generation: Generation = "v2"
    options: tuple[Binding, ...] = ()


Meaning = (
    SdkName
    | Component
    | Builder
    | Partial
    | V1Job
    | Step
    | Sweep
    | PipelineFunction
    | PipelineJob
    | UnknownMeaning
)
NOTHING = UnknownMeaning("")
