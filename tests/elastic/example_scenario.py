"""An example on three nodes, of which one gets a notice and one is killed; run by the Python that has the frameworks.

    python -m tests.elastic.example_scenario FOLDER SCRIPT ARGUMENTS...

Prints what happened as JSON.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from arc_toolkit.elastic.run_config import imported_modules
from tests.elastic.local_cluster import LocalCluster, elastic_run


def main(folder: Path, script: Path, *arguments: str) -> None:
    source = script.read_text()
    options = {
        "source": source,
        "modules": imported_modules(source, str(script)),
        "max_failures": 0,
    }
    with elastic_run(folder, LocalCluster("a", "b", "c"), *arguments, **options) as run:

        def workers(count: int) -> bool:
            """Whether so many workers train: by their steps, or by what a script without the library prints."""
            if not run.events("start") or run.events("start")[-1]["workers"] != count:
                return False
            return bool(run.events("resumed")) or f"rank 0 of {count}" in run.text()

        run.until(lambda: workers(3), 120)
        library = "arc_toolkit" in source
        if library:
            run.until_step(5)
        (run.notices / "b").write_text("25")
        run.until(lambda: len(run.events("start")) > 1, 120)
        if library:
            run.until(lambda: workers(2), 120)
            step = run.controller.state()["step"] or 0
            run.until(lambda: (run.controller.state()["step"] or 0) > step + 5, 120)
            run.cluster.signal("a", signal.SIGKILL)
        code = run.wait(240)
    timeline = run.controller.timeline
    print(
        json.dumps(
            {
                "code": code,
                "workers": [event["workers"] for event in run.events("start")],
                "evictions": timeline.evictions,
                "redone": timeline.steps_redone,
                "lost": len(run.events("lost")),
                "output": [text for _, text in run.controller.output.lines_since(0)],
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
