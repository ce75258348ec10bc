"""The Trainer on a disk that is full until half of the run is over.

    python -m tests.checkpoints.frameworks.transformers_full_disk FOLDER

The last line is JSON: the step of the newest checkpoint, and what the store reported.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from arc_toolkit.checkpoints import Store
from arc_toolkit.checkpoints.adapters.transformers_callback import TrainerCheckpoints
from tests.checkpoints.frameworks.transformers_run import Data

STEPS = 20
LEFT = 1_000_000  # bytes; a checkpoint has about 5 MB


class FreeRoom(TrainerCallback):
    """Delete a large file in the middle of the run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step == STEPS // 2:
            self._path.unlink()


def main(folder: Path) -> dict[str, Any]:
    store = Store(folder / "store", keep=2)
    filler = folder / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(folder).free - LEFT))
    config = BertConfig(
        vocab_size=50,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=8,
    )
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=STEPS,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        logging_strategy="no",
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=arguments,
        train_dataset=Data(),
        callbacks=[FreeRoom(filler), TrainerCheckpoints(store, every=3)],
    )
    trainer.train()
    newest = store.latest()
    return {"step": newest.step if newest else None, "problems": store.problems}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
