"""transformers: the Trainer's own checkpoints, in a verified store.

    checkpoints = TrainerCheckpoints(store, every="10m")
    trainer = Trainer(..., callbacks=[checkpoints])
    trainer.train(resume_from_checkpoint=checkpoints.path)

The Trainer saves and restores the model, optimizer, scheduler, scaler, random numbers and its place in the data.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from arc_toolkit.checkpoints.store import Store


class TrainerCheckpoints(TrainerCallback):
    """A callback, and the `path` to go on from: None in a new run. Steps are those of the Trainer, from 1 on."""

    def __init__(self, store: Store, *, every: int | float | str = "auto") -> None:
        self._store = store
        self._is_own = False
        newest = store.latest()
        self.path = str(newest.folder) if newest is not None else None
        store.begin(every)

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if args.save_only_model:
            raise ValueError("save_only_model=True leaves out the optimizer: the run could not go on where it was")

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if self._store.due(state.global_step):
            # Else the Trainer saves at this step anyway, and wants to keep the folder.
            self._is_own = not control.should_save
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        step = state.global_step
        if state.is_world_process_zero:
            saved = Path(args.output_dir) / f"checkpoint-{step}"
            with self._store.save(step, epoch=int(state.epoch or 0)) as folder:
                for path in saved.iterdir():
                    _take(path, folder / path.name, move=self._is_own)
            if self._is_own:
                shutil.rmtree(saved, ignore_errors=True)
        self._is_own = False
        self._store.exit_if_evicted(step)


def _take(path: Path, target: Path, *, move: bool) -> None:
    if move:
        shutil.move(path, target)
    elif path.is_dir():
        shutil.copytree(path, target)
    else:
        shutil.copyfile(path, target)
