"""Rules about environment variables and the image of the environment."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast

import yaml

from arc_toolkit.azureml.documents import Target, folder_of
from arc_toolkit.azureml.evidence import dockerfile_of
from arc_toolkit.azureml.kinds import Family, Role, TargetKind
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import target_rule
from arc_toolkit.azureml.rules.compute_facts import compute_facts
from arc_toolkit.azureml.threads import PRESTEP, RESTEP
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, get, pairs, text_of
from arc_toolkit.findings import rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import PythonPlan
    from arc_toolkit.azureml.python.python_writer import PythonWriter
    from arc_toolkit.edit.code.editor import StatementSite

_RESTEP_MESSAGE = f"{RESTEP} has no effect: the variable is called {PRESTEP}"
_UNREADABLE = "it is part of an f-string or written with escapes"
_DOCSTRING = "it is a docstring"
_RESTEP_TITLE = f"Rename {RESTEP} to {PRESTEP}"
_OLD_UBUNTU = re.compile(
    r"""(?ix) ubuntu[-_:]?(?:12|14|16|18)[._-]?(?:04|10)
      | (?:^|[^a-z])(?:trusty|xenial|bionic)(?![a-z])
      | ubuntu[-_:]?(?:14|16|18)(?!\d)"""
)
_FROM = re.compile(r"(?im)^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)(?:[ \t]+AS[ \t]+(\S+))?")


@target_rule("error", language="yaml, python", needs=("environment_variables",))
def dropped_environment_variables(plan: Plan, target: Target) -> None:
    kind = target.kind
    pair = target.fields.get("environment_variables")
    if pair is None or kind.variables or kind.role in (Role.SPEC, Role.V15_STEP):
        return
    names = ", ".join(pairs(pair[1]))
    if names and kind.family != Family.OTHER:  # an unknown kind may keep them
        why = kind.why if kind.resources else f"a {kind.name} has no environment variables"
        message = f"{names} never reaches the job: {why}"
        reason = _right_place(kind)
        plan.report(dropped_environment_variables, message, pair[0], reason=reason)


def _right_place(kind: TargetKind) -> str:
    if kind.family == Family.SWEEP and kind.role == Role.JOB:
        return "put them under `trial:`"
    if kind.family == Family.SWEEP:
        return "export them in the trial's command instead"
    if kind.family == Family.PIPELINE:
        return "put them on its steps"
    if not kind.resources and kind.role != Role.COMPONENT:
        return ""
    return "put them on the job, or on each pipeline step that uses this component"


@rule("error", fix="safe", language="yaml, python", needs=(RESTEP,))
def amlarc_restep(plan: Plan) -> None:
    if plan.language == "python":
        _check_restep_in_code(cast("PythonPlan", plan))
        return
    for document in plan.documents:
        for path, node, is_key in _restep_nodes(document.root.node, (document.index,), set()):

            def fix(editor: YamlEditor, at: KeyPath = path, is_key: bool = is_key) -> None:
                if is_key:
                    editor.rename(at, PRESTEP)
                else:
                    editor.replace(at, RESTEP, PRESTEP)

            is_planned = path in plan.values.pending
            plan.report(
                amlarc_restep,
                _RESTEP_MESSAGE,
                node,
                fix=fix,
                title=_RESTEP_TITLE,
                applied=is_planned,
            )


def _restep_nodes(
    node: YamlNode, path: KeyPath, seen: set[int]
) -> Iterator[tuple[KeyPath, YamlNode, bool]]:
    """The path and node of every key and text with the name, and whether it is a key."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        if RESTEP in node.value:
            yield path, node, False
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield from _restep_nodes(child, (*path, index), seen)
    elif isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            if key.value == RESTEP:
                yield (*path, key.value), key, True
            yield from _restep_nodes(child, (*path, key.value), seen)


def _check_restep_in_code(plan: PythonPlan) -> None:
    """In keyword arguments and string literals: the name alone, or an assignment in shell text."""
    from arc_toolkit.edit.code.editor import StatementSite

    for source in plan.module.sources:
        for top in source.body if RESTEP in source.text else ():
            site = StatementSite(source, source.body, top)
            problems = _rename_problems(top)
            for node in ast.walk(top):
                if isinstance(node, ast.keyword) and node.arg == RESTEP:
                    value = text = RESTEP
                elif isinstance(node, ast.Constant) and _sets_variable(node.value):
                    value, text = str(node.value), source.slice(node)
                else:
                    continue
                reason = problems.get(id(node), "")
                if reason == _DOCSTRING:
                    continue
                if not reason and text.count(RESTEP) != value.count(RESTEP):
                    reason = _UNREADABLE
                renamed = text.replace(RESTEP, PRESTEP)
                fix = partial(_replace_expression, site=site, node=node, text=renamed)
                plan.report(
                    amlarc_restep,
                    _RESTEP_MESSAGE,
                    plan.at(site, node),
                    reason=reason,
                    fix=None if reason else fix,
                    title=_RESTEP_TITLE,
                )


def _sets_variable(value: object) -> bool:
    """`AMLARC_RESTEP` alone, or `AMLARC_RESTEP=...` in shell text; not a mention in prose."""
    return isinstance(value, str) and (value == RESTEP or f"{RESTEP}=" in value)


def _rename_problems(top: ast.stmt) -> dict[int, str]:
    """Why a text or argument cannot be renamed, by the id of its node."""
    problems: dict[int, str] = {}
    for node in ast.walk(top):
        names: list[tuple[object, ast.AST]] = []
        if isinstance(node, ast.Call):
            names = [(keyword.arg, keyword) for keyword in node.keywords]
        elif isinstance(node, ast.Dict):
            names = [(key.value, key) for key in node.keys if isinstance(key, ast.Constant)]
        elif isinstance(node, ast.JoinedStr):
            problems |= {id(part): _UNREADABLE for part in ast.walk(node)}
        elif isinstance(node, ast.Expr):
            problems[id(node.value)] = _DOCSTRING
        if any(name == PRESTEP for name, _ in names):
            problem = f"{PRESTEP} is set beside it: remove one of the two"
            problems |= {id(child): problem for _, child in names}
    return problems


def _replace_expression(
    writer: PythonWriter, site: StatementSite, node: ast.keyword | ast.Constant, text: str
) -> None:
    writer.changes.replace(site, node, text)


@target_rule("warning", language="yaml, python", needs=("environment",))
def old_base_image(plan: Plan, target: Target) -> None:
    for fields in (target.fields, pairs(target.get("task"))):
        # Clusters of VMs run any image.
        if "environment" in fields and not compute_facts(plan, target).is_elsewhere:
            snapshot = (target.text("code") or "") if target.kind.role == Role.SPEC else ""
            _check_environment(plan, *fields["environment"], snapshot)


def _check_environment(plan: Plan, key: YamlNode, environment: YamlNode, snapshot: str) -> None:
    for keys in (("image",), ("docker", "image")):
        node = get(environment, *keys)
        image = text_of(node)
        if node is not None and image and _is_old(image):
            plan.report(old_base_image, f"image {image} is older than Ubuntu 20.04", node)
    name = text_of(environment)
    if name is not None and _is_old(name):
        message = f"environment {name} is older than Ubuntu 20.04"
        plan.report(old_base_image, message, environment)
    dockerfile = dockerfile_of(environment) if name is None else None
    if dockerfile is not None:
        path = plan.project.in_snapshot(folder_of(plan.path), snapshot, dockerfile)
        image = _last_image(plan.project.read_text(path) or "")
        if _is_old(image):
            file = os.path.basename(path)
            message = f"{file} starts from {image}, which is older than Ubuntu 20.04"
            plan.report(old_base_image, message, key)


# A run has few images, each in many files.
@lru_cache(maxsize=256)
def _is_old(image: str) -> bool:
    return _OLD_UBUNTU.search(image) is not None


def _last_image(dockerfile: str) -> str:
    """The image of the last stage; images of other stages are not in the result.

    `FROM ubuntu:22.04 AS base`, then `FROM base`: ubuntu:22.04.
    """
    stages: dict[str, str] = {}
    image = ""
    for name, alias in _FROM.findall(dockerfile):
        image = stages.get(name.lower(), name)
        stages[alias.lower()] = image
    return image
