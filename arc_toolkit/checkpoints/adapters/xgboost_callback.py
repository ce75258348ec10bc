"""XGBoost: the trees so far, and a start from them.

    checkpoints = XgboostCheckpoints(store, every=10)
    booster = xgboost.train(
        params, data, num_boost_round=checkpoints.rounds_left(500), xgb_model=checkpoints.model,
        callbacks=[checkpoints],
    )

XGBoost continues from a model, but not with the random numbers of the run that made it. So every round gets a seed of
its own, from its number.
"""

from __future__ import annotations

from typing import Any

from xgboost.callback import TrainingCallback

from arc_toolkit.checkpoints.store import Store

_NAME = "model.ubj"


class XgboostCheckpoints(TrainingCallback):
    """A callback, and the `model` to go on from: None in a new run. A step is a round."""

    def __init__(self, store: Store, *, every: int | float | str = "auto", seed: int = 0) -> None:
        super().__init__()
        self._store, self._seed = store, seed
        newest = store.latest()
        self.model = str(newest / _NAME) if newest is not None else None
        self._done = newest.step + 1 if newest is not None else 0
        store.begin(every)

    def rounds_left(self, rounds: int) -> int:
        return max(0, rounds - self._done)

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """`epoch` begins with 0 again after a restart; the trees in the model do not."""
        model.set_param("seed", self._seed + model.num_boosted_rounds())
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        step = model.num_boosted_rounds() - 1
        if self._store.due(step):
            with self._store.save(step) as folder:
                model.save_model(folder / _NAME)
        self._store.exit_if_evicted(step)
        return False
