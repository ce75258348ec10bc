"""Thread settings into the targets of a file: where each kind keeps them, and what is reported
where none does.

How many threads are right, and how that is written, is decided in `threads.py`.
"""

from __future__ import annotations

import os

import yaml

from arc_toolkit.azureml.documents import Setting, SourceFile, Target, is_bound
from arc_toolkit.azureml.kinds import KINDS, Family, Role, Slot
from arc_toolkit.azureml.plan import Plan, Values
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import (
    NOTHING,
    PRESTEP,
    RESTEP,
    Decision,
    cores_of,
    decide,
    exported_names,
    launched_processes,
    merge_prestep,
)
from arc_toolkit.edit.files.plan import find_ignores
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import get, position_of, text_of

THREADS = "threads"


def place_threads(plan: Plan) -> None:
    """Every target of a file that runs code."""
    for target in plan.targets():
        kind = target.kind
        if not plan.wants(THREADS, target):
            continue
        if kind.family == Family.PIPELINE and plan.settings.threads != "auto":
            plan.report_other_file(target, THREADS)
        if plan.unsupported(target, Slot.VARIABLES) is None:
            _set_variables(plan, target)
        elif kind is KINDS[Family.SWEEP, Role.STEP] and (
            target.reference or plan.language == "python"
        ):
            _report_sweep_step(plan, target)
        elif plan.language == "python":
            continue
        elif kind.role == Role.STEP_TRIAL or (
            kind is KINDS[Family.COMMAND, Role.COMPONENT]
            and "trial" in plan.project.uses(plan.path)
        ):
            _export_before_command(plan, target)
        elif kind.role == Role.COMPONENT and kind.resources and target.parent is None:
            _report_component(plan, target)


def decide_for(
    plan: Plan,
    target: Target,
    *,
    settings: Settings | None = None,
    literal_only: bool = False,
    instance_type: str | None = None,
) -> Decision:
    """The decision for one target, with all that is known about it; by the settings of the run if
    none are given.
    """
    settings = settings or plan.settings
    # LightGBM asked for by name needs no evidence; FAISS does, for the DataLoader's workers.
    evidence = () if settings.threads == "lightgbm" else plan.evidence(target)
    if settings.threads == "auto" and not evidence:
        return NOTHING
    written_type = plan.values.effective(target, *Slot.INSTANCE_TYPE.path)
    types = plan.values.possible(target, written_type)
    # What is bound stays so, unless the run exposes its own value.
    is_given = settings.expose_parameters or not is_bound(written_type)
    if (
        len(types) > 1
        and instance_type is None
        and len({cores_of(name, settings)[0] for name in types}) > 1
    ):
        reason = (
            f"the pipelines that use it pass different instance types ({', '.join(sorted(types))})"
        )
        return Decision("cannot", reason=f"{reason}: use --instance-type or --cores")
    processes, written = _processes(plan, target)
    number = int(processes) if processes is not None and processes.isdigit() else None
    decision = decide(
        settings,
        evidence,
        instance_type=instance_type
        or next(iter(sorted(types)), settings.instance_type if is_given else None),
        parallel=target.kind.family == Family.PARALLEL,
        processes=number,
        windows=_is_windows(plan, target),
        literal_only=literal_only,
    )
    if decision.how in ("prestep", "literal") and written and number is None:
        return Decision(
            "cannot",
            decision.names,
            reason=f"its processes per node are {written}, which is not a literal",
        )
    return decision


# Processes per node: of PRS, and of MPI and PyTorch.
_PROCESSES = (("max_concurrency_per_instance",), ("distribution", "process_count_per_instance"))


def _processes(plan: Plan, target: Target) -> tuple[str | None, str]:
    """How many processes share a node, also by the default of an input, and how that is written."""
    if isinstance(whole := target.get("distribution"), yaml.ScalarNode):  # made elsewhere, in code
        return None, target.written(("distribution",)) or whole.value
    for path in _PROCESSES:
        if (text := plan.values.effective(target, *path)) is not None:
            return plan.values.resolved(target, text), target.written(path) or text
    if (text := launched_processes(plan.values.effective(target, "command"))) is not None:
        return plan.values.resolved(target, text), text
    return None, ""


def _is_windows(plan: Plan, target: Target) -> bool:
    """Whether the environment says Windows: `os: Windows`, `os_type`, or an image for it."""
    holders = [target.get("environment"), target.get("task", "environment")]
    if target.reference and (document := plan.project.load(target.reference)):
        holders.append(document.root.get("environment"))
    for environment in holders:
        if isinstance(environment, yaml.MappingNode):
            for path in (("os",), ("os_type",), ("docker", "platform", "os")):
                if (text_of(get(environment, *path)) or "").lower() == "windows":
                    return True
            image = (text_of(get(environment, "image")) or "").lower()
            if "windows" in image or "nanoserver" in image:
                return True
    return False


def not_set(plan: Plan, target: Target, reason: str) -> None:
    plan.warn(THREADS, f"threads are not set on {target.shown}", target.at, reason)


def _note_written(plan: Plan, target: Target, message: str, reason: str) -> None:
    plan.add_finding(THREADS, "note", message, target.at, reason=reason, applied=True)


def _set_variables(plan: Plan, target: Target) -> None:
    if plan.inherits(target, Slot.VARIABLES.path):
        return
    decision = decide_for(plan, target)
    if decision.how == "nothing":
        return
    if target.kind is KINDS[Family.PARALLEL, Role.SPEC]:
        why = "but the processes per node of a v1.5 ParallelComponent are run settings"
        message = "threads are not set in this spec"
        plan.add_finding(THREADS, "note", message, target.at, f"{decision.reason}; {why}")
        return
    if decision.how == "cannot":
        not_set(plan, target, decision.reason)
        return
    old = plan.variables(target)
    if plan.ignored(THREADS, target, (*Slot.VARIABLES.path, RESTEP)):
        return
    is_prestep = decision.how == "prestep"
    value = "from get_cores" if is_prestep else f"= {decision.number}"
    if RESTEP in old and PRESTEP not in old and is_prestep:
        free = [name for name in decision.names if name not in old]
        if plan.replace_restep(target, merge_prestep(old[RESTEP], free)):
            _note_written(plan, target, f"{PRESTEP} on {target.shown} {value}", decision.reason)
        return
    bound = [name for name in (*decision.names, PRESTEP) if is_bound(old.get(name))]
    if bound:
        not_set(plan, target, f"its {bound[0]} is not a literal")
        return
    kept = ", ".join(f"{name}={old[name]}" for name in decision.names if is_prestep and name in old)
    if kept:
        message = f"{kept} is set on {target.shown} and stays"
        plan.add_finding(THREADS, "note", message, target.at, reason=decision.reason)
    settings = [
        Setting(THREADS, Slot.VARIABLES, text, (*Slot.VARIABLES.path, name))
        for name, text in decision.variables(old).items()
    ]
    plan.already_as_requested |= not settings
    for setting in plan.place(target, settings):
        _note_written(
            plan, target, f"{setting.path[-1]} on {target.shown} {value}", decision.reason
        )


def _export_before_command(plan: Plan, target: Target) -> None:
    """The trial of a sweep in a pipeline loses variables: literal exports before its command."""
    decision = _for_trial(plan, target)
    if decision.how == "nothing" or plan.ignored(THREADS, target, ("command",)):
        return
    reason = (
        "a sweep step in a pipeline loses environment variables, so they are exported before the "
        f"command; {decision.reason}"
    )
    if decision.how == "cannot":
        message = f"threads are not set before the command of {target.shown}"
        plan.warn(THREADS, message, target.at, reason)
        return
    command = text_of(get(target.node, "command"))
    if command is None or set(decision.names) <= exported_names(command).keys():
        return
    # A step that uses the same file as a command has variables of its own: those win.
    yielding = target.parent is None and bool(plan.project.uses(plan.path) - {"trial"})
    export = decision.export_command(yielding)
    path = (*target.path, "command")
    # A line of its own: `&&` before `./monitor.sh & python train.py` would export to the monitor
    # only.

    def prepend(editor: YamlEditor) -> None:
        editor.prepend(path, export)

    if plan.attempt(THREADS, f"not set on {target.shown}", target.at, prepend):
        plan.values.pending[path] = f"{export}\n{command}"
        _note_written(plan, target, f"`{export}` before the command", reason)


def _for_trial(plan: Plan, target: Target) -> Decision:
    """The decision for a trial: a file of its own runs on the instance types of the sweeps that
    name it.
    """
    decisions: dict[tuple[str, int | None], tuple[str, Decision]] = {}
    for file, sweep in plan.project.users(plan.path, Family.SWEEP) if target.parent is None else ():
        instance_type = _instance_type_elsewhere(plan, file, sweep)
        decision = decide_for(plan, target, literal_only=True, instance_type=instance_type)
        where = f"{sweep.shown} in {file.path}"
        decisions.setdefault((decision.how, decision.number), (where, decision))
    if len(decisions) > 1:
        shown = "; ".join(
            f"{where}: {item.number or item.reason}" for where, item in decisions.values()
        )
        return Decision("cannot", reason=f"the sweeps that use it need different numbers ({shown})")
    for _, decision in decisions.values():
        return decision
    return decide_for(plan, target, literal_only=True)


def _instance_type_elsewhere(plan: Plan, file: SourceFile, sweep: Target) -> str | None:
    """The instance type of a sweep in another file, as this run leaves it."""
    settings, values = plan.settings, Values(file.path, plan.project)
    rule, path = Slot.INSTANCE_TYPE.rule, Slot.INSTANCE_TYPE.path
    written = values.effective(sweep, *path)
    lines = {position_of(node)[0] for node in (sweep.at, sweep.place_of(path))}
    ignores = find_ignores(file.yaml.text)
    is_selected = not settings.steps or sweep.step_name in settings.steps
    if settings.kinds and is_selected:
        is_selected = settings.selects_kind(sweep.kind.family, values.is_distributed(sweep))
    is_set = (
        settings.wants(rule)
        and is_selected
        and not sweep.is_bound(path)
        and not any(ignores.covers(rule, line) for line in lines)
    )
    return (settings.instance_type if is_set else None) or values.resolved(sweep, written)


def _report_sweep_step(plan: Plan, target: Target) -> None:
    if decide_for(plan, target, literal_only=True).how == "nothing":
        return
    if plan.language == "python":
        not_set(plan, target, f"{target.kind.why}: export them in the command of its trial")
    elif target.reference:
        trial = os.path.basename(target.reference)
        why = f"the exports go before the command of {trial} (give that file too)"
        message = f"no variables on {target.shown}"
        plan.add_finding(THREADS, "note", message, target.at, f"{target.kind.why}: {why}")


def _report_component(plan: Plan, target: Target) -> None:
    """A v2 component drops variables: the steps that use it have them; say so where no step does."""
    if plan.project.uses(plan.path):
        return
    decision = decide_for(plan, target)
    if decision.how == "nothing":
        return
    reason = f"{target.kind.why}, and no pipeline in the given paths uses it; {decision.reason}"
    message = "threads cannot be set in this component: set them on the step that uses it"
    plan.warn(THREADS, message, target.at, reason)
