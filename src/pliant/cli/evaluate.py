"""Evaluate a trained model on data: the metrics of the model file's `eval_metrics_fn`, over all records.

    pliant evaluate --model net.py --model-class Net --data test.parquet --trained trained
    pliant evaluate --model net.py --model-class Net --data 'test/*.rio' --trained trained --max-workers 4 --summary s.json

The metrics are printed, and are in the summary by name (`evaluation`).

Exit code: the job's: 0 done, 1 failed, 130 stopped; 2 for a mistake in the command or the model file.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pliant.cli import native_options as o
from pliant.cli.options import Context, Namespace
from pliant.cli.train import absolute
from pliant.core.errors import InvalidRequest


def evaluate(
    model: o.Model,
    data: Annotated[
        list[str], typer.Option("--data", "--eval-data", "--validation-data", metavar="PATH", help="The data.")
    ],
    trained: o.Trained = "",
    model_class: o.ModelClass = "",
    model_params: o.ModelParams = "",
    data_options: o.DataOptions = "",
    batch_size: o.BatchSize = 64,
    shard_size: Annotated[int, typer.Option(min=0, help="Records of a shard. [default: a few batches]")] = 0,
    max_workers: o.Workers = None,
    min_workers: o.MinWorkers = None,
    name: o.Name = None,
    job_dir: o.Folder = None,
    summary: o.Summary = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    overwrite: o.Overwrite = False,
    resume: o.Resume = False,
    platform: o.Where = None,
    cpu: o.Cpu = None,
    memory: o.Memory = None,
    env: o.Env = None,
    tls: o.Tls = False,
    audit: o.Audit = False,
    metrics_port: o.MetricsPort = None,
    max_restarts: o.MaxRestarts = None,
    log_dir: o.LogDir = None,
    namespace: Namespace = None,
    context: Context = None,
    image: o.Image = None,
) -> None:
    from pliant.cli.native import RunOptions, pairs, run_native, world_size

    options = RunOptions.gather(locals())
    from pliant.native.description import Description

    if not trained:
        raise InvalidRequest("--trained is missing", hint="give the --output directory of a training")
    description = Description(
        task="evaluate",
        model=model.name,
        model_class=model_class,
        model_params=pairs(model_params, "--model-params"),
        data=data,
        data_options=pairs(data_options, "--data-options"),
        batch_size=batch_size,
        shard_size=shard_size,
        trained=absolute(trained),
    )
    run_native(description, model, options, workers=world_size(min_workers, max_workers), strategy="none")
