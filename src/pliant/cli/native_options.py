"""Options that ``train``, ``evaluate`` and ``predict`` share: of the model file and its data, and those of ``pliant run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[Path, typer.Option("--model", "--model-def", metavar="FILE", help="The model file.")]
ModelClass = Annotated[
    str, typer.Option("--model-class", metavar="NAME", help="The model's class in it. [default: its custom_model()]")
]
ModelParams = Annotated[
    str, typer.Option(metavar="JSON | k=v,k=v", help="Arguments of the class, such as width=32,depth=2.")
]
Data = Annotated[
    list[str],
    typer.Option("--data", "--training-data", "--prediction-data", metavar="PATH", help="File, folder, glob or URL."),
]
DataOptions = Annotated[
    str, typer.Option("--data-options", "--data-reader-params", metavar="JSON | k=v", help="Options of the reader.")
]
Trained = Annotated[
    str,
    typer.Option(
        "--trained",
        "--checkpoint",
        "--checkpoint-dir-for-init",
        metavar="DIR",
        help="A trained model: an --output directory, a safetensors file, or a directory of checkpoints.",
    ),
]
BatchSize = Annotated[int, typer.Option("--batch-size", "--minibatch-size", min=1, help="Records of one batch.")]
Workers = Annotated[int | None, typer.Option("--max-workers", "--num-workers", min=1, help="Workers at the most.")]
MinWorkers = Annotated[int | None, typer.Option("--min-workers", min=1, help="Workers at the least. [default: 1]")]
Name = Annotated[str | None, typer.Option("--name", "--job-name", help="The job's name. [default: one is made]")]
Folder = Annotated[Path | None, typer.Option("--job-dir", help="Where the job keeps its files.")]
Summary = Annotated[
    Path | None, typer.Option("--summary", help="Write the summary to this file, as JSON; it has the metrics by name.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON on standard output, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no output of the workers.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an ended job of the same name.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a job that was interrupted (power loss, reboot).")]
Where = Annotated[str | None, typer.Option("--platform", help="Where nodes run. [default: local]")]
Cpu = Annotated[float | None, typer.Option("--cpu", help="CPUs per worker; limits it where the system allows.")]
Memory = Annotated[str | None, typer.Option("--memory", metavar="512Mi | 2Gi", help="Memory per worker.")]
Env = Annotated[list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="Environment of the workers.")]
Tls = Annotated[bool, typer.Option("--tls", help="Encrypt the job's calls, with certificates on both sides.")]
Audit = Annotated[bool, typer.Option("--audit", help="Keep proof of every accepted record, for `pliant audit`.")]
MetricsPort = Annotated[int | None, typer.Option("--metrics-port", help="Serve Prometheus metrics on this port.")]
MaxRestarts = Annotated[
    int | None, typer.Option("--max-restarts", help="Errors of a worker that are forgiven. [default: 3]")
]
LogDir = Annotated[Path | None, typer.Option("--log-dir", help="Keep the logs in this folder.")]
Image = Annotated[str | None, typer.Option("--image", help="On Kubernetes: of master and nodes.")]
