"""What a job prints about a GPU counts at the end of its process only: positions.yaml has the cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.diagnosis.model import Level
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import NODE_A, container, facts, node, pod, scanned

CASES = yaml.safe_load(Path(__file__).with_name("positions.yaml").read_text())
STARTED = "".join(f"step {step} loss 0.5\n" for step in range(50))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_position(case: dict[str, Any]) -> None:
    scan = scanned((STARTED + case["log"]).encode(), "job/user_logs/std_log.txt")
    report = build([scan], [facts([pod(containers=[container(code=1)])], [node()])])
    (attempt,) = report.attempts
    assert attempt.cause is not None
    blames = case["cause"] == "node-fault"
    assert (attempt.cause.kind, attempt.cause.blames_node) == (case["cause"], blames)
    levels = {verdict.node: verdict.level for verdict in report.verdicts}
    assert (levels[NODE_A] in (Level.BAD, Level.SUSPECT)) == blames
