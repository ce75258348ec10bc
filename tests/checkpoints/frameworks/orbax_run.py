"""JAX: weights, momentum and a count, trained with noise from a key of each step."""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "cpu"
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from arc_toolkit.checkpoints import Batches, Store
from arc_toolkit.checkpoints.adapters.orbax_tree import restore_tree, save_tree

STEPS = 40


def train(store: Store) -> bytes:
    rows = numpy.random.default_rng(1).random((100, 8), dtype="float32")
    targets = rows.sum(axis=1, keepdims=True)
    key = jax.random.key(3)
    tree: Any = {
        "weights": jax.random.normal(key, (8, 1)),
        "momentum": jnp.zeros((8, 1)),
        "count": jnp.int32(0),
    }
    batches = Batches(len(rows), 16, seed=5)

    @jax.jit
    def update(tree: Any, x: Any, y: Any, key: Any) -> Any:
        noise = jax.random.normal(key, y.shape) * 0.1
        gradient = jax.grad(lambda weights: ((x @ weights - y + noise) ** 2).mean())(
            tree["weights"]
        )
        momentum = 0.9 * tree["momentum"] + gradient
        return {
            "weights": tree["weights"] - 0.01 * momentum,
            "momentum": momentum,
            "count": tree["count"] + 1,
        }

    tree = restore_tree(store, tree)
    for step in store.steps(STEPS, every=4):
        tree = update(
            tree, rows[batches[step]], targets[batches[step]], jax.random.fold_in(key, step)
        )
        if store.due(step):
            save_tree(store, step, tree)
    return b"".join(numpy.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree))
