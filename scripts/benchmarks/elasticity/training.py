"""The script that both train with: PyTorch's DistributedDataParallel, so that a rank that is gone or silent stops all
others; or one that imports nothing and whose ranks do not speak to each other. The step is the same text in all."""

from __future__ import annotations

STEP_SECONDS = 0.05
EVERY = 25  # steps from save to save

_MODEL = {
    "torch": """
model = {wrap}(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
""",
    "plain": "\n",
}
_STEP = {
    "torch": """
optimizer.zero_grad()
model(torch.randn(16, 64)).square().mean().backward()
optimizer.step()
time.sleep({pause})
if rank == 0:
    log.write(f"{{time.time()}} {{step}}\\n")
""",
    "plain": """
time.sleep({pause})
if rank == 0:
    log.write(f"{{time.time()}} {{step}}\\n")
""",
}
_OURS = """
import os, time
{imports}
from arc_toolkit.checkpoints import Store
rank = int(os.environ["RANK"])
{begin}
{model}
store = Store(keep=2)
store.latest()
log = open({log!r}, "a", buffering=1)
for step in store.steps(10**9, every={every}):
{step}
    if store.due(step, samples=16):
        with store.save(step) as folder:
            (folder / "state").write_text(str(step))
"""
_RAY_TRAIN = """
import os, sys, tempfile, time
import ray
{imports}
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig

def loop():
    first, checkpoint = 0, train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(open(os.path.join(folder, "state")).read()) + 1
    rank = train.get_context().get_world_rank()
{model}
    log = open({log!r}, "a", buffering=1)
    for step in range(first, 10**9):
{step}
        if step % {every} == {every} - 1:
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    open(os.path.join(folder, "state"), "w").write(str(step))
                train.report({{"step": step}}, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)

ray.init(address=sys.argv[1], log_to_driver=False, _node_ip_address="127.0.0.1")
Trainer(
    loop,
    {options}
    scaling_config=ScalingConfig(num_workers=(1, 4), resources_per_worker={{"CPU": 1}}),
    run_config=RunConfig(storage_path={storage!r}, name="bench", failure_config=FailureConfig(max_failures=10)),
).fit()
"""


def _indented(text: str, spaces: int) -> str:
    return "\n".join(
        " " * spaces + line if line else line for line in text.strip("\n").splitlines()
    )


def our_script(name: str, log: str) -> str:
    is_torch = name == "torch"
    imports = "import torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel"
    return _OURS.format(
        imports=imports if is_torch else "",
        begin='dist.init_process_group("gloo")' if is_torch else "",
        model=_MODEL[name].format(wrap="DistributedDataParallel"),
        step=_indented(_STEP[name].format(pause=STEP_SECONDS), 4),
        log=log,
        every=EVERY,
    )


def ray_train_script(name: str, log: str, storage: str) -> str:
    is_torch = name == "torch"
    torch = "import torch\nfrom ray.train.torch import TorchConfig, TorchTrainer as Trainer, prepare_model"
    plain = "from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer as Trainer"
    return _RAY_TRAIN.format(
        imports=torch if is_torch else plain,
        model=_indented(_MODEL[name].format(wrap="prepare_model"), 4),
        step=_indented(_STEP[name].format(pause=STEP_SECONDS), 8),
        options='torch_config=TorchConfig(backend="gloo"),' if is_torch else "",
        log=log,
        storage=storage,
        every=EVERY,
    )


# For the overhead: steps of some milliseconds that need a processor all the time, in our loop and in a plain one.
_BUSY = """
import itertools, os, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from arc_toolkit.checkpoints import Store
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0001)
batch = torch.randn(256, 256)

def train_one():
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()

store = Store()
with open({log!r} + ".pid", "w") as stream:
    stream.write(str(os.getpid()))
log = open({log!r}, "a", buffering=1)
steps = store.steps(10**9, every=10**9)
while True:
    began = time.perf_counter()
    for step in range({turn}):
        train_one()
    plain = time.perf_counter()
    for step in itertools.islice(steps, {turn}):
        train_one()
        if store.due(step, samples=256):
            raise SystemExit("no save is due")
    ours = time.perf_counter()
    log.write(f"{{(plain - began) / {turn}}} {{(ours - plain) / {turn}}}\\n")
"""


def busy_script(log: str, turn: int = 10) -> str:
    """It writes the seconds of a step in a plain loop and in ours, a line per turn of so many steps each."""
    return _BUSY.format(log=log, turn=turn)
