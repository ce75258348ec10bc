"""What each framework's own way to resume does when its newest checkpoint was cut in half, or one byte of it changed.

    python -m tests.checkpoints.frameworks.damage FOLDER

Every case saves two checkpoints, damages the newest and resumes as the framework's documentation says. The answer is
`crash`, `wrong` (it resumes with other values than were saved), `previous`, or `whole`. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
import numpy

from arc_toolkit.checkpoints import Store
from arc_toolkit.checkpoints.adapters.pytorch import TorchState

warnings.filterwarnings("ignore")
# Not round, so that a changed byte of any of them changes what is read: the old and the new state.
OLD, NEW = numpy.linspace(0.1, 0.9, 40_000), numpy.linspace(1.1, 1.9, 40_000)


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip(path: Path, needle: bytes) -> None:
    """Change a bit of the value whose bytes are `needle`."""
    content = bytearray(path.read_bytes())
    assert needle in content, "the value is not found in the file"
    place = content.rindex(needle) + 2
    content[place] ^= 0x10
    path.write_bytes(content)


def change_digit(path: Path, key: bytes) -> None:
    """Change the first decimal of the first number after `key`."""
    content = bytearray(path.read_bytes())
    assert key in content, "the value is not found in the file"
    place = content.index(b".", content.index(key)) + 1
    content[place] = ord("7") if content[place] != ord("7") else ord("3")
    path.write_bytes(content)


def verdict(values: Any, old: Any, new: Any) -> str:
    values = numpy.asarray(values, dtype=numpy.float64)
    if numpy.array_equal(values, new):
        return "whole"
    return "previous" if numpy.array_equal(values, old) else "wrong"


def from_torch(folder: Path, damage: str) -> str:
    import torch

    path = folder / "x.pt"
    torch.save({"weights": torch.tensor(NEW)}, path)
    cut(path) if damage == "cut" else flip(path, NEW[20_000].tobytes())
    return verdict(torch.load(path)["weights"], OLD, NEW)


def from_safetensors(folder: Path, damage: str) -> str:
    from safetensors.numpy import load_file, save_file

    path = folder / "x.safetensors"
    save_file({"weights": NEW}, path)
    cut(path) if damage == "cut" else flip(path, NEW[20_000].tobytes())
    return verdict(load_file(path)["weights"], OLD, NEW)


def from_pickle(folder: Path, damage: str) -> str:
    path = folder / "x.pickle"
    path.write_bytes(pickle.dumps(NEW))
    cut(path) if damage == "cut" else flip(path, NEW[20_000].tobytes())
    return verdict(pickle.loads(path.read_bytes()), OLD, NEW)


def from_lightning(folder: Path, damage: str) -> str:
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Model(LightningModule):
        def __init__(self, values: Any) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(torch.tensor(values))

        def training_step(self, batch: Any, index: int) -> Any:
            return self.weights.sum() * 0

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def trainer(epochs: int) -> Trainer:
        saves = ModelCheckpoint(folder, save_last=True, save_top_k=-1)
        return Trainer(
            accelerator="cpu", max_epochs=epochs, logger=False, callbacks=[saves], enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=folder,
        )  # fmt: skip

    data = torch.utils.data.DataLoader(torch.zeros(4, 1))
    trainer(1).fit(Model(NEW), data)
    path = folder / "last.ckpt"
    cut(path) if damage == "cut" else flip(path, NEW[20_000].tobytes())
    model = Model(OLD)
    trainer(2).fit(model, data, ckpt_path="last")
    return verdict(model.weights.detach(), OLD, NEW)


def from_keras(folder: Path, damage: str) -> str:
    import keras

    new, old = NEW.astype("float32"), OLD.astype("float32")

    class Weights(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.values = self.add_weight(shape=(len(NEW),), name="values")

        def call(self, x: Any) -> Any:
            return x + keras.ops.sum(self.values) * 0

    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                raise KeyboardInterrupt

    def model(values: Any) -> Any:
        made = keras.Sequential([keras.Input((1,)), Weights()])
        made.layers[0].values.assign(values)
        made.compile(optimizer=keras.optimizers.SGD(0.0), loss="mse")
        return made

    x = numpy.zeros((4, 1), dtype="float32")
    backup = keras.callbacks.BackupAndRestore(folder)
    with suppress(KeyboardInterrupt):
        model(new).fit(x, x, epochs=2, verbose=0, callbacks=[backup, Stop()])
    path = folder / "latest.weights.h5"
    cut(path) if damage == "cut" else flip(path, new[20_000].tobytes())
    resumed = model(old)
    backup = keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)
    resumed.fit(x, x, epochs=2, verbose=0, callbacks=[backup])
    return verdict(keras.ops.convert_to_numpy(resumed.layers[0].values), old, new)


def from_transformers(folder: Path, damage: str) -> str:
    import torch
    from transformers import BertConfig, BertModel
    from transformers.trainer_utils import get_last_checkpoint
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    torch.manual_seed(1)
    models = [BertModel(config), BertModel(config)]
    for number, model in enumerate(models):
        model.save_pretrained(folder / f"checkpoint-{number + 1}")
    old, new = (model.embeddings.word_embeddings.weight.detach().numpy() for model in models)
    path = folder / "checkpoint-2" / "model.safetensors"
    cut(path) if damage == "cut" else flip(path, new[20].tobytes()[:16])
    loaded = BertModel.from_pretrained(get_last_checkpoint(folder))
    return verdict(loaded.embeddings.word_embeddings.weight.detach().numpy(), old, new)


def from_orbax(folder: Path, damage: str) -> str:
    import orbax.checkpoint as orbax

    chance = numpy.random.default_rng(
        1
    )  # Orbax compresses: only what cannot be compressed is found again
    old, new = (chance.integers(0, 2**32, 40_000, dtype=numpy.uint32) for _ in range(2))
    with orbax.CheckpointManager(folder.absolute()) as manager:
        for step, values in enumerate((old, new)):
            manager.save(step, args=orbax.args.StandardSave({"weights": values}))
    largest = max(
        (folder / "1").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else -1
    )
    cut(largest) if damage == "cut" else flip(largest, new[20_000].tobytes())
    with orbax.CheckpointManager(folder.absolute()) as manager:
        tree = manager.restore(
            manager.latest_step(), args=orbax.args.StandardRestore({"weights": new})
        )
    return verdict(tree["weights"], old, new)


def boosted(make: Callable[[int], Any], path: Path, damage: str, resume: Callable[[], Any]) -> str:
    old, new = make(1)[1], make(2)[1]
    booster, _ = make(2)
    booster.save_model(path)
    cut(path) if damage == "cut" else change_digit(path, b"leaf_value=")
    return verdict(resume(), old, new)


def from_lightgbm(folder: Path, damage: str) -> str:
    import lightgbm

    x = numpy.random.default_rng(1).random((500, 3))
    y = x.sum(axis=1)
    params = {"verbosity": -1, "num_threads": 1}

    def make(rounds: int) -> Any:
        booster = lightgbm.train(params, lightgbm.Dataset(x, y), rounds)
        return booster, booster.predict(x)

    def resume() -> Any:
        return lightgbm.train(
            params, lightgbm.Dataset(x, y), 1, init_model=folder / "m.txt"
        ).predict(x, num_iteration=2)

    return boosted(make, folder / "m.txt", damage, resume)


def from_xgboost(folder: Path, damage: str) -> str:
    import xgboost

    x = numpy.random.default_rng(1).random((500, 3))
    data = xgboost.DMatrix(x, x.sum(axis=1))
    path = folder / "m.json"

    def predict(booster: Any) -> Any:
        return booster.predict(data, iteration_range=(0, 2))

    booster = xgboost.train({"nthread": 1}, data, 2)
    new = predict(booster)
    booster.save_model(path)
    if damage == "cut":
        cut(path)
    else:
        change_digit(path, b'"split_conditions":[')
    return verdict(predict(xgboost.train({"nthread": 1}, data, 1, xgb_model=path)), new * 0, new)


def from_store(folder: Path, damage: str) -> str:
    import torch

    store = Store(folder / "store", report=lambda text: None)
    holder = torch.nn.Module()
    holder.register_buffer("weights", torch.tensor(OLD))
    state = TorchState(holder=holder)
    state.save(store, 1)
    holder.weights = torch.tensor(NEW)
    state.save(store, 2)
    path = next((folder / "store").glob("step-000000000002-*")) / "state.pt"
    cut(path) if damage == "cut" else flip(path, NEW[20_000].tobytes())
    state.restore(Store(folder / "store", report=lambda text: None))
    return verdict(holder.weights, OLD, NEW)


CASES: dict[str, Callable[[Path, str], str]] = {
    "torch.load": from_torch,
    "safetensors": from_safetensors,
    "Lightning, ckpt_path=last": from_lightning,
    "Keras BackupAndRestore": from_keras,
    "transformers get_last_checkpoint": from_transformers,
    "Orbax CheckpointManager": from_orbax,
    "LightGBM init_model": from_lightgbm,
    "XGBoost xgb_model": from_xgboost,
    "pickle": from_pickle,
    "this store": from_store,
}


def answer(case: Callable[[Path, str], str], folder: Path, damage: str) -> str:
    """In a process of its own, because some crash harder than with an exception."""
    folder.mkdir(parents=True)
    result = folder / "answer.txt"
    if pid := os.fork():
        os.waitpid(pid, 0)
        return result.read_text() if result.is_file() else "crash"
    try:
        result.write_text(case(folder, damage))
    except AssertionError as error:
        result.write_text(f"not tried: {error}")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    rows = {
        name: [answer(case, root / f"{number}-{damage}", damage) for damage in ("cut", "flip")]
        for number, (name, case) in enumerate(CASES.items())
    }
    print(json.dumps(rows))
