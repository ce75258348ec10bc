"""What `place` would do with one workload: which of its roles go where, what is refused, and why.

The functions `decide_*` are pure; `place_objects` carries their decisions out for a whole file.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import KeyPath
from arc_toolkit.kube.workloads import KindFamily, Retry, Shape
from arc_toolkit.placement.always_on import always_on_evidence
from arc_toolkit.placement.intents import is_avoided
from arc_toolkit.placement.manifests import (
    PodSpec,
    UnknownObject,
    Workload,
    duplicate_key,
    expand,
    gpu_count,
    is_whole_workflow,
    makes_pod,
    only_waits,
    pod_count,
    replaced_fields,
    workflow_fields,
)
from arc_toolkit.placement.node_choice import choose_nodes
from arc_toolkit.placement.place_plan import (
    COORDINATOR,
    GRACE,
    LONG_GRACE,
    RETRIES,
    SPOT,
    PlacementDecision,
    PlacePlan,
    PlaceSettings,
)
from arc_toolkit.placement.retries import set_retries
from arc_toolkit.placement.spot import SpotPolicy, is_on_spot
from arc_toolkit.placement.train_jobs import add_override, lacks_training, refuse_mixed
from arc_toolkit.text import plural


def shown_spec(workload: Workload, spec: PodSpec) -> str:
    """`Job train`; with the role if there are several: `TFJob train, worker`."""
    if spec.shape is Shape.EXECUTOR:
        return f"{workload.shown}, task {spec.role}"
    return f"{workload.shown}, {spec.role}" if len(workload.pod_specs) > 1 else workload.shown


def is_chosen(workload: Workload, settings: PlaceSettings) -> bool:
    is_kind = not settings.kinds or workload.kind.kind.lower() in settings.kinds
    return is_kind and (not settings.names or workload.name in settings.names)


def _chosen_specs(workload: Workload, settings: PlaceSettings) -> list[PodSpec]:
    roles = settings.roles
    return [spec for spec in workload.pod_specs if not roles or spec.role in roles]


def decide_keys(workload: Workload) -> PlacementDecision | None:
    """A key that exists twice: clients keep one or the other, and the API server refuses both."""
    key = duplicate_key(workload.node)
    if key is None:
        return None
    refusal = Refused(f"duplicate key `{key.value}` (line {key.start_mark.line + 1})")
    message = f"{workload.shown} is not changed"
    return PlacementDecision(workload, SPOT, message, refusal=refusal)


# --- where the pods run ---------------------------------------------------------------------------


def decide_spot(workload: Workload, settings: PlaceSettings) -> list[PlacementDecision]:
    """The workload refused as a whole, or a decision for each of its pod specs."""
    return list(_SpotDecisions(workload, settings).decide())


def spot_refusal(workload: Workload, settings: PlaceSettings) -> str:
    """Why a workload must not run on spot capacity; empty if it may, or if its file says so."""
    if workload.intent is not None:
        reason = workload.intent.reason
        return f"its file says spot=avoid: {reason}" if is_avoided(workload.intent) else ""
    return always_on_evidence(workload, settings.evidence)


def reason_to_leave(workload: Workload, settings: PlaceSettings) -> str:
    """Why `place` passes over a workload that nobody asked for by its kind or name.

    What is asked for is placed, or refused with the reason.
    """
    is_asked = bool(settings.kinds or settings.names or workload.intent)  # it is chosen by them
    if settings.spot is SpotPolicy.AVOID or (is_asked and not is_avoided(workload.intent)):
        return ""
    is_plain = not workload.kind.refused and workload.intent is None
    if workload.kind.is_always_on and is_plain:
        return _ALWAYS_ON
    return spot_refusal(workload, settings) if settings.spot is not None else ""


_ALWAYS_ON = "it is always on; --kind or --name places it"


class _SpotDecisions:
    """The decisions for one workload."""

    def __init__(self, workload: Workload, settings: PlaceSettings) -> None:
        assert settings.spot is not None
        self._workload, self._settings, self._spot = workload, settings, settings.spot

    def decide(self) -> Iterator[PlacementDecision]:
        workload, settings = self._workload, self._settings
        if self._spot is not SpotPolicy.AVOID:
            if reason := spot_refusal(workload, settings):
                yield self._refuse(reason, " is not placed on spot nodes")
                return
            if workload.kind.kind == "DaemonSet" and self._spot is SpotPolicy.REQUIRE:
                yield self._refuse(
                    "it has a pod on every node, and would lose those on other nodes; "
                    "--spot prefer lets it onto spot nodes"
                )
                return
            if roles := self._shared_roles():
                yield self._refuse(
                    f"{roles} are one object and belong on different nodes: give each its own"
                )
                return
        if not workload.pod_specs:
            yield from self._without_pod_spec()
            return
        if workload.kind.retry is Retry.ARGO:
            yield from self._by_template()
            return
        yield from self._by_pod_spec()
        if lacks_training(workload) and not settings.roles:
            yield self._add_override()

    def _decision(
        self, message: str = " is not changed", refusal: Refused | None = None
    ) -> PlacementDecision:
        """About the workload as a whole."""
        workload = self._workload
        message = f"{workload.shown}{message}"
        return PlacementDecision(workload, SPOT, message, None, self._spot, refusal)

    def _refuse(self, reason: str, message: str = " is not changed") -> PlacementDecision:
        return self._decision(message, Refused(reason))

    def _note(self, reason: str) -> PlacementDecision:
        decision = self._decision()
        decision.note(SPOT, "note", " is not changed", reason)
        return decision

    def _shared_roles(self) -> str:
        """`master and worker`, if roles on different nodes share a pod spec by anchor or name."""
        roles, specs = self._settings.roles, self._workload.pod_specs
        for spec in specs:
            sharing = [other for other in specs if other.node is spec.node]
            sides = {other.role in roles if roles else other.coordinator for other in sharing}
            if len(sides) > 1:
                return " and ".join(other.role for other in sharing)
        return ""

    def _by_template(self) -> Iterator[PlacementDecision]:
        """An Argo workflow: pods that only wait for a workload which they created stay off."""
        chosen = _chosen_specs(self._workload, self._settings)
        keeps_off = self._spot is SpotPolicy.AVOID
        waiting = [spec for spec in chosen if spec.coordinator and not keeps_off]
        yield from self._keep_off(waiting)
        if waiting and all(spec in waiting for spec in chosen if makes_pod(spec)):
            return
        for spec, fields in workflow_fields(self._workload, chosen):
            if spec not in waiting:
                yield self._decide_spec(spec, self._spot, fields)

    def _keep_off(self, coordinators: list[PodSpec]) -> Iterator[PlacementDecision]:
        """Coordinators off spot nodes, and one line about it if that changes something."""
        decisions = [self._decide_spec(spec, SpotPolicy.AVOID) for spec in coordinators]
        changed = [decision for decision in decisions if decision.changes]
        if changed and not all(spec.coordinator for spec in self._workload.pod_specs):
            specs = [decision.spec for decision in changed if decision.spec is not None]
            _note_staying(changed[0], specs, self._workload)
        yield from decisions

    def _by_pod_spec(self) -> Iterator[PlacementDecision]:
        workload, roles = self._workload, self._settings.roles
        keeps_off = self._spot is SpotPolicy.AVOID
        chosen = _chosen_specs(workload, self._settings)
        staying = [spec for spec in chosen if spec.coordinator and not keeps_off and not roles]
        yield from self._keep_off(staying)
        for spec in chosen:
            if spec in staying:
                continue
            if spec.shape is not Shape.TASK_TEMPLATE:
                # A DaemonSet has a pod on every node that it tolerates: a preference has no effect.
                is_daemon = workload.kind.kind == "DaemonSet" and self._spot is SpotPolicy.PREFER
                yield self._decide_spec(spec, self._spot, (True, not is_daemon))
            elif any(fields := replaced_fields(spec)) or spec.get("nodeSelector") is not None:
                yield self._decide_spec(spec, self._spot, fields)
            elif roles:
                message = f"{shown_spec(workload, spec)} is not changed"
                refusal = Refused(
                    "fields of its own would replace those of the whole run, "
                    "which can be placed without --role"
                )
                yield PlacementDecision(workload, SPOT, message, spec, self._spot, refusal)
        if keeps_off or roles or lacks_training(workload):
            return
        if all(spec.coordinator for spec in workload.pod_specs):
            names = list(dict.fromkeys(spec.role for spec in workload.pod_specs))
            message = f"{workload.shown}: {' and '.join(names)} stays off spot nodes"
            refusal = Refused(f"it has no other role; --role {names[0]} places it all the same")
            policy = SpotPolicy.AVOID
            yield PlacementDecision(workload, SPOT, message, None, policy, refusal)

    def _decide_spec(
        self, spec: PodSpec, policy: SpotPolicy, fields: tuple[bool, bool] = (True, True)
    ) -> PlacementDecision:
        workload, settings = self._workload, self._settings
        tolerations, affinity = fields

        def operation(decision: PlacementDecision) -> None:
            if spec.obstacle:
                raise Refused(spec.obstacle)
            sharing = {other.role for other in workload.pod_specs if other.path == spec.path}
            if settings.roles and (others := sharing - settings.roles):
                raise Refused(f"{', '.join(sorted(others))} runs with the same executor")
            if self._spot is not SpotPolicy.AVOID:
                refuse_mixed(workload, spec, settings.roles)
            capacity = settings.capacity
            choose_nodes(
                decision, spec, policy, capacity, tolerations=tolerations, affinity=affinity
            )
            if spec.coordinator and policy is not SpotPolicy.AVOID:
                _note_coordinator(decision, spec.role)

        message = f"{shown_spec(workload, spec)} is not changed"
        return PlacementDecision(workload, SPOT, message, spec, policy).by(operation)

    def _without_pod_spec(self) -> Iterator[PlacementDecision]:
        """A kind without pod specs of its own, or an object with pod specs at a wrong place."""
        workload, kind = self._workload, self._workload.kind
        if kind.family is KindFamily.FLAVOR:
            key, value = self._settings.capacity.label
            reason = (
                "it is for all workloads of the cluster: "
                f"add {key}: {value} to its nodeLabels, and the toleration, by hand"
            )
            if self._settings.kinds:
                yield self._refuse(reason)
            elif self._spot is SpotPolicy.REQUIRE and "spot" in workload.name.lower():
                yield self._note(reason)
        elif kind.family is KindFamily.TRAIN_JOB:
            yield self._add_override()
        elif kind.family is KindFamily.WRAPPER:
            if workload.get("spec", "trialTemplate", "configMap") is not None:
                yield self._note("its trial is in a ConfigMap: place that one")
            elif kind.objects and not list(expand(workload.node, kind.objects[0])):
                yield self._refuse(f"it has no object at {_shown_paths(kind.objects)}")
        elif workload.get("spec", "clusterSelector") is not None:
            yield self._note("it runs in an existing RayCluster (clusterSelector): place that one")
        elif kind.specs:
            paths = _shown_paths(tuple(entry.path for entry in kind.specs))
            yield self._refuse(
                f"it has no pod spec at {paths}, as in a patch of kustomize or when it is at the "
                "wrong depth"
            )

    def _add_override(self) -> PlacementDecision:
        """A new entry of a TrainJob."""
        settings, spot = self._settings, self._spot

        def operation(decision: PlacementDecision) -> None:
            add_override(decision, spot, settings.capacity, settings.trainer, settings.roles)
            if spot is not SpotPolicy.AVOID:
                for role in filter(self._workload.kind.is_coordinator, sorted(settings.roles)):
                    _note_coordinator(decision, role)

        return self._decision().by(operation)


def _note_coordinator(decision: PlacementDecision, role: str) -> None:
    message = f": {role} goes to spot nodes, as --role asks"
    reason = "its eviction ends or restarts the whole workload"
    decision.note(COORDINATOR, "warning", message, reason)


def _note_staying(decision: PlacementDecision, specs: list[PodSpec], workload: Workload) -> None:
    """What is done about coordinators; a warning if they ask for GPUs."""
    roles = list(dict.fromkeys(spec.role for spec in specs))
    names = " and ".join(roles)
    verb = "stays" if len(roles) == 1 else "stay"
    if all(only_waits(spec.shape, spec.node) for spec in specs):
        reason = "its pod only waits for the workload that it creates; that one is placed"
        decision.note(COORDINATOR, "note", f": {names} {verb} off spot nodes", reason)
        return
    gpus = sum(gpu_count(spec.node) * pod_count(workload, spec) for spec in specs)
    if not gpus:
        reason = "losing it ends or restarts the whole workload; --role places it all the same"
        decision.note(COORDINATOR, "note", f": {names} {verb} off spot nodes", reason)
        return
    all_roles = dict.fromkeys(spec.role for spec in workload.pod_specs)
    options = " ".join(f"--role {role}" for role in all_roles)
    asks = "asks" if len(roles) == 1 else "ask"
    decision.note(
        COORDINATOR,
        "warning",
        f": {names} {asks} for {plural(gpus, 'GPU')} and {verb} off spot nodes",
        f"without a regular node that has {gpus} free it waits for ever: add one, or place all "
        f"roles on spot nodes with {options}",
    )


def _shown_paths(paths: tuple[tuple[str, ...], ...]) -> str:
    return " or ".join(".".join(path) for path in paths).replace(".[]", "[]")


# --- the grace period -----------------------------------------------------------------------------


def decide_grace(
    workload: Workload, spec: PodSpec, settings: PlaceSettings, grace: int
) -> PlacementDecision:
    """The grace period of one pod spec; of a workflow of Argo it is set for the whole."""

    def operation(decision: PlacementDecision) -> None:
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
                raise Refused("it has a podSpecPatch, to which it must be added by hand")
        elif spec.shape is Shape.RUNTIME_PATCH and settings.trainer != "2.3":
            raise Refused(
                "runtimePatches has a grace period since Kubeflow Trainer 2.3; "
                "--trainer 2.3 says that it is yours"
            )
        elif spec.shape is Shape.EXECUTOR:
            raise Refused("kfp has no field for it")
        elif not spec.shape.has_grace:
            raise Refused("its kind has no field for it")
        if not spec.obstacle:
            decision.set(path, value)

    message = f"{workload.shown}: the grace period is not set"
    return PlacementDecision(workload, GRACE, message, spec).by(operation)


def _report_long_grace(plan: PlacePlan, workload: Workload, grace: int) -> None:
    """A grace period that a pod on a spot node cannot have; other evictions may allow it."""
    notice = plan.settings.capacity.notice
    if plan.settings.spot not in (None, SpotPolicy.AVOID) and grace > notice:
        shown = f"{workload.shown}: a grace period of {grace} s"
        message = f"{shown}, with a notice of at most {notice} s"
        reason = "the pod is killed in the middle of what it does then"
        plan.warn(LONG_GRACE, message, workload.node, reason)


# --- retries --------------------------------------------------------------------------------------


def decide_retries(
    workload: Workload, settings: PlaceSettings, retries: int
) -> PlacementDecision | None:
    """Retries of the whole workload; None for a patch of kustomize, which is refused elsewhere."""
    is_pipeline = workload.kind.retry is Retry.PIPELINE
    if not is_pipeline and any(spec.obstacle for spec in workload.pod_specs):
        return None

    def is_retried(spec: PodSpec) -> bool:
        if is_pipeline:
            return not settings.roles or spec.role in settings.roles
        is_asked = spec.role in settings.roles or is_on_spot(spec, settings.capacity.label)
        return not spec.coordinator or is_asked

    message = f"{workload.shown}: retries are not set"
    decision = PlacementDecision(workload, RETRIES, message)
    return decision.by(lambda _: set_retries(decision, is_retried, retries))


# --- a file ---------------------------------------------------------------------------------------


def place_objects(plan: PlacePlan, *, check_keys: bool = True) -> None:
    """All settings, for every chosen workload of a file.

    Without `check_keys` no key can exist twice, as in the result of a proof.
    """
    settings = plan.settings
    is_filtered = bool(settings.kinds or settings.names)
    for entry in plan.objects:
        if isinstance(entry, UnknownObject):
            is_placed = settings.spot is not None and settings.wants(SPOT) and not is_filtered
            if is_placed and not is_avoided(entry.intent):
                _refuse_unknown(plan, entry)
            continue
        plan.kinds.add(entry.kind.kind.lower())
        plan.names.add(entry.name)
        plan.roles |= {spec.role for spec in entry.pod_specs}
        if not is_avoided(entry.intent):
            plan.place_texts(entry)
        if not is_chosen(entry, settings):
            continue
        if reason := reason_to_leave(entry, settings):
            plan.leave(entry, reason)
            continue
        duplicate = decide_keys(entry) if check_keys else None
        if duplicate is not None:
            _apply(plan, duplicate)
        else:
            _place_workload(plan, entry)


def _refuse_unknown(plan: PlacePlan, entry: UnknownObject) -> None:
    where = ".".join(str(step) for step in entry.template[1:])
    kind = f"{entry.api_version} {entry.kind}"
    plan.refuse(
        SPOT,
        f"{entry.kind} {entry.name} is not changed: {kind} is not a known kind",
        entry.node,
        f"it has a pod template at {where}: add tolerations and affinity there by hand, or say "
        "`# arc-toolkit: spot=avoid because ...` above it",
    )


def _place_workload(plan: PlacePlan, workload: Workload) -> None:
    """A workload that is refused as a whole is not touched at all; else each role by itself."""
    settings, specs = plan.settings, _chosen_specs(workload, plan.settings)
    if settings.spot is not None and settings.wants(SPOT):
        decisions = decide_spot(workload, settings)
        refused = [decision for decision in decisions if not _apply(plan, decision)]
        on_spot = [decision for decision in decisions if decision.policy is settings.spot]
        if on_spot and all(decision in refused for decision in on_spot):
            return
        # A role off spot nodes keeps its grace period.
        off_spot = [
            decision.spec
            for decision in decisions
            if decision in refused or decision.policy is not settings.spot
        ]
        specs = [spec for spec in specs if spec not in off_spot]
    if settings.grace is not None and settings.wants(GRACE):
        # kfp has no field for it in any task.
        decided = specs[:1] if workload.kind.retry is Retry.PIPELINE else specs
        graces = (decide_grace(workload, spec, settings, settings.grace) for spec in decided)
        is_set = [_apply(plan, decision) for decision in graces]
        if any(is_set):
            _report_long_grace(plan, workload, settings.grace)
    if settings.retries is not None and settings.wants(RETRIES):
        retries = decide_retries(workload, settings, settings.retries)
        if retries is not None:
            _apply(plan, retries)


def _apply(plan: PlacePlan, decision: PlacementDecision) -> bool:
    """Carry out a decision; False if it is refused."""
    setting, message, node = decision.setting, decision.message, decision.node
    refusals = len(plan.refusals)
    if decision.refusal is not None:
        plan.refuse(setting, message, node, decision.refusal.reason)
    elif not decision.changes or plan.attempt(setting, message, node, decision.apply):
        plan.changed_documents |= {change.path[0] for change in decision.changes}
        for note in decision.notes:
            plan.add_finding(note.rule, note.severity, note.message, node, note.reason)
    return len(plan.refusals) == refusals
