"""`cluster preflight`: what AzureML needs on this cluster, what is missing, and how to fix it."""

from __future__ import annotations

import argparse

from arc_toolkit.cli import cluster_azure, cluster_options
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import CLUSTER, add_options
from arc_toolkit.errors import FOUND, OK, ArcError

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
    from arc_toolkit.azure.preflight import (
        checks,
        checks_json,
        checks_text,
        count_states,
        different_cluster,
    )
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
    if args.format == "json":
        console.out(checks_json(rows, vars(args)))
    else:
        console.out(checks_text(rows, vars(args), console.style))
    counts = count_states(rows).items()
    console.note(", ".join(f"{count} {state}" for state, count in counts if count))
    return OK if all(check.state == "ok" for check in rows) else FOUND
