"""`arc-toolkit diagnose`: options and wiring; the work is in arc_toolkit/diagnosis."""

from __future__ import annotations

import argparse
import gc
import time
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import CLUSTER, OUTPUT, add_options
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.output.redaction import show_source

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client
    from arc_toolkit.diagnosis.model import ClusterFacts, DiagnosisReport
    from arc_toolkit.diagnosis.read.recorder import Recovery
    from arc_toolkit.diagnosis.read.sources.inventory import Inventory
    from arc_toolkit.diagnosis.read.sources.ray_workers import RayWorkers

MOST_DETAILED = 3  # jobs with their attempts; of a sweep there is a table
FAIL_ON = ("failed", "retried", "bad-node", "suspect-node")

EPILOG = """\
examples:
  az ml job download --name brave_cat --all --download-path logs/brave_cat
  arc-toolkit diagnose logs/
  arc-toolkit diagnose logs/ --pods pods.json --events events.json --job brave_cat
  printf "++ echo 'Run on node: aks-gpu-12345678-vmss000046'\\n" | arc-toolkit diagnose -
"""


OPTIONS = f"""
  sources SOURCE *      folder, zip, log, glob, - (standard input), az://CONTAINER/PREFIX,
                        azureml:JOB, saved kubectl JSON, or tables of Container Insights
objects of the cluster, saved with `kubectl get ... -A -o json`:
  --pods FILE ...       saved pods; - reads standard input
  --nodes FILE ...      saved nodes; - reads standard input
  --events FILE ...     saved events; - reads standard input
other sources:
  --metrics SOURCE ...  CSV or JSON of metrics, or mlflow:URI#RUN_ID: find restarts in them
  --workspace NAME      AzureML workspace, for azureml:JOB
  --resource-group NAME     its resource group
  --subscription ID     its subscription
output:
  --job NAME            one job in detail, by name or run id, or the jobs of one sweep
  --all-jobs            one row per job, also of a sweep and of jobs that ended alike
  --format {{table,json,csv,markdown,html}} [table]    output format
  --fail-on {{{",".join(FAIL_ON)}}} ...    exit with 1 if there is any; repeat for more
{OUTPUT}reading:
  --jobs N >=1          number of processes (default: chosen by the number of logs)
  --ray ADDRESS         read the logs on the workers of this Ray cluster: ray://HEAD:10001,
                        HOST:6379 or auto
a live cluster:
  --cluster             read pods, nodes and events from the cluster
  --watch               with --cluster and --history: record until interrupted
  --history FILE        SQLite file of recorded evidence; clusters keep events for an hour
  --retention DAYS [30]    with --watch: how long to keep records
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(parser, OPTIONS + CLUSTER, retention={"type": _days})


def run(args: argparse.Namespace, console: Console) -> int:
    _check(args)
    if args.watch:
        from arc_toolkit.diagnosis.read import recorder

        recorder.watch(
            _connect(args, console),
            args.history,
            args.retention,
            recovery,
            console.note,
            console.detail,
        )
        return OK
    from arc_toolkit.diagnosis import report as reports
    from arc_toolkit.diagnosis.formats.report_text import summary
    from arc_toolkit.file_io import collector_paused

    begin = time.perf_counter()
    with collector_paused():  # 4 to 9 % of the CPU with 10,000 logs
        report = _report(args, console)
    gc.freeze()  # the report lives to the end: collecting it at exit would take 7 µs per log
    report.stats.seconds = time.perf_counter() - begin
    if args.job:
        report = reports.report_of_job(report, args.job)
    # A name from JSON may contain a lone surrogate, which cannot be encoded.
    text = _render(report, args, console).encode("utf-8", "replace").decode("utf-8")
    console.write(args.output, text + "\n")
    console.note(summary(report))
    fails = any(reports.CONDITIONS[name](report) for name in args.fail_on)
    return FOUND if fails else OK


def _check(args: argparse.Namespace) -> None:
    if args.watch and not (args.cluster and args.history):
        raise ArcError(
            "--watch records the events of a cluster: it needs --cluster and --history FILE"
        )
    if not args.cluster and (args.context or args.kubeconfig or args.as_user):
        raise ArcError("--context, --kubeconfig and --as select a cluster: they need --cluster")
    files = [*args.pods, *args.nodes, *args.events, *args.metrics]
    if not (args.sources or args.cluster or args.history or files):
        raise ArcError(
            "nothing to diagnose: pass a folder of logs, --cluster, --history or saved kubectl JSON"
        )
    if [*args.sources, *files].count("-") > 1:
        raise ArcError("standard input can be read only once, but - is used more than once")
    for path in files:
        if "://" in path and not path.startswith("mlflow:"):
            raise ArcError(f"{show_source(path)}: this option reads a file: download it first")
    if args.ray:
        from arc_toolkit.diagnosis.read.sources.ray_workers import check_answer

        check_answer(args.ray)


def _report(args: argparse.Namespace, console: Console) -> DiagnosisReport:
    from arc_toolkit.diagnosis.read import collect

    jobs = args.jobs or 0  # chosen by the number of logs
    scope = (args.workspace, args.resource_group, args.subscription)
    inventory = collect.take_inventory(
        args.sources, jobs, scope, console.progress, keep_unrelated=args.format == "json"
    )
    workers = _workers(args, console, inventory)
    try:
        report = collect.read_report(
            inventory, _facts(args, console), args.metrics, jobs, console.progress, workers
        )
    finally:
        if workers is not None:
            workers.close()
    if workers is not None and workers.read_here:
        console.warn(
            f"{workers.read_here} logs could be read by this process only ({workers.problem}): use "
            "folders that every node has, and nodes that have what is needed for az://"
        )
    return report


def _workers(args: argparse.Namespace, console: Console, inventory: Inventory) -> RayWorkers | None:
    """The cluster of --ray, unless one process is faster."""
    if not args.ray:
        return None
    from arc_toolkit.diagnosis.read.sources import ray_workers

    logs, blobs = len(inventory.logs), sum(map(ray_workers.is_blob, inventory.streams))
    if not ray_workers.pays(logs, blobs):
        if every := logs + len(inventory.streams) + len(inventory.side_logs):
            console.note(
                f"{every} logs are read here: one process is faster than Ray with up to "
                f"{ray_workers.LOCAL_FROM} "
                f"logs in folders and {ray_workers.BLOBS_FROM} in Blob storage"
            )
        return None
    console.progress(f"connecting to Ray at {args.ray}")
    workers = ray_workers.connect(args.ray)
    console.note(f"{logs + blobs} logs are read by {workers.count} workers of Ray")
    return workers


def _facts(args: argparse.Namespace, console: Console) -> list[ClusterFacts]:
    """Objects of the cluster from the files that options name, from a recording, and live."""
    from arc_toolkit.diagnosis.read import collect

    facts = [
        collect.read_named(path, kind)
        for kind in ("pods", "nodes", "events")
        for path in getattr(args, kind)
    ]
    if args.history:
        from arc_toolkit.diagnosis.read import history

        facts.append(history.read(args.history))
    if args.cluster:
        from arc_toolkit.diagnosis.read import recorder

        facts.append(recorder.read_cluster(_connect(args, console), recovery, console.note))
    return facts


def _connect(args: argparse.Namespace, console: Console) -> Client:
    from arc_toolkit.cli import cluster_options

    return cluster_options.connect(args, console)


def recovery(error: Exception) -> Recovery:
    """What a recording does about an error of the client."""
    from arc_toolkit.cluster.failures import ApiError, Forbidden, Gone, NotFound, Unreachable
    from arc_toolkit.diagnosis.read.recorder import Recovery

    if isinstance(error, Gone):
        return Recovery.LIST_AGAIN
    if isinstance(error, NotFound):
        return Recovery.ABSENT
    if isinstance(error, Forbidden):
        return Recovery.FORBIDDEN
    return Recovery.RETRY if isinstance(error, ApiError | Unreachable) else Recovery.STOP


def _render(report: DiagnosisReport, args: argparse.Namespace, console: Console) -> str:
    if args.format == "html":
        from arc_toolkit.diagnosis.formats import report_page

        return report_page.render(report)
    from arc_toolkit.diagnosis.formats import report_formats, report_text

    if args.format == "table":
        style = console.style if args.output == "-" else report_text.plain
        is_one_job = args.job or (args.sources and args.sources[0].startswith("azureml:"))
        if is_one_job and len(report.jobs) <= MOST_DETAILED:
            return report_text.detail(report, style)
        return report_text.overview(report, style, ungrouped=args.all_jobs or bool(args.job))
    writers = {
        "json": report_formats.to_json,
        "csv": report_formats.to_csv,
        "markdown": report_formats.to_markdown,
    }
    return writers[args.format](report)


def _days(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 36500:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return value
