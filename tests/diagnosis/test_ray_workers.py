"""`diagnose --ray`: the report of one process, byte for byte, from the workers of a real Ray on loopback."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis.model import LogFile
from arc_toolkit.diagnosis.read import collect
from arc_toolkit.diagnosis.read.sources import ray_workers
from arc_toolkit.diagnosis.read.sources.inventory import Inventory, add
from arc_toolkit.errors import ArcError
from tests.cluster.processes import free_ports
from tests.support import ROOT, Result, frameworks_python

Arc = Callable[..., Result]
# The command, for which Ray pays at any size.
COMMAND = """
import sys
from arc_toolkit.diagnosis.read.sources import ray_workers
ray_workers.LOCAL_FROM = ray_workers.BLOBS_FROM = 0
ray_workers.LOCAL_BATCH, ray_workers.BLOB_BATCH = 7, 5
from arc_toolkit.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled"}


@pytest.fixture(scope="module")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Ray of three workers that listens on loopback only."""
    python, home = frameworks_python(), tmp_path_factory.mktemp("home")
    port, client = free_ports(2)
    # Ray's sockets are below its folder, and their paths may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        words = [str(Path(python).with_name("ray")), "start", "--head", "--block", "--num-cpus=3"]
        words += [
            "--node-ip-address=127.0.0.1",
            f"--port={port}",
            f"--ray-client-server-port={client}",
        ]
        words += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder}"]
        with open(home / "log", "wb") as log:
            server = subprocess.Popen(
                words, env=environment(home), stdout=log, stderr=log, start_new_session=True
            )
        try:
            end = time.monotonic() + 120
            while not listens(port):
                assert server.poll() is None, (home / "log").read_text()
                assert time.monotonic() < end, (home / "log").read_text()
                time.sleep(0.2)
            yield f"127.0.0.1:{port}"
        finally:
            end_all(server, Path(folder))


def listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


def end_all(server: subprocess.Popen[bytes], folder: Path) -> None:
    """End `ray start` and every process whose command names its folder: some have sessions of their own."""
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(30)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                str(folder).encode() in (process / "cmdline").read_bytes()
                and int(process.name) != os.getpid()
            ):
                os.kill(int(process.name), signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait(10)


def diagnose(home: Path, *words: object) -> tuple[int, bytes, str]:
    command = [frameworks_python(), "-c", COMMAND, "diagnose", *map(str, words)]
    done = subprocess.run(
        command, env=environment(home), cwd=home, capture_output=True, timeout=300, check=False
    )
    return done.returncode, done.stdout, done.stderr.decode()


def write_logs(folder: Path) -> dict[str, str]:
    """Logs of 40 jobs with retries, a failed one, one without a node and one that cannot be read."""
    texts = {}
    for job in range(40):
        for retry in ("", "retry-001/")[: 1 + (job % 3 == 0)]:
            line = f"++ echo 'Run on node: aks-pool-12345678-vmss00000{(job + len(retry)) % 10}'\n"
            texts[f"job{job}/system_logs/{retry}amlarc_cr_bootstrap.log"] = (
                "x" * (job * 7) + "\n" + line
            )
    texts["job3/system_logs/retry-001/amlarc_cr_bootstrap.log"] += (
        "AzureML Kubernetes job failed. 137: PodPattern matched: killed\n"
    )
    texts["empty/system_logs/amlarc_cr_bootstrap.log"] = ""
    texts["none/system_logs/amlarc_cr_bootstrap.log"] = "no name in it\n"
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "none/system_logs/amlarc_cr_bootstrap_2.log").symlink_to("missing")
    return texts


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "csv", "markdown"])
def test_folders_give_the_same_bytes(ray_address: str, tmp_path: Path, form: str) -> None:
    write_logs(tmp_path / "logs")
    alone = diagnose(tmp_path, "logs", "--format", form)
    spread = diagnose(tmp_path, "logs", "--format", form, "--ray", ray_address)
    assert spread[:2] == alone[:2]
    assert b"vmss00000" in alone[1]
    assert "logs are read by 3 workers of Ray" in spread[2]
    assert "this process only" not in spread[2], "the workers read them"


@pytest.mark.real
@pytest.mark.slow
def test_blobs_and_folders_together_give_the_same_bytes(
    ray_address: str, container: Any, tmp_path: Path
) -> None:
    for name, text in write_logs(tmp_path / "logs").items():
        container.upload_blob(f"runs/{name}", text)
    sources = ("logs", f"az://{container.container_name}/runs")
    alone = diagnose(tmp_path, *sources, "--format", "csv")
    spread = diagnose(tmp_path, *sources, "--format", "csv", "--ray", ray_address)
    assert alone[0] == 0, alone[2]
    assert spread[:2] == alone[:2], spread[2]
    assert b"az://" in alone[1]
    assert "this process only" not in spread[2], "the workers read them"


@pytest.mark.real
@pytest.mark.slow
def test_without_a_cluster_it_is_one_sentence(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    [port] = free_ports(1)
    code, out, err = diagnose(tmp_path, "logs", "--ray", f"ray://127.0.0.1:{port}")
    assert (code, out) == (2, b"")
    assert (
        err
        == f"arc-toolkit: cannot connect to Ray at ray://127.0.0.1:{port}: [Errno 111] Connection refused\n"
    )


def test_few_logs_are_read_by_one_process_and_it_says_so(arc: Arc, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    alone, spread = (
        arc("diagnose", tmp_path / "logs"),
        arc("diagnose", tmp_path / "logs", "--ray", "auto"),
    )
    assert (spread.code, spread.out) == (alone.code, alone.out)
    assert "one process is faster than Ray" in spread.err


class FakeRay:
    """Workers that do not have the folders of this machine, and one of which dies."""

    class exceptions:
        RayError = RuntimeError

    def __init__(self) -> None:
        self.calls = 0

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def wait(self, futures: list[Any], timeout: float) -> Any:
        return futures, []

    def remote(self, function: Any) -> Any:
        return self

    def options(self, **options: Any) -> Any:
        self.task = type("Task", (), {"remote": staticmethod(lambda folder, batch: batch)})
        return self.task

    def get(self, batch: list[LogFile]) -> Any:
        from arc_toolkit.diagnosis.model import SkippedFile

        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("the node is gone")
        return [SkippedFile(log.path, "no such file") for log in batch]


def test_what_workers_cannot_read_is_read_here(tmp_path: Path) -> None:
    write_logs(tmp_path)
    reports = []
    workers = ray_workers.RayWorkers(FakeRay())
    for reader in (None, workers):
        inventory = Inventory()
        add(str(tmp_path), inventory)
        reports.append(
            (collect.read_logs(inventory, 1, lambda text: None, reader), inventory.skipped)
        )
    assert reports[0] == reports[1]
    assert workers.read_here == len(reports[0][0]) > 40


class DyingRay(FakeRay):
    """Every batch ends with an error, as after the head is gone."""

    def get(self, batch: list[LogFile]) -> Any:
        raise RuntimeError("the local raylet died")


class EmptyRay(FakeRay):
    """Tasks wait for ever, because no node is left."""

    def __init__(self) -> None:
        super().__init__()
        self.resources = {"CPU": 2.0}

    def cluster_resources(self) -> dict[str, float]:
        before, self.resources = self.resources, {}
        return before

    def wait(self, futures: list[Any], timeout: float) -> Any:
        return [], futures


@pytest.mark.parametrize(
    ("ray", "sentence"),
    [
        (DyingRay, "the workers of Ray died (RuntimeError): run again, or without --ray"),
        (EmptyRay, "Ray has no workers left: run again, or without --ray"),
    ],
)
def test_workers_that_died_end_the_command_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray: type[FakeRay], sentence: str
) -> None:
    write_logs(tmp_path)
    inventory = Inventory()
    add(str(tmp_path), inventory)
    monkeypatch.setattr(ray_workers, "LOCAL_BATCH", 5)
    with pytest.raises(ArcError, match=re.escape(sentence)):
        collect.read_logs(inventory, 1, lambda text: None, ray_workers.RayWorkers(ray()))


def test_address_of_another_server_is_refused_at_once(arc: Arc, tmp_path: Path) -> None:
    """Something listens there, but it is not Ray: a web server, or one that says nothing."""
    write_logs(tmp_path / "logs")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            for number in range(4):
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    if number % 2:
                        connection.recv(100)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        for _ in range(2):
            result = arc("diagnose", tmp_path / "logs", "--ray", f"127.0.0.1:{port}")
            assert (result.code, result.out) == (2, "")
            assert f"no Ray answers at 127.0.0.1:{port}" in result.err
        thread.join(10)


def test_nobody_at_the_address_is_refused_also_with_few_logs(arc: Arc, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    [port] = free_ports(1)
    result = arc("diagnose", tmp_path / "logs", "--ray", f"ray://127.0.0.1:{port}")
    assert (result.code, result.out) == (2, "")
    assert "Connection refused" in result.err


@pytest.mark.real
@pytest.mark.slow
def test_ray_itself_answers(ray_address: str) -> None:
    ray_workers.check_answer(ray_address)


def test_a_count_of_logs_read_here_has_all_of_them(arc: Arc, tmp_path: Path) -> None:
    path = tmp_path / "job" / "user_logs" / "std_log.txt"
    path.parent.mkdir(parents=True)
    path.write_text("Traceback (most recent call last):\nValueError: a bug\n")
    result = arc("diagnose", tmp_path, "--ray", "auto")
    assert "1 logs are read here" in result.err


@pytest.mark.parametrize("address", ["nonsense", "ray://", "ray://head", "head:x", "head:\u00b2"])
def test_what_is_not_an_address_is_refused_before_anything_is_read(
    arc: Arc, tmp_path: Path, address: str
) -> None:
    write_logs(tmp_path / "logs")
    result = arc("diagnose", tmp_path / "logs", "--ray", address)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"arc-toolkit: --ray {address}: use ray://HEAD:10001, HOST:6379 or auto\n"
