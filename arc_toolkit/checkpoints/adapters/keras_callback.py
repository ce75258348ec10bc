"""Keras 3: all that `fit` needs to resume in the middle of an epoch, restored in place.

    data = BatchDataset(batches, lambda indices: (x[indices], y[indices]))
    checkpoints = KerasCheckpoints(store, data, every="10m")
    model.fit(data, epochs=10, callbacks=[checkpoints, *others])     # first in the list

Keras saves the weights and the optimizer. Its metrics and the random numbers of its layers are
saved beside them.

Any other input (tf.data, a generator, arrays) cannot be positioned: `KerasCheckpoints(store)` saves
and resumes at the end of an epoch, and a step of the store is an epoch.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy

from arc_toolkit.checkpoints.adapters.random_state import restore_random_state, save_random_state
from arc_toolkit.checkpoints.batches import Batches
from arc_toolkit.checkpoints.store import Store

_WEIGHTS, _SEEDS, _METRICS, _CALLBACKS = (
    "model.weights.h5",
    "seeds.npz",
    "metrics.npz",
    "callbacks.json",
)
# What EarlyStopping, ReduceLROnPlateau and ModelCheckpoint of Keras 3.15 count.
_COUNTERS = ("best", "best_epoch", "cooldown_counter", "stopped_epoch", "wait")


class BatchDataset(keras.utils.PyDataset):
    """The batches of a run, made by `examples`. After a restart the first epoch is shorter.

    No workers: with them Keras trains on batches that it read before the epoch began, so that no
    step has its own.
    """

    def __init__(self, batches: Batches, examples: Callable[[list[int]], Any]) -> None:
        super().__init__()
        self.batches, self._examples = batches, examples

    def __len__(self) -> int:
        return self.batches.steps_in_epoch

    def __getitem__(self, index: int) -> Any:
        return self._examples(self.batches[self.batches.start + index])


class KerasCheckpoints(keras.callbacks.Callback):
    """A callback. `others` are callbacks whose state is saved too: EarlyStopping,
    LearningRateScheduler, ReduceLROnPlateau and ModelCheckpoint of Keras, and whatever has
    `state_dict` and `load_state_dict`."""

    def __init__(
        self,
        store: Store,
        data: BatchDataset | None = None,
        *,
        every: int | float | str = "auto",
        others: Sequence[keras.callbacks.Callback] = (),
    ) -> None:
        super().__init__()
        self._store, self._every, self._others = store, every, others
        self._batches = data.batches if data is not None else None
        if data is None:
            store.report_inexact(
                "an interrupted epoch is done again, and the input begins as in a new process"
            )
        self._step = -1  # the last that was trained
        self._logs: dict[str, Any] | None = None  # of that step
        self._epoch_logs: dict[str, Any] | None = None  # of the last epoch, with its validation
        self._rate: float | None = None  # of learning, when the epoch began
        self._folder: Path | None = None  # to restore from, until the first epoch has begun
        self._warnings: warnings.catch_warnings[Any] | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        newest = self._store.latest()
        self._store.begin(self._every)
        if newest is not None:
            self._folder, self._step = newest.folder, newest.step
            self._restore_model(newest.folder)
        # as BackupAndRestore of Keras does
        self.model._initial_epoch = (self._step + 1) // self._steps_per_epoch

    @property
    def _steps_per_epoch(self) -> int:
        return len(self._batches) if self._batches is not None else 1

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._batches is not None:
            self._batches.start = max(epoch * len(self._batches), self._step + 1)
        if self._batches is not None and self._batches.start % len(self._batches):
            # The rest of an interrupted epoch is what Keras takes for missing data.
            self._warnings = warnings.catch_warnings()
            self._warnings.__enter__()
            warnings.filterwarnings("ignore", message="Your input ran out of data")
        if self._folder is not None:
            # Only now: Keras has reset the metrics, and the other callbacks themselves.
            self._restore_progress(self._folder)
            self._folder = None
        else:
            # before a LearningRateScheduler, which comes after this callback
            self._rate = self._learning_rate()
            if self._step >= 0:
                # the epoch before, with validation and all other callbacks
                self._save_if_due(self._epoch_logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._batches is None:
            return
        # With `steps_per_execution` the last number may be beyond the last batch.
        self._step = self._batches.start + min(batch, self._batches.steps_in_epoch - 1)
        self._logs = logs

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Only now have all other callbacks seen the batch before it (on_epoch_begin: the last one).
        if self._batches is None:
            self._store.exit_if_late()
        elif batch:
            self._save_if_due(self._logs)

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._store.exit_if_late()  # the epoch cannot be saved before its validation is done

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch_logs = logs
        if self._batches is None:
            self._step = epoch
        if self._warnings is not None:
            self._warnings.__exit__(None, None, None)
            self._warnings = None

    def _save_if_due(self, logs: dict[str, Any] | None) -> None:
        if self._store.due(self._step):
            metrics = {name: float(value) for name, value in (logs or {}).items()}
            epoch = self._step // self._steps_per_epoch
            with self._store.save(self._step, epoch=epoch, metrics=metrics) as folder:
                self._write(folder)
        self._store.exit_if_evicted(self._step)

    def _write(self, folder: Path) -> None:
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()
        self.model.save_weights(folder / _WEIGHTS)
        _write_values(folder / _SEEDS, self._seeds())
        _write_values(folder / _METRICS, self.model.metrics_variables)
        save_random_state(folder)
        states = [self._state_of(callback) for callback in self._others]
        (folder / _CALLBACKS).write_text(json.dumps(states), encoding="utf-8")

    def _restore_model(self, folder: Path) -> None:
        if self.model.optimizer is not None and not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        self.model.load_weights(folder / _WEIGHTS)
        _read_values(folder / _SEEDS, self._seeds())

    def _restore_progress(self, folder: Path) -> None:
        _read_values(folder / _METRICS, self.model.metrics_variables)
        states = json.loads((folder / _CALLBACKS).read_text(encoding="utf-8"))
        if len(states) != len(self._others):
            raise ValueError(
                f"{folder.name} has the state of {len(states)} callbacks, "
                f"not of {len(self._others)}"
            )
        for callback, state in zip(self._others, states, strict=True):
            self._restore_state(callback, state)
        restore_random_state(folder)

    def _state_of(self, callback: keras.callbacks.Callback) -> dict[str, Any]:
        if hasattr(callback, "state_dict"):
            return dict(callback.state_dict())
        if isinstance(callback, keras.callbacks.LearningRateScheduler):
            return {"rate": self._rate}
        state = {
            name: getattr(callback, name)
            for name in _COUNTERS
            if getattr(callback, name, None) is not None
        }
        return {
            name: value if isinstance(value, int) else float(value) for name, value in state.items()
        }

    def _restore_state(self, callback: keras.callbacks.Callback, state: dict[str, Any]) -> None:
        if hasattr(callback, "load_state_dict"):
            callback.load_state_dict(state)
        elif isinstance(callback, keras.callbacks.LearningRateScheduler):
            # Keras begins the epoch again, and the schedule may go by the rate before.
            self._rate = state["rate"]
            if self._rate is not None:
                self.model.optimizer.learning_rate = self._rate
        else:
            vars(callback).update(state)

    def _learning_rate(self) -> float | None:
        """None if the optimizer has a schedule of its own."""
        rate = getattr(self.model.optimizer, "_learning_rate", None)
        return float(keras.ops.convert_to_numpy(rate)) if isinstance(rate, keras.Variable) else None

    def _seeds(self) -> list[Any]:
        """The random numbers of layers, which `save_weights` leaves out."""
        weights = {id(variable) for variable in self.model.weights}
        return [variable for variable in self.model.variables if id(variable) not in weights]


def _write_values(path: Path, variables: Sequence[Any]) -> None:
    numpy.savez(path, *(keras.ops.convert_to_numpy(variable) for variable in variables))


def _read_values(path: Path, variables: Sequence[Any]) -> None:
    with numpy.load(path) as arrays:
        if len(arrays.files) != len(variables):
            raise ValueError(
                f"{path} has {len(arrays.files)} values, not {len(variables)}: "
                "it is of another model"
            )
        for variable, name in zip(variables, arrays.files, strict=True):
            variable.assign(arrays[name])
