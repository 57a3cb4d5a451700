"""Evaluate a trained model on data: the metrics of the model file's `eval_metrics_fn`, over all records.

    pliant evaluate --model net.py --model-class Net --data test.parquet --trained trained
    pliant evaluate --model net.py --model-class Net --data 'test/*.rio' --trained trained --max-workers 4 --summary s.json

The metrics are printed and written to the summary (`evaluation`).

Exit code: that of the job: 0 succeeded, 1 failed, 130 stopped; 2 for a usage error or an invalid model file.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pliant.cli.options import native as o
from pliant.cli.options.groups import grouped
from pliant.cli.options.run import RunOptions


@grouped
def evaluate(
    model: o.ModelOptions,
    data: Annotated[
        list[str],
        typer.Option("--data", "--eval-data", "--validation-data", metavar="PATH", help="Data to evaluate on."),
    ],
    workers: o.WorkerOptions,
    batch_size: o.BatchSize = 64,
    shard_size: o.ShardSize = 0,
    *,
    options: RunOptions,
) -> None:
    from pliant.cli.launch.native import run_native

    description = model.describe("evaluate", data, batch_size=batch_size, shard_size=shard_size)
    run_native(description, model.model, options, workers=workers.range(), strategy="none")
