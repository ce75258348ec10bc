"""All edits and findings of `place` for the workloads of one file: which of them, which roles, what is refused."""

from __future__ import annotations

from collections.abc import Iterator

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, get, items_of, text_of
from arc_toolkit.edit.yaml.proof import holds
from arc_toolkit.kube.spot_refusals import image_refusal, namespace_refusal
from arc_toolkit.kube.workloads import COORDINATOR_NAMES, Retry, Shape
from arc_toolkit.placement.counted_evictions import counted_evictions
from arc_toolkit.placement.manifests import PodSpec, UnknownObject, Workload, duplicate_key, expand
from arc_toolkit.placement.place_plan import (
    COORDINATOR,
    GRACE,
    LONG_GRACE,
    RETRIES,
    SPOT,
    PlacePlan,
    PlaceSettings,
)
from arc_toolkit.placement.place_spec import place_pods
from arc_toolkit.placement.replaced_fields import is_top, own_fields, workflow_fields
from arc_toolkit.placement.retries import on_spot_nodes, set_retries
from arc_toolkit.placement.spec_editor import SpecEditor
from arc_toolkit.placement.spot import SpotCapacity, SpotPolicy
from arc_toolkit.placement.train_jobs import add_override, lacks_training, refuse_mixed


def place_objects(plan: PlacePlan) -> None:
    """Everything that was asked for, for every workload of a file."""
    settings = plan.settings
    for entry in plan.objects:
        if isinstance(entry, UnknownObject):
            if (
                settings.spot is not None
                and settings.wants(SPOT)
                and not settings.kinds
                and not settings.names
            ):
                _report_unknown(plan, entry)
            continue
        plan.kinds.add(entry.kind.kind.lower())
        plan.names.add(entry.name)
        plan.roles |= {spec.role for spec in entry.pod_specs}
        if is_chosen(entry, settings):
            place_workload(plan, entry)


def is_chosen(workload: Workload, settings: PlaceSettings) -> bool:
    return (not settings.kinds or workload.kind.kind.lower() in settings.kinds) and (
        not settings.names or workload.name in settings.names
    )


def _report_unknown(plan: PlacePlan, entry: UnknownObject) -> None:
    where = ".".join(str(step) for step in entry.template[1:])
    plan.refuse(
        SPOT,
        f"{entry.kind} {entry.name} is not changed: {entry.api_version} {entry.kind} is not a known kind",
        entry.node,
        f"it has a pod template at {where}; kinds are rows of arc_toolkit/kube/workloads.py",
    )


def place_workload(plan: PlacePlan, workload: Workload) -> None:
    """One workload: refused as a whole, or each of its roles by itself; what is refused is not touched at all."""
    settings, specs = plan.settings, tuple(chosen_specs(plan, workload))
    if not plan.is_proved and (key := duplicate_key(workload.node)) is not None:
        reason = f"duplicate key `{key.value}` (line {key.start_mark.line + 1})"
        plan.refuse(SPOT, _not_changed(workload), workload.node, reason)
        return
    if settings.spot is not None and settings.wants(SPOT):
        reason = "" if settings.spot is SpotPolicy.AVOID else refusal_of(workload, settings.spot)
        if reason:
            plan.refuse(
                SPOT, f"{workload.shown} is not placed on spot nodes", workload.node, reason
            )
            return
        if settings.spot is not SpotPolicy.AVOID and (roles := _shared_roles(workload, settings)):
            reason = (
                f"{roles} are one object, and belong on different nodes: give each role its own"
            )
            plan.refuse(SPOT, _not_changed(workload), workload.node, reason)
            return
        elsewhere = _place_specs(plan, workload, settings.spot)
        if elsewhere is None:
            return
        specs = tuple(spec for spec in specs if id(spec) not in elsewhere)
    if settings.grace is not None and settings.wants(GRACE):
        for spec in specs:
            _set_grace(plan, workload, spec, settings.grace)
        _warn_of_grace(plan, workload, settings.grace)
    retries = settings.retries
    whole = all(
        spec.is_whole for spec in workload.pod_specs
    )  # else a patch of kustomize, which has been said
    if retries is not None and settings.wants(RETRIES) and whole:
        on_spot = on_spot_nodes(workload, lambda spec: spec.role in settings.roles)
        is_set = plan.attempt(
            RETRIES,
            f"{workload.shown}: retries are not set",
            workload.node,
            lambda editor: set_retries(editor, on_spot, retries),
        )
        for reason in counted_evictions(on_spot) if is_set else ():
            message = f"{workload.shown}: an eviction can still count as an error or end it"
            plan.add_finding(RETRIES, "warning", message, workload.node, reason)


def _shared_roles(workload: Workload, settings: PlaceSettings) -> str:
    """`master and worker`, if roles that are placed differently share a pod spec: by an anchor, or a name in code."""
    for spec in workload.pod_specs:
        same = [other for other in workload.pod_specs if other.node is spec.node]
        treated = {
            other.role in settings.roles if settings.roles else other.coordinator for other in same
        }
        if len(treated) > 1:
            return " and ".join(other.role for other in same)
    return ""


def _place_specs(plan: PlacePlan, workload: Workload, spot: SpotPolicy) -> set[int] | None:
    """Place each pod spec; the ids of those that are refused or kept off spot nodes, whose grace period is not that of
    spot nodes; None if nothing is placed as it was asked for."""
    before = len(plan.refusals)
    asked: list[int] = []
    kept: list[int] = []
    refused: set[int] = set()
    if not workload.pod_specs:
        _place_without_pod_spec(plan, workload, spot)
        return None if len(plan.refusals) > before else refused
    for spec, policy, tolerations, affinity in _choices(plan, workload):
        known = len(plan.refusals)
        _place(plan, workload, spec, policy, tolerations=tolerations, affinity=affinity)
        if len(plan.refusals) > known:
            refused.add(id(spec))
        (asked if policy is spot else kept).append(id(spec))
    if lacks_training(workload) and not plan.settings.roles:
        _add_override(plan, workload, spot)
    elif asked and refused.issuperset(asked):
        return None
    return refused.union(kept)


def _place_without_pod_spec(plan: PlacePlan, workload: Workload, spot: SpotPolicy) -> None:
    """A kind that says it elsewhere, or an object whose pod specs are not where they should be."""
    settings, message = plan.settings, _not_changed(workload)
    if workload.kind.retry is Retry.FLAVOR:
        place_flavor(plan, workload, spot)
    elif workload.kind.retry is Retry.RUNTIME:
        for role in settings.roles & COORDINATOR_NAMES if spot is not SpotPolicy.AVOID else ():
            _warn_of_role(plan, workload, role, workload.node)
        _add_override(plan, workload, spot)
    elif workload.kind.retry is Retry.WRAPPED:
        if workload.get("spec", "trialTemplate", "configMap") is not None:
            plan.refuse(
                SPOT,
                message,
                workload.node,
                "its trial is in a ConfigMap: place the object that is in there",
            )
        elif not any(True for path in workload.kind.objects for _ in expand(workload.node, path)):
            where = " or ".join(".".join(path) for path in workload.kind.objects).replace(
                ".[]", "[]"
            )
            plan.refuse(SPOT, message, workload.node, f"it has no object at {where}")
    elif workload.get("spec", "clusterSelector") is not None:
        reason = "it runs in a RayCluster that is there (clusterSelector): place that one"
        plan.add_finding(SPOT, "note", message, workload.node, reason)
    elif workload.kind.specs:
        paths = " or ".join(".".join(entry.path) for entry in workload.kind.specs).replace(
            ".[]", "[]"
        )
        reason = f"it has no pod spec at {paths}, as in a patch of kustomize or when it is at the wrong depth"
        plan.refuse(SPOT, message, workload.node, reason)


def _not_changed(workload: Workload) -> str:
    return f"{workload.shown} is not changed"


def _add_override(plan: PlacePlan, workload: Workload, spot: SpotPolicy) -> None:
    """A new entry of a TrainJob."""
    settings = plan.settings
    plan.attempt(
        SPOT,
        _not_changed(workload),
        workload.node,
        lambda editor: add_override(
            editor, workload, spot, settings.capacity, settings.trainer, settings.roles
        ),
    )


def place_flavor(plan: PlacePlan, workload: Workload, spot: SpotPolicy) -> None:
    """A flavor of Kueue, which is the cluster's and not a workload's: only if its kind was asked for."""
    capacity = plan.settings.capacity
    message = _not_changed(workload)
    if not plan.settings.kinds:
        if spot is SpotPolicy.REQUIRE and "spot" in workload.name.lower():
            reason = "it is for all workloads of the cluster; --kind ResourceFlavor places it"
            plan.add_finding(SPOT, "note", message, workload.node, reason)
    elif spot is not SpotPolicy.REQUIRE:
        reason = "a flavor is for one sort of nodes; the order of the flavors in a ClusterQueue says which comes first"
        plan.refuse(SPOT, message, workload.node, reason)
    else:
        plan.attempt(
            SPOT, message, workload.node, lambda editor: _set_flavor(editor, workload, capacity)
        )


def _set_flavor(editor: SpecEditor, workload: Workload, capacity: SpotCapacity) -> None:
    key, value = capacity.label
    there = workload.text("spec", "nodeLabels", key)
    if there not in (None, value):
        raise Refused(f"its nodeLabels have {key}={there}")
    editor.set((*workload.path, "spec", "nodeLabels", key), value)
    if (toleration := capacity.toleration()) is not None:
        editor.append((*workload.path, "spec", "tolerations"), toleration)


def _warn_of_role(plan: PlacePlan, workload: Workload, role: str, at: YamlNode) -> None:
    message = f"{workload.shown}: {role} goes to spot nodes, as --role asks"
    plan.add_finding(
        COORDINATOR, "warning", message, at, "its eviction ends or restarts the whole workload"
    )


def _place(
    plan: PlacePlan,
    workload: Workload,
    spec: PodSpec,
    spot: SpotPolicy,
    *,
    tolerations: bool,
    affinity: bool,
) -> None:
    shown = f"{workload.shown}, {spec.role}" if len(workload.pod_specs) > 1 else workload.shown
    if not spec.is_whole:
        reason = "its pod spec has no containers, as in a patch of kustomize: place the manifest that it patches"
        plan.refuse(SPOT, f"{shown} is not changed", spec.node, reason)
        return
    capacity = plan.settings.capacity

    def operation(editor: SpecEditor) -> None:
        if plan.settings.spot is not SpotPolicy.AVOID:
            refuse_mixed(workload, spec, plan.settings.roles)
        place_pods(editor, spec, spot, capacity, tolerations=tolerations, affinity=affinity)

    plan.attempt(SPOT, f"{shown} is not changed", spec.node, operation)


def chosen_specs(plan: PlacePlan, workload: Workload) -> Iterator[PodSpec]:
    roles = plan.settings.roles
    return (spec for spec in workload.pod_specs if not roles or spec.role in roles)


def _choices(
    plan: PlacePlan, workload: Workload
) -> Iterator[tuple[PodSpec, SpotPolicy, bool, bool]]:
    """Each pod spec with where it is to run, and whether its tolerations and its affinity are to say so."""
    spot = plan.settings.spot
    assert spot is not None
    if workload.kind.retry is Retry.ARGO:
        for spec, fields in workflow_fields(workload, chosen_specs(plan, workload)):
            yield spec, spot, *fields
        return
    kept = [
        spec for spec in workload.pod_specs if spec.coordinator and spot is not SpotPolicy.AVOID
    ]
    for spec in chosen_specs(plan, workload):
        if spec in kept and not plan.settings.roles:
            yield spec, SpotPolicy.AVOID, True, True
            continue
        if spec in kept:
            _warn_of_role(plan, workload, spec.role, spec.node)
        if spec.shape is Shape.TASK_TEMPLATE:
            if any(fields := own_fields(spec)) or spec.get("nodeSelector") is not None:
                yield spec, spot, *fields
            elif plan.settings.roles:
                reason = "fields of its own would replace those of the whole run, which can be placed without --role"
                plan.refuse(
                    SPOT, f"{workload.shown}, {spec.role} is not changed", spec.node, reason
                )
            continue
        # A DaemonSet has a pod on every node that it tolerates: a preference has no effect there.
        yield (
            spec,
            spot,
            True,
            not (workload.kind.kind == "DaemonSet" and spot is SpotPolicy.PREFER),
        )
    is_all = len(kept) == len(workload.pod_specs) and not lacks_training(workload)
    if kept and is_all and not plan.settings.roles:
        roles = " and ".join(dict.fromkeys(spec.role for spec in kept))
        reason = f"it has no other role; --role {kept[0].role} places it all the same"
        plan.refuse(SPOT, f"{workload.shown}: {roles} stays off spot nodes", workload.node, reason)


def _set_grace(plan: PlacePlan, workload: Workload, spec: PodSpec, grace: int) -> None:
    path: KeyPath = (*spec.path, "terminationGracePeriodSeconds")
    value: int | str = grace
    message = f"{workload.shown}: the grace period is not set"
    if spec.shape is Shape.WORKFLOW:
        if not is_top(spec):
            return
        # Argo merges this text into every pod spec: https://argo-workflows.readthedocs.io/en/latest/fields/#workflowspec
        path, value = (*spec.path, "podSpecPatch"), f'{{"terminationGracePeriodSeconds": {grace}}}'
        if spec.text("podSpecPatch") not in (None, value):
            plan.refuse(
                GRACE,
                message,
                spec.node,
                "it has a podSpecPatch, to which it must be added by hand",
            )
            return
    elif spec.shape is Shape.RUNTIME_PATCH and plan.settings.trainer != "2.3":
        reason = "runtimePatches has a grace period since Kubeflow Trainer 2.3; --trainer 2.3 says that it is yours"
        plan.refuse(GRACE, message, spec.node, reason)
        return
    elif not spec.shape.has_grace:
        plan.refuse(GRACE, message, spec.node, "its kind has no field for it")
        return
    if spec.is_whole and not holds(spec.get(str(path[-1])), value):
        plan.attempt(GRACE, message, spec.node, lambda editor: editor.set(path, value))


def _warn_of_grace(plan: PlacePlan, workload: Workload, grace: int) -> None:
    """What a pod on a spot node cannot have is set all the same: it may be wanted for other evictions."""
    notice = plan.settings.capacity.notice
    if plan.settings.spot in (SpotPolicy.REQUIRE, SpotPolicy.PREFER) and grace > notice:
        message = (
            f"{workload.shown}: a grace period of {grace} s, with a notice of at most {notice} s"
        )
        plan.add_finding(
            LONG_GRACE,
            "warning",
            message,
            workload.node,
            "the pod is killed in the middle of what it does then",
        )


def refusal_of(workload: Workload, spot: SpotPolicy = SpotPolicy.PREFER) -> str:
    """Why a workload must not run on spot capacity; empty if it may."""
    if workload.kind.refused:
        return workload.kind.refused
    if workload.kind.kind == "DaemonSet" and spot is SpotPolicy.REQUIRE:
        return "it has a pod on every node, and would lose those on other nodes; --spot prefer lets it onto spot nodes"
    is_always_on = workload.kind.retry is Retry.CONTROLLER
    if reason := namespace_refusal(workload.namespace, is_always_on=is_always_on):
        return reason
    if is_always_on or workload.kind.kind == "Pod":
        for spec in workload.pod_specs:
            for container in items_of(spec.get("containers")):
                image = text_of(get(container, "image")) or ""
                if reason := image_refusal(image):
                    return f"{image}: {reason}"
    return ""
