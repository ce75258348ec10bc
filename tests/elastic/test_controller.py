"""Elastic runs with real processes: notices, killed and silent nodes, growth, failures; the result is always exact."""

from __future__ import annotations

import json
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.test_run_lines import diagnose
from tests.elastic.local_cluster import SCRIPT, LocalCluster, elastic_run, expected_total
from tests.support import Result

pytestmark = pytest.mark.slow

FOREIGN = """
import os, signal, sys, time

def stop(*_):
    print("SIGTERM", flush=True)
    time.sleep(0.2)  # a second one would be printed, too
    sys.exit(143)

signal.signal(signal.SIGTERM, stop)
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


def test_a_run_without_incidents(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), 60, 0.005) as run:
        assert run.wait() == 0
        assert f"total {expected_total(60)} workers 2" in run.text()
        assert run.controller.timeline.steps_redone == 0


def test_the_folder_of_checkpoints_is_there_for_the_library_of_adaptdl(tmp_path: Path) -> None:
    source = 'import os\nprint(os.listdir(os.environ["ADAPTDL_CHECKPOINT_PATH"]))\n'
    with elastic_run(tmp_path, LocalCluster("a"), source=source, modules=[], max_failures=0) as run:
        assert run.wait() == 0
    assert "[]" in run.text()


WITH_CHILD = """
import signal, subprocess, sys
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)

def stop(*_):
    print("child", child.poll(), flush=True)
    sys.exit(143)

signal.signal(signal.SIGTERM, stop)
child.wait()
"""


def test_only_the_rank_is_asked_to_stop_and_all_that_it_started_ends(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a"), source=WITH_CHILD, modules=[]) as run:
        run.until(lambda: run.text())
        child = Path("/proc") / run.text()
        assert child.exists()
        run.controller.cancel()
        assert run.wait() == 143
        assert "child None" in run.text(), "what loads its data is still there while it saves"
        run.until(lambda: not child.exists() or "Z (zombie)" in (child / "status").read_text())


SHARDS = """
import os, signal, sys, time
rank = int(os.environ["RANK"])

def stop(*_):
    time.sleep(1.5 * rank)
    print("saved", rank, flush=True)
    sys.exit(143)

signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
time.sleep(60)
"""


def test_without_the_library_every_rank_has_time_to_save(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), source=SHARDS, modules=[]) as run:
        run.until(lambda: run.text().count("up") == 2)
        run.controller.cancel()
        assert run.wait() == 143
        assert {"saved 0", "saved 1"} <= set(run.text().splitlines())


def test_a_copy_is_not_waited_for_if_its_node_is_lost(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), 10_000, 0.02, checkpoints="") as run:
        run.until_step(5)
        assert run.controller.placement is not None
        first = run.controller.placement.nodes[0]
        run.controller._copies = tmp_path / "elsewhere"  # nothing arrives there
        (run.notices / first).write_text("60")
        run.until(lambda: run.controller._generation and 0 in run.controller._generation.exits)
        time.sleep(1)
        assert len(run.events("start")) == 1, (
            "before the node is left, its last checkpoint is on the head"
        )
        run.cluster.signal(first, signal.SIGKILL)
        run.until(lambda: len(run.events("start")) == 2, 10)


def test_the_last_words_of_a_rank_are_shown(tmp_path: Path) -> None:
    source = "import sys\nsys.stdout.write('one\\ntwo')\n"
    for _ in range(3):
        with elastic_run(tmp_path, LocalCluster("a"), source=source) as run:
            assert run.wait() == 0
            assert run.text() == "one\ntwo"


def test_a_notice_shrinks_the_run_at_once_and_loses_no_step(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b", "c"), 300, 0.02) as run:
        run.until_step(30)
        (run.notices / "b").write_text("25")
        run.until(lambda: len(run.events("start")) == 2)
        assert run.cluster.drained == ["b"]
        assert run.wait() == 0
    assert [event["workers"] for event in run.events("start")] == [3, 2]
    assert f"total {expected_total(300)} workers 2" in run.text()
    timeline = run.controller.timeline
    assert (timeline.steps_redone, timeline.evictions, timeline.failures) == (0, 1, 0)


@pytest.mark.parametrize("moment", ["start", "resumed"])
def test_a_notice_in_the_very_first_steps_loses_none(tmp_path: Path, moment: str) -> None:
    """Nothing is known of the speed of the ranks then, and some of them may not have done a step."""
    with elastic_run(tmp_path, LocalCluster("a", "b", "c"), 1500, 0.001) as run:
        run.until(lambda: bool(run.events(moment)))
        (run.notices / "b").write_text("25")
        run.until(lambda: len(run.events("start")) == 2)
        assert run.wait() == 0
    assert f"total {expected_total(1500)} workers 2" in run.text()
    timeline = run.controller.timeline
    assert (timeline.steps_redone, timeline.evictions, timeline.failures) == (0, 1, 0)
    assert not run.events("timeout")


def test_the_log_of_a_node_proves_its_eviction(tmp_path: Path, arc: Callable[..., Result]) -> None:
    """`diagnose` reads it as it reads the log of `arc-toolkit run`."""
    with elastic_run(tmp_path, LocalCluster("a", "b"), 300, 0.02) as run:
        run.until_step(30)
        notice = {"kind": "preempt", "source": "azure", "deadline": time.time() + 25}
        (run.notices / "b").write_text(json.dumps(notice))
        run.until(lambda: len(run.events("start")) == 2)
        run.until(lambda: "reason=evicted" in run.cluster.log("b").read_text())
        logs = {node: run.cluster.log(node).read_text().splitlines() for node in "ab"}
        assert run.wait() == 0
    cause = diagnose(arc, tmp_path / "evicted", *logs["b"])["cause"]
    assert (cause["kind"], cause["confidence"]) == ("spot-preemption", "high")
    assert "the notice preempt of azure and ended the process" in cause["evidence"][0]["message"]
    assert diagnose(arc, tmp_path / "stopped", *logs["a"])["cause"]["kind"] != "spot-preemption"


def test_a_node_that_goes_right_after_its_notice_is_one_eviction(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), 300, 0.02) as run:
        run.until_step(30)
        (run.notices / "b").write_text("25")
        run.until(lambda: bool(run.events("stopping")))
        run.cluster.signal("b", signal.SIGKILL)
        assert run.wait() == 0
    assert f"total {expected_total(300)} workers 1" in run.text()
    assert (run.controller.timeline.evictions, run.controller.timeline.failures) == (1, 0)


def test_two_nodes_lost_at_once_are_two_evictions_and_no_failure(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b", "c"), 200, 0.02, max_failures=0) as run:
        run.until_step(30)
        run.cluster.signal("a", signal.SIGKILL)
        run.cluster.signal("c", signal.SIGKILL)
        assert run.wait() == 0
    assert f"total {expected_total(200)} workers 1" in run.text()
    assert (run.controller.timeline.evictions, run.controller.timeline.failures) == (2, 0)


def test_two_notices_in_the_same_moment_are_two_evictions(tmp_path: Path) -> None:
    """The second one may come while ranks already stop for the first one."""
    with elastic_run(tmp_path, LocalCluster("a", "b", "c"), 300, 0.02) as run:
        run.until_step(30)
        (run.notices / "a").write_text("25")
        run.until(lambda: bool(run.events("stopping")))
        (run.notices / "c").write_text("25")
        assert run.wait() == 0
    assert f"total {expected_total(300)} workers 1" in run.text()
    timeline = run.controller.timeline
    assert (timeline.evictions, timeline.failures, timeline.steps_redone) == (2, 0, 0)


def test_a_controller_that_dies_during_a_save_costs_nothing(tmp_path: Path) -> None:
    save = "with store.save(step) as folder:"
    source = SCRIPT.replace(
        save, f"{save}\n            open(sys.argv[1] + '-saving', 'w'); time.sleep(1)"
    )
    cluster, history = LocalCluster("a", "b"), tmp_path / "history.json"
    options = {"source": source, "history": history}
    with elastic_run(tmp_path, cluster, tmp_path / "end", 0.02, **options) as first:
        first.until(lambda: (tmp_path / "end-saving").exists())
        first.abandon()
        with elastic_run(
            tmp_path, cluster, tmp_path / "end", 0.02, is_restarted=True, **options
        ) as run:
            run.until(lambda: bool(run.events("adopted")))
            run.until_step(45)
            (tmp_path / "end").touch()
            assert run.wait() == 0
    steps = int(run.text().split("steps ")[1])
    assert f"total {expected_total(steps)} workers 2" in run.text()
    assert run.controller.timeline.steps_redone == 0
    assert len(run.events("start")) == 1


def test_one_rank_that_always_fails_ends_the_run(tmp_path: Path) -> None:
    source = SCRIPT.replace(
        'if MODE == "crash"', 'if RANK == 2 and step == 7: sys.exit(1)\n    if MODE == "crash"'
    )
    with elastic_run(
        tmp_path, LocalCluster("a", "b", "c"), 100, 0.01, source=source, max_failures=1
    ) as run:
        assert run.wait() == 1
    assert [(event["rank"], event["code"]) for event in run.events("failed")] == [(2, 1), (2, 1)]
    assert run.controller.summary()["outcome"] == "failed"


def test_the_port_of_the_ranks_is_not_taken_by_others(tmp_path: Path) -> None:
    """Whoever asks for a free port meanwhile gets another one."""
    with elastic_run(tmp_path, LocalCluster("a"), tmp_path / "end", 0.02) as run:
        run.until(lambda: bool(run.events("ready")))
        (agent,) = run.controller._agents.links
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("", agent.port))
        (tmp_path / "end").touch()
        assert run.wait() == 0


def test_a_save_that_takes_too_long_is_not_waited_for(tmp_path: Path) -> None:
    save = "with store.save(step) as folder:"
    source = SCRIPT.replace(save, f"{save}\n            time.sleep(600 if store.notice else 0)")
    with elastic_run(
        tmp_path, LocalCluster("a", "b"), 200, 0.02, source=source, checkpoint_timeout=1.0
    ) as run:
        run.until_step(45)
        (run.notices / "b").write_text("25")
        assert run.wait() == 0
    assert f"total {expected_total(200)} workers 1" in run.text()
    (event,) = run.events("timeout")
    assert event["resumes"].startswith("from step ")
    assert 0 < run.controller.timeline.steps_redone <= 40


def test_a_controller_that_comes_back_leaves_a_node_with_a_notice(tmp_path: Path) -> None:
    """It was given while nobody listened."""
    cluster, history = LocalCluster("a", "b"), tmp_path / "history.json"
    with elastic_run(tmp_path, cluster, tmp_path / "end", 0.02, history=history) as first:
        first.until_step(30)
        first.abandon()
        (first.notices / "b").write_text("60")
        with elastic_run(
            tmp_path, cluster, tmp_path / "end", 0.02, history=history, is_restarted=True
        ) as run:
            run.until(lambda: bool(run.events("adopted")))
            run.until(lambda: len(run.events("start")) == 2)
            run.until(lambda: len(run.events("resumed")) == 2)
            (tmp_path / "end").touch()
            assert run.wait() == 0
    steps = int(run.text().split("steps ")[1])
    assert f"total {expected_total(steps)} workers 1" in run.text()
    assert (run.controller.timeline.steps_redone, run.controller.timeline.evictions) == (0, 1)
    assert [event["workers"] for event in run.events("start")] == [2, 1], (
        "both controllers have one history"
    )


def test_growth_stops_where_samples_do_not_grow(tmp_path: Path) -> None:
    """One batch for all: with more workers a step takes longer, and has as many samples."""
    source = SCRIPT.replace("store.due(step)", "store.due(step, samples=12 // WORLD)")
    source = source.replace("time.sleep(PAUSE)", "time.sleep(PAUSE * WORLD)")
    with elastic_run(tmp_path, LocalCluster("a"), tmp_path / "end", 0.02, source=source) as run:
        run.until(lambda: 1 in run.controller.throughput.rates)
        run.cluster.nodes.append("b")
        run.until(lambda: len(run.events("resumed")) == 3)
        run.cluster.nodes.append("c")
        run.until(
            lambda: any(agent.node == "c" and agent.warm for agent in run.controller._agents.links)
        )
        (run.notices / "a").write_text("60")
        run.until(lambda: len(run.events("resumed")) == 4)
        (tmp_path / "end").touch()
        assert run.wait() == 0
    assert [event["workers"] for event in run.events("start")] == [1, 2, 1, 1], (
        "of two that stay one is used"
    )
    assert [event["cause"] for event in run.events("resumed")] == [
        "start",
        "growing",
        "shrinking",
        "eviction",
    ]
    assert run.cluster.workers == 1, "the autoscaler is asked for no more"
    summary = run.controller.summary()
    assert summary["steps_redone"] == 0
    assert summary["throughput_unit"] == "samples per second"
    assert list(summary["throughput"]) == ["1", "2"]
    assert summary["throughput"]["2"] < summary["throughput"]["1"]


def test_what_the_cluster_has_to_say_is_an_event(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a"), 5, 0.01) as run:
        run.controller.note("b", "its agent failed: no Python")
        assert run.wait() == 0
    (note,) = run.events("note")
    assert (note["node"], note["text"]) == ("b", "its agent failed: no Python")


def test_a_script_that_does_not_stop_is_ended_and_it_is_said(tmp_path: Path) -> None:
    source = FOREIGN.replace("signal.SIGTERM, stop)", "signal.SIGTERM, signal.SIG_IGN)")
    options: dict[str, Any] = {"source": source, "modules": [], "checkpoint_timeout": 1.0}
    with elastic_run(tmp_path, LocalCluster("a", "b"), tmp_path / "end", **options) as run:
        run.until(lambda: "rank 0 of 2" in run.text())
        (run.notices / "b").write_text("60")
        run.until(lambda: "rank 0 of 1" in run.text())
        (tmp_path / "end").touch()
        assert run.wait() == 0
    (event,) = run.events("timeout")
    assert event["what"] == "ranks did not end in time: [0, 1]"
    assert event["resumes"] == "from what the script has saved"
    assert run.controller.summary()["failures"] == 0


def test_a_script_without_the_library_shrinks_and_grows(tmp_path: Path) -> None:
    """It hears of a stop by one SIGTERM, ends with 143, and has its own way to save."""
    with elastic_run(
        tmp_path, LocalCluster("a", "b"), tmp_path / "end", source=FOREIGN, modules=[]
    ) as run:
        run.until(lambda: "rank 0 of 2" in run.text())
        (run.notices / "b").write_text("60")
        run.until(lambda: "rank 0 of 1" in run.text())
        run.cluster.nodes.append("c")
        run.until(lambda: run.text().count("rank 0 of 2") == 2)
        (tmp_path / "end").touch()
        assert run.wait() == 0
    assert run.text().count("SIGTERM") == 3, "two ranks, then one"
    assert [event["workers"] for event in run.events("start")] == [2, 1, 2]
    summary = run.controller.summary()
    assert (summary["steps"], summary["evictions_survived"], summary["failures"]) == (0, 1, 0)
    assert set(summary["seconds_lost"]) == {"start", "eviction", "growing"}
    spent = summary["seconds_trained"] + sum(summary["seconds_lost"].values())
    assert summary["seconds_trained"] > 10, "it grows after 10 s"
    assert spent == pytest.approx(summary["seconds"], abs=0.5)


def test_a_killed_node_costs_at_most_one_interval(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), 150, 0.02) as run:
        run.until_step(50)
        run.cluster.signal("a", signal.SIGKILL)
        assert run.wait() == 0
    assert f"total {expected_total(150)} workers 1" in run.text()
    assert run.controller.timeline.steps_redone <= 21
    assert run.events("lost")[0]["why"] == "its connection was closed"


def test_a_silent_node_is_lost(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), 120, 0.02) as run:
        run.until_step(50)
        run.cluster.signal("b", signal.SIGSTOP)
        assert run.wait() == 0
    assert "silent" in run.events("lost")[0]["why"]
    assert f"total {expected_total(120)}" in run.text()


def test_a_new_node_is_used_after_a_save(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a"), 400, 0.02) as run:
        run.until_step(20)
        run.cluster.nodes.append("b")
        run.until(lambda: len(run.events("start")) == 2)
        assert run.events("stopping")[0]["reason"] == "growing"
        assert run.wait() == 0
    assert f"total {expected_total(400)} workers 2" in run.text()
    assert run.controller.timeline.steps_redone == 0
    assert run.controller.timeline.evictions == 0


def test_a_crash_uses_the_budget_and_evictions_do_not(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), 260, 0.02, "crash", max_failures=1) as run:
        run.until(lambda: len(run.events("start")) == 2)
        run.until_step(50)
        (run.notices / "a").write_text("25")
        assert run.wait() == 0
    assert f"total {expected_total(260)} workers 1" in run.text()
    assert (run.controller.timeline.failures, run.controller.timeline.evictions) == (1, 1)


def test_a_bug_ends_the_run_with_its_exit_code(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a"), 80, 0.01, "always-crash", max_failures=2) as run:
        assert run.wait() == 1
    assert run.controller.timeline.failures == 3
    assert "ValueError: a bug" in run.text()


def test_a_withdrawn_notice_lets_the_node_take_part_again(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), 500, 0.02) as run:
        run.until_step(20)
        (run.notices / "b").write_text("60")
        run.until(lambda: len(run.events("start")) == 2)
        (run.notices / "b").unlink()
        run.until(lambda: bool(run.events("withdrawn")))
        run.until(lambda: len(run.events("start")) == 3)
        assert run.wait() == 0
    assert [event["workers"] for event in run.events("start")] == [2, 1, 2]
    assert f"total {expected_total(500)} workers 2" in run.text()


def test_ten_evictions_in_a_row(tmp_path: Path) -> None:
    nodes = [f"n{number}" for number in range(4)]
    with elastic_run(tmp_path, LocalCluster(*nodes), 1500, 0.01) as run:
        for number in range(10):
            run.until(lambda count=number: len(run.events("resumed")) > count)  # type: ignore[misc]
            running = run.controller.placement
            assert running is not None
            run.cluster.nodes.append(f"n{number + 4}")
            (run.notices / running.nodes[0]).write_text("25")
            run.until(lambda count=number: run.controller.timeline.evictions > count)  # type: ignore[misc]
        assert run.wait(120) == 0
    assert run.controller.timeline.evictions == 10
    assert run.controller.timeline.steps_redone == 0
    assert f"total {expected_total(1500)}" in run.text()


def test_a_run_waits_for_the_least_workers_and_says_so(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a"), 40, 0.01, least=2, rescale_timeout=1.0) as run:
        run.until(lambda: bool(run.events("waiting")))
        assert not run.events("start")
        run.cluster.nodes.append("b")
        assert run.wait() == 0
    assert f"total {expected_total(40)} workers 2" in run.text()


def test_a_run_without_nodes_says_so_soon_and_knows_what_that_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arc_toolkit.elastic.controller._SAY_SECONDS", 1.0)
    with elastic_run(tmp_path, LocalCluster("a"), tmp_path / "end", 0.02) as run:
        run.until_step(20)
        (run.notices / "a").write_text("60")
        run.until(lambda: bool(run.events("waiting")))
        run.controller.cancel()
        assert run.wait() == 143
    summary = run.controller.summary()
    assert summary["seconds_lost"]["eviction"] > 1.0
    spent = summary["seconds_trained"] + sum(summary["seconds_lost"].values())
    assert spent == pytest.approx(summary["seconds"], abs=0.5)


def test_two_slots_of_one_node_are_two_ranks(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", slots=2), 40, 0.01, most=2) as run:
        assert run.wait() == 0
    assert f"total {expected_total(40)} workers 2" in run.text()


def test_cancel_saves_first(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), 2000, 0.02) as run:
        run.until_step(33)
        run.controller.cancel()
        assert run.wait() == 143
    step = run.controller.newest_step()
    assert step is not None
    assert step >= 33


def test_ranks_end_with_their_agent(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a"), 5000, 0.02) as run:
        run.until_step(5)
        agent = run.cluster.agents["a"].pid
        children = [
            int(path.name)
            for path in Path("/proc").iterdir()
            if path.name.isdigit() and f"PPid:\t{agent}\n" in _status(path)
        ]
        assert children
        run.cluster.signal("a", signal.SIGKILL)
        end = time.monotonic() + 20
        while any(
            "State:\tZ" not in _status(Path(f"/proc/{pid}")) and _status(Path(f"/proc/{pid}"))
            for pid in children
        ):
            assert time.monotonic() < end
            time.sleep(0.05)


def _status(path: Path) -> str:
    try:
        return (path / "status").read_text()
    except OSError:
        return ""


@pytest.mark.parametrize("is_shared", [True, False])
def test_after_the_loss_of_the_head_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    """Nothing of the first run is left except files: on shared storage, or copies on the disk of the head."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()
    options = {"checkpoints": str(tmp_path / "shared") if is_shared else ""}
    with elastic_run(tmp_path, LocalCluster("a", "b"), 5000, 0.02, **options) as first:
        first.until(lambda: (first.controller.newest_step() or 0) >= 39)
        first.abandon()
        first.cluster.close()
    with elastic_run(tmp_path, LocalCluster("c", "d"), 120, 0.01, **options) as run:
        assert run.wait() == 0
    assert run.events("resumed")[0]["step"] >= 40
    assert f"total {expected_total(120)} workers 2" in run.text()


def test_without_shared_storage_checkpoints_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()
    with elastic_run(tmp_path, LocalCluster("a", "b", "c"), 300, 0.02, checkpoints="") as run:
        run.until_step(45)
        running = run.controller.placement
        assert running is not None
        (run.notices / running.nodes[0]).write_text("25")  # the node of the rank that saves
        run.until(lambda: len(run.events("resumed")) == 2)
        assert run.controller.timeline.steps_redone == 0
        run.until(lambda: (run.controller.newest_step() or 0) >= 100)
        running = run.controller.placement
        assert running is not None
        run.cluster.signal(running.nodes[0], signal.SIGKILL)
        assert run.wait() == 0
    assert f"total {expected_total(300)}" in run.text()
    assert (
        run.controller.timeline.steps_redone <= 41
    )  # one interval, and one that was not copied yet
