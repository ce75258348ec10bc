"""Plain PyTorch: whatever has a `state_dict`, and the random numbers, in one checkpoint.

state = TorchState(model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler)
state.restore(store)
for step in store.steps(total):
    ...
    if store.due(step):
        state.save(store, step)
"""

from __future__ import annotations

import codecs
import io
import json
import sys
from typing import Any

from arc_toolkit.checkpoints.adapters.random_state import (
    random_state,
    restore_random_state,
    save_random_state,
)
from arc_toolkit.checkpoints.batches import Batches
from arc_toolkit.checkpoints.manifest import Checkpoint
from arc_toolkit.checkpoints.store import Store

_NAME = "state.pt"


class TorchState:
    """Models, optimizers, schedulers, scalers: by name, anything with `state_dict`.

    Loading runs no code from the checkpoint. State of other types than tensors, numbers, texts and
    those of NumPy needs `weights_only=False`, which does.
    """

    def __init__(self, *, weights_only: bool = True, **parts: Any) -> None:
        for name, part in parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise TypeError(f"{name} has no state_dict and load_state_dict")
        self._parts, self._weights_only = parts, weights_only

    def restore(self, store: Store) -> Checkpoint | None:
        """Load the newest valid checkpoint into the parts; None if there is none."""
        import torch

        checkpoint = store.latest()
        if checkpoint is None:
            return None
        with torch.serialization.safe_globals(_numpy_types()):
            saved = torch.load(
                checkpoint / _NAME, map_location="cpu", weights_only=self._weights_only
            )
        if saved.keys() != self._parts.keys():
            raise ValueError(
                f"{checkpoint.folder.name} has {', '.join(sorted(saved))}, "
                f"not {', '.join(sorted(self._parts))}"
            )
        for name, part in self._parts.items():
            part.load_state_dict(saved[name])
        restore_random_state(checkpoint.folder)
        return checkpoint

    def save(self, store: Store, step: int, **fields: Any) -> None:
        """`fields` are those of `Store.save`: epoch, metrics, reason."""
        import torch

        with store.save(step, **fields) as folder:
            with folder.stream(_NAME) as stream:
                torch.save(self._states(), stream)
            save_random_state(folder)

    def save_later(self, store: Store, step: int, **fields: Any) -> None:
        """Copy the state to memory now, write it in the background."""
        import torch

        buffer = io.BytesIO()
        torch.save(self._states(), buffer)
        files = {_NAME: buffer.getvalue(), "random.json": json.dumps(random_state()).encode()}
        store.save_later(step, files, **fields)

    def _states(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self._parts.items()}


def _numpy_types() -> list[Any]:
    """What NumPy's numbers and arrays are made from: a function for a scheduler often gives one,
    and the optimizer's state has it then."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return []
    kinds = {type(numpy.dtype(code)) for code in numpy.typecodes["All"]}
    makers = [numpy.float64(0).__reduce__()[0], numpy.zeros(1).__reduce__()[0]]
    return [numpy.dtype, numpy.ndarray, codecs.encode, *makers, *kinds]


def data_loader(data: Any, batches: Batches, **options: Any) -> Any:
    """A DataLoader in the order of `batches`: it draws nothing from PyTorch's random numbers."""
    import torch

    generator = torch.Generator()
    loader: Any = torch.utils.data.DataLoader(
        data, batch_sampler=batches, generator=generator, **options
    )
    # `batches` has the place in the data. Without these Lightning warns that it cannot resume.
    loader.state_dict, loader.load_state_dict = dict, _load_nothing
    return loader


def _load_nothing(state: dict[str, Any]) -> None:
    pass
