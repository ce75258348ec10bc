"""Verified checkpoints for training code: never half written, never silently damaged.

    from arc_toolkit.checkpoints import Store

    store = Store("outputs/checkpoints", keep=3)
    if checkpoint := store.latest():
        load(checkpoint.folder / "model.bin")
    for step in store.steps(1000, every="10m"):
        train_one(step)
        if store.due(step):
            with store.save(step) as folder:
                save(folder / "model.bin")

Its own trouble, such as a full disk, is reported and does not end the run, unless `strict=True`
asks for that. A store that cannot be read at the start is not an empty one: `latest` waits, and
then ends the process instead of starting at step 0.
"""

from __future__ import annotations

from arc_toolkit.checkpoints.batches import Batches
from arc_toolkit.checkpoints.manifest import Checkpoint, InvalidCheckpoint
from arc_toolkit.checkpoints.store import CheckpointError, Store
from arc_toolkit.checkpoints.unavailable import (
    StoreDamaged,
    StoreUnavailable,
    StoreUnreadable,
    StoreUnusable,
)

__all__ = [
    "Batches",
    "Checkpoint",
    "CheckpointError",
    "InvalidCheckpoint",
    "Store",
    "StoreDamaged",
    "StoreUnavailable",
    "StoreUnreadable",
    "StoreUnusable",
]
