"""The lines of `arc-toolkit run` in a job's log: a noticed eviction is proved, not inferred."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_a_noticed_eviction_is_proved_with_the_steps_lost(arc: Callable[..., Result], tmp_path: Path) -> None:
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
        (START, NOTICE.format("stop", "sigterm"), END.format("evicted", 143)),  # nobody says who asked
        (START, NOTICE.format("preempt", "azure"), END.format("finished", 0)),  # it was done in time
        (START, END.format("failed", 1)),
        ("my arc-toolkit-run 2 is great",),
    ],
)
def test_other_ends_prove_no_eviction(arc: Callable[..., Result], tmp_path: Path, lines: tuple[str, ...]) -> None:
    cause = diagnose(arc, tmp_path, *lines)["cause"]
    assert cause is None or cause["kind"] != "spot-preemption"


def test_the_record_of_the_last_process_counts() -> None:
    again = START.replace("restart=0", "restart=1")
    record = read_run("\n".join([START, NOTICE.format("preempt", "aws"), again, END.format("failed", 3)]))
    assert record is not None
    assert (record.notice, record.reason, record.code, record.steps_lost) == ("", "failed", 3, 2)
    assert read_run("nothing here") is None
    assert read_run("arc-toolkit-run not-a-time end reason=evicted") is None


@pytest.mark.parametrize("name", ["user_logs/std_log.txt", f"logs/worker-{'0a' * 28}-01000000-499.err"])
@pytest.mark.parametrize("is_named", [False, True])
def test_the_log_of_a_process_that_was_evicted_needs_no_other(
    arc: Callable[..., Result], tmp_path: Path, name: str, is_named: bool
) -> None:
    """Also one of Ray, to which the agents of `elastic` write."""
    path = tmp_path / "job" / name
    path.parent.mkdir(parents=True)
    path.write_text("\n".join((":actor_name:RayAgent", START, NOTICE.format("preempt", "azure"))) + "\n")
    result = arc("diagnose", path if is_named else tmp_path, "--format", "json")
    assert result.code == 0
    (job,) = json.loads(result.out)["jobs"]
    assert (job["name"], job["outcome"], job["causes"]) == ("job", "failed", ["spot-preemption"])
    assert job["attempts"][0]["cause"]["confidence"] == "high"
