"""From a notice to "saved and ended", and what waiting for a notice costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.notices.metadata_service import azure_answers, metadata_service

ROOT = Path(__file__).resolve().parents[3]

TRAINING = """
import sys, time
from arc_toolkit.checkpoints import Store
store = Store(strict=True)
state = bytes(1024 * 1024) * int(sys.argv[1])
for step in store.steps(10**9, every=10**8):
    time.sleep(0.01)
    if store.due(step):
        with store.save(step) as folder, folder.stream("state.bin") as stream:
            stream.write(state)
"""

WATCHING = """
import sys, time
from arc_toolkit.notices import watch
watcher = watch("azure", endpoint=sys.argv[1])
time.sleep(3)
begin, cpu = time.monotonic(), time.process_time()
time.sleep(float(sys.argv[2]))
print((time.process_time() - cpu) / (time.monotonic() - begin))
"""


def notice_to_end(megabytes: int) -> tuple[float, float]:
    """Seconds from the notice to the end of `arc-toolkit run`, and those of the save."""
    with tempfile.TemporaryDirectory(
        prefix="arc-toolkit-bench-", dir=os.environ.get("TMPDIR")
    ) as name:
        folder = Path(name)
        options = [
            "--cloud",
            "none",
            "--notice-file",
            str(folder / "notice"),
            "--checkpoints",
            str(folder / "saved"),
        ]
        command = [
            sys.executable,
            "-m",
            "arc_toolkit",
            "run",
            *options,
            "--",
            sys.executable,
            "-c",
            TRAINING,
        ]
        process = subprocess.Popen(
            [*command, str(megabytes)],
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        time.sleep(5)
        began = time.monotonic()
        (folder / "notice").write_text("60")
        assert process.stderr is not None
        log = process.stderr.read()
        seconds = time.monotonic() - began
        saved = re.search(r"saved step=\d+ seconds=([\d.]+)", log)
        if process.wait() != 143 or saved is None:
            raise RuntimeError(log)
        return seconds, float(saved[1])


def share_of_a_core(seconds: float) -> float:
    """What a process needs that asks a metadata service every second, and does nothing else."""
    with metadata_service() as service:
        azure_answers(service, [])
        done = subprocess.run(
            [sys.executable, "-c", WATCHING, service.url, str(seconds)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    return float(done.stdout)
