"""`place` over public Kubernetes manifests, against composing the same files with PyYAML's C
loader.

Start-up is in neither: both run in this process, on the same files, in turns, so that a busy
machine slows both; the ratio is the median of the rounds' ratios. Nearly every file changes, so the
proof of each edit is in it: what the edits touch is read again, compared, and planned a second
time.

scripts/bench place                  ratios of one run; exit 1 if the limit does not hold
ARC_TOOLKIT_BENCH_CORPUS=DIR         other files than ../shared/corpus/kubernetes
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from statistics import median

from arc_toolkit.batch import run
from arc_toolkit.placement.place_files import PlaceFiles
from arc_toolkit.placement.place_plan import PlaceSettings
from arc_toolkit.placement.spot import SpotPolicy
from scripts.benchmarks.common import compose_all, cpu_of_call
from tests.support import CORPUS

MOST_OF_COMPOSE = 6.0
ROUNDS = 15
CASES = {
    "place --spot require": PlaceSettings(spot=SpotPolicy.REQUIRE),
    "place --spot prefer --grace 25s --retries 3": PlaceSettings(
        spot=SpotPolicy.PREFER, grace=25, retries=3
    ),
    "place --spot avoid": PlaceSettings(spot=SpotPolicy.AVOID),
}


def place(corpus: Path, settings: PlaceSettings) -> int:
    """How many files change."""
    outcomes = run([str(corpus)], PlaceFiles(settings), lambda _: None)
    return sum(1 for outcome in outcomes if outcome.result and outcome.result.after is not None)


def main() -> None:
    corpus = Path(os.environ.get("ARC_TOOLKIT_BENCH_CORPUS", str(CORPUS / "kubernetes")))
    if not corpus.is_dir():
        print(f"place: no corpus at {corpus}")
        return
    paths = sorted(path for path in corpus.rglob("*") if path.suffix in (".yml", ".yaml"))
    changed = {name: place(corpus, settings) for name, settings in CASES.items()}
    ratios: dict[str, list[float]] = {name: [] for name in CASES}
    seconds: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        peer = cpu_of_call(lambda: compose_all(paths), rounds=1)
        for name, settings in CASES.items():
            seconds[name].append(cpu_of_call(partial(place, corpus, settings), rounds=1))
            ratios[name].append(seconds[name][-1] / peer)
    print(f"\nplace: {len(paths)} files, median of {ROUNDS} rounds, PyYAML's C compose = 1")
    for name in CASES:
        print(
            f"  {name:<44} {median(seconds[name]) * 1000:7.1f} ms   ratio {median(ratios[name]):.2f}",
            end="",
        )
        print(f"   {changed[name]} files change")
    worst = max(map(median, ratios.values()))
    if worst > MOST_OF_COMPOSE:
        print(f"  MISSED: {worst:.2f} times compose, and at most {MOST_OF_COMPOSE} is wanted")
        sys.exit(1)


if __name__ == "__main__":
    main()
