"""A linear model in NumPy, trained by any number of processes. The same file runs under

    python examples/elastic_numpy.py
    arc-toolkit run -- python examples/elastic_numpy.py
    arc-toolkit elastic -f examples/elastic_numpy.py -m 4

Every step uses one batch of 64 rows, of which each rank computes its part; parts are always added in the same order, so
the result does not depend on how many ranks there were, or how often that changed.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import sys
import time
from typing import Any

import numpy as np

from arc_toolkit.checkpoints import Store

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 300
PAUSE = float(sys.argv[2]) if len(sys.argv) > 2 else 0.01
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
ROWS, BATCH, COLUMNS = 4096, 64, 16


def receive(sock: socket.socket) -> Any:
    def exactly(count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = sock.recv(count - len(data))
            if not piece:
                raise ConnectionError("another rank has ended")
            data += piece
        return data

    return pickle.loads(exactly(struct.unpack("!I", exactly(4))[0]))


def send(sock: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    sock.sendall(struct.pack("!I", len(data)) + data)


class Ranks:
    """Sums over all ranks, by way of the first one."""

    def __init__(self) -> None:
        self.peers: list[socket.socket] = []
        if WORLD == 1:
            return
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if RANK == 0:
            with socket.create_server(("", address[1]), reuse_port=True) as server:
                server.settimeout(60)
                self.peers = [server.accept()[0] for _ in range(WORLD - 1)]
        else:
            end = time.monotonic() + 60
            while True:
                try:
                    self.peers = [socket.create_connection(address, timeout=60)]
                    break
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)

    def sum(self, parts: dict[int, Any]) -> Any:
        """The parts of all ranks, added in the order of their numbers, so that the sum is always the same."""
        if RANK != 0:
            send(self.peers[0], parts)
            return receive(self.peers[0])
        for peer in self.peers:
            parts.update(receive(peer))
        total = sum(parts[number] for number in sorted(parts))
        for peer in self.peers:
            send(peer, total)
        return total


def main() -> None:
    random = np.random.default_rng(0)
    data = random.integers(-8, 8, (ROWS, COLUMNS)).astype(np.float64)
    target = data @ np.arange(COLUMNS)
    store, ranks = Store(keep=2), Ranks()
    checkpoint = store.latest()
    weights = np.load(checkpoint / "weights.npy") if checkpoint else np.zeros(COLUMNS)
    for step in store.steps(STEPS, every=25):
        rows = np.random.default_rng(step).permutation(ROWS)[:BATCH]
        chunks = np.array_split(rows, 16)
        parts = {
            n: data[c].T @ (data[c] @ weights - target[c])
            for n, c in enumerate(chunks)
            if n % WORLD == RANK
        }
        weights = weights - 0.0005 / BATCH * ranks.sum(parts)
        time.sleep(PAUSE)
        if store.due(step):
            with store.save(step) as folder:
                np.save(folder / "weights.npy", weights)
    if RANK == 0:
        print(
            f"weights {weights.tobytes().hex()[:64]} after {STEPS} steps, {WORLD} workers at the end"
        )


if __name__ == "__main__":
    main()
