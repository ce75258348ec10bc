"""XGBoost: the trees so far, and a start from them.

    checkpoints = XgboostCheckpoints(store, every=10)
    booster = xgboost.train(
        params, data, num_boost_round=checkpoints.rounds_left(500), xgb_model=checkpoints.model,
        callbacks=[checkpoints],
    )

XGBoost continues from a model, but not with the random numbers of the run that made it. So every
round gets a seed of its own, from its number, and with random rows or columns also a new updater:
until 3.3 the updater draws the columns with an engine of its own, whose seed is taken from those of
the first round (src/common/random.h, MakeColumnSampler). The counts of early stopping are in the
callback only, and a schedule of learning rates counts from where it started; `others` saves and
shifts them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xgboost
from xgboost.callback import LearningRateScheduler, TrainingCallback

from arc_toolkit.checkpoints.store import Store

_NAME, _CALLBACKS = "model.ubj", "callbacks.json"
# What EarlyStopping of XGBoost 3.2 counts.
_COUNTERS = ("best_scores", "current_rounds", "stopping_history")
_HAS_COLUMN_ENGINE = tuple(int(part) for part in xgboost.__version__.split(".")[:2]) < (3, 3)
_SHARES = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")


class XgboostCheckpoints(TrainingCallback):
    """A callback, and the `model` to go on from: None in a new run. A step is a round.

    `others` are callbacks whose state is saved too: EarlyStopping and LearningRateScheduler. They
    come before this one in the list.
    """

    def __init__(
        self,
        store: Store,
        *,
        every: int | float | str = "auto",
        seed: int = 0,
        others: Sequence[TrainingCallback] = (),
    ) -> None:
        super().__init__()
        self._store, self._seed, self._others = store, seed, others
        newest = store.latest()
        self._folder: Path | None = newest.folder if newest is not None else None
        self.model = str(newest / _NAME) if newest is not None else None
        self._done = newest.step + 1 if newest is not None else 0
        self._base = 0  # rounds of a model that the run began with
        # of trees, if the updater has to be made anew in every round
        self._method: str | None = None
        store.begin(every)

    def rounds_left(self, rounds: int) -> int:
        return max(0, rounds - self._done)

    def before_training(self, model: Any) -> Any:
        if self._folder is not None and (path := self._folder / _CALLBACKS).is_file():
            states = json.loads(path.read_text(encoding="utf-8"))
            if len(states) != len(self._others):
                raise ValueError(
                    f"{path.parent.name} has the state of {len(states)} callbacks, "
                    f"not {len(self._others)}"
                )
            for callback, state in zip(self._others, states, strict=True):
                if isinstance(callback, LearningRateScheduler):
                    _shift_schedule(callback, self._done, model)
                else:
                    vars(callback).update(state)
        self._method = _method_of_random_trees(model) if _HAS_COLUMN_ENGINE else None
        self._base = model.num_boosted_rounds() - self._done
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """`epoch` begins with 0 again after a restart; the trees in the model do not."""
        if self._method is not None:
            model.set_param("tree_method", "hist" if self._method == "approx" else "approx")
            model.save_config()  # configures the model, so that the updater is another one
            model.set_param("tree_method", self._method)
        model.set_param("seed", self._seed + model.num_boosted_rounds())
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        step = model.num_boosted_rounds() - self._base - 1
        if self._store.due(step):
            with self._store.save(step) as folder:
                model.save_model(folder / _NAME)
                states = [
                    {name: vars(callback).get(name) for name in _COUNTERS}
                    for callback in self._others
                ]
                (folder / _CALLBACKS).write_text(json.dumps(states), encoding="utf-8")
        self._store.exit_if_evicted(step)
        return False


def _shift_schedule(scheduler: LearningRateScheduler, first_round: int, model: Any) -> None:
    """The rates from `first_round` on, each set after a round: XGBoost counts from its first."""
    rates = scheduler.learning_rates
    scheduler.learning_rates = lambda number: rates(number + first_round)
    model.set_param("learning_rate", rates(first_round - 1))


def _method_of_random_trees(model: Any) -> str | None:
    """The `tree_method`, if rows or columns are random."""
    booster = json.loads(model.save_config())["learner"]["gradient_booster"]
    booster = booster.get("gbtree", booster)  # dart has one inside
    shares = booster.get("tree_train_param", {})
    if all(float(shares.get(name, 1)) == 1 for name in _SHARES):
        return None
    method: str = booster["gbtree_train_param"]["tree_method"]
    return method
