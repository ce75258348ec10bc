"""Lightning: its own checkpoint file, in a verified store, at any step.

    checkpoints = LightningCheckpoints(store, every="10m", batches=batches)
    trainer = Trainer(callbacks=[checkpoints])
    trainer.fit(model, data_loader(data, batches), ckpt_path=checkpoints.path)

Lightning saves and restores the model, optimizers, schedulers, loops and the state of every
callback. Here are added: the random numbers, the place in the data, and the end after an eviction
notice.

Lightning's own handler of SIGTERM raises an exception at the next batch that ends the process with
0, which Kubernetes takes for a finished job. It is replaced: SIGTERM is a notice like any other, so
that a save comes first and the exit code is 143.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from arc_toolkit.checkpoints.adapters.random_state import random_state, set_random_state
from arc_toolkit.checkpoints.batches import Batches
from arc_toolkit.checkpoints.store import Store
from arc_toolkit.notices.notice import EVICTED_EXIT_CODE
from arc_toolkit.notices.sources.sigterm import GRACE_SECONDS

# The same library under its older name.
if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning.callbacks import Checkpoint as _Base
else:
    from lightning.pytorch.callbacks import Checkpoint as _Base

_NAME = "lightning.ckpt"


class LightningCheckpoints(_Base):
    """A callback, and the `path` to go on from: None in a new run."""

    def __init__(
        self, store: Store, *, every: int | float | str = "auto", batches: Batches | None = None
    ) -> None:
        super().__init__()
        self._store, self._batches = store, batches
        self._random: dict[str, Any] | None = None
        newest = store.latest()
        self.path = str(newest / _NAME) if newest is not None else None
        self._next = 0  # the next step as `batches` count them
        self._launcher: Any = None
        if batches is None:
            store.report_inexact("an interrupted epoch begins again with its first batch")
        store.begin(every)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        # Lightning registers this method right after the hook.
        trainer._signal_connector._sigterm_notifier_fn = self._handle_sigterm
        self._launcher = trainer.strategy.launcher

    def _handle_sigterm(self, number: int, frame: FrameType | None) -> None:
        if self._store.notice is None:
            if self._launcher is not None:  # processes of other ranks that this one has started
                self._launcher.kill(number)
            self._store.announce(GRACE_SECONDS)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        # Another version of Lightning, whose handler has another name.
        if type(exception).__name__ == "SIGTERMException" and isinstance(exception, SystemExit):
            exception.code = EVICTED_EXIT_CODE

    def on_validation_batch_end(self, *words: Any, **options: Any) -> None:
        # Lightning would leave out the validation after a restart from here.
        self._store.exit_if_late()

    def state_dict(self) -> dict[str, Any]:
        """What Lightning saves for this callback."""
        return {"random": random_state(), "next": self._next}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._random = state_dict["random"]
        if self._batches is not None:
            self._batches.start = state_dict["next"]

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        # Not earlier: making the loaders and the sanity check of validation draw random numbers.
        if self._random is not None:
            set_random_state(self._random)
            self._random = None

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # What follows this batch is not done again after a restart: schedulers and validation.
        # Gradients that wait for more batches are not saved.
        loop = trainer.fit_loop.epoch_loop
        if not (
            loop.batch_progress.is_last_batch
            or loop._should_accumulate()
            or loop._should_check_val_fx(trainer.fit_loop._data_fetcher)
        ):
            self._save_if_due(trainer, trainer.current_epoch, batch_idx + 1)
        else:
            self._store.exit_if_late()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        # Schedulers that look at a metric come after this.
        if not any(config.reduce_on_plateau for config in trainer.lr_scheduler_configs):
            self._save_if_due(trainer, trainer.current_epoch + 1, 0)

    def _save_if_due(self, trainer: Any, next_epoch: int, next_batch: int) -> None:
        step = trainer.fit_loop.epoch_loop.total_batch_idx
        if self._batches is not None:
            self._next = next_epoch * len(self._batches) + next_batch
        if trainer.strategy.broadcast(self._store.due(step)):
            with self._saving(trainer, step) as folder:
                # Every rank takes part, because its strategy may want to write a part of its own.
                trainer.save_checkpoint(trainer.strategy.broadcast(folder) / _NAME)
        is_over = False
        try:
            self._store.exit_if_evicted(step)
        except SystemExit:
            is_over = True
        if trainer.strategy.broadcast(is_over):
            raise SystemExit(EVICTED_EXIT_CODE)
        self._store.exit_if_late()

    def _saving(self, trainer: Any, step: int) -> AbstractContextManager[Path]:
        if not trainer.is_global_zero:
            return nullcontext(Path())
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        return self._store.save(step, epoch=trainer.current_epoch, metrics=metrics)
