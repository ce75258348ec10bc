"""A live cluster for the commands that size: which cluster, its nodes, and watching them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import CLUSTER, add_options
from arc_toolkit.errors import OK, ArcError

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client
    from arc_toolkit.sizing.fits import Candidate
    from arc_toolkit.sizing.node_selection import Selection

# What `cluster nodes` and `cluster instance-types` share.
LOOK_OPTIONS = """
  --reserve 5%|QUANTITY     reservation of the extension (default: 5%)
  --tolerate KEY[=VALUE] ...    a taint that your jobs tolerate
  --architecture {amd64,arm64} [amd64]    architecture of your jobs
  --format {table,json} [table]    output format
  --watch                   repeat whenever a node changes, until Ctrl-C
"""


def add_look_options(parser: argparse.ArgumentParser) -> None:
    add_options(parser, LOOK_OPTIONS + CLUSTER)


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
    return node_options.select(args, nodes, pods, source="cluster", where=client.title)


def look(
    args: argparse.Namespace, console: Console, show: Callable[[Client, list[Candidate]], None]
) -> int:
    """Show the sized nodes of the cluster; once, or whenever one changes."""
    from arc_toolkit.cli.node_options import tolerations_of
    from arc_toolkit.cluster import snapshot
    from arc_toolkit.sizing.schedulable import Assumptions, Reserve

    reserve = Reserve() if args.reserve is None else Reserve.parse(args.reserve)
    tolerations = tolerations_of(args)
    client = connect(args, console)

    def show_nodes() -> int:
        nodes = snapshot.sized_nodes(
            client, Assumptions(reserve=reserve), tolerations, args.architecture, console.progress
        )
        show(client, nodes)
        return OK

    return watch(client, console, show_nodes) if args.watch else show_nodes()


def watch(client: Client, console: Console, show: Callable[[], int]) -> int:
    """Show now, and again whenever a node changes in a way that matters, until Ctrl-C."""
    from arc_toolkit.cluster.failures import Forbidden, Unreachable
    from arc_toolkit.cluster.snapshot import node_changes

    for number, _ in enumerate(node_changes(client)):
        if number:
            console.note(time.strftime("-- %Y-%m-%d %H:%M:%S"))
        try:
            show()
        except (Unreachable, Forbidden):
            raise
        except ArcError as error:  # a cluster can be without a usable node for a while
            console.warn(str(error))
    return OK
