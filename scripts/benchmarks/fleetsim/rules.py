"""Two rules to compare with: a plain one on the raw objects, and one that knows the truth of every attempt.

Both give one vote per job family and node, compare each node with the rest of its pool by a binomial test, and
correct by Benjamini and Hochberg at 5 %.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable

from scripts.benchmarks.fleetsim.objects import SPOT, Object
from scripts.benchmarks.fleetsim.workload import Blame
from scripts.benchmarks.fleetsim.world import Snapshot

TRIAL = re.compile(r"^(?P<parent>HD_[0-9a-f-]{36}|[a-z]+_[a-z]+_[a-z0-9]{10})_\d+$")
NOT_THE_NODE = {
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "PreemptionByScheduler",
    "TerminationByKubelet",
}

Votes = dict[tuple[str, str], list[bool]]  # (node, family) -> did the attempt fail


def family(run: str) -> str:
    match = TRIAL.match(run)
    return match["parent"] if match else run


def _outcome(pod: Object) -> tuple[str, int | None]:
    """ok, failed, or skipped (says nothing about the node), and the exit code."""
    status = pod["status"]
    disruption = {c["reason"] for c in status["conditions"] if c["type"] == "DisruptionTarget"}
    evicted_by_volcano = any(c.get("reason") == "Evict" for c in status["conditions"])
    if disruption & NOT_THE_NODE or evicted_by_volcano:
        return "skipped", None
    if "DeletionByTaintManager" in disruption:
        return "failed", None
    if status.get("reason") == "UnexpectedAdmissionError":
        return "failed", None
    if status["phase"] == "Succeeded":
        return "ok", 0
    for container in status.get("containerStatuses", ()):
        ended = container["state"].get("terminated")
        if ended and status["phase"] == "Failed":
            if ended["reason"] == "OOMKilled" or ended["exitCode"] == 143:
                return "skipped", None
            return "failed", ended["exitCode"]
    return "skipped", None


def _end(pod: Object) -> str:
    for container in pod["status"].get("containerStatuses", ()):
        ended = container["state"].get("terminated")
        if ended:
            return str(ended["finishedAt"])
    return str(pod["status"]["startTime"])


def plain_votes(snapshot: Snapshot) -> Votes:
    """One vote per family and node. Exit 1 counts only when the same job then succeeded elsewhere."""
    spot = {
        node["metadata"]["name"] for node in snapshot.nodes if SPOT in node["metadata"]["labels"]
    }
    attempts: dict[tuple[str, str], list[Object]] = defaultdict(list)
    good: dict[str, list[tuple[str, str]]] = defaultdict(list)  # run -> (start, node) of successes
    for pod in snapshot.pods:
        labels = pod["metadata"]["labels"]
        attempts[labels["ml.azure.com/run-id"], labels["jobId"]].append(pod)
        if pod["status"]["phase"] == "Succeeded":
            good[labels["ml.azure.com/run-id"]].append(
                (pod["status"]["startTime"], pod["spec"]["nodeName"])
            )
    votes: Votes = defaultdict(list)
    for (run, _), pods in attempts.items():
        outcomes = [(_outcome(pod), pod) for pod in pods]
        failed = [(code, pod) for (outcome, code), pod in outcomes if outcome == "failed"]
        for (outcome, _code), pod in outcomes:
            if outcome == "ok":
                votes[pod["spec"]["nodeName"], family(run)].append(False)
        if not failed:
            continue
        code, first = min(
            failed, key=lambda item: _end(item[1])
        )  # the first to die; the others are collateral
        node = first["spec"]["nodeName"]
        later = any(
            start > first["status"]["startTime"] and where != node for start, where in good[run]
        )
        if (code == 1 and not later) or (code == 137 and node in spot):
            continue
        votes[node, family(run)].append(True)
    return votes


def true_votes(snapshot: Snapshot) -> Votes:
    """The same with the true cause of every attempt: what counting can reach at best."""
    votes: Votes = defaultdict(list)
    for rank, job in snapshot.ranks:
        if rank.blame in (Blame.NONE, Blame.ORDINARY, Blame.BAD_NODE):
            votes[rank.pod.node, job.family].append(rank.blame is not Blame.NONE)
    return votes


def tail(failures: int, trials: int, rate: float) -> float:
    """The chance of so many failures or more."""
    if failures <= 0:
        return 1.0
    total = 0.0
    for k in range(failures, trials + 1):
        log = math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        total += math.exp(log + k * math.log(rate) + (trials - k) * math.log1p(-rate))
    return min(1.0, total)


def benjamini_hochberg(chances: dict[str, float], share: float = 0.05) -> set[str]:
    ordered = sorted(chances.items(), key=lambda item: item[1])
    last = 0
    for place, (_, chance) in enumerate(ordered, 1):
        if chance <= share * place / len(ordered):
            last = place
    return {name for name, _ in ordered[:last]}


def convicted(votes: Votes, pool_of: dict[str, str]) -> set[str]:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (node, _), found in votes.items():
        counts[node][0] += sum(found) * 2 > len(found)
        counts[node][1] += 1
    pools: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for node, (failures, trials) in counts.items():
        pools[pool_of[node]][0] += failures
        pools[pool_of[node]][1] += trials
    chances = {}
    for node, (failures, trials) in counts.items():
        all_failures, all_trials = pools[pool_of[node]]
        rate = (all_failures - failures + 0.5) / (all_trials - trials + 1)
        chances[node] = tail(failures, trials, min(0.999, rate))
    return benjamini_hochberg(chances)


def plain(snapshot: Snapshot) -> set[str]:
    return convicted(plain_votes(snapshot), snapshot.pool_of)


def knowing(snapshot: Snapshot) -> set[str]:
    return convicted(true_votes(snapshot), snapshot.pool_of)


def exposure(snapshot: Snapshot, nodes: Iterable[str]) -> list[int]:
    """How many votes each of these nodes has, in truth."""
    count: dict[str, int] = defaultdict(int)
    for node, _ in true_votes(snapshot):
        count[node] += 1
    return [count[node] for node in nodes]
