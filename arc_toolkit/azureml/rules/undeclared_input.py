"""`${{inputs.x}}` where there is no input `x`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import yaml

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.editor import KeyPath
from arc_toolkit.edit.yaml.nodes import YamlNode, pairs
from arc_toolkit.findings import Rule

_BINDING = re.compile(
    r"\$\{\{\s*(parent\.)?(inputs|outputs|search_space)\.([A-Za-z0-9_.-]+?)\s*\}\}"
)


_OF_STEP = re.compile(
    r"\$\{\{\s*parent\.jobs\.([A-Za-z0-9_-]+)(?:\.outputs\.([A-Za-z0-9_]+)\s*\}\})?"
)
# Where a job or component uses its own inputs and outputs.
_USES = ("command", "task", "args", "input_data")
# Whose input it is and the message -> where it is used
_Missing = dict[tuple[KeyPath, str], list[yaml.ScalarNode]]


def _check(plan: Plan) -> None:
    steps: dict[Target, Collection[str]] = {}
    by_path = {
        target.path: target for target in plan.known_targets() if target.kind.role == Role.STEP
    }
    missing: _Missing = {}
    for target in plan.known_targets():
        if target.kind.role in (Role.SPEC, Role.V15_STEP):
            continue
        if target.kind.role == Role.STEP and (pipeline := target.parent):
            if pipeline not in steps:
                steps[pipeline] = pairs(pipeline.get("jobs"))
            for scalar in _scalars(target.node, skip="jobs"):
                _look(missing, scalar, pipeline, of_parent=True)
                _report_steps(plan, scalar, steps[pipeline], by_path, target.path[:-1])
        commands = [node for name in _USES if (node := target.get(name)) is not None]
        for node in commands if "component" not in target.own else ():
            for scalar in _scalars(node):
                _look(missing, scalar, target, of_parent=False)
    for (
        _,
        message,
    ), places in missing.items():  # one declaration is missing, however often it is used
        shown = [place for place in places if not plan.covers(RULE.id, place)]
        more = f"it is used {len(shown)} times" if len(shown) > 1 else ""
        for place in shown[:1]:
            plan.report(RULE, message, place, reason=more)


def _look(missing: _Missing, scalar: yaml.ScalarNode, owner: Target, of_parent: bool) -> None:
    for parent, where, name in _BINDING.findall(scalar.value):
        if bool(parent) == of_parent and not _declares(owner, where, name):
            word = where.removesuffix("s").replace("_", " ")
            missing.setdefault((owner.path, f"{_shown(owner)} has no {word} `{name}`"), []).append(
                scalar
            )


def _report_steps(
    plan: Plan,
    scalar: yaml.ScalarNode,
    names: Collection[str],
    steps: Mapping[KeyPath, Target],
    at: KeyPath,
) -> None:
    """`${{parent.jobs.prepare.outputs.data}}` where there is no step `prepare`, or its component has no `data`."""
    for name, output in _OF_STEP.findall(scalar.value):
        if name not in names and "<<" not in names:
            plan.report(RULE, f"the pipeline has no step `{name}`", scalar)
        elif output and (step := steps.get((*at, name))) and not _gives(plan, step, output):
            plan.report(RULE, f"the component of step `{name}` has no output `{output}`", scalar)


def _gives(plan: Plan, step: Target, output: str) -> bool:
    """Whether a step has an output; also true where its component is not known."""
    if step.kind.family not in (Family.COMMAND, Family.PARALLEL) or output in pairs(
        step.get("outputs")
    ):
        return True
    document = plan.library.referenced(step)
    if document is None or document.root.kind.role != Role.COMPONENT:
        return True
    return _declares(document.root, "outputs", output)


def _shown(owner: Target) -> str:
    return "the pipeline" if owner.kind.family == Family.PIPELINE else owner.shown


def _declares(owner: Target, where: str, name: str) -> bool:
    """Also true where what is declared cannot be known: a merged mapping, a component of another place."""
    targets = [owner, owner.parent] if owner.kind.role.is_trial and owner.parent else [owner]
    for target in targets:
        if target is None or "<<" in target.own:
            return True
        declared = target.get(where)
        if declared is not None and not isinstance(declared, yaml.MappingNode):
            return True
        # `a.b` is an input `b` of the group `a`, which is declared as `a`, or as each of its inputs.
        names = [key.value for key, _ in declared.value] if declared is not None else []
        if name in names or "<<" in names:
            return True
        if name.partition(".")[0] in names or any(
            str(other).startswith(f"{name}.") for other in names
        ):
            return True
    return owner.kind.family == Family.PIPELINE and "component" in owner.own


def _scalars(node: YamlNode, skip: str = "") -> Iterator[yaml.ScalarNode]:
    """Those with a binding, in the order of the text, except below a key."""
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, yaml.ScalarNode):
            if "${{" in node.value:
                yield node
        elif isinstance(node, yaml.MappingNode):
            stack += [value for key, value in reversed(node.value) if not skip or key.value != skip]
        else:
            stack += reversed(node.value)


RULE = Rule("undeclared-input", "error", check=_check, needs=("${{",))
