"""XGBoost; $MORE_PARAMS may add random rows and columns, $EARLY_STOPPING a number of rounds, $SCHEDULE rates,
$BASE_ROUNDS a model to begin with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy
import xgboost

from arc_toolkit.checkpoints import Store
from arc_toolkit.checkpoints.adapters.xgboost_callback import XgboostCheckpoints

STEPS = 40


def train(store: Store) -> bytes:
    chance = numpy.random.default_rng(1)
    x = chance.random((500, 6))
    y = x[:, 0] * 3 + numpy.sin(x[:, 1] * 9) + chance.random(500)
    params = {
        "max_depth": 3,
        "nthread": 1,
        "eta": 0.1,
        **json.loads(os.environ.get("MORE_PARAMS", "{}")),
    }
    early = (
        [xgboost.callback.EarlyStopping(rounds)]
        if (rounds := int(os.environ.get("EARLY_STOPPING", "0")))
        else []
    )
    others: list[xgboost.callback.TrainingCallback] = [*early]
    if schedule := os.environ.get("SCHEDULE"):
        rates = [0.3 * 0.95**number for number in range(STEPS)]
        rate_of = rates if schedule == "list" else rates.__getitem__
        others.append(xgboost.callback.LearningRateScheduler(rate_of))
    checkpoints = XgboostCheckpoints(store, every=3, others=others)
    model: Any = checkpoints.model
    if model is None and (base := int(os.environ.get("BASE_ROUNDS", "0"))):
        model = xgboost.train(params, xgboost.DMatrix(x[:400], y[:400]), base)
    booster = xgboost.train(
        params,
        xgboost.DMatrix(x[:400], y[:400]),
        num_boost_round=checkpoints.rounds_left(STEPS),
        xgb_model=model,
        evals=[(xgboost.DMatrix(x[400:], y[400:]), "validation")],
        verbose_eval=False,
        callbacks=[*others, checkpoints],
    )
    if early:
        assert booster.num_boosted_rounds() < STEPS, "it should have stopped early"
    rounds_done = numpy.array([booster.num_boosted_rounds()], dtype="float32")
    content: bytes = rounds_done.tobytes() + booster.predict(xgboost.DMatrix(x)).tobytes()
    return content


def compare(whole: Path, parts: Path) -> dict[str, Any]:
    first, second = (
        numpy.frombuffer(path.read_bytes(), dtype="float32") for path in (whole, parts)
    )
    return {"difference": float(abs(first - second).max()), "spread": float(first.std())}
