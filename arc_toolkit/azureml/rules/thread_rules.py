"""Rules about the number of threads of LightGBM, FAISS and other OpenMP code."""

from __future__ import annotations

from dataclasses import replace

import yaml

from arc_toolkit.azureml.apply_threads import decide_for
from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.evidence import Framework
from arc_toolkit.azureml.kinds import TRIALS, Family, Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import target_rule
from arc_toolkit.azureml.rules.compute_facts import compute_facts
from arc_toolkit.azureml.threads import (
    LIGHTGBM_NAMES,
    PRESTEP,
    RESTEP,
    cores_of,
    exported_names,
    launched_processes,
)
from arc_toolkit.edit.yaml.nodes import pairs, text_of
from arc_toolkit.findings import Rule

OMP = "OMP_NUM_THREADS"


@target_rule("warning", language="yaml, python")
def lightgbm_threads(plan: Plan, target: Target) -> None:
    _check_framework(plan, target, lightgbm_threads, "lightgbm")


@target_rule("warning", language="yaml, python")
def faiss_threads(plan: Plan, target: Target) -> None:
    _check_framework(plan, target, faiss_threads, "faiss")


@target_rule("warning", language="yaml, python", needs=("_NUM_THREADS",))
def threads_above_cores(plan: Plan, target: Target) -> None:
    variables = pairs(target.get("environment_variables")) if target.kind.variables else {}
    for name, (key, value) in variables.items():
        if not name.endswith("_NUM_THREADS") and name not in LIGHTGBM_NAMES:
            continue
        number = plan.values.own(target, "environment_variables", name) or text_of(value) or ""
        cores, source = cores_of(plan.values.instance_type(target), plan.settings)
        if number.isdigit() and cores is not None and int(number) > cores:
            message = f"{name} is {number}, but {target.shown} has {cores} cores"
            plan.report(threads_above_cores, message, key, reason=source)


def _check_framework(plan: Plan, target: Target, rule: Rule, framework: Framework) -> None:
    """Report a target that uses a framework and whose OMP_NUM_THREADS is missing or wrong."""
    if plan.settings.threads == "off" or plan.has_no_evidence(target):
        return
    if not _runs_processes(plan, target):
        return
    is_on_kubernetes = _is_on_kubernetes(plan, target)
    # Evidence comes last: it is read from other files.
    if is_on_kubernetes is False or not any(
        item.what == framework for item in plan.evidence(target)
    ):
        return
    auto = replace(plan.settings, threads="auto", exports=(), manual=False)
    decision = decide_for(plan, target, settings=auto, literal_only=not target.kind.variables)
    # FAISS needs OMP alone, LightGBM three variables: with both, only one of the rules reports.
    is_for_faiss = len(decision.names) == 1
    if OMP not in decision.names or is_for_faiss != (framework == "faiss"):
        return
    problem = _problem(plan, target, decision.how, decision.number)
    if not problem:
        return
    message, reason = f"{target.shown}: {problem}", decision.reason
    if decision.how != "cannot":
        reason += "; `patch --threads auto` sets them"
    if is_on_kubernetes:
        plan.report(rule, message, target.at, reason=reason)
    else:
        reason = f"if its compute is Kubernetes: {reason}"
        plan.add_finding(rule.id, "note", message, target.at, reason=reason)


def _runs_processes(plan: Plan, target: Target) -> bool:
    """Whether threads are set on this target, not on the job or step that uses it.

    A sweep drops environment variables: its trial exports them in the command. A trial in a file of
    its own is judged with the sweep, unless `--threads` changes that file.
    """
    kind = target.kind
    if kind.role == Role.COMPONENT or (kind.family == Family.PARALLEL and kind.role == Role.SPEC):
        return False
    if kind.variables or kind.role in TRIALS:
        return True
    is_sweep = kind.family == Family.SWEEP and plan.settings.threads is None
    return is_sweep and plan.project.referenced(target) is not None


def _is_on_kubernetes(plan: Plan, target: Target) -> bool | None:
    """None if the compute is unknown. Instance types exist only on Kubernetes, VM sizes aside."""
    facts = compute_facts(plan, target)
    if facts.kubernetes:
        return True
    if facts.is_elsewhere:
        return False
    settings = plan.settings
    has_type = bool(settings.instance_type or settings.cores or settings.instance_types)
    return True if has_type or plan.values.instance_type(target) is not None else None


def _command(plan: Plan, target: Target) -> str:
    if target.kind.family == Family.SWEEP and (trial := plan.project.referenced(target)):
        return trial.root.text("command") or ""
    return plan.values.effective(target, "command") or ""


def _problem(plan: Plan, target: Target, how: str, number: int | None) -> str:
    """Why OMP_NUM_THREADS is missing or wrong; empty if it is right or cannot be read."""
    variables = target.get("environment_variables")
    if variables is not None and not isinstance(variables, yaml.MappingNode):
        return ""
    command = _command(plan, target)
    prestep = plan.values.own(target, "environment_variables", PRESTEP)
    if prestep is None and (*target.path, "environment_variables", RESTEP) in plan.values.pending:
        prestep = plan.values.own(target, "environment_variables", RESTEP)
    exports = exported_names(prestep or "") | exported_names(command)
    value = exports.get(OMP, plan.values.own(target, "environment_variables", OMP))
    if value is None:
        names = pairs(variables)
        if RESTEP in names and PRESTEP not in names:
            return f"threads are set in {RESTEP}, which nothing reads"
        if "torch" in command and launched_processes(command) not in (None, "1"):
            return ""  # torchrun sets it to 1 for several processes
        return f"{OMP} is not set, so it starts one thread per core of the node"
    if how == "literal" and "get_cores" in value:
        return f"{OMP} takes all cores in each process: it has to be {number}"
    if how == "literal" and number is not None and value.isdigit() and int(value) > number:
        return f"{OMP} is {value}, and {number} would be right"
    return ""
