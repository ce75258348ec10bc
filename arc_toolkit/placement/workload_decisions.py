"""What `place` would do with one workload: which of its roles go where, what is refused, and why.

Pure: each function returns decisions as data. `apply_decisions` carries them out for `place`; the rules
of `check` read them, and so neither can recommend what the other refuses.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_toolkit.edit.yaml.nodes import KeyPath, get, items_of, text_of
from arc_toolkit.kube.spot_refusals import image_refusal, namespace_refusal
from arc_toolkit.kube.workloads import COORDINATOR_NAMES, KindFamily, Retry, Shape
from arc_toolkit.placement.decisions import (
    Note,
    Obstacle,
    PlacementDecision,
    PlacementRefused,
    decide,
    refuse,
)
from arc_toolkit.placement.field_inheritance import (
    is_whole_workflow,
    replaced_fields,
    workflow_fields,
)
from arc_toolkit.placement.manifests import PodSpec, Workload, duplicate_key, expand
from arc_toolkit.placement.node_choice import choose_nodes
from arc_toolkit.placement.place_plan import (
    COORDINATOR,
    GRACE,
    LONG_GRACE,
    RETRIES,
    SPOT,
    PlaceSettings,
)
from arc_toolkit.placement.retries import set_retries, with_coordinators_on_spot
from arc_toolkit.placement.retry_warnings import retry_warnings
from arc_toolkit.placement.spec_editor import SpecEditor
from arc_toolkit.placement.spot import SpotPolicy, is_on_spot
from arc_toolkit.placement.train_jobs import add_override, lacks_training, refuse_mixed


def shown_spec(workload: Workload, spec: PodSpec) -> str:
    """`Job train`; with the role if there are several: `TFJob train, worker`."""
    return f"{workload.shown}, {spec.role}" if len(workload.pod_specs) > 1 else workload.shown


def chosen_specs(workload: Workload, settings: PlaceSettings) -> list[PodSpec]:
    roles = settings.roles
    return [spec for spec in workload.pod_specs if not roles or spec.role in roles]


def refuse_duplicate_key(workload: Workload) -> PlacementDecision | None:
    """A key that exists twice: clients keep one or the other, and the API server refuses both."""
    key = duplicate_key(workload.node)
    if key is None:
        return None
    reason = f"duplicate key `{key.value}` (line {key.start_mark.line + 1})"
    return refuse(workload, SPOT, _not_changed(workload), Obstacle.NOT_PLAIN, reason)


def _not_changed(workload: Workload) -> str:
    return f"{workload.shown} is not changed"


# --- where the pods run --------------------------------------------------------------------------------------------


def decide_spot(workload: Workload, settings: PlaceSettings) -> list[PlacementDecision]:
    """The workload refused as a whole, or a decision for each of its pod specs."""
    spot = settings.spot
    assert spot is not None
    if spot is not SpotPolicy.AVOID:
        if reason := spot_refusal(workload, spot):
            message = f"{workload.shown} is not placed on spot nodes"
            return [refuse(workload, SPOT, message, Obstacle.NOT_FOR_SPOT, reason, policy=spot)]
        if roles := _shared_roles(workload, settings):
            reason = (
                f"{roles} are one object, and belong on different nodes: give each role its own"
            )
            message = _not_changed(workload)
            return [refuse(workload, SPOT, message, Obstacle.NOT_PLAIN, reason, policy=spot)]
    if not workload.pod_specs:
        return list(_without_pod_spec(workload, settings, spot))
    decisions = list(_by_pod_spec(workload, settings, spot))
    if lacks_training(workload) and not settings.roles:
        decisions.append(_add_override(workload, settings, spot))
    return decisions


def spot_refusal(workload: Workload, spot: SpotPolicy = SpotPolicy.PREFER) -> str:
    """Why a workload must not run on spot capacity; empty if it may."""
    if workload.kind.refused:
        return workload.kind.refused
    if workload.kind.kind == "DaemonSet" and spot is SpotPolicy.REQUIRE:
        return (
            "it has a pod on every node, and would lose those on other nodes; "
            "--spot prefer lets it onto spot nodes"
        )
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


def _shared_roles(workload: Workload, settings: PlaceSettings) -> str:
    """`master and worker`, if roles on different nodes share a pod spec by an anchor or a name."""
    for spec in workload.pod_specs:
        sharing = [other for other in workload.pod_specs if other.node is spec.node]
        sides = {
            other.role in settings.roles if settings.roles else other.coordinator
            for other in sharing
        }
        if len(sides) > 1:
            return " and ".join(other.role for other in sharing)
    return ""


def _by_pod_spec(
    workload: Workload, settings: PlaceSettings, spot: SpotPolicy
) -> Iterator[PlacementDecision]:
    chosen = chosen_specs(workload, settings)
    if workload.kind.retry is Retry.ARGO:
        for spec, fields in workflow_fields(workload, chosen):
            yield _decide_spec(workload, spec, settings, spot, *fields)
        return
    for spec in chosen:
        is_kept_off = spec.coordinator and spot is not SpotPolicy.AVOID
        if is_kept_off and not settings.roles:
            yield _decide_spec(workload, spec, settings, SpotPolicy.AVOID)
            continue
        fields = replaced_fields(spec)
        if spec.shape is not Shape.TASK_TEMPLATE:
            # A DaemonSet has a pod on every node that it tolerates: a preference has no effect.
            is_preferred = workload.kind.kind == "DaemonSet" and spot is SpotPolicy.PREFER
            fields = (True, not is_preferred)
        elif not any(fields) and spec.get("nodeSelector") is None:
            if settings.roles:
                reason = (
                    "fields of its own would replace those of the whole run, "
                    "which can be placed without --role"
                )
                message, obstacle = (
                    f"{shown_spec(workload, spec)} is not changed",
                    Obstacle.NO_FIELD,
                )
                yield refuse(workload, SPOT, message, obstacle, reason, spec=spec, policy=spot)
            continue
        note = _role_note(workload, spec.role) if is_kept_off else ()
        yield _decide_spec(workload, spec, settings, spot, *fields, notes=note)
    are_all_kept_off = all(spec.coordinator for spec in chosen) and not lacks_training(workload)
    if are_all_kept_off and spot is not SpotPolicy.AVOID and not settings.roles:
        yield _refuse_coordinators(workload)


def _refuse_coordinators(workload: Workload) -> PlacementDecision:
    roles = list(dict.fromkeys(spec.role for spec in workload.pod_specs))
    message = f"{workload.shown}: {' and '.join(roles)} stays off spot nodes"
    reason = f"it has no other role; --role {roles[0]} places it all the same"
    obstacle = Obstacle.MISSING_OPTION
    return refuse(workload, SPOT, message, obstacle, reason, policy=SpotPolicy.AVOID)


def _role_note(workload: Workload, role: str) -> tuple[Note, ...]:
    message = f"{workload.shown}: {role} goes to spot nodes, as --role asks"
    reason = "its eviction ends or restarts the whole workload"
    return (Note(COORDINATOR, "warning", message, reason),)


def _decide_spec(
    workload: Workload,
    spec: PodSpec,
    settings: PlaceSettings,
    policy: SpotPolicy,
    tolerations: bool = True,
    affinity: bool = True,
    notes: tuple[Note, ...] = (),
) -> PlacementDecision:
    def operation(editor: SpecEditor) -> None:
        if not spec.is_whole:
            raise PlacementRefused(
                Obstacle.NOT_PLAIN,
                "its pod spec has no containers, as in a patch of kustomize: "
                "place the manifest that it patches",
            )
        if settings.spot is not SpotPolicy.AVOID:
            refuse_mixed(workload, spec, settings.roles)
        capacity = settings.capacity
        choose_nodes(editor, spec, policy, capacity, tolerations=tolerations, affinity=affinity)

    message = f"{shown_spec(workload, spec)} is not changed"
    return decide(workload, SPOT, message, operation, spec=spec, policy=policy, notes=notes)


def _without_pod_spec(
    workload: Workload, settings: PlaceSettings, spot: SpotPolicy
) -> Iterator[PlacementDecision]:
    """A kind that says it elsewhere, or an object whose pod specs are not where they should be."""
    kind, message = workload.kind, _not_changed(workload)
    if kind.family is KindFamily.FLAVOR:
        yield from _decide_flavor(workload, settings, spot)
    elif kind.family is KindFamily.TRAIN_JOB:
        yield _add_override(workload, settings, spot)
    elif kind.family is KindFamily.WRAPPER:
        if workload.get("spec", "trialTemplate", "configMap") is not None:
            reason = "its trial is in a ConfigMap: place the object in there"
            yield refuse(workload, SPOT, message, Obstacle.ELSEWHERE, reason, policy=spot)
        elif not any(True for path in kind.objects for _ in expand(workload.node, path)):
            reason = f"it has no object at {_shown_paths(kind.objects)}"
            yield refuse(workload, SPOT, message, Obstacle.NOT_PLAIN, reason, policy=spot)
    elif workload.get("spec", "clusterSelector") is not None:
        reason = "it runs in an existing RayCluster (clusterSelector): place that one"
        note = Note(SPOT, "note", message, reason)
        yield PlacementDecision(SPOT, message, workload.node, notes=(note,), policy=spot)
    elif kind.specs:
        paths = _shown_paths(tuple(entry.path for entry in kind.specs))
        reason = (
            f"it has no pod spec at {paths}, as in a patch of kustomize or when it is at the "
            "wrong depth"
        )
        yield refuse(workload, SPOT, message, Obstacle.NOT_PLAIN, reason, policy=spot)


def _shown_paths(paths: tuple[tuple[str, ...], ...]) -> str:
    return " or ".join(".".join(path) for path in paths).replace(".[]", "[]")


def _add_override(
    workload: Workload, settings: PlaceSettings, spot: SpotPolicy
) -> PlacementDecision:
    """A new entry of a TrainJob."""
    coordinators = settings.roles & COORDINATOR_NAMES if spot is not SpotPolicy.AVOID else ()
    notes = tuple(note for role in sorted(coordinators) for note in _role_note(workload, role))

    def operation(editor: SpecEditor) -> None:
        capacity, trainer = settings.capacity, settings.trainer
        add_override(editor, workload, spot, capacity, trainer, settings.roles)

    message = _not_changed(workload)
    return decide(workload, SPOT, message, operation, policy=spot, notes=notes)


def _decide_flavor(
    workload: Workload, settings: PlaceSettings, spot: SpotPolicy
) -> Iterator[PlacementDecision]:
    """A flavor of Kueue belongs to the cluster and not to a workload: only `--kind` places it."""
    message = _not_changed(workload)
    if not settings.kinds:
        if spot is SpotPolicy.REQUIRE and "spot" in workload.name.lower():
            reason = "it is for all workloads of the cluster; --kind ResourceFlavor places it"
            note = Note(SPOT, "note", message, reason)
            yield PlacementDecision(SPOT, message, workload.node, notes=(note,), policy=spot)
        return
    if spot is not SpotPolicy.REQUIRE:
        reason = (
            "a flavor is for one sort of nodes; the order of the flavors in a ClusterQueue says "
            "which comes first"
        )
        yield refuse(workload, SPOT, message, Obstacle.NO_FIELD, reason, policy=spot)
        return
    key, value = settings.capacity.label
    toleration = settings.capacity.toleration()

    def operation(editor: SpecEditor) -> None:
        current = workload.text("spec", "nodeLabels", key)
        if current not in (None, value):
            reason = f"its nodeLabels have {key}={current}"
            raise PlacementRefused(Obstacle.CONTRADICTION, reason)
        editor.set((*workload.path, "spec", "nodeLabels", key), value)
        if toleration is not None:
            editor.append((*workload.path, "spec", "tolerations"), toleration)

    yield decide(workload, SPOT, message, operation, policy=spot)


# --- the grace period ----------------------------------------------------------------------------------------------


def decide_grace(
    workload: Workload, spec: PodSpec, settings: PlaceSettings, grace: int
) -> PlacementDecision:
    """The grace period of one pod spec; of a workflow of Argo it is set for the whole."""

    def operation(editor: SpecEditor) -> None:
        path: KeyPath = (*spec.path, "terminationGracePeriodSeconds")
        value: int | str = grace
        if spec.shape is Shape.WORKFLOW:
            if not is_whole_workflow(spec):
                return
            # Argo merges this text into every pod spec:
            # https://argo-workflows.readthedocs.io/en/latest/fields/#workflowspec
            path = (*spec.path, "podSpecPatch")
            value = f'{{"terminationGracePeriodSeconds": {grace}}}'
            if spec.text("podSpecPatch") not in (None, value):
                reason = "it has a podSpecPatch, to which it must be added by hand"
                raise PlacementRefused(Obstacle.CONTRADICTION, reason)
        elif spec.shape is Shape.RUNTIME_PATCH and settings.trainer != "2.3":
            reason = (
                "runtimePatches has a grace period since Kubeflow Trainer 2.3; "
                "--trainer 2.3 says that it is yours"
            )
            raise PlacementRefused(Obstacle.MISSING_OPTION, reason)
        elif not spec.shape.has_grace:
            raise PlacementRefused(Obstacle.NO_FIELD, "its kind has no field for it")
        if spec.is_whole:
            editor.set(path, value)

    message = f"{workload.shown}: the grace period is not set"
    return decide(workload, GRACE, message, operation, spec=spec)


def long_grace_note(workload: Workload, settings: PlaceSettings, grace: int) -> Note | None:
    """A grace period that a pod on a spot node cannot have; it may be wanted for other evictions."""
    notice = settings.capacity.notice
    if settings.spot in (None, SpotPolicy.AVOID) or grace <= notice:
        return None
    message = f"{workload.shown}: a grace period of {grace} s, with a notice of at most {notice} s"
    reason = "the pod is killed in the middle of what it does then"
    return Note(LONG_GRACE, "warning", message, reason)


# --- retries -------------------------------------------------------------------------------------------------------


def decide_retries(
    workload: Workload, settings: PlaceSettings, retries: int
) -> PlacementDecision | None:
    """Retries of the whole workload; None for a patch of kustomize, which is refused elsewhere."""
    if not all(spec.is_whole for spec in workload.pod_specs):
        return None

    def is_there(spec: PodSpec) -> bool:
        return spec.role in settings.roles or is_on_spot(spec, settings.capacity.label)

    retried = with_coordinators_on_spot(workload, is_there)
    message = f"{workload.shown}: an eviction can still count as an error or end it"
    notes = tuple(Note(RETRIES, "warning", message, text) for text in retry_warnings(retried))
    return decide(
        workload,
        RETRIES,
        f"{workload.shown}: retries are not set",
        lambda editor: set_retries(editor, retried, retries),
        notes=notes,
    )
