"""The same worker on torchft: a replica group of one process, with its own store, known to the lighthouse.

torchft keeps the batch of each replica, so a smaller world means a smaller step. A step in flight at a failure is not
committed and therefore not written down. torchft 0.2's own DDP hook asserts that the collective went well, and on gloo
that ends the survivors of a kill: the hook here leaves the failure to the manager, which skips the step.
"""

# no "from __future__ import annotations": DDP compares the annotations of a hook with the types
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo
from workload import dataset, make_model, option

torch.manual_seed(0)
replica, replicas = int(os.environ["REPLICA_GROUP_ID"]), int(os.environ["NUM_REPLICA_GROUPS"])
net = make_model()
sgd = torch.optim.SGD(net.parameters(), lr=0.01)


def state() -> dict[str, object]:
    return {"model": net.state_dict(), "optimizer": sgd.state_dict()}


def restore(saved: dict[str, dict[str, object]]) -> None:
    net.load_state_dict(saved["model"])
    sgd.load_state_dict(saved["optimizer"])


class SurvivingDDP(DistributedDataParallel):
    @staticmethod
    def _comm_hook(manager: Manager, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        manager.allreduce(bucket.buffer()).wait()  # in place; a failure is reported to the manager, not raised
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done


store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
manager = Manager(
    pg=ProcessGroupGloo(timeout=timedelta(seconds=5)),
    load_state_dict=restore,
    state_dict=state,
    min_replica_size=1,
    rank=0,
    world_size=1,
    store_addr="127.0.0.1",
    store_port=store.port,
    hostname="127.0.0.1",
    replica_id=f"replica_{replica}",
)
model = SurvivingDDP(manager, net)
optimizer = Optimizer(manager, sgd)
pause = option("PAUSE_MS", 0) / 1000
per_rank = option("UNITS", 2) // replicas or 1
data = dataset()
micro = option("MICRO", 16)
with open(f"{os.environ['BENCH_OUT']}/replica{replica}.{os.getpid()}", "a", buffering=1) as out:
    while (step := manager.current_step()) < option("STEPS", 100):
        optimizer.zero_grad()  # asks for the quorum of this step
        for unit in range(per_rank):
            first = ((step * replicas + replica) * per_rank + unit) * micro % (len(data) - micro)
            x, y = torch.utils.data.default_collate([data[i] for i in range(first, first + micro)])
            if unit == per_rank - 1:
                (F.cross_entropy(model(x), y) / per_rank).backward()
            else:
                with model.no_sync():
                    (F.cross_entropy(model(x), y) / per_rank).backward()
            if pause:
                time.sleep(pause)
        optimizer.step()
        if manager.current_step() == step + 1 and manager.is_participating():
            out.write(f"{time.time()} {step} {replica} {manager.num_participants()}\n")
