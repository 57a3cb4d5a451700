"""One worker of ``bench/overhead.py --alternating``, under torchrun: plain DDP and Pliant's sums in turn, step by step.

What slows the machine for a while slows all of them, so the ratio to DDP's step means something on a busy machine. It has the
training step as the Trainer does it (gradients, control lane, optimizer), without its book-keeping. Prints one line of JSON.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from workload import dataset, make_model, option

from pliant.core.rendezvous.virtual_workers import hosted_counts
from pliant.torch.gradients.tree_sum import TreeSum
from pliant.torch.gradients.unit_tree import hosted_units
from pliant.torch.worlds.world import Peer, World

WARM = 3
BUCKET_BYTES = 8 << 20

torch.set_num_threads(1)
torch.set_deterministic_debug_mode("warn")
torch.utils.deterministic.fill_uninitialized_memory = False
dist.init_process_group("gloo")
rank, workers, units = dist.get_rank(), dist.get_world_size(), option("UNITS", 2)
held = [frozenset(hosted) for hosted in hosted_units(tuple(hosted_counts(units, workers)))]
own = sorted(held[rank])
records = dataset()
x, y = torch.utils.data.default_collate([records[i] for i in range(option("MICRO", 64))])
group = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))


def plain_ddp() -> Callable[[], None]:
    torch.manual_seed(0)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        with model.no_sync():
            for _ in own[:-1]:
                (F.cross_entropy(model(x), y) / len(own)).backward()
        (F.cross_entropy(model(x), y) / len(own)).backward()
        optimizer.step()

    return step


def pliant(total: TreeSum) -> Callable[[], None]:
    torch.manual_seed(0)
    model = make_model()
    params = dict(enumerate(model.parameters()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    world = World(1, rank, [Peer(f"worker-{r}", 0, True, frozenset()) for r in range(workers)], group=group)

    def step() -> None:
        total.begin_step(params)
        total.begin_round(world, held)
        for unit in own:
            total.begin_unit(unit, last=unit == own[-1])
            loss = F.cross_entropy(model(x), y) / units
            total.begin_backward()
            loss.backward()
            total.end_backward()
        lane = torch.zeros(64, dtype=torch.int64)
        world.finish([*total.start(), world.allreduce(lane)])
        total.reduce()
        total.store([1] * len(params))
        optimizer.step()

    return step


def tree(*, shared_memory: bool) -> TreeSum:
    return TreeSum(bucket_bytes=BUCKET_BYTES, units=units, overlap=True, shared_memory=shared_memory)


systems = {
    "plain DDP": plain_ddp(),
    "Pliant": pliant(tree(shared_memory=True)),
    "Pliant, sockets": pliant(tree(shared_memory=False)),
}
seconds: dict[str, list[float]] = {name: [] for name in systems}
for number, (name, step) in itertools.product(range(WARM + option("STEPS", 20)), systems.items()):
    dist.barrier()
    began = time.perf_counter()
    step()
    dist.barrier()
    if number >= WARM:
        seconds[name].append(time.perf_counter() - began)
if rank == 0:
    base = seconds["plain DDP"]
    ratios = {
        name: statistics.median(a / b for a, b in zip(times, base, strict=True)) for name, times in seconds.items()
    }
    print(json.dumps({"seconds": seconds, "ratios": ratios}), flush=True)
dist.destroy_process_group()
