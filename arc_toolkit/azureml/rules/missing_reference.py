"""A component, trial or dependency file, or a code folder, that is named and is not there."""

from __future__ import annotations

import os
import re

from arc_toolkit.azureml.documents import Target, folder_of, full_path
from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.nodes import YamlNode, text_of
from arc_toolkit.findings import Rule

# Where a file of dependencies is named: v2, then v1.5.
_DEPENDENCIES: tuple[tuple[str, ...], ...] = (
    ("environment", "conda_file"),
    ("task", "environment", "conda_file"),
    ("environment", "conda", "conda_dependencies_file"),
    ("environment", "conda", "pip_requirements_file"),
)

# Where the code is, in v2.
_CODES: tuple[tuple[str, ...], ...] = (("code",), ("task", "code"))
# What no path on this machine has: a name in a workspace or an address, a binding, a placeholder of a template.
_NO_PATH = re.compile(r"[:${}<>#%*]|^[~/\\]")


def _check(plan: Plan) -> None:
    if plan.path == "-":  # standard input has no folder that paths could start from
        return
    folder = folder_of(plan.path)
    for target in plan.known_targets():
        if target.reference is not None:
            key = "trial" if target.kind.family == Family.SWEEP else "component"
            _look(plan, target.reference, target.get(key) or target.at, target, key)
        for first, *rest in _DEPENDENCIES:
            if first in target.own:
                node = target.get(first, *rest)
                written = text_of(node) if node is not None else None
                is_path = (
                    written and "${{" not in written and ":" not in written.removeprefix("file:")
                )
                if node is not None and written and is_path and not _has_includes(plan, target):
                    snapshot = (target.text("code") or "") if target.kind.role == Role.SPEC else ""
                    _look(
                        plan,
                        plan.library.in_snapshot(folder, snapshot, written),
                        node,
                        target,
                        rest[-1],
                    )
        # azure-ai-ml looks for the code of a step only where the step is written in place.
        if target.kind.role != Role.SPEC and "component" not in target.own:
            for place in _CODES:
                if place[0] in target.own:
                    _look_for_code(plan, target, target.get(*place), folder)


def _look_for_code(plan: Plan, target: Target, node: YamlNode | None, folder: str) -> None:
    written = text_of(node) if node is not None else None
    if node is None or not written or _NO_PATH.search(written):
        return
    path = os.path.normpath(os.path.join(folder, written))
    # The folder of the file itself, and those around it, are there.
    if not f"{folder}{os.sep}".startswith(f"{path}{os.sep}") and plan.library.missing_folder(path):
        message = f"`code` of {target.shown} names a folder that does not exist"
        plan.report(RULE, message, node, reason=f"there is no {os.path.relpath(path)}")


def _has_includes(plan: Plan, target: Target) -> bool:
    """Whether files of other folders are put into the snapshot, which cannot be seen here."""
    stem = os.path.splitext(full_path(plan.path))[0]
    return "additional_includes" in target.own or not plan.library.missing(
        f"{stem}.additional_includes"
    )


def _look(plan: Plan, path: str, at: YamlNode, target: Target, key: str) -> None:
    if plan.library.missing(path):
        message = f"`{key}` of {target.shown} names a file that does not exist"
        plan.report(RULE, message, at, reason=f"there is no {os.path.relpath(path)}")


RULE = Rule(
    "missing-reference", "error", check=_check, needs=("component", "trial", "code", "environment")
)
