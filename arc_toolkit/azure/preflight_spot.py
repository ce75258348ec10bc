"""The checks of preflight about spot pools, and about pools that scale from zero nodes. Pure."""

from __future__ import annotations

from arc_toolkit.azure import extension, scheduler_config
from arc_toolkit.azure.fix_commands import FixCommand, TargetOptions, Verdict, extension_command
from arc_toolkit.azure.preflight_facts import CannotTell, Facts, UnknownFact, known
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.default_tolerations import ANNOTATION, annotate_command, annotated_tolerations
from arc_toolkit.kube.labels import some_names
from arc_toolkit.kube.taints import SPOT_TAINT, untolerated


def spot_nodes(facts: Facts) -> Verdict:
    """An InstanceType has no tolerations: job pods get them by their namespace, or by a setting of the extension."""
    if isinstance(facts.nodes, UnknownFact) and isinstance(facts.resource, UnknownFact):
        raise CannotTell(facts.nodes.reason)
    if not facts.has_spot:
        return "ok", "no spot nodes", None
    if not untolerated([SPOT_TAINT], facts.set_tolerations):
        return (
            "ok",
            f"job pods tolerate spot nodes by {extension.TOLERATION}, which is undocumented",
            None,
        )
    annotations = known(facts.namespaces)
    names = facts.compute_namespaces
    if isinstance(names, UnknownFact) or not names:
        names = [name for name, row in annotations.items() if ANNOTATION in row] or ["NAMESPACE"]
    for name in names:
        command = FixCommand(annotate_command(name), TargetOptions.KUBECONFIG)
        try:
            tolerations = annotated_tolerations(annotations.get(name, {}))
        except ArcError as error:
            overwrite = FixCommand(f"{command.text} --overwrite", command.options)
            return (
                "not ok",
                f"namespace {name}: {error}, so that no pod can be created there",
                overwrite,
            )
        if untolerated([SPOT_TAINT], tolerations):
            text = "job pods do not tolerate the taint of spot nodes, and an instance type cannot say so"
            if ANNOTATION in annotations.get(name, {}):
                text += f"; namespace {name} has other default tolerations: add it to these"
                command = FixCommand(f"{command.text} --overwrite", command.options)
            return "not ok", f"{text}: the pods in namespace {name} stay Pending there", command
    return "ok", f"pods of namespace {some_names(names)} tolerate spot nodes by an annotation", None


def from_zero(facts: Facts) -> Verdict:
    """Volcano makes no pod for a job that the nodes which are there cannot take, so no autoscaler sees one."""
    known(facts.resource)
    zero = facts.pools_from_zero
    if not zero:
        return "ok", "no pool scales from zero", None
    if known(facts.extension) is None:
        raise CannotTell("the extension is not installed")
    setting = scheduler_config.SETTING
    pool = f"pool {', '.join(zero)} scales from zero"
    name = facts.settings.get(setting)
    if not extension.is_on(facts.settings, extension.VOLCANO, True) and not name:
        raise CannotTell(
            f"{pool}, and the extension does not install Volcano: how is yours configured?"
        )
    if not name:
        text = f"{pool}, but Volcano's {' and '.join(scheduler_config.HOLDING)} make no pod for a job beyond the "
        text += (
            "nodes that are there: apply the output of `arc-toolkit cluster scheduler-config`, then"
        )
        return "not ok", text, extension_command(f"update --set {setting}={scheduler_config.NAME}")
    if problem := scheduler_config.holding_problem(known(facts.scheduler_config)):
        command = FixCommand("arc-toolkit cluster scheduler-config", TargetOptions.NONE)
        return "not ok", f"{pool}, but of the ConfigMap {name}: {problem}", command
    return "ok", f"{pool}, and the ConfigMap {name} lets jobs for it in", None
