"""LightGBM with bagging and random features; $MORE_PARAMS may add others, $EARLY_STOPPING a number of rounds, $SCHEDULE
learning rates, $BASE_ROUNDS a model to begin with."""

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
    scores: dict[str, Any] = {}
    others = [*early, lightgbm.record_evaluation(scores)]
    if schedule := os.environ.get("SCHEDULE"):
        rates = [0.2 * 0.95**number for number in range(STEPS)]
        others.append(
            lightgbm.reset_parameter(
                learning_rate=rates if schedule == "list" else rates.__getitem__
            )
        )
    if params["objective"] == "binary":
        y = y > y.mean()
    groups: tuple[Any, Any] = (None, None)
    if params["objective"] == "rank_xendcg":
        y, groups = y.astype(int), ([50] * 8, [50] * 2)
    checkpoints = LightgbmCheckpoints(store, every=3, others=others)
    data = lightgbm.Dataset(x[:400], y[:400], group=groups[0], free_raw_data=False)
    model: Any = checkpoints.model
    if model is None and (base := int(os.environ.get("BASE_ROUNDS", "0"))):
        model = lightgbm.train(
            params, lightgbm.Dataset(x[:400], y[:400], free_raw_data=False), base
        )
    booster = lightgbm.train(
        params,
        data,
        num_boost_round=checkpoints.rounds_left(STEPS),
        valid_sets=[
            lightgbm.Dataset(x[400:], y[400:], group=groups[1], reference=data, free_raw_data=False)
        ],
        init_model=model,
        callbacks=[checkpoints, *others],
    )
    history = [
        value for scores_of in scores.values() for values in scores_of.values() for value in values
    ]
    done = [booster.current_iteration(), booster.best_iteration if early else 0, *history]
    content: bytes = (
        numpy.array(done, dtype="float64").tobytes()
        + booster.predict(x, num_iteration=-1).tobytes()
    )
    return content


def compare(whole: Path, parts: Path) -> dict[str, Any]:
    first, second = (numpy.frombuffer(path.read_bytes()) for path in (whole, parts))
    return {"difference": float(abs(first - second).max()), "spread": float(first.std())}
