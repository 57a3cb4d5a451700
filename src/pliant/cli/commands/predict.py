"""Write predictions for each record: every record once, in order, with its id.

    pliant predict --model net.py --model-class Net --data new.parquet --trained trained --output out.csv
    pliant predict --model net.py --model-class Net --data 'new/*.rio' --trained trained --output out.parquet --max-workers 4

The suffix of --output selects the format: .rio, .parquet, .csv or .jsonl. `PredictionOutputsProcessor` in the model file may build
the rows. With several workers, the directory of --output must be visible to all of them.

Exit code: that of the job: 0 succeeded, 1 failed, 130 stopped; 2 for a usage error or an invalid model file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options import native as o
from pliant.cli.options.groups import grouped
from pliant.cli.options.run import RunOptions


@grouped
def predict(
    model: o.ModelOptions,
    data: o.Data,
    output: Annotated[str, typer.Option("--output", metavar="FILE", help="Output file.")],
    workers: o.WorkerOptions,
    output_format: Annotated[str, typer.Option(help="recordio, parquet, csv or jsonl. [default: by the suffix]")] = "",
    batch_size: o.BatchSize = 64,
    shard_size: o.ShardSize = 0,
    *,
    options: RunOptions,
) -> None:
    from pliant.cli.launch.native import run_native
    from pliant.native.prediction.outputs import format_of

    description = model.describe(
        "predict",
        data,
        batch_size=batch_size,
        shard_size=shard_size,
        output=output,
        output_format=format_of(Path(output), output_format),
    )
    more = {"training_service": False}
    run_native(description, model.model, options, workers=workers.range(), strategy="none", spec_changes=more)
