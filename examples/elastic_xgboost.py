"""Boosted trees in XGBoost, trained by any number of processes: a step is one tree. The same file runs under

    python examples/elastic_xgboost.py
    arc-toolkit run -- python examples/elastic_xgboost.py
    arc-toolkit elastic -f examples/elastic_xgboost.py -m 4

Each rank has its share of the rows; XGBoost adds up their histograms. Where features are cut depends on the shares,
so trees of another number of ranks are as good, but not equal to the last bit.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time

import numpy as np
import xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker

from arc_toolkit.checkpoints import Store

TREES = int(sys.argv[1]) if len(sys.argv) > 1 else 100
PAUSE = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
ROWS, COLUMNS = 8000, 10


def connected() -> contextlib.AbstractContextManager[object]:
    """XGBoost's own connection of ranks. The first one starts its tracker, and then tells the others the port."""
    stack = contextlib.ExitStack()
    if WORLD == 1:
        return stack
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if RANK == 0:
        tracker = RabitTracker(host_ip=address[0], n_workers=WORLD)
        tracker.start()
        stack.callback(tracker.free)
        port = int(tracker.worker_args()["dmlc_tracker_port"])
        with socket.create_server(("", address[1]), reuse_port=True) as server:
            server.settimeout(60)
            for _ in range(WORLD - 1):
                with server.accept()[0] as peer:
                    peer.sendall(str(port).encode())
    else:
        port = int(ask(address))
    stack.enter_context(
        collective.CommunicatorContext(
            dmlc_tracker_uri=address[0], dmlc_tracker_port=port, dmlc_task_id=str(RANK)
        )
    )
    return stack


def ask(address: tuple[str, int]) -> str:
    end = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(address, timeout=60) as peer:
                return peer.makefile().read()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def main() -> None:
    random = np.random.default_rng(0)
    data = random.standard_normal((ROWS, COLUMNS))
    label = (np.sin(data[:, 0] * 2) + data[:, 1] * data[:, 2] > 0).astype(int)
    test = slice(ROWS - 2000, ROWS)
    rows = np.arange(ROWS - 2000)[RANK::WORLD]
    store = Store(keep=2)
    checkpoint = store.latest()
    parameters = {
        "objective": "binary:logistic",
        "max_depth": 4,
        "eta": 0.2,
        "nthread": 1,
        "seed": 0,
    }
    with connected():
        part = xgboost.DMatrix(data[rows], label[rows])
        model = xgboost.Booster(parameters, [part])
        if checkpoint:
            model.load_model(checkpoint / "model.ubj")
        for step in store.steps(TREES, every=10):
            model.update(part, step)
            time.sleep(PAUSE)
            if store.due(step):
                with store.save(step) as folder:
                    model.save_model(folder / "model.ubj")
        if RANK == 0:
            right = (model.inplace_predict(data[test]) > 0.5) == label[test]
            print(
                f"accuracy {right.mean():.3f} with {model.num_boosted_rounds()} trees, {WORLD} workers at the end"
            )


if __name__ == "__main__":
    main()
