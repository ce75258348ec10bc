"""LightGBM: the trees so far, and a start from them.

    checkpoints = LightgbmCheckpoints(store, every=10)
    booster = lightgbm.train(
        params, data, num_boost_round=checkpoints.rounds_left(500), init_model=checkpoints.model,
        callbacks=[checkpoints],
    )

LightGBM continues from a model, but not with the random numbers of the run that made it. So every
round gets a seed of its own, from its number. It has the counts of early stopping and recorded
metrics in the callback only, and counts the rounds of `reset_parameter` from where it started;
`others` saves and shifts them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from arc_toolkit.checkpoints.store import Store

_NAME, _CALLBACKS = "model.txt", "callbacks.json"
# The state of LightGBM 4.7's early_stopping and record_evaluation, reset in their first round.
_STATES = (("best_score", "best_iter", "best_score_list"), ("eval_result",))
_SCHEDULE = "kwargs"  # of reset_parameter: values by round
_FREQUENCY, _BOOSTING, _OBJECTIVE = "bagging_freq", "boosting", "objective"
_FRACTIONS = ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction")
_ALIASES = {
    "bagging_fraction": ("sub_row", "subsample", "bagging"),
    "pos_bagging_fraction": ("pos_sub_row", "pos_subsample", "pos_bagging"),
    "neg_bagging_fraction": ("neg_sub_row", "neg_subsample", "neg_bagging"),
    _FREQUENCY: ("subsample_freq",),
    _BOOSTING: ("boosting_type", "boost"),
    _OBJECTIVE: ("objective_type", "app", "application", "loss"),
}
_FORESTS = ("rf", "random_forest")
# Draws random numbers of its own, from a seed that is read when the objective is made.
_RANDOM_OBJECTIVES = ("rank_xendcg", "xendcg", "xe_ndcg", "xe_ndcg_mart", "xendcg_mart")
_SEEDS = ("bagging_seed", "feature_fraction_seed", "extra_seed", "drop_seed", "objective_seed")


class LightgbmCheckpoints:
    """A callback, and the `model` to go on from: None in a new run. A step is a round.

    `others` are callbacks whose state is saved too: those of `lightgbm.early_stopping`,
    `record_evaluation` and `reset_parameter`.
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
            if not (_state_names(callback) or hasattr(callback, _SCHEDULE)):
                raise TypeError(
                    f"{callback} is not a callback of lightgbm.early_stopping, "
                    "record_evaluation or reset_parameter"
                )
        newest = store.latest()
        self.model = str(newest / _NAME) if newest is not None else None
        self._done = newest.step + 1 if newest is not None else 0
        if newest is not None:
            self._restore_others(newest / _CALLBACKS)
        store.begin(every)

    def rounds_left(self, rounds: int) -> int:
        return max(0, rounds - self._done)

    def __call__(self, env: Any) -> None:
        if _param(env.params, _BOOSTING, "") in _FORESTS:
            raise ValueError(
                "LightGBM cannot go on with a random forest (boosting=rf): "
                "train it without checkpoints"
            )
        # Called before a round: the one before it is complete, with all other callbacks.
        # Without the rounds of a model that the run began with.
        number = self._done + env.iteration - env.begin_iteration
        step = number - 1
        period = max(1, int(_param(env.params, _FREQUENCY, 0)))
        # the rows of several rounds are drawn together
        if step >= self._done and number % period == 0:
            if self._store.due(step):
                with self._store.save(step) as folder:
                    env.model.save_model(folder / _NAME)
                    states = [
                        {name: getattr(item, name) for name in _state_names(item)}
                        for item in self._others
                    ]
                    (folder / _CALLBACKS).write_text(json.dumps(states), encoding="utf-8")
            self._store.exit_if_evicted(step)
        # `dart` forgets the weights of its trees in `reset_parameter`, and then drops all of them.
        if number % period == 0 and _param(env.params, _BOOSTING, "") != "dart":
            env.model.reset_parameter(self._new_seeds(env.params, number, number // period))

    def _restore_others(self, path: Path) -> None:
        states = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        if len(states) != len(self._others):
            raise ValueError(
                f"{path.parent.name} has the state of {len(states)} callbacks, "
                f"not {len(self._others)}"
            )
        for callback, state in zip(self._others, states, strict=True):
            if state:
                _restore_at_start(callback, state)
            else:
                _shift_schedule(callback, self._done)

    def _new_seeds(self, params: dict[str, Any], number: int, draw: int) -> dict[str, Any]:
        parameters: dict[str, Any] = dict.fromkeys(_SEEDS, self._seed + number)
        for name in _FRACTIONS:
            fraction = float(_param(params, name, 1.0))
            if fraction < 1.0:
                # LightGBM uses a new seed for rows only if a fraction is another than before.
                parameters[name] = fraction * (1 + 1e-9 * (1 + draw % 2))
        if (objective := _param(params, _OBJECTIVE, "")) in _RANDOM_OBJECTIVES:
            parameters[_OBJECTIVE] = objective
        return parameters


def _state_names(callback: Any) -> tuple[str, ...]:
    candidates = (
        names for names in _STATES if all(hasattr(callback, name) for name in ("_init", *names))
    )
    return next(candidates, ())


def _restore_at_start(callback: Any, state: dict[str, Any]) -> None:
    """A callback forgets everything when its first round ends, and counts that round after it."""
    start = callback._init

    def start_and_restore(env: Any) -> None:
        start(env)
        if "eval_result" in state:
            callback.eval_result.update(state["eval_result"])
            return
        kind = type(env.evaluation_result_list[0])  # a tuple, with names since LightGBM 4.7
        if callback.enabled and state["best_score_list"]:
            callback.best_score, callback.best_iter = state["best_score"], state["best_iter"]
            callback.best_score_list = [
                [_result(kind, row) for row in rows] for rows in state["best_score_list"]
            ]

    callback._init = start_and_restore


def _shift_schedule(callback: Any, first_round: int) -> None:
    """The values from `first_round` on: LightGBM counts from the round that it starts with."""

    def later(value: Any) -> Any:
        return (
            value[first_round:]
            if isinstance(value, list)
            else lambda number: value(number + first_round)
        )

    callback.kwargs = {name: later(value) for name, value in callback.kwargs.items()}


def _result(kind: type, row: list[Any]) -> Any:
    return kind(*row) if hasattr(kind, "_fields") else kind(row)


def _param(params: dict[str, Any], name: str, default: float | str) -> Any:
    values = (params.get(alias) for alias in (name, *_ALIASES[name]))
    return next((value for value in values if value is not None), default)
