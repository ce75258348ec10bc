"""`patch --check` over real AzureML files, against composing them with PyYAML's C loader, and a ruamel.yaml round trip.

Start-up is in none of them: all run in this process, on the same files, in turns, so that a busy machine slows all of
them; the ratio is the median of the rounds' ratios. `compose` reads the given files, each once: neither the new text,
which the proof of `patch` reads again, nor the component files that `--expose-parameters` makes. ruamel.yaml sets one
value per file; beside `--expose-parameters` it writes those component files too.
Memory: the peak of `patch --check` over a tree of ten times as many files.

scripts/bench patch                  ratios of one run; exit 1 if a limit does not hold
ARC_TOOLKIT_BENCH_CORPUS=DIR         other files than ../shared/corpus
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from io import StringIO
from pathlib import Path
from statistics import median

from arc_toolkit.azureml.azureml_files import AzureMLFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.batch import run
from scripts.benchmarks.common import compose_all, cpu_of_call
from tests.support import CORPUS

# With all settings on.
MOST_OF_COMPOSE = 4.0
# If nothing changes, and if nearly every file does. With --expose-parameters ruamel.yaml does only a part of the work,
# so its row has no limit of its own: pipelines get inputs, bindings and components there.
LEAST_AHEAD_OF_RUAMEL = (20.0, 15.0, 15.0, 0.0)
# Whether it writes component files.
RUAMEL = {"ruamel": False, "ruamel and new files": True}
MOST_GROWTH_MIB = 16
ROUNDS = 15
CASES = {
    "patch --check (rules)": Settings(),
    "patch --check --instance-type --instance-count": Settings(
        instance_type="32cpu128g", instance_count=2
    ),
    "the same with --threads auto": Settings(
        instance_type="32cpu128g", instance_count=2, threads="auto"
    ),
    "and --compute --expose-parameters": Settings(
        instance_type="32cpu128g",
        instance_count=2,
        threads="auto",
        compute="azureml:k8s",
        expose_parameters=True,
    ),
}


# The keys of an inline step that go to its component file.
MOVED = ("command", "code", "environment", "distribution")


def round_trip(paths: list[Path], components: bool) -> None:
    """Load, set one value and dump; if asked, the 38 inline steps of the corpus go to component files, as ours do."""
    from ruamel.yaml import YAML

    for path in paths:
        try:
            editor = YAML()
            data = editor.load(path.read_bytes())
            if isinstance(data, dict):
                data.setdefault("resources", {})["instance_type"] = "32cpu128g"
            if components and isinstance(data, dict) and isinstance(data.get("jobs"), dict):
                for step in data["jobs"].values():
                    if isinstance(step, dict) and "command" in step and "component" not in step:
                        editor.dump(
                            {key: step.pop(key) for key in MOVED if key in step}, StringIO()
                        )
            editor.dump(data, StringIO())
        except Exception:
            continue  # what it cannot read costs it less


def check(corpus: Path, settings: Settings) -> int:
    return sum(
        1
        for outcome in run([str(corpus)], AzureMLFiles(settings), lambda _: None)
        if outcome.result
    )


def peak_mib(folder: Path) -> float:
    """The peak memory of `patch --check` in a process of its own."""
    code = (
        "import resource, sys; from arc_toolkit.cli.main import main;"
        "main(['patch', sys.argv[1], '--instance-type', '32cpu128g', '--check', '--quiet']);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    return float(done.stderr.split()[-1])


def main() -> None:
    corpus = Path(os.environ.get("ARC_TOOLKIT_BENCH_CORPUS", str(CORPUS)))
    if not corpus.is_dir():
        print(f"patch: no corpus at {corpus}")
        return
    paths = sorted(path for path in corpus.rglob("*") if path.suffix in (".yml", ".yaml"))
    for settings in CASES.values():
        check(corpus, settings)
    seconds: dict[str, list[float]] = {name: [] for name in [*CASES, "compose", *RUAMEL]}
    for number in range(ROUNDS):
        seconds["compose"].append(cpu_of_call(lambda: compose_all(paths), rounds=1))
        for name, settings in CASES.items():
            seconds[name].append(cpu_of_call(partial(check, corpus, settings), rounds=1))
        for peer, components in RUAMEL.items() if number % 3 == 0 else ():
            seconds[peer].append(cpu_of_call(partial(round_trip, paths, components), rounds=1))
    print(f"\npatch: {len(paths)} files, median of {ROUNDS} rounds")
    ratios = {}
    for name in CASES:
        ratios[name] = median(
            ours / peer for ours, peer in zip(seconds[name], seconds["compose"], strict=True)
        )
        trips = seconds["ruamel and new files" if CASES[name].expose_parameters else "ruamel"]
        ahead = median(peer / ours for ours, peer in zip(seconds[name][::3], trips, strict=True))
        ratios[name + " ruamel"] = ahead
        ours, read = median(seconds[name]) * 1000, median(seconds["compose"]) * 1000
        print(
            f"  {name:<48} {ours:7.1f} ms   compose: {read:.1f} ms   ratio {ratios[name]:.2f}",
            end="",
        )
        print(
            f"   ruamel.yaml round trip: {median(trips) * 1000:.0f} ms, {ahead:.1f} times as much"
        )
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "1"), Path(folder, "10")
        shutil.copytree(corpus, small, copy_function=shutil.copyfile)
        for number in range(10):
            shutil.copytree(corpus, large / str(number), copy_function=shutil.copyfile)
        one, ten = peak_mib(small), peak_mib(large)
    print(
        f"  peak memory: {one:.1f} MiB for {len(paths)} files, {ten:.1f} MiB for {10 * len(paths)}"
    )
    print(f"  this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    worst = max(ratios[name] for name in CASES)
    missed = []
    if worst > MOST_OF_COMPOSE:
        missed.append(f"{worst:.2f} times compose, and at most {MOST_OF_COMPOSE} is wanted")
    for name, least in zip(CASES, LEAST_AHEAD_OF_RUAMEL, strict=True):
        if (ahead := ratios[f"{name} ruamel"]) < least:
            missed.append(
                f"{name}: {ahead:.1f} times ahead of ruamel.yaml, and at least {least} is wanted"
            )
    if ten - one > MOST_GROWTH_MIB:
        missed.append(f"{ten - one:.1f} MiB more for ten times the files")
    for line in missed:
        print(f"  MISSED: {line}")
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
