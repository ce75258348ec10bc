"""Workloads on spot capacity: what is wrong, and what `place` would do about it.

Each rule asks the functions by which `place` decides, so it finds nothing in a result of `place`,
and recommends `place` only where that changes the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import get, items_of, text_of, walk
from arc_toolkit.findings import rule
from arc_toolkit.kube.taints import SPOT_LABELS, SPOT_TAINT
from arc_toolkit.kube.workloads import Retry, Shape
from arc_toolkit.placement.decisions import (
    decide_grace,
    decide_keys,
    decide_retries,
    decide_spot,
    shown_spec,
    spot_refusal,
)
from arc_toolkit.placement.intents import is_avoided
from arc_toolkit.placement.manifests import PREFERRED, PodSpec, Workload, makes_pod, pods_of
from arc_toolkit.placement.place_plan import PlacementDecision, PlacePlan, SetElsewhere
from arc_toolkit.placement.spot import (
    CLOUDS,
    SpotPolicy,
    SpotPreference,
    is_on_spot,
    preferences_and_terms,
    requires_spot,
    tolerates,
    tolerations,
)


def spot_pods(plan: PlacePlan) -> Iterator[tuple[Workload, PodSpec]]:
    """Every pod spec on spot capacity, with the fields that it inherits."""
    for workload in plan.workloads:
        for spec in pods_of(workload):
            if is_on_spot(spec):
                yield workload, spec


def _cloud_of(spec: PodSpec) -> str:
    """The cloud whose label or taint the pod spec names."""
    words = {
        text_of(node)
        for name in ("nodeSelector", "affinity", "tolerations")
        for node in walk((spec.get(name),))
    }
    return next((name for name, cloud in CLOUDS.items() if cloud.label[0] in words), "aks")


# --- what `place` would do ------------------------------------------------------------------------


class Advice(NamedTuple):
    """The `place` command that would help, or why `place` refuses; neither if it changes
    nothing."""

    command: str = ""
    refusal: str = ""

    def sentence(self, effect: str) -> str:
        return f"{self.command} {effect}" if self.command else self.refusal


def _advise(
    plan: PlacePlan, workload: Workload, decisions: Iterable[PlacementDecision], command: str
) -> Advice:
    """The command if `place` would change something by these decisions, or its refusal."""
    if is_avoided(workload.intent):
        return Advice()
    if workload.kind.is_always_on and workload.intent is None:
        command = f"{command} --kind {workload.kind.kind}"
    editor = plan.new_editor()
    try:
        for decision in (decide_keys(workload), *decisions):
            if decision is not None:
                decision.apply(editor)
        if editor.empty:
            return Advice()
        editor.finish()  # refuses what cannot be proved, such as a change below an anchor
    except Refused as refusal:
        return Advice(refusal=refusal.reason)
    return Advice(f"`place {command}`")


def _spot_advice(plan: PlacePlan, workload: Workload, spec: PodSpec, policy: SpotPolicy) -> Advice:
    """What `place` would do about the nodes of these pods."""
    cloud = _cloud_of(spec)
    settings = replace(plan.settings, spot=policy, capacity=CLOUDS[cloud])
    decisions = [
        decision
        for decision in decide_spot(workload, settings)
        if decision.spec is None
        or decision.spec.path == spec.path
        or decision.spec.shape is Shape.POD_TEMPLATE
        or not makes_pod(decision.spec)
    ]
    option = "" if cloud == "aks" else f" --cloud {cloud}"
    return _advise(plan, workload, decisions, f"--spot {policy.value}{option}")


# --- rules ----------------------------------------------------------------------------------------


@rule("warning")
def coordinator_on_spot(plan: PlacePlan) -> None:
    for workload, spec in spot_pods(plan):
        if spec.coordinator:
            message = (
                f"{workload.shown}: {spec.role} is on spot nodes, "
                "and its eviction ends or restarts everything"
            )
            advice = _spot_advice(plan, workload, spec, _policy_of_workers(workload))
            reason = advice.sentence("keeps it off and leaves the workers where they are")
            plan.report(coordinator_on_spot, message, spec.node, reason)


def _policy_of_workers(workload: Workload) -> SpotPolicy:
    """The policy with which `place` leaves the workers where they are."""
    workers = [spec for spec in workload.pod_specs if not spec.coordinator]
    if any(requires_spot(spec) for spec in workers):
        return SpotPolicy.REQUIRE
    return SpotPolicy.PREFER if any(is_on_spot(spec) for spec in workers) else SpotPolicy.AVOID


@rule("warning")
def grace_longer_than_notice(plan: PlacePlan) -> None:
    for workload, spec in spot_pods(plan):
        grace, notice = spec.text("terminationGracePeriodSeconds"), CLOUDS[_cloud_of(spec)].notice
        is_too_long = grace is not None and grace.isdigit() and int(grace) > notice
        if not (spec.shape.has_grace and is_too_long):
            continue
        shown = shown_spec(workload, spec)
        message = f"{shown}: a grace period of {grace} s, with a notice of at most {notice} s"
        decision = decide_grace(workload, spec, plan.settings, notice)
        remedy = _advise(plan, workload, [decision], f"--grace {notice}s").sentence("sets it")
        reason = "the pod is killed in the middle of what it does then"
        at = spec.get("terminationGracePeriodSeconds") or spec.node
        reason = f"{reason}; {remedy}" if remedy else reason
        plan.report(grace_longer_than_notice, message, at, reason)


@rule("warning")
def serving_on_spot(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        reason = spot_refusal(workload, plan.settings)
        if reason and any(map(is_on_spot, pods_of(workload))):
            message = f"{workload.shown} is on spot nodes"
            plan.report(serving_on_spot, message, workload.node, reason)


@rule("error")
def spot_without_toleration(plan: PlacePlan) -> None:
    for workload, spec in spot_pods(plan):
        if _cloud_of(spec) != "aks" or tolerates(spec, SPOT_TAINT):
            continue
        is_required = requires_spot(spec)
        policy = SpotPolicy.REQUIRE if is_required else SpotPolicy.PREFER
        advice = _spot_advice(plan, workload, spec, policy)
        pods = f"{shown_spec(workload, spec)} {'asks for' if is_required else 'prefers'} spot nodes"
        message = f"{pods} and does not tolerate their taint"
        # A coordinator is moved off spot nodes instead.
        effect = "keeps it off spot nodes" if spec.coordinator else "adds the toleration"
        plan.report(spot_without_toleration, message, spec.node, advice.sentence(effect))


@rule("warning")
def spot_toleration_only(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        if workload.kind.kind == "DaemonSet":
            continue  # runs on every node that it tolerates, as intended
        for spec in pods_of(workload):
            if not _only_tolerates(spec):
                continue
            policies = (SpotPolicy.REQUIRE, SpotPolicy.PREFER)
            advices = [_spot_advice(plan, workload, spec, policy) for policy in policies]
            commands = " or ".join(advice.command for advice in advices if advice.command)
            reason = Advice(commands, advices[0].refusal).sentence("adds a node affinity")
            message = f"{shown_spec(workload, spec)} tolerates spot nodes without asking for them"
            plan.report(spot_toleration_only, message, spec.node, reason)


def _only_tolerates(spec: PodSpec) -> bool:
    """A toleration for spot nodes, not for every taint, and no word about which nodes to use."""
    is_for_spot = any(
        row.key in SPOT_LABELS and row.value in (None, *SPOT_LABELS[row.key])
        for row in tolerations(spec)
    )
    is_away = SpotPreference.AWAY in preferences_and_terms(spec, CLOUDS["aks"].label)[0]
    return is_for_spot and not is_on_spot(spec) and not is_away and not _chooses_nodes(spec)


# Labels on nodes of every pool: https://kubernetes.io/docs/reference/labels-annotations-taints/
_COMMON_LABELS = frozenset(
    f"{prefix}kubernetes.io/{name}"
    for prefix in ("", "beta.")
    for name in ("os", "arch", "hostname")
)


def _chooses_nodes(spec: PodSpec) -> bool:
    """Whether it names nodes by a label of its cluster, such as that of a pool: maybe the spot
    pool."""
    preferred = (get(item, "preference") for item in items_of(spec.get(*PREFERRED)))
    keys = {
        text_of(get(item, "key"))
        for term in (*spec.required_terms.values(), *preferred)
        for item in items_of(get(term, "matchExpressions"))
    }
    return any(key not in _COMMON_LABELS for key in keys.union(spec.selector))


# How often errors are retried; evictions are survived without such a number.
_LIMITS = frozenset(("backoffLimit", "maxRetry", "maxRestarts"))
# Lost workers and executors are recreated in any case; only a new head or driver is a retry.
_ONLY_COORDINATORS = (Retry.RAY_JOB, Retry.SPARK)
_RETRIES = 3


@rule("warning")
def no_retry_on_spot(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        on_spot = [spec for spec in pods_of(workload) if is_on_spot(spec)]
        if workload.kind.retry in _ONLY_COORDINATORS:
            on_spot = [spec for spec in on_spot if spec.coordinator]
        if not on_spot:
            continue
        decision = decide_retries(_part_on_spot(workload, on_spot), plan.settings, _RETRIES)
        reason = _retry_problem(plan, workload, decision) if decision is not None else None
        if reason is not None:
            eviction = "an eviction counts as an error or ends it"
            message = f"{workload.shown} is on spot nodes, and {eviction}"
            plan.report(no_retry_on_spot, message, workload.node, reason)


def _part_on_spot(workload: Workload, on_spot: list[PodSpec]) -> Workload:
    """Of an Argo workflow only the templates on spot nodes, and what holds for all templates."""
    if workload.kind.retry is not Retry.ARGO:
        return workload
    paths = {spec.path for spec in on_spot}
    specs = (spec for spec in workload.pod_specs if spec.path in paths or not makes_pod(spec))
    return replace(workload, pod_specs=tuple(specs))


def _retry_problem(plan: PlacePlan, workload: Workload, decision: PlacementDecision) -> str | None:
    """Why an eviction is not survived, or what helps; None if it is survived, or not known."""
    if decision.refusal is not None:
        is_elsewhere = isinstance(decision.refusal, SetElsewhere)
        return None if is_elsewhere else decision.refusal.reason
    # A RayJob has no other field than its limit.
    limits = frozenset() if workload.kind.retry is Retry.RAY_JOB else _LIMITS
    if any(change.path[-1] not in limits for change in decision.changes):
        whole = decide_retries(workload, plan.settings, _RETRIES)
        advice = _advise(plan, workload, [whole] if whole else [], "--retries N")
        return advice.sentence("sets what its kind needs")
    return next((note.reason for note in decision.notes if note.severity == "warning"), None)
