"""`place`: Kubernetes workloads onto spot capacity, or off it; a diff by default."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import WRITE_OR_CHECK, add_options
from arc_toolkit.cli.reporter import add_report_options, change_files, rule_names
from arc_toolkit.errors import ArcError

if TYPE_CHECKING:
    from arc_toolkit.placement.place_plan import PlaceSettings

EPILOG = """\
examples:
  arc-toolkit place manifests/ --spot require --grace 25s --retries 3
  arc-toolkit place train.yaml --spot prefer --cloud gke --write
  arc-toolkit place launch_job.py --spot require
  kubectl create job x --image=busybox --dry-run=client -o yaml | arc-toolkit place - --spot require

exit codes: 0 done, 1 --check and something would change, 2 a workload or a path cannot be used
"""


OPTIONS = """
  paths PATH +          manifests, Python code, notebooks, or folders of them (files that
                        .gitignore excludes are skipped); - for standard input
settings:
  --spot {require,prefer,avoid}    only spot nodes; spot nodes if possible; never spot nodes
  --grace TIME          terminationGracePeriodSeconds, such as 25s
  --retries N >=0       restart after evictions, and N times after errors
spot nodes:
  --cloud {aks,aks-nap,eks,gke} [aks]    whose label and taint they have
  --label KEY=VALUE     their label, instead of the cloud's
  --taint KEY=VALUE:EFFECT    their taint, instead of the cloud's
  --trainer {2.1,2.2,2.3}    release of Kubeflow Trainer, if a TrainJob does not show it
which workloads:
  --kind=kinds KIND ...     only this kind, even if it is always on; repeat for more
  --name=names NAME ...     only this object, even if it is always on; repeat for more
  --role=roles ROLE ...     only this role, such as worker, even if it is kept off spot nodes by
                            default; repeat for more
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(parser, OPTIONS + WRITE_OR_CHECK, exclusive=("--write", "--check"))
    add_report_options(parser, "setting")


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.placement.place_files import PlaceFiles
    from arc_toolkit.placement.place_plan import COORDINATOR, PLACE_SETTINGS

    engine = PlaceFiles(settings_of_place(args))
    exit_code = change_files("place", args, console, engine, {}, PLACE_SETTINGS, (COORDINATOR,))
    for line in engine.summary:
        console.note(line)
    return exit_code


def settings_of_place(args: argparse.Namespace) -> PlaceSettings:
    """The settings; options that contradict each other are an error in one sentence."""
    from arc_toolkit.placement.place_plan import PLACE_SETTINGS, PlaceSettings
    from arc_toolkit.placement.spot import SpotPolicy, spot_capacity

    if args.spot is None and args.grace is None and args.retries is None:
        raise ArcError(
            "say what to set: --spot require, --spot prefer, --spot avoid, --grace or --retries"
        )
    if args.retries is not None and args.spot == "avoid":
        raise ArcError("--retries is for workloads on spot nodes: leave it out with --spot avoid")
    return PlaceSettings(
        spot=SpotPolicy(args.spot) if args.spot else None,
        capacity=spot_capacity(args.cloud, args.label, args.taint),
        grace=None if args.grace is None else int(args.grace),
        retries=args.retries,
        trainer=args.trainer,
        kinds=frozenset(kind.lower() for kind in args.kinds),
        names=frozenset(args.names),
        roles=frozenset(role.lower() for role in args.roles),
        only=rule_names("--only", args.only, PLACE_SETTINGS),
        skip=rule_names("--skip", args.skip, PLACE_SETTINGS),
    )
