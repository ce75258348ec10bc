"""Logs read by the workers of a Ray cluster, in the order of the logs.

The logs are listed here; workers get batches of names. What a worker cannot read is read here
again, so that the report is always that of one process.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from arc_toolkit.diagnosis.model import LogFile, SkippedFile
from arc_toolkit.diagnosis.read.scan import LogScan, scan, scan_all
from arc_toolkit.errors import ArcError
from arc_toolkit.ray_connection import check_address, connect_ray, split_address

# The largest sizes that were measured; one process was faster (medians; docs/diagnose-sources.md). Where
# Ray begins to pay is not known: that was one machine, and a cluster has more.
LOCAL_FROM, BLOBS_FROM = 100_000, 1_000
LOCAL_BATCH, BLOB_BATCH = 500, 64
_THREADS = 16  # per batch of blobs: reading them is waiting
_AHEAD = 3  # batches per worker that are under way
_MOST_LOST = 3  # batches in a row: then the cluster is gone, and not only a worker
_WAIT_SECONDS = 30.0  # between looks at whether there is still a worker
_ANSWER_SECONDS = 10.0
# A client of HTTP/2 begins with these bytes and a frame of settings, and so does the server.
_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4

ScanResult = LogScan | SkippedFile


def pays(logs: int, blobs: int) -> bool:
    """Whether a cluster may be faster than one process."""
    return logs > LOCAL_FROM or blobs > BLOBS_FROM


def is_blob(log: LogFile) -> bool:
    """Whether workers can open it by themselves, although it is not on a disk."""
    return log.path.startswith("az://")


def connect(address: str) -> RayWorkers:
    """A running cluster: ray://HEAD:10001, HOST:6379, or auto for the one of this machine."""
    check_answer(address)
    package = str(Path(__file__).parents[3])
    return RayWorkers(
        connect_ray("--ray", address, address=address, runtime_env={"py_modules": [package]})
    )


def check_answer(address: str) -> None:
    """Ray's servers speak gRPC; for any other server Ray would wait for minutes."""
    check_address("--ray", address)
    place = split_address("--ray", address)
    if place is None or os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return
    try:
        with socket.create_connection(place, timeout=_ANSWER_SECONDS) as connection:
            connection.sendall(_HTTP2_HELLO)
            answer = connection.recv(9)
    except OSError:
        answer = b""
    if len(answer) < 4 or answer[3] != _SETTINGS:
        raise ArcError(f"no Ray answers at {address}: use ray://HEAD:10001, HOST:6379 or auto")


class RayWorkers:
    """The workers of a cluster. `read_here` counts the logs that they failed on; see `problem`."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.count = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.read_here, self.problem = 0, ""
        self._lost_in_a_row = 0

    def scan(self, logs: list[LogFile], blobs: bool = False) -> Iterator[list[ScanResult]]:
        """The results, in batches, in order."""
        size = BLOB_BATCH if blobs else LOCAL_BATCH
        # With few logs every worker gets a part.
        size = max(1, min(size, -(-len(logs) // self.count)))
        options = {"num_cpus": 1, "scheduling_strategy": "SPREAD", "max_retries": 3}
        task = self._ray.remote(scan_blobs if blobs else scan_files).options(**options)
        folder = os.getcwd()
        batches = iter([logs[at : at + size] for at in range(0, len(logs), size)])
        under_way: deque[tuple[Any, list[LogFile]]] = deque()
        while True:
            while (
                len(under_way) < self.count * _AHEAD and (batch := next(batches, None)) is not None
            ):
                under_way.append((task.remote(folder, batch), batch))
            if not under_way:
                return
            future, batch = under_way.popleft()
            yield self._complete(future, batch)

    def close(self) -> None:
        self._ray.shutdown()

    def _wait(self, future: Any) -> Any:
        """The result; an error if nothing is left that could compute it."""
        while not self._ray.wait([future], timeout=_WAIT_SECONDS)[0]:
            if not self._ray.cluster_resources().get("CPU"):
                raise ArcError(
                    "Ray has no workers left: run again, or without --ray to read the logs here"
                )
        return self._ray.get(future)

    def _complete(self, future: Any, batch: list[LogFile]) -> list[ScanResult]:
        try:
            results: list[ScanResult] = self._wait(future)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            # its nodes are gone, or cannot import what is needed
            self._lost_in_a_row += 1
            self.problem = self.problem or type(error).__name__
            if self._lost_in_a_row >= _MOST_LOST:
                raise ArcError(
                    f"the workers of Ray died ({type(error).__name__}): "
                    "run again, or without --ray to read the logs here"
                ) from None
            self.read_here += len(batch)
            return scan_all(batch)
        self._lost_in_a_row = 0
        for number, result in enumerate(results):
            if isinstance(result, SkippedFile):  # perhaps a folder that only this machine has
                results[number] = scan(batch[number])
                if isinstance(results[number], LogScan):
                    self.read_here += 1
                    self.problem = self.problem or result.reason
        return results


def scan_files(folder: str, logs: list[LogFile]) -> list[ScanResult]:
    """A batch of files, in a worker. Their names may be relative to the folder."""
    with suppress(OSError):  # not there: such names cannot be opened, and the caller reads them
        os.chdir(folder)
    return scan_all(logs)


def scan_blobs(folder: str, logs: list[LogFile]) -> list[ScanResult]:
    """A batch of blobs, in threads."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(_THREADS, len(logs))) as pool:
        return list(pool.map(scan, logs))
