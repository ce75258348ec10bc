"""What the subcommands that talk to Azure share: options, the session, and sending a request."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TypeVar

from arc_toolkit.azure.scope import DEFAULT_CLUSTER_TYPE, PROVIDERS, SOURCES, Resolver
from arc_toolkit.azure.session import Session, WouldSend
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options

_T = TypeVar("_T")


CHANGE_OPTIONS = """
changing things:
  --dry-run             print the request that would be sent, and send nothing
  -y, --yes             do not ask
"""


def where_text(*, workspace: bool) -> str:
    """For the end of --help: what is used instead of an option."""
    rows = []
    for name, source in SOURCES.items():
        ways = list(source.variables)
        if source.key:
            ways.append(f"`az configure --defaults {source.key}=...`")
        if name == "subscription":
            ways.append("`az account set`")
        if name == "workspace's resource group":
            ways.append("else the cluster's resource group")
        if workspace or not source.of_workspace:
            rows.append(f"  {source.option:<27} {', '.join(ways)}\n")
    return (
        "Without an option its environment variable is used, or else the default of `az`:\n"
        f"{''.join(rows)}"
        "Sign-in is by DefaultAzureCredential: `az login`, environment variables, managed identity "
        "and others.\n\n"
    )


def add_scope_options(parser: argparse.ArgumentParser, *, workspace: bool) -> None:
    """--subscription and its kind."""
    rows = "".join(
        f"  {source.option} {'ID' if name == 'subscription' else 'NAME'}  {source.help}\n"
        for name, source in SOURCES.items()
        if workspace or not source.of_workspace
    )
    types = f"{{{','.join(PROVIDERS)}}} [{DEFAULT_CLUSTER_TYPE}]"
    text = "managedClusters is AKS (the default), connectedClusters is Azure Arc"
    add_options(parser, f"where in Azure:\n{rows}  --cluster-type {types}  {text}")


def resolver(args: argparse.Namespace) -> Resolver:
    """Finds subscription, group, cluster and workspace from the options and all else."""
    values = {}
    for setting, source in SOURCES.items():
        values[setting] = getattr(args, source.option[2:].replace("-", "_"), None)
    return Resolver(values)


def session(resolver: Resolver, console: Console) -> Session:
    """Signed in, as far as that shows before the first request."""
    from arc_toolkit.azure import session as azure_session

    console.progress("signing in to Azure")
    for note in resolver.notes:
        console.detail(note)
    return azure_session.open_session(resolver.az.cloud)


def send(
    args: argparse.Namespace, call: Callable[[], _T], look: str, console: Console
) -> _T | None:
    """Ask, send and wait. None if the answer was no, or if a dry run printed the request."""
    if not args.dry_run:
        if not args.yes and not console.ask("send it?"):
            console.note("nothing was changed")
            return None
        console.note("waiting for Azure, which takes some minutes")
    try:
        return call()
    except WouldSend as request:
        console.note("dry run: nothing was sent; this is the request")
        console.out(f"{request.method} {request.path}")
        console.out(json.dumps(request.body, indent=2, ensure_ascii=False))
        return None
    except KeyboardInterrupt:
        console.warn(f"Azure goes on with it: look with `{look}`")
        raise
