"""`cluster preflight`: what AzureML needs on this cluster, what is missing, and the command that fixes it."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from arc_toolkit.cli import cluster_azure, cluster_options
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import CLUSTER, add_options
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.output.jsonout import document
from arc_toolkit.output.safe import printable

if TYPE_CHECKING:
    from arc_toolkit.azure.preflight import Check

COLORS = {"ok": "green", "not ok": "red", "cannot tell": "yellow"}


OPTIONS = """
  --only {azure,cluster}    leave out the checks of the other side (and need no access to it)
  --format {text,json} [text]    output format
"""
EPILOG = """\
Reads only. Exit code 0 if every check is ok, else 1.

examples:
  arc-toolkit cluster preflight --cluster my-aks --resource-group my-rg --workspace my-ws
  arc-toolkit cluster preflight --only cluster
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, OPTIONS + CLUSTER)
    cluster_azure.add_scope_options(parser, workspace=True)
    parser.epilog = cluster_azure.where_text(workspace=True) + EPILOG


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azure import preflight_facts
    from arc_toolkit.azure.preflight import checks, different_cluster
    from arc_toolkit.azure.preflight_facts import Facts, UnknownFact, unknown

    resolver = cluster_azure.resolver(args)
    azure = unknown("azure", "left out: --only cluster")
    cluster = unknown("cluster", "left out: --only azure")
    server = None
    if args.only != "cluster":
        azure = preflight_facts.azure_side(
            resolver,
            args.cluster_type,
            lambda: cluster_azure.session(resolver, console),
            console.progress,
        )
    if args.only != "azure":
        try:
            client = cluster_options.connect(args, console)
            server = client.server
            cluster = preflight_facts.cluster_side(client, console.progress, azure)
        except ArcError as error:
            cluster = unknown("cluster", str(error))
    facts = Facts(**azure, **cluster)
    if (
        server
        and not isinstance(facts.resource, UnknownFact)
        and (warning := different_cluster(server, facts.resource))
    ):
        console.warn(warning)
    rows = checks(facts, args.only)
    fixes = [command_text(check, args) for check in rows]
    console.out(_json(rows, fixes) if args.format == "json" else _text(rows, fixes, console))
    console.note(", ".join(f"{count} {state}" for state, count in _counts(rows).items() if count))
    return OK if all(check.state == "ok" for check in rows) else FOUND


def _counts(rows: list[Check]) -> dict[str, int]:
    return {state: sum(check.state == state for check in rows) for state in COLORS}


def _text(rows: list[Check], fixes: list[str | None], console: Console) -> str:
    lines = []
    width = max(len(check.name) for check in rows)
    for check, fix in zip(rows, fixes, strict=True):
        state = console.style(f"{check.state:<11}", COLORS[check.state])
        lines.append(f"{state}  {check.name:<{width}}  {printable(check.reason)}")
        if fix:
            lines.append(f"{'':11}  {'':{width}}  -> {console.style(printable(fix), 'bold')}")
    return "\n".join(lines)


def _json(rows: list[Check], fixes: list[str | None]) -> str:
    content = [
        {
            "name": check.name,
            "side": check.side,
            "state": check.state,
            "reason": check.reason,
            "fix": fix,
        }
        for check, fix in zip(rows, fixes, strict=True)
    ]
    return document("cluster-preflight", {"summary": _counts(rows), "checks": content})


def command_text(check: Check, args: argparse.Namespace) -> str | None:
    """The command that fixes it, with the options that were used here, so that it means the same cluster."""
    if check.command is None:
        return None
    words = [check.command.text]
    for name in check.command.options.value:
        value = getattr(args, name)
        if value and (name, value) != ("cluster_type", cluster_azure.DEFAULT_CLUSTER_TYPE):
            words += [f"--{name.replace('_', '-')}", shlex.quote(value)]
    return " ".join(words)
