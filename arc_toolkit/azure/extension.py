"""The AzureML extension as data: settings, the plan against the cluster, requests, health.

Pure. Facts: https://learn.microsoft.com/azure/machine-learning/how-to-deploy-kubernetes-extension
and, for what a request must carry beside them, `az k8s-extension` (azure-cli-extensions,
AzureMLKubernetes.py).

Volcano's scheduler configuration decides whether a job for a pool at zero nodes ever gets pods.
The extension's own configuration, and one for the autoscaler that has no effect because of its
indentation, are in
https://learn.microsoft.com/azure/machine-learning/how-to-troubleshoot-kubernetes-extension#volcano-scheduler
tests/cluster/test_from_zero.py has tried each of them on a real Volcano.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arc_toolkit.azure.scope import Cluster
from arc_toolkit.azure.session import message, messages
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.taints import SPOT_KEY, Toleration
from arc_toolkit.output.table import table
from arc_toolkit.text import nearest, printable

EXTENSION_TYPE = "Microsoft.AzureML.Kubernetes"
RELEASE_NAMESPACE = "azureml"
DEFAULT_TRAIN = "stable"

TRAINING = "enableTraining"
INFERENCE = "enableInference"
VOLCANO = "installVolcano"
SKIP_VALIDATION = "amloperator.skipResourceValidation"
NODE_SELECTOR = "nodeSelector."
TOLERATION = "workLoadToleration"

# Settings that Microsoft's repositories use and its documentation does not name.
UNDOCUMENTED = (TOLERATION,)

SPOT_TOLERATION = f"{SPOT_KEY}=spot:NoSchedule"
_TOLERATION_KEY = re.compile(rf"{TOLERATION}\[(\d+)\]\.(\w+)")


@dataclass(frozen=True)
class SettingChange:
    """One setting that a request would change; `before` is None if it is not set."""

    key: str
    before: str | None
    after: str

    def __str__(self) -> str:
        mark = "  (undocumented by Microsoft)" if self.key.startswith(UNDOCUMENTED) else ""
        if self.before is None:
            return f"+ {self.key} = {self.after}{mark}"
        return f"~ {self.key}: {self.before} -> {self.after}{mark}"


def toleration_settings(toleration: Toleration, index: int) -> dict[str, str]:
    """`workLoadToleration[i].*`."""
    prefix = f"{TOLERATION}[{index}]."
    value = toleration.value
    row = {
        "key": toleration.key,
        "operator": "Exists" if value is None else "Equal",
        "value": value,
    }
    return {
        prefix + key: text
        for key, text in {**row, "effect": toleration.effect}.items()
        if text is not None
    }


def node_selector_setting(text: str) -> tuple[str, str]:
    """The setting for `KEY=VALUE`. Settings are Helm paths: dots in a label's key are escaped."""
    key, equals, value = text.partition("=")
    if not key or not equals or not value:
        raise ArcError(f"{text!r} is not a label: write KEY=VALUE, such as agentpool=system")
    return NODE_SELECTOR + key.replace(".", r"\."), value


def node_selector_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The labels that the extension's own pods ask for."""
    return {
        key.removeprefix(NODE_SELECTOR).replace(r"\.", "."): value
        for key, value in settings.items()
        if key.startswith(NODE_SELECTOR)
    }


def tolerations_of(settings: Mapping[str, str]) -> dict[int, Toleration]:
    """The tolerations that are set, by their index."""
    rows: dict[int, dict[str, str]] = {}
    for key, value in settings.items():
        if match := _TOLERATION_KEY.fullmatch(key):
            rows.setdefault(int(match[1]), {})[match[2]] = value
    return {
        index: Toleration(
            row.get("key", ""),
            None if row.get("operator") == "Exists" else row.get("value", ""),
            row.get("effect", ""),
        )
        for index, row in sorted(rows.items())
    }


def is_on(settings: Mapping[str, str], key: str, default: bool = False) -> bool:
    """Whether a switch is on; `True`, `true` and `TRUE` are the same to the extension."""
    value = settings.get(key)
    return default if value is None else str(value).strip().lower() == "true"


def add_tolerations(
    present_settings: Mapping[str, str], tolerations: Iterable[Toleration]
) -> dict[str, str]:
    """Settings for the tolerations that are not there yet, after the ones that are."""
    present = tolerations_of(present_settings)
    index = max(present, default=-1) + 1
    settings: dict[str, str] = {}
    for item in dict.fromkeys(tolerations):
        if item not in present.values():
            settings |= toleration_settings(item, index)
            index += 1
    return settings


def changes(
    present_settings: Mapping[str, str], settings: Mapping[str, str]
) -> list[SettingChange]:
    """What differs; a switch that is merely written in another case does not."""
    return [
        SettingChange(key, present_settings.get(key), value)
        for key, value in settings.items()
        if key not in present_settings or _switch(present_settings[key]) != _switch(value)
    ]


# https://learn.microsoft.com/azure/machine-learning/how-to-deploy-kubernetes-extension
_CHOICES = {
    "inferenceRouterServiceType": ("LoadBalancer", "NodePort", "ClusterIP"),
    "internalLoadBalancerProvider": ("azure",),
    **dict.fromkeys(
        (
            TRAINING,
            INFERENCE,
            VOLCANO,
            SKIP_VALIDATION,
            "allowInsecureConnections",
            "inferenceRouterHA",
            "installDcgmExporter",
            "installNvidiaDevicePlugin",
            "installPromOp",
        ),
        ("True", "False"),
    ),
}


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse what the extension would refuse after minutes of waiting."""
    if not is_on(settings, TRAINING) and not is_on(settings, INFERENCE):
        raise ArcError(
            "the extension needs training or inference: "
            "leave training on, or --set enableInference=True"
        )
    if is_on(settings, INFERENCE):
        if "inferenceRouterServiceType" not in settings:
            raise ArcError(
                "enableInference=True also needs "
                "--set inferenceRouterServiceType=LoadBalancer (or ClusterIP)"
            )
        secure = "sslSecret" in settings and "sslCname" in settings
        if not secure and not is_on(settings, "allowInsecureConnections"):
            raise ArcError(
                "enableInference=True also needs --set sslSecret=... and sslCname=..., "
                "or, for tests only, "
                "--set allowInsecureConnections=True"
            )


def inference_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What `az k8s-extension` derives from the settings for inference, as the chart reads it."""
    derived = {}
    if settings.get("inferenceRouterServiceType", "").lower() == "nodeport":
        derived["scoringFe.serviceType.nodePort"] = "true"
    if settings.get("internalLoadBalancerProvider", "").lower() == "azure":
        derived["scoringFe.serviceType.internalLoadBalancer"] = "true"
    if "sslSecret" in settings:
        derived["scoringFe.sslSecret"] = settings["sslSecret"]
    return derived


def chosen_settings(
    switches: Mapping[str, bool | None],
    *,
    node_selector: Iterable[str] = (),
    extra: Iterable[str] = (),
) -> dict[str, str]:
    """What the options say, without tolerations: their indices depend on the ones that are there.

    `node_selector` and `extra` are `KEY=VALUE`; None leaves a switch as it is.
    """
    settings = {key: str(value) for key, value in switches.items() if value is not None}
    pairs = [node_selector_setting(text) for text in node_selector]
    for text in extra:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ArcError(f"--set {text!r}: write KEY=VALUE")
        if key in ("sslCertPemFile", "sslKeyPemFile"):
            raise ArcError(
                f"--set {key}: that is a protected setting; "
                "put certificate and key into a secret: sslSecret"
            )
        pairs.append((key, value))
    for key, value in pairs:
        if settings.setdefault(key, value) != value:
            raise ArcError(f"{key} is given twice, as {settings[key]!r} and {value!r}")
        choices = _CHOICES.get(key, (value,))
        if value.lower() not in map(str.lower, choices):
            near = nearest(value, choices)
            hint = f"did you mean {near}?" if near else f"it is {' or '.join(choices)}"
            raise ArcError(f"{key}={value}: {hint}")
    return settings


@dataclass(frozen=True)
class PlanOptions:
    """What to install or change."""

    settings: dict[str, str]
    tolerations: Sequence[Toleration] = ()
    release_train: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class ExtensionPlan:
    """What a request would do, and its body."""

    name: str
    title: str
    changes: Sequence[SettingChange]
    body: Mapping[str, Any]
    notes: Sequence[str] = ()


def plan_install(
    cluster: Cluster,
    resource: Mapping[str, Any],
    installed: Mapping[str, Any] | None,
    name: str,
    options: PlanOptions,
) -> ExtensionPlan:
    """`resource` is the cluster's own JSON. Installs again where an earlier install failed."""
    notes = []
    if installed is not None:
        name = str(installed.get("name"))
        if (installed.get("properties") or {}).get("provisioningState") != "Failed":
            raise ArcError(
                f"the AzureML extension is installed already, as {name!r}: "
                "use `arc-toolkit cluster extension update`"
            )
        notes.append(f"the extension {name!r} is there, but Failed: installing it again")
    switches = {TRAINING: "True", INFERENCE: "False", VOLCANO: "True"}
    settings = cluster_settings(cluster, resource) | switches | options.settings
    settings |= inference_settings(settings) | add_tolerations({}, options.tolerations)
    check_settings(settings)
    return ExtensionPlan(
        name,
        f"install the AzureML extension {name!r} on {cluster.name}",
        changes({}, settings),
        install_body(settings, options.release_train or DEFAULT_TRAIN, options.version),
        notes,
    )


def plan_update(
    cluster: Cluster, installed: Mapping[str, Any] | None, options: PlanOptions
) -> ExtensionPlan | None:
    """None if there is nothing to change."""
    if installed is None:
        raise ArcError(
            f"the AzureML extension is not installed on {cluster.name}: "
            "run `arc-toolkit cluster extension install`"
        )
    present_settings, properties = settings_of(installed), installed["properties"]
    settings = options.settings | inference_settings(options.settings)
    settings |= add_tolerations(present_settings, options.tolerations)
    check_settings({**present_settings, **settings})
    changed = changes(present_settings, settings)
    train, version = options.release_train, options.version
    if train is not None and train.lower() == str(properties.get("releaseTrain", "")).lower():
        train = None
    if version == properties.get("version") and not properties.get("autoUpgradeMinorVersion", True):
        version = None
    if not changed and train is None and version is None:
        return None
    title = f"update the AzureML extension {installed['name']!r} on {cluster.name}"
    title += f", release train {train}" if train else ""
    title += f", pinned to version {version}" if version else ""
    return ExtensionPlan(installed["name"], title, changed, update_body(changed, train, version))


def arc_refusal(cluster: Cluster, name: str, chosen: Mapping[str, str]) -> ArcError:
    """Why an Arc cluster is refused, with the command that installs there."""
    settings = {TRAINING: "True", **chosen}
    config = " ".join(shlex.quote(f"{key}={value}") for key, value in settings.items())
    return ArcError(
        "an Arc cluster needs an Azure Relay, which only `az` makes: "
        f"run `az k8s-extension create --name {name} --extension-type {EXTENSION_TYPE} "
        f"--cluster-type connectedClusters --cluster-name {cluster.name} "
        f"--resource-group {cluster.resource_group} --scope cluster --config {config}`"
    )


def cluster_settings(cluster: Cluster, resource: Mapping[str, Any]) -> dict[str, str]:
    """What `az k8s-extension create` adds for an AKS cluster; `resource`: the cluster's JSON."""
    location = str(resource.get("location", "")).lower()
    if not location:
        raise ArcError(
            f"Azure names no location for {cluster.name}: cannot make the extension's settings"
        )
    identifier = cluster.resource_id
    settings = {
        "clusterId": identifier,
        "cluster_name": identifier,
        "cluster_name_friendly": cluster.name,
        "domain": f"{location}.cloudapp.azure.com",
        "jobSchedulerLocation": location,
        "location": location,
        "nginxIngress.enabled": "true",
        "prometheus.prometheusSpec.externalLabels.cluster_name": identifier,
        "relayserver.enabled": "false",
        "servicebus.enabled": "false",
    }
    pools = (resource.get("properties") or {}).get("agentPoolProfiles") or ()
    if sum(int(pool.get("count") or 0) for pool in pools) < 3:
        # Three router replicas need three nodes.
        settings |= {"clusterPurpose": "DevTest", "inferenceRouterHA": "false"}
    return settings


def install_body(
    settings: Mapping[str, str], release_train: str, version: str | None
) -> dict[str, Any]:
    """The body of the PUT."""
    properties: dict[str, Any] = {
        "extensionType": EXTENSION_TYPE,
        "autoUpgradeMinorVersion": version is None,
        "releaseTrain": release_train,
        "scope": {"cluster": {"releaseNamespace": RELEASE_NAMESPACE}},
        "configurationSettings": dict(settings),
    }
    if version is not None:
        properties["version"] = version
    return {"identity": {"type": "SystemAssigned"}, "properties": properties}


def update_body(
    changed: Sequence[SettingChange], release_train: str | None = None, version: str | None = None
) -> dict[str, Any]:
    """The body of the PATCH: only what changes.

    Not the SDK's PatchExtension: its defaults would put a pinned extension back on automatic
    upgrades. Protected settings are never sent: Azure takes the ones that a PATCH leaves out of
    that map as obsolete and deletes them.
    """
    properties: dict[str, Any] = {}
    if changed:
        properties["configurationSettings"] = {change.key: change.after for change in changed}
    if release_train is not None:
        properties["releaseTrain"] = release_train
    if version is not None:
        properties |= {"autoUpgradeMinorVersion": False, "version": version}
    return {"properties": properties}


def pick(extensions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The AzureML extension among those of a cluster; there can be only one."""
    for item in extensions:
        kind = str((item.get("properties") or {}).get("extensionType", ""))
        if kind.lower() == EXTENSION_TYPE.lower():
            return item
    return None


def settings_of(item: Mapping[str, Any] | None) -> dict[str, str]:
    settings = ((item or {}).get("properties") or {}).get("configurationSettings") or {}
    return {str(key): str(value) for key, value in settings.items() if value is not None}


def _switch(value: str) -> str:
    return value.lower() if value.lower() in ("true", "false") else value


# --- health ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Health:
    """What Azure says about an installed extension."""

    ok: bool
    reason: str


def health(item: Mapping[str, Any]) -> Health:
    """From provisioningState, errorInfo and statuses of the extension resource."""
    properties = item.get("properties") or {}
    state = str(properties.get("provisioningState") or "unknown")
    reasons = failure_reasons(item)
    version = properties.get("currentVersion") or properties.get("version")
    if state == "Succeeded" and not reasons:
        return Health(True, f"{item.get('name')}" + (f" {version}" if version else ""))
    return Health(False, "; ".join([f"{item.get('name')} is {state}", *reasons]))


def failure_reasons(item: Mapping[str, Any]) -> list[str]:
    """Every message of an error, without repeats."""
    properties = item.get("properties") or {}
    statuses = [
        row
        for row in properties.get("statuses") or ()
        if str(row.get("level") or "").lower() == "error"
    ]
    reasons = [*messages(properties.get("errorInfo")), *map(message, statuses)]
    return [text for text in dict.fromkeys(reasons) if text]


def description(item: Mapping[str, Any]) -> str:
    """The installed extension: version, settings, and what to do about its errors."""
    properties = item["properties"]
    version = properties.get("currentVersion") or properties.get("version")
    pinned = "" if properties.get("autoUpgradeMinorVersion", True) else " (pinned)"
    rows = {
        "name": item.get("name"),
        "version": f"{version}{pinned}",
        "release train": properties.get("releaseTrain"),
        "state": properties.get("provisioningState"),
    }
    settings = [
        (key, printable(value), "undocumented" if key.startswith(UNDOCUMENTED) else "")
        for key, value in sorted(settings_of(item).items())
    ]
    return "\n".join(
        [
            *(f"{key:<14} {printable(str(value))}" for key, value in rows.items()),
            "",
            table(["SETTING", "VALUE", ""], settings),
            *(
                f"\nerror: {printable(reason)}\n  -> {advice(reason)}"
                for reason in failure_reasons(item)
            ),
        ]
    )


# Part of a failure's text in lower case, and below it what to do.
# https://learn.microsoft.com/azure/machine-learning/how-to-troubleshoot-kubernetes-extension
ADVICE = """\
name that is still in use
  an earlier install holds the name: wait about an hour, or see `helm list -Aa`
operation (install/upgrade/rollback) is in progress
  an earlier operation is not finished: try again in an hour
because it is being terminated
  an uninstall is not finished: wait until the namespace azureml is gone
path not found
  that version does not exist: leave out --extension-version to get the latest
failed to resolve the extension version
  no such version on this release train in this region
invalid ownership metadata
  a resource of that name already exists: if Volcano is installed, use --no-volcano
extension-immutable-values
  register Microsoft.KubernetesConfiguration and restart the cluster's extension agent
load_balancer_not_support
  --set inferenceRouterServiceType=NodePort or ClusterIP
insufficient_node
  three nodes are needed for the router: --set inferenceRouterHA=False
prometheus_conflict
  a Prometheus operator already exists: --set installPromOp=False
bad_network_connectivity
  the cluster cannot reach what AzureML needs: check firewall and proxy
timed out waiting
  pods of the extension did not start: `kubectl get pods,events -n azureml`
"""
MORE = "the cluster's own report: `kubectl describe configmap -n azureml arcml-healthcheck`"


def advice(text: str) -> str:
    """What to do about a failure."""
    lines = ADVICE.splitlines()
    rows = zip(lines[::2], lines[1::2], strict=True)
    return next((todo.strip() for part, todo in rows if part in text.lower()), MORE)


# The setting of the extension that names a ConfigMap in its namespace, and the key in that.
SCHEDULER_SETTING = "volcanoScheduler.schedulerConfigMap"
SCHEDULER_CONFIG_KEY = "volcano-scheduler.conf"
SCHEDULER_CONFIG_NAME = "volcano-from-zero"
# Both only let a job in if the nodes that are there have room for it: JobEnqueueable in
# volcano-sh/volcano, pkg/scheduler/plugins.
HOLDING_PLUGINS = ("overcommit", "proportion")


def config_map_text() -> str:
    """The ConfigMap for `kubectl apply`."""
    from arc_toolkit.resources import render

    return render(
        "volcano_from_zero.yaml.j2", name=SCHEDULER_CONFIG_NAME, namespace=RELEASE_NAMESPACE
    )


def holding_problem(config_map: Mapping[str, Any] | None) -> str | None:
    """Why this configuration keeps a pool at zero nodes; None if it does not for long."""
    if config_map is None:
        return "there is no such ConfigMap"
    text = (config_map.get("data") or {}).get(SCHEDULER_CONFIG_KEY)
    if not text:
        return f"it has no {SCHEDULER_CONFIG_KEY}"
    import yaml

    try:
        config = yaml.safe_load(text)
        plugins = [row for tier in config["tiers"] for row in tier["plugins"] or ()]
        names = {row["name"]: row for row in plugins}
        actions = [word.strip() for word in config["actions"].split(",")]
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        return f"its {SCHEDULER_CONFIG_KEY} is not a scheduler configuration"
    holding = [name for name in HOLDING_PLUGINS if name in names]
    if "enqueue" not in actions or not holding:
        return None
    text = (
        f"its {' and '.join(holding)} keep a job without pods "
        "until the nodes that are there have room for it"
    )
    sla = names.get("sla")
    if sla is None:
        return text
    if isinstance(arguments := sla.get("arguments"), dict) and arguments.get("sla-waiting-time"):
        return None
    if "sla-waiting-time" in sla:
        return (
            f"{text}: sla-waiting-time is beside `arguments`, not in it, so that it has no effect"
        )
    return text
