"""LightGBM with bagging and random features; $MORE_PARAMS may add others, $EARLY_STOPPING a number of rounds."""

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
    rounds = int(os.environ.get("EARLY_STOPPING", "0"))
    early = [lightgbm.early_stopping(rounds, verbose=False)] if rounds else []
    checkpoints = LightgbmCheckpoints(store, every=3, others=early)
    data = lightgbm.Dataset(x[:400], y[:400], free_raw_data=False)
    booster = lightgbm.train(
        params,
        data,
        num_boost_round=checkpoints.rounds_left(STEPS),
        valid_sets=[lightgbm.Dataset(x[400:], y[400:], reference=data, free_raw_data=False)],
        init_model=checkpoints.model,
        callbacks=[checkpoints, *early],
    )
    done = [booster.current_iteration(), booster.best_iteration if early else 0]
    content: bytes = numpy.array(done, dtype="float64").tobytes() + booster.predict(x, num_iteration=-1).tobytes()
    return content


def compare(whole: Path, parts: Path) -> dict[str, Any]:
    first, second = (numpy.frombuffer(path.read_bytes()) for path in (whole, parts))
    return {"difference": float(abs(first - second).max()), "spread": float(first.std())}
