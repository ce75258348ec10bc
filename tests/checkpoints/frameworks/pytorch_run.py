"""Plain PyTorch with dropout, momentum, a scheduler whose rates are NumPy's, a scaler, and random numbers of Python and
NumPy."""

from __future__ import annotations

import io
import random

import numpy
import torch

from arc_toolkit.checkpoints import Batches, Store
from arc_toolkit.checkpoints.adapters.pytorch import TorchState

STEPS = 60


def train(store: Store) -> bytes:
    torch.set_num_threads(1)
    random.seed(1), numpy.random.seed(2), torch.manual_seed(3)
    x, y = torch.randn(100, 8), torch.randn(100, 1)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: numpy.cos(step / STEPS))
    scaler = torch.amp.GradScaler("cpu")
    average = torch.optim.swa_utils.AveragedModel(model)
    batches = Batches(len(x), 16, seed=5)
    state = TorchState(
        model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, average=average
    )
    state.restore(store)
    for step in store.steps(STEPS, every=4):
        indices = batches[step]
        noise = random.random() + float(numpy.random.random())
        loss = ((model(x[indices]) - y[indices] * noise) ** 2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        average.update_parameters(model)
        if store.due(step):
            if step % 2:
                state.save(store, step, metrics={"loss": loss.item()})
            else:
                state.save_later(store, step)
    store.wait()
    buffer = io.BytesIO()
    torch.save(
        [model.state_dict(), optimizer.state_dict(), average.state_dict(), torch.get_rng_state()],
        buffer,
    )
    return buffer.getvalue()
