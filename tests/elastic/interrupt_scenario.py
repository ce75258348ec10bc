"""Ctrl-C in a local run. Prints what happened as one line of JSON.

python -m tests.elastic.interrupt_scenario FOLDER      (with the Python of scripts/frameworks, see test_ray.py)
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from arc_toolkit.checkpoints import Store
from tests.elastic.local_cluster import SCRIPT
from tests.elastic.ray_scenario import Client


def main(folder: Path) -> int:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    saved = folder / "checkpoints"
    options = ("--cloud", "none", "--format", "json", "--checkpoints", saved)
    run = Client("-f", script, "-m", 2, *options, "--", folder / "never", 0.02)
    run.until("resumed", 1)
    run.process.send_signal(signal.SIGINT)
    code = run.wait()
    checkpoint = Store(saved).latest()
    step = checkpoint.step if checkpoint is not None else None
    starts = len(run.of("start"))
    sys.stdout.write(
        json.dumps({"code": code, "saved": step, "starts": starts, "summary": run.events[-1]})
        + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
