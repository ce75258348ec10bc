"""A small network in PyTorch, trained by any number of processes. The same file runs under

    python examples/elastic_torch.py
    arc-toolkit run -- python examples/elastic_torch.py
    arc-toolkit elastic -f examples/elastic_torch.py -m 4

Every step has 16 micro-batches. Each rank computes the gradients of its share, and all are added in the same order. So
the result does not depend on how many ranks there were, or how often that changed: it is equal to the last bit.
"""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist

from arc_toolkit.checkpoints import Store

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
PAUSE = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
ROWS, COLUMNS, MICRO_BATCHES, MICRO_BATCH = 4096, 16, 16, 8


def main() -> None:
    torch.set_num_threads(1)  # a sum over threads has no fixed order
    if WORLD > 1:
        dist.init_process_group(
            "gloo"
        )  # finds the others by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    random = torch.Generator().manual_seed(0)
    data = torch.randn(ROWS, COLUMNS, generator=random)
    target = torch.sin(data.sum(dim=1, keepdim=True))
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(COLUMNS, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    parameters = list(model.parameters())
    store = Store(keep=2)
    if checkpoint := store.latest():
        state = torch.load(checkpoint / "state.pt", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    loss = torch.zeros(())
    for step in store.steps(STEPS, every=25):
        rows = torch.randperm(ROWS, generator=torch.Generator().manual_seed(step))
        batches = rows[: MICRO_BATCHES * MICRO_BATCH].split(MICRO_BATCH)
        # One line of gradients per micro-batch; those of other ranks are zero here, so that adding them is exact.
        gradients = torch.zeros(
            MICRO_BATCHES, sum(parameter.numel() for parameter in parameters) + 1
        )
        for number in range(RANK, MICRO_BATCHES, WORLD):
            batch = batches[number]
            loss = torch.nn.functional.mse_loss(model(data[batch]), target[batch]) / MICRO_BATCHES
            parts = torch.autograd.grad(loss, parameters)
            gradients[number] = torch.cat(
                [*(part.flatten() for part in parts), loss.detach().reshape(1)]
            )
        if WORLD > 1:
            dist.all_reduce(gradients)
        *parts, loss = gradients.sum(dim=0).split(
            [*(parameter.numel() for parameter in parameters), 1]
        )
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        optimizer.step()
        time.sleep(PAUSE)
        if store.due(step):
            with store.save(step) as folder:
                torch.save(
                    {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                    folder / "state.pt",
                )
    if RANK == 0:
        weights = torch.cat([parameter.detach().flatten() for parameter in parameters])
        digest = weights.double().numpy().tobytes().hex()[:64]
        print(
            f"weights {digest}, loss {loss.item():.6f} after {STEPS} steps, {WORLD} workers at the end"
        )


if __name__ == "__main__":
    main()
