"""What a parallel job's own reports say: mini-batches picked again, and nodes with full memory."""

from __future__ import annotations

import io
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis.model import CauseKind, LogFile
from arc_toolkit.diagnosis.read import prs_logs
from arc_toolkit.diagnosis.read.sources.inventory import Inventory

BATCHES = "job/logs/sys/job_report/processed_mini-batches.csv"
USAGE = "job/logs/sys/perf/10.0.0.7/node_resource_usage.csv"


def file(path: str, text: str | bytes) -> LogFile:
    data = text.encode() if isinstance(text, str) else text
    return LogFile(path, lambda: io.BytesIO(data))


def is_recognized(path: str) -> bool:
    inventory = Inventory()
    return inventory.offer(path.rpartition("/")[2], file(path, "")) and len(inventory.prs) == 1


@pytest.mark.parametrize("path", [BATCHES, USAGE, "processed_mini-batches.csv"])
def test_report_files_are_recognized(path: str) -> None:
    assert is_recognized(path)


@pytest.mark.parametrize(
    "path", ["a/other_processed_mini-batches.csv.bak", "a/node_disk_usage.csv", "a/my_batches.csv"]
)
def test_other_files_are_not(path: str) -> None:
    assert not is_recognized(path)


def test_mini_batches_picked_more_than_once_are_counted() -> None:
    rows = "Mini-batch ID,Picked Count,Status\n0,1,ok\n1,3,ok\n2,2,ok\n3,1,ok\n"
    [item], skipped = prs_logs.read([file(BATCHES, rows)])
    assert item.evidence.message == "2 of 4 mini-batches were picked more than once, up to 3 times"
    assert (item.evidence.reason, item.path, item.kind) == ("Picked Count", BATCHES, None)
    assert not skipped


def test_nothing_picked_again_gives_no_evidence() -> None:
    assert prs_logs.read([file(BATCHES, "Picked Count\n1\n1\n")]) == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        "Time,CPU(%),Memory(%)\n2026-07-01T10:00:00Z,5,40.0\n2026-07-01T10:01:00Z,5,97.2\n2026-07-01T10:02:00Z,5,60\n",
        "time,total_memory_mb,available_memory_mb\n2026-07-01T10:00:00Z,64000,32000\n2026-07-01T10:01:00Z,64000,1792\n",
        "timestamp,memory total (GB),memory used (GB)\n2026-07-01T10:00:00,64,10\n2026-07-01T10:01:00,64,62.2\n",
    ],
)
def test_full_memory_means_a_node_out_of_memory_at_its_peak(text: str) -> None:
    [item], _ = prs_logs.read([file(USAGE, text)])
    assert (item.node, item.kind) == ("10.0.0.7", CauseKind.NODE_MEMORY)
    assert item.evidence.message == "memory of the node was 97 % full"
    assert item.evidence.time == 1782900060.0


def test_memory_below_the_reserve_of_the_extension_gives_no_evidence() -> None:
    assert prs_logs.read([file(USAGE, "Time,Memory(%)\n1,94.9\n2,bad\n3,\n4,9999\n")]) == ([], [])


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        (BATCHES, "", "no column Picked Count"),
        (BATCHES, "a,b\n1,2\n", "no column Picked Count"),
        (USAGE, "Time,CPU\n1,2\n", "no known memory column"),
        (BATCHES, "Picked Count\n" + "9" * 70_000, "not CSV: a line is too long"),
        (BATCHES, 'Picked Count\n"' + "9\n" * 90_000, "not CSV"),
    ],
)
def test_file_without_usable_columns_has_a_reason(path: str, text: str, reason: str) -> None:
    _, [skipped] = prs_logs.read([file(path, text)])
    assert (skipped.path, skipped.reason) == (path, reason)


def test_file_that_cannot_be_opened_is_skipped_and_the_rest_is_read() -> None:
    def fail() -> BinaryIO:
        raise PermissionError(13, "Permission denied")

    evidence, [skipped] = prs_logs.read(
        [LogFile(BATCHES, fail), file(BATCHES, "Picked Count\n2\n")]
    )
    assert len(evidence) == 1
    assert "denied" in skipped.reason


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=400),
    st.sampled_from([BATCHES, USAGE]),
    st.sampled_from([b"", b"Picked Count,memory %\n"]),
)
def test_any_bytes_give_evidence_or_a_reason(data: bytes, path: str, header: bytes) -> None:
    evidence, skipped = prs_logs.read([file(path, header + data)])
    assert len(evidence) + len(skipped) <= 1
