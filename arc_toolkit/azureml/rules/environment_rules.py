"""Rules about environment variables and the image of the environment."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast

import yaml

from arc_toolkit.azureml.documents import Target, folder_of, items_below
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
    seen: set[int] = set()
    for document in plan.documents:
        for path, key, value in items_below(document.root.node, (document.index,)):
            for node in (key, value):
                if not isinstance(node, yaml.ScalarNode) or RESTEP not in node.value:
                    continue
                if id(node) in seen or (node is key and path[-1] != RESTEP):
                    continue
                seen.add(id(node))
                plan.report(
                    amlarc_restep,
                    _RESTEP_MESSAGE,
                    node,
                    fix=partial(_rename_restep, path=path, is_key=node is key),
                    title=_RESTEP_TITLE,
                    applied=path in plan.values.pending,
                )


def _rename_restep(editor: YamlEditor, path: KeyPath, is_key: bool) -> None:
    if is_key:
        editor.rename(path, PRESTEP)
    else:
        editor.replace(path, RESTEP, PRESTEP)


def _check_restep_in_code(plan: PythonPlan) -> None:
    """Where it names a variable: `{"AMLARC_RESTEP": ...}`, `env["AMLARC_RESTEP"] = ...` and
    `dict(AMLARC_RESTEP=...)`; any other string is only about it."""
    from arc_toolkit.edit.code.editor import StatementSite

    for source in plan.module.sources:
        for top in source.body if RESTEP in source.text else ():
            site = StatementSite(source, source.body, top)
            for node in _variable_names(top):
                text = RESTEP if isinstance(node, ast.keyword) else source.slice(node)
                reason = ""
                if text.count(RESTEP) != 1:
                    reason = "it is written with escapes"
                elif PRESTEP in source.slice(top):
                    reason = f"{PRESTEP} is set beside it: remove one of the two"
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


def _variable_names(top: ast.stmt) -> Iterator[ast.keyword | ast.Constant]:
    """Each place that sets the misspelt variable."""
    for node in ast.walk(top):
        keys: list[ast.expr | None] = []
        if isinstance(node, ast.keyword) and node.arg == RESTEP:
            yield node
        elif isinstance(node, ast.Dict):
            keys = node.keys
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            keys = [node.slice]
        for key in keys:
            if isinstance(key, ast.Constant) and key.value == RESTEP:
                yield key


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
