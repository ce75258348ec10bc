"""scikit-learn: a scaler and an SGD classifier that learn batch by batch, with random numbers of NumPy."""

from __future__ import annotations

import numpy
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

from arc_toolkit.checkpoints import Batches, Store
from arc_toolkit.checkpoints.adapters.sklearn_estimator import EstimatorState

STEPS = 60


def train(store: Store) -> bytes:
    numpy.random.seed(2)
    x = numpy.random.rand(200, 6)
    y = (x.sum(axis=1) > 3).astype(int)
    batches = Batches(len(x), 16, seed=5)
    state = EstimatorState(scaler=StandardScaler(), model=SGDClassifier(learning_rate="optimal"))
    state.restore(store)
    for step in store.steps(STEPS, every=4):
        rows, labels = x[batches[step]], y[batches[step]]
        scaled = state.scaler.partial_fit(rows).transform(rows)
        state.model.partial_fit(scaled, labels, classes=[0, 1])
        if store.due(step):
            state.save(store, step)
    return bytes(
        state.model.coef_.tobytes() + state.scaler.mean_.tobytes() + numpy.random.rand(3).tobytes()
    )
