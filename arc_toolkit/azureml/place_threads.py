"""Thread settings onto targets: into environment variables where they survive, else where they do not get lost.

What to write is decided in `threads.py`; which targets keep variables is in `kinds.KINDS`.
"""

from __future__ import annotations

import os

import yaml

from arc_toolkit.azureml.documents import Setting, Target
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.place import place, place_resources
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.threads import PRESTEP, RESTEP, Decision, decide, exported_names, merge_prestep
from arc_toolkit.azureml.yaml_style import is_bound
from arc_toolkit.edit.yaml_nodes import get, text_of

RULE = "threads"


def place_threads(plan: Plan) -> None:
    """Every target of a file that runs code."""
    if plan.settings.threads in (None, "off"):
        return
    for target in plan.targets():
        kind = target.kind
        if not plan.wants(RULE, target):
            continue
        if plan.unsupported(target, Slot.VARIABLES) is None:
            _on_variables(plan, target)
        elif (
            kind.family == Family.SWEEP
            and kind.role == Role.STEP
            and (target.reference or not plan.edits_commands)
        ):
            _on_sweep_step(plan, target)
        elif not plan.edits_commands:
            continue
        elif kind.role == Role.STEP_TRIAL or _is_trial_file(plan, target):
            _on_command(plan, target)
        elif kind.role == Role.COMPONENT and kind.resources and target.parent is None:
            _on_component(plan, target)


def _is_trial_file(plan: Plan, target: Target) -> bool:
    """Whether this is a command component that a sweep names as its trial."""
    kind = target.kind
    is_component = kind.family == Family.COMMAND and kind.role == Role.COMPONENT
    return is_component and "trial" in plan.library.uses(plan.path)


def decide_for(
    plan: Plan, target: Target, literal_only: bool = False, instance_type: str | None = None
) -> Decision:
    """The decision for one target, with all that is known about it."""
    processes = plan.effective(target, "max_concurrency_per_instance")
    number = int(processes) if processes is not None and processes.isdigit() else None
    # LightGBM asked for by name needs no evidence; FAISS does, for the DataLoader's workers.
    evidence = () if plan.settings.threads == "lightgbm" else plan.evidence(target)
    decision = decide(
        plan.settings,
        evidence,
        instance_type=instance_type or plan.instance_type(target) or plan.settings.instance_type,
        # Any step with several processes on a node shares its cores among them.
        parallel=target.kind.family == Family.PARALLEL or (number or 0) > 1,
        processes=number,
        windows=is_windows(plan, target),
        literal_only=literal_only,
    )
    if decision.writes and processes is not None and number is None:
        written = target.written(("max_concurrency_per_instance",)) or processes
        return Decision("cannot", reason=f"its processes per node are {written}, which is not a literal")
    return decision


def is_windows(plan: Plan, target: Target) -> bool:
    """Whether the environment says Windows: `os: Windows`, `os_type`, or an image for it."""
    holders = [target.get("environment"), target.get("task", "environment")]
    if target.reference and (document := plan.library.load(target.reference)):
        holders.append(document.root.get("environment"))
    for environment in holders:
        if isinstance(environment, yaml.MappingNode):
            for place in (("os",), ("os_type",), ("docker", "platform", "os")):
                if (text_of(get(environment, *place)) or "").lower() == "windows":
                    return True
            image = (text_of(get(environment, "image")) or "").lower()
            if "windows" in image or "nanoserver" in image:
                return True
    return False


def _on_variables(plan: Plan, target: Target) -> None:
    decision = decide_for(plan, target)
    if decision.how == "nothing":
        return
    if target.kind.family == Family.PARALLEL and target.kind.role == Role.SPEC:
        reason = f"{decision.reason}; but the processes per node of a v1.5 ParallelComponent are run settings"
        plan.found(RULE, "note", "threads are not set in this spec", target.at, reason=reason)
        return
    if decision.how == "cannot":
        plan.found(RULE, "warning", f"threads are not set on {target.shown}", target.at, reason=decision.reason)
        return
    old = plan.variables(target)
    if plan.ignored(RULE, target, (*Slot.VARIABLES.value, RESTEP)):
        return
    if RESTEP in old and PRESTEP not in old and decision.how == "prestep":
        free = [name for name in decision.names if name not in old]
        if plan.replace_restep(target, merge_prestep(old[RESTEP], free)):
            _report(plan, target, PRESTEP, decision)
        return
    bound = [name for name in (*decision.names, PRESTEP) if is_bound(old.get(name))]
    if bound:
        reason = f"its {bound[0]} is not a literal"
        plan.found(RULE, "warning", f"threads are not set on {target.shown}", target.at, reason=reason)
        return
    kept = [name for name in decision.names if name in old] if decision.how == "prestep" else []
    if kept:
        names = ", ".join(f"{name}={old[name]}" for name in kept)
        plan.found(RULE, "note", f"{names} is set on {target.shown} and stays", target.at, reason=decision.reason)
    settings = [
        Setting(RULE, Slot.VARIABLES, value, (*Slot.VARIABLES.value, name))
        for name, value in decision.variables(old).items()
    ]
    if not settings and not kept:
        plan.says_equal(target, Setting(RULE, Slot.VARIABLES, "as it should be"))
    for setting in place(plan, target, settings):
        _report(plan, target, str(setting.path[-1]), decision)


def _report(plan: Plan, target: Target, name: str, decision: Decision) -> None:
    value = "from get_cores" if decision.how == "prestep" else f"= {decision.number}"
    message = f"{name} on {target.shown} {value}"
    plan.found(RULE, "note", message, target.at, reason=decision.reason, applied=True)


def _on_command(plan: Plan, target: Target) -> None:
    """The trial of a sweep in a pipeline loses variables: literal exports before its command."""
    decision = _for_trial(plan, target)
    if decision.how == "nothing" or plan.ignored(RULE, target, ("command",)):
        return
    why = "a sweep step in a pipeline loses environment variables, so they are exported before the command"
    if decision.how == "cannot":
        message = f"threads are not set before the command of {target.shown}"
        plan.found(RULE, "warning", message, target.at, reason=f"{why}; {decision.reason}")
        return
    command = text_of(get(target.node, "command"))
    if command is None or set(decision.names) <= exported_names(command).keys():
        return
    # A step that uses the same file as a command has variables of its own: those win.
    yielding = target.parent is None and bool(plan.library.uses(plan.path) - {"trial"})
    export = decision.export_command(yielding)
    path = (*target.path, "command")
    if not plan.prepend(RULE, target, path, f"{export} && "):
        return
    plan.expect(path, f"{export} && {command}")
    reason = f"{why}; {decision.reason}"
    plan.found(RULE, "note", f"`{export}` before the command", target.at, reason=reason, applied=True)


def _for_trial(plan: Plan, target: Target) -> Decision:
    """The decision for a trial: a file of its own runs on the instance types of the sweeps that name it."""
    if target.parent is not None:
        return decide_for(plan, target, literal_only=True)
    found: dict[tuple[str, int | None], tuple[str, Decision]] = {}
    for file, sweep in plan.library.sweeps(plan.path):
        around = plan.of_file(file)
        place_resources(around)
        decision = decide_for(plan, target, literal_only=True, instance_type=around.instance_type(sweep))
        found.setdefault((decision.how, decision.number), (f"{sweep.shown} in {file.path}", decision))
    if len(found) > 1:
        shown = "; ".join(f"{where}: {decision.number or decision.reason}" for where, decision in found.values())
        return Decision("cannot", reason=f"the sweeps that use it need different numbers ({shown})")
    for _, decision in found.values():
        return decision
    return decide_for(plan, target, literal_only=True)


def _on_sweep_step(plan: Plan, target: Target) -> None:
    decision = decide_for(plan, target, literal_only=True)
    if decision.how == "nothing":
        return
    if not plan.edits_commands:
        reason = f"{target.kind.why}: export them in the command of its trial"
        plan.found(RULE, "warning", f"threads are not set on {target.shown}", target.at, reason=reason)
    elif target.reference:
        trial = os.path.basename(target.reference)
        reason = f"{target.kind.why}: the exports go before the command of {trial} (give that file too)"
        plan.found(RULE, "note", f"no variables on {target.shown}", target.at, reason=reason)


def _on_component(plan: Plan, target: Target) -> None:
    """A v2 component drops variables: the steps that use it have them; say so where no step does."""
    decision = decide_for(plan, target)
    if decision.how == "nothing" or plan.library.uses(plan.path):
        return
    reason = f"{target.kind.why}, and no pipeline in the given paths uses it; {decision.reason}"
    message = "threads cannot be set in this component: set them on the step that uses it"
    plan.found(RULE, "warning", message, target.at, reason=reason)
