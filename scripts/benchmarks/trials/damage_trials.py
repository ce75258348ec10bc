"""Every kind of damage to every file of a checkpoint, the manifest too: how many of them are found."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

from arc_toolkit.checkpoints import Checkpoint, Store
from arc_toolkit.checkpoints.manifest import read_manifest, verify
from scripts.benchmarks.trials.damages import KINDS

ROOT = Path(__file__).resolve().parents[3]


def missed_damages(folder: Path, trials: int) -> list[str]:
    """The damages that were not found, of so many."""
    chance = random.Random(7)
    store = Store(folder, strict=True)
    with store.save(1) as target:
        with target.stream("weights.bin") as stream:
            stream.write(chance.randbytes(16_000))
        (target / "sub").mkdir()
        (target / "sub" / "momentum.bin").write_bytes(chance.randbytes(16_000))
        (target / "state.json").write_text(json.dumps({"epoch": 3, "best": 0.25}))
    (entry,) = store.listing()
    paths = sorted(path for path in entry.folder.rglob("*") if path.is_file())
    missed = []
    for number in range(trials):
        kind, damage = list(KINDS.items())[number % len(KINDS)]
        path = chance.choice(paths)
        data = path.read_bytes()
        changed = damage(data, chance)
        if changed == data:
            continue
        path.write_bytes(changed)
        checkpoint = read_manifest(entry.folder)
        if isinstance(checkpoint, Checkpoint) and verify(checkpoint) is None:
            missed.append(f"{kind} of {path.name}")
        path.write_bytes(data)
    return missed


def peers(trials: int) -> dict[str, Any]:
    """The counts of `damage_peers`; empty if there is no environment with the frameworks."""
    python = subprocess.run(
        [ROOT / "scripts" / "frameworks"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not python:
        return {}
    done = subprocess.run(
        [python, "-m", "scripts.benchmarks.trials.damage_peers", str(trials)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts
