"""The same worker under Ray Train: a script with a group of workers that Ray restarts as a whole.

python ray_training.py N|MIN:MAX STORAGE

On the cluster of ``RAY_ADDRESS``, else on one that it starts.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
import torch.nn.functional as F
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model


def train() -> None:
    sys.path.append(os.environ["BENCH_CLIENTS"])
    from workload import dataset, make_model, option  # Ray sends this function to another process

    torch.manual_seed(0)
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    net = make_model()
    step = 0
    if saved := ray.train.get_checkpoint():
        with saved.as_directory() as folder:
            state = torch.load(f"{folder}/state.pt")
        net.load_state_dict(state["model"])
        step = state["step"]
    model = prepare_model(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pause = option("PAUSE_MS", 0) / 1000
    per_rank = option("UNITS", 2) // world or 1
    data = dataset()
    micro = option("MICRO", 16)
    with open(f"{os.environ['BENCH_OUT']}/rank{rank}.{os.getpid()}", "a", buffering=1) as out:
        while step < option("STEPS", 100):
            optimizer.zero_grad()
            for unit in range(per_rank):
                first = ((step * world + rank) * per_rank + unit) * micro % (len(data) - micro)
                x, y = torch.utils.data.default_collate([data[i] for i in range(first, first + micro)])
                if unit == per_rank - 1:
                    (F.cross_entropy(model(x), y) / per_rank).backward()
                else:
                    with model.no_sync():
                        (F.cross_entropy(model(x), y) / per_rank).backward()
                if pause:
                    time.sleep(pause)
            optimizer.step()
            step += 1
            out.write(f"{time.time()} {step - 1} {rank} {world}\n")
            if step % option("SAVE_EVERY", 30) == 0:  # all workers report, the first one with a checkpoint
                with tempfile.TemporaryDirectory() as folder:
                    if rank == 0:
                        torch.save({"model": net.state_dict(), "step": step}, f"{folder}/state.pt")
                    kept = Checkpoint.from_directory(folder) if rank == 0 else None
                    ray.train.report({"step": step}, checkpoint=kept)


def main() -> None:
    least, _, most = sys.argv[1].partition(":")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    names = ("BENCH_OUT", "BENCH_UNITS", "BENCH_MICRO", "BENCH_STEPS", "BENCH_PAUSE_MS", "OMP_NUM_THREADS")
    env = {name: os.environ[name] for name in names if name in os.environ}
    os.environ |= {"BENCH_CLIENTS": str(Path(__file__).parent), "RAY_USAGE_STATS_ENABLED": "0"}
    with connected({"env_vars": {**env, "BENCH_CLIENTS": os.environ["BENCH_CLIENTS"]}}, int(most or least)):
        TorchTrainer(
            train,
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=(int(least), int(most)) if most else int(least), use_gpu=False),
            run_config=RunConfig(
                storage_path=sys.argv[2],
                failure_config=FailureConfig(max_failures=3),
                checkpoint_config=CheckpointConfig(num_to_keep=2),
            ),
        ).fit()


@contextmanager
def connected(runtime_env: dict[str, Any], workers: int) -> Iterator[None]:
    if address := os.environ.get("RAY_ADDRESS"):
        ray.init(address, runtime_env=runtime_env)
        yield
        ray.shutdown()
        return
    home = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets live there: the path must be short
    token = Path(home) / "token"  # of this cluster alone; otherwise Ray leaves one in ~/.ray
    token.write_text(secrets.token_hex(32))
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    try:
        ray.init(num_cpus=workers + 1, include_dashboard=False, _temp_dir=home, object_store_memory=200 * 2**20)
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
