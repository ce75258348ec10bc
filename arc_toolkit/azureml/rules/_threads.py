"""What the two rules about threads share: which setting would be right, and what is set. Not a rule itself."""

from __future__ import annotations

from dataclasses import replace

import yaml

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.place_threads import decide_for
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.azureml.rules._compute import compute_facts
from arc_toolkit.azureml.threads import (
    PRESTEP,
    RESTEP,
    Framework,
    exported_names,
    launched_processes,
)
from arc_toolkit.edit.yaml.nodes import pairs

OMP = "OMP_NUM_THREADS"


def check_threads(plan: Plan, framework: Framework) -> None:
    """Report targets with evidence of a framework whose OMP_NUM_THREADS is missing or wrong."""
    if plan.settings.threads == "off":
        return
    for target in plan.known_targets():
        kind = target.kind
        # A sweep loses environment variables: what counts is what the trial's command exports.
        sweeping = not kind.variables
        if sweeping and not (kind.role.is_trial or _is_open_sweep(plan, target)):
            continue
        if kind.role == Role.COMPONENT or (
            kind.family == Family.PARALLEL and kind.role == Role.SPEC
        ):
            continue
        if plan.has_no_evidence(target):
            continue
        is_on_kubernetes = _is_on_kubernetes(plan, target)
        # In this order: what a target runs is read from other files.
        if is_on_kubernetes is False or not any(
            item.what == framework for item in plan.evidence(target)
        ):
            continue
        auto = replace(plan.settings, threads="auto", exports=(), manual=False)
        right = decide_for(plan, target, settings=auto, literal_only=sweeping)
        # FAISS sets OMP alone, LightGBM all three: with evidence of both only one of the rules speaks.
        if OMP in right.names and (len(right.names) == 1) == (framework == "faiss"):
            problem = _problem(plan, target, right.how, right.number)
            if problem:
                rule = all_rules()[f"{framework}-threads"]
                reason = right.reason
                if right.how != "cannot":
                    reason += "; `patch --threads auto` sets them"
                message = f"{target.shown}: {problem}"
                if is_on_kubernetes:
                    plan.report(rule, message, target.at, reason=reason)
                else:
                    reason = f"if its compute is Kubernetes: {reason}"
                    plan.add_finding(rule.id, "note", message, target.at, reason=reason)


def _is_on_kubernetes(plan: Plan, target: Target) -> bool | None:
    """None where nothing says what the compute is. An instance type that is not a VM size exists on Kubernetes only."""
    facts = compute_facts(plan, target)
    if facts.kubernetes:
        return True
    if facts.is_elsewhere:
        return False
    is_named = (
        plan.instance_type(target) is not None or plan.settings.instance_type or plan.settings.cores
    )
    return True if is_named or plan.settings.instance_types else None


def _is_open_sweep(plan: Plan, target: Target) -> bool:
    """Whether it is a sweep with a trial file whose own findings do not tell what `--threads` makes of it."""
    is_sweep = target.kind.family == Family.SWEEP
    return (
        is_sweep and plan.settings.threads is None and plan.library.referenced(target) is not None
    )


def _command(plan: Plan, target: Target) -> str:
    if target.kind.family == Family.SWEEP and (trial := plan.library.referenced(target)):
        return trial.root.text("command") or ""
    return plan.effective(target, "command") or ""


def _problem(plan: Plan, target: Target, how: str, number: int | None) -> str:
    variables = target.get("environment_variables")
    if variables is not None and not isinstance(variables, yaml.MappingNode):
        return ""  # they come from somewhere else
    names = set(pairs(variables))
    literal = plan.planned(target, "environment_variables", OMP)
    prestep = plan.planned(target, "environment_variables", PRESTEP)
    if prestep is None and plan.is_planned((*target.path, "environment_variables", RESTEP)):
        prestep = plan.planned(target, "environment_variables", RESTEP)
    exports = exported_names(prestep) if prestep else {}
    exports |= exported_names(_command(plan, target))
    value = exports.get(OMP, literal)
    if value is None:
        if RESTEP in names and PRESTEP not in names:
            return f"threads are set in {RESTEP}, which nothing reads"
        command = _command(plan, target)
        if "torch" in command and launched_processes(command) not in (None, "1"):
            return ""  # torchrun sets it to 1 for several processes
        return f"{OMP} is not set, so it starts one thread per core of the node"
    if how == "literal" and "get_cores" in value:
        return f"{OMP} takes all cores in each process: it has to be {number}"
    if how == "literal" and number is not None and value.isdigit() and int(value) > number:
        return f"{OMP} is {value}, and {number} would be right"
    return ""
