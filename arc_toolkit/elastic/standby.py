"""A process that waits to become a rank: it imports what the script imports, and then runs the script as `__main__`.

The import of a framework takes seconds and would decide how long a run stalls; a standby has it behind it. Started by
an agent as

    python -m arc_toolkit.elastic.standby READ_FD WRITE_FD

It reads JSON lines (first what to import, then what to run) and ends at once when the agent is gone.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import sys
import threading
from typing import Any

# What the first step with a framework imports although no script names it.
_ALSO = {"torch": ("torch.distributed", "torch._dynamo"), "jax": ("jax.numpy",), "keras": ("keras.src",)}
_GONE = 137


def main(read: int, write: int) -> int:
    source = os.fdopen(read, "r", encoding="utf-8")
    first = json.loads(source.readline() or "{}")
    for name in first.get("modules", ()):
        for module in (name, *_ALSO.get(name.partition(".")[0], ())):
            # A script may import what is not there, under conditions that only it knows.
            with contextlib.suppress(Exception):
                importlib.import_module(module)
    _tell(write, {"type": "ready"})
    line = source.readline()
    if not line:
        return 0
    threading.Thread(target=_end_with_agent, args=(source,), daemon=True).start()
    job = json.loads(line)
    code = _run(job)
    _tell(write, {"type": "exit", "code": code})
    # Frameworks take a second to tear themselves down, in which the next generation could already run. Output is not
    # buffered (-u), so that nothing is lost.
    os._exit(code)


def _run(job: dict[str, Any]) -> int:
    os.environ.update(job["environment"])
    script, arguments = job["script"], job["arguments"]
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code is None:
            return 0
        if isinstance(end.code, int):
            return end.code & 0xFF
        sys.stderr.write(f"{end.code}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    return 0


def _end_with_agent(source: Any) -> None:
    """A rank without its agent would go on unseen and write checkpoints that nobody waits for."""
    with contextlib.suppress(Exception):
        source.read()
    os._exit(_GONE)


def _tell(write: int, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(write, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
