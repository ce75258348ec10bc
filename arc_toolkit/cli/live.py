"""A live cluster for the commands that size: which cluster, its nodes, applying types, drift, watching."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.main import REPEATED
from arc_toolkit.errors import FOUND, OK, ArcError

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client
    from arc_toolkit.cluster.live_types import ApplyResult
    from arc_toolkit.kube.nodes import Node
    from arc_toolkit.sizing.fits import Fit
    from arc_toolkit.sizing.instance_types import InstanceType
    from arc_toolkit.sizing.node_selection import Selection
    from arc_toolkit.sizing.schedulable import Assumptions, Schedulable

_SETTLE_SECONDS = 2  # nodes of a pool change together
_RECHECK_SECONDS = 300  # what no node shows, such as a new DaemonSet

NO_TYPES = "the cluster has no InstanceTypes"
DRIFT = ""  # what --check without a folder means: compare with the cluster


def add_options(parser: argparse.ArgumentParser, *, source: bool = False) -> None:
    """Which cluster, and as whom; with `source` also the option that says to use one."""
    group = parser.add_argument_group("which cluster")
    if source:
        group.add_argument(
            "--from-cluster", action="store_true", help="size for the nodes of a live cluster"
        )
    group.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig (default: the current one)"
    )
    group.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="default: $KUBECONFIG, ~/.kube/config, or the pod's account",
    )
    group.add_argument(
        "--as", dest="as_user", metavar="USER", help="act with the rights of this user"
    )


def add_look_options(parser: argparse.ArgumentParser) -> None:
    """What `cluster nodes` and `cluster instance-types` share."""
    parser.add_argument(
        "--reserve", metavar="5%|QUANTITY", help="the extension's reservation (5%%)"
    )
    parser.add_argument(
        "--tolerate", **REPEATED, metavar="KEY[=VALUE]", help="a taint that your jobs tolerate"
    )
    parser.add_argument(
        "--architecture", default="amd64", choices=["amd64", "arm64"], help="of your jobs (amd64)"
    )
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument(
        "--watch", action="store_true", help="again whenever a node changes, until Ctrl-C"
    )
    add_options(parser)


def assumptions(args: argparse.Namespace) -> Assumptions:
    """Those of `add_look_options`; all else is read from the nodes."""
    from arc_toolkit.sizing.schedulable import Assumptions, Reserve

    return Assumptions(reserve=Reserve() if args.reserve is None else Reserve.parse(args.reserve))


def add_actions(parser: argparse.ArgumentParser) -> None:
    """What to do in the cluster."""
    group = parser.add_argument_group("in the cluster")
    group.add_argument(
        "--apply", action="store_true", help="apply the types, server-side, as arc-toolkit"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="with --apply: the server says what it would do"
    )
    group.add_argument(
        "--force-conflicts", action="store_true", help="take over fields that another manager owns"
    )
    group.add_argument(
        "--prune",
        action="store_true",
        help="with --apply: delete types of arc-toolkit that this run replaces, after asking",
    )
    group.add_argument(
        "--yes",
        "-y",
        action="store_true",
        help="accept types that may run on nodes they were not sized for; with --prune: do not ask before deleting",
    )
    group.add_argument(
        "--watch", action="store_true", help="with --check: again whenever a node changes"
    )


def check_options(args: argparse.Namespace) -> None:
    """Refuse combinations that have no meaning."""
    if args.from_cluster and (args.sku or args.nodes or args.pods):
        raise ArcError(
            "--from-cluster reads nodes and pods by itself: leave out --sku, --nodes and --pods"
        )
    for option in ("dry_run", "force_conflicts", "prune"):
        if getattr(args, option) and not args.apply:
            raise ArcError(f"--{option.replace('_', '-')} goes with --apply")
    if args.check is not None and args.apply:
        raise ArcError("--check changes nothing: leave out --apply")
    if args.check == DRIFT and not args.from_cluster:
        raise ArcError("--check needs a folder to compare with, or --from-cluster")
    if args.watch and not (args.from_cluster and args.check == DRIFT):
        raise ArcError("--watch goes with --from-cluster --check")


def connect(args: argparse.Namespace, console: Console) -> Client:
    """The cluster that the options mean; it is announced if it hangs."""
    from arc_toolkit.cluster import client

    return client.connect(args.kubeconfig, args.context, args.as_user, console.warn)


def collect(args: argparse.Namespace, client: Client, console: Console) -> Selection:
    """What sizing needs of the cluster's nodes and pods, as the options say."""
    from arc_toolkit.cli import node_options
    from arc_toolkit.cluster import snapshot

    nodes = snapshot.nodes(client, console.progress)
    pods = snapshot.pods(client, console.progress)
    return node_options.select(args, nodes, pods, source="cluster", where=client.where)


# --- apply ------------------------------------------------------------------------------------------------------


def present_types(client: Client) -> dict[str, dict[str, Any]]:
    """The InstanceTypes of the cluster by name."""
    from arc_toolkit.cluster import live_types

    return live_types.read(client)


def made_here(present: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Those that arc-toolkit applied."""
    if not present:
        return {}
    from arc_toolkit.cluster.outdated_types import is_ours

    return {name: item for name, item in present.items() if is_ours(item)}


def apply(
    args: argparse.Namespace,
    client: Client,
    types: Sequence[InstanceType],
    present: Mapping[str, dict[str, Any]],
    selection: Selection,
    console: Console,
) -> int:
    """Apply the types, prune if asked, and print one line for each; 1 if one is not as it was generated."""
    from arc_toolkit.cluster import live_types, outdated_types

    dry_run, as_json = args.dry_run, args.format == "json"
    manifests = [entry.manifest() for entry in types]
    old: list[dict[str, Any]] = []
    kept: list[tuple[dict[str, Any], str]] = []
    if args.prune:
        old, kept = outdated_types.outdated(
            manifests, present, outdated_types.seen_nodes(selection)
        )
        if old and not _may_delete(old, manifests, args, console):
            kept, old = [*kept, *((item, "not confirmed") for item in old)], []
    results: list[ApplyResult] = []
    suffix = " (server dry run)" if dry_run else ""

    def report(rows: Iterable[ApplyResult]) -> None:
        for row in rows:
            results.append(row)
            if not as_json:
                console.out(
                    f"{row.name} {row.action}{suffix}" + (f": {row.detail}" if row.detail else "")
                )

    failure: ArcError | None = None
    try:
        report(
            live_types.apply(
                client, manifests, present, force=args.force_conflicts, dry_run=dry_run
            )
        )
        report(outdated_types.prune(client, old, dry_run=dry_run))
    except ArcError as error:
        names = [item["metadata"]["name"] for item in [*manifests, *old]]
        failure = _stopped(error, names[len(results) :], report, done=len(results))
    report(
        live_types.ApplyResult(item["metadata"]["name"], "kept", reason) for item, reason in kept
    )
    if as_json:
        from arc_toolkit.output.jsonout import document

        rows = [{"name": row.name, "action": row.action, "detail": row.detail} for row in results]
        console.out(document("apply-instance-types", {"dry_run": dry_run, "results": rows}))
    if failure:
        raise failure
    actions = [row.action for row in results]
    if conflicts := actions.count("conflict"):
        console.warn(
            f"{conflicts} of {len(results)} not changed; --force-conflicts takes the fields over"
        )
    return FOUND if any(action in live_types.UNSOLVED for action in actions) else OK


def _may_delete(
    items: Sequence[dict[str, Any]],
    manifests: Sequence[dict[str, Any]],
    args: argparse.Namespace,
    console: Console,
) -> bool:
    """Show what would be deleted, and ask; nothing has been sent at this point."""
    from arc_toolkit.sizing.type_names import made_for

    new_names = {made_for(manifest): manifest["metadata"]["name"] for manifest in manifests}
    names = ", ".join(item["metadata"]["name"] for item in items)
    console.warn(f"made by arc-toolkit and replaced by other types, to be deleted: {names}")
    for item in items:
        if new_name := new_names.get(made_for(item)):
            name = item["metadata"]["name"]
            console.warn(
                f"{name} is called {new_name} now: jobs that name {name} would no longer start"
            )
    return bool(args.dry_run or args.yes) or console.ask("delete them?")


def _stopped(
    error: ArcError,
    names: Sequence[str],
    report: Callable[[Iterable[ApplyResult]], None],
    *,
    done: int,
) -> ArcError:
    """The error with what was done before it. The first of `names` was sent, the others were not."""
    from arc_toolkit.cluster.failures import Unreachable
    from arc_toolkit.cluster.live_types import ApplyResult

    lost = isinstance(error, Unreachable)
    report([ApplyResult(names[0], "unknown" if lost else "refused")])
    report(ApplyResult(name, "not sent") for name in names[1:])
    state = f"{names[0]} may have been changed or not" if lost else f"{names[0]} was refused"
    return ArcError(
        f"{error}; before that {done} of {done + len(names)} types were done, {state}, and the rest was not sent: "
        "the same command completes it"
    )


# --- drift ------------------------------------------------------------------------------------------------------


def check(args: argparse.Namespace, client: Client, console: Console) -> int:
    """Which types of the cluster no longer fit; 1 if there are any."""
    from arc_toolkit.cluster import live_types
    from arc_toolkit.sizing import fits

    def look() -> int:
        selection = collect(args, client, console)
        rows = fits.check(live_types.read(client), selection.candidates)
        if args.format == "json":
            console.out(fits_json("check-instance-types", rows))
        else:
            console.out(drift_text(rows, console))
        return FOUND if any(fit.drifted for fit in rows) else OK

    return watch(client, console, look) if args.watch else look()


def drift_text(rows: list[Fit], console: Console) -> str:
    """A table of all types, and for each that drifted why, with the waterfall of the node that takes fewest."""
    if not rows:
        return NO_TYPES
    reasons = [reason_text(fit) for fit in rows if fit.reason]
    # Several types may fail on the same node; its waterfall is shown once.
    tightest = {fit.tightest.name: fit.tightest for fit in rows if fit.drifted and fit.tightest}
    parts = [
        types_table(rows, console),
        "\n".join(reasons),
        *map(waterfall_text, tightest.values()),
    ]
    return "\n\n".join(part for part in parts if part)


def reason_text(fit: Fit) -> str:
    return f"{fit.name}: {fit.state}, {fit.reason}" if fit.drifted else f"{fit.name}: {fit.reason}"


def types_table(fits: list[Fit], console: Console) -> str:
    """One row per type: what it asks, how many nodes it selects, how many of it each was meant to take, and takes."""
    from arc_toolkit.kube.quantities import cpu_text, memory_text
    from arc_toolkit.output.table import table

    rows = []
    for fit in fits:
        spec = fit.spec
        state = console.style(
            fit.state, "red" if fit.drifted else "yellow" if fit.state == "no node" else "green"
        )
        asked = (
            [cpu_text(spec.cpu_m), memory_text(spec.memory), str(spec.gpus or "")]
            if spec
            else ["", "", ""]
        )
        numbers = [
            str(len(fit.counts)),
            str(fit.meant) if spec else "",
            str(min(fit.counts, default="")),
        ]
        rows.append([fit.name, *asked, *numbers, state])
    headers = ["NAME", "CPU", "MEMORY", "GPUS", "NODES", "MEANT", "FITS", "STATE"]
    return table(headers, rows, right=(1, 2, 3, 4, 5, 6))


def waterfall_text(schedulable: Schedulable) -> str:
    """One node's way from nominal to schedulable."""
    from arc_toolkit.kube.quantities import KI
    from arc_toolkit.output.table import table

    rows = [
        [line.title, f"{line.cpu_m}m", f"{line.memory // KI}Ki", line.rule]
        for line in schedulable.lines
    ]
    return table([schedulable.name, "CPU", "MEMORY", "RULE"], rows, right=(1, 2))


def fits_json(command: str, fits: Iterable[Fit]) -> str:
    from arc_toolkit.output.jsonout import document
    from arc_toolkit.sizing.waterfall import schedulable_json

    rows = [
        {
            "name": fit.name,
            "state": fit.state,
            "drifted": fit.drifted,
            "reason": fit.reason,
            "nodes": len(fit.counts),
            "meant": fit.meant if fit.spec else None,
            "fits": min(fit.counts, default=None),
            "tightest": schedulable_json(fit.tightest) if fit.tightest else None,
        }
        for fit in fits
    ]
    return document(command, {"instance_types": rows})


# --- watching ---------------------------------------------------------------------------------------------------


def watch(client: Client, console: Console, look: Callable[[], int]) -> NoReturn:
    """Look now, and again whenever a node changes in a way that matters, until Ctrl-C."""
    from arc_toolkit.cluster.failures import Forbidden, Unreachable
    from arc_toolkit.cluster.snapshot import NODES

    while True:
        listing = client.list(NODES)
        known = {item["metadata"]["name"]: _facts(item) for item in listing}
        try:
            look()
        except (Unreachable, Forbidden):
            raise
        except ArcError as error:  # a cluster can be without a usable node for a while
            console.warn(str(error))
        _wait_for_change(client, known, listing.resource_version)
        console.note(time.strftime("-- %Y-%m-%d %H:%M:%S"))


def _wait_for_change(client: Client, known: dict[str, Node], resource_version: str) -> None:
    """Return when a node came, went or changed what sizing looks at, or after some minutes anyway."""
    from arc_toolkit.cluster.failures import Gone
    from arc_toolkit.cluster.snapshot import NODES

    try:
        for event in client.watch(NODES, resource_version, seconds=_RECHECK_SECONDS):
            item = event["object"]
            if event["type"] == "DELETED" or _facts(item) != known.get(item["metadata"]["name"]):
                time.sleep(_SETTLE_SECONDS)
                return
    except Gone:
        return


def _facts(item: dict[str, Any]) -> Node:
    """What sizing looks at."""
    from arc_toolkit.kube.nodes import parse_node

    return parse_node(item)
