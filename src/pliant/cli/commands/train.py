"""Train the model in a model file as an elastic job.

    pliant train --model digits_cnn.py --model-class DigitsCNN --data 'train/*.rio' --num-epochs 5
    pliant train --model net.py --model-class Net --data train.parquet --eval-data test.parquet \\
        --strategy allreduce --max-workers 4 --batch-size 256 --output trained
    pliant train --auto --model net.py --model-class Net --data train.parquet --batch-size 256
    pliant train --model_class=Net --model=net.py --max_workers=4 --batch_size=64 --num_epoch=3 --data='t/*.rio'

The model file defines the model, `loss`, `optimizer` and `dataset_fn` (docs/native-training.md, `pliant zoo init`). It is checked
before anything is launched, and copied into the job's directory together with the modules next to it that it imports.

--batch-size is the number of records per update with every strategy; with allreduce the workers share it. All options may be
spelled with underscores.

--num-ps is the initial number of parameter servers; `pliant scale JOB ps=3` changes it while the job trains, within --min-ps and
--max-ps. Nothing else changes it, unless the job plans its own resources: with --auto, numbers of workers and servers, --cpu,
--memory and --ps-memory are bounds, and what is not given is left to the job (`pliant plans`, `pliant explain`).

Exit code: that of the job: 0 succeeded, 1 failed, 130 stopped; 2 for a usage error or an invalid model file.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pliant.cli.options import native as o
from pliant.cli.options.checkpoints import Every, OnFailure, failure_mode
from pliant.cli.options.groups import grouped
from pliant.cli.options.planning import PlanningOptions
from pliant.cli.options.run import RunOptions, pairs
from pliant.core.errors import InvalidRequest
from pliant.launch.intervals import interval
from pliant.spec.planning import MAX_OPEN

STRATEGIES = ("local", "allreduce", "ps-sync", "ps-async")


@grouped
def train(
    model: o.ModelOptions,
    data: o.Data,
    workers: o.WorkerOptions,
    servers: o.ServerOptions,
    eval_data: Annotated[
        list[str] | None, typer.Option("--eval-data", "--validation-data", metavar="PATH", help="Data for evaluation.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy", "--distribution-strategy", help="local, allreduce, ps-sync or ps-async. [default: by workers]"
        ),
    ] = None,
    ps_options: Annotated[
        str,
        typer.Option(
            "--ps-options", metavar="NAME=VALUE,…", help="The job's `parameters` section, such as max_staleness=8."
        ),
    ] = "",
    batch_size: o.BatchSize = 32,
    virtual_workers: Annotated[
        int | None, typer.Option(min=1, help="With allreduce: parts of a batch. [default: number of workers]")
    ] = None,
    num_epochs: Annotated[
        int, typer.Option("--num-epochs", "--num-epoch", min=1, help="Number of passes over the data.")
    ] = 1,
    max_steps: Annotated[
        int, typer.Option(min=0, show_default=False, help="Stop after this many updates; 0: no limit. [default: 0]")
    ] = 0,
    output: Annotated[str, typer.Option("--output", metavar="DIR", help="Export the model to this directory.")] = "",
    seed: Annotated[int, typer.Option(help="Seed for initial weights, record order, and dropout.")] = 0,
    shuffle: Annotated[bool, typer.Option(help="Shuffle the records, differently in each epoch.")] = True,
    deterministic: Annotated[
        bool,
        typer.Option(
            help="With allreduce: the same result, bit for bit, for any number of workers and any failures; "
            "one thread per process."
        ),
    ] = True,
    eval_every_steps: Annotated[
        int, typer.Option("--eval-every-steps", "--evaluation-steps", min=0, help="Evaluate every N updates.")
    ] = 0,
    eval_every_seconds: Annotated[float, typer.Option(min=0, help="Evaluate every N seconds.")] = 0.0,
    eval_every_epochs: Annotated[
        int | None, typer.Option(min=0, help="Evaluate every N epochs. [default: 1, or 0 with steps or seconds]")
    ] = None,
    eval_shard_size: Annotated[int, typer.Option(min=0, help="Records per evaluation shard.")] = 0,
    best_metric: Annotated[
        str, typer.Option(help="The metric that selects the best version. [default: the first]")
    ] = "",
    best_mode: Annotated[str, typer.Option(metavar="max | min", help="[default: by the metric's name]")] = "",
    checkpoint_dir: Annotated[
        str | None, typer.Option(help="Checkpoint directory. [default: the job's directory]")
    ] = None,
    checkpoint_every_steps: Annotated[
        int, typer.Option("--checkpoint-every-steps", "--checkpoint-steps", min=0, help="Updates between checkpoints.")
    ] = 0,
    checkpoint_every_seconds: Annotated[
        float | None, typer.Option(min=0, help="Seconds between checkpoints. [default: 30 if not by steps]")
    ] = None,
    checkpoint_every: Every = None,
    checkpoint_on_failure: OnFailure = None,
    keep_checkpoints: Annotated[
        int, typer.Option("--keep-checkpoints", "--keep-checkpoint-max", min=1, help="Number of checkpoints to keep.")
    ] = 3,
    *,
    planning: PlanningOptions,
    options: RunOptions,
) -> None:
    from pliant.cli.launch.native import run_native
    from pliant.launch.paths import absolute, pod_path
    from pliant.native.model_file.description import Evaluation

    planned = planning.changes()
    limits = workers.bounds(open_workers(strategy, batch_size, virtual_workers)) if planned else workers.range()
    max_workers = limits[1]
    chosen = choose_strategy(strategy, max_workers, servers.given)
    parts = virtual_workers or (fitting_parts(batch_size, max_workers) if chosen in ("allreduce", "ps-sync") else 1)
    check_batch(batch_size, max_workers, parts, chosen, given=virtual_workers is not None)
    by_epoch = eval_every_epochs if eval_every_epochs is not None else int(not (eval_every_steps or eval_every_seconds))
    if best_mode not in ("", "max", "min"):
        raise InvalidRequest(f"--best-mode is {best_mode!r}; allowed: max, min")
    if not eval_data and (eval_every_steps or eval_every_seconds or eval_every_epochs or best_metric):
        raise InvalidRequest("evaluation options need evaluation data", hint="add --eval-data")
    description = model.describe(
        "train",
        data,
        eval_data=eval_data or [],
        strategy=chosen,
        batch_size=batch_size,
        virtual_workers=parts,
        epochs=num_epochs,
        max_steps=max_steps,
        seed=seed,
        shuffle=shuffle,
        deterministic=deterministic,
        evaluation=Evaluation(
            every_steps=eval_every_steps,
            every_seconds=eval_every_seconds,
            every_epochs=by_epoch,
            shard_size=eval_shard_size,
            monitor=best_metric,
            mode=best_mode,  # type: ignore[arg-type]  # checked above
        ),
        output=output,
    )
    seconds = (
        checkpoint_every_seconds if checkpoint_every_seconds is not None else 0.0 if checkpoint_every_steps else 30.0
    )
    saving: dict[str, Any] = {
        "every_steps": checkpoint_every_steps,
        "every_seconds": seconds,
        "keep_last": keep_checkpoints,
    }
    if checkpoint_every is not None:
        if checkpoint_every_steps or checkpoint_every_seconds is not None:
            raise InvalidRequest(
                "--checkpoint-every cannot be combined with --checkpoint-every-steps or --checkpoint-every-seconds"
            )
        saving |= interval(checkpoint_every)
    if checkpoint_on_failure is not None:
        saving["on_failure"] = failure_mode(checkpoint_on_failure)
    if checkpoint_dir and options.platform == "kubernetes":
        saving["dir"] = pod_path(checkpoint_dir, "--checkpoint-dir", options.claim)
    elif checkpoint_dir:
        saving["dir"] = absolute(checkpoint_dir)
    changes: dict[str, Any] = {"checkpoint": saving, **planned}
    if ps_options and not chosen.startswith("ps"):
        raise InvalidRequest(f"--ps-options with --strategy {chosen}, which has no parameter servers")
    if chosen.startswith("ps"):
        changes["parameters"] = {
            "batch_size": batch_size,
            "max_iterations": max_steps,
            **pairs(ps_options, "--ps-options"),
        }
        changes["roles"] = {"ps": servers.role(is_planned=bool(planned))}
    run_native(description, model.model, options, workers=limits, strategy=chosen, spec_changes=changes)


def choose_strategy(given: str | None, workers: int, servers: str) -> Any:
    """The given strategy, else the one that follows from the numbers of workers and servers."""
    if given is None:
        return "ps-async" if servers else "allreduce" if workers > 1 else "local"
    name = o.strategy_name(given)
    if name not in STRATEGIES:
        raise InvalidRequest(f"unknown --strategy {given!r}; allowed: {', '.join(STRATEGIES)}")
    if name == "local" and workers > 1:
        raise InvalidRequest(
            f"--strategy local trains in one process, but up to {workers} workers are requested",
            hint="use allreduce for several workers",
        )
    if servers and not name.startswith("ps"):
        raise InvalidRequest(f"{servers} with --strategy {name}, which has no parameter servers")
    return name


def open_workers(strategy: str | None, batch_size: int, parts: int | None) -> int:
    """The maximum number of workers of a job that plans its own resources, if none is given: that can share a batch.
    ``parts``: of a batch, if their number is given."""
    name = o.strategy_name(strategy) if strategy is not None else ""
    if name == "local":
        return 1
    if name.startswith("ps"):
        return MAX_OPEN["worker"]
    if parts is not None:
        return min(parts, MAX_OPEN["worker"])
    return next(n for n in range(MAX_OPEN["worker"], 0, -1) if batch_size % fitting_parts(batch_size, n) == 0)


def fitting_parts(batch_size: int, workers: int) -> int:
    """Number of parts of a batch: that of the workers, or a few more if that divides the batch evenly."""
    return next((n for n in range(workers, 4 * workers + 1) if batch_size % n == 0), workers)


def check_batch(batch_size: int, workers: int, parts: int, strategy: str, *, given: bool) -> None:
    if strategy != "allreduce":
        return
    if batch_size < parts:
        raise InvalidRequest(f"a batch of {batch_size} is too small for {parts} parts", hint="raise --batch-size")
    if parts < workers:
        raise InvalidRequest(
            f"--virtual-workers {parts} is less than the maximum of {workers} workers, so some would idle"
        )
    if batch_size % parts and given:
        raise InvalidRequest(
            f"a batch of {batch_size} cannot be cut into {parts} equal parts", hint="--virtual-workers must divide it"
        )
    if batch_size % parts:
        raise InvalidRequest(
            f"a batch of {batch_size} cannot be shared evenly by {workers} workers",
            hint=f"--batch-size {-(-batch_size // workers) * workers} can",
        )
