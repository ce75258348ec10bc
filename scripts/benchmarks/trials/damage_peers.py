"""The same damages to what torch.save, safetensors, numpy.savez and pickle write.

    python -m scripts.benchmarks.trials.damage_peers TRIALS      (with the Python of scripts/frameworks)

Prints JSON: per format how many damages it found, how many it loaded as other values, and how many did no harm.
"""

from __future__ import annotations

import io
import json
import pickle
import random
import resource
import sys
import warnings
from typing import Any

import numpy
import safetensors.numpy
import torch

from scripts.benchmarks.trials.damages import KINDS


def torch_bytes(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save({name: torch.tensor(array) for name, array in arrays.items()}, buffer)
    return buffer.getvalue()


def npz_bytes(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    numpy.savez(buffer, **arrays)
    return buffer.getvalue()


FORMATS = {
    "torch.save, torch.load": (
        torch_bytes,
        lambda data: torch.load(io.BytesIO(data), weights_only=True),
    ),
    "safetensors": (safetensors.numpy.save, safetensors.numpy.load),
    "numpy.savez": (npz_bytes, lambda data: dict(numpy.load(io.BytesIO(data)))),
    "pickle": (pickle.dumps, pickle.loads),
}


def outcome(load: Any, data: bytes, arrays: dict[str, Any]) -> str:
    try:
        loaded = load(data)
        values = {name: numpy.asarray(value) for name, value in loaded.items()}
    except Exception:
        return "found"
    equal = values.keys() == arrays.keys() and all(
        values[name].dtype == array.dtype and numpy.array_equal(values[name], array)
        for name, array in arrays.items()
    )
    return "harmless" if equal else "wrong"


def main(trials: int) -> dict[str, dict[str, int]]:
    warnings.filterwarnings("ignore")
    # A damaged length must not take all memory of the machine.
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    generator = numpy.random.default_rng(1)
    arrays = {"weights": generator.random(2000), "momentum": generator.random(2000)}
    counts = {}
    for name, (dump, load) in FORMATS.items():
        data, chance = dump(arrays), random.Random(7)
        assert outcome(load, data, arrays) == "harmless"
        counts[name] = {"found": 0, "wrong": 0, "harmless": 0}
        for number in range(trials):
            damaged = list(KINDS.values())[number % len(KINDS)](data, chance)
            counts[name][outcome(load, damaged, arrays)] += 1
    return counts


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
