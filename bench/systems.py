"""The systems whose training the benches compare: how each is installed, and the one command that starts a job of it.

Pliant and torchrun are those of this environment. Every other one lives in an environment of its own, and always with
this torch: a plain ``torch`` among the packages would bring the newest one, with all of CUDA.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import Peer, peer_environment

CLIENTS = Path(__file__).resolve().parent / "clients"
TORCH = "torch==2.13.0"
BENCH = tuple(f"BENCH_{name}" for name in ("OUT", "UNITS", "MICRO", "STEPS", "PAUSE_MS"))

Command = Callable[[Path, int, Path], list[str]]  # Python of the system, workers, directory of the job


@dataclass(frozen=True)
class System:
    """A system for training. ``packages`` is empty where this environment will do."""

    title: str
    command: Command
    packages: tuple[str, ...] = ()
    environment: str = ""
    probe: str = ""

    def install(self) -> Peer:
        if not self.packages:
            return Peer(Path(sys.executable))
        return peer_environment(self.environment, self.packages, self.probe)


def _pliant(*options: str) -> Command:
    def command(python: Path, workers: int, home: Path) -> list[str]:
        launcher = [str(python.with_name("pliant")), "run", "-q", "-n", str(workers), "--job-dir", str(home / "job")]
        return [*launcher, *options, "--", "python", str(CLIENTS / "elastic_training.py")]

    return command


def _torchrun(python: Path, workers: int, _: Path) -> list[str]:
    launcher = [str(python), "-m", "torch.distributed.run", "--standalone", "--max-restarts=100"]
    return [*launcher, f"--nproc-per-node={workers}", str(CLIENTS / "ddp_training.py")]


def _torchft(heartbeat_ms: int, join_ms: int) -> Command:
    def command(python: Path, workers: int, _: Path) -> list[str]:
        numbers = [str(workers), str(heartbeat_ms), str(join_ms)]
        return [str(python), str(CLIENTS / "torchft_launcher.py"), *numbers, str(CLIENTS / "torchft_training.py")]

    return command


def _dlrover(python: Path, workers: int, _: Path) -> list[str]:
    launcher = [str(python), str(CLIENTS / "dlrover_launcher.py"), "--standalone", "--max_restarts=100"]
    return [*launcher, f"--nproc_per_node={workers}", str(CLIENTS / "ddp_training.py")]


def _ray(python: Path, workers: int, home: Path) -> list[str]:
    return [str(python), str(CLIENTS / "ray_training.py"), str(workers), str(home / "storage")]


def _pliant_on_ray(python: Path, workers: int, home: Path) -> list[str]:
    """On the cluster of ``RAY_ADDRESS``; programs there do not get the variables of this shell."""
    launcher = [str(python), "-c", "from pliant.cli import main; main()", "run", "-q", "--platform", "ray"]
    given = [word for name in (*BENCH, "PYTHONPATH", "OMP_NUM_THREADS") for word in ("--env", name)]
    command = ["python", str(CLIENTS / "elastic_training.py")]
    return [*launcher, "-n", str(workers), "--job-dir", str(home / "job"), *given, "--", *command]


def _ray_train(*, elastic: bool) -> Command:
    def command(python: Path, workers: int, home: Path) -> list[str]:
        wanted = f"{workers - 1}:{workers}" if elastic else str(workers)
        return [str(python), str(CLIENTS / "ray_training.py"), wanted, str(home / "storage")]

    return command


SYSTEMS = {
    "pliant": System("Pliant", _pliant()),
    "pliant-warm": System("Pliant, warm standby", _pliant("--warm-standby")),
    "torchrun": System("torchrun", _torchrun),
    "torchft": System(
        "torchft 0.2, heartbeat time-out 1 s",
        _torchft(heartbeat_ms=1000, join_ms=10_000),
        packages=("torchft==0.2.0", TORCH, "numpy"),
        environment="torchft",
        probe="import torchft",
    ),
    "dlrover": System(
        "dlrover-run 0.6.1",
        _dlrover,
        packages=("dlrover==0.6.1", "grpcio", "protobuf", "numpy", "psutil", "kubernetes", TORCH),
        environment="dlrover-torch",
        probe="import torch, dlrover.python.master.main, dlrover.trainer.torch.elastic_run",
    ),
    "ray": System(
        "Ray Train 2.60",
        _ray,
        packages=("ray[train,default]==2.60", TORCH, "numpy"),
        environment="ray",
        probe="import torch, ray.train.torch",
    ),
    "ray-pliant": System("Pliant on Ray", _pliant_on_ray),
    "ray-train": System("Ray Train 2.60", _ray_train(elastic=False)),
    "ray-train-elastic": System("Ray Train 2.60, elastic", _ray_train(elastic=True)),
}
