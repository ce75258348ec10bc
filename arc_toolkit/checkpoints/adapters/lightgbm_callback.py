"""LightGBM: the trees so far, and a start from them.

    checkpoints = LightgbmCheckpoints(store, every=10)
    booster = lightgbm.train(
        params, data, num_boost_round=checkpoints.rounds_left(500), init_model=checkpoints.model,
        callbacks=[checkpoints],
    )

LightGBM continues from a model, but not with the random numbers of the run that made it. So every round gets a seed of
its own, from its number.
"""

from __future__ import annotations

from typing import Any

from arc_toolkit.checkpoints.store import Store

_NAME = "model.txt"
_FRACTION, _FREQUENCY = "bagging_fraction", "bagging_freq"
_ALIASES = {
    _FRACTION: (_FRACTION, "sub_row", "subsample", "bagging"),
    _FREQUENCY: (_FREQUENCY, "subsample_freq"),
}
_SEEDS = ("bagging_seed", "feature_fraction_seed", "extra_seed", "drop_seed", "objective_seed")


class LightgbmCheckpoints:
    """A callback, and the `model` to go on from: None in a new run. A step is a round."""

    before_iteration = True

    def __init__(self, store: Store, *, every: int | float | str = "auto", seed: int = 0) -> None:
        self._store, self._seed = store, seed
        newest = store.latest()
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
            self._store.exit_if_evicted(step)
        if env.iteration % period == 0:
            env.model.reset_parameter(self._new_seeds(env.params, env.iteration, env.iteration // period))

    def _new_seeds(self, params: dict[str, Any], number: int, draw: int) -> dict[str, Any]:
        parameters: dict[str, Any] = dict.fromkeys(_SEEDS, self._seed + number)
        fraction = float(_param(params, _FRACTION, 1.0))
        if fraction < 1.0:
            # LightGBM uses a new seed for rows only if the fraction is another than before.
            parameters[_FRACTION] = fraction * (1 + 1e-9 * (1 + draw % 2))
        return parameters


def _param(params: dict[str, Any], name: str, default: float) -> Any:
    return next((params[alias] for alias in _ALIASES[name] if alias in params), default)
