"""Thread settings onto targets: into environment variables where they survive, else where they do not get lost.

What to write is decided in `threads.py`; where it can stand is in `kinds.KINDS`.
"""

from __future__ import annotations

import os

import yaml

from arc_toolkit.azureml.documents import Document, Target
from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.place_resources import place_resources
from arc_toolkit.azureml.threads import PRESTEP, RESTEP, Decision, decide, exported_names, merge_prestep
from arc_toolkit.azureml.work import Work
from arc_toolkit.azureml.yaml_style import is_bound
from arc_toolkit.edit.yaml_nodes import get, text_of

RULE = "threads"


def place_threads(work: Work, document: Document) -> None:
    """Every target of a document that runs code."""
    if work.settings.threads in (None, "off"):
        return
    for target in document.targets:
        if not work.wants(RULE, target):
            continue
        if target.kind.variables:
            _on_variables(work, target)
        elif target.kind.role == Role.STEP_TRIAL or _is_trial_file(work, target):
            _on_command(work, target)
        elif target.kind.role == Role.COMPONENT and target.kind.resources and target.parent is None:
            _on_component(work, target)
        elif target.kind.family == Family.SWEEP and target.kind.role == Role.STEP and target.reference:
            _on_sweep_step(work, target)


def _is_trial_file(work: Work, target: Target) -> bool:
    """Whether this is a command component that a sweep names as its trial."""
    kind = target.kind
    is_component = kind.family == Family.COMMAND and kind.role == Role.COMPONENT
    return is_component and "trial" in work.library.uses(work.file.path)


def decide_for(
    work: Work, target: Target, literal_only: bool = False, instance_type: str | None = None
) -> Decision:
    """The decision for one target, with all that is known about it."""
    parallel = target.kind.family == Family.PARALLEL
    processes = work.effective(target, "max_concurrency_per_instance") if parallel else None
    # LightGBM asked for by name needs no evidence; FAISS does, for the DataLoader's workers.
    evidence = () if work.settings.threads == "lightgbm" else work.evidence(target)
    return decide(
        work.settings,
        evidence,
        instance_type=instance_type or work.instance_type(target) or work.settings.instance_type,
        parallel=parallel,
        processes=int(processes) if processes is not None and processes.isdigit() else None,
        windows=is_windows(work, target),
        literal_only=literal_only,
    )


def is_windows(work: Work, target: Target) -> bool:
    """Whether the environment says Windows: `os: Windows`, `os_type`, or an image for it."""
    holders = [target.get("environment"), target.get("task", "environment")]
    if target.reference and (document := work.library.load(target.reference)):
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


def _on_variables(work: Work, target: Target) -> None:
    if target.kind.family == Family.PARALLEL and target.kind.role == Role.SPEC and work.settings.threads:
        decision = decide_for(work, target)
        if decision.how != "nothing":
            reason = f"{decision.reason}; but the processes per node of a v1.5 ParallelComponent are run settings"
            work.found(RULE, "note", "threads are not set in this spec", target.at, reason=reason)
        return
    decision = decide_for(work, target)
    if decision.how == "nothing":
        return
    if decision.how == "cannot":
        work.found(RULE, "warning", f"threads are not set on {target.shown}", target.at, reason=decision.reason)
        return
    old = work.variables(target)
    if work.ignored(RULE, target, ("environment_variables", RESTEP)):
        return
    if RESTEP in old and PRESTEP not in old and decision.how == "prestep":
        _mend_restep(work, target, decision, old)
        return
    written = decision.variables(old)
    held = [name for name in decision.names if name in old] if decision.how == "prestep" else []
    if held:
        names = ", ".join(f"{name}={old[name]}" for name in held)
        work.found(RULE, "note", f"{names} is set on {target.shown} and stays", target.at, reason=decision.reason)
    for name, value in written.items():
        if is_bound(old.get(name)):
            reason = f"it is bound to {old[name]}"
            work.found(RULE, "note", f"{name} of {target.shown} is left as it is", target.at, reason=reason)
        elif work.set(RULE, target, ("environment_variables", name), value):
            _tell(work, target, f"{name} on {target.shown}", decision)


def _mend_restep(work: Work, target: Target, decision: Decision, old: dict[str, str]) -> None:
    path = (*target.path, "environment_variables", RESTEP)
    free = [name for name in decision.names if name not in old]
    value = merge_prestep(old[RESTEP], free)
    new = value if value != old[RESTEP] else None
    if not work.edit(RULE, target, path, lambda editor: editor.rename(path, PRESTEP, new)):
        return
    work.plan(path, value)
    _tell(work, target, f"{PRESTEP} on {target.shown}", decision)


def _tell(work: Work, target: Target, what: str, decision: Decision) -> None:
    value = "from get_cores" if decision.how == "prestep" else f"= {decision.number}"
    work.found(RULE, "note", f"{what} {value}", target.at, reason=decision.reason, applied=True)


def _on_command(work: Work, target: Target) -> None:
    """The trial of a sweep in a pipeline loses variables: literal exports before its command."""
    decision = _for_trial(work, target)
    if decision.how == "nothing" or work.ignored(RULE, target, ("command",)):
        return
    why = "a sweep step in a pipeline loses environment variables, so they are exported before the command"
    if decision.how == "cannot":
        message = f"threads are not set before the command of {target.shown}"
        work.found(RULE, "warning", message, target.at, reason=f"{why}; {decision.reason}")
        return
    command = text_of(get(target.node, "command"))
    if command is None or set(decision.names) <= exported_names(command).keys():
        return
    # A step that uses the same file as a command has variables of its own: those win.
    yielding = target.parent is None and bool(work.library.uses(work.file.path) - {"trial"})
    export = decision.export_command(yielding)
    path = (*target.path, "command")
    if not work.edit(RULE, target, path, lambda editor: editor.prepend(path, f"{export} && ")):
        return
    work.plan(path, f"{export} && {command}")
    reason = f"{why}; {decision.reason}"
    work.found(RULE, "note", f"`{export}` before the command", target.at, reason=reason, applied=True)


def _for_trial(work: Work, target: Target) -> Decision:
    """The decision for a trial: a file of its own runs on the instance types of the sweeps that name it."""
    if target.parent is not None:
        return decide_for(work, target, literal_only=True)
    found: dict[tuple[str, int | None], tuple[str, Decision]] = {}
    for file, sweep in work.library.sweeps(work.file.path):
        around = Work(file, work.library, work.settings)
        for document in file.documents:
            if sweep in document.targets:
                place_resources(around, document)
        decision = decide_for(work, target, literal_only=True, instance_type=around.instance_type(sweep))
        found.setdefault((decision.how, decision.number), (f"{sweep.shown} in {file.path}", decision))
    if len(found) > 1:
        shown = "; ".join(f"{where}: {decision.number or decision.reason}" for where, decision in found.values())
        return Decision("cannot", reason=f"the sweeps that use it need different numbers ({shown})")
    for _, decision in found.values():
        return decision
    return decide_for(work, target, literal_only=True)


def _on_sweep_step(work: Work, target: Target) -> None:
    decision = decide_for(work, target, literal_only=True)
    if decision.how != "nothing" and target.reference:
        trial = os.path.basename(target.reference)
        reason = f"{target.kind.why}: the exports go before the command of {trial} (give that file too)"
        work.found(RULE, "note", f"no variables on {target.shown}", target.at, reason=reason)


def _on_component(work: Work, target: Target) -> None:
    """A v2 component drops variables: the steps that use it have them; say so where no step does."""
    decision = decide_for(work, target)
    if decision.how == "nothing" or work.library.uses(work.file.path):
        return
    reason = f"{target.kind.why}, and no pipeline in the given paths uses it; {decision.reason}"
    message = "threads cannot be set in this component: set them on the step that uses it"
    work.found(RULE, "warning", message, target.at, reason=reason)
