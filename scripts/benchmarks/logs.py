"""Makes a tree of job logs for the benchmarks, and an empty run prints what it would make."""

from __future__ import annotations

import random
from pathlib import Path

SYSTEM = "system_logs/amlarc_cr_bootstrap.log"


def make(
    root: Path, files: int, bytes_per_file: int, nodes: int = 100, retried: float = 0.1, seed: int = 7
) -> int:
    """Jobs with one log each, some retried, a trace line and a plain node line at 2-90 % of each log; the bytes."""
    chance = random.Random(seed)
    filler = [
        f"2026-07-01 10:{number % 60:02d}:{number % 53:02d} + export SETTING_{number}={chance.getrandbits(96):x}\n"
        for number in range(4096)
    ]
    total, made, job = 0, 0, 0
    while made < files:
        tries = 2 if chance.random() < retried and made + 1 < files else 1
        for attempt in range(tries):
            folder = root / f"brave_job_{job:05d}" / "system_logs" / (f"retry-{attempt:03d}" if attempt else "")
            folder.mkdir(parents=True)
            node = f"aks-gpu-12345678-vmss{chance.randrange(nodes):06d}"
            lines, size = [], 0
            while size < bytes_per_file:
                lines.append(filler[chance.randrange(len(filler))])
                size += len(lines[-1])
            at = int(len(lines) * chance.uniform(0.02, 0.9))
            lines[at:at] = [f"++ echo 'Run on node: {node}'\n", f"Run on node: {node}\n"]
            data = "".join(lines).encode()
            (folder / "amlarc_cr_bootstrap.log").write_bytes(data)
            total, made = total + len(data), made + 1
        job += 1
    return total
