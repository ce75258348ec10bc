"""kill -9 at random moments while a process saves without a pause."""

from __future__ import annotations

import os
import pickle
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from arc_toolkit.checkpoints import Store

SIZE = 5_000_000  # more than one block of a stream


def store_writer(folder: Path, told: int) -> None:
    store = Store(folder, keep=2, strict=True)
    for step in store.steps(10**9, every=1):
        with store.save(step) as target:
            data = pickle.dumps((step, bytes([step % 256]) * SIZE))
            if step % 2:
                (target / "state.bin").write_bytes(data)
            else:
                with target.stream("state.bin") as stream:
                    stream.write(data)
        os.pwrite(told, b"%-20d" % step, 0)


def store_reader(folder: Path) -> int:
    newest = Store(folder, report=lambda text: None).latest()
    return _step_of((newest / "state.bin").read_bytes()) if newest is not None else -1


def overwriting_writer(folder: Path, told: int) -> None:
    """As most scripts do it: the same file again and again."""
    path = folder / "state.bin"
    for step in range(overwriting_reader(folder) + 1 if path.exists() else 0, 10**9):
        path.write_bytes(pickle.dumps((step, bytes([step % 256]) * SIZE)))
        os.pwrite(told, b"%-20d" % step, 0)


def overwriting_reader(folder: Path) -> int:
    path = folder / "state.bin"
    return _step_of(path.read_bytes()) if path.exists() else -1


def _step_of(data: bytes) -> int:
    step, content = pickle.loads(data)
    if content != bytes([step % 256]) * SIZE:
        raise ValueError("other bytes than were saved")
    return int(step)


def kill_at_random(
    folder: Path, kills: int, write: Callable[[Path, int], None], read: Callable[[Path], int]
) -> tuple[int, int]:
    """How often nothing could be loaded afterwards, and how often less than had been told to be saved."""
    chance = random.Random(3)
    unreadable = lost = 0
    folder.mkdir()
    for _ in range(kills):
        told = os.open(folder.parent / f"{folder.name}.told", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        pid = os.fork()
        if pid == 0:
            try:
                write(folder, told)
            finally:
                os._exit(1)
        begin = time.monotonic()
        while (
            not os.pread(told, 20, 0) and time.monotonic() < begin + 20
        ):  # until it has saved once
            time.sleep(0.002)
        time.sleep(chance.random() * 0.03)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        step = int(os.pread(told, 20, 0) or -1)
        os.close(told)
        try:
            lost += read(folder) < step
        except Exception:
            unreadable += 1
            for path in folder.iterdir():
                path.unlink()  # it would stay unreadable
    return unreadable, lost
