"""The random state of Python, NumPy and PyTorch (CPU and CUDA), as one JSON file.

Only what the process has imported anyway is asked. JAX has no such state: its keys are part of the
user's own.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

_NAME = "random.json"


def save_random_state(folder: Path) -> None:
    (folder / _NAME).write_text(json.dumps(random_state()), encoding="utf-8")


def restore_random_state(folder: Path) -> None:
    """As it was when `folder` was saved; a checkpoint without the file changes nothing."""
    path = folder / _NAME
    if path.is_file():
        set_random_state(json.loads(path.read_text(encoding="utf-8")))


def random_state() -> dict[str, Any]:
    state: dict[str, Any] = {"python": random.getstate()}
    if (numpy := sys.modules.get("numpy")) is not None:
        generator = numpy.random.get_state(legacy=False)
        # The default generator has an array and a number; set_bit_generator allows another kind.
        arrays = {
            name: words.tolist()
            for name, words in generator["state"].items()
            if hasattr(words, "tolist")
        }
        state["numpy"] = {**generator, "state": {**generator["state"], **arrays}}
    if (torch := sys.modules.get("torch")) is not None:
        state["torch"] = torch.get_rng_state().tolist()
        if torch.cuda.is_available():
            state["cuda"] = [device.tolist() for device in torch.cuda.get_rng_state_all()]
    return state


def set_random_state(state: dict[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in state and (numpy := sys.modules.get("numpy")) is not None:
        generator = state["numpy"]
        kind = numpy.uint32 if generator["bit_generator"] == "MT19937" else numpy.uint64
        words = {
            name: numpy.array(value, dtype=kind) if isinstance(value, list) else value
            for name, value in generator["state"].items()
        }
        numpy.random.set_state({**generator, "state": words})
    if "torch" in state and (torch := sys.modules.get("torch")) is not None:
        torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
        devices = state.get("cuda", [])
        # A machine with other GPUs than before goes on with what fits.
        for number, words in enumerate(
            devices[: torch.cuda.device_count()] if torch.cuda.is_available() else []
        ):
            torch.cuda.set_rng_state(torch.tensor(words, dtype=torch.uint8), number)
