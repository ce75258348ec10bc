"""transformers: the Trainer's own checkpoints, in a verified store.

    checkpoints = TrainerCheckpoints(store, every="10m")
    trainer = Trainer(..., callbacks=[checkpoints])
    trainer.train(resume_from_checkpoint=checkpoints.path)

The Trainer saves and restores the model, optimizer, scheduler, scaler, random numbers and its place
in the data.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from arc_toolkit.checkpoints.store import Store

_MARGIN = 1.1
# the tokenizer, the scheduler, the random numbers, the Trainer's own state
_SMALL_FILES = 4 * 1024 * 1024


class TrainerCheckpoints(TrainerCallback):
    """A callback, and the `path` to resume from: None in a new run. Steps begin at 1."""

    def __init__(self, store: Store, *, every: int | float | str = "auto") -> None:
        self._store = store
        self._is_own = False
        self._size = 0  # of the last checkpoint
        newest = store.latest()
        self.path = str(newest.folder) if newest is not None else None
        store.begin(every)

    def on_train_begin(self, args: Any, state: Any, control: Any, **context: Any) -> None:
        if args.save_only_model:
            raise ValueError(
                "save_only_model=True leaves out the optimizer: "
                "the run could not go on where it was"
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **context: Any) -> None:
        if not self._store.due(state.global_step):
            return
        # the Trainer saves at this step anyway, and wants to keep the folder
        if control.should_save:
            return
        if self._has_room(args.output_dir, context):
            self._is_own = control.should_save = True
            return
        # an error in the Trainer's own save would end the run
        with self._store.save(state.global_step):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), args.output_dir)

    def _has_room(self, folder: str, context: dict[str, Any]) -> bool:
        """Whether the disk has room for one more checkpoint, by the last one or its parts."""
        needed = self._size or _state_bytes(context.get("model"), context.get("optimizer"))
        try:
            os.makedirs(folder, exist_ok=True)
            return shutil.disk_usage(folder).free > needed * _MARGIN + _SMALL_FILES
        except OSError:
            return False

    def on_save(self, args: Any, state: Any, control: Any, **context: Any) -> None:
        step = state.global_step
        if state.is_world_process_zero:
            saved = Path(args.output_dir) / f"checkpoint-{step}"
            self._size = sum(path.stat().st_size for path in saved.rglob("*") if path.is_file())
            with self._store.save(step, epoch=int(state.epoch or 0)) as folder:
                for path in saved.iterdir():
                    _take(path, folder / path.name, move=self._is_own)
            if self._is_own:
                shutil.rmtree(saved, ignore_errors=True)
        self._is_own = False
        self._store.exit_if_evicted(step)


def _state_bytes(model: Any, optimizer: Any) -> int:
    """Of the parameters, and of what the optimizer keeps of each of them."""
    states = (
        optimizer.state.values() if optimizer is not None and hasattr(optimizer, "state") else ()
    )
    tensors = [
        value for state in states for value in state.values() if hasattr(value, "element_size")
    ]
    tensors += list(model.parameters()) if model is not None else []
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _take(path: Path, target: Path, *, move: bool) -> None:
    if move:
        shutil.move(path, target)
    elif path.is_dir():
        shutil.copytree(path, target)
    else:
        shutil.copyfile(path, target)
