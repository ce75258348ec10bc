"""The Trainer of transformers with dropout, a scheduler, accumulated gradients, and epochs of seven steps."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

from arc_toolkit.checkpoints import Store
from arc_toolkit.checkpoints.adapters.transformers_callback import TrainerCheckpoints

EPOCHS = 6
STEPS = 7 * EPOCHS
os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")
logging.set_verbosity_error()


class Data(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.rows = torch.randint(0, 50, (112, 6))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.rows[index], "labels": int(self.rows[index].sum() % 2)}


def train(store: Store) -> bytes:
    torch.set_num_threads(1)
    set_seed(3)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
    )
    model = BertForSequenceClassification(config)
    arguments = TrainingArguments(
        output_dir=str(Path(store.root).parent / "trainer"),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        logging_strategy="no",
    )
    checkpoints = TrainerCheckpoints(store, every=3)
    trainer = Trainer(model=model, args=arguments, train_dataset=Data(), callbacks=[checkpoints])
    trainer.train(resume_from_checkpoint=checkpoints.path)
    buffer = io.BytesIO()
    torch.save([model.state_dict(), trainer.optimizer.state_dict(), torch.get_rng_state()], buffer)
    return buffer.getvalue()
