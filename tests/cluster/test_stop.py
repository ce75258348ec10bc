"""The servers of the tests end with them, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import ROOT

CODE = """
import sys, time
from pathlib import Path
from tests.cluster.processes import Server
with_child = "import subprocess, sys, time; time.sleep(60)"
servers = [Server([sys.executable, "-c", with_child], Path(sys.argv[1]) / f"{n}.log") for n in range(2)]
try:
    print(*(server.pid for server in servers), flush=True)
    time.sleep(60)
finally:
    for server in servers:
        server.stop()
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_servers_end_with_the_test_run(how: signal.Signals, tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", CODE, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.stdout is not None
    pids = [int(word) for word in run.stdout.readline().split()]
    assert len(pids) == 2
    assert all(map(alive, pids))
    run.send_signal(how)
    run.wait(20)
    run.stdout.close()
    end = time.monotonic() + 20
    while any(map(alive, pids)):
        assert time.monotonic() < end, "a server outlived the test run"
        time.sleep(0.05)


def test_a_server_that_ends_at_once_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    from tests.cluster.processes import Server

    server = Server(
        [sys.executable, "-c", "print('no such option'); raise SystemExit(3)"], tmp_path / "log"
    )
    with pytest.raises(RuntimeError, match="ended; its log ends with:\\nno such option"):
        server.wait_until(lambda: False)
