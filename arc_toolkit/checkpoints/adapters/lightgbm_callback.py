"""LightGBM: the trees so far, and a start from them.

    checkpoints = LightgbmCheckpoints(store, every=10)
    booster = lightgbm.train(
        params, data, num_boost_round=checkpoints.rounds_left(500), init_model=checkpoints.model,
        callbacks=[checkpoints],
    )

LightGBM continues from a model, but not with the random numbers of the run that made it. So every round gets a seed of
its own, from its number. It has the counts of early stopping in the callback only; `others` saves them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from arc_toolkit.checkpoints.store import Store

_NAME, _CALLBACKS = "model.txt", "callbacks.json"
# What early_stopping of LightGBM 4.7 counts.
_COUNTERS = ("best_score", "best_iter", "best_score_list")
_FRACTION, _FREQUENCY = "bagging_fraction", "bagging_freq"
_ALIASES = {
    _FRACTION: (_FRACTION, "sub_row", "subsample", "bagging"),
    _FREQUENCY: (_FREQUENCY, "subsample_freq"),
}
_SEEDS = ("bagging_seed", "feature_fraction_seed", "extra_seed", "drop_seed", "objective_seed")


class LightgbmCheckpoints:
    """A callback, and the `model` to go on from: None in a new run. A step is a round.

    `others` are callbacks whose state is saved too: those of `lightgbm.early_stopping`.
    """

    before_iteration = True

    def __init__(
        self,
        store: Store,
        *,
        every: int | float | str = "auto",
        seed: int = 0,
        others: Sequence[Callable[[Any], None]] = (),
    ) -> None:
        self._store, self._seed, self._others = store, seed, others
        for callback in others:
            if not all(hasattr(callback, name) for name in ("_init", *_COUNTERS)):
                raise TypeError(f"{callback} is not a callback of lightgbm.early_stopping")
        newest = store.latest()
        if newest is not None:
            self._restore_others(newest / _CALLBACKS)
        self.model = str(newest / _NAME) if newest is not None else None
        self._done = newest.step + 1 if newest is not None else 0
        store.begin(every)

    def rounds_left(self, rounds: int) -> int:
        return max(0, rounds - self._done)

    def __call__(self, env: Any) -> None:
        # Called before a round: the one before it is complete, with all other callbacks.
        step = env.iteration - 1
        period = max(1, int(_param(env.params, _FREQUENCY, 0)))
        if step >= self._done and env.iteration % period == 0:  # the rows of several rounds are drawn together
            if self._store.due(step):
                with self._store.save(step) as folder:
                    env.model.save_model(folder / _NAME)
                    states = [{name: getattr(callback, name) for name in _COUNTERS} for callback in self._others]
                    (folder / _CALLBACKS).write_text(json.dumps(states), encoding="utf-8")
            self._store.exit_if_evicted(step)
        if env.iteration % period == 0:
            env.model.reset_parameter(self._new_seeds(env.params, env.iteration, env.iteration // period))

    def _restore_others(self, path: Path) -> None:
        states = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        if len(states) != len(self._others):
            raise ValueError(
                f"{path.parent.name} has the state of {len(states)} callbacks, not {len(self._others)}"
            )
        for callback, state in zip(self._others, states, strict=True):
            _restore_at_start(callback, state)

    def _new_seeds(self, params: dict[str, Any], number: int, draw: int) -> dict[str, Any]:
        parameters: dict[str, Any] = dict.fromkeys(_SEEDS, self._seed + number)
        fraction = float(_param(params, _FRACTION, 1.0))
        if fraction < 1.0:
            # LightGBM uses a new seed for rows only if the fraction is another than before.
            parameters[_FRACTION] = fraction * (1 + 1e-9 * (1 + draw % 2))
        return parameters


def _restore_at_start(callback: Any, state: dict[str, Any]) -> None:
    """Early stopping forgets everything when its first round ends, and counts that round after it."""
    start = callback._init

    def start_and_restore(env: Any) -> None:
        start(env)
        kind = type(env.evaluation_result_list[0])  # a tuple, with names since LightGBM 4.7
        if callback.enabled and state["best_score_list"]:
            callback.best_score, callback.best_iter = state["best_score"], state["best_iter"]
            callback.best_score_list = [[_result(kind, row) for row in rows] for rows in state["best_score_list"]]

    callback._init = start_and_restore


def _result(kind: type, row: list[Any]) -> Any:
    return kind(*row) if hasattr(kind, "_fields") else kind(row)


def _param(params: dict[str, Any], name: str, default: float) -> Any:
    return next((params[alias] for alias in _ALIASES[name] if alias in params), default)
