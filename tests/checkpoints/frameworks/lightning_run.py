"""Lightning with dropout, a scheduler, validation, and another callback with state; epochs have seven steps unless
$BATCH_SIZE says otherwise, and $MORE_OPTIONS are for the Trainer."""

from __future__ import annotations

import io
import json
import logging
import os
import random
import warnings
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from arc_toolkit.checkpoints import Batches, Store
from arc_toolkit.checkpoints.adapters.lightning_callback import LightningCheckpoints
from arc_toolkit.checkpoints.adapters.pytorch import data_loader

BATCH_SIZE = int(os.environ.get("BATCH_SIZE", "16"))
EPOCHS = 42 // -(-100 // BATCH_SIZE)
STEPS = 42
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
warnings.filterwarnings("error", message=".*dataloader is not resumable")


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
        )

    def training_step(self, batch: Any, index: int) -> Any:
        x, y = batch
        loss = ((self.net(x) - y * random.random()) ** 2).mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("score", self.net(batch[0]).mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.8)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"},
        }


class Counter(Callback):
    """A callback of the user with state."""

    def __init__(self) -> None:
        self.steps = self.epochs = 0

    def on_train_batch_end(self, *args: Any) -> None:
        self.steps += 1

    def on_train_epoch_end(self, *args: Any) -> None:
        self.epochs += 1

    def state_dict(self) -> dict[str, int]:
        return {"steps": self.steps, "epochs": self.epochs}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.steps, self.epochs = state["steps"], state["epochs"]


def train(store: Store) -> bytes:
    torch.set_num_threads(1)
    random.seed(1), torch.manual_seed(3)
    data = torch.utils.data.TensorDataset(torch.randn(100, 8), torch.randn(100, 1))
    batches = Batches(len(data), BATCH_SIZE, seed=5)
    checkpoints, counter = LightningCheckpoints(store, every=3, batches=batches), Counter()
    model = Model()
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=EPOCHS,
        callbacks=[checkpoints, counter],
        logger=False,
        enable_checkpointing=True,
        enable_progress_bar=False,
        enable_model_summary=False,
        **json.loads(os.environ.get("MORE_OPTIONS", "{}")),
    )
    checks = torch.utils.data.DataLoader(data, batch_size=50, generator=torch.Generator())
    trainer.fit(model, data_loader(data, batches), checks, ckpt_path=checkpoints.path)
    buffer = io.BytesIO()
    torch.save(
        [
            model.state_dict(),
            trainer.optimizers[0].state_dict(),
            counter.state_dict(),
            torch.get_rng_state(),
        ],
        buffer,
    )
    return buffer.getvalue()
