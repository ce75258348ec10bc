"""`gen-compute`: the definition of an AmlCompute cluster that azure-ai-ml accepts."""

from __future__ import annotations

import argparse
from pathlib import Path

from arc_toolkit.cli.console import Console
from arc_toolkit.errors import OK

EPILOG = """\
examples:
  arc-toolkit gen-compute --low-priority --name low-pri --size Standard_DS3_v2 --max 2 -o lp.yml
  arc-toolkit gen-compute --low-priority --name low-pri --size Standard_NC24ads_A100_v4 --format python

then: az ml compute create --file lp.yml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--low-priority",
        action="store_true",
        help="VMs that Azure may take away, for a fraction of the price (default: dedicated)",
    )
    parser.add_argument(
        "--name", required=True, help="name of the compute: `compute: azureml:NAME` in jobs"
    )
    parser.add_argument(
        "--size", required=True, metavar="NAME", help="VM size, such as Standard_DS3_v2"
    )
    parser.add_argument(
        "--max",
        type=int,
        default=2,
        metavar="N",
        help="most nodes; the fewest are always 0 (default: %(default)s)",
    )
    parser.add_argument(
        "--idle",
        type=int,
        default=120,
        metavar="SECONDS",
        help="how long a node without a job stays (default: %(default)s)",
    )
    parser.add_argument("--format", choices=["yaml", "python"], default="yaml")
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="default: standard output"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azure.aml_compute import FORMATS, AmlComputeCluster
    from arc_toolkit.file_io import write_atomic

    cluster = AmlComputeCluster(args.name, args.size, args.low_priority, args.max, args.idle)
    text = FORMATS[args.format](cluster)
    if args.output == "-":
        console.out(text, end="")
    else:
        write_atomic(Path(args.output), text)
        console.note(f"wrote {args.output}")
    return OK
