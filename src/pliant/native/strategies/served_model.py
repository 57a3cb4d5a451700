"""A worker's copy of a model that parameter servers have: filled for each batch, thrown away with it.

Synchronous: the servers send the dense parameters of each new iteration as soon as they have it (``pliant.ps.following``),
and the rows of the batch are pulled, of the same iteration. A gradient on anything but the newest iteration would be dropped, so
when a newer one comes in the middle of a batch, the batch is begun anew at the next module or gradient, not computed to its end.
Asynchronous: everything is pulled when a batch begins; what comes meanwhile makes the gradient older, not worthless.

Tables that say in which feature their ids are have their rows fetched with the batch; others ask when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from pliant.core.errors import RetryableError
from pliant.native.feed import Batch
from pliant.native.models import feature_of, predict
from pliant.ps.client import PsClient
from pliant.ps.following import ModelStream
from pliant.ps.pieces import Floats, Ids
from pliant.torch.embedding import tables_of

Loss = Callable[[Any, Any], torch.Tensor]  # of labels and predictions


class ServedModel:
    def __init__(self, client: PsClient, model: nn.Module, trained: dict[str, nn.Parameter]) -> None:
        """``trained``: the parameters that the servers have, by their names there."""
        self.iteration = 0  # that the batch in work is computed on
        self.begun_anew = 0  # batches, because the servers went on
        self._client = client
        self._model = model
        self._trained = trained
        self._tables = tables_of(model)
        self._ordered = 0  # an iteration that the servers have, or will have in a moment
        self._fetched: dict[str, tuple[Ids, Floats]] = {}  # of the batch in work: distinct ids, sorted, and their rows
        for name, table in self._tables.items():
            table.attach(_Rows(self, name))
        self._stream: ModelStream | None = None
        self._computing = False
        if client.sync and trained:
            self._stream = client.follow(list(trained))
            for module in model.modules():
                module.register_forward_pre_hook(self._check)
            for parameter in trained.values():
                parameter.register_post_accumulate_grad_hook(self._check)  # type: ignore[no-untyped-call]

    @property
    def newest(self) -> int:
        """The newest iteration that this worker knows of."""
        return max(self._ordered, self.iteration, self._client.iteration)

    def compute(self, batch: Batch, loss: Loss) -> float:
        """Leaves the gradients in the model and its tables; ``iteration`` is what they were computed on."""
        before = [(buffer, buffer.clone()) for buffer in self._model.buffers()]
        while True:
            try:
                self._fetch(batch)
                return self._compute(batch, loss)
            except _NewerModel:
                self.begun_anew += 1
                with torch.no_grad():
                    for buffer, value in before:  # what a batch norm saw counts once
                        buffer.copy_(value)

    def _compute(self, batch: Batch, loss: Loss) -> float:
        self._model.train()
        self._model.zero_grad(set_to_none=True)
        for table in self._tables.values():
            table.take_gradients()  # of a batch that was not finished
        self._computing = True
        try:
            value = loss(batch.labels, predict(self._model, batch.features))
            value.backward()  # type: ignore[no-untyped-call]
        finally:
            self._computing = False
        return float(value.detach())

    def gradients(self) -> tuple[dict[str, Floats], dict[str, tuple[Ids, Floats]]]:
        """Of dense parameters, and of rows by table."""
        dense = {n: p.grad.detach().cpu().numpy() for n, p in self._trained.items() if p.grad is not None}
        rows = {name: table.take_gradients() for name, table in self._tables.items()}
        return dense, {name: pair for name, pair in rows.items() if pair is not None}

    def ordered(self, iteration: int) -> None:
        """The master has ordered this iteration: an older one is of no use any more."""
        self._ordered = max(self._ordered, iteration)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    # --- what a batch needs

    def _fetch(self, batch: Batch) -> None:
        wanted = {}
        for name, table in self._tables.items():
            if table.feature is not None:
                ids = torch.as_tensor(feature_of(batch.features, table.feature, name)).reshape(-1)
                kept = ids if table.padding_idx is None else ids[ids != table.padding_idx]
                wanted[name] = table.distinct(kept)[0].numpy()
        rows = self._pull(wanted) if self._stream is None else self._take(self._stream, wanted)
        self._fetched = {name: (ids, rows[name]) for name, ids in wanted.items()}

    def _pull(self, wanted: dict[str, Ids]) -> dict[str, Floats]:
        found = self._client.pull(wanted, dense=list(self._trained))
        self._fill(found.iteration, found.dense)
        return found.rows

    def _take(self, stream: ModelStream, wanted: dict[str, Ids]) -> dict[str, Floats]:
        """Dense parameters that have come, and rows of the same iteration."""
        while True:
            with stream.model(self._ordered) as model:
                self._fill(model.iteration, model.dense)
            if not any(ids.size for ids in wanted.values()):
                return {name: np.empty((0, self._tables[name].spec.dim), np.float32) for name in wanted}
            found = self._client.pull(wanted, dense=[], at_least=self.iteration)
            if found.iteration == self.iteration:
                return found.rows
            self.ordered(found.iteration)

    def _fill(self, iteration: int, dense: dict[str, Floats]) -> None:
        self.iteration = iteration
        with torch.no_grad():
            for name, parameter in self._trained.items():
                parameter.copy_(torch.from_numpy(dense[name]))

    def rows_of(self, table: str, ids: Ids) -> Floats:
        """For a module that asks while it computes."""
        if not ids.size:  # all of them are padding
            return np.empty((0, self._tables[table].spec.dim), np.float32)
        had, rows = self._fetched.get(table, (None, None))
        if had is not None and rows is not None and had.size:
            places = np.minimum(np.searchsorted(had, ids), had.size - 1)
            if np.array_equal(had[places], ids):
                return np.ascontiguousarray(rows[places])
        found = self._client.pull({table: ids}, dense=[], at_least=self.iteration)
        if self._client.sync and found.iteration != self.iteration:
            self.ordered(found.iteration)
            raise _NewerModel
        return found.rows[table]

    def _check(self, *_: Any) -> None:
        """A hook of modules and parameters: as often as the work can be left."""
        if self._computing and self._stream is not None and self._stream.newest > self.iteration:
            self.ordered(self._stream.newest)
            raise _NewerModel


class _NewerModel(RetryableError):
    """The servers went on while a batch was computed, whose gradient would be dropped."""

    def __init__(self) -> None:
        super().__init__("the model changed in the middle of a batch")


class _Rows:
    """Rows of one table, for its module."""

    def __init__(self, served: ServedModel, table: str) -> None:
        self._served = served
        self._table = table

    def pull(self, ids: Ids) -> Floats:
        return self._served.rows_of(self._table, ids)
