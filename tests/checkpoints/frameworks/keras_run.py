"""Keras 3 on JAX with dropout, batch normalization, a metric and a callback with state; epochs have seven steps unless
$BATCH_SIZE says otherwise, $MORE_OPTIONS are for `compile`, and $RATE_FACTOR changes the rate in every epoch. With
$INPUT the input is a generator or arrays, which cannot be positioned: then a step is an epoch."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
import keras
import numpy

from arc_toolkit.checkpoints import Batches, Store
from arc_toolkit.checkpoints.adapters.keras_callback import BatchDataset, KerasCheckpoints

BATCH_SIZE = int(os.environ.get("BATCH_SIZE", "16"))
INPUT = os.environ.get("INPUT", "")
EPOCHS = 12 if INPUT else 42 // -(-100 // BATCH_SIZE)
STEPS = 12 if INPUT else 42


class LossSum(keras.callbacks.Callback):
    """Has a state of its own, which every batch changes."""

    total = 0.0

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self.total += float((logs or {})["loss"])

    def state_dict(self) -> dict[str, float]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.total = state["total"]


def endless(x: Any, y: Any) -> Any:
    """The same five batches in every epoch."""
    while True:
        for number in range(5):
            yield x[number * 20 : number * 20 + 20], y[number * 20 : number * 20 + 20]


def train(store: Store) -> bytes:
    keras.utils.set_random_seed(3)
    options = json.loads(os.environ.get("MORE_OPTIONS", "{}"))
    x, y = numpy.random.rand(100, 8).astype("float32"), numpy.random.rand(100, 1).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(16),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"], **options)
    data = BatchDataset(Batches(100, BATCH_SIZE, seed=5), lambda indices: (x[indices], y[indices]))
    reduce = keras.callbacks.ReduceLROnPlateau(
        monitor="loss", factor=0.5, patience=1, min_delta=1.0
    )
    others: list[keras.callbacks.Callback] = [reduce, losses := LossSum()]
    if factor := float(os.environ.get("RATE_FACTOR", "0")):
        others.append(keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * factor))
    if INPUT:
        checkpoints = KerasCheckpoints(store, every=1, others=others)
    else:
        checkpoints = KerasCheckpoints(store, data, every=3, others=others)
    inputs: dict[str, Any] = {
        "": {"x": data},
        "arrays": {"x": x, "y": y, "batch_size": BATCH_SIZE},
        "generator": {"x": endless(x, y), "steps_per_epoch": 5},
    }
    history = model.fit(
        **inputs[INPUT],
        epochs=EPOCHS,
        callbacks=[checkpoints, *others],
        verbose=0,
        validation_data=(x, y),
        shuffle=False,
    )
    values = [*model.variables, *model.optimizer.variables]
    last = {"total": losses.total, **{name: values[-1] for name, values in history.history.items()}}
    content = b"".join(keras.ops.convert_to_numpy(value).tobytes() for value in values)
    return content + json.dumps(last, default=float).encode()
