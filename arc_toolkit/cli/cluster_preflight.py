"""`cluster preflight`: what AzureML needs on this cluster, what is missing, and the command that mends it."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from arc_toolkit.cli import cluster_azure, live
from arc_toolkit.console import Console
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.output.jsonout import document
from arc_toolkit.output.safe import printable

if TYPE_CHECKING:
    from arc_toolkit.azure.preflight import Check

COLORS = {"ok": "green", "not ok": "red", "cannot tell": "yellow"}


def configure(parser: argparse.ArgumentParser) -> None:
    cluster_azure.add_options(parser, workspace=True)
    live.add_options(parser)
    parser.add_argument(
        "--only",
        choices=["azure", "cluster"],
        help="leave out the checks of the other side (and need no access to it)",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.epilog = (
        f"{cluster_azure.where_text(workspace=True)}\n\nReads only. Exit code 0 if every check is ok, else 1.\n\n"
        "examples:\n"
        "  arc-toolkit cluster preflight --cluster my-aks --resource-group my-rg --workspace my-ws\n"
        "  arc-toolkit cluster preflight --only cluster"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azure import gather
    from arc_toolkit.azure.preflight import UnknownFact, checks, different_cluster

    found = cluster_azure.resolver(args)
    azure = gather.unknown("azure", "left out: --only cluster")
    cluster = gather.unknown("cluster", "left out: --only azure")
    server = None
    if args.only != "cluster":
        azure = gather.azure_side(
            found, args.cluster_type, lambda: cluster_azure.session(found, console), console.progress
        )
    if args.only != "azure":
        try:
            client = live.connect(args)
            server = client.server
            cluster = gather.cluster_side(client, console.progress)
        except ArcError as error:
            cluster = gather.unknown("cluster", str(error))
    facts = gather.facts(azure, cluster)
    if (
        server
        and not isinstance(facts.resource, UnknownFact)
        and (warning := different_cluster(server, facts.resource))
    ):
        console.warn(warning)
    rows = [_pastable(check, args) for check in checks(facts, args.only)]
    console.out(_json(rows) if args.format == "json" else _text(rows, console))
    console.note(", ".join(f"{count} {state}" for state, count in _counts(rows).items() if count))
    return OK if all(check.state == "ok" for check in rows) else FOUND


def _counts(rows: list[Check]) -> dict[str, int]:
    return {state: sum(check.state == state for check in rows) for state in COLORS}


def _text(rows: list[Check], console: Console) -> str:
    lines = []
    width = max(len(check.name) for check in rows)
    for check in rows:
        state = console.style(f"{check.state:<11}", COLORS[check.state])
        lines.append(f"{state}  {check.name:<{width}}  {printable(check.reason)}")
        if check.mend:
            lines.append(f"{'':11}  {'':{width}}  -> {console.style(printable(check.mend), 'bold')}")
    return "\n".join(lines)


def _json(rows: list[Check]) -> str:
    payload: dict[str, Any] = {"summary": _counts(rows), "checks": [asdict(check) for check in rows]}
    return document("cluster-preflight", payload)


def _pastable(check: Check, args: argparse.Namespace) -> Check:
    """The command with the options that were given here, so that it means the same cluster."""
    if check.mend is None:
        return check
    azure = ["subscription", "resource_group", "cluster"]
    if check.mend.startswith("arc-toolkit cluster attach"):
        azure.append("workspace_resource_group")
    names = {
        "arc-toolkit cluster extension": azure,
        "arc-toolkit cluster attach": azure,
        "az": ["subscription"],
        "arc-toolkit": ["kubeconfig", "context"],
    }
    wanted = next(options for start, options in names.items() if check.mend.startswith(start))
    words = [check.mend]
    for name in wanted:
        option, value = f"--{name.replace('_', '-')}", getattr(args, name)
        if value:
            words += [option, shlex.quote(value)]
    if "arc-toolkit cluster " in check.mend and args.cluster_type != "managedClusters" and wanted is azure:
        words += ["--cluster-type", args.cluster_type]
    return replace(check, mend=" ".join(words))
