"""The check before a launch: the model file's contract, and one small batch through everything that training will call.

Where the data cannot be read from here (it is on the cluster's storage, say) the batch is left out, and so said.
"""

from __future__ import annotations

from pathlib import Path

import torch

from pliant.core.errors import CorruptData, InvalidRequest, NotFound, PliantError
from pliant.data import DataReader
from pliant.data.errors import RecordError
from pliant.native.contract import ModelFile, load_model_file
from pliant.native.description import Description
from pliant.native.feed import Batch, Feed, Mode, open_data
from pliant.native.metrics import as_metrics
from pliant.native.models import as_arrays, check_tables, load_trained, loss_of, make_model, predict, put_state
from pliant.native.module_files import described, place_of

RECORDS = 4
MODES = {"train": Mode.TRAINING, "evaluate": Mode.EVALUATION, "predict": Mode.PREDICTION}


def check(description: Description, model: Path, *, data_is_here: bool = True) -> None:
    """Raise the first thing that would go wrong."""
    file = load_model_file(model, description.model_class, task=description.task, model_params=description.model_params)
    metrics = file.get("eval_metrics_fn")
    if metrics is not None:
        as_metrics(file.call(metrics), file.where("eval_metrics_fn"))
    file.make_callbacks()
    if not data_is_here:
        return
    sample = _sample(file, description, description.data, MODES[description.task], "--data")
    if description.eval_data:
        _sample(file, description, description.eval_data, Mode.EVALUATION, "--eval-data")
    _try(file, description, sample)


def _sample(file: ModelFile, description: Description, sources: list[str], mode: Mode, option: str) -> Batch | None:
    try:
        reader: DataReader = open_data(file, description, sources)
        if not len(reader):
            raise InvalidRequest(f"{option} {', '.join(sources)} has no records")
        count = min(RECORDS, len(reader))
        records = list(enumerate(reader.fetch(range(count))))
    except (NotFound, CorruptData, FileNotFoundError) as error:
        message = error.message if isinstance(error, PliantError) else str(error)
        raise InvalidRequest(f"{option}: {message}", hint=getattr(error, "hint", "")) from error
    name = file.name_of("dataset_fn")
    try:
        return Feed(file, reader, mode).batch(records)
    except RecordError as error:
        line = place_of(error.__cause__ or error, file.path)
        raise InvalidRequest(f"{line}: {name} failed on {error.message}") from error
    except PliantError:
        raise
    except Exception as error:  # the user's function
        raise InvalidRequest(f"{place_of(error, file.path)}: {name} failed: {described(error)}") from error


def _try(file: ModelFile, description: Description, sample: Batch | None) -> None:
    """Model, loss and optimizer on one batch, without learning from it."""
    net = make_model(file, seed=description.seed, sample=sample)
    if description.trained:
        put_state(net, load_trained(description.trained)[0], description.trained)
    if description.task == "train":
        file.make_optimizer(net)
        check_tables(net, description)
        if description.strategy.startswith("ps"):
            from pliant.native.server_specs import server_specs

            server_specs(file, net)
    if sample is None:
        return
    net.eval()
    with torch.no_grad():
        predictions = file.call(predict, net, sample.features)
        as_arrays(predictions)
        if file.get("loss") is not None and sample.labels is not None:
            made = file.call(loss_of, file, sample.labels, predictions)
            if not made.is_floating_point():
                raise InvalidRequest(f"{file.where('loss')}: loss must give floats; it gives {made.dtype}")
