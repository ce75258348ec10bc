"""Reports made by hand, with a bit of everything: for tests of the page and the tables, and for the page's pictures.

They do not depend on how `diagnose` decides: a better answer there does not change what is tested here.
"""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.diagnosis.judge.statistics import wilson
from arc_toolkit.diagnosis.judge.suggestions import node_suggestions
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    Confidence,
    DiagnosisReport,
    Evidence,
    EvidenceSource,
    FileEvidence,
    Incident,
    Job,
    Level,
    Restart,
    RunOutcome,
    SkippedFile,
    Stats,
    Verdict,
    Waiting,
    WaitingFor,
)
from arc_toolkit.diagnosis.signals import KINDS

NOON = 1_782_900_000  # 2026-07-01 10:00 UTC
GPU = "aks-gpu-31415926-vmss0000"
SPOT = "aks-spot-27182818-vmss0000"

# What is shown as evidence of a cause.
EVIDENCE = {
    CauseKind.OWN_MEMORY: (
        EvidenceSource.CONTAINER,
        "OOMKilled",
        "the container exceeded its memory limit",
    ),
    CauseKind.NODE_MEMORY: (
        EvidenceSource.NODE_EVENT,
        "SystemOOM",
        "the kernel ran out of memory outside any pod's limit",
    ),
    CauseKind.NODE_LOST: (EvidenceSource.NODE_EVENT, "NodeNotReady", "the node became NotReady"),
    CauseKind.NODE_FAULT: (
        EvidenceSource.NODE_CONDITION,
        "GPUMissing",
        "a GPU is missing from the node",
    ),
    CauseKind.NODE_PRESSURE: (EvidenceSource.POD_STATUS, "Evicted", "the node was low on memory"),
    CauseKind.SPOT: (EvidenceSource.NODE_EVENT, "PreemptScheduled", "Azure reclaims the spot VM"),
    CauseKind.DRAIN: (
        EvidenceSource.POD_CONDITION,
        "EvictionByEvictionAPI",
        "evicted through the API",
    ),
    CauseKind.SCHEDULER: (EvidenceSource.POD_EVENT, "Evict", "Volcano preempted the pod"),
    CauseKind.GANG: (EvidenceSource.GANG, "worker-2", "this rank failed first"),
    CauseKind.USER: (EvidenceSource.EXIT_CODE, "2", "the process ended with an error"),
}


def attempt(
    job: str,
    number: int,
    node: str | None,
    start: float | None = None,
    minutes: float | None = None,
    kind: CauseKind | None = None,
    *,
    rank: str | None = None,
    outcome: RunOutcome | None = None,
    waiting: Waiting | None = None,
    confidence: Confidence = "high",
) -> Attempt:
    """Failed if it has a cause, otherwise succeeded; times in minutes after NOON."""
    begin = NOON + start * 60 if start is not None else None
    end = begin + minutes * 60 if begin is not None and minutes is not None else None
    cause = None
    if kind:
        evidence = (Evidence(*EVIDENCE[kind], end),) if kind in EVIDENCE else ()
        cause = Cause(kind, confidence, evidence, KINDS[kind].blames_node)
    pool = node.split("-")[1] if node and node.startswith("aks-") else None
    return Attempt(
        job,
        number,
        node,
        rank=rank,
        start=begin,
        end=end,
        pool=pool,
        spot=pool == "spot" if pool else None,
        outcome=outcome or (RunOutcome.FAILED if cause else RunOutcome.SUCCEEDED),
        cause=cause,
        waiting=waiting,
    )


def job_of(attempts: Iterable[Attempt], *, fails_everywhere: bool = False) -> Job:
    """The job of these attempts: it ended as the last one did."""
    listed = list(attempts)
    kinds = [
        item.cause.kind for item in listed if item.cause and item.cause.kind is not CauseKind.GANG
    ]
    return Job(
        listed[0].job,
        listed[0].job,
        1 + max(item.number for item in listed),
        listed[-1].outcome,
        tuple(dict.fromkeys(item.node for item in listed if item.node)),
        tuple(dict.fromkeys(kinds)),
        listed[0].start,
        fails_everywhere=fails_everywhere,
    )


def verdict(
    node: str,
    level: Level,
    failures: int,
    attempts: int,
    reason: str,
    evidence: tuple[Evidence, ...] = (),
    pool_rate: float | None = None,
) -> Verdict:
    pool = node.split("-")[1]
    lead = evidence[0].reason if evidence else None
    return Verdict(
        node,
        level,
        pool,
        failures,
        attempts,
        wilson(failures, attempts) if attempts else None,
        pool_rate,
        evidence=evidence,
        spot=pool == "spot",
        vm_instance=int(node[-6:], 36),
        reason=reason,
        suggestions=node_suggestions(node, lead, int(node[-6:], 36), False)
        if level is Level.BAD
        else (),
    )


def sample_report() -> DiagnosisReport:
    """Twelve nodes, one of them bad, and thirteen jobs with most of the causes there are."""
    no_room = Waiting(
        WaitingFor.UNSCHEDULABLE,
        (
            Evidence(
                EvidenceSource.POD_CONDITION,
                "Unschedulable",
                "0 of 12 nodes are available: 8 have too few nvidia.com/gpu, 4 have a taint",
                NOON + 9_000,
            ),
        ),
    )
    attempts = [
        attempt("brave_fig_4k2", 0, f"{GPU}03", 0, 42, CauseKind.NODE_MEMORY),
        attempt("brave_fig_4k2", 1, f"{GPU}05", 47, 38, CauseKind.SCHEDULER),
        attempt("brave_fig_4k2", 2, f"{GPU}01", 90, 95),
        attempt("calm_pear_9x1", 0, f"{SPOT}01", 12, 61, CauseKind.SPOT),
        attempt("calm_pear_9x1", 1, f"{SPOT}02", 78, 50, CauseKind.SPOT),
        attempt("calm_pear_9x1", 2, f"{GPU}02", 133, 40),
        attempt("dull_plum_7r3", 0, f"{GPU}00", 5, 9, CauseKind.OWN_MEMORY),
        attempt("dull_plum_7r3", 1, f"{GPU}01", 16, 9, CauseKind.OWN_MEMORY),
        attempt("dull_plum_7r3", 2, f"{GPU}06", 27, 9, CauseKind.OWN_MEMORY),
        attempt("quick_lime_1b8", 0, f"{GPU}03", 60, 33, CauseKind.NODE_PRESSURE),
        attempt("quick_lime_1b8", 1, f"{GPU}04", 97, 60),
        attempt("red_elm_5f0", 0, f"{GPU}06", 150, 3, CauseKind.USER),
        attempt("keen_oak_2d6", 0, f"{GPU}05", 160, outcome=RunOutcome.RUNNING),
        attempt("lone_bay_6e1", 0, None, 140, outcome=RunOutcome.WAITING, waiting=no_room),
        attempt("slow_ash_8c4", 0, f"{GPU}07", 20, 30, CauseKind.DRAIN),
        attempt("slow_ash_8c4", 1, f"{GPU}00", 55, 70),
    ]
    for rank in range(4):
        kind = CauseKind.NODE_LOST if rank == 2 else CauseKind.GANG
        minutes = 25 if rank == 2 else 26 + rank
        attempts.append(
            attempt("wide_yew_3a9", 0, f"{GPU}0{rank}", 30, minutes, kind, rank=f"worker-{rank}")
        )
    for rank in range(4):
        attempts.append(
            attempt("wide_yew_3a9", 1, f"{GPU}0{rank + 4}", 65, 80, rank=f"worker-{rank}")
        )
    attempts += [
        attempt(f"calm_fir_{number}", 0, f"{GPU}0{number}", 200 + number, 30) for number in range(4)
    ]
    names = dict.fromkeys(item.job for item in attempts)
    jobs = [
        job_of(
            (item for item in attempts if item.job == name),
            fails_everywhere=name == "dull_plum_7r3",
        )
        for name in names
    ]

    oom = Evidence(*EVIDENCE[CauseKind.NODE_MEMORY], NOON + 42 * 60)
    lost = Evidence(*EVIDENCE[CauseKind.NODE_LOST], NOON + 43 * 60)
    once = Evidence(*EVIDENCE[CauseKind.NODE_LOST], NOON + 55 * 60)
    verdicts = [
        verdict(
            f"{GPU}03",
            Level.BAD,
            2,
            4,
            "SystemOOM: the kernel ran out of memory, twice",
            (oom, lost),
            pool_rate=0.06,
        ),
        verdict(
            f"{GPU}05",
            Level.SUSPECT,
            1,
            3,
            "more attempts fail than on the rest of its pool",
            pool_rate=0.06,
        ),
        verdict(
            f"{GPU}02",
            Level.RECOVERED,
            1,
            12,
            "NotReady once, 11 good attempts since",
            (once,),
            pool_rate=0.06,
        ),
        verdict(f"{SPOT}01", Level.NOT_ENOUGH_DATA, 0, 0, "no attempt on it counts"),
        verdict(f"{SPOT}02", Level.NOT_ENOUGH_DATA, 0, 0, "no attempt on it counts"),
        *[
            verdict(
                f"{GPU}0{number}",
                Level.OK,
                0,
                14 + number,
                f"none of {14 + number} attempts failed: a failure rate above 22 % is excluded",
                pool_rate=0.07,
            )
            for number in (0, 1, 4, 6, 7)
        ],
        verdict(
            f"{SPOT}00",
            Level.OK,
            0,
            11,
            "none of 11 attempts failed: a failure rate above 26 % is excluded",
        ),
        verdict(
            f"{SPOT}03",
            Level.OK,
            0,
            10,
            "none of 10 attempts failed: a failure rate above 28 % is excluded",
        ),
    ]
    incident = Incident(
        NOON + 170 * 60,
        NOON + 174 * 60,
        CauseKind.NODE_LOST,
        tuple(f"{GPU}0{number}" for number in (0, 1, 4, 6, 7)),
        "gpu",
        8,
        "5 of 8 nodes became NotReady within 4 minutes: check the network and the API server, not the nodes",
    )
    finding = FileEvidence(
        "slow_ash_8c4/logs/sys/job_report/processed_mini-batches.csv",
        Evidence(
            EvidenceSource.PRS,
            "Picked Count",
            "17 of 400 mini-batches were picked more than once, up to 3 times",
        ),
        None,
        CauseKind.UNKNOWN,
    )
    restart = Restart(
        "calm_pear_9x1",
        NOON + 78 * 60,
        "resumed",
        4200,
        3800,
        400,
        1640.0,
        300.0,
        ("loss", "lr"),
        source="metrics.csv",
    )
    return DiagnosisReport(
        attempts=tuple(attempts),
        jobs=tuple(jobs),
        verdicts=tuple(verdicts),
        incidents=(incident,),
        skipped=(SkippedFile("downloads/old.tar.gz", "archive: unpack it first"),),
        restarts=(restart,),
        prs_evidence=(finding,),
        stats=Stats(
            files_seen=1,
            seconds=0.4,
            pods=len(attempts),
            nodes=12,
            events=31,
            skipped={"archive: unpack it first": 1},
        ),
        notes=(
            "nothing was recorded from 2026-07-01 11:20 to 11:50: events of that time are missing",
        ),
    )


def large_report(
    jobs: int = 3_000, nodes: int = 100, failed: int = 20, bad: int = 25
) -> DiagnosisReport:
    """Every `failed`-th job failed for good, a third of the others were retried, and every `bad`-th node is bad."""
    names = [
        f"aks-{'gpu' if number % 2 else 'cpu'}-31415926-vmss{number:06}" for number in range(nodes)
    ]
    attempts: list[Attempt] = []
    listed = []
    kinds = (CauseKind.USER, CauseKind.NODE_LOST, CauseKind.OWN_MEMORY)
    for number in range(jobs):
        name = f"job_{number:05}"
        places = [names[(number * 7 + step * 13) % nodes] for step in range(3)]
        if number % failed == 0:
            own = [
                attempt(name, step, place, number + step * 40, 30, kinds[number // failed % 3])
                for step, place in enumerate(places)
            ]
        elif number % 3 == 0:
            own = [
                attempt(name, 0, places[0], number, 30, CauseKind.SPOT),
                attempt(name, 1, places[1], number + 40, 60),
            ]
        else:
            own = [attempt(name, 0, places[0], number, 30)]
        attempts += own
        listed.append(job_of(own))
    lost = Evidence(*EVIDENCE[CauseKind.NODE_LOST], NOON)
    verdicts = [
        verdict(
            name,
            Level.BAD,
            9,
            30,
            "NodeNotReady: the node became NotReady, 4 times this week",
            (lost,) * 4,
            0.05,
        )
        if number % bad == 0
        else verdict(
            name,
            Level.OK,
            0,
            30,
            "none of 30 attempts failed: a failure rate above 12 % is excluded",
        )
        for number, name in enumerate(names)
    ]
    verdicts.sort(key=lambda item: list(Level).index(item.level))
    incident = Incident(
        NOON, NOON + 240, CauseKind.NODE_LOST, tuple(names), None, nodes, "check the network"
    )
    return DiagnosisReport(
        attempts=tuple(attempts),
        jobs=tuple(listed),
        verdicts=tuple(verdicts),
        incidents=(incident,) * 3,
        skipped=tuple(
            SkippedFile(f"old-{number}.tar.gz", "archive: unpack it first") for number in range(300)
        ),
        stats=Stats(
            pods=len(attempts),
            nodes=nodes,
            events=4 * nodes,
            skipped={"archive: unpack it first": 300},
        ),
    )
