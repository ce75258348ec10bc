"""`cluster extension show|install|update`: the AzureML extension of a cluster."""

from __future__ import annotations

import argparse

from arc_toolkit.azure import extension, operations
from arc_toolkit.azure.scope import Cluster
from arc_toolkit.azure.session import Session
from arc_toolkit.cli import cluster_azure
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.main import add_common_options
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.errors import FOUND, OK
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.output.json_document import document
from arc_toolkit.text import printable

DEFAULT_NAME = "azureml"

# Name -> what it does, and more options of the example
ACTIONS = {
    "show": ("show version, health and settings of the AzureML extension", ""),
    "install": (
        "install the AzureML extension on an AKS cluster, for training",
        " --spot --dry-run",
    ),
    "update": (
        "change settings or version of the AzureML extension",
        " --skip-resource-validation --dry-run",
    ),
}

# Settings whose change affects running jobs; `az k8s-extension update` asks about the same ones.
_TOUCHES_JOBS = (extension.NODE_SELECTOR, extension.TRAINING, "installNvidiaDevicePlugin")


SETTINGS = f"""
settings:
  --[no-]training       run training jobs: {extension.TRAINING} (default of install: on)
  --[no-]volcano        install the Volcano scheduler: {extension.VOLCANO} (default of install: on)
  --[no-]skip-resource-validation
                        for pools that scale from zero nodes: {extension.SKIP_VALIDATION}
  --node-selector KEY=VALUE ...
                        run the extension and ALL jobs only on nodes with this label; repeat for
                        more. An update can change a label and not remove it
  --spot                let job pods go to AKS spot pools: tolerate {extension.SPOT_TOLERATION}
                        by the setting {extension.TOLERATION}, which is UNDOCUMENTED
  --toleration TAINT ...
                        KEY=VALUE:EFFECT or KEY:EFFECT that job pods tolerate;
                        {extension.TOLERATION} is UNDOCUMENTED
  --set KEY=VALUE ...   any other setting of the extension
  --release-train NAME  stable or preview (default of install: {extension.DEFAULT_TRAIN})
  --extension-version VERSION
                        pin this version; without it minor upgrades are automatic
"""
# Action -> its own options
OPTIONS = {
    "show": "  --format {text,json} [text]    output format",
    "install": f"{SETTINGS}  --name NAME [{DEFAULT_NAME}]    name of the extension\n"
    + cluster_azure.CHANGE_OPTIONS,
    "update": SETTINGS + cluster_azure.CHANGE_OPTIONS,
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example:\n  arc-toolkit cluster extension show --cluster my-aks --resource-group my-rg"
    )
    subparsers = parser.add_subparsers(dest="action", metavar="show|install|update", required=True)
    for action, (summary, extra) in ACTIONS.items():
        description = summary[0].upper() + summary[1:] + "."
        sub = subparsers.add_parser(action, help=summary, description=description)
        cluster_azure.add_scope_options(sub, workspace=False)
        add_options(sub, OPTIONS[action])
        add_common_options(sub)
        sub.epilog = (
            f"{cluster_azure.where_text(workspace=False)}example:\n"
            f"  arc-toolkit cluster extension {action} --cluster my-aks --resource-group "
            f"my-rg{extra}"
        )


def run(args: argparse.Namespace, console: Console) -> int:
    resolver = cluster_azure.resolver(args)
    cluster = resolver.cluster(args.cluster_type)
    if args.action == "show":
        session = cluster_azure.session(resolver, console)
        return _show(session, cluster, console, as_json=args.format == "json")
    installing = args.action == "install"
    settings = extension.chosen_settings(
        {
            extension.TRAINING: args.training,
            extension.VOLCANO: args.volcano,
            extension.SKIP_VALIDATION: args.skip_resource_validation,
        },
        node_selector=args.node_selector,
        extra=args.set,
    )
    if installing and cluster.kind != "managedClusters":
        raise extension.arc_refusal(cluster, args.name, settings)
    texts = [extension.SPOT_TOLERATION] * args.spot + args.toleration
    tolerations = [Toleration.parse(text) for text in texts]
    options = extension.PlanOptions(
        settings, tolerations, args.release_train, args.extension_version
    )
    session = cluster_azure.session(resolver, console)
    console.progress("reading the cluster from Azure")
    plan: extension.ExtensionPlan | None
    if installing:
        resource = operations.cluster_resource(session, cluster)
        operations.check_provider(session, cluster)
        plan = extension.plan_install(
            cluster, resource, operations.find(session, cluster), args.name, options
        )
    else:
        plan = extension.plan_update(cluster, operations.find(session, cluster), options)
    if plan is None:
        console.out(
            f"nothing to change: the AzureML extension on {cluster.name} has these settings already"
        )
        return OK
    _show_plan(plan, console, updating=not installing)
    done = cluster_azure.send(
        args,
        lambda: operations.change(
            session,
            cluster,
            plan.name,
            plan.body,
            console.progress,
            installing=installing,
            dry_run=args.dry_run,
        ),
        "arc-toolkit cluster extension show",
        console,
    )
    if done is not None:
        verb = "installed" if installing else "updated"
        console.out(f"{verb} {extension.health(done).reason} on {cluster.name}")
    return OK


def _show(session: Session, cluster: Cluster, console: Console, *, as_json: bool) -> int:
    item = operations.find(session, cluster)
    health = extension.health(item) if item else None
    if as_json:
        payload = {
            "cluster": cluster.resource_id,
            "healthy": bool(health and health.ok),
            "extension": item,
        }
        console.out(document("cluster-extension", payload))
        return OK if health and health.ok else FOUND
    if item is None or health is None:
        console.out(f"the AzureML extension is not installed on {cluster.name}")
        console.note("install it with `arc-toolkit cluster extension install`")
        return FOUND
    console.out(extension.description(item))
    return OK if health.ok else FOUND


def _show_plan(plan: extension.ExtensionPlan, console: Console, *, updating: bool) -> None:
    for note in plan.notes:
        console.note(note)
    console.note(f"{plan.title}:")
    for change in plan.changes:
        console.note(printable(f"  {change}"))
    if updating and any(change.key.startswith(_TOUCHES_JOBS) for change in plan.changes):
        console.warn(
            "this affects running jobs: a node selector of the extension applies to every job, "
            "and an update can change or add one but not remove it"
        )
