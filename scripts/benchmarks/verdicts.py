"""How good are the verdicts of `arc-toolkit diagnose`? Simulated fleets with a known truth give the answer.

    .venv/bin/python -m scripts.benchmarks.verdicts [SCENARIO ...] [--seeds 20] [--workers 2]

Prints one row per scenario and leaves with 1 if the demanded figures do not hold at 100 nodes and 3,000 jobs:
precision of `bad` at least 0.9, at most 0.5 wrong names per report, no bad node in the blip, recall at least 0.5
(or nine tenths of what a rule reaches that knows the true cause of every attempt, if that is less).
In the small pools of `crowded`: at least 0.6 of the bad nodes named and 0.85 named or suspect, at most 0.1 wrong names
per report.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor

from scripts.benchmarks.fleetsim.measure import Result, Score, measure
from scripts.benchmarks.fleetsim.scenarios import SCENARIOS, Scenario

HEAD = (
    "                 bad                       suspect            bad or   cordon        plain rule               "
    "knows causes\n"
    "scenario         prec  recall  gpu   wrong prec  wrong        suspect  mean  most    prec  recall  gpu   wrong "
    "recall gpu   wrong"
)


def share(value: float | None) -> str:
    return " -  " if value is None else f"{value:.2f}"


def score(found: Score) -> str:
    shares = f"{share(found.precision)}  {share(found.recall)}    {share(found.recall_gpu)}"
    return f"{shares}  {found.wrong_per_report:5.2f}"


def row(result: Result) -> str:
    knows = result.knowing
    return (
        f"{result.scenario.name:<15}  {score(result.bad)} {share(result.suspect.precision)}  "
        f"{result.suspect.wrong_per_report:5.2f}        {share(result.either.recall)}     "
        f"{result.cordon / max(1, result.bad.reports):4.1f}  {result.most_cordoned:4.0%}    {score(result.plain)} "
        f"{share(knows.recall)}   {share(knows.recall_gpu)} {knows.wrong_per_report:5.2f}"
    )


def details(result: Result) -> list[str]:
    reports = max(1, result.bad.reports)
    styles = ", ".join(
        f"{style} {result.bad.by_style[style]}/{count} (plain {result.plain.by_style[style]})"
        for style, count in sorted(result.exist.items())
    )
    made, judged = result.seconds_made / reports, result.seconds_judged / reports
    speed = f"seconds per report: made {made:.1f}, judged {judged:.1f}"
    found = f"found by style: {styles or 'there are none'}; bad nodes called ok: {result.called_ok}"
    found += f"; reports with an uneven pool: {result.uneven}"
    return [*result.sanity.lines(reports), found, speed]


def one(job: tuple[Scenario, int, int, bool]) -> Result:
    scenario, first, seeds, with_tool = job
    return measure(scenario, range(first, first + seeds), with_tool)


def main() -> int:
    names = {scenario().name: scenario for scenario in SCENARIOS}
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help=f"of {', '.join(names)}; all if none is given",
    )
    parser.add_argument(
        "--seeds", type=int, default=5, help="reports per scenario (default: %(default)s)"
    )
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument(
        "--brief", action="store_true", help="leave out what the simulated clusters look like"
    )
    parser.add_argument("--list", action="store_true", help="say what the scenarios are")
    parser.add_argument(
        "--without-tool", action="store_true", help="only the two rules to compare with"
    )
    options = parser.parse_args()
    if unknown := sorted(set(options.scenarios) - names.keys()):
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(names)}")
    if options.list:
        for name, scenario in names.items():
            print(f"{name}: {scenario.__doc__}")
        return 0
    chosen = [names[name]() for name in options.scenarios or names]
    jobs = [
        (scenario, options.first_seed, options.seeds, not options.without_tool)
        for scenario in chosen
    ]
    print(HEAD, flush=True)
    results = []
    with ProcessPoolExecutor(options.workers) as workers:
        for result in workers.map(one, jobs):
            results.append(result)
            print(row(result), flush=True)
    if not options.brief:
        for result in results:
            print(f"\n{result.scenario.name}: {result.scenario.about}")
            print("\n".join(f"  {line}" for line in details(result)))
    for result in results:
        if result.scenario.name == "base":
            plain = (
                f"precision {share(result.plain.precision)} and recall {share(result.plain.recall)}"
            )
            print(
                f"\ncheck of the simulator: the plain rule has {plain} in base; expected: full and about 0.5"
            )
    with_bad = [
        result
        for result in results
        if result.bad.recall is not None and result.plain.recall is not None
    ]
    beaten = [
        result for result in with_bad if (result.bad.recall or 0.0) > (result.plain.recall or 0.0)
    ]
    print(f"recall is above that of the plain rule in {len(beaten)} of {len(with_bad)} scenarios")
    short = (
        [line for result in results for line in result.shortfalls()]
        if not options.without_tool
        else []
    )
    print(f"\n{len(short)} figures do not hold" + (":" if short else ""))
    print("\n".join(short))
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
