"""Reads the files of an inventory: logs in parallel, saved Kubernetes JSON and PRS logs.

This is the edge of the package: everything below it in the import order is pure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from arc_toolkit.diagnosis.model import (
    LOG_NAME,
    ClusterFacts,
    DiagnosisReport,
    FileEvidence,
    LogFile,
    Restart,
    SkippedFile,
    Stats,
)
from arc_toolkit.diagnosis.read import scan
from arc_toolkit.diagnosis.read.cluster_index import parse_list
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.diagnosis.read.sources.container_insights import InsightsTables
from arc_toolkit.diagnosis.read.sources.inventory import Inventory, add, add_remote, wrong_kind
from arc_toolkit.diagnosis.read.sources.zips import clean
from arc_toolkit.diagnosis.read.unpack import TooLarge, error_reason, read_input, read_whole
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.pods import RUN_ID_LABEL
from arc_toolkit.kube.raw import mapping
from arc_toolkit.output.redaction import show_source
from arc_toolkit.stderr import Progress
from arc_toolkit.text import plural

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from arc_toolkit.diagnosis.read.sources.ray_workers import RayWorkers

BATCH = 100
PARALLEL_FROM = 2000  # files; with fewer, starting processes costs more than it saves


def read_logs(
    inventory: Inventory, jobs: int, progress: Progress, workers: RayWorkers | None = None
) -> list[LogScan]:
    """Every log once, in the order of their paths; by `workers`, if there are any.

    Files that cannot be read are added to the inventory's skipped.
    """
    logs = sorted(inventory.logs, key=lambda log: log.path)
    scans: list[LogScan] = []
    scanned, total = 0, len(logs) + len(inventory.streams)
    for batch in chain(_local(logs, jobs, workers), _streams(inventory.streams, jobs, workers)):
        for result in batch:
            if isinstance(result, SkippedFile):
                inventory.skip(result.path, result.reason)
            elif not (
                result.nodes
                or result.failure
                or result.runs
                or result.path.rpartition("/")[2].startswith(LOG_NAME)
            ):
                inventory.skip(result.path, result.note)  # a file passed by name that is not a log
            else:
                scans.append(result)
        scanned += len(batch)
        progress(f"read {scanned} of {total} logs")
    inventory.logs.clear()  # its memory serves the report
    for result in scans:
        if not (result.nodes or result.runs) or result.note:
            inventory.skip(result.path, result.note)
    return scans


def read_side_logs(
    inventory: Inventory, jobs: int, scans: list[LogScan], stats: Stats, without_pods: bool = False
) -> list[FileEvidence]:
    """Errors in the output of jobs; AzureML's failure message is added to its attempt's scan.

    `without_pods`: a job of which nothing else is left is known only by these logs.
    """
    from arc_toolkit.diagnosis.assemble.log_evidence import evidence_in
    from arc_toolkit.diagnosis.identities import locate

    evidence: list[FileEvidence] = []
    failed: list[LogScan] = []
    job_roots = (
        {locate(log.path).root for log in scans} if without_pods and inventory.side_logs else set()
    )
    for batch in _local(sorted(inventory.side_logs, key=lambda log: log.path), jobs):
        evidence += evidence_in(result for result in batch if isinstance(result, LogScan))
        for result in batch:
            if isinstance(result, SkippedFile):
                inventory.skip(result.path, result.reason)
                continue
            stats.files_read += 1
            stats.bytes_read += result.size
            is_informative = (
                result.failure or result.ending or (result.run and result.run.is_evicted)
            )
            if is_informative or (without_pods and locate(result.path).root not in job_roots):
                failed.append(result)
    if failed:
        add_failures(scans, failed)
    return evidence


def add_failures(scans: list[LogScan], failed: list[LogScan]) -> None:
    """The message belongs to the rank that it names, to the attempt's only log, or to a new one."""
    from arc_toolkit.diagnosis.identities import locate

    by_attempt: dict[tuple[str, int], list[LogScan]] = {}
    for log in scans:
        place = locate(log.path)
        by_attempt.setdefault((place.root, place.number), []).append(log)
    for side in failed:
        place = locate(side.path)
        attempt_logs = by_attempt.setdefault((place.root, place.number), [])
        if not attempt_logs:
            # What a job prints is not a bootstrap log: names, ids and dates in it may be of
            # anything, except those in the lines of `run`.
            node = side.run.node if side.run else None
            attempt_logs.append(LogScan(side.path, [node] if node else [], failure=side.failure))
            scans += attempt_logs
        diagnostics = side.failure[1] if side.failure else ""
        named = [
            log
            for log in attempt_logs
            if (rank := locate(log.path).rank) and f'-{rank}"' in diagnostics
        ]
        for log in named or attempt_logs[: len(attempt_logs) == 1]:
            log.failure = log.failure or side.failure


def process_count(jobs: int, files: int) -> int:
    """The number of processes; 0 chooses it."""
    if jobs:
        return min(jobs, max(files, 1))
    return min(os.cpu_count() or 1, 8) if files >= PARALLEL_FROM else 1


def _local(
    logs: list[LogFile], jobs: int, workers: RayWorkers | None = None
) -> Iterator[list[LogScan | SkippedFile]]:
    if workers is not None:
        yield from workers.scan(logs)
        return
    batches = [logs[at : at + BATCH] for at in range(0, len(logs), BATCH)]
    count = process_count(jobs, len(logs))
    if count < 2:
        yield from map(scan.scan_all, batches)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    try:
        with ProcessPoolExecutor(count, initializer=_quiet_interrupt) as pool:
            try:
                yield from _scan_in_order(pool, batches)
            except BaseException:  # also on Ctrl-C: do not wait for the logs that are being read
                for child in multiprocessing.active_children():
                    child.terminate()
                raise
    except BrokenProcessPool:
        raise ArcError("a worker process was killed; try again with `--jobs 1`") from None


def _streams(
    logs: list[LogFile], jobs: int, workers: RayWorkers | None = None
) -> Iterator[list[LogScan | SkippedFile]]:
    """Blobs and standard input, in threads because reading them is waiting."""
    if not logs:
        return
    if workers is not None:
        from arc_toolkit.diagnosis.read.sources.ray_workers import is_blob

        blobs = chain.from_iterable(workers.scan([log for log in logs if is_blob(log)], blobs=True))
        local_scans = chain.from_iterable(_streams([log for log in logs if not is_blob(log)], jobs))
        for log in logs:
            yield [next(blobs if is_blob(log) else local_scans)]
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(jobs or min(16, len(logs))) as pool:
        yield from _scan_in_order(pool, [[log] for log in logs])


def _scan_in_order(
    pool: Executor, batches: list[list[LogFile]]
) -> Iterator[list[LogScan | SkippedFile]]:
    try:
        yield from pool.map(scan.scan_all, batches)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _quiet_interrupt() -> None:
    """Ctrl-C is handled by the parent, which stops its children."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def read_kubernetes(inventory: Inventory) -> list[ClusterFacts]:
    """Saved `kubectl get ... -o json` among the sources, and exports of Container Insights."""
    facts = []
    tables = InsightsTables()
    for log in inventory.kubernetes:
        try:
            with log.open() as stream:
                data = read_whole(stream)
            if not tables.add(data):
                facts.append(parse_list(data))
        except (OSError, EOFError, RuntimeError) as error:
            inventory.skip(log.path, error_reason(error))
        except TooLarge as error:
            inventory.skip(log.path, str(error))
        except ValueError as error:
            inventory.skip(log.path, f"not a Kubernetes list: {error}")
    summary = tables.facts()
    return [*facts, summary] if summary else facts


def read_named(path: str, kind: str) -> ClusterFacts:
    """A file passed with --pods, --nodes or --events must contain that kind."""
    data = read_input(path)
    try:
        facts = parse_list(data)
    except ValueError as error:
        words = wrong_kind(data) or error
        raise ArcError(f"{path}: {words}; save it with `kubectl get {kind} -A -o json`") from None
    if (facts.pods or facts.nodes or facts.events) and not getattr(facts, kind):
        raise ArcError(
            f"{path}: contains no {kind}; save them with `kubectl get {kind} -A -o json`"
        )
    if kind == "pods" and facts.pods and not any(map(_is_of_azureml, facts.pods)):
        raise ArcError(f"{path}: {_no_run_id(facts)}")
    return facts


def _is_of_azureml(pod: dict[str, Any]) -> bool:
    return RUN_ID_LABEL in mapping(mapping(pod.get("metadata")).get("labels"))


def _no_run_id(facts: ClusterFacts) -> str:
    return (
        f"none of {plural(len(facts.pods), 'pod')} has the label {RUN_ID_LABEL} of AzureML jobs: "
        f"save pods with `kubectl get pods -A -l {RUN_ID_LABEL} -o json > pods.json`"
    )


def read_prs(inventory: Inventory) -> tuple[list[FileEvidence], int]:
    """The evidence that parallel jobs wrote about themselves, and how many files were read."""
    if not inventory.prs:
        return [], 0
    from arc_toolkit.diagnosis.read import prs_logs

    evidence, skipped = prs_logs.read(inventory.prs)
    for item in skipped:
        inventory.skip(item.path, item.reason)
    return evidence, len(inventory.prs) - len(skipped)


def take_inventory(
    sources: Iterable[str],
    jobs: int,
    scope: tuple[str | None, str | None, str | None],
    progress: Progress,
    *,
    keep_unrelated: bool = False,
) -> Inventory:
    """The files of folders, zips, Blob storage and AzureML jobs.

    `scope`: workspace, resource group and subscription of `azureml:JOB`.
    """
    inventory = Inventory(keep_unrelated)
    for source in sources:
        progress(f"searching {show_source(source)}")
        if source.startswith(("az://", "abfs://", "abfss://")):
            from arc_toolkit.diagnosis.read.sources import blob

            add_remote(blob.list_logs(source, jobs), inventory)
        elif source.startswith("azureml:"):
            from arc_toolkit.diagnosis.read.sources import azureml_jobs

            add_remote(azureml_jobs.list_logs(source, *scope), inventory)
        else:
            add(source, inventory)
    return inventory


def read_report(
    inventory: Inventory,
    facts: Sequence[ClusterFacts],
    metrics: Sequence[str],
    jobs: int,
    progress: Progress,
    workers: RayWorkers | None = None,
) -> DiagnosisReport:
    """The report about the files, with `facts` about the cluster and restarts in `metrics`."""
    from arc_toolkit.diagnosis import report

    scans = read_logs(inventory, jobs, progress, workers)
    size = sum(scan.size for scan in scans)
    stats = Stats(len(scans), inventory.file_count, size, skipped=inventory.counts)
    evidence, stats.prs_files = read_prs(inventory)
    saved = read_kubernetes(inventory)
    for part in () if scans or facts or metrics or inventory.side_logs else saved:
        objects = part.nodes or part.pod_groups or part.volcano_jobs
        if part.pods and not objects and not any(map(_is_of_azureml, part.pods)):
            raise ArcError(_no_run_id(part))
    facts = [*saved, *facts]
    has_pods = any(part.pods for part in facts)
    evidence += read_side_logs(inventory, jobs, scans, stats, without_pods=not has_pods)
    restarts = _read_restarts(metrics, stats)
    # To find nothing in what was read is a result.
    if not (scans or stats.prs_files or facts or metrics):
        counts = sorted(inventory.counts.items())
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts)
        searched = f"{plural(inventory.file_count, 'file')} searched{': ' * bool(reasons)}{reasons}"
        frequent = [suffix for suffix, _ in inventory.suffixes.most_common(3) if suffix]
        searched += f", mostly {', '.join(map(clean, frequent))}" if frequent else ""
        raise ArcError(
            f"no logs of AzureML jobs (amlarc_cr_bootstrap.log, std_log.txt) and no saved kubectl "
            f"JSON here ({searched}): download the logs with `az ml job download --all`, or pass a "
            "log of `arc-toolkit run` by its name"
        )
    return report.build(
        scans, facts, evidence, restarts, inventory.skipped, stats, consume_scans=True
    )


def _read_restarts(metrics: Iterable[str], stats: Stats) -> list[Restart]:
    if not metrics:
        return []
    from arc_toolkit.diagnosis.assemble.restarts import scan_metrics

    parts = [scan_metrics(source) for source in metrics]
    stats.metric_runs = sum(part.runs for part in parts)
    stats.metric_points = sum(part.points for part in parts)
    for limit in (limit for part in parts for limit in part.limits.values()):
        stats.metric_limits[limit] = stats.metric_limits.get(limit, 0) + 1
    return [restart for part in parts for restart in part.restarts]
