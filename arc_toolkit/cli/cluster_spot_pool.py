"""`cluster spot-pool`: add a spot node pool to an AKS cluster, or print it for other tools."""

from __future__ import annotations

import argparse

from arc_toolkit.azure import operations
from arc_toolkit.azure.scope import Cluster
from arc_toolkit.azure.spot_pool import (
    check_cluster,
    pool_body,
    spot_pool,
)
from arc_toolkit.cli import cluster_azure
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.errors import OK, ArcError

OPTIONS = """
  name NAME                 name of the pool: at most 12 lower-case letters and digits
  --format {text,az,bicep} [text]    az, bicep: print the equivalent, without a sign-in, and send
                            nothing
the pool:
  --size NAME required      VM size, such as Standard_D64s_v5
  --min N [0]               minimum number of nodes
  --max N [4]               maximum number of nodes
  --count N                 nodes to start with (default: as --min)
  --eviction-policy {Delete,Deallocate} [Delete]    what happens to an evicted node
  --max-price DOLLARS [-1]  per hour; -1 is at most the on-demand price, and no eviction because of
                            the price (default)
  --label KEY=VALUE ...     label of its nodes; repeat for more
  --taint KEY=VALUE:EFFECT ...  taint beside AKS's own; repeat for more
  --zone N ...              availability zone 1, 2 or 3; repeat for more
"""
EXAMPLES = """\
examples:
  arc-toolkit cluster spot-pool spot --size D64s_v5 --cluster my-aks --resource-group my-rg \\
    --dry-run
  arc-toolkit cluster spot-pool spot --size D64s_v5 --cluster my-aks --resource-group my-rg \\
    --format bicep
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, OPTIONS, zone={"type": str})
    cluster_azure.add_scope_options(parser, workspace=False)
    add_options(parser, cluster_azure.CHANGE_OPTIONS)
    parser.epilog = cluster_azure.where_text(workspace=False) + EXAMPLES


def run(args: argparse.Namespace, console: Console) -> int:
    pool = spot_pool(
        args.name,
        args.size,
        minimum=args.min,
        maximum=args.max,
        count=args.count,
        eviction_policy=args.eviction_policy,
        max_price=args.max_price,
        labels=args.label,
        taints=args.taint,
        zones=args.zone,
    )
    if args.cluster_type != "managedClusters":
        raise ArcError(
            "an Arc cluster has no node pools in Azure: spot pools are for AKS (managedClusters)"
        )
    resolver = cluster_azure.resolver(args)
    for note in pool.notes:
        console.warn(note)
    if args.format != "text":
        from arc_toolkit.azure.spot_pool_formats import FORMATS as writers

        subscription = resolver.find("subscription") or ""
        target = Cluster(subscription, resolver.need("resource group"), resolver.need("cluster"))
        console.out(writers[args.format](pool, target))
        return OK
    cluster = resolver.cluster()
    session = cluster_azure.session(resolver, console)
    console.progress("reading the cluster from Azure")
    check_cluster(operations.cluster_resource(session, cluster), pool.name)
    console.note(f"add the spot pool {pool.name!r} to {cluster.name}:\n{pool.description}")
    console.note("priority, eviction policy and price cannot be changed later")
    done = cluster_azure.send(
        args,
        lambda: operations.add_pool(
            session, cluster, pool.name, pool_body(pool), console.progress, dry_run=args.dry_run
        ),
        f"az aks nodepool show --cluster-name {cluster.name} --name {pool.name}",
        console,
    )
    if done is not None:
        console.out(f"added the spot pool {pool.name} to {cluster.name}")
        console.note(
            "AzureML jobs do not tolerate its taint by default: see `arc-toolkit cluster preflight`"
        )
    return OK
