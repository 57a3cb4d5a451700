"""Write what a trained model says of each record: every record once, in order, with its id.

    pliant predict --model net.py --model-class Net --data new.parquet --trained trained --output said.csv
    pliant predict --model net.py --model-class Net --data 'new/*.rio' --trained trained --output said.parquet --max-workers 4

The ending of --output chooses the format: .rio, .parquet, .csv or .jsonl. `PredictionOutputsProcessor` of the model file may make
the rows. With several workers the file's folder must be one that all of them see.

Exit code: the job's: 0 done, 1 failed, 130 stopped; 2 for a mistake in the command or the model file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.cli import native_options as o
from pliant.cli.options import Context, Namespace
from pliant.cli.train import absolute
from pliant.core.errors import InvalidRequest


def predict(
    model: o.Model,
    data: o.Data,
    output: Annotated[str, typer.Option("--output", metavar="FILE", help="Where the predictions go.")],
    trained: o.Trained = "",
    output_format: Annotated[str, typer.Option(help="recordio, parquet, csv or jsonl. [default: by the ending]")] = "",
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
    from pliant.native.outputs import format_of

    if not trained:
        raise InvalidRequest("--trained is missing", hint="give the --output directory of a training")
    description = Description(
        task="predict",
        model=model.name,
        model_class=model_class,
        model_params=pairs(model_params, "--model-params"),
        data=data,
        data_options=pairs(data_options, "--data-options"),
        batch_size=batch_size,
        shard_size=shard_size,
        output=absolute(output),
        output_format=format_of(Path(output), output_format),
        trained=absolute(trained),
    )
    run_native(
        description,
        model,
        options,
        workers=world_size(min_workers, max_workers),
        strategy="none",
        spec_changes={"training_service": False},
    )
