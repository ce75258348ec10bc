"""`diagnose` against ripgrep on 10,000 generated logs (1 GB): CPU, memory, two processes; and verdicts at scale.

scripts/bench diagnose         ratios of one run; exit 1 if a limit does not hold
ARC_TOOLKIT_BENCH_FILES=1000   fewer files, for a quick look
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from arc_toolkit.diagnosis.causes import UNKNOWN
from arc_toolkit.diagnosis.judge.verdicts import judge
from arc_toolkit.diagnosis.model import Attempt, RunOutcome
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from scripts.benchmarks.common import cpu_of_call, cpu_of_command, report

FILES = int(os.environ.get("ARC_TOOLKIT_BENCH_FILES", "10000"))
BYTES_PER_FILE = 104_000
MOST_CPU = 5.0  # times ripgrep's, which searches for one literal
MEMORY_FILES = int(os.environ.get("ARC_TOOLKIT_BENCH_FILES", "50000"))
MOST_BYTES_PER_ATTEMPT = 1500
MOST_VERDICT_SECONDS = 3.0


START = "bootstrap starts at Wed Jul  1 10:00:00 UTC 2026\n"
_WORDS = (
    *(
        "loss",
        "accuracy",
        "step",
        "epoch",
        "worker",
        "rank",
        "torch.distributed",
        "Uploading",
        "metrics",
        "history",
    ),
    *(
        "Started",
        "finished",
        "dataset",
        "URI",
        "USER",
        "UTC",
        "conda",
        "activate",
        "warning",
        "deprecated",
    ),
    *(
        "Kubernetes",
        "job",
        "node",
        "failed",
        "optimizer",
        "tokenizer",
        "POD",
        "RUN",
        "juju",
        "Just",
    ),
)


def _line(number: int, chance: random.Random) -> str:
    """A line as AzureML's logs have them: log records, traces of a shell, tracebacks, requests, progress bars."""
    time = f"2026-07-01T10:{number // 60 % 60:02d}:{number % 60:02d}.{chance.randrange(10**6):06d}Z"
    word = chance.choice(_WORDS)
    shapes = (
        lambda: f"{time} INFO azureml.{word}: {' '.join(chance.choices(_WORDS, k=12))}",
        lambda: (
            f"{time} INFO {word}.launch: {' '.join(chance.choices(_WORDS, k=6))} {chance.random():.6f}"
        ),
        lambda: (
            f"Epoch {number}: {number % 100:3d}%|{'#' * (number % 20):20}| {number}/500 [00:12<00:34, 12.3it/s]\r"
        ),
        lambda: f"{time} + export AZUREML_{word.upper()}_{number}={chance.getrandbits(96):x}",
        lambda: (
            f'  File "/opt/conda/lib/python3.10/site-packages/{word}/main.py", line {number}, in {word}'
        ),
        lambda: (
            f'{time} DEBUG urllib3: "PUT /ExperimentRun/dcid.{chance.getrandbits(64):x}/logs HTTP/1.1" 201 0'
        ),
        lambda: (
            f"Requirement already satisfied: {word}>={number % 9}.0 in /opt/conda/lib (line {number % 99})"
        ),
        lambda: (
            f"worker-0:{number}:9 [{number % 8}] NCCL INFO Channel {number % 32:02d}/0 : 0[0] -> 1[1] via P2P/IPC"
        ),
        lambda: (
            f"+ export NVIDIA_VISIBLE_DEVICES=GPU-{chance.getrandbits(128):x} NVIDIA_DRIVER_CAPABILITIES=compute"
        ),
        lambda: (
            f"| NVIDIA-SMI 535.{number % 99}    Driver Version: 535.{number % 99}    CUDA Version: 12.2     |"
        ),
        lambda: (
            f"CUDA out of memory. Tried to allocate {number % 99}.00 MiB. GPU {number % 8} has 79.15 GiB in total"
        ),
    )
    return chance.choice(shapes)() + "\n"


# How a log may end: what AzureML, NVIDIA's driver, CUDA, NVML and NCCL write.
ENDS = (
    'AzureML Kubernetes job failed. 137:PodPattern matched: {"containers":[{"name":"execution-wrapper","code":137}]}\n',
    "[ 812.55] NVRM: Xid (PCI:0000:0b:00): 79, pid=4242, GPU has fallen off the bus.\n",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    "Failed to initialize NVML: Unknown Error\n",
    "Unable to determine the device handle for GPU0000:0B:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
    "RuntimeError: No CUDA GPUs are available\n",
    "RuntimeError: CUDA error: no CUDA-capable device is detected\n",
    "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n",
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized\n",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n",
)


def make_logs(
    root: Path, files: int, retried: float = 0.1, seed: int = 7, size: int = BYTES_PER_FILE
) -> int:
    """Jobs with a log each, some retried; their size in bytes.

    Every log has a trace line and a plain node line at 2-90 % of its length; half of them start with a date and ids,
    and a tenth ends with an error that the scanner looks for.
    """
    chance = random.Random(seed)
    filler = [_line(number, chance) for number in range(4096)]
    total, made, job = 0, 0, 0
    while made < files:
        tries = 2 if chance.random() < retried and made + 1 < files else 1
        for attempt in range(tries):
            folder = (
                root
                / f"brave_job_{job:05d}"
                / "system_logs"
                / (f"retry-{attempt:03d}" if attempt else "")
            )
            folder.mkdir(parents=True)
            name = f"aks-gpu-12345678-vmss{chance.randrange(100):06d}"
            lines = chance.choices(filler, k=size * len(filler) // sum(map(len, filler)))
            at = int(len(lines) * chance.uniform(0.02, 0.9))
            lines[at:at] = [f"++ echo 'Run on node: {name}'\n", f"Run on node: {name}\n"]
            if chance.random() < 0.5:
                lines[:0] = [
                    START,
                    f"+ export AZUREML_RUN_ID=brave_job_{job:05d} POD_UID={chance.getrandbits(96):x}\n",
                ]
            if chance.random() < 0.1:
                lines.append(chance.choice(ENDS))
            data = "".join(lines).encode()
            (folder / "amlarc_cr_bootstrap.log").write_bytes(data)
            total, made = total + len(data), made + 1
        job += 1
    return total


def peer(root: Path) -> tuple[str, list[str]]:
    """ripgrep on one thread (the cheapest in CPU), or grep where it is absent."""
    beside = Path(sys.executable).with_name("rg")
    rg = str(beside) if beside.exists() else shutil.which("rg")
    if rg:
        return "rg -F", [rg, "-uuu", "-j1", "-F", "Run on node:", str(root)]
    return "grep -rF", ["grep", "-rF", "Run on node:", str(root)]


def command(root: Path, jobs: int) -> list[str]:
    return [sys.executable, "-m", "arc_toolkit", "diagnose", str(root), "--jobs", str(jobs)]


def wall(words: list[str], rounds: int = 3) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best


def peak_memory(words: list[str]) -> int:
    """The most bytes of the process itself, by its own account at its end."""
    code = (
        "import sys; from arc_toolkit.cli.main import main; main(sys.argv[1:]);"
        "print('peak', next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words[3:]], check=True, capture_output=True, text=True
    )
    return int(done.stdout.rsplit("peak ", 1)[1]) * 1024


def make_attempts(count: int, nodes: int) -> list[Attempt]:
    chance = random.Random(11)
    names = [f"aks-pool{number % 20}-12345678-vmss{number:06d}" for number in range(nodes)]
    made = []
    for job in range(count):
        number = chance.randrange(nodes)
        failed = chance.random() < (0.35 if number % 500 == 0 else 0.03)
        outcome, cause = (RunOutcome.FAILED, UNKNOWN) if failed else (RunOutcome.SUCCEEDED, None)
        made.append(
            Attempt(
                f"j{job}", 0, names[number], pool=f"pool{number % 20}", outcome=outcome, cause=cause
            )
        )
    return made


def main() -> int:
    misses = []
    with tempfile.TemporaryDirectory(prefix="arc-toolkit-bench-") as folder:
        root = Path(folder) / "logs"
        size = make_logs(root, FILES)
        # Bytecode is kept, as it is for an installed package.
        os.environ.update(PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=f"{folder}/bytecode")
        name, words = peer(root)
        single = Path(folder) / "single"
        make_logs(single, 1, size=1000)
        # In turns, so that all meet the same noise; the best of each counts. The time for one log is start-up.
        commands = (words, peer(single)[1], command(root, 1), command(single, 1))
        best = [float("inf")] * len(commands)
        for _ in range(7):
            best = [
                min(seconds, cpu_of_command(each, rounds=1))
                for seconds, each in zip(best, commands, strict=True)
            ]
        theirs, ours = best[0] - best[1], best[2] - best[3]
        report(
            f"CPU, {FILES} logs, {size / 1e9:.2f} GB, with the walk, without start-up",
            [("arc-toolkit diagnose --jobs 1", ours, theirs, name)],
        )
        if ours > MOST_CPU * theirs:
            misses.append(f"CPU {ours / theirs:.2f} times {name}, limit {MOST_CPU}")
        one, two = wall(command(root, 1)), wall(command(root, 2))
        report("Wall clock", [("--jobs 2", two, one, "--jobs 1")])
        many = Path(folder) / "many"
        make_logs(many, MEMORY_FILES, size=1000)
        memory = peak_memory(command(many, 1)) - peak_memory(command(single, 1))
        print(
            f"\nMemory, {MEMORY_FILES} logs: {memory / MEMORY_FILES:.0f} bytes per attempt"
            f" (limit {MOST_BYTES_PER_ATTEMPT})"
        )
        if memory > MOST_BYTES_PER_ATTEMPT * MEMORY_FILES:
            misses.append(
                f"memory {memory / MEMORY_FILES:.0f} bytes per attempt, limit {MOST_BYTES_PER_ATTEMPT}"
            )
    attempts = make_attempts(100_000, 5_000)
    seconds = cpu_of_call(lambda: judge(attempts, ClusterIndex()))
    print(
        f"\nVerdicts, 100,000 attempts over 5,000 nodes: {seconds:.2f} s CPU (limit {MOST_VERDICT_SECONDS:.0f})"
    )
    if seconds > MOST_VERDICT_SECONDS:
        misses.append(f"verdicts {seconds:.2f} s")
    print("\n" + ("\n".join(f"FAILED {miss}" for miss in misses) or "All limits hold."))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
