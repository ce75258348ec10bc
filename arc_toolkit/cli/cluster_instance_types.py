"""`cluster instance-types`: the InstanceTypes of a cluster, and on how many of its nodes each fits."""

from __future__ import annotations

import argparse

from arc_toolkit.cli import live, node_options
from arc_toolkit.cli.console import Console
from arc_toolkit.errors import OK

EPILOG = """\
example:
  arc-toolkit cluster instance-types
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    live.add_look_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Only looks: `gen-instance-types --from-cluster --check` is the one that fails where a type no longer fits."""
    from arc_toolkit.cluster import live_types, snapshot
    from arc_toolkit.sizing import fits

    assumptions = live.assumptions(args)
    client = live.connect(args, console)

    def look() -> int:
        present = live_types.read(client)
        members = snapshot.sized_nodes(
            client,
            assumptions,
            node_options.tolerations_of(args),
            args.architecture,
            console.progress,
        )
        checked = fits.check(present, members)
        console.clear_progress()
        if args.format == "json":
            console.out(live.fits_json("cluster-instance-types", checked))
        else:
            console.out(live.types_table(checked, console) if checked else live.NO_TYPES)
            for fit in checked:
                if fit.reason:
                    console.note(live.reason_text(fit))
        return OK

    return live.watch(client, console, look) if args.watch else look()
