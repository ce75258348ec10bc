"""An agent as a process of its own, for clusters without Ray. HOST:PORT of the controller is in the file.

python -m tests.elastic.agent_process RUN NODE SLOTS FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

from arc_toolkit.elastic.agent import AgentFolder, ElasticAgent


def main(run: str, node: str, slots: str, file: str) -> None:
    def find_controller() -> tuple[str, int]:
        host, _, port = Path(file).read_text(encoding="utf-8").strip().rpartition(":")
        return host, int(port)

    ElasticAgent(run, node, int(slots), find_controller, AgentFolder()).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
