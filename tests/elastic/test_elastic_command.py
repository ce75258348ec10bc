"""`elastic` before a cluster is needed: its options, and the lines that it prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from arc_toolkit.checkpoints.remote import url_problem
from arc_toolkit.cli import elastic_command
from arc_toolkit.cli.console import Console
from arc_toolkit.elastic import ray_cluster
from arc_toolkit.elastic.timeline import Timeline, status_line, summary_line
from arc_toolkit.output.json_document import document
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
        ((), "-f FILE and -m N are needed, or --attach NAME, or --stop NAME"),
        (("-m", "2", "--min", "3"), "use 1 <= min <= max"),
        (("-m", "2", "--min", "0"), "use 1 <= min <= max"),
        (("-m", "2", "--cpus", "0"), "a worker needs --cpus or --gpus above 0"),
        (("-m", "2", "--cpus", "nan"), "a worker needs --cpus or --gpus above 0"),
        (("-m", "2", "--cpus", "inf"), "a worker needs --cpus or --gpus above 0"),
        (("-m", "2", "--gpus", "1.5"), "--gpus 1.5: use a whole number, or a part of one GPU"),
        (("-m", "2", "--max-failures", "-1"), "--max-failures: must be at least 0, not -1"),
        (("-m", "2", "--efficiency", "nan"), "--efficiency nan: use a share from 0 to 1"),
        (("-m", "2", "--efficiency", "50"), "--efficiency 50: use a share from 0 to 1"),
        (("-m", "2", "--name", "../fig"), "--name '../fig': use letters"),
        (("-m", "2", "-d", "/nowhere"), "-d /nowhere: no such folder"),
        (("-m", "2", "--checkpoints", __file__), "is not a folder"),
        (
            ("-m", "2", "--checkpoints", "foo://bar"),
            "--checkpoints foo://bar: fsspec does not know foo://",
        ),
        (
            ("-m", "2", "--metadata", "nonsense"),
            "--metadata: nonsense: use http://HOST or http://HOST:PORT",
        ),
        (("-m", "2", "-u", "ray://"), "-u ray://: use ray://HEAD:10001, HOST:6379 or auto"),
        (("-m", "2", "-u", "nonsense"), "-u nonsense: use ray://HEAD:10001, HOST:6379 or auto"),
        (
            ("-m", "2", "--attach", "fig"),
            "--attach is for a run in progress: leave out -f and -m",
        ),
        (("-m", "2", "--stop", "fig"), "--stop is for a run in progress: leave out -f and -m"),
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
    ("uri", "reason"),
    [("ray://127.0.0.1:9", "refused"), ("127.0.0.1:9", "refused"), ("ray://x.invalid:1", "")],
)
def test_a_cluster_that_is_not_there_is_one_sentence(
    arc: Callable[..., Result], script: Path, uri: str, reason: str
) -> None:
    result = arc("elastic", "-f", script, "-m", 2, "-u", uri)
    assert result.code == 2
    assert f"cannot connect to Ray at {uri}: " in result.err
    assert reason in result.err
    assert result.err.count("\n") == 1
    for option in ("--attach", "--stop"):
        assert arc("elastic", option, "fig", "-u", uri).code == 2


def config(*words: object) -> tuple[object, ...]:
    parser = argparse.ArgumentParser()
    elastic_command.configure(parser)
    run, folder = elastic_command._config(parser.parse_args([str(word) for word in words]))
    return (
        run.script,
        folder,
        run.working_dir,
        run.arguments,
        run.checkpoints,
        run.least,
        run.checkpoint_timeout,
    )


def test_the_script_is_relative_to_the_working_folder_as_in_adaptdl(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path / "checkpoints" / "fig")
    expected = ("code/train.py", str(tmp_path), str(tmp_path), ["--epochs", "2"], here, 1, 120.0)
    arguments = ("--", "--epochs", "2")
    assert (
        config("-f", "code/train.py", "-d", tmp_path, "-m", 2, "--name", "fig", *arguments)
        == expected
    )
    folder = str(tmp_path / "code")
    assert config("-f", "train.py", "-d", "code", "-m", 2, "--name", "fig")[:2] == (
        "train.py",
        folder,
    )
    assert config("-f", "code/train.py", "-m", 2)[:2] == ("train.py", folder)


def test_in_a_cluster_nothing_of_this_machine_is_named(script: Path) -> None:
    run = config("-f", script, "-m", 2, "-u", "ray://head:10001", "--min", 2)
    assert run[2:] == ("", [], "", 2, 120.0)
    url = config(
        "-f", script, "-m", 2, "-u", "ray://head:10001", "--checkpoints", "az://container/run"
    )
    assert url[4] == "az://container/run"


@pytest.mark.parametrize(
    ("url", "is_local", "problem"),
    [
        ("az://container/run", True, None),
        ("memory://run", True, None),
        ("simplecache::az://container/run", True, None),
        ("foo://run", False, "fsspec does not know foo://"),
        ("tencent://run", True, "the package nowhere is needed for tencent://"),
        ("tencent://run", False, None),  # the nodes may have it
    ],
)
def test_a_url_that_cannot_work_is_known_before_it_is_opened(
    monkeypatch: pytest.MonkeyPatch, url: str, is_local: bool, problem: str | None
) -> None:
    from fsspec.registry import known_implementations

    # az:// needs adlfs, which this environment may lack.
    here = {"class": "fsspec.implementations.memory.MemoryFileSystem"}
    monkeypatch.setitem(known_implementations, "az", here)
    monkeypatch.setitem(known_implementations, "tencent", {"class": "nowhere.FileSystem"})
    assert url_problem(url, is_local=is_local) == problem


def test_without_fsspec_a_url_is_for_the_nodes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.registry", None)
    assert url_problem("az://container/run", is_local=True) == "fsspec is needed for a URL"
    assert url_problem("az://container/run", is_local=False) is None


@pytest.mark.parametrize(
    ("words", "stops", "line"),
    [
        ((), 1, "stopping after a save"),
        (
            ("-u", "auto"),
            0,
            "the run goes on; look at it again with --attach fig, end it with --stop fig",
        ),
        (
            ("--attach", "fig"),
            0,
            "the run goes on; look at it again with --attach fig, end it with --stop fig",
        ),
        (("--stop", "fig"), 0, "run fig stops all the same"),
    ],
)
def test_ctrl_c_ends_only_what_ends_with_this_command(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    stops: int,
    line: str,
) -> None:
    asked: list[tuple[int, int]] = []

    def follow(
        ray: object, controller: object, wait: float, client: str, seen: tuple[int, int]
    ) -> Iterator[Any]:
        asked.append(seen)
        if len(asked) == 1:
            yield {"events": [], "output": [], "seen": (4, 7), "code": None}
            raise KeyboardInterrupt
        summary = Timeline("fig").summary("cancelled", 143, {}, "steps")
        yield {"events": [], "output": [], "seen": (5, 7), "code": 143, "summary": summary}

    stop = Mock(return_value=(4, 7))
    monkeypatch.setattr(ray_cluster, "follow", follow)
    monkeypatch.setattr(ray_cluster, "stop", stop)
    monkeypatch.setattr(ray_cluster, "end", Mock())
    parser = argparse.ArgumentParser()
    elastic_command.configure(parser)
    args = parser.parse_args([*words, "--format", "json"])
    with pytest.raises(KeyboardInterrupt) if not stops else nullcontext():
        assert elastic_command._follow(None, None, "fig", args, Console()) == 143
    assert line in capsys.readouterr().err
    assert stop.call_count == stops
    assert asked == [(0, 0), (4, 7)][: 1 + stops], "nothing is shown twice"


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
        (
            {"doomed": 1, "stopping": "eviction"},
            "3 workers on 4 nodes, 1 with a notice, stopping: eviction",
        ),
    ],
)
def test_the_status_line_has_what_is_known(changes: dict[str, object], line: str) -> None:
    assert status_line({**STATE, **changes}) == line


def test_the_summary_says_where_the_time_went() -> None:
    now = [100.0]
    timeline = Timeline("fig", clock=lambda: now[0])
    assert "no steps were reported, its ranks ran 0.0 s of 0.0 s" in summary_line(
        timeline.summary("failed", 1, {}, "steps")
    )
    for step, moment in ((0, 101.0), (1, 103.0)):
        now[0] = moment
        timeline.progress(step, 0)
    timeline.evict("a")
    summary = timeline.summary("finished", 0, {2: 64.0}, "samples")
    assert summary_line(summary) == (
        "finished: trained 2.0 s of 3.0 s (lost: start 1.0 s), 0 steps redone, 1 evictions survived, 0 failures"
    )
    assert schema_problem(document("elastic", summary, indent=None)) is None
