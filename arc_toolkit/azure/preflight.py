"""What AzureML on a cluster needs, as a list of checks. Pure: facts in, checks out.

A fact that is not available is an `UnknownFact` with its reason, and every check that needs it then
cannot tell.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NamedTuple

from arc_toolkit.azure import extension
from arc_toolkit.azure.preflight_facts import (
    INSTANCE_TYPES_CRD,
    CannotTell,
    Facts,
    Side,
    UnknownFact,
    require_fact,
)
from arc_toolkit.azure.scope import DEFAULT_CLUSTER_TYPE, Cluster
from arc_toolkit.azure.workspace_computes import attached_computes
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec, SpecRule, problems
from arc_toolkit.kube.labels import labels_text, matches, some_names
from arc_toolkit.kube.nodes import SYSTEM_POOL_LABEL, Node, UnusableNode, WhyUnusable
from arc_toolkit.kube.taints import (
    ANNOTATION,
    SPOT_TAINT,
    Toleration,
    annotate_command,
    annotated_tolerations,
    untolerated_taint,
)
from arc_toolkit.output.json_document import document
from arc_toolkit.sizing import vm_sizes
from arc_toolkit.sizing.fits import fit_of
from arc_toolkit.sizing.occupants import Occupant
from arc_toolkit.text import printable

VOLCANO_CRD = "podgroups.scheduling.volcano.sh"
ACCELERATOR_LABEL = "kubernetes.azure.com/accelerator"
# What the extension's own pods tolerate, and the taint that only jobs do:
# https://learn.microsoft.com/azure/machine-learning/reference-kubernetes
EXTENSION_TOLERATIONS = (
    Toleration("ml.azure.com/amlarc", "true"),
    Toleration("ml.azure.com/amlarc-system", "true"),
)
WORKLOAD_TAINT = "ml.azure.com/amlarc-workload=true:NoSchedule"

CheckState = Literal["ok", "not ok", "cannot tell"]


COLORS: dict[CheckState, str] = {"ok": "green", "not ok": "red", "cannot tell": "yellow"}


class TargetOptions(Enum):
    """The options that a command needs to mean the same cluster as this run."""

    SUBSCRIPTION = ("subscription",)
    CLUSTER = ("subscription", "resource_group", "cluster", "cluster_type")
    CLUSTER_AND_WORKSPACE = (*CLUSTER, "workspace_resource_group")
    KUBECONFIG = ("kubeconfig", "context")
    NONE = ()


class FixCommand(NamedTuple):
    text: str
    options: TargetOptions


class CheckResult(NamedTuple):
    """The answer of one check."""

    state: CheckState
    reason: str
    command: FixCommand | None = None


def ok(reason: str) -> CheckResult:
    return CheckResult("ok", reason)


def not_ok(reason: str, command: FixCommand | None) -> CheckResult:
    return CheckResult("not ok", reason, command)


def extension_command(words: str) -> FixCommand:
    return FixCommand(f"arc-toolkit cluster extension {words}", TargetOptions.CLUSTER)


REGISTER = FixCommand(
    "az provider register --namespace Microsoft.KubernetesConfiguration", TargetOptions.SUBSCRIPTION
)
INSTALL = extension_command("install")
SHOW = extension_command("show")


@dataclass(frozen=True)
class Check:
    """One line of the list, with the command that fixes it."""

    name: str
    side: Side
    state: CheckState
    reason: str
    command: FixCommand | None = None


def checks(facts: Facts, side: Side | None = None) -> list[Check]:
    """Every check in the order in which things are set up; only those of one side if asked."""
    rows = []
    for name, (belongs_to, check) in _CHECKS.items():
        if side is not None and belongs_to != side:
            continue
        try:
            result = check(facts)
        except CannotTell as unknown:
            result = CheckResult("cannot tell", str(unknown))
        rows.append(Check(name, belongs_to, *result))
    return rows


def _provider(facts: Facts) -> CheckResult:
    state = require_fact(facts.provider)
    name = "Microsoft.KubernetesConfiguration"
    if state == "Registered":
        return ok(f"{name} is registered")
    return not_ok(f"{name} is {state} in this subscription", REGISTER)


def _extension(facts: Facts) -> CheckResult:
    item = require_fact(facts.extension)
    if item is None:
        return not_ok("the AzureML extension is not installed on this cluster", INSTALL)
    health = extension.health(item)
    if health.ok:
        return ok(f"{health.reason} is installed and healthy")
    return not_ok(f"{health.reason}; {extension.advice(health.reason)}", SHOW)


def _settings(facts: Facts) -> CheckResult:
    item = require_fact(facts.extension)
    if item is None:
        raise CannotTell("the extension is not installed")
    settings = extension.settings_of(item)
    problems: list[tuple[str, str]] = []  # what, and the option that changes it
    unknown = ""
    if not extension.is_on(settings, extension.TRAINING):
        problems.append((f"{extension.TRAINING} is not True, so no job can run", "--training"))
    if not extension.is_on(settings, extension.VOLCANO, default=True):
        if isinstance(facts.crds, UnknownFact):
            unknown = (
                f"{extension.VOLCANO} is False, and whether Volcano is there: {facts.crds.reason}"
            )
        elif VOLCANO_CRD not in facts.crds:
            text = (
                f"{extension.VOLCANO} is False and the cluster has no Volcano, "
                "so no job can be scheduled"
            )
            problems.append((text, "--volcano"))
    selector = facts.extension_selector
    if excluded := _pools_kept_off(facts):
        text = (
            f"its nodeSelector ({labels_text(selector)}) applies to jobs too, "
            f"so no job can start on pool {', '.join(excluded)}"
        )
        option = _selector_for_jobs(facts, excluded[0])
        text += "" if option else "; give its nodes that label"
        problems.append((text, option))
    zero = facts.pools_from_zero
    if zero and not extension.is_on(settings, extension.SKIP_VALIDATION):
        text = (
            f"pool {', '.join(zero)} scales from zero and {extension.SKIP_VALIDATION} is not true, "
        )
        problems.append(
            (text + "so a job for it fails at once (Code 9)", "--skip-resource-validation")
        )
    if problems:
        texts, options = zip(*problems, strict=True)
        words = " ".join(filter(None, options))
        return not_ok("; ".join(texts), extension_command(f"update {words}") if words else None)
    if unknown:
        raise CannotTell(unknown)
    keys = (extension.TRAINING, extension.VOLCANO, extension.SKIP_VALIDATION)
    listed = [f"{key}={settings[key]}" for key in keys if key in settings]
    return ok(", ".join(listed + [f"nodeSelector {labels_text(selector)}"] * bool(selector)))


def _crds(facts: Facts) -> CheckResult:
    present = require_fact(facts.crds)
    missing = [name for name in (INSTANCE_TYPES_CRD, VOLCANO_CRD) if name not in present]
    if not missing:
        return ok(f"{INSTANCE_TYPES_CRD} and Volcano's are there")
    text = f"{' and '.join(missing)} missing"
    if isinstance(facts.extension, UnknownFact) or facts.extension is None:
        return not_ok(f"{text}: is the extension installed here?", INSTALL)
    if missing == [VOLCANO_CRD] and not extension.is_on(facts.settings, extension.VOLCANO, True):
        text += ", and the extension is set not to install Volcano"
        return not_ok(text, extension_command("update --volcano"))
    return not_ok(
        f"{text}, though Azure says that the extension is there: is this the same cluster?", SHOW
    )


def _compute(facts: Facts) -> CheckResult:
    rows = require_fact(facts.computes)
    if facts.cluster is None:
        raise CannotTell("the cluster's name in Azure is not known")
    attached_rows = attached_computes(list(rows), facts.cluster)

    def command(name: str) -> FixCommand:
        text = f"arc-toolkit cluster attach {name} --workspace {facts.workspace or 'WORKSPACE'}"
        return FixCommand(text, TargetOptions.CLUSTER_AND_WORKSPACE)

    if not attached_rows:
        return not_ok(
            f"no compute of the workspace {facts.workspace} is this cluster", command("NAME")
        )
    bad = [
        row
        for row in attached_rows
        if (row.get("properties") or {}).get("provisioningState") != "Succeeded"
    ]
    if bad:
        properties = bad[0].get("properties") or {}
        errors = [row.get("error") or {} for row in properties.get("provisioningErrors") or ()]
        texts = [f"compute {bad[0].get('name')} is {properties.get('provisioningState')}"]
        texts += [str(error["message"]) for error in errors if error.get("message")]
        return not_ok("; ".join(texts), command(str(bad[0].get("name"))))
    attached_names = [
        (row.get("name"), row["properties"].get("properties") or {}) for row in attached_rows
    ]
    names = [
        f"{name} (namespace {properties.get('namespace') or 'default'})"
        for name, properties in attached_names
    ]
    return ok(f"attached as {', '.join(names)}")


def _nodes(facts: Facts) -> CheckResult:
    nodes = require_fact(facts.nodes)
    usable, unusable = facts.usable()
    apart = (WhyUnusable.SYSTEM_POOL, WhyUnusable.BESIDE_WORKERS)  # jobs can use these
    refused = [f"{row.node.name}: {row}" for row in unusable if row.reason not in apart]
    if usable:
        text = f"{len(usable)} of {len(nodes)} nodes can take jobs"
        return ok(text + (f"; {some_names(refused)}" if refused else ""))
    zero = facts.pools_from_zero
    if zero:
        return ok(f"no node can take jobs now, but pool {', '.join(zero)} scales from zero")
    text = f"no node can take jobs: {some_names(refused)}" if nodes else "the cluster has no nodes"
    return not_ok(text, _more_nodes(facts, unusable))


def _more_nodes(facts: Facts, unusable: list[UnusableNode]) -> FixCommand:
    """What gives jobs a node: the pools that are there first, and a new one only if they cannot."""
    for row in unusable:
        if row.reason is WhyUnusable.CORDONED:
            return FixCommand(f"kubectl uncordon {row.node.name}", TargetOptions.KUBECONFIG)
    cluster = facts.cluster or Cluster("", "GROUP", "CLUSTER")
    pool = f"--cluster-name {cluster.name} --resource-group {cluster.resource_group} --name"
    for profile in facts.pools:
        stopped = profile.get("count") == 0 and not profile.get("enableAutoScaling")
        if stopped and profile.get("osType", "Linux") == "Linux":
            command = f"az aks nodepool scale {pool} {profile.get('name')} --node-count 1"
            return FixCommand(command, TargetOptions.SUBSCRIPTION)
    names = {str(profile.get("name")) for profile in facts.pools} | {
        row.node.pool for row in unusable
    }
    name = next(
        name for number in range(len(names) + 1) if (name := f"jobs{number or ''}") not in names
    )
    command = f"az aks nodepool add {pool} {name} --node-count 1 --node-vm-size Standard_D8s_v5"
    return FixCommand(command, TargetOptions.SUBSCRIPTION)


def _gpu(facts: Facts) -> CheckResult:
    ready = [
        node for node in require_fact(facts.nodes) if node.ready is not False and node.os == "linux"
    ]
    cards = [(node, card) for node in ready if (card := _card(node))]
    blind = [(node.name, card) for node, card in cards if node.gpus == 0]
    if not cards:
        return ok("no node has a GPU")
    if not blind:
        return ok(f"{len(cards)} GPU nodes show {sum(node.gpus for node, _ in cards)} GPUs")
    names = some_names([name for name, _ in blind])
    text = f"{len(blind)} of {len(cards)} GPU nodes show no GPU to Kubernetes ({names}): "
    # Two device plugins disturb each other, so the extension's is for clusters without any.
    plugins = _device_plugins(facts)
    if with_plugin := [name for name, _ in blind if name in plugins]:
        row = plugins[with_plugin[0]]
        command = FixCommand(
            f"kubectl get pods --namespace {row.namespace} --output wide "
            f"--field-selector spec.nodeName={with_plugin[0]}",
            TargetOptions.KUBECONFIG,
        )
        return not_ok(f"{text}the device plugin {row.name} runs there, so look at its pod", command)
    if plugins or len(blind) < len(cards):
        command = FixCommand(
            "kubectl get daemonsets --all-namespaces --output wide", TargetOptions.KUBECONFIG
        )
        text += (
            "the device plugin of the other nodes does not run there, "
            "so look at its node selector and tolerations"
        )
        return not_ok(text, command)
    # The extension can bring NVIDIA's plugin; it has no setting for AMD's.
    nvidia = any(card == "nvidia.com/gpu" for _, card in blind)
    command = extension_command("update --set installNvidiaDevicePlugin=True")
    return not_ok(
        f"{text}no device plugin",
        command if nvidia and not isinstance(facts.occupants, UnknownFact) else None,
    )


def _device_plugins(facts: Facts) -> dict[str, Occupant]:
    """The device plugin's pod on each node that has one, recognized by its name."""
    if isinstance(facts.occupants, UnknownFact):
        return {}
    return {
        node: row
        for node, rows in facts.occupants.items()
        for row in rows
        if "device-plugin" in row.name.lower()
    }


def _instance_types(facts: Facts) -> CheckResult:
    types = require_fact(facts.instance_types)
    if types:
        return ok(f"{len(types)} instance types: {some_names([_name(item) for item in types])}")
    text = "none: every job gets the default type (100m and 2Gi)"
    command = "arc-toolkit gen-instance-types --from-cluster --share whole --share half --apply"
    return not_ok(text, FixCommand(command, TargetOptions.KUBECONFIG))


def _types_fit(facts: Facts) -> CheckResult:
    types = require_fact(facts.instance_types)
    if not types:
        raise CannotTell("there are no instance types")
    candidates = facts.candidates()
    bad: list[str] = []
    away: list[str] = []
    for item in types:
        problem = next(
            (row for row in problems(item) if row.rule is not SpecRule.REQUEST_LIMIT), None
        )
        fit = None if problem else fit_of(InstanceTypeSpec.parse(item), candidates)
        if fit and fit.state == "no node":
            away.append(_name(item))
        elif broken := problem or (fit and fit.problem):
            bad.append(f"{_name(item)}: {broken.message}")
    if bad:
        command = "arc-toolkit gen-instance-types --from-cluster --check"
        return not_ok("; ".join(bad[:3]), FixCommand(command, TargetOptions.KUBECONFIG))
    if away:
        text = f"no node that can take jobs now has the labels of {some_names(away)}"
        if extension.is_on(facts.settings, extension.SKIP_VALIDATION) or isinstance(
            facts.extension, UnknownFact
        ):
            raise CannotTell(f"{text} (a pool at zero?)")
        return not_ok(text, FixCommand("arc-toolkit cluster nodes", TargetOptions.KUBECONFIG))
    return ok(f"each of the {len(types)} fits on a node")


def _placement(facts: Facts) -> CheckResult:
    types = require_fact(facts.instance_types)
    if not types:
        raise CannotTell(
            "there are no instance types, so no node is known to be meant for whole-node jobs"
        )
    defeated: dict[str, str] = {}
    for row in facts.candidates():
        if not row.takes_jobs:
            continue
        node, schedulable = row.node, row.schedulable
        guests = [
            row for row in schedulable.other_pods if row.namespace == extension.RELEASE_NAMESPACE
        ]
        cpu_m, memory = sum(row.cpu_m for row in guests), sum(row.memory for row in guests)
        for item in types if guests else ():
            try:
                spec = InstanceTypeSpec.parse(item)
            except ArcError:  # another check reports it
                continue
            if not spec.selects(node.labels) or not schedulable.how_many_of(spec)[0]:
                continue
            if spec.cpu_m > schedulable.cpu_m - cpu_m or spec.memory > schedulable.memory - memory:
                names = some_names([row.name for row in guests])
                defeated[node.name] = f"{spec.name} does not fit on {node.name} beside {names}"
    if not defeated:
        return ok("no pod of the extension's Deployments is in the way of a whole-node job")
    text = next(iter(defeated.values()))
    text += f" (and on {len(defeated) - 1} more nodes)" if len(defeated) > 1 else ""
    pools = {node.pool for node in require_fact(facts.nodes) if node.name in defeated}
    return not_ok(text, _taint_pool(facts, pools))


def _taint_pool(facts: Facts, pools: Collection[str]) -> FixCommand | None:
    """The taint that keeps the extension's own pods, and not jobs, off a pool.

    Not a nodeSelector of the extension: that would keep the jobs off too. Some other pool has to
    take the pods.
    """
    nodes = [node for node in require_fact(facts.nodes) if node.ready and node.os == "linux"]
    room = [
        node
        for node in nodes
        if node.pool not in pools
        and matches(facts.extension_selector, node.labels)
        and not untolerated_taint(node.taints, EXTENSION_TOLERATIONS)
    ]
    pool = next(iter(sorted(pools)), "")
    if not room or not pool:
        return None
    members = [node for node in nodes if node.pool == pool]
    if all(untolerated_taint(node.taints, EXTENSION_TOLERATIONS) for node in members):
        command = f"kubectl rollout restart deployment --namespace {extension.RELEASE_NAMESPACE}"
        return FixCommand(command, TargetOptions.KUBECONFIG)
    cluster = facts.cluster or Cluster("", "GROUP", "CLUSTER")
    if cluster.kind != DEFAULT_CLUSTER_TYPE:
        names = " ".join(node.name for node in members)
        return FixCommand(f"kubectl taint nodes {names} {WORKLOAD_TAINT}", TargetOptions.KUBECONFIG)
    # The command replaces the taints that the pool has.
    taints = [str(taint) for taint in members[0].taints if not taint.passes]
    command = (
        f"az aks nodepool update --cluster-name {cluster.name} "
        f"--resource-group {cluster.resource_group} --name {pool} "
        f"--node-taints {','.join([*taints, WORKLOAD_TAINT])}"
    )
    return FixCommand(command, TargetOptions.SUBSCRIPTION)


def _pools_kept_off(facts: Facts) -> list[str]:
    """Pools that the extension's nodeSelector excludes, if it leaves jobs only system pools.

    A selector that leaves one pool for jobs may be meant.
    """
    selected: list[str] = []
    excluded: list[str] = []
    for_jobs: list[str] = []
    for name, rows in facts.labels_of_pools().items():
        is_selected = any(matches(facts.extension_selector, labels) for labels in rows)
        (selected if is_selected else excluded).append(name)
        if not all(matches(dict([SYSTEM_POOL_LABEL]), labels) for labels in rows):
            for_jobs.append(name)
    if set(selected) & set(for_jobs):
        return []
    for_jobs_excluded = [name for name in excluded if name in for_jobs]
    return for_jobs_excluded if selected else for_jobs_excluded or excluded


def _selector_for_jobs(facts: Facts, pool: str) -> str:
    """Options that give each key of the extension's nodeSelector the value of that pool.

    A key can be changed and not be removed: empty if the pool lacks one.
    """
    labels = facts.labels_of_pools()[pool][0]
    if facts.extension_selector.keys() - labels.keys():
        return ""
    return " ".join(f"--node-selector {key}={labels[key]}" for key in facts.extension_selector)


def _spot_nodes(facts: Facts) -> CheckResult:
    """An InstanceType has no tolerations: job pods get them by namespace, or by a setting."""
    if isinstance(facts.nodes, UnknownFact) and isinstance(facts.resource, UnknownFact):
        raise CannotTell(facts.nodes.reason)
    if not facts.has_spot:
        return ok("no spot nodes")
    if not untolerated_taint([SPOT_TAINT], facts.set_tolerations):
        return ok(f"job pods tolerate spot nodes by {extension.TOLERATION}, which is undocumented")
    annotations = require_fact(facts.namespaces)
    names = facts.compute_namespaces
    if isinstance(names, UnknownFact) or not names:
        names = [name for name, row in annotations.items() if ANNOTATION in row] or ["NAMESPACE"]
    for name in names:
        command = FixCommand(annotate_command(name), TargetOptions.KUBECONFIG)
        try:
            tolerations = annotated_tolerations(annotations.get(name, {}))
        except ArcError as error:
            overwrite = FixCommand(f"{command.text} --overwrite", command.options)
            return not_ok(
                f"namespace {name}: {error}, so that no pod can be created there", overwrite
            )
        if untolerated_taint([SPOT_TAINT], tolerations):
            text = (
                "job pods do not tolerate the taint of spot nodes, "
                "and an instance type cannot say so"
            )
            if ANNOTATION in annotations.get(name, {}):
                text += f"; namespace {name} has other default tolerations: add it to these"
                command = FixCommand(f"{command.text} --overwrite", command.options)
            return not_ok(f"{text}: the pods in namespace {name} stay Pending there", command)
    return ok(f"pods of namespace {some_names(names)} tolerate spot nodes by an annotation")


def _scale_from_zero(facts: Facts) -> CheckResult:
    """Volcano makes no pod for a job beyond the existing nodes, so no autoscaler sees one."""
    require_fact(facts.resource)
    zero = facts.pools_from_zero
    if not zero:
        return ok("no pool scales from zero")
    if require_fact(facts.extension) is None:
        raise CannotTell("the extension is not installed")
    setting = extension.SCHEDULER_SETTING
    pool = f"pool {', '.join(zero)} scales from zero"
    name = facts.settings.get(setting)
    if not extension.is_on(facts.settings, extension.VOLCANO, True) and not name:
        raise CannotTell(
            f"{pool}, and the extension does not install Volcano: how is yours configured?"
        )
    if not name:
        holding = " and ".join(extension.HOLDING_PLUGINS)
        text = f"{pool}, but Volcano's {holding} make no pod for a job beyond the "
        text += (
            "nodes that are there: apply the output of `arc-toolkit cluster scheduler-config`, then"
        )
        return not_ok(
            text, extension_command(f"update --set {setting}={extension.SCHEDULER_CONFIG_NAME}")
        )
    if problem := extension.holding_problem(require_fact(facts.scheduler_config)):
        command = FixCommand("arc-toolkit cluster scheduler-config", TargetOptions.NONE)
        return not_ok(f"{pool}, but of the ConfigMap {name}: {problem}", command)
    return ok(f"{pool}, and the ConfigMap {name} lets jobs for it in")


_CHECKS: dict[str, tuple[Side, Callable[[Facts], CheckResult]]] = {
    "provider registered": ("azure", _provider),
    "extension installed": ("azure", _extension),
    "extension settings": ("azure", _settings),
    "scale from zero": ("azure", _scale_from_zero),
    "CRDs": ("cluster", _crds),
    "Ready nodes": ("cluster", _nodes),
    "spot nodes": ("cluster", _spot_nodes),
    "GPU device plugin": ("cluster", _gpu),
    "instance types": ("cluster", _instance_types),
    "instance types fit": ("cluster", _types_fit),
    "extension placement": ("cluster", _placement),
    "compute attached": ("azure", _compute),
}


def different_cluster(server: str, resource: Mapping[str, Any]) -> str | None:
    """A sentence where the kubeconfig and the Azure names clearly mean two AKS clusters."""
    host = server.split("//")[-1].split("/")[0].rsplit(":", 1)[0].lower()
    properties = resource.get("properties") or {}
    hosts = [str(properties[key]).lower() for key in ("fqdn", "privateFQDN") if properties.get(key)]
    if not hosts or host in hosts or not host.endswith(".azmk8s.io"):
        return None
    return (
        f"the kubeconfig points to {host}, "
        f"but the cluster {resource.get('name')} in Azure is {hosts[0]}"
    )


def _card(node: Node) -> str | None:
    """The resource under which the node should show its GPUs; None where it has none."""
    size = vm_sizes.find(node.size) if node.size else None
    by_label = "nvidia.com/gpu" if node.labels.get(ACCELERATOR_LABEL) == "nvidia" else None
    return node.gpu_resource or (size.gpu_resource if size else None) or by_label


def _name(item: Mapping[str, Any]) -> str:
    return str((item.get("metadata") or {}).get("name", "?"))


def fix_text(check: Check, options: Mapping[str, str | None]) -> str | None:
    """The command that fixes it, with the options of this run: it has to mean the same cluster."""
    if check.command is None:
        return None
    words = [check.command.text]
    for name in check.command.options.value:
        value = options.get(name)
        if value and (name, value) != ("cluster_type", DEFAULT_CLUSTER_TYPE):
            words += [f"--{name.replace('_', '-')}", shlex.quote(value)]
    return " ".join(words)


def count_states(rows: Sequence[Check]) -> dict[str, int]:
    return {state: sum(check.state == state for check in rows) for state in COLORS}


def checks_text(
    rows: Sequence[Check], options: Mapping[str, str | None], style: Callable[..., str]
) -> str:
    lines = []
    width = max(len(check.name) for check in rows)
    for check in rows:
        state = style(f"{check.state:<11}", COLORS[check.state])
        lines.append(f"{state}  {check.name:<{width}}  {printable(check.reason)}")
        if fix := fix_text(check, options):
            lines.append(f"{'':11}  {'':{width}}  -> {style(printable(fix), 'bold')}")
    return "\n".join(lines)


def checks_json(rows: Sequence[Check], options: Mapping[str, str | None]) -> str:
    content = [
        {
            "name": check.name,
            "side": check.side,
            "state": check.state,
            "reason": check.reason,
            "fix": fix_text(check, options),
        }
        for check in rows
    ]
    return document("cluster-preflight", {"summary": count_states(rows), "checks": content})
