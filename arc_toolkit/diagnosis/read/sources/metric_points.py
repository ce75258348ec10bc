"""Metrics of runs from CSV, JSON, or an MLflow store or server: points by run, in no order.

CSV and JSON lines are either long (one row per point: key, value, step, timestamp, and run_id if
several runs) or wide (one row per step: step, timestamp, and a column for each metric). JSON is a
list of such rows, or the response of MLflow's REST call `metrics/get-history`, or {"run_id": ...,
"metrics": {key: [points]}}.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.read.unpack import read_input
from arc_toolkit.errors import ArcError, missing_extra
from arc_toolkit.file_io import decode
from arc_toolkit.output.redaction import redact, show_source

# The names of the columns in MLflow, W&B, TensorBoard exports and files of users.
STEP = ("step", "_step", "global_step", "iteration")
TIME = (
    "timestamp",
    "time",
    "_timestamp",
    "wall_time",
    "wall time",
    "timestamp_ms",
    "datetime",
    "date",
)
KEY = ("key", "metric", "metric_key", "name", "tag")
RUN = ("run_id", "run", "run_uuid", "run_name", "run name", "trial_id", "trial", "job", "job_name")

MLFLOW_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # do not wait minutes for an unreachable server
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # without it MLflow 3 refuses to read old ./mlruns folders
}
_MILLISECONDS = 1e11  # a time above this is in milliseconds: as seconds it would be the year 5138


class Point(NamedTuple):
    """One logged value; `time` in seconds."""

    key: str
    step: int
    time: float
    value: float


def read_points(source: str) -> dict[str, list[Point]]:
    """Points by run, from a path, `-`, or `mlflow:URI#RUN[,RUN]`."""
    if source.startswith("mlflow:"):
        return _read_mlflow(source)
    text = decode(read_input(source), source)
    rows = _json_rows(text, source) if text.lstrip()[:1] in ("{", "[") else _csv_rows(text, source)
    fallback = "standard input" if source == "-" else PurePath(source.removesuffix(".gz")).stem
    runs: dict[str, list[Point]] = {}
    for origin, row in rows:
        for run, point in _points(row, origin):
            runs.setdefault(run or fallback, []).append(point)
    if not runs:
        raise ArcError(f"{source}: has no metrics: rows with a step and a timestamp are needed")
    return runs


# --- rows -----------------------------------------------------------------------------------------


def _csv_rows(text: str, source: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import csv

    reader = csv.DictReader(text.splitlines(keepends=True))
    try:
        for row in reader:
            yield f"{source}:{reader.line_num}", row
    except csv.Error as error:
        raise ArcError(f"{source}:{reader.line_num}: not CSV ({error})") from None


def _json_rows(text: str, source: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import json

    try:
        data, end = json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))
    except json.JSONDecodeError as error:
        raise ArcError(f"{source}:{error.lineno}: not JSON ({error.msg})") from None
    except RecursionError:
        raise ArcError(f"{source}: not metrics (nested too deep)") from None
    if text[end:].strip():  # one object per line
        data = _json_lines(text, source)
    for number, item in enumerate(data if isinstance(data, list) else [data], 1):
        origin = f"{source}: item {number}"
        if not isinstance(item, dict):
            raise ArcError(f"{origin} is not an object with step and timestamp")
        yield from ((origin, row) for row in _unfold(item))


def _json_lines(text: str, source: str) -> list[Any]:
    import json

    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError:
                raise ArcError(
                    f"{source}:{number}: not JSON: one object per line is expected"
                ) from None
    return rows


def _unfold(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of {"metrics": [...]} or {"metrics": {key: [...]}}; else the item is a row."""
    inner = item.get("metrics")
    run = {name: value for name, value in item.items() if name in RUN}
    if isinstance(inner, list):
        yield from ({**run, **row} for row in inner if isinstance(row, dict))
    elif isinstance(inner, dict):
        for key, rows in inner.items():
            for row in rows if isinstance(rows, list) else ():
                if isinstance(row, dict):
                    yield {**run, "key": key, **row}
    else:
        yield item


def _points(row: Mapping[str, Any], origin: str) -> Iterator[tuple[str, Point]]:
    """A long row is one point, a wide row one for each metric. Rows without a step are ignored."""
    names = {str(name).strip().lower(): name for name in row if name is not None}
    step_name, time_name, key_name, run_name = (
        next((alias for alias in aliases if alias in names), None)
        for aliases in (STEP, TIME, KEY, RUN)
    )
    for label, column, aliases in (("step", step_name, STEP), ("time", time_name, TIME)):
        if column is None:
            raise ArcError(
                f"{origin}: no {label}; a column called one of {', '.join(aliases)} is needed"
            )
    step_text, time_text = row[names[step_name or ""]], row[names[time_name or ""]]
    if _blank(step_text) or _blank(time_text):
        return
    step, time = _step(step_text, origin), _time(time_text, origin)
    run = str(row[names[run_name]]).strip() if run_name else ""
    if key_name:
        logged = _number(row[names["value"]]) if "value" in names else None
        yield (
            run,
            Point(str(row[names[key_name]]), step, time, math.nan if logged is None else logged),
        )
        return
    for name, original in names.items():
        if name not in (step_name, time_name, run_name) and not _blank(row[original]):
            number = _number(row[original])
            if number is not None:  # a column of text is not a metric
                yield run, Point(str(original).strip(), step, time, number)


def _blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _step(value: object, origin: str) -> int:
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        raise ArcError(f"{origin}: the step {str(value)[:40]!r} is not a number") from None


def _time(value: object, origin: str) -> float:
    text = str(value).strip()
    number = _number(text)
    if number is None and (moment := times.parse(text)) is not None:
        return moment
    if number is None or not math.isfinite(number):
        raise ArcError(f"{origin}: the time {text[:40]!r} is neither a number nor ISO 8601")
    return number / 1000 if abs(number) > _MILLISECONDS else number


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


# --- MLflow ---------------------------------------------------------------------------------------


def _read_mlflow(source: str) -> dict[str, list[Point]]:
    uri, _, ids = source.removeprefix("mlflow:").partition("#")
    run_ids = [run for run in ids.split(",") if run]
    if not uri or not run_ids:
        raise ArcError(
            f"{show_source(source)}: name the run as mlflow:URI#RUN_ID, "
            "such as mlflow:sqlite:///mlflow.db#8a1f..."
        )
    path = uri.removeprefix("sqlite:///").removeprefix("file://")
    if ":" not in path and not os.path.exists(path):
        # MLflow would create an empty store there.
        raise ArcError(f"{show_source(source)}: {show_source(path)} does not exist")
    for name, value in MLFLOW_SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError:
        raise missing_extra("mlflow", "an MLflow store") from None
    for noisy in ("mlflow", "alembic", "sqlalchemy"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    runs: dict[str, list[Point]] = {}
    try:
        client = MlflowClient(tracking_uri=uri)
        for run_id in run_ids:
            points = runs.setdefault(run_id, [])
            for key in sorted(client.get_run(run_id).data.metrics):
                for point in client.get_metric_history(run_id, key):
                    points.append(
                        Point(key, int(point.step), point.timestamp / 1000, float(point.value))
                    )
    except (MlflowException, OSError, ImportError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        label = show_source(uri)
        raise ArcError(
            f"cannot read metrics from {label}: {redact(first.replace(uri, label))[:300]}"
        ) from None
    return runs
