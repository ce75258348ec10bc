"""Applying generated InstanceTypes to a cluster, and finding those in it that no longer fit."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from arc_toolkit.cli import cluster_options
from arc_toolkit.cli.console import Console
from arc_toolkit.errors import FOUND, OK, ArcError

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client
    from arc_toolkit.sizing.instance_types import InstanceType
    from arc_toolkit.sizing.node_selection import Selection

OPTIONS = """
in the cluster:
  --apply               apply the types, server-side, as arc-toolkit
  --dry-run             with --apply: the server reports what it would do
  --force-conflicts     take over fields that another manager owns
  --repoint NAME ...    with --apply: give this name to the nodes of this run, even if the type in the
                        cluster is for other hardware
  --prune               with --apply: delete types of arc-toolkit that this run replaces, after
                        asking
  -y, --yes             accept types that may run on nodes they were not sized for; with --prune: do
                        not ask before deleting
  --watch               with --check: repeat whenever a node changes
"""


def check_options(args: argparse.Namespace) -> None:
    """Refuse combinations that have no meaning."""
    if args.from_cluster and (args.sku or args.nodes or args.pods):
        raise ArcError(
            "--from-cluster reads nodes and pods by itself: leave out --sku, --nodes and --pods"
        )
    for option in ("dry_run", "force_conflicts", "prune", "repoint"):
        if getattr(args, option) and not args.apply:
            raise ArcError(f"--{option.replace('_', '-')} goes with --apply")
    if args.check is not None and args.apply:
        raise ArcError("--check changes nothing: leave out --apply")
    if args.check == "" and not args.from_cluster:
        raise ArcError("--check needs a folder to compare with, or --from-cluster")
    if args.watch and not checks_cluster(args):
        raise ArcError("--watch goes with --from-cluster --check")


def checks_cluster(args: argparse.Namespace) -> bool:
    """Whether --check compares with the cluster: it names no folder."""
    return bool(args.from_cluster and args.check == "")


def apply(
    args: argparse.Namespace,
    client: Client,
    types: Sequence[InstanceType],
    present: Mapping[str, dict[str, Any]],
    selection: Selection,
    console: Console,
) -> int:
    """Apply the types, prune if asked, and print one line for each.

    The exit code is 1 if a type in the cluster is not as it was generated.
    """
    from arc_toolkit.cluster import live_types, outdated_types

    manifests = [entry.manifest() for entry in types]
    old: list[dict[str, Any]] = []
    unchanged: list[tuple[dict[str, Any], str]] = []
    if args.prune:
        old, unchanged = outdated_types.outdated_types(manifests, present, selection.candidates)
        if old and not _may_delete(old, manifests, args, console):
            unchanged += [(item, "not confirmed") for item in old]
            old = []
    as_json, suffix = args.format == "json", " (server dry run)" if args.dry_run else ""
    rows = []
    try:
        for row in outdated_types.apply_and_prune(
            client,
            manifests,
            present,
            old,
            unchanged,
            force=args.force_conflicts,
            dry_run=args.dry_run,
        ):
            rows.append({"name": row.name, "action": row.action, "detail": row.detail})
            if not as_json:
                detail = f": {row.detail}" if row.detail else ""
                console.out(f"{row.name} {row.action}{suffix}{detail}")
    finally:
        if as_json:
            from arc_toolkit.output.json_document import document

            payload = {"dry_run": args.dry_run, "results": rows}
            console.out(document("apply-instance-types", payload))
    actions = [row["action"] for row in rows]
    if conflicts := actions.count("conflict"):
        console.warn(
            f"{conflicts} of {len(rows)} not changed; --force-conflicts takes the fields over"
        )
    return FOUND if any(action in live_types.UNSOLVED for action in actions) else OK


def _may_delete(
    items: Sequence[dict[str, Any]],
    manifests: Sequence[dict[str, Any]],
    args: argparse.Namespace,
    console: Console,
) -> bool:
    """Show what would be deleted, and ask; nothing has been sent at this point."""
    from arc_toolkit.sizing.type_names import target_of_type

    new_names = {target_of_type(manifest): manifest["metadata"]["name"] for manifest in manifests}
    names = ", ".join(item["metadata"]["name"] for item in items)
    console.warn(f"made by arc-toolkit and replaced by other types, to be deleted: {names}")
    for item in items:
        if new_name := new_names.get(target_of_type(item)):
            name = item["metadata"]["name"]
            console.warn(
                f"{name} is called {new_name} now: jobs that name {name} would no longer start"
            )
    return bool(args.dry_run or args.yes) or console.ask("delete them?")


def check(args: argparse.Namespace, client: Client, console: Console) -> int:
    """Which types of the cluster no longer fit; 1 if there are any."""
    from arc_toolkit.cluster import live_types
    from arc_toolkit.sizing import fits, waterfall

    def show() -> int:
        selection = cluster_options.collect(args, client, console)
        rows = fits.check(live_types.read(client), selection.candidates)
        if args.format == "json":
            console.out(waterfall.fits_json("check-instance-types", rows))
        else:
            console.out(waterfall.drift_text(rows, console.style))
        return FOUND if any(fit.has_drifted for fit in rows) else OK

    return cluster_options.watch(client, console, show) if args.watch else show()
