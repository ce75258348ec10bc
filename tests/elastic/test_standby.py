"""Standbys are forked from one process that has imported everything, if that is safe, and started otherwise."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arc_toolkit.elastic.agent import AgentFolder
from arc_toolkit.elastic.ranks import RankProcess, Template
from tests.elastic.local_cluster import LocalCluster, elastic_run, expected_total
from tests.support import ROOT

SLOW_IMPORT = "import os\nopen(os.environ['LOG'], 'a').write('imported\\n')\n"
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"


def readable(handle: int, seconds: float = 60) -> bool:
    return bool(select.select([handle], [], [], seconds)[0])


def lines(process: RankProcess, handle: int, count: int) -> list[str]:
    end, read = time.monotonic() + 60, list[bytes]()
    while len(read) < count:
        assert time.monotonic() < end
        readable(handle)
        read += process.lines(handle) or []
    return [line.decode() for line in read]


class TemplateRun:
    """A template whose script's module is in `folder`."""

    def __init__(self, folder: Path, module: str, script: str) -> None:
        (folder / "framework.py").write_text(module)
        (folder / "script.py").write_text(script)
        self.folder, self.log = folder, folder / "log"
        variables = {"LOG": str(self.log), "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
        self.template = Template(folder, ["framework"], variables)

    def imports(self) -> int:
        return self.log.read_text().count("imported") if self.log.exists() else 0

    def run(self, process: RankProcess, rank: int = 0) -> tuple[list[str], int]:
        """What the script prints in one line, and the code that the template tells."""
        pid, ready = lines(process, process.life, 1)[0], lines(process, process.answers, 1)[0]
        process.born(int(pid))
        assert json.loads(ready) == {"type": "ready"}
        job = {
            "script": str(self.folder / "script.py"),
            "arguments": ["x"],
            "environment": {"WORLD_SIZE": "2"},
        }
        process.run(1, rank, job, self.folder)
        printed = lines(process, process.output, 1)
        return printed, int(lines(process, process.life, 1)[0])


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str, str], TemplateRun]]:
    runs = []

    def make(module: str, script: str) -> TemplateRun:
        runs.append(TemplateRun(tmp_path, module, script))
        return runs[-1]

    yield make
    for run in runs:
        run.template.close()


SCRIPT = "import os, sys, random, framework\nprint(__name__, sys.argv[1], random.random())\nsys.exit(7)\n"


def test_one_import_serves_all_standbys(make: Callable[[str, str], TemplateRun]) -> None:
    run = make(SLOW_IMPORT, SCRIPT)
    results = [run.run(run.template.start_standby()) for _ in range(3)]
    assert run.template.receive()
    assert run.template.forks
    assert [code for _, code in results] == [7, 7, 7]
    assert all(printed[0].startswith("__main__ x ") for printed, _ in results)
    assert len({printed[0] for printed, _ in results}) == 3, "each has random numbers of its own"
    assert run.imports() == 1


ENDING = """
import atexit, os, threading, time
def work():
    time.sleep(0.3)
    print("its thread")
atexit.register(print, "at exit")
threading.Thread(target=work).start()
print(os.path.isabs(__file__))
"""


def test_what_a_script_leaves_to_the_end_is_done(make: Callable[[str, str], TemplateRun]) -> None:
    run = make("", ENDING)
    process = run.template.start_standby()
    printed, code = run.run(process)
    printed += lines(process, process.output, 3 - len(printed))
    assert (printed, code) == (["True", "its thread", "at exit"], 0), "as under python"


def test_numpy_has_other_random_numbers_in_each_standby(
    make: Callable[[str, str], TemplateRun],
) -> None:
    pytest.importorskip("numpy")
    run = make("import numpy.random", "import numpy\nprint(numpy.random.rand())\n")
    values = {run.run(run.template.start_standby())[0][0] for _ in range(3)}
    assert run.template.receive()
    assert run.template.forks, "the threads of OpenBLAS do not matter"
    assert len(values) == 3


def test_with_threads_each_standby_imports_by_itself(
    make: Callable[[str, str], TemplateRun],
) -> None:
    run = make(SLOW_IMPORT + THREAD, SCRIPT)
    results = [run.run(run.template.start_standby()) for _ in range(2)]
    assert run.template.receive()
    assert not run.template.forks
    assert [code for _, code in results] == [7, 7]
    assert run.imports() == 3


def test_a_signal_is_an_exit_code_and_reaches_a_standby_that_is_not_there_yet(
    make: Callable[[str, str], TemplateRun],
) -> None:
    run = make(SLOW_IMPORT, SCRIPT)
    process = run.template.start_standby()
    process.signal(signal.SIGTERM)
    process.born(int(lines(process, process.life, 1)[0]))
    assert lines(process, process.life, 1) == ["143"]


def test_standbys_end_with_their_template(make: Callable[[str, str], TemplateRun]) -> None:
    run = make("", SCRIPT)
    process = run.template.start_standby()
    pid = int(lines(process, process.life, 1)[0])
    lines(process, process.answers, 1)
    run.template.close()
    end = time.monotonic() + 60
    while (
        Path(f"/proc/{pid}").exists() and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    ):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_a_template_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with elastic_run(tmp_path, LocalCluster("a", "b"), 200, 0.02, max_failures=1) as run:
        run.until_step(45)
        agent = run.cluster.agents["a"].pid
        (template,) = _children(agent)
        os.kill(template, signal.SIGKILL)
        assert run.wait() == 0
    assert f"total {expected_total(200)} workers" in run.text()
    assert any(
        "the process of the imports ended with -9" in event["text"] for event in run.events("note")
    )


def _children(pid: int) -> list[int]:
    paths = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for path in paths for word in path.read_text().split()]


@pytest.mark.slow
def test_an_import_that_ends_the_process_is_the_script_s_failure(tmp_path: Path) -> None:
    """Not a wait without an end for standbys that never come."""
    (tmp_path / "deadly.py").write_text("import os\nos._exit(9)\n")
    options = {"source": "import deadly\n", "modules": ["deadly"], "max_failures": 1}
    with elastic_run(tmp_path, LocalCluster("a"), **options) as run:
        assert run.wait() == 9
    assert run.controller.timeline.failures == 2


def test_the_folder_of_a_killed_agent_is_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    abandoned, young = tmp_path / "arc-toolkit-agent-dead", tmp_path / "arc-toolkit-agent-new"
    for path in (abandoned, young):
        path.mkdir()
        (path / "notice-1-0").touch()
    living = AgentFolder()
    hour_ago = time.time() - 3600
    for path in (abandoned, living.path):
        os.utime(path, (hour_ago, hour_ago))
    other = AgentFolder()
    assert {path.name for path in tmp_path.iterdir()} == {
        young.name,
        living.path.name,
        other.path.name,
    }
    living.remove()
    other.remove()
    assert [path.name for path in tmp_path.iterdir()] == [young.name]
