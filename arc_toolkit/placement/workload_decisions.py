"""What `place` would do with one workload: which of its roles go where, what is refused, and why.

Pure: each function returns decisions as data. `apply_decisions` carries them out for `place`; the
rules of `check` read them, and so neither can recommend what the other refuses.
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
    SpecEditor,
    decide,
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
    refusal = PlacementRefused(Obstacle.NOT_PLAIN, reason)
    message = f"{workload.shown} is not changed"
    return PlacementDecision(SPOT, message, workload.node, refusal=refusal)


# --- where the pods run ---------------------------------------------------------------------------


def decide_spot(workload: Workload, settings: PlaceSettings) -> list[PlacementDecision]:
    """The workload refused as a whole, or a decision for each of its pod specs."""
    return list(_SpotDecisions(workload, settings).decide())


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


class _SpotDecisions:
    """The decisions for one workload."""

    def __init__(self, workload: Workload, settings: PlaceSettings) -> None:
        assert settings.spot is not None
        self._workload, self._settings, self._spot = workload, settings, settings.spot
        self._message = f"{workload.shown} is not changed"

    def decide(self) -> Iterator[PlacementDecision]:
        workload, settings = self._workload, self._settings
        if self._spot is not SpotPolicy.AVOID:
            if reason := spot_refusal(workload, self._spot):
                self._message = f"{workload.shown} is not placed on spot nodes"
                yield self._refuse(Obstacle.NOT_FOR_SPOT, reason)
                return
            if roles := self._shared_roles():
                yield self._refuse(
                    Obstacle.NOT_PLAIN,
                    f"{roles} are one object and belong on different nodes: give each its own",
                )
                return
        if not workload.pod_specs:
            yield from self._without_pod_spec()
            return
        if workload.kind.retry is Retry.ARGO:
            for spec, fields in workflow_fields(workload, chosen_specs(workload, settings)):
                yield self._decide_spec(spec, self._spot, fields)
            return
        yield from self._by_pod_spec()
        if lacks_training(workload) and not settings.roles:
            yield self._add_override()

    def _refuse(
        self, obstacle: Obstacle, reason: str, spec: PodSpec | None = None
    ) -> PlacementDecision:
        node, message = self._workload.node, self._message
        if spec is not None:
            node, message = spec.node, f"{shown_spec(self._workload, spec)} is not changed"
        refusal = PlacementRefused(obstacle, reason)
        return PlacementDecision(SPOT, message, node, refusal=refusal, spec=spec, policy=self._spot)

    def _shared_roles(self) -> str:
        """`master and worker`, if roles on different nodes share a pod spec by anchor or name."""
        roles, specs = self._settings.roles, self._workload.pod_specs
        for spec in specs:
            sharing = [other for other in specs if other.node is spec.node]
            sides = {other.role in roles if roles else other.coordinator for other in sharing}
            if len(sides) > 1:
                return " and ".join(other.role for other in sharing)
        return ""

    def _by_pod_spec(self) -> Iterator[PlacementDecision]:
        workload, roles = self._workload, self._settings.roles
        is_avoided = self._spot is SpotPolicy.AVOID
        for spec in chosen_specs(workload, self._settings):
            if spec.coordinator and not is_avoided and not roles:
                yield self._decide_spec(spec, SpotPolicy.AVOID)
            elif spec.shape is not Shape.TASK_TEMPLATE:
                # A DaemonSet has a pod on every node that it tolerates: a preference has no effect.
                is_daemon = workload.kind.kind == "DaemonSet" and self._spot is SpotPolicy.PREFER
                yield self._decide_spec(spec, self._spot, (True, not is_daemon))
            elif any(fields := replaced_fields(spec)) or spec.get("nodeSelector") is not None:
                yield self._decide_spec(spec, self._spot, fields)
            elif roles:
                yield self._refuse(
                    Obstacle.NO_FIELD,
                    "fields of its own would replace those of the whole run, "
                    "which can be placed without --role",
                    spec,
                )
        if is_avoided or roles or lacks_training(workload):
            return
        if all(spec.coordinator for spec in workload.pod_specs):
            names = list(dict.fromkeys(spec.role for spec in workload.pod_specs))
            message = f"{workload.shown}: {' and '.join(names)} stays off spot nodes"
            reason = f"it has no other role; --role {names[0]} places it all the same"
            refusal = PlacementRefused(Obstacle.MISSING_OPTION, reason)
            policy = SpotPolicy.AVOID
            yield PlacementDecision(SPOT, message, workload.node, refusal=refusal, policy=policy)

    def _decide_spec(
        self, spec: PodSpec, policy: SpotPolicy, fields: tuple[bool, bool] = (True, True)
    ) -> PlacementDecision:
        workload, settings = self._workload, self._settings
        tolerations, affinity = fields

        def operation(editor: SpecEditor) -> None:
            if not spec.is_whole:
                raise PlacementRefused(
                    Obstacle.NOT_PLAIN,
                    "its pod spec has no containers, as in a patch of kustomize: "
                    "place the manifest that it patches",
                )
            if self._spot is not SpotPolicy.AVOID:
                refuse_mixed(workload, spec, settings.roles)
            capacity = settings.capacity
            choose_nodes(editor, spec, policy, capacity, tolerations=tolerations, affinity=affinity)

        message = f"{shown_spec(workload, spec)} is not changed"
        roles = [spec.role] if spec.coordinator and policy is not SpotPolicy.AVOID else []
        notes = self._role_notes(roles)
        return decide(
            workload, SPOT, message, spec.node, operation, spec=spec, policy=policy, notes=notes
        )

    def _role_notes(self, roles: list[str]) -> tuple[Note, ...]:
        reason = "its eviction ends or restarts the whole workload"
        return tuple(
            Note(
                COORDINATOR,
                "warning",
                f"{self._workload.shown}: {role} goes to spot nodes, as --role asks",
                reason,
            )
            for role in roles
        )

    def _without_pod_spec(self) -> Iterator[PlacementDecision]:
        """A kind without pod specs of its own, or an object with pod specs at a wrong place."""
        workload, kind = self._workload, self._workload.kind
        if kind.family is KindFamily.FLAVOR:
            yield from self._decide_flavor()
        elif kind.family is KindFamily.TRAIN_JOB:
            yield self._add_override()
        elif kind.family is KindFamily.WRAPPER:
            if workload.get("spec", "trialTemplate", "configMap") is not None:
                reason = "its trial is in a ConfigMap: place the object in there"
                yield self._refuse(Obstacle.ELSEWHERE, reason)
            elif not any(True for path in kind.objects for _ in expand(workload.node, path)):
                reason = f"it has no object at {_shown_paths(kind.objects)}"
                yield self._refuse(Obstacle.NOT_PLAIN, reason)
        elif workload.get("spec", "clusterSelector") is not None:
            yield self._note("it runs in an existing RayCluster (clusterSelector): place that one")
        elif kind.specs:
            paths = _shown_paths(tuple(entry.path for entry in kind.specs))
            yield self._refuse(
                Obstacle.NOT_PLAIN,
                f"it has no pod spec at {paths}, as in a patch of kustomize or when it is at the "
                "wrong depth",
            )

    def _note(self, reason: str) -> PlacementDecision:
        note = Note(SPOT, "note", self._message, reason)
        node = self._workload.node
        return PlacementDecision(SPOT, self._message, node, notes=(note,), policy=self._spot)

    def _add_override(self) -> PlacementDecision:
        """A new entry of a TrainJob."""
        workload, settings, spot = self._workload, self._settings, self._spot

        def operation(editor: SpecEditor) -> None:
            capacity, trainer = settings.capacity, settings.trainer
            add_override(editor, workload, spot, capacity, trainer, settings.roles)

        is_avoided = spot is SpotPolicy.AVOID
        notes = self._role_notes([] if is_avoided else sorted(settings.roles & COORDINATOR_NAMES))
        return decide(
            workload, SPOT, self._message, workload.node, operation, policy=spot, notes=notes
        )

    def _decide_flavor(self) -> Iterator[PlacementDecision]:
        """A flavor of Kueue belongs to the cluster and not to a workload: only `--kind` places
        it."""
        workload, settings, spot = self._workload, self._settings, self._spot
        if not settings.kinds:
            if spot is SpotPolicy.REQUIRE and "spot" in workload.name.lower():
                reason = "it is for all workloads of the cluster; --kind ResourceFlavor places it"
                yield self._note(reason)
            return
        if spot is not SpotPolicy.REQUIRE:
            yield self._refuse(
                Obstacle.NO_FIELD,
                "a flavor is for one sort of nodes; the order of the flavors in a ClusterQueue "
                "says which comes first",
            )
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

        yield decide(workload, SPOT, self._message, workload.node, operation, policy=spot)


def _shown_paths(paths: tuple[tuple[str, ...], ...]) -> str:
    return " or ".join(".".join(path) for path in paths).replace(".[]", "[]")


# --- the grace period -----------------------------------------------------------------------------


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
            raise PlacementRefused(
                Obstacle.MISSING_OPTION,
                "runtimePatches has a grace period since Kubeflow Trainer 2.3; "
                "--trainer 2.3 says that it is yours",
            )
        elif not spec.shape.has_grace:
            raise PlacementRefused(Obstacle.NO_FIELD, "its kind has no field for it")
        if spec.is_whole:
            editor.set(path, value)

    message = f"{workload.shown}: the grace period is not set"
    return decide(workload, GRACE, message, spec.node, operation, spec=spec)


def long_grace_note(workload: Workload, settings: PlaceSettings, grace: int) -> Note | None:
    """A grace period that a pod on a spot node cannot have; it may be wanted for other
    evictions."""
    notice = settings.capacity.notice
    if settings.spot in (None, SpotPolicy.AVOID) or grace <= notice:
        return None
    message = f"{workload.shown}: a grace period of {grace} s, with a notice of at most {notice} s"
    reason = "the pod is killed in the middle of what it does then"
    return Note(LONG_GRACE, "warning", message, reason)


# --- retries --------------------------------------------------------------------------------------


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
        workload.node,
        lambda editor: set_retries(editor, retried, retries),
        notes=notes,
    )
