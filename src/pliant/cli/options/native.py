"""Options that ``train``, ``evaluate`` and ``predict`` share: of the model file, its data and its workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.options.run import pairs
from pliant.core.errors import InvalidRequest
from pliant.spec.parameters import PS_COMMAND
from pliant.spec.planning import MAX_OPEN

if TYPE_CHECKING:
    from pliant.native.model_file.description import Description

Data = Annotated[
    list[str],
    typer.Option(
        "--data", "--training-data", "--prediction-data", metavar="PATH", help="File, directory, glob or URL."
    ),
]
BatchSize = Annotated[int, typer.Option("--batch-size", "--minibatch-size", min=1, help="Records per batch.")]
DEFAULT_MAX_PS = 8  # at least
OTHER_NAMES = {"allreducestrategy": "allreduce", "parameterserverstrategy": "ps-async", "ps": "ps-async"}
ShardSize = Annotated[int, typer.Option(min=0, help="Records per shard. [default: a few batches]")]


def strategy_name(given: str) -> str:
    """A strategy by our name for it; those of the original launcher are known as well."""
    return OTHER_NAMES.get(given.lower(), given.lower())


@dataclass(frozen=True)
class ModelOptions:
    model: Annotated[Path, typer.Option("--model", "--model-def", metavar="FILE", help="The model file.")]
    model_class: Annotated[
        str,
        typer.Option(
            "--model-class", metavar="NAME", help="The model's class in the model file. [default: its custom_model()]"
        ),
    ] = ""
    model_params: Annotated[
        str, typer.Option(metavar="JSON | k=v,k=v", help="Arguments for the class, such as width=32,depth=2.")
    ] = ""
    data_options: Annotated[
        str,
        typer.Option(
            "--data-options", "--data-reader-params", metavar="JSON | k=v", help="Options for the data reader."
        ),
    ] = ""
    trained: Annotated[
        str,
        typer.Option(
            "--trained",
            "--checkpoint",
            "--checkpoint-dir-for-init",
            metavar="DIR",
            help="Trained model: an --output directory, a safetensors file, or a checkpoint directory.",
        ),
    ] = ""

    def describe(self, task: str, data: list[str], **more: Any) -> Description:
        from pliant.native.model_file.description import Description

        if task != "train" and not self.trained:
            raise InvalidRequest("--trained is missing", hint="pass the --output directory of `pliant train`")
        return Description(
            task=task,  # type: ignore[arg-type]  # a command's own name
            model=self.model.name,
            model_class=self.model_class,
            model_params=pairs(self.model_params, "--model-params"),
            data=data,
            data_options=pairs(self.data_options, "--data-options"),
            trained=self.trained,
            **more,
        )


@dataclass(frozen=True)
class WorkerOptions:
    workers: Annotated[
        str | None,
        typer.Option("--workers", "-n", metavar="N | MIN:MAX", help="Number of workers. [default: 1]"),
    ] = None
    max_workers: Annotated[
        int | None, typer.Option("--max-workers", "--num-workers", min=1, help="Same as --workers 1:MAX.")
    ] = None
    min_workers: Annotated[int | None, typer.Option(min=1, help="With --max-workers: same as --workers MIN:MAX.")] = (
        None
    )

    def range(self) -> tuple[int, int]:
        if self.workers is not None:
            return self._of_workers(self.workers)
        low = self.min_workers or 1
        high = self.max_workers or low
        if low > high:
            raise InvalidRequest(f"--min-workers {low} is more than --max-workers {high}")
        return low, high

    def bounds(self, max_open: int) -> tuple[int, int]:
        """Of a job that plans its own resources: a single number is the maximum, and without any it is ``max_open``."""
        if self.workers is None and self.max_workers is None:
            low = self.min_workers or 1
            return low, max(low, max_open)
        low, high = self.range()
        return (1 if self.workers is not None and ":" not in self.workers else low), high

    def _of_workers(self, text: str) -> tuple[int, int]:
        if self.max_workers is not None or self.min_workers is not None:
            raise InvalidRequest("--workers cannot be combined with --min-workers or --max-workers")
        low, colon, high = text.partition(":")
        if not low.isdecimal() or (colon and not high.isdecimal()) or not 1 <= int(low) <= int(high or low):
            raise InvalidRequest(f"--workers {text!r} is neither N nor MIN:MAX", hint="for example: -n 4, or -n 1:4")
        return int(low), int(high or low)


@dataclass(frozen=True)
class ServerOptions:
    """How many parameter servers; ``pliant scale`` changes it while the job runs, within the limits."""

    num_ps: Annotated[
        int,
        typer.Option(
            "--num-ps",
            "--num-ps-pods",
            min=0,
            show_default=False,
            help="Initial number of parameter servers. [default: 1 with ps-*]",
        ),
    ] = 0
    max_ps: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Maximum number when scaling. [default: 4 times --num-ps, at least {DEFAULT_MAX_PS}]"
        ),
    ] = None
    min_ps: Annotated[int | None, typer.Option(min=1, help="Minimum number when scaling. [default: 1]")] = None
    ps_memory: Annotated[
        str | None,
        typer.Option(metavar="512Mi | 2Gi", help="Memory per parameter server; enforced where the system supports it."),
    ] = None

    @property
    def given(self) -> str:
        """The option that asks for servers; empty if none does."""
        asked = {
            "--num-ps": self.num_ps,
            "--max-ps": self.max_ps,
            "--min-ps": self.min_ps,
            "--ps-memory": self.ps_memory,
        }
        return next((f"{option} {given}" for option, given in asked.items() if given), "")

    def role(self, *, is_planned: bool = False) -> dict[str, Any]:
        """The role ``ps``. ``is_planned``: what is given are bounds for the planner."""
        resources: dict[str, Any] = {"resources": {"memory": self.ps_memory}} if self.ps_memory else {}
        if is_planned and self.ps_memory:
            resources["max_resources"] = {"memory": self.ps_memory}
        replicas = self.bounds() if is_planned else self.replicas()
        return {"replicas": replicas, "command": list(PS_COMMAND), **resources}

    def bounds(self) -> dict[str, int]:
        """Of the role ``ps`` of a job that plans its own resources, which decides with how many it starts."""
        if self.num_ps and self.max_ps is not None:
            raise InvalidRequest(
                "--num-ps and --max-ps are both maximums with --auto, which decides the initial number",
                hint="leave out --num-ps",
            )
        low = self.min_ps or 1
        high = self.max_ps or self.num_ps or max(low, MAX_OPEN["ps"])
        if low > high:
            option = "--max-ps" if self.max_ps else "--num-ps"
            raise InvalidRequest(f"--min-ps {low} is more than {option} {high}")
        return {"min": low, "max": high}

    def replicas(self) -> dict[str, int]:
        """Of the role ``ps``."""
        low = self.min_ps or 1
        start = self.num_ps or low
        high = self.max_ps or max(DEFAULT_MAX_PS, 4 * start)
        if low > start:
            raise InvalidRequest(f"--min-ps {low} is more than --num-ps {start}")
        if start > high:
            option = "--num-ps" if self.num_ps else "--min-ps"
            raise InvalidRequest(f"{option} {start} is more than --max-ps {high}")
        return {"min": low, "max": high, "wanted": start}
