"""`place`: Kubernetes workloads onto spot capacity, or off it; a diff by default."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.main import REPEATED
from arc_toolkit.cli.reporter import add_report_options, rule_names
from arc_toolkit.errors import ArcError

if TYPE_CHECKING:
    from arc_toolkit.placement.place_plan import PlaceSettings
    from arc_toolkit.placement.spot import SpotCapacity

EPILOG = """\
examples:
  arc-toolkit place manifests/ --spot require --grace 25s --retries 3
  arc-toolkit place train.yaml --spot prefer --cloud gke --write
  arc-toolkit place launch_job.py --spot require
  kubectl create job x --image=busybox --dry-run=client -o yaml | arc-toolkit place - --spot require

exit codes: 0 done, 1 --check and something would change, 2 something could not be placed, or a path cannot be used
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="manifests, Python code, notebooks, or folders of them (.gitignore is obeyed), - for standard input",
    )
    what = parser.add_argument_group("what to set")
    what.add_argument(
        "--spot",
        choices=["require", "prefer", "avoid"],
        help="spot nodes only; spot nodes or else others; never spot nodes",
    )
    what.add_argument("--grace", metavar="TIME", help="terminationGracePeriodSeconds, such as 25s")
    what.add_argument(
        "--retries",
        type=int,
        metavar="N",
        help="start again after evictions, and N times after errors",
    )
    where = parser.add_argument_group("what spot nodes look like")
    where.add_argument(
        "--cloud",
        choices=["aks", "aks-nap", "eks", "gke"],
        default="aks",
        help="their label and taint (default: aks)",
    )
    where.add_argument("--label", metavar="KEY=VALUE", help="their label, instead of the cloud's")
    where.add_argument(
        "--taint", metavar="KEY=VALUE:EFFECT", help="their taint, instead of the cloud's"
    )
    where.add_argument(
        "--trainer",
        choices=["2.0", "2.1", "2.2", "2.3"],
        help="the release of Kubeflow Trainer, for a TrainJob whose fields do not show it",
    )
    which = parser.add_argument_group("which workloads")
    which.add_argument(
        "--kind", dest="kinds", **REPEATED, metavar="KIND", help="only this kind; repeat for more"
    )
    which.add_argument(
        "--name", dest="names", **REPEATED, metavar="NAME", help="only this object; repeat for more"
    )
    which.add_argument(
        "--role",
        dest="roles",
        **REPEATED,
        metavar="ROLE",
        help="only this role, such as worker; also one that is kept off spot nodes otherwise",
    )
    how = parser.add_argument_group("how")
    mode = how.add_mutually_exclusive_group()
    mode.add_argument(
        "--write", action="store_true", help="write the files; the default shows a diff"
    )
    mode.add_argument(
        "--check", action="store_true", help="write nothing, and exit 1 if something would change"
    )
    add_report_options(parser, "setting")


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.cli.changed_files import ChangedFiles
    from arc_toolkit.output.run_report import Mode, RunReport
    from arc_toolkit.placement.place_files import PlaceFiles
    from arc_toolkit.placement.place_plan import PLACE_SETTINGS

    engine = PlaceFiles(settings_of_place(args))
    mode = Mode.WRITE if args.write else Mode.CHECK if args.check else Mode.DIFF
    report = RunReport(
        "place", args.format, {}, mode, exit_zero=args.exit_zero, settings=PLACE_SETTINGS
    )
    return ChangedFiles(report, console, mode, PLACE_SETTINGS, ()).run(args.paths, engine)


def settings_of_place(args: argparse.Namespace) -> PlaceSettings:
    """The settings; options that contradict each other are an error in one sentence."""
    from arc_toolkit.placement.place_plan import PLACE_SETTINGS, PlaceSettings
    from arc_toolkit.placement.spot import SpotPolicy

    if args.spot is None and args.grace is None and args.retries is None:
        raise ArcError(
            "say what to set: --spot require, --spot prefer, --spot avoid, --grace or --retries"
        )
    if args.retries is not None and args.spot == "avoid":
        raise ArcError("--retries is for workloads on spot nodes: leave it out with --spot avoid")
    if args.retries is not None and args.retries < 0:
        raise ArcError(f"--retries must be at least 0, not {args.retries}")
    return PlaceSettings(
        spot=SpotPolicy(args.spot) if args.spot else None,
        capacity=_capacity(args),
        grace=_seconds(args.grace),
        retries=args.retries,
        trainer=args.trainer,
        kinds=frozenset(kind.lower() for kind in args.kinds),
        names=frozenset(args.names),
        roles=frozenset(role.lower() for role in args.roles),
        only=rule_names("--only", args.only, PLACE_SETTINGS),
        skip=rule_names("--skip", args.skip, PLACE_SETTINGS),
    )


def _capacity(args: argparse.Namespace) -> SpotCapacity:
    from dataclasses import replace

    from arc_toolkit.kube.labels import parse_label
    from arc_toolkit.kube.taints import Taint, Toleration
    from arc_toolkit.placement.spot import CLOUDS

    capacity = CLOUDS[args.cloud]
    if args.label is not None:
        label = parse_label(args.label)
        if label is None:
            raise ArcError(f"--label {args.label}: write KEY=VALUE, with the characters of a label")
        capacity = replace(capacity, label=label)
    if args.taint is not None:
        row = Toleration.parse(args.taint)
        capacity = replace(capacity, taint=Taint(row.key, row.value or "", row.effect))
    return capacity


def _seconds(text: str | None) -> int | None:
    from arc_toolkit.durations import parse_seconds

    if text is None:
        return None
    try:
        return int(parse_seconds(text))
    except ValueError as error:
        raise ArcError(f"--grace {error}") from None
