"""`cluster`: look at a cluster and set it up.

Each subcommand is a module `cluster_<name>.py` with `configure(parser)` and `run(args, console)`,
imported when it is chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.main import add_common_options
from arc_toolkit.cli.option_table import Parser
from arc_toolkit.errors import OK, ArcError
from arc_toolkit.output.redaction import redact
from arc_toolkit.text import printable

# name -> (module below arc_toolkit.cli, what it does, an example)
SUBCOMMANDS = {
    "preflight": (
        "cluster_preflight",
        "list what AzureML needs on this cluster, and what is missing",
        "arc-toolkit cluster preflight --cluster my-aks --resource-group my-rg --workspace my-ws",
    ),
    "nodes": (
        "cluster_nodes",
        "show what each node or group of nodes can give to jobs",
        "arc-toolkit cluster nodes",
    ),
    "instance-types": (
        "cluster_instance_types",
        "show the InstanceTypes of the cluster and where they fit",
        "arc-toolkit cluster instance-types",
    ),
    "extension": (
        "cluster_extension",
        "show, install or update the AzureML extension",
        "arc-toolkit cluster extension install --cluster my-aks --resource-group my-rg --dry-run",
    ),
    "attach": (
        "cluster_attach",
        "attach the cluster to an AzureML workspace as a compute",
        "arc-toolkit cluster attach gpu-pool --cluster my-aks --resource-group my-rg --workspace "
        "my-ws",
    ),
    "spot-pool": (
        "cluster_spot_pool",
        "add a spot node pool, or print it for az or Bicep",
        "arc-toolkit cluster spot-pool spot --size D64s_v5 --cluster my-aks --resource-group my-rg "
        "--dry-run",
    ),
    "scheduler-config": (
        "cluster_scheduler_config",
        "print a configuration of Volcano with which pools start from zero nodes",
        "arc-toolkit cluster scheduler-config | kubectl apply --filename -",
    ),
}


class Subparser(Parser):
    """A parser that takes its options from its module when it is first needed."""

    def __init__(self, module: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._module = module

    def load(self) -> None:
        """Add the options of the module, once."""
        module, self._module = self._module, None
        if module is not None:
            import_module(f"arc_toolkit.cli.{module}").configure(self)
            add_common_options(self)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        self.load()
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        self.load()
        return super().format_help()


def overview() -> str:
    """What `arc-toolkit cluster` alone prints."""
    rows = [
        f"  {name:<17} {summary}\n{'':20}{example}"
        for name, (_, summary, example) in SUBCOMMANDS.items()
    ]
    head, tail = (
        "arc-toolkit cluster SUBCOMMAND:",
        "`arc-toolkit cluster SUBCOMMAND --help` explains one.",
    )
    return "\n".join([head, "", *rows, "", tail])


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example:\n  arc-toolkit cluster preflight --cluster my-aks --resource-group my-rg"
    )
    subparsers = parser.add_subparsers(
        dest="subcommand", metavar="SUBCOMMAND", parser_class=Subparser
    )
    for name, (module, summary, _) in SUBCOMMANDS.items():
        subparsers.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            module=module,
        )


def run(args: argparse.Namespace, console: Console) -> int:
    if args.subcommand is None:
        console.out(overview())
        return OK
    module, _, _ = SUBCOMMANDS[args.subcommand]
    try:
        code: int = import_module(f"arc_toolkit.cli.{module}").run(args, console)
    except ArcError as error:
        if error.__cause__ is not None:  # what an SDK said before it was made one sentence
            console.detail(redact(printable(str(error.__cause__))))
        raise
    return code
