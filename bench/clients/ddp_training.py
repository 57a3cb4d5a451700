"""The same worker as an ordinary DDP script for torchrun, with a checkpoint of its own every so many steps."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from workload import dataset, make_model, option

torch.manual_seed(0)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(make_model())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
saved = f"{os.environ['BENCH_OUT']}/../checkpoint.pt"
step = 0
if os.path.exists(saved):
    state = torch.load(saved)
    model.module.load_state_dict(state["model"])
    step = state["step"]
pause = option("PAUSE_MS", 0) / 1000
each, surplus = divmod(option("UNITS", 2), world)
per_rank = max(1, each + (rank < surplus))
data = dataset()
micro = option("MICRO", 16)
with open(f"{os.environ['BENCH_OUT']}/rank{rank}.{os.getpid()}", "a", buffering=1) as out:
    while step < option("STEPS", 100):
        optimizer.zero_grad()
        for unit in range(per_rank):
            first = ((step * world + rank) * (each + 1) + unit) * micro % (len(data) - micro)
            x, y = torch.utils.data.default_collate([data[i] for i in range(first, first + micro)])
            last = unit == per_rank - 1
            if last:
                (F.cross_entropy(model(x), y) / per_rank).backward()
            else:
                with model.no_sync():
                    (F.cross_entropy(model(x), y) / per_rank).backward()
            if pause:
                time.sleep(pause)
        optimizer.step()
        step += 1
        out.write(f"{time.time()} {step - 1} {rank} {world}\n")
        if rank == 0 and step % option("SAVE_EVERY", 30) == 0:
            torch.save({"model": model.module.state_dict(), "step": step}, saved + ".new")
            os.replace(saved + ".new", saved)
