"""A Lightning run as in the documentation, which gets SIGTERM from outside.

    python -m tests.checkpoints.frameworks.lightning_sigterm FOLDER WAY

WAY is `train` or `validate`: where it spends its time. It prints `up` after its third batch, or in its validation.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer

from arc_toolkit.checkpoints import Batches, Store
from arc_toolkit.checkpoints.adapters.lightning_callback import LightningCheckpoints
from arc_toolkit.checkpoints.adapters.pytorch import data_loader
from arc_toolkit.notices import watch

IN_VALIDATION = sys.argv[2] == "validate"


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(8, 1)

    def training_step(self, batch: Any, index: int) -> Any:
        if not IN_VALIDATION:
            time.sleep(0.05)
            if index == 3:
                print("up", flush=True)
        return self.net(batch[0]).mean()

    def validation_step(self, batch: Any, index: int) -> None:
        if IN_VALIDATION:
            print("up", flush=True)
            time.sleep(0.2)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


torch.set_num_threads(1)
data = torch.utils.data.TensorDataset(torch.randn(100, 8))
batches = Batches(len(data), 10)
store = Store(sys.argv[1], notices=watch("none", sigterm=True))
checkpoints = LightningCheckpoints(store, every=1000, batches=batches)
trainer = Trainer(
    accelerator="cpu",
    max_epochs=1000,
    num_sanity_val_steps=0,
    callbacks=[checkpoints],
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
checks = torch.utils.data.DataLoader(data, batch_size=10)
trainer.fit(Model(), data_loader(data, batches), checks, ckpt_path=checkpoints.path)
print("finished", flush=True)
