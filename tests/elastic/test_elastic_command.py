"""`elastic` before a cluster is needed: its options, and the lines that it prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from arc_toolkit.cli import elastic_command
from arc_toolkit.elastic.timeline import Timeline
from arc_toolkit.output.jsonout import document
from tests.output.schema_check import schema_problem
from tests.support import Result


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    path = tmp_path / "code" / "train.py"
    path.write_text("import json\n")
    return path


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "-f FILE and -m N are needed, or --attach NAME"),
        (("-m", "2", "--min", "3"), "use 1 <= min <= max"),
        (("-m", "2", "--min", "0"), "use 1 <= min <= max"),
        (("-m", "2", "--cpus", "0"), "a worker needs --cpus or --gpus above 0"),
        (("-m", "2", "--cpus", "nan"), "a worker needs --cpus or --gpus above 0"),
        (("-m", "2", "--cpus", "inf"), "a worker needs --cpus or --gpus above 0"),
        (("-m", "2", "--gpus", "1.5"), "--gpus 1.5: use a whole number, or a part of one GPU"),
        (("-m", "2", "--max-failures", "-1"), "--max-failures -1: use 0 or more"),
        (("-m", "2", "--efficiency", "nan"), "--efficiency nan: use a share from 0 to 1"),
        (("-m", "2", "--efficiency", "50"), "--efficiency 50: use a share from 0 to 1"),
        (("-m", "2", "--name", "../fig"), "--name '../fig': use letters"),
        (("-m", "2", "-d", "/nowhere"), "-d /nowhere: no such folder"),
        (("-m", "2", "--checkpoints", __file__), "is not a folder"),
        (("-m", "2", "-u", "ray://"), "-u ray://: use ray://HEAD:10001"),
        (("-m", "2", "--attach", "fig"), "leave out -f and -m"),
        (("-m", "2", "--env", "A"), "--env A: write NAME=VALUE"),
        (("-m", "2", "--env", "=A"), "--env =A: write NAME=VALUE"),
        (("-m", "2", "--checkpoint-timeout", "soon"), "--checkpoint-timeout"),
        (("-m", "2", "--cluster-rescale-timeout", "-1"), "--cluster-rescale-timeout"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    arc: Callable[..., Result], script: Path, words: tuple[str, ...], reason: str
) -> None:
    result = arc("elastic", "-f", script, *words)
    assert result.code == 2
    assert reason in result.err
    assert result.err.count("\n") == 1


def test_a_script_outside_of_the_working_folder_is_refused(
    arc: Callable[..., Result], tmp_path: Path, script: Path
) -> None:
    (tmp_path / "other").mkdir()
    result = arc("elastic", "-f", script, "-m", 2, "-d", tmp_path / "other")
    assert (result.code, "is not in the working folder" in result.err) == (2, True)
    for text in ("def (", "x = 1\0\n"):
        script.write_text(text)
        result = arc("elastic", "-f", script, "-m", 2)
        assert (result.code, "train.py:1: not Python" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("uri", "reason"), [("ray://127.0.0.1:9", "refused"), ("127.0.0.1:9", "refused"), ("ray://x.invalid:1", "")]
)
def test_a_cluster_that_is_not_there_is_one_sentence(
    arc: Callable[..., Result], script: Path, uri: str, reason: str
) -> None:
    result = arc("elastic", "-f", script, "-m", 2, "-u", uri)
    assert result.code == 2
    assert f"cannot connect to Ray at {uri}: " in result.err
    assert reason in result.err
    assert result.err.count("\n") == 1
    assert arc("elastic", "--attach", "fig", "-u", uri).code == 2


def config(*words: object) -> tuple[object, ...]:
    parser = argparse.ArgumentParser()
    elastic_command.configure(parser)
    run, folder = elastic_command._config(parser.parse_args([str(word) for word in words]))
    return run.script, folder, run.working_dir, run.arguments, run.checkpoints, run.least, run.checkpoint_timeout


def test_the_script_is_relative_to_the_working_folder_as_in_adaptdl(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path / "checkpoints" / "fig")
    expected = ("code/train.py", str(tmp_path), str(tmp_path), ["--epochs", "2"], here, 1, 120.0)
    arguments = ("--", "--epochs", "2")
    assert config("-f", "code/train.py", "-d", tmp_path, "-m", 2, "--name", "fig", *arguments) == expected
    folder = str(tmp_path / "code")
    assert config("-f", "train.py", "-d", "code", "-m", 2, "--name", "fig")[:2] == ("train.py", folder)
    assert config("-f", "code/train.py", "-m", 2)[:2] == ("train.py", folder)


def test_in_a_cluster_nothing_of_this_machine_is_named(script: Path) -> None:
    run = config("-f", script, "-m", 2, "-u", "ray://head:10001", "--min", 2)
    assert run[2:] == ("", [], "", 2, 120.0)
    url = config("-f", script, "-m", 2, "-u", "ray://head:10001", "--checkpoints", "az://container/run")
    assert url[4] == "az://container/run"


STATE = {
    "workers": 3,
    "nodes": 4,
    "doomed": 0,
    "step": None,
    "steps_per_second": None,
    "throughput": None,
    "throughput_unit": "steps",
    "checkpoint": None,
    "stopping": "",
}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "3 workers on 4 nodes"),
        ({"step": 7, "steps_per_second": 2.0}, "3 workers on 4 nodes, step 7, 2.0 steps/s"),
        (
            {
                "step": 7,
                "steps_per_second": 2.0,
                "throughput": 96.0,
                "throughput_unit": "samples",
                "checkpoint": 5,
            },
            "3 workers on 4 nodes, step 7, 96.0 samples/s, saved 5",
        ),
        ({"doomed": 1, "stopping": "eviction"}, "3 workers on 4 nodes, 1 with a notice, stopping: eviction"),
    ],
)
def test_the_status_line_has_what_is_known(changes: dict[str, object], line: str) -> None:
    assert elastic_command._status_line({**STATE, **changes}) == line


def test_the_summary_says_where_the_time_went() -> None:
    now = [100.0]
    timeline = Timeline("fig", clock=lambda: now[0])
    assert "no steps were reported, its ranks ran 0.0 s of 0.0 s" in elastic_command._summary_line(
        timeline.summary("failed", 1, {}, "steps")
    )
    for step, moment in ((0, 101.0), (1, 103.0)):
        now[0] = moment
        timeline.progress(step, 0)
    timeline.evict("a")
    summary = timeline.summary("finished", 0, {2: 64.0}, "samples")
    assert elastic_command._summary_line(summary) == (
        "finished: trained 2.0 s of 3.0 s (lost: start 1.0 s), 0 steps redone, 1 evictions survived, 0 failures"
    )
    assert schema_problem(document("elastic", summary, indent=None)) is None
