"""The lines of `arc-toolkit run` in a job's log: a noticed eviction is proved, not inferred."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis.model import LogFile
from arc_toolkit.diagnosis.read.scan import CHUNK, LONGEST_LINE, TAIL, LogScan, scan
from arc_toolkit.notices.run_log import read_run
from tests.support import Result

NODE = "aks-spot-12345678-vmss000004"
START = f"arc-toolkit-run 2026-03-03T09:00:01Z start node={NODE} pid=7 restart=0 command=python"
NOTICE = "arc-toolkit-run 2026-03-03T09:38:17Z notice kind={} source={} deadline=2026-03-03T09:38:46Z step=1200"
SAVED = "arc-toolkit-run 2026-03-03T09:38:19Z saved step=1201 seconds=1.6"
WITHDRAWN = "arc-toolkit-run 2026-03-03T09:38:18Z withdrawn kind=preempt source=azure"
END = "arc-toolkit-run 2026-03-03T09:38:19Z end reason={} code={} step=1203 saved=1201"


def diagnose(arc: Callable[..., Result], folder: Path, *lines: str) -> dict[str, Any]:
    """The first of two attempts of a job whose log has these lines."""
    for name, node in (("system_logs", NODE), ("system_logs/retry-001", NODE[:-1] + "7")):
        log = folder / "job" / name / "amlarc_cr_bootstrap.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"Tue Mar  3 09:00:00 UTC 2026\nRun on node: {node}\n")
    (folder / "job" / "user_logs").mkdir()
    (folder / "job" / "user_logs" / "std_log.txt").write_text("step 1\n" + "\n".join(lines) + "\n")
    result = arc("diagnose", folder, "--format", "json")
    assert result.code == 0
    report = json.loads(result.out)
    attempt: dict[str, Any] = report["jobs"][0]["attempts"][0]
    return attempt


def test_a_noticed_eviction_is_proved_with_the_steps_lost(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    lines = (START, NOTICE.format("preempt", "azure"), SAVED, END.format("evicted", 143))
    attempt = diagnose(arc, tmp_path, *lines)
    assert attempt["outcome"] == "failed"
    cause = attempt["cause"]
    assert (cause["kind"], cause["confidence"]) == ("spot-preemption", "high")
    assert "step 1201 was saved, 2 steps lost" in cause["evidence"][0]["message"]
    assert cause["evidence"][0]["reason"] == "eviction notice"


def test_a_machine_that_was_faster_than_its_notice_is_proved_too(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    cause = diagnose(arc, tmp_path, START, NOTICE.format("preempt", "azure"))["cause"]
    assert (cause["kind"], cause["confidence"]) == ("spot-preemption", "high")
    assert "its log ends there; nothing is known of a save" in cause["evidence"][0]["message"]


@pytest.mark.parametrize(
    "lines",
    [
        (START, NOTICE.format("preempt", "azure"), WITHDRAWN),
        (
            START,
            NOTICE.format("stop", "sigterm"),
            END.format("evicted", 143),
        ),  # nobody says who asked
        (
            START,
            NOTICE.format("preempt", "azure"),
            END.format("finished", 0),
        ),  # it was done in time
        (START, END.format("failed", 1)),
        ("my arc-toolkit-run 2 is great",),
    ],
)
def test_other_ends_prove_no_eviction(
    arc: Callable[..., Result], tmp_path: Path, lines: tuple[str, ...]
) -> None:
    cause = diagnose(arc, tmp_path, *lines)["cause"]
    assert cause is None or cause["kind"] != "spot-preemption"


def test_the_record_of_the_last_process_counts() -> None:
    again = START.replace("restart=0", "restart=1")
    record = read_run(
        "\n".join([START, NOTICE.format("preempt", "aws"), again, END.format("failed", 3)])
    )
    assert record is not None
    assert (record.notice, record.reason, record.code, record.steps_lost) == ("", "failed", 3, 2)
    assert read_run("nothing here") is None
    assert read_run("arc-toolkit-run not-a-time end reason=evicted") is None


@pytest.mark.parametrize(
    "name", ["user_logs/std_log.txt", f"logs/worker-{'0a' * 28}-01000000-499.err"]
)
@pytest.mark.parametrize("is_named", [False, True])
def test_the_log_of_a_process_that_was_evicted_needs_no_other(
    arc: Callable[..., Result], tmp_path: Path, name: str, is_named: bool
) -> None:
    """Also one of Ray, to which the agents of `elastic` write."""
    path = tmp_path / "job" / name
    path.parent.mkdir(parents=True)
    path.write_text(
        "\n".join((":actor_name:RayAgent", START, NOTICE.format("preempt", "azure"))) + "\n"
    )
    result = arc("diagnose", path if is_named else tmp_path, "--format", "json")
    assert result.code == 0
    (job,) = json.loads(result.out)["jobs"]
    assert (job["name"], job["outcome"], job["causes"]) == ("job", "failed", ["spot-preemption"])
    assert job["attempts"][0]["cause"]["confidence"] == "high"


# --- a log of `run` alone --------------------------------------------------------------------------------------

FIRST = (
    START,
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in <module>',
    "ValueError: no",
    "arc-toolkit-run 2026-03-03T09:10:00Z end reason=failed code=1 step=300 saved=250 restarts_left=2",
)
SECOND = (
    START.replace("09:00:01Z", "09:10:01Z").replace("restart=0", "restart=1"),
    *["step 1 loss 0.25 " + "." * 80] * 4000,  # more than is kept of a log at once
    " 55%|#####     | 55/100\r" + NOTICE.format("preempt", "azure"),
    SAVED,
    END.format("evicted", 143),
)


def attempts(arc: Callable[..., Result], log: Path, *lines: str) -> list[dict[str, Any]]:
    """The attempts of the only job, which is named after the file."""
    log.write_text("\n".join(lines) + "\n")
    result = arc("diagnose", log, "--format", "json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["skipped"] == []
    (job,) = report["jobs"]
    assert job["name"] == log.stem
    found: list[dict[str, Any]] = job["attempts"]
    return found


def test_every_start_in_a_log_of_run_is_an_attempt(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    first, second = attempts(arc, tmp_path / "run.log", "hello", *FIRST, *SECOND)
    assert [(item["number"], item["node"], item["outcome"]) for item in (first, second)] == [
        (0, NODE, "failed"),
        (1, NODE, "failed"),
    ]
    assert (first["start"], first["end"]) == ("2026-03-03T09:00:01Z", "2026-03-03T09:10:00Z")
    assert (first["cause"]["kind"], first["cause"]["confidence"]) == ("user-error", "medium")
    (code,) = first["cause"]["evidence"]
    assert (code["source"], code["reason"]) == ("exit code", "1")
    assert "50 steps lost" in code["message"]
    assert (second["cause"]["kind"], second["cause"]["confidence"]) == ("spot-preemption", "high")
    assert "step 1201 was saved, 2 steps lost" in second["cause"]["evidence"][0]["message"]


def test_each_pod_of_kubectl_logs_with_a_prefix_is_a_rank(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    texts = (
        "\n".join((*FIRST, *SECOND)).split("\n"),
        START.replace(NODE, "other-node").split("\n"),
    )
    mixed = [
        f"[pod/{pod}/main] 2026-03-03T09:00:00.123456789Z {line}"
        for pod, lines in zip(("train-0", "train-1"), texts, strict=True)
        for line in lines
    ]
    found = attempts(arc, tmp_path / "pods.log", *mixed[-1:], *mixed[:-1])
    assert [(item["number"], item["rank"], item["node"]) for item in found] == [
        (0, "train-0", NODE),
        (0, "train-1", "other-node"),
        (1, "train-0", NODE),
    ]
    assert found[2]["cause"]["kind"] == "spot-preemption"


@pytest.mark.parametrize(
    ("lines", "outcome", "kind"),
    [
        ((START, END.format("finished", 0)), "succeeded", None),
        ((START,), "unknown", None),
        ((START, NOTICE.format("preempt", "azure")), "failed", "spot-preemption"),
        (
            (START, NOTICE.format("preempt", "gcp"), END.format("withdrawn", 143)),
            "failed",
            "spot-preemption",
        ),
        ((START, NOTICE.format("reboot", "azure"), END.format("evicted", 143)), "failed", "drain"),
        (
            (START, NOTICE.format("stop", "sigterm"), END.format("evicted", 143)),
            "failed",
            "unknown",
        ),
        ((START, END.format("interrupted", 130)), "failed", "cancelled"),
        ((START, END.format("failed", 137)), "failed", "unknown"),
        ((END.format("evicted", 143),), "failed", "unknown"),  # `kubectl logs --tail=1`
        # the process crashed, and the notice came in the pause after it
        (
            (*FIRST, "arc-toolkit-run 2026-03-03T09:10:01Z end reason=evicted step=300"),
            "failed",
            "user-error",
        ),
    ],
)
def test_how_a_process_under_run_ended(
    arc: Callable[..., Result],
    tmp_path: Path,
    lines: tuple[str, ...],
    outcome: str,
    kind: str | None,
) -> None:
    (attempt,) = attempts(arc, tmp_path / "run.log", *lines)
    assert attempt["outcome"] == outcome
    assert (attempt["cause"]["kind"] if attempt["cause"] else None) == kind


def test_a_request_to_stop_does_not_count_for_the_node(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "\n".join((START, NOTICE.format("stop", "sigterm"), END.format("evicted", 143))) + "\n"
    )
    (verdict,) = json.loads(arc("diagnose", log, "--format", "json").out)["nodes"]
    assert (verdict["node"], verdict["failures"], verdict["attempts"]) == (NODE, 0, 0)


def test_two_logs_of_run_in_one_folder_are_two_jobs(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("\n".join(FIRST) + "\n")
    report = json.loads(
        arc("diagnose", tmp_path / "a.log", tmp_path / "b.log", "--format", "json").out
    )
    assert sorted(job["name"] for job in report["jobs"]) == ["a", "b"]


def test_generations_of_elastic_are_one_attempt(arc: Callable[..., Result], tmp_path: Path) -> None:
    start = f"arc-toolkit-run 2026-03-03T09:0{{}}:00Z start node={NODE} generation={{}} ranks=2"
    (attempt,) = attempts(arc, tmp_path / "agent.log", start.format(0, 1), start.format(1, 2))
    assert (attempt["start"], attempt["outcome"]) == ("2026-03-03T09:00:00Z", "unknown")


def test_what_the_job_printed_without_any_bootstrap_log_has_the_node_of_run(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    log = tmp_path / "job" / "user_logs" / "std_log.txt"
    log.parent.mkdir(parents=True)
    log.write_text(
        "\n".join((START, NOTICE.format("preempt", "azure"), SAVED, END.format("evicted", 143)))
        + "\n"
    )
    report = json.loads(arc("diagnose", tmp_path, "--format", "json").out)
    (attempt,) = report["jobs"][0]["attempts"]
    assert (attempt["node"], attempt["cause"]["kind"]) == (NODE, "spot-preemption")


def test_an_exception_before_the_last_line_of_run_is_the_end_of_the_program(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    assert diagnose(arc, tmp_path, *FIRST)["cause"]["kind"] == "user-error"


def test_lines_at_the_edge_of_a_chunk_are_read_once(tmp_path: Path) -> None:
    begin = CHUNK + TAIL - LONGEST_LINE  # where the scanner leaves a hit for the next chunk
    for shift in range(-20, 20):
        log = tmp_path / "run.log"
        log.write_bytes(b"x" * (begin + shift - 8) + b"\n" + f"{START}\n".encode() + b"y\n" * CHUNK)
        found = scan(LogFile(str(log), partial(io.FileIO, str(log))))
        assert isinstance(found, LogScan)
        assert [len(records) for records in (found.runs or {}).values()] == [1], shift
