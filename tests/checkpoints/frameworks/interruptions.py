"""Runs of one training script: without interruption, and killed and evicted at random steps and resumed.

    python -m tests.checkpoints.frameworks.interruptions keras_run FOLDER

Every run is a process of its own, forked after the framework was imported, because that takes longest. The last line is
JSON: the digest of the final state of both, and what happened.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from arc_toolkit.checkpoints import Store


class InterruptedStore(Store):
    """Kills this process, or announces its end, once it has done a step."""

    def __init__(self, root: Path, interruption: str, step: int) -> None:
        super().__init__(root)
        self._interruption, self._at = interruption, step

    def due(self, step: int, *, samples: int = 0) -> bool:
        if step >= self._at and self._interruption == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if step >= self._at and self._interruption == "notice" and self.notice is None:
            self.announce(120)
        return super().due(step)


def in_child(call: Callable[[], bytes], result: Path) -> int:
    """The exit code of a process that does `call` and writes its result."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        result.write_bytes(call())
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(name: str, folder: Path) -> dict[str, Any]:
    module = import_module(f"tests.checkpoints.frameworks.{name}")
    total: int = module.STEPS
    chance = random.Random(os.environ.get("SEED", name))
    codes = [
        in_child(
            lambda: module.train(InterruptedStore(folder / "whole", "", 0)), folder / "whole.bin"
        )
    ]
    places = sorted(chance.sample(range(2, total - 2), 4))
    interruptions = [
        ("kill", places[0]),
        ("notice", places[1]),
        ("kill", places[2]),
        ("notice", places[3]),
    ]
    for kind, step in [*interruptions, ("", 0)]:
        store = InterruptedStore(folder / "parts", kind, step)
        codes.append(in_child(lambda store=store: module.train(store), folder / "parts.bin"))  # type: ignore[misc]
    digests = {
        part: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for part in ("whole", "parts")
        for path in [folder / f"{part}.bin"]
    }
    return {
        "codes": codes,
        "places": places,
        **digests,
        **getattr(module, "compare", lambda *paths: {})(folder / "whole.bin", folder / "parts.bin"),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
