"""`cluster instance-types`: the InstanceTypes of a cluster, and how many nodes each fits on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from arc_toolkit.cli import cluster_options
from arc_toolkit.cli.console import Console

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client
    from arc_toolkit.sizing.fits import Candidate

EPILOG = """\
example:
  arc-toolkit cluster instance-types
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    cluster_options.add_look_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Exit 0 also if a type no longer fits: that is `gen-instance-types --from-cluster --check`."""
    from arc_toolkit.cluster import live_types
    from arc_toolkit.sizing import fits, waterfall

    def show(client: Client, nodes: list[Candidate]) -> None:
        rows = fits.check(live_types.read(client), nodes)
        if args.format == "json":
            console.out(waterfall.fits_json("cluster-instance-types", rows))
        else:
            console.out(waterfall.drift_text(rows, console.style))

    return cluster_options.look(args, console, show)
