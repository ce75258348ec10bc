"""A process that saves without end and is killed at random moments."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from arc_toolkit.checkpoints import Checkpoint, Store
from tests.support import ROOT

WRITER = """
import sys
from arc_toolkit.checkpoints import Store
store = Store(sys.argv[1], keep=2)
for step in store.steps(10**6, every=1):
    content = bytes([step % 256])
    with store.save(step) as folder:
        {save}
    print(step, flush=True)
"""


def newest_after_kills(root: Path, save: str, kills: int) -> Iterator[Checkpoint]:
    """The newest checkpoint after each kill: at least the last one whose save was reported as done."""
    chance = random.Random(3)
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER.format(save=save), str(root)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        assert process.stdout is not None
        acknowledged = int(process.stdout.readline() or -1)
        time.sleep(chance.random() * 0.05)
        process.kill()
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
        process.wait()
        checkpoint = Store(root, report=lambda text: None).latest()
        assert checkpoint is not None
        assert checkpoint.step >= acknowledged
        yield checkpoint
