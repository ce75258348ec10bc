"""How long a run stalls when workers come and go, `elastic` against Ray Train on the same script, and what it costs
while nothing happens.

scripts/bench elastic                    ratios of one run; exit 1 if a limit does not hold (25 minutes)
ARC_TOOLKIT_BENCH_ROUNDS=1               for a quick look (5 by default)
ARC_TOOLKIT_BENCH_RAY_ROUNDS=1           fewer rounds of Ray Train, which take 8 minutes each (as many by default)
ARC_TOOLKIT_BENCH_RAY_AT_ONCE=1          one cluster of Ray Train at a time (3 by default: it mostly waits)
ARC_TOOLKIT_BENCH_SCRIPTS=plain,torch    the script without PyTorch, too (torch by default)
ARC_TOOLKIT_BENCH_PARTS=overhead         only this part (stalls,overhead by default)

Every round has namespaces of its own, with which all of its processes end, and the Python of scripts/frameworks. The
nodes are real Ray nodes on this machine, so a stall has no network in it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from scripts.benchmarks.elasticity.training import EVERY

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = int(os.environ.get("ARC_TOOLKIT_BENCH_ROUNDS", "5"))
RAY_ROUNDS = int(os.environ.get("ARC_TOOLKIT_BENCH_RAY_ROUNDS", ROUNDS))
RAY_AT_ONCE = int(os.environ.get("ARC_TOOLKIT_BENCH_RAY_AT_ONCE", "3"))
SCRIPTS = os.environ.get("ARC_TOOLKIT_BENCH_SCRIPTS", "torch").split(",")
PARTS = os.environ.get("ARC_TOOLKIT_BENCH_PARTS", "stalls,overhead").split(",")
# Seconds of stall that may pass (median), and how many times less than Ray Train's it must be.
LIMITS = {"growing": 2.0, "notice": 1.5, "killed": 2.0, "silent": 4.0}
LEAST_RATIO = 15.0
LEAST_THROUGHPUT = 0.99
_TURNS = 150  # of overhead, per round

Result = dict[str, Any]


def main(words: list[str]) -> int:
    if words:
        return _inside(*words)
    rows = _overhead() if "overhead" in PARTS else []
    for script in SCRIPTS if "stalls" in PARTS else ():
        rows += _stalls(script)
    print()
    for holds, text in rows:
        print(f"{'holds ' if holds else 'FAILED'} {text}")
    return 0 if all(holds for holds, _ in rows) else 1


# --- a round, in namespaces of its own -----------------------------------------------------------------------


def _inside(part: str, folder: str, argument: str) -> int:
    from scripts.benchmarks.elasticity import overhead, stalls

    path = Path(folder)
    if part == "overhead":
        result: Any = overhead.overhead(path, int(argument))
    else:
        result = (stalls.ours if part == "ours" else stalls.ray_train)(path, argument)
    print(json.dumps(result), flush=True)
    os._exit(0)  # what is left ends with the namespace


def _start(
    python: str, part: str, argument: str
) -> tuple[subprocess.Popen[str], tempfile.TemporaryDirectory[str]]:
    shell = 'ip link set lo up && exec "$@"'
    words = [
        "unshare",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        shell,
        "_",
    ]
    home = tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)
    environment = {
        **os.environ,
        "HOME": home.name,
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_MODE": "disabled",
        "RAY_TRAIN_V2_ENABLED": "1",
        "RAY_TMPDIR": home.name,
        "TMPDIR": home.name,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    command = [*words, python, "-m", "scripts.benchmarks.elastic", part, home.name, argument]
    return subprocess.Popen(
        command, cwd=home.name, env=environment, stdout=subprocess.PIPE, text=True
    ), home


def _results(part: str, arguments: list[str]) -> list[Result]:
    """Of rounds that run at the same time."""
    python = subprocess.run(
        [ROOT / "scripts" / "frameworks"], capture_output=True, text=True, check=True
    ).stdout
    rounds = [_start(python.strip(), part, argument) for argument in arguments]
    results = []
    for process, home in rounds:
        text = process.communicate()[0]
        home.cleanup()
        if process.returncode != 0:
            raise SystemExit(f"a round of {part} failed with {process.returncode}")
        results.append(json.loads(text.splitlines()[-1]))
    return results


# --- the figures ---------------------------------------------------------------------------------------------


def _overhead() -> list[tuple[bool, str]]:
    (result,) = _results("overhead", [str(ROUNDS * _TURNS)])
    throughput = result["throughput"]
    print(
        f"\nnothing happens, steps of {result['step_milliseconds']:.1f} ms: the rank has {result['rank']:.4f} of its "
        f"speed without us (standard error {result['error']:.4f}), and {result['share']:.2%} of a core goes to the "
        f"agent and to Ray's work for it"
    )
    return [
        (
            throughput >= LEAST_THROUGHPUT,
            f"nothing happens: {throughput:.4f} of the throughput without us on one core (limit {LEAST_THROUGHPUT})",
        )
    ]


def _stalls(script: str) -> list[tuple[bool, str]]:
    mine: list[Result] = []
    theirs: list[Result] = []
    for number in range(ROUNDS):
        mine += _results("ours", [script])
        _say(script, number, "elastic", mine[-1])
        count = min(RAY_AT_ONCE, RAY_ROUNDS - len(theirs))
        if count > 0 and len(theirs) <= number * RAY_ROUNDS // ROUNDS:
            theirs += _results("ray", [script] * count)
            for result in theirs[-count:]:
                _say(script, number, "Ray Train", result)
    rows = []
    print(
        f"\nscript with {script}: median and worst stall of {len(mine)} rounds, and of {len(theirs)} of Ray Train"
    )
    for name, limit in LIMITS.items():
        stalls, redone = [row[name][0] for row in mine], max(row[name][1] for row in mine)
        median, most = statistics.median(stalls), 0 if name in ("notice", "growing") else EVERY
        text = f"  {name:<8} {median:5.2f} s, worst {max(stalls):5.2f} s, at most {redone:2d} steps done again"
        rows.append((median <= limit, f"{script}, {name}: {median:.2f} s (limit {limit} s)"))
        rows.append((redone <= most, f"{script}, {name}: {redone} steps done again (limit {most})"))
        if theirs:
            others = [row[name][0] for row in theirs]
            ratio = statistics.median(others) / median
            again = max(row[name][1] for row in theirs)
            text += f"   Ray Train {statistics.median(others):5.1f} s, worst {max(others):5.1f} s, {again:2d} steps"
            text += f"   ratio {ratio:.0f}"
            rows.append(
                (
                    ratio >= LEAST_RATIO,
                    f"{script}, {name}: Ray Train takes {ratio:.0f} times as long (limit 15)",
                )
            )
        print(text)
    return rows


def _say(script: str, number: int, who: str, result: Result) -> None:
    stalls = ", ".join(
        f"{name} {seconds:.2f} s ({redone})" for name, (seconds, redone) in result.items()
    )
    sys.stderr.write(f"{script}, round {number + 1}, {who}: {stalls}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
