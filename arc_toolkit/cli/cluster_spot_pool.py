"""`cluster spot-pool`: add a spot node pool to an AKS cluster, or print the equivalent for other tools."""

from __future__ import annotations

import argparse

from arc_toolkit.azure import operations
from arc_toolkit.azure.node_pools import add_pool
from arc_toolkit.azure.scope import Cluster
from arc_toolkit.azure.spot_pool import (
    EVICTION_POLICIES,
    FIXED_OPTIONS,
    ON_DEMAND_PRICE,
    SpotPool,
    check_cluster,
    pool_body,
    price_text,
    spot_pool,
)
from arc_toolkit.cli import cluster_azure
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.main import REPEATED
from arc_toolkit.errors import OK, ArcError
from arc_toolkit.kube.labels import labels_text

FORMATS = ("text", "az", "arm", "bicep", "terraform")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="name of the pool: at most 12 lower-case letters and digits"
    )
    pool = parser.add_argument_group("the pool")
    pool.add_argument(
        "--size", required=True, metavar="NAME", help="VM size, such as Standard_D64s_v5"
    )
    pool.add_argument(
        "--min", type=int, default=0, metavar="N", help="fewest nodes (default: %(default)s)"
    )
    pool.add_argument(
        "--max", type=int, default=4, metavar="N", help="most nodes (default: %(default)s)"
    )
    pool.add_argument(
        "--count", type=int, metavar="N", help="nodes to start with (default: as --min)"
    )
    pool.add_argument(
        "--eviction-policy",
        choices=EVICTION_POLICIES,
        default=EVICTION_POLICIES[0],
        help="what happens to an evicted node (default: %(default)s)",
    )
    pool.add_argument(
        "--max-price",
        default="-1",
        metavar="DOLLARS",
        help="per hour; -1 is at most the on-demand price, and no eviction because of the price (default)",
    )
    pool.add_argument(
        "--label", **REPEATED, metavar="KEY=VALUE", help="label of its nodes; repeat for more"
    )
    pool.add_argument(
        "--taint",
        **REPEATED,
        metavar="KEY=VALUE:EFFECT",
        help="taint beside AKS's own; repeat for more",
    )
    pool.add_argument(
        "--zone", **REPEATED, metavar="N", help="availability zone 1, 2 or 3; repeat for more"
    )
    for option in FIXED_OPTIONS:
        pool.add_argument(f"--{option}", help=argparse.SUPPRESS)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="az, arm, bicep, terraform: print the equivalent, without a sign-in, and send nothing",
    )
    cluster_azure.add_options(parser, workspace=False)
    cluster_azure.add_change_options(parser)
    parser.epilog = (
        f"{cluster_azure.where_text(workspace=False)}\n\n"
        "examples:\n"
        "  arc-toolkit cluster spot-pool spot --size D64s_v5 --cluster my-aks --resource-group my-rg --dry-run\n"
        "  arc-toolkit cluster spot-pool spot --size D64s_v5 --cluster my-aks --resource-group my-rg --format bicep"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    for option, (allowed, reason) in FIXED_OPTIONS.items():
        value = getattr(args, option.replace("-", "_"))
        if value is not None and (allowed is None or value.lower() != allowed.lower()):
            raise ArcError(f"--{option} {value}: {reason}")
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
    _show(pool, cluster, console)
    done = cluster_azure.send(
        args,
        lambda: add_pool(
            session, cluster, pool.name, pool_body(pool), console.progress, dry_run=args.dry_run
        ),
        f"az aks nodepool show --cluster-name {cluster.name} --name {pool.name}",
        console,
    )
    if done is not None:
        console.out(f"added the spot pool {pool.name} to {cluster.name}")
        console.note(
            "AzureML jobs do not tolerate its taint by themselves: see `arc-toolkit cluster preflight`"
        )
    return OK


def _show(pool: SpotPool, cluster: Cluster, console: Console) -> None:
    size = pool.size
    gpus = f", {size.node_gpus} GPUs" if size.gpus else ""
    limit = "at most the on-demand price"
    rows = {
        "size": f"{size.name} ({size.vcpus_available} vCPUs, {float(size.memory_gib):g} GiB{gpus})",
        "nodes": f"{pool.minimum} to {pool.maximum} by the autoscaler, {pool.count} at first",
        "eviction policy": pool.eviction_policy,
        "price": limit
        if pool.max_price == ON_DEMAND_PRICE
        else f"at most {price_text(pool.max_price)} USD per hour",
        "labels": labels_text(pool.labels),
        "taints": ", ".join(map(str, pool.taints)),
        "zones": ", ".join(pool.zones),
    }
    console.note(f"add the spot pool {pool.name!r} to {cluster.name}:")
    for key, value in rows.items():
        if value:
            console.note(f"  {key:<15}  {value}")
    console.note("priority, eviction policy and price cannot be changed later")
