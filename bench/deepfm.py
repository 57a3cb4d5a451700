"""DeepFM end to end: `pliant train --strategy ps-async` beside TensorFlow's ParameterServerStrategy and PyTorch in one process.

    python bench/deepfm.py                                  # 1 and 2 workers, batches of 512
    python bench/deepfm.py --batch 4096 --rounds 3
    python bench/deepfm.py --only pliant --workers 1,2,4

The same click log, the same model (two tables of all fields, vectors of 8 floats, a net of 32 and 16 units), Adagrad, batches of
one size, one server where there are servers. Pliant reads Parquet through the zoo's ``dataset_fn``, keeps a log, journals each
decision, and counts each record exactly once. The peers read whole batches that were prepared before (``clients/deepfm_data.py``),
keep nothing, and promise nothing of a record. TensorFlow runs asynchronously with a coordinator, a server and workers as processes.

Of each system the rate is the records after the first fifth, by the time from there to the end of the last one: start-up, tracing,
compilation and the export do not count for any. The loss on the same held-out records shows whether all learn the same. Shown are
medians of rounds in turn, and medians of the ratios within a round.

TensorFlow lives in the environment of tools/tensorflow; without it (`make tensorflow-testbed`) that peer is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.deepfm_data import EPSILON, LEARNING_RATE, WARM_UP, Sizes, pack
from deepfm_job import DEEPFM, train_deepfm
from harness import finish, machine, median, options_of, paired, parsed, say, table

from pliant.native.click_log import write_click_log

HERE = Path(__file__).resolve().parent
CLIENTS = HERE / "clients"
SIZES = Sizes(users=1_000_000, items=200_000, tags=50_000)
TEST = 0.02  # of the records, held out
AIMS = {"tensorflow": 2.0, "torch": 0.7}  # times as many records per second
MAX_LOSS_GAP = 0.05  # a system that differs by more does something else, and is named
QUICK_LOSS_GAP = 0.15  # after a few steps
SYSTEMS = ("pliant", "tensorflow", "torch")
LONG = 240.0  # seconds
OPTIMIZER = f"""

def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(model.parameters(), lr={LEARNING_RATE}, eps={EPSILON})
"""


@dataclass(frozen=True)
class Data:
    """The click log in a folder: for Pliant as Parquet, for the peers as packed batches."""

    folder: Path
    batch: int
    epochs: int

    @property
    def files(self) -> tuple[str, str]:
        return str(self.folder / "train.bin"), str(self.folder / "test.bin")


def prepare(folder: Path, records: int, batch: int, epochs: int) -> Data:
    say(f"making a click log of {records:,} records")
    write_click_log(folder, records, test=TEST, users=SIZES.users, items=SIZES.items, tags=SIZES.tags)
    data = Data(folder, batch, epochs)
    for kind, target in zip(("train", "test"), data.files, strict=True):
        pack(folder / f"{kind}.parquet", Path(target), SIZES)
    (folder / "deepfm.py").write_text(
        DEEPFM.read_text().replace('if __name__ == "__main__"', OPTIMIZER + "\n\nif False")
    )
    return data


def run_pliant(data: Data, workers: int, number: int) -> dict[str, float]:
    options = ["--eval-data", str(data.folder / "test.parquet"), "--num-epochs", str(data.epochs)]
    name = f"pliant-{workers}-{number}"
    done = train_deepfm(data.folder, name, workers, data.batch, model=data.folder / "deepfm.py", options=options)
    loss = float(done.summary["evaluation"]["loss"])
    return {"records_per_second": done.rate_after(WARM_UP), "loss": loss}


def run_torch(data: Data, workers: int, number: int) -> dict[str, float]:
    numbers = map(str, (SIZES.rows, data.batch, data.epochs))
    command = [sys.executable, str(CLIENTS / "deepfm_torch.py"), *data.files, *numbers]
    return _client(command, {"OMP_NUM_THREADS": "1"})  # as workers of Pliant have; two wait for each other at this size


def run_tensorflow(python: str, steps: int) -> Callable[[Data, int, int], dict[str, float]]:
    def run(data: Data, workers: int, number: int) -> dict[str, float]:
        numbers = map(str, (SIZES.rows, data.batch, data.epochs, workers, steps))
        command = [python, str(CLIENTS / "deepfm_tensorflow.py"), *data.files, *numbers]
        return _client(command, {"PYTHONPATH": sysconfig.get_paths()["purelib"], "TF_CPP_MIN_LOG_LEVEL": "2"})

    return run


def _client(command: Sequence[str], env: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=LONG, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(command[1]).name} failed: {done.stderr[-2000:]}")
    answer: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def find_tensorflow() -> str:
    """Its Python; nothing where there is none."""
    find = [str(HERE.parent / "tools" / "tensorflow" / "build.sh"), "--find"]
    return subprocess.run(find, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def measure(options: Any, data: Data) -> dict[str, Any]:
    runs: dict[str, tuple[Callable[[Data, int, int], dict[str, float]], int]] = {}
    python = find_tensorflow() if "tensorflow" in options.only else ""
    for system in options.only:
        if system == "torch":
            runs["torch"] = run_torch, 1
        elif system == "tensorflow" and not python:
            say("skipped TensorFlow: it is not there (make tensorflow-testbed)")
        else:
            run = run_pliant if system == "pliant" else run_tensorflow(python, options.tensorflow_steps)
            runs |= {f"{system}, {_workers(n)}": (run, n) for n in options.workers}
    found: dict[str, dict[str, list[float]]] = {name: {"records_per_second": [], "loss": []} for name in runs}
    for number in range(options.rounds):
        for name, (run, workers) in runs.items():
            for key, value in run(data, workers, number).items():
                found[name][key].append(value)
            say(f"round {number + 1}: {name}: {found[name]['records_per_second'][-1]:,.0f} records/s")
    return found


def judge(found: dict[str, Any], workers: Sequence[int], max_loss_gap: float) -> tuple[dict[str, float], list[str]]:
    """Ratios to the peers, and what misses its aim."""
    ratios, missed = {}, []
    for count in workers:
        ours = found.get(f"pliant, {_workers(count)}")
        peers = {"tensorflow": found.get(f"tensorflow, {_workers(count)}"), "torch": found.get("torch")}
        for peer, theirs in peers.items():
            if ours is None or theirs is None or (peer == "torch" and count != 1):
                continue
            ratio = ratios[f"{_workers(count)} / {peer}"] = paired(
                ours["records_per_second"], theirs["records_per_second"]
            )
            if ratio < AIMS[peer]:
                missed.append(f"{_workers(count)}: {ratio:.2f} times {peer}, aim {AIMS[peer]}")
    losses = {name: median(values["loss"]) for name, values in found.items()}
    best = min(losses.values())
    missed += [
        f"{name} learns less than the best (loss {loss:.4f}, not {best:.4f}): its rate means little"
        for name, loss in losses.items()
        if loss - best > max_loss_gap
    ]
    return ratios, missed


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def main() -> None:
    parser = options_of(__doc__, rounds=3)
    parser.add_argument("--only", choices=SYSTEMS, action="append", help="this system; may be given again")
    parser.add_argument("--workers", default="1,2", help="numbers of workers [1,2]")
    parser.add_argument("--batch", type=int, default=512, help="records of one batch [512]")
    parser.add_argument("--records", type=int, help="of the click log [500,000; quick: 40,000]")
    parser.add_argument("--epochs", type=int, default=1, help="[1]")
    parser.add_argument(
        "--tensorflow-steps", type=int, default=1, help="steps in one scheduled function of TensorFlow [1]"
    )
    options = parsed(parser)
    options.only = tuple(options.only or SYSTEMS)
    options.workers = tuple(int(number) for number in options.workers.split(","))
    records = options.records or (40_000 if options.quick else 500_000)
    with tempfile.TemporaryDirectory(prefix="bench-deepfm-") as name:
        found = measure(options, prepare(Path(name), records, options.batch, options.epochs))
    result: dict[str, Any] = {"machine": machine(), "records": records, "batch": options.batch, "systems": found}
    result["ratios"], result["missed"] = judge(
        found, options.workers, QUICK_LOSS_GAP if options.quick else MAX_LOSS_GAP
    )
    rows = [(n, f"{median(v['records_per_second']):,.0f}", f"{median(v['loss']):.4f}") for n, v in found.items()]
    title = f"DeepFM, {records:,} records in batches of {options.batch}, one server, {os.cpu_count()} cores"
    table(title, ("", "records/s", "loss"), rows)
    if result["ratios"]:
        table("Pliant to", ("", "times"), [(name, f"{ratio:.2f}") for name, ratio in result["ratios"].items()])
    finish(result, options.json)


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, subprocess.SubprocessError) as error:
        sys.exit(f"bench: {error}")
