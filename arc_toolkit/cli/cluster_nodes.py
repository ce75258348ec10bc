"""`cluster nodes`: what the nodes of a cluster have, keep and can give, and which types fit."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from arc_toolkit.cli.cluster_options import add_look_options, look
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client
    from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
    from arc_toolkit.sizing.fits import Candidate

EPILOG = """\
examples:
  arc-toolkit cluster nodes
  arc-toolkit cluster nodes --by node --label kubernetes.azure.com/scalesetpriority --sort cpu
"""
OPTIONS = """
  --by {group,node} [group]    one row per group or node
  --sort {name,nodes,cpu,memory,schedulable,gpus,daemonsets} [name]    amounts: largest first
  --label KEY ...           add a column with this label; repeat for more
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(parser, OPTIONS)
    add_look_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.sizing.node_table import SORTS, make_rows, rows_json, table_text

    occupants_by_node = args.by == "node"

    def show(client: Client, nodes: list[Candidate]) -> None:
        rows = make_rows(
            nodes, _types(client, console), occupants_by_node=occupants_by_node, labels=args.label
        )
        rows.sort(key=SORTS[args.sort])
        if args.format == "json":
            console.out(rows_json(rows))
        else:
            console.out(table_text(rows, occupants_by_node=occupants_by_node, labels=args.label))

    return look(args, console, show)


def _types(client: Client, console: Console) -> list[InstanceTypeSpec]:
    from arc_toolkit.cluster import live_types
    from arc_toolkit.cluster.failures import NotFound
    from arc_toolkit.errors import ArcError
    from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec

    try:
        present = live_types.read(client)
    except NotFound as error:
        console.note(str(error))
        return []
    specs = []
    for name, item in sorted(present.items()):
        try:
            specs.append(InstanceTypeSpec.parse(item))
        except ArcError as error:
            console.warn(f"InstanceType {name}: {error}")
    return specs
