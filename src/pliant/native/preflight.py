"""The check before a launch: the model file's contract, and one small batch through everything that training will call.

Where the data cannot be read from here (it is on the cluster's storage, say) the batch is skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.core.errors import CorruptData, InvalidRequest, NotFound, PliantError
from pliant.data import DataReader
from pliant.data.errors import RecordError
from pliant.files.atomic import write_problem
from pliant.native.callbacks import EarlyStopping
from pliant.native.evaluation.state_size import check_state_size
from pliant.native.metrics import Metric, as_metrics, pack_states, unpack_states
from pliant.native.model_file.contract import ModelFile, load_model_file
from pliant.native.model_file.description import EVAL_SHARD_BATCHES, Description
from pliant.native.model_file.feed import MODES, Batch, Feed, Mode, open_data
from pliant.native.model_file.models import (
    HOW_TO_YIELD_TWO,
    PAIR_ASSUMED,
    as_arrays,
    check_arguments,
    check_tables,
    feature_of,
    loss_of,
    make_model,
    predict,
)
from pliant.native.model_file.module_files import described, location_of
from pliant.native.model_file.saved_models import load_trained, put_state
from pliant.native.model_file.schedules import make_scheduler

SAMPLE_RECORDS = (4, 256)  # a few, and more if dataset_fn drops them all


def run_preflight(description: Description, model: Path, *, data_is_here: bool = True) -> None:
    """Raise the first problem that training would run into."""
    file = load_model_file(model, description.model_class, task=description.task, model_params=description.model_params)
    function = file.get("eval_metrics_fn")
    metrics = as_metrics(file.call(function), file.where("eval_metrics_fn")) if function is not None else {}
    callbacks = file.make_callbacks()
    if description.eval_data:
        _check_names(file, description, callbacks, [*metrics, *(["loss"] if file.get("loss") is not None else [])])
    if not data_is_here:
        return
    check_output(description)
    reader, sample = _sample(file, description, description.data, MODES[description.task], "--data")
    evaluated, evaluates = sample if description.task == "evaluate" else None, len(reader)
    if description.eval_data:
        other, evaluated = _sample(file, description, description.eval_data, Mode.EVALUATION, "--eval-data")
        evaluates = len(other)
    net = _make(file, description, sample)
    if sample is not None:
        _try(file, net, sample, learns=description.task == "train")
        if description.strategy.startswith("ps"):
            _check_features(net, sample)
        if description.task == "train" and _ends_with_one(description, reader):
            _try_one(file, net, Feed(file, reader, Mode.TRAINING).batch_of([0]))
    if evaluated is not None:
        size = _evaluate(file, net, evaluated, metrics)
        records = (
            description.evaluation.shard_size or description.shard_size or EVAL_SHARD_BATCHES * description.micro_batch
        )
        check_state_size(size * min(records, evaluates) // evaluated.size, min(records, evaluates))


def check_output(description: Description) -> None:
    """What is made in the end can be put where it is to go."""
    if not description.output:
        return
    output, makes_folder = Path(description.output), description.task == "train"
    if "://" in description.output:
        raise InvalidRequest(f"--output {description.output} is a URL", hint="use a path that workers can write to")
    if output.exists() and output.is_dir() is not makes_folder:
        raise InvalidRequest(f"--output {output} is {'not ' if makes_folder else ''}a directory")
    at = (output, *output.absolute().parents) if makes_folder else output.absolute().parents
    there = next(folder for folder in at if folder.exists())
    if problem := write_problem(there):
        raise InvalidRequest(f"--output {output} cannot be written: {there}: {problem}", hint="choose another path")


def _check_names(file: ModelFile, description: Description, callbacks: list[Any], names: list[str]) -> None:
    """Of metrics that are to be watched."""
    known = f"known: {', '.join(names)}"
    if (monitor := description.evaluation.monitor) and monitor not in names:
        raise InvalidRequest(f"--best-metric: unknown metric {monitor!r}", hint=known)
    for callback in callbacks:
        if isinstance(callback, EarlyStopping) and callback.monitor not in names:
            where = file.where("callbacks")
            raise InvalidRequest(
                f"{where}: EarlyStopping monitors {callback.monitor!r}, which is not a metric", hint=known
            )


def _sample(
    file: ModelFile, description: Description, sources: list[str], mode: Mode, option: str
) -> tuple[DataReader, Batch | None]:
    name = file.name_of("dataset_fn")
    reader = _open(file, description, sources, option)
    try:
        feed = Feed(file, reader, mode)
        for maximum in SAMPLE_RECORDS:
            if (batch := feed.batch_of(range(min(maximum, len(reader))))) is not None:
                break
    except RecordError as error:
        line = location_of(error.__cause__ or error, file.path)
        raise InvalidRequest(f"{line}: {name} failed on {error.message}") from error
    except PliantError:
        raise
    except Exception as error:  # the user's function
        raise InvalidRequest(f"{location_of(error, file.path)}: {name} failed: {described(error)}") from error
    return reader, batch


def _open(file: ModelFile, description: Description, sources: list[str], option: str) -> DataReader:
    try:
        reader = open_data(file, description, sources)
        empty = not len(reader)
    except (NotFound, CorruptData, OSError) as error:
        message = error.message if isinstance(error, PliantError) else str(error)
        raise InvalidRequest(f"{option}: {message}", hint=getattr(error, "hint", "")) from error
    except (TypeError, ValueError) as error:
        if not description.data_options:
            raise
        given = ", ".join(f"{name}={value!r}" for name, value in description.data_options.items())
        raise InvalidRequest(f"{option} cannot be opened with --data-options {given}: {described(error)}") from error
    if empty:
        raise InvalidRequest(f"{option} {', '.join(sources)} has no records")
    return reader


def _make(file: ModelFile, description: Description, sample: Batch | None) -> nn.Module:
    """The model, and with it whatever is made from a model."""
    net = make_model(file, seed=description.seed, sample=sample)
    if description.trained:
        put_state(net, load_trained(description.trained)[0], description.trained)
    if description.task == "train":
        check_tables(net, description)
        if description.strategy.startswith("ps"):
            from pliant.native.strategies.server_specs import server_specs

            server_specs(file, net)
        else:
            make_scheduler(file, file.make_optimizer(net))
    return net.eval()


def _predict(file: ModelFile, net: nn.Module, batch: Batch) -> Any:
    name = file.model_class or "custom_model"
    check_arguments(file, net, batch)
    try:
        predictions = file.call_as(name, predict, net, batch.features)
    except InvalidRequest as error:
        if not batch.is_pair_assumed:
            raise
        raise InvalidRequest(f"{error.message}; {PAIR_ASSUMED}", hint=error.hint or HOW_TO_YIELD_TWO) from error
    try:
        as_arrays(predictions)
    except InvalidRequest as error:
        raise InvalidRequest(
            f"{file.path}:{file.lines.get(name, 1)}: the value returned by {name}: {error.message}"
        ) from None
    return predictions


def _try(file: ModelFile, net: nn.Module, batch: Batch, *, learns: bool) -> None:
    """Model and loss on one batch, without learning from it."""
    with torch.set_grad_enabled(learns):
        predictions = _predict(file, net, batch)
        if file.get("loss") is None or batch.labels is None:
            return
        made = file.call_as("loss", loss_of, file, batch.labels, predictions)
    if not made.is_floating_point():
        raise InvalidRequest(f"{file.where('loss')}: loss must return floats; it returned {made.dtype}")
    if learns and not made.requires_grad:
        raise InvalidRequest(
            f"{file.where('loss')}: the loss does not depend on the model's parameters",
            hint="compute it from the predictions with torch functions, without detach() or no_grad()",
        )


def _ends_with_one(description: Description, reader: DataReader) -> bool:
    """Whether some batch of an epoch will have a single record, as what is left over."""
    size, count = description.micro_batch, len(reader)
    if 0 < description.max_steps * description.batch_size <= count:
        return False
    by_files = description.strategy.startswith("ps")  # shards do not reach over the end of a file
    return any(size == 1 or n % size == 1 for n in (reader.create_shards().values() if by_files else (count,)))


def _try_one(file: ModelFile, net: nn.Module, batch: Batch | None) -> None:
    """Some models cannot train on one record: batch norm without anything to take a mean of, or a squeeze too many."""
    if batch is None:
        return
    try:
        with torch.no_grad():
            loss_of(file, batch.labels, predict(net.train(), batch.features))
    except PliantError:
        raise
    except Exception as error:  # the user's model
        location = location_of(error, file.path)
        raise InvalidRequest(
            f"{location}: the last batch of an epoch has one record, and training on a single record fails: {described(error)}",
            hint="choose a --batch-size that leaves no single record over",
        ) from error
    finally:
        net.eval()


def _check_features(net: nn.Module, batch: Batch) -> None:
    """That tables on parameter servers take their ids from."""
    from pliant.torch.tables.embedding import tables_of

    for name, table in tables_of(net).items():
        if table.feature is not None:
            feature_of(batch.features, table.feature, name)


def _evaluate(file: ModelFile, net: nn.Module, batch: Batch, metrics: dict[str, Metric]) -> int:
    """Metrics on one batch; returns the bytes of their states.

    Some are defined for many records only: a value that cannot be computed of a few is no mistake.
    """
    size = 0
    if batch.labels is None:
        raise InvalidRequest(f"{file.where('dataset_fn')}: it yields no labels in mode eval, but metrics need them")
    with torch.no_grad():
        labels, predictions = as_arrays(batch.labels), as_arrays(_predict(file, net, batch))
    for name, metric in metrics.items():
        where = file.where("eval_metrics_fn")
        try:
            state = metric.state(labels, predictions)
            packed = pack_states({name: state})
            size += len(packed)
            sent = unpack_states(packed)[name]
            metric.value(metric.merge(sent, sent))
        except InvalidRequest as error:
            raise InvalidRequest(f"{where}: metric {name!r}: {error.message}", hint=error.hint) from error
        except (ValueError, ArithmeticError):
            continue
        except Exception as error:  # the user's metric
            location = location_of(error, file.path, where)
            raise InvalidRequest(f"{location}: metric {name!r} failed: {described(error)}") from error
    return size
