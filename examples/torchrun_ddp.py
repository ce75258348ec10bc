"""A script for torchrun, without arc-toolkit: DistributedDataParallel, a snapshot, and SIGTERM. It runs unchanged under

torchrun --standalone --nproc-per-node 2 examples/torchrun_ddp.py snapshot.pt
arc-toolkit elastic -f examples/torchrun_ddp.py -m 4 -- $PWD/snapshot.pt
"""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SNAPSHOT = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
PAUSE = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0


def main() -> None:
    stop = torch.zeros(1)
    signal.signal(signal.SIGTERM, lambda *_: stop.fill_(1))
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = 0
    if os.path.exists(SNAPSHOT):
        state = torch.load(SNAPSHOT, weights_only=True)
        model.module.load_state_dict(state["model"])
        first = state["step"]
    print(f"rank {rank} of {world} starts at step {first}", flush=True)
    for step in range(first, STEPS):
        data = torch.randn(64, 16, generator=torch.Generator().manual_seed(step))[rank::world]
        loss = (model(data) - data.sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(PAUSE)
        stopped = stop.clone()
        dist.all_reduce(stopped)  # all ranks stop after the same step
        if rank == 0 and (stopped.item() or step % 50 == 49):
            torch.save({"model": model.module.state_dict(), "step": step + 1}, f"{SNAPSHOT}.new")
            os.replace(f"{SNAPSHOT}.new", SNAPSHOT)
        if stopped.item():
            sys.exit(143)
    if rank == 0:
        print(f"loss {loss.item():.4f} after {STEPS} steps, {world} workers at the end", flush=True)
    dist.barrier()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
