"""`cluster extension show|install|update`: the AzureML extension of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arc_toolkit.azure import extension, operations
from arc_toolkit.azure.extension import SettingChange
from arc_toolkit.azure.scope import Cluster
from arc_toolkit.azure.session import Session
from arc_toolkit.cli import cluster_azure
from arc_toolkit.cli.main import add_common_options
from arc_toolkit.console import Console
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.output.jsonout import document
from arc_toolkit.output.safe import printable
from arc_toolkit.output.table import table

DEFAULT_NAME = "azureml"
DEFAULT_TRAIN = "stable"

ACTIONS = {
    "show": "show version, health and settings of the AzureML extension",
    "install": "install the AzureML extension on an AKS cluster, for training",
    "update": "change settings or version of the AzureML extension",
}

# Settings whose change touches jobs that run now; `az k8s-extension update` asks about the same ones.
_TOUCHES_JOBS = (extension.NODE_SELECTOR, extension.TRAINING, "installNvidiaDevicePlugin")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example:\n  arc-toolkit cluster extension show --cluster my-aks --resource-group my-rg"
    subparsers = parser.add_subparsers(dest="action", metavar="show|install|update", required=True)
    for action, summary in ACTIONS.items():
        sub = subparsers.add_parser(action, help=summary, description=summary[0].upper() + summary[1:] + ".")
        cluster_azure.add_options(sub, workspace=False)
        if action == "show":
            sub.add_argument("--format", choices=["text", "json"], default="text")
        else:
            _add_setting_options(sub, installing=action == "install")
            cluster_azure.add_change_options(sub)
        add_common_options(sub)
        extra = {"show": "", "install": " --spot --dry-run", "update": " --skip-resource-validation --dry-run"}[
            action
        ]
        sub.epilog = (
            f"{cluster_azure.where_text(workspace=False)}\n\n"
            f"example:\n  arc-toolkit cluster extension {action} --cluster my-aks --resource-group my-rg{extra}"
        )


def _add_setting_options(parser: argparse.ArgumentParser, *, installing: bool) -> None:
    group = parser.add_argument_group("settings")
    switch = argparse.BooleanOptionalAction
    on = " (default: on)" if installing else ""
    group.add_argument("--training", action=switch, help=f"run training jobs: {extension.TRAINING}{on}")
    group.add_argument("--volcano", action=switch, help=f"install the Volcano scheduler: {extension.VOLCANO}{on}")
    group.add_argument(
        "--skip-resource-validation",
        action=switch,
        help=f"for pools that scale from zero nodes: {extension.SKIP_VALIDATION}",
    )
    group.add_argument(
        "--node-selector",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="put the extension's own pods on nodes with this label (again for more)",
    )
    group.add_argument(
        "--spot",
        action="store_true",
        help=f"let job pods go to AKS spot pools: tolerate {extension.SPOT_TOLERATION} by the setting "
        f"{extension.TOLERATION}, which is UNDOCUMENTED",
    )
    group.add_argument(
        "--toleration",
        action="append",
        default=[],
        metavar="TAINT",
        help=f"KEY=VALUE:EFFECT or KEY:EFFECT that job pods shall tolerate; {extension.TOLERATION} is UNDOCUMENTED",
    )
    group.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting of the extension"
    )
    if installing:
        group.add_argument("--name", default=DEFAULT_NAME, help="name of the extension (default: %(default)s)")
    train = f" (default: {DEFAULT_TRAIN})" if installing else ""
    group.add_argument("--release-train", metavar="NAME", help=f"stable or preview{train}")
    group.add_argument(
        "--extension-version", metavar="VERSION", help="pin this version; without it minor upgrades are automatic"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    found = cluster_azure.resolver(args)
    cluster = found.cluster(args.cluster_type)
    if args.action == "show":
        return _show(cluster_azure.session(found, console), cluster, args, console)
    wanted = wanted_settings(args)
    if args.action == "install":
        if cluster.kind != "managedClusters":
            raise ArcError(_arc_refusal(cluster, args.name, wanted))
        return _install(cluster_azure.session(found, console), cluster, wanted, args, console)
    return _update(cluster_azure.session(found, console), cluster, wanted, args, console)


def wanted_settings(args: argparse.Namespace) -> dict[str, str]:
    """What the options say, without tolerations: their indices depend on what is there."""
    found: dict[str, str] = {}
    switches = {
        extension.TRAINING: args.training,
        extension.VOLCANO: args.volcano,
        extension.SKIP_VALIDATION: args.skip_resource_validation,
    }
    for key, value in switches.items():
        if value is not None:
            found[key] = str(value)
    pairs = [extension.node_selector(text) for text in args.node_selector]
    for text in args.set:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ArcError(f"--set {text!r}: write KEY=VALUE")
        if key in ("sslCertPemFile", "sslKeyPemFile"):
            raise ArcError(
                f"--set {key}: that is a protected setting; put certificate and key into a secret: sslSecret"
            )
        pairs.append((key, value))
    for key, value in pairs:
        if found.setdefault(key, value) != value:
            raise ArcError(f"{key} is given twice, as {found[key]!r} and {value!r}")
    return found


def _show(session: Session, cluster: Cluster, args: argparse.Namespace, console: Console) -> int:
    item = operations.find(session, cluster)
    health = extension.health(item) if item else None
    if args.format == "json":
        payload = {"cluster": cluster.resource_id, "healthy": bool(health and health.ok), "extension": item}
        console.out(document("cluster-extension", payload))
        return OK if health and health.ok else FOUND
    if item is None or health is None:
        console.out(f"the AzureML extension is not installed on {cluster.name}")
        console.note("install it with `arc-toolkit cluster extension install`")
        return FOUND
    properties = item["properties"]
    pinned = not properties.get("autoUpgradeMinorVersion", True)
    rows = [
        ("name", item.get("name")),
        (
            "version",
            f"{properties.get('currentVersion') or properties.get('version')}{' (pinned)' if pinned else ''}",
        ),
        ("release train", properties.get("releaseTrain")),
        ("state", properties.get("provisioningState")),
    ]
    console.out("\n".join(f"{key:<14} {printable(str(value))}" for key, value in rows))
    settings = sorted(extension.settings_of(item).items())
    marked = [
        (key, printable(value), "undocumented" if SettingChange(key, None, value).undocumented else "")
        for key, value in settings
    ]
    console.out("\n" + table(["SETTING", "VALUE", ""], marked))
    for reason in extension.failure_reasons(item):
        console.out(f"\nerror: {printable(reason)}\n  -> {extension.advice(reason)}")
    return OK if health.ok else FOUND


def _install(
    session: Session, cluster: Cluster, wanted: Mapping[str, str], args: argparse.Namespace, console: Console
) -> int:
    console.progress("reading the cluster from Azure")
    resource = operations.cluster_resource(session, cluster)
    _check_provider(session, cluster)
    there = operations.find(session, cluster)
    name = args.name
    if there is not None:
        name = str(there.get("name"))
        if (there.get("properties") or {}).get("provisioningState") != "Failed":
            raise ArcError(
                f"the AzureML extension is installed already, as {name!r}: use `arc-toolkit cluster extension update`"
            )
        console.note(f"the extension {name!r} is there, but Failed: installing it again")
    settings = {
        **extension.cluster_settings(cluster, resource),
        extension.TRAINING: "True",
        extension.INFERENCE: "False",
        extension.VOLCANO: "True",
        **wanted,
    }
    settings |= extension.derived_settings(settings) | extension.add_tolerations({}, _tolerations(args))
    extension.check_settings(settings)
    plan = extension.changes({}, settings)
    _show_plan(f"install the AzureML extension {name!r} on {cluster.name}", plan, args, console)
    body = extension.install_body(settings, args.release_train or DEFAULT_TRAIN, args.extension_version)
    return _send(operations.install, session, cluster, name, body, args, console)


def _update(
    session: Session, cluster: Cluster, wanted: Mapping[str, str], args: argparse.Namespace, console: Console
) -> int:
    console.progress("reading the extension from Azure")
    item = operations.find(session, cluster)
    if item is None:
        raise ArcError(
            f"the AzureML extension is not installed on {cluster.name}: run `arc-toolkit cluster extension install`"
        )
    there, properties = extension.settings_of(item), item["properties"]
    settings = {
        **wanted,
        **extension.derived_settings(wanted),
        **extension.add_tolerations(there, _tolerations(args)),
    }
    extension.check_settings({**there, **settings})
    plan = extension.changes(there, settings)
    train = args.release_train
    if train is not None and train.lower() == str(properties.get("releaseTrain", "")).lower():
        train = None
    version = args.extension_version
    if (
        version is not None
        and version == properties.get("version")
        and not properties.get("autoUpgradeMinorVersion", True)
    ):
        version = None
    if not plan and train is None and version is None:
        console.out(f"nothing to change: {item['name']} on {cluster.name} has these settings already")
        return OK
    title = f"update the AzureML extension {item['name']!r} on {cluster.name}"
    title += f", release train {train}" if train else ""
    title += f", pinned to version {version}" if version else ""
    _show_plan(title, plan, args, console)
    body = extension.update_body(plan, train, version)
    return _send(operations.update, session, cluster, item["name"], body, args, console)


def _send(
    call: Callable[..., Mapping[str, Any]],
    session: Session,
    cluster: Cluster,
    name: str,
    body: Mapping[str, Any],
    args: argparse.Namespace,
    console: Console,
) -> int:
    done = cluster_azure.send(
        lambda: call(session, cluster, name, body, console.progress, dry_run=args.dry_run),
        "arc-toolkit cluster extension show",
        args,
        console,
    )
    if done is None:
        return OK
    health = extension.health(done)
    console.out(f"{'installed' if args.action == 'install' else 'updated'} {health.reason} on {cluster.name}")
    return OK


def _show_plan(title: str, plan: Sequence[SettingChange], args: argparse.Namespace, console: Console) -> None:
    console.note(f"{title}:")
    for change in plan:
        mark = "  (undocumented by Microsoft)" if change.undocumented else ""
        if change.before is None:
            console.note(printable(f"  + {change.key} = {change.after}{mark}"))
        else:
            console.note(printable(f"  ~ {change.key}: {change.before} -> {change.after}{mark}"))
    if args.action == "update" and any(change.key.startswith(_TOUCHES_JOBS) for change in plan):
        console.warn(
            "this touches jobs that run now; an update can change or add a node selector but not remove one"
        )


def _tolerations(args: argparse.Namespace) -> list[Toleration]:
    texts = [extension.SPOT_TOLERATION] * args.spot + args.toleration
    return [Toleration.parse(text) for text in texts]


def _check_provider(session: Session, cluster: Cluster) -> None:
    """Registering is a change of the whole subscription, which the SDK would otherwise do unasked."""
    state = operations.provider_state(session, cluster.subscription)
    if state in ("NotRegistered", "Unregistered"):
        raise ArcError(
            f"{operations.PROVIDER} is {state} in this subscription: "
            f"run `az provider register --namespace {operations.PROVIDER} --subscription {cluster.subscription}`"
        )


def _arc_refusal(cluster: Cluster, name: str, wanted: Mapping[str, str]) -> str:
    import shlex

    settings = {extension.TRAINING: "True", **wanted}
    config = " ".join(shlex.quote(f"{key}={value}") for key, value in settings.items())
    return (
        "an Arc cluster needs an Azure Relay, which only `az` makes: "
        f"run `az k8s-extension create --name {name} --extension-type {extension.EXTENSION_TYPE} "
        f"--cluster-type connectedClusters --cluster-name {cluster.name} --resource-group {cluster.resource_group} "
        f"--scope cluster --config {config}`"
    )
