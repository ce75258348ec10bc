"""The only place that knows `arc-toolkit`: runs `diagnose` on the objects and gives its verdicts in plain words."""

from __future__ import annotations

from dataclasses import dataclass

from arc_toolkit.diagnosis import report
from arc_toolkit.diagnosis.model import ClusterFacts
from scripts.benchmarks.fleetsim.world import Snapshot


@dataclass(frozen=True, slots=True)
class Answer:
    bad: frozenset[str]
    suspect: frozenset[str]
    ok: frozenset[str]
    cordon: frozenset[str]  # nodes for which a command to cordon or drain is given
    uneven: bool = False  # a pool has two groups, and which node is bad is left open


NOTHING = Answer(frozenset(), frozenset(), frozenset(), frozenset())


def diagnose(snapshot: Snapshot) -> Answer:
    facts = ClusterFacts(
        pods=snapshot.pods, nodes=snapshot.nodes, events=snapshot.events, nodes_complete=True
    )
    built = report.build([], [facts])
    verdicts = built.verdicts

    def at(level: str) -> frozenset[str]:
        return frozenset(verdict.node for verdict in verdicts if str(verdict.level) == level)

    cordon = frozenset(
        verdict.node
        for verdict in verdicts
        if any(
            item.is_command and ("cordon" in item.text or "drain" in item.text)
            for item in verdict.suggestions
        )
    )
    uneven = bool(built.uneven_pools)
    return Answer(at("bad"), at("suspect"), at("ok"), cordon, uneven)
