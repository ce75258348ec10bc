"""LightGBM's dart with and without the callback, which must not change what is trained.

    python -m tests.checkpoints.frameworks.lightgbm_dart FOLDER

The last line is JSON: the largest difference of the predictions, and that which another `drop_rate` makes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy

from arc_toolkit.checkpoints import Store
from arc_toolkit.checkpoints.adapters.lightgbm_callback import LightgbmCheckpoints


def predictions(drop_rate: float, callbacks: list[Any]) -> Any:
    chance = numpy.random.default_rng(1)
    x = chance.random((500, 6))
    y = x[:, 0] * 3 + numpy.sin(x[:, 1] * 9) + chance.random(500)
    params = {
        "boosting": "dart",
        "drop_rate": drop_rate,
        "num_leaves": 7,
        "deterministic": True,
        "num_threads": 1,
    }
    params |= {"force_row_wise": True, "verbosity": -1}
    return lightgbm.train(params, lightgbm.Dataset(x, y), 40, callbacks=callbacks).predict(x)


if __name__ == "__main__":
    plain, other = predictions(0.1, []), predictions(0.5, [])
    checked = predictions(0.1, [LightgbmCheckpoints(Store(Path(sys.argv[1]) / "store"), every=10)])
    print(
        json.dumps(
            {"callback": float(abs(plain - checked).max()), "rate": float(abs(plain - other).max())}
        )
    )
