"""`gen-compute`: the definition of an AmlCompute cluster that azure-ai-ml accepts."""

from __future__ import annotations

import argparse

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import OUTPUT, add_options
from arc_toolkit.errors import OK

EPILOG = """\
examples:
  arc-toolkit gen-compute --low-priority --name low-pri --size Standard_DS3_v2 --max 2 -o lp.yml
  arc-toolkit gen-compute --low-priority --name low-pri --size Standard_DS3_v2 --format python

then: az ml compute create --file lp.yml
"""


OPTIONS = """
  --low-priority        VMs that Azure may evict, at a fraction of the price (default: dedicated)
  --name NAME required  name of the compute: `compute: azureml:NAME` in jobs
  --size NAME required  VM size, such as Standard_DS3_v2
  --max N [2]           maximum number of nodes; the minimum is always 0
  --idle SECONDS [120]  how long a node without a job stays
  --format {yaml,python} [yaml]    output format
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(parser, OPTIONS + OUTPUT)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azure.aml_compute import FORMATS, AmlComputeCluster

    cluster = AmlComputeCluster(args.name, args.size, args.low_priority, args.max, args.idle)
    console.write(args.output, FORMATS[args.format](cluster))
    return OK
