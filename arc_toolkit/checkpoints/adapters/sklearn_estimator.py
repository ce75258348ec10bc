"""scikit-learn: an estimator that learns with `partial_fit`, and the random numbers.

state = EstimatorState(model=SGDClassifier(random_state=0))
state.restore(store)
for step in store.steps(total):
    state.model.partial_fit(x[batches[step]], y[batches[step]], classes=classes)
    if store.due(step):
        state.save(store, step)
"""

from __future__ import annotations

import pickle
from typing import Any

from arc_toolkit.checkpoints.adapters.random_state import restore_random_state, save_random_state
from arc_toolkit.checkpoints.manifest import Checkpoint
from arc_toolkit.checkpoints.store import Store

_NAME = "estimators.pickle"


class EstimatorState:
    """Estimators, scalers, pipelines: by name, anything that scikit-learn saves with pickle.

    They are attributes, because `restore` puts the saved objects into their place. Loading a pickle
    runs code: only from a folder that others cannot write to, and with the version of scikit-learn
    that saved it (the manifest has it).
    """

    def __init__(self, **parts: Any) -> None:
        self._names = tuple(parts)
        vars(self).update(parts)

    def __getattr__(self, name: str) -> Any:  # for type checkers: the parts are set in __init__
        raise AttributeError(name)

    def restore(self, store: Store) -> Checkpoint | None:
        """Load the newest valid checkpoint; None if there is none."""
        checkpoint = store.latest()
        if checkpoint is None:
            return None
        saved = pickle.loads((checkpoint / _NAME).read_bytes())  # noqa: S301  (see above)
        if saved.keys() != set(self._names):
            raise ValueError(
                f"{checkpoint.folder.name} has {', '.join(sorted(saved))}, "
                f"not {', '.join(sorted(self._names))}"
            )
        vars(self).update(saved)
        restore_random_state(checkpoint.folder)
        return checkpoint

    def save(self, store: Store, step: int, **fields: Any) -> None:
        """`fields` are those of `Store.save`: epoch, metrics, reason."""
        with store.save(step, **fields) as folder:
            with folder.stream(_NAME) as stream:
                pickle.dump({name: getattr(self, name) for name in self._names}, stream, protocol=5)
            save_random_state(folder)
