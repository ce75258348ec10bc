"""Cost: simulated runs per second, the formulas against the simulation, and the choice for a deadline against its peer.

    scripts/bench cost
    .venv/bin/python -m scripts.benchmarks.cost TRACES   # also a checkout of skypilot-org/spot-traces

With the traces of "Can't Be Late" (NSDI 2024) the policies run on the availability that its authors recorded.
"""

from __future__ import annotations

import bisect
import json
import math
import statistics
import sys
from functools import partial
from pathlib import Path

from arc_toolkit.cost.formulas import expected_run
from arc_toolkit.cost.mix import STEPS, MixPolicy, MixRun, cheapest_mix, evaluate, uniform_progress
from arc_toolkit.cost.simulation import mean_of, simulate
from arc_toolkit.cost.training_job import MissingCapacity, TrainingJob
from scripts.benchmarks.common import cpu_of_call

HOUR = 3600.0
PRICES = (
    1.097295,
    4.775,
)  # Standard_NC24ads_A100_v4 in westeurope, spot and dedicated, of the shipped table
V100_PRICES = (0.92, 3.06)  # p3.2xlarge on AWS, as the paper has it
# Table 4 and 5 of the paper: trace, hours of work, deadlines, changeover in hours, discount, savings
PREEMPTION = "preemption/1-node"
WORKLOADS = [
    (
        "ML",
        f"{PREEMPTION}/aws-04-22-2023/us-west-2b_v100_1.json",
        72,
        (84, 100),
        0.3,
        0.67,
        "41 %, 48 %",
    ),
    (
        "Bioinformatics",
        f"{PREEMPTION}/gcp-04-30-2023/us-east1-b_c3-88.json",
        22.5,
        (24, 28),
        0.2,
        0.91,
        "63 %, 84 %",
    ),
    (
        "Analytics",
        f"{PREEMPTION}/aws-04-19-2023/us-east-1c_intel_64.json",
        27,
        (30, 36),
        0.2,
        0.55,
        "27 %, 32 %",
    ),
]


def main(folder: str | None = None) -> None:
    speed()
    agreement()
    deadlines()
    if folder:
        traces(Path(folder))


def speed() -> None:
    print("\nsimulated runs per second on one core, plain Python (aim: at least 10,000)")
    for nodes, rate in ((8, 0.05), (8, 0.20), (1, 0.05)):
        job = TrainingJob(40 * HOUR, nodes, rate, 15, 60, 0.9)
        seconds = cpu_of_call(partial(simulate, job, 5000))
        what = f"40 h, {nodes} nodes, {rate:.0%} per hour, {expected_evictions(job):5.1f} evictions"
        print(f"  {what}: {5000 / seconds:10,.0f}")


def expected_evictions(job: TrainingJob) -> float:
    result = expected_run(job)
    return result.evictions if result else math.nan


def agreement() -> None:
    print("\nformula and 20,000 simulated runs (aim: within 2 %)")
    cases = {
        "40 h, 8 nodes, 5 %": TrainingJob(40 * HOUR, 8, 0.05, 15, 60, 0.0),
        "the same with notices": TrainingJob(40 * HOUR, 8, 0.05, 15, 60, 0.9),
        "save 60 s, 20 %": TrainingJob(40 * HOUR, 8, 0.20, 60, 60, 0.0),
        "capacity missing, 30 %:1h": TrainingJob(
            40 * HOUR, 8, 0.05, 15, 60, 0.9, MissingCapacity(0.3, HOUR)
        ),
        "restart of 20 min, 20 %": TrainingJob(40 * HOUR, 8, 0.20, 15, 1200, 0.9),
        "15 min, save 60 s": TrainingJob(HOUR / 4, 8, 0.20, 60, 60, 0.0),
        "15 min, restart of 20 min": TrainingJob(HOUR / 4, 8, 0.20, 60, 1200, 0.9),
    }
    for name, job in cases.items():
        result, runs = expected_run(job), simulate(job, 20_000)
        assert result
        mean = mean_of(runs.elapsed)
        print(
            f"  {name:<36} {result.elapsed / HOUR:8.3f} h  {mean / HOUR:8.3f} h  {result.elapsed / mean - 1:+7.2%}"
        )


def deadlines() -> None:
    print(
        "\nprice of 40 h on 8 nodes, 5 % per hour, capacity missing for 3 h on average, against Uniform Progress"
    )
    for share, hours in ((0.5, 44), (0.5, 50), (0.5, 60), (0.9, 60)):
        job = TrainingJob(40 * HOUR, 8, 0.05, 15, 60, 0.9, MissingCapacity(share, 3 * HOUR))
        mix = cheapest_mix(job, hours * HOUR, PRICES, runs=1000)
        assert mix.best
        again = evaluate(job, mix.best.policy, hours * HOUR, PRICES, runs=2000, seed=99)
        peer = evaluate(job, uniform_progress(job), hours * HOUR, PRICES, runs=2000, seed=99)
        print(
            f"  missing {share:.0%}, {hours} h: {again.cost:7.0f} ({again.met:.1%} in time), Uniform Progress "
            f"{peer.cost:7.0f} ({peer.met:.1%}), ratio {again.cost / peer.cost:.2f}  [{mix.best.policy.name}]"
        )


class TraceCapacity:
    """Availability as recorded, from a moment on; after its end the trace begins again."""

    def __init__(self, changes: list[float], up: bool, length: float, start: float) -> None:
        self._changes, self._up, self._length, self._start = changes, up, length, start

    def _next(self, moment: float, *, up: bool) -> float:
        """The first moment at or after this one at which spot is available, or is not."""
        rounds, place = divmod(self._start + moment, self._length)
        index = bisect.bisect_right(self._changes, place)
        for _ in range(3 * len(self._changes) + 3):
            state = self._up ^ bool(index % 2)
            if state == up:
                return max(moment, rounds * self._length + place - self._start)
            if index == len(self._changes):
                rounds, index, place = rounds + 1, 0, 0.0
            else:
                place = self._changes[index]
                index += 1
        return math.inf

    def eviction_after(self, start: float) -> float:
        return self._next(start, up=False)

    def back_at(self, evicted: float) -> float:
        return self._next(evicted, up=True)


def read_trace(path: Path) -> tuple[list[float], bool, float]:
    """When the availability changes, whether it begins available, and the length."""
    data = json.loads(path.read_text())
    gap, values = float(data["metadata"]["gap_seconds"]), [bool(value) for value in data["data"]]
    changes = [index * gap for index in range(1, len(values)) if values[index] != values[index - 1]]
    return changes, values[0], len(values) * gap


def capacities(path: Path, window: float, count: int = 300) -> list[TraceCapacity]:
    """The trace from evenly spaced starts on, each with a whole window before its end."""
    changes, up, length = read_trace(path)
    room = max(0.0, length - window)
    return [TraceCapacity(changes, up, length, room * index / count) for index in range(count)]


def traces(folder: Path) -> None:
    """The published figures: the paper's Table 3 (hours of work on demand) and Table 5 (savings)."""
    job, deadline = TrainingJob(48 * HOUR, 1, 0.0, 0, 0.2 * HOUR, 1.0), 60 * HOUR
    print(
        "\nTable 3 of Can't Be Late: 48 h of work in 60 h, changeover 0.2 h, 8 traces of 2 weeks: hours on demand"
    )
    paths = sorted(folder.glob("availability/1-node/aws-10-26-2022/*.json"))
    if not paths:
        raise SystemExit(
            f"{folder} has no availability/1-node/aws-10-26-2022: use a copy of skypilot-org/spot-traces"
        )
    for policy, published in (
        (greedy(job), "30.8 +- 17.7"),
        (uniform_progress(job), "25.1 +- 15.3"),
    ):
        dear_hours = [
            MixRun(job, policy, deadline, capacity, lambda: 0.0).finish().dear_work / HOUR
            for path in paths
            for capacity in capacities(path, deadline)
        ]
        spread = statistics.pstdev(dear_hours)
        print(
            f"  {policy.name:<30} {mean_of(dear_hours):5.1f} +- {spread:4.1f}   published {published}"
        )
    print(
        "\nTable 5: saving of Uniform Progress against on demand, mean and range over 300 starts; published is one run"
    )
    for name, trace, work, deadlines_hours, change, discount, published in WORKLOADS:
        job = TrainingJob(work * HOUR, 1, 0.0, 0, change * HOUR, 1.0)
        cells = []
        for hours in deadlines_hours:
            savings = [
                1 - ((1 - discount) * run.spot + run.on_demand) / run.job.work_seconds
                for capacity in capacities(folder / trace, hours * HOUR)
                for run in [
                    MixRun(job, uniform_progress(job), hours * HOUR, capacity, lambda: 0.0).finish()
                ]
            ]
            cells.append(
                f"{mean_of(savings):4.0%} ({min(savings):.0%} to {max(savings):.0%}) in {hours} h"
            )
        print(f"  {name:<14} {', '.join(cells)}   published {published}")
    print(
        "\nprice against Uniform Progress on the same traces (best step of ours in hindsight), 48 h of work"
    )
    for fraction in (0.9, 0.8, 0.67):
        deadline = 48 * HOUR / fraction
        job = TrainingJob(48 * HOUR, 1, 0.0, 0, 0.2 * HOUR, 1.0)
        ratios, greedy_ratios = [], []
        for path in paths:
            given = capacities(path, deadline, 100)
            costs = {
                ahead: evaluate(
                    job, MixPolicy("", ahead, 0.4 * HOUR), deadline, V100_PRICES, capacities=given
                ).cost
                for ahead in STEPS
            }
            ratios.append(min(costs.values()) / costs[1.0])
            greedy_ratios.append(costs[0.0] / costs[1.0])
        print(
            f"  deadline {deadline / HOUR:.0f} h: ours {mean_of(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
            f"greedy {mean_of(greedy_ratios):.2f}"
        )


def greedy(job: TrainingJob) -> MixPolicy:
    return MixPolicy("Greedy", 0.0, 2 * job.restart_seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
