"""Bad input of every kind: never a fault, never a hang, and memory that does not grow with the input."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.cli.main import main
from arc_toolkit.diagnosis.formats import report_formats, report_text
from arc_toolkit.diagnosis.model import ClusterFacts, LogFile
from arc_toolkit.diagnosis.read import cluster_index, collect
from arc_toolkit.diagnosis.read.sources.inventory import Inventory
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import NODE_A, container, event, log, node, node_line, pod
from tests.support import ROOT

LOG = "amlarc_cr_bootstrap.log"

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=8),
    st.sampled_from(
        [
            "True",
            "Failed",
            "Evicted",
            "2026-03-03T10:00:00Z",
            "9999-99-99",
            "0001-01-01T00:00:00+23:59",
            NODE_A,
        ]
    ),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


def mutate(value: Any, draw: Any) -> Any:
    """The object with some of its parts replaced by anything."""
    if draw(st.integers(0, 7)) == 0:
        return draw(anything)
    if isinstance(value, dict):
        return {key: mutate(inner, draw) for key, inner in value.items() if draw(st.integers(0, 9))}
    if isinstance(value, list):
        return [mutate(inner, draw) for inner in value]
    return value


@st.composite
def objects(draw: Any) -> list[Any]:
    whole = [
        pod(
            disruption="DeletionByTaintManager",
            containers=[container()],
            reason="Evicted",
            message="low on resource: memory",
        ),
        pod(uid="u2", node=NODE_A, start=30, containers=[container(reason="OOMKilled", code=137)]),
        node(spot=True, taints=[{"key": "ToBeDeletedByClusterAutoscaler", "value": "1"}]),
        event("SystemOOM", 29.9),
        event("Preempted", 30, kind="Pod", about="p", uid="u2"),
        event("NodeReimageEnd", 10),
    ]
    return [mutate(item, draw) for item in whole]


@settings(max_examples=100, deadline=None)
@given(objects())
def test_objects_that_are_damaged_anywhere_are_diagnosed_without_a_fault(
    damaged: list[Any],
) -> None:
    data = json.dumps({"kind": "List", "items": damaged}).encode()
    try:
        facts = cluster_index.parse_list(data)
    except ValueError:
        return
    report = build([log(f"job/{LOG}", NODE_A)], [facts])
    for render in (
        report_formats.to_json,
        report_formats.to_csv,
        report_formats.to_markdown,
        report_text.overview,
        report_text.detail,
    ):
        assert render(report)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(anything, max_size=4), st.lists(anything, max_size=4), st.lists(anything, max_size=4)
)
def test_objects_that_are_anything_at_all_are_read_without_a_fault(
    pods: list[Any], nodes: list[Any], events: list[Any]
) -> None:
    report = build([], [ClusterFacts(pods, nodes, events, nodes_complete=True)])
    assert json.loads(report_formats.to_json(report))["schema"] == "arc-toolkit/diagnose/v1"


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_saved_json_of_any_bytes_is_parsed_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        facts = cluster_index.parse_list(data)
        assert all(isinstance(item, dict) for item in (*facts.pods, *facts.nodes, *facts.events))


def damaged_zip(data: bytes, flips: list[tuple[int, int]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"j/system_logs/{LOG}", data)
        archive.writestr("pods.json", b"{}")
    raw = bytearray(out.getvalue())
    for where, value in flips:
        raw[where % len(raw)] = value
    return bytes(raw)


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=300),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    st.sampled_from(["table", "json", "csv", "markdown"]),
)
def test_the_whole_command_ends_with_0_or_2_on_any_tree(
    data: bytes, flips: list[tuple[int, int]], form: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "j/retry-001").mkdir(parents=True)
        (root / f"j/{LOG}").write_bytes(data)
        (root / f"j/retry-001/{LOG}.gz").write_bytes(b"\x1f\x8b" + data)
        (root / "events.json").write_bytes(data)
        (root / "z.zip").write_bytes(damaged_zip(node_line(NODE_A) + data, flips))
        target = root / "out"
        assert main(["diagnose", folder, "--format", form, "-o", str(target), "-q"]) in (0, 2)


def peak_memory_mib(*words: str) -> tuple[str, float]:
    """What the command prints, and the most memory that it held at any time."""
    code = (
        "import sys; from arc_toolkit.cli.main import main; code = main(sys.argv[1:]); sys.stdout.flush();"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'));"
        "sys.stderr.write('peak ' + peak.split()[1]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return done.stdout, int(done.stderr.rsplit("peak ", 1)[1]) / 1024


@pytest.fixture
def holes(tmp_path: Path) -> Iterator[Path]:
    """A folder where a sparse file takes no memory to read: in memory itself, where there is such a place."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="arc-toolkit-test-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.slow
def test_a_10_gb_log_is_read_in_flat_memory(holes: Path) -> None:
    path = holes / f"j/system_logs/{LOG}"
    path.parent.mkdir(parents=True)
    with path.open("wb") as stream:
        stream.write(b"+ set -x\n" * 1000)
        stream.seek(10 << 30)
        stream.write(b"\n" + node_line(NODE_A))
    assert path.stat().st_size > 10 << 30
    out, peak = peak_memory_mib("diagnose", str(holes), "--format", "json")
    document = json.loads(out)
    assert document["jobs"][0]["nodes"] == [NODE_A]
    assert document["summary"]["bytes_read"] == path.stat().st_size
    assert peak < 150


def test_an_endless_pipe_of_no_interest_in_a_folder_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / f"j/{LOG}").write_bytes(node_line(NODE_A))
    os.mkfifo(tmp_path / "j/pods.json")
    os.mkfifo(tmp_path / "j/x.zip")
    assert main(["diagnose", str(tmp_path), "-o", str(tmp_path / "out"), "-q"]) == 0


def _stuck() -> Any:
    time.sleep(60)
    raise OSError


def test_an_interrupt_ends_the_reading_processes_at_once() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    inventory = Inventory(logs=[LogFile(f"j{number}", _stuck) for number in range(300)])
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        with pytest.raises(KeyboardInterrupt):
            collect.read_logs(inventory, 2, lambda text: None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for _ in range(200):  # they are asked to end, and sleep a minute otherwise
        if not multiprocessing.active_children():
            break
        time.sleep(0.05)
    assert multiprocessing.active_children() == []


def test_progress_is_shown_while_reading() -> None:
    told: list[str] = []
    data = node_line(NODE_A)
    inventory = Inventory(
        logs=[LogFile(f"j{number}/{LOG}", lambda: io.BytesIO(data)) for number in range(250)]
    )
    collect.read_logs(inventory, 1, told.append)
    assert told == ["read 100 of 250 logs", "read 200 of 250 logs", "read 250 of 250 logs"]
