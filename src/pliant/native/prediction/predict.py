"""``pliant predict``: the model's prediction for each record, once, in the order of the records, in one file.

Each shard's rows are a *part*: a file that is written whole, and that counts only if the master accepts the shard with the part's
name. So there is one part per shard whoever died, and a part that lost the race is never read. When all shards are done one
worker concatenates the parts, in order, and renames the result; if it dies another starts that again.

A row has ``id``, the global index of its record, and the columns of the prediction. ``PredictionOutputsProcessor.process`` of the
model file may return rows of its own for a batch; its side effects may repeat after a failure.
"""

from __future__ import annotations

import inspect
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pliant.client.job import Job
from pliant.client.notes import read_notes
from pliant.core.errors import InvalidRequest
from pliant.data import DataReader
from pliant.data.packing import pack_row
from pliant.data.recordio.reader import RecordIOReader
from pliant.data.recordio.writer import RecordIOWriter
from pliant.native.failures import failing_permanently
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.description import EVAL_SHARD_BATCHES, Description
from pliant.native.model_file.feed import Feed, Mode, first_batch, open_data
from pliant.native.model_file.models import as_arrays, check_arguments, make_model
from pliant.native.model_file.models import predict as run_model
from pliant.native.model_file.saved_models import load_trained, put_state
from pliant.native.prediction.outputs import parts_folder, write_output

log = logging.getLogger(__name__)

DATASET, END = "predict", "predict-end"


def predict(description: Description, file: ModelFile, job: Job) -> None:
    reader = open_data(file, description, description.data)
    state, _ = load_trained(description.trained)
    model = make_model(file, seed=description.seed, sample=first_batch(file, reader, description))
    put_state(model, state, description.trained)
    output = Path(description.output)
    parts = parts_folder(output, job.name)
    parts.mkdir(parents=True, exist_ok=True)
    size = description.shard_size or EVAL_SHARD_BATCHES * description.batch_size
    files = [(name, 0, count) for name, count in reader.create_shards().items()]
    work = Predictor(file, reader, model.eval(), description, job.node)
    for shard in job.shards(DATASET, files=files, shard_size=size, type="predict", acknowledge=False, prefetch=1):
        name = f"{shard.session.replace('/', '-')}-{shard.lease}.rio"
        with failing_permanently(partial(str, shard)), RecordIOWriter(parts / name) as part:
            for row in work.rows(list(reader.positions(shard))):
                part.write(pack_row(row))
        shard.done(name.encode())
    for end in job.shards(END, size=1, type="predict", prefetch=1):
        names = [note.data.decode() for note in read_notes(job.session(), DATASET)]
        log.info("concatenating %d parts", len(names))
        with failing_permanently(lambda: f"--output {output}"):
            write_output(output, description.output_format, _rows(parts, names), parts)
        end.commit()
    shutil.rmtree(parts, ignore_errors=True)


class Predictor:
    """Rows of records."""

    def __init__(
        self, file: ModelFile, reader: DataReader, model: nn.Module, description: Description, node: str
    ) -> None:
        self._file = file
        self._reader = reader
        self._model = model
        self._batch = description.batch_size
        self._format = description.output_format
        self._node = node
        self._feed = Feed(file, reader, Mode.PREDICTION)
        processor = file.get("PredictionOutputsProcessor")
        self._processor = file.call(processor) if processor is not None else None
        takes = inspect.signature(self._processor.process).parameters if self._processor is not None else {}
        self._wants_ids = "ids" in takes
        self._is_checked = False  # that the model takes the features as arguments

    def rows(self, positions: Sequence[int]) -> Iterator[Any]:
        with torch.no_grad():
            for at in range(0, len(positions), self._batch):
                some = positions[at : at + self._batch]
                batch = self._feed.batch_of(some)
                if batch is not None:
                    if not self._is_checked:
                        check_arguments(self._file, self._model, batch)
                        self._is_checked = True
                    yield from self._of(as_arrays(run_model(self._model, batch.features)), batch.ids)

    def _of(self, predictions: Any, ids: list[int]) -> list[Any]:
        if self._processor is None:
            return make_rows(predictions, ids)
        more = {"ids": ids} if self._wants_ids else {}
        made = self._processor.process(predictions, self._node, **more)
        if made is None:
            return make_rows(predictions, ids)
        where = self._file.where("PredictionOutputsProcessor")
        rows = list(made) if isinstance(made, Iterable) else [made]
        if len(rows) != len(ids):
            raise InvalidRequest(
                f"{where}: process returned {len(rows)} rows for {len(ids)} records",
                hint="return one row per record, or None to write the predictions unchanged",
            )
        if self._format != "recordio" and any(isinstance(row, bytes) for row in rows):
            raise InvalidRequest(
                f"{where}: process returned bytes, which only RecordIO can hold", hint="use an output file *.rio"
            )
        return [self._named(row, number) for row, number in zip(rows, ids, strict=True)]

    @staticmethod
    def _named(row: Any, number: int) -> Any:
        if isinstance(row, bytes):
            return row
        named = (
            {str(name): value for name, value in row.items()} if isinstance(row, dict) else {"prediction": _value(row)}
        )
        return {"id": number, **named}


def make_rows(predictions: Any, ids: Sequence[int]) -> list[dict[str, Any]]:
    """One dictionary per record: ``prediction``, or a column per output of a model that has several."""
    if isinstance(predictions, dict):
        columns = {str(name): value for name, value in predictions.items()}
    elif isinstance(predictions, tuple):
        columns = {f"prediction_{i}": value for i, value in enumerate(predictions)}
    else:
        columns = {"prediction": predictions}
    return [{"id": number, **{n: _value(c[i]) for n, c in columns.items()}} for i, number in enumerate(ids)]


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        plain = value.tolist()
        return plain[0] if isinstance(plain, list) and np.shape(value) == (1,) else plain
    return value


def _rows(parts: Path, names: Sequence[str]) -> Iterator[bytes]:
    for name in names:
        with RecordIOReader(parts / name) as part:
            yield from (bytes(record) for record in part)
