"""LightGBM with bagging and random features; $MORE_PARAMS may add others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import lightgbm
import numpy

from arc_toolkit.checkpoints import Store
from arc_toolkit.checkpoints.adapters.lightgbm_callback import LightgbmCheckpoints

STEPS = 40


def train(store: Store) -> bytes:
    chance = numpy.random.default_rng(1)
    x = chance.random((500, 6))
    y = x[:, 0] * 3 + numpy.sin(x[:, 1] * 9) + chance.random(500)
    params = {
        "objective": "regression",
        "num_leaves": 7,
        "learning_rate": 0.1,
        "bagging_fraction": 0.6,
        "bagging_freq": 1,
        "feature_fraction": 0.7,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
        **json.loads(os.environ.get("MORE_PARAMS", "{}")),
    }
    checkpoints = LightgbmCheckpoints(store, every=3)
    booster = lightgbm.train(
        params,
        lightgbm.Dataset(x, y, free_raw_data=False),
        num_boost_round=checkpoints.rounds_left(STEPS),
        init_model=checkpoints.model,
        callbacks=[checkpoints],
    )
    content: bytes = booster.predict(x).tobytes()
    return content


def compare(whole: Path, parts: Path) -> dict[str, Any]:
    first, second = (numpy.frombuffer(path.read_bytes()) for path in (whole, parts))
    return {"difference": float(abs(first - second).max()), "spread": float(first.std())}
