"""Rules about references: to files and folders, to steps, and to declared inputs and outputs."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator

import yaml

from arc_toolkit.azureml.documents import Target, folder_of, full_path, items_below
from arc_toolkit.azureml.kinds import TRIALS, Family, Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import target_rule
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, pairs, text_of
from arc_toolkit.findings import rule

# Keys that name a file of dependencies: v2, then v1.5.
_DEPENDENCIES: tuple[tuple[str, ...], ...] = (
    ("environment", "conda_file"),
    ("task", "environment", "conda_file"),
    ("environment", "conda", "conda_dependencies_file"),
    ("environment", "conda", "pip_requirements_file"),
)
# Keys that name a folder of code in v2.
_CODE: tuple[tuple[str, ...], ...] = (("code",), ("task", "code"))
# Not a path on this machine: a name in a workspace, an address, a binding, a template placeholder.
_NOT_A_PATH = re.compile(r"[:${}<>#%*]|^[~/\\]")
_BINDING = re.compile(
    r"\$\{\{\s*(parent\.)?(inputs|outputs|search_space)\.([A-Za-z0-9_.-]+?)\s*\}\}"
)
_STEP_BINDING = re.compile(
    r"\$\{\{\s*parent\.jobs\.([A-Za-z0-9_-]+)(?:\.outputs\.([A-Za-z0-9_]+)\s*\}\})?"
)
# Keys in which a job or component uses its own inputs and outputs.
_USES = ("command", "task", "args", "input_data")
# (path of the owner, message) -> the texts with the binding
_Undeclared = dict[tuple[KeyPath, str], list[yaml.ScalarNode]]


@rule("note")
def unused_component(plan: Plan) -> None:
    cannot = "settings that a component cannot hold (environment variables, compute)"
    for document in plan.documents if plan.in_folder else ():
        root = document.root
        if root.kind.role == Role.COMPONENT and not plan.project.uses(plan.path):
            message = f"nothing in the given paths uses {root.kind.name} `{root.name}`"
            reason = f"{cannot} have no step to go to"
            plan.report(unused_component, message, root.at, reason=reason)


@rule("error", needs=("component",))
def circular_reference(plan: Plan) -> None:
    path = full_path(plan.path)
    for step in (step for document in plan.documents for step in document.steps):
        if step.reference is not None and _leads_to(plan, step, path):
            is_direct = step.reference == path
            detour = "" if is_direct else f" by way of {os.path.relpath(step.reference)}"
            message = f"step `{step.name}` makes the pipeline include itself{detour}"
            plan.report(circular_reference, message, step.at)


def _leads_to(plan: Plan, first: Target, path: str) -> bool:
    """Whether a step references a file, directly or by way of other pipelines."""
    visited: set[str] = set()
    steps = [first]
    while steps:
        step = steps.pop()
        if step.reference == path:
            return True
        # A step without `type` has the kind of its file, which may be a pipeline.
        may_be_pipeline = step.kind.family == Family.PIPELINE or "type" not in step.fields
        if step.reference is None or step.reference in visited or not may_be_pipeline:
            continue
        visited.add(step.reference)
        if document := plan.project.load(step.reference):
            steps += document.steps
    return False


@target_rule("error", needs=("component", "trial", "code", "environment"))
def missing_reference(plan: Plan, target: Target) -> None:
    if plan.path == "-":  # standard input has no folder
        return
    for key, node, path in _referenced_files(plan, target):
        if plan.project.missing(path):
            _report_missing(plan, target, f"`{key}`", "file", node, path)
    for node, path in _code_folders(plan, target):
        if plan.project.missing_folder(path):
            _report_missing(plan, target, "`code`", "folder", node, path)


def _report_missing(
    plan: Plan, target: Target, key: str, noun: str, node: YamlNode, path: str
) -> None:
    message = f"{key} of {target.shown} names a {noun} that does not exist"
    reason = f"there is no {os.path.relpath(path)}"
    plan.report(missing_reference, message, node, reason=reason)


def _referenced_files(plan: Plan, target: Target) -> Iterator[tuple[str, YamlNode, str]]:
    """Key, node and path of the component, the trial and the files of dependencies."""
    if target.reference is not None:
        key = "trial" if target.kind.family == Family.SWEEP else "component"
        yield key, target.get(key) or target.at, target.reference
    snapshot = (target.text("code") or "") if target.kind.role == Role.SPEC else ""
    for keys in _DEPENDENCIES:
        if keys[0] not in target.fields:
            continue
        node = target.get(*keys)
        text = text_of(node)
        if node is None or not text or "${{" in text or ":" in text.removeprefix("file:"):
            continue
        if not _has_includes(plan, target):
            yield keys[-1], node, plan.project.in_snapshot(folder_of(plan.path), snapshot, text)


def _code_folders(plan: Plan, target: Target) -> Iterator[tuple[YamlNode, str]]:
    """Node and path of the code. azure-ai-ml looks for the code of a step only in inline steps."""
    if target.kind.role == Role.SPEC or "component" in target.fields:
        return
    folder = folder_of(plan.path)
    for keys in _CODE:
        node = target.get(*keys) if keys[0] in target.fields else None
        text = text_of(node)
        if node is None or not text or _NOT_A_PATH.search(text):
            continue
        path = os.path.normpath(os.path.join(folder, text))
        # The folder of the file itself, and its parents, exist.
        if not f"{folder}{os.sep}".startswith(f"{path}{os.sep}"):
            yield node, path


def _has_includes(plan: Plan, target: Target) -> bool:
    """Whether the snapshot gets files of other folders, which are unknown here."""
    stem = os.path.splitext(full_path(plan.path))[0]
    includes = f"{stem}.additional_includes"
    return "additional_includes" in target.fields or not plan.project.missing(includes)


@rule("error", needs=("${{",))
def undeclared_input(plan: Plan) -> None:
    undeclared: _Undeclared = defaultdict(list)
    steps = {
        target.path: target for target in plan.known_targets() if target.kind.role == Role.STEP
    }
    for target in plan.known_targets():
        if target.kind.role in (Role.SPEC, Role.V15_STEP):
            continue
        pipeline = target.parent if target.path in steps else None
        for path, scalar in _bound_scalars(target, everywhere=pipeline is not None):
            if pipeline is not None and "jobs" not in path:
                _collect_undeclared(undeclared, scalar, pipeline, is_parent=True)
                for message in _step_problems(plan, scalar, pipeline, target.path[:-1], steps):
                    plan.report(undeclared_input, message, scalar)
            if path[0] in _USES and "component" not in target.fields:
                _collect_undeclared(undeclared, scalar, target, is_parent=False)
    # One declaration is missing, however often it is used.
    for (_, message), scalars in undeclared.items():
        shown = [scalar for scalar in scalars if not plan.covers(undeclared_input.id, scalar)]
        reason = f"it is used {len(shown)} times" if len(shown) > 1 else ""
        for scalar in shown[:1]:
            plan.report(undeclared_input, message, scalar, reason=reason)


def _bound_scalars(target: Target, everywhere: bool) -> Iterator[tuple[KeyPath, yaml.ScalarNode]]:
    """Texts with a binding in the order of the file: in all keys, or where own inputs are used."""
    for name, (key, value) in target.fields.items():
        if everywhere or name in _USES:
            for path, _, node in ((name,), key, value), *items_below(value, (name,)):
                if isinstance(node, yaml.ScalarNode) and "${{" in node.value:
                    yield path, node


def _collect_undeclared(
    undeclared: _Undeclared, scalar: yaml.ScalarNode, owner: Target, is_parent: bool
) -> None:
    shown = "the pipeline" if owner.kind.family == Family.PIPELINE else owner.shown
    for parent, section, name in _BINDING.findall(scalar.value):
        if bool(parent) == is_parent and not _declares(owner, section, name):
            word = section.removesuffix("s").replace("_", " ")
            undeclared[owner.path, f"{shown} has no {word} `{name}`"].append(scalar)


def _step_problems(
    plan: Plan,
    scalar: yaml.ScalarNode,
    pipeline: Target,
    jobs: KeyPath,
    steps: dict[KeyPath, Target],
) -> Iterator[str]:
    """`${{parent.jobs.prepare.outputs.data}}` without a step `prepare`, or without its output."""
    for name, output in _STEP_BINDING.findall(scalar.value):
        step = steps.get((*jobs, name))
        if step is None:
            if {name, "<<"}.isdisjoint(pairs(pipeline.get("jobs"))):
                yield f"the pipeline has no step `{name}`"
        elif output and not _has_output(plan, step, output):
            yield f"the component of step `{name}` has no output `{output}`"


def _has_output(plan: Plan, step: Target, output: str) -> bool:
    """Whether a step has an output; also true if its component is unknown."""
    if step.kind.family not in (Family.COMMAND, Family.PARALLEL):
        return True
    document = plan.project.referenced(step)
    if document is None or document.root.kind.role != Role.COMPONENT:
        return True
    return output in pairs(step.get("outputs")) or _declares(document.root, "outputs", output)


def _declares(owner: Target, section: str, name: str) -> bool:
    """Whether a target declares an input, output or search space.

    Also true if the declaration may be elsewhere: in a merged mapping or a registered component.
    """
    targets = [owner, owner.parent] if owner.kind.role in TRIALS and owner.parent else [owner]
    for target in targets:
        node = target.get(section)
        if "<<" in target.fields or not isinstance(node, yaml.MappingNode | None):
            return True
        # `a.b` is input `b` of group `a`: declared as `a`, or as each of its inputs.
        names = [str(key.value) for key, _ in node.value] if node is not None else []
        if not {name, name.partition(".")[0], "<<"}.isdisjoint(names):
            return True
        if any(declared.startswith(f"{name}.") for declared in names):
            return True
    return owner.kind.family == Family.PIPELINE and "component" in owner.fields
