"""What a person can do about a bad node, as sentences and commands to copy.

Cordoning a large part of a pool harms more than bad nodes do, so only the worst tenth of a pool
gets that command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from arc_toolkit.diagnosis.model import Level, Suggestion, Verdict
from arc_toolkit.kube.labels import name_problem
from arc_toolkit.resources import data_file

MOST_CORDONED = 0.1  # of a pool, but at least one node

LOOK_AT_FAULT = "its events and conditions: they report this fault"
LOOK_AT_ALL = (
    "its events, conditions and other pods: nothing else shows why more fails here than elsewhere"
)


@cache
def looks() -> dict[str, str]:
    """data/node_checks.csv: what to look at, by the reason string that made the node bad."""
    import csv

    with data_file("node_checks.csv").open(encoding="utf-8", newline="") as stream:
        return {row["reason"]: row["look"] for row in csv.DictReader(stream)}


def add(verdicts: Sequence[Verdict], leads: Mapping[str, str]) -> list[Verdict]:
    """The verdicts with suggestions for the bad nodes. `leads`: the decisive reason of each.

    Nodes whose fault holds now come first, then those that differ most from their pool.
    """
    pools: dict[str | None, list[Verdict]] = {}
    for verdict in verdicts:
        if not verdict.gone:
            pools.setdefault(verdict.pool, []).append(verdict)
    cordoned: set[str] = set()
    for members in pools.values():
        worst = sorted(
            (verdict.node not in leads, verdict.p_value or 1.0, verdict.node)
            for verdict in members
            if verdict.level is Level.BAD
        )
        cordoned |= {node for *_, node in worst[: max(1, int(MOST_CORDONED * len(members)))]}
    result = []
    for verdict in verdicts:
        if verdict.level is Level.BAD:
            crowd = "" if verdict.gone or verdict.node in cordoned else _crowd(pools[verdict.pool])
            lead = leads.get(verdict.node)
            advice = node_suggestions(verdict.node, lead, verdict.vm_instance, verdict.gone, crowd)
            verdict = replace(verdict, suggestions=advice)
        result.append(verdict)
    return result


def _crowd(pool: Sequence[Verdict]) -> str:
    bad = len([verdict for verdict in pool if verdict.level is Level.BAD])
    return (
        f"{bad} of {len(pool)} nodes of its pool are bad: do not cordon them all, "
        "look at what they share "
        "(network, image, driver, an upgrade, Azure's status)"
    )


def node_suggestions(
    node: str, lead_reason: str | None, vm_instance: int | None, is_gone: bool, crowd: str = ""
) -> tuple[Suggestion, ...]:
    """What to look at and what to run. `lead_reason`: what made the node bad, if known.

    `crowd`: what to do instead of cordoning it, if too much of its pool is bad.
    """
    look = Suggestion(
        f"look at {looks().get(lead_reason, LOOK_AT_FAULT) if lead_reason else LOOK_AT_ALL}"
    )
    if name_problem(node):  # only a valid node name goes into a command
        return (look,)
    selector = f"involvedObject.kind=Node,involvedObject.name={node}"
    events = f"kubectl get events -A --field-selector {selector}"
    if is_gone:  # there is nothing to cordon or to describe
        vm = f"VM instance {vm_instance} of its scale set" if vm_instance is not None else "its VM"
        return (
            look,
            Suggestion(f"the node no longer exists; only the activity log of {vm} is left"),
            Suggestion(events, is_command=True),
        )
    commands = [
        f"kubectl describe node {node}",
        events,
        f"kubectl get pods -A -o wide --field-selector spec.nodeName={node}",
    ]
    if not crowd:
        commands.append(
            f"kubectl cordon {node}   # keeps new pods away; `kubectl uncordon` reverts it"
        )
    suggestions = [look, *(Suggestion(command, is_command=True) for command in commands)]
    if crowd:
        suggestions.append(Suggestion(crowd))
    elif vm_instance is not None:
        text = (
            f"it is VM instance {vm_instance} of its scale set; "
            "a redeploy or reimage in AKS moves it"
        )
        suggestions.append(Suggestion(text))
    return tuple(suggestions)


def anti_affinity(nodes: list[str]) -> str:
    """Soft: a hard exclusion could leave retries without a node (Argo Workflows #13969)."""
    from arc_toolkit.edit.yaml.writer import file_text

    names = [node for node in nodes if name_problem(node) is None]
    term = {
        "matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": names}
        ]
    }
    preferred = [{"weight": 100, "preference": term}]
    return file_text(
        {
            "affinity": {
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
            }
        }
    )
