"""JAX: a tree of arrays, written and read by Orbax, in a verified store.

tree = restore_tree(store, tree)        # the same tree in a new run
for step in store.steps(total):
    tree = update(tree, jax.random.fold_in(key, step))
    if store.due(step):
        save_tree(store, step, tree)
"""

from __future__ import annotations

from typing import Any

from arc_toolkit.checkpoints.adapters.random_state import restore_random_state, save_random_state
from arc_toolkit.checkpoints.store import Store

_NAME = "tree"


def restore_tree(store: Store, tree: Any) -> Any:
    """The newest valid checkpoint, with types, shapes and devices of `tree`, or `tree` itself."""
    import jax
    from orbax.checkpoint import StandardCheckpointer

    checkpoint = store.latest()
    if checkpoint is None:
        return tree
    shapes = jax.tree.map(_shape, tree)
    with StandardCheckpointer() as checkpointer:
        saved = checkpointer.restore((checkpoint / _NAME).absolute(), shapes)
    restore_random_state(checkpoint.folder)
    return saved


def save_tree(store: Store, step: int, tree: Any, **fields: Any) -> None:
    """`fields` are those of `Store.save`: epoch, metrics, reason."""
    from orbax.checkpoint import StandardCheckpointer

    with store.save(step, **fields) as folder:
        with StandardCheckpointer() as checkpointer:
            checkpointer.save((folder / _NAME).absolute(), tree)
        save_random_state(folder)


def _shape(value: Any) -> Any:
    import jax

    if isinstance(value, jax.Array):
        return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=value.sharding)
    return jax.eval_shape(lambda: value)
