"""Evidence from the logs that a parallel job (ParallelRunStep) writes about itself.

`logs/sys/job_report/processed_mini-batches.csv` has how often each mini-batch was picked: more than
once means that a worker or its node was lost in between.
`logs/sys/perf/<node>/node_resource_usage.csv` has samples of the node's memory. Microsoft documents
both files and `Picked Count` but not the other columns, so those are recognized by words in their
names, and a file without a known column is skipped with that reason.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import (
    CauseKind,
    Evidence,
    EvidenceSource,
    FileEvidence,
    LogFile,
    SkippedFile,
)
from arc_toolkit.diagnosis.read.unpack import READ_ERRORS, error_reason, unpack_stream

USAGE = "node_resource_usage.csv"

# AzureML's extension reserves 5 % of a node's memory; above the rest the node is about to run out.
FULL_PERCENT = 95.0

LONGEST_LINE = 1 << 16

# Units a column may name, in bytes.
_UNITS = {"kib": 1024, "kb": 1000, "mib": 1024**2, "mb": 1000**2, "gib": 1024**3, "gb": 1000**3}


class _NotUsable(Exception):
    """The reason why a file cannot be used."""


def read(files: Sequence[LogFile]) -> tuple[list[FileEvidence], list[SkippedFile]]:
    """The evidence in all PRS files, and the files that cannot be used, each with its reason."""
    evidence: list[FileEvidence] = []
    skipped: list[SkippedFile] = []
    for file in files:
        reader = _read_usage if file.path.endswith(USAGE) else _read_batches
        try:
            with file.open() as stream:
                evidence += reader(file.path, unpack_stream(stream))
        except _NotUsable as reason:
            skipped.append(SkippedFile(file.path, str(reason)))
        except csv.Error:
            skipped.append(SkippedFile(file.path, "not CSV"))
        except READ_ERRORS as error:
            skipped.append(SkippedFile(file.path, error_reason(error)))
    return evidence, skipped


def _read_batches(path: str, stream: BinaryIO) -> list[FileEvidence]:
    header, rows = _rows(stream)
    column = _column(header, ("picked", "count"))
    if column is None:
        raise _NotUsable("no column Picked Count")
    total = repeated = most = 0
    for row in rows:
        count = _number(row, column)
        if count is not None:
            total += 1
            repeated += count > 1
            most = max(most, int(count))
    if not repeated:
        return []
    message = f"{repeated} of {total} mini-batches were picked more than once, up to {most} times"
    return [FileEvidence(path, Evidence(EvidenceSource.PRS, "Picked Count", message))]


def _read_usage(path: str, stream: BinaryIO) -> list[FileEvidence]:
    header, rows = _rows(stream)
    percent = _column(header, ("mem", "%")) or _column(header, ("mem", "percent"))
    total, used = _column(header, ("mem", "total")), _column(header, ("mem", "used"))
    free = _column(header, ("mem", "avail")) or _column(header, ("mem", "free"))
    if percent is None and (total is None or (used is None and free is None)):
        raise _NotUsable("no known memory column")
    clock = _column(header, ("time",)) or _column(header, ("date",))
    peak, peak_time = 0.0, None
    for row in rows:
        share = _number(row, percent) if percent else _share(row, total, used, free)
        if share is not None and peak < share <= 100:
            peak, peak_time = share, times.parse((row.get(clock) or "").strip() if clock else None)
    if peak < FULL_PERCENT:
        return []
    node = path.split("/")[-2] if "/" in path else None
    message = f"memory of the node was {peak:.0f} % full"
    return [
        FileEvidence(
            path,
            Evidence(EvidenceSource.PRS, "node memory", message, peak_time),
            node,
            CauseKind.NODE_MEMORY,
        )
    ]


# --- CSV ------------------------------------------------------------------------------------------


def _rows(stream: BinaryIO) -> tuple[list[str], Iterator[dict[str, str]]]:
    reader = csv.DictReader(_lines(stream))
    return list(reader.fieldnames or ()), iter(reader)


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Lines of bounded length: memory must not grow with a file that is not CSV."""
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline="")
    while line := text.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise _NotUsable("not CSV: a line is too long")
        yield line


def _column(header: Sequence[str], words: Sequence[str]) -> str | None:
    """The first column whose name has all these words."""
    return next(
        (name for name in header if name and all(word in name.lower() for word in words)), None
    )


def _number(row: dict[str, str], column: str | None) -> float | None:
    text = row.get(column) if column else None
    if not isinstance(text, str):
        return None
    match = re.match(r"\s*(\d{1,20}(?:\.\d{1,20})?)", text)
    return float(match[1]) if match else None


def _bytes(row: dict[str, str], column: str | None) -> float | None:
    number = _number(row, column)
    if number is None or column is None:
        return None
    unit = next((size for name, size in _UNITS.items() if name in column.lower()), 1)
    return number * unit


def _share(
    row: dict[str, str], total: str | None, used: str | None, free: str | None
) -> float | None:
    """Percent in use, from the total and one of the other two."""
    total_bytes, used_bytes, free_bytes = _bytes(row, total), _bytes(row, used), _bytes(row, free)
    if not total_bytes or (used_bytes is None and free_bytes is None):
        return None
    # Available memory is preferred to used memory, which includes caches that can be freed.
    return (
        100 * (total_bytes - free_bytes) / total_bytes
        if free_bytes is not None
        else 100 * (used_bytes or 0) / total_bytes
    )
