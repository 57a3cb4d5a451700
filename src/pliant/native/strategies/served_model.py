"""A worker's copy of a model that parameter servers have: filled for each batch, thrown away with it.

Synchronous: the servers send the dense parameters of each new iteration as soon as they have it
(``pliant.ps.client.model_stream``),
and the rows of the batch are pulled, of the same iteration. A gradient on anything but the newest iteration would be dropped, so
when a newer one comes in the middle of a batch, the batch is restarted at the next module or gradient, not computed to its end.
Modules that torch compiles are not left in their middle. What a batch that does not count left in the model is put back (``undo``).
Asynchronous: dense parameters are pulled when a batch begins; what comes meanwhile makes the gradient older, not worthless.

Tables that say in which feature their ids are have their rows fetched with the batch; others ask when they are called. With
asynchronous training on servers of other machines the rows of the next batch are fetched while one is computed
(``prefetching``), until a gradient is refused as too old. Servers of the same machine answer sooner than a thread is woken up.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from torch import nn

from pliant.core.errors import RetryableError
from pliant.files.time_meter import time_meter
from pliant.native.model_file.feed import Batch
from pliant.native.model_file.models import feature_of, is_keras, predict
from pliant.ps.client.client import PsClient
from pliant.ps.client.model import Model
from pliant.ps.client.model_stream import ModelStream
from pliant.ps.client.prefetch import RowPrefetcher
from pliant.ps.payloads import Floats, Ids
from pliant.torch.tables.embedding import tables_of

Loss = Callable[[Any, Any], torch.Tensor]  # of labels and predictions


class ServedModel:
    def __init__(self, client: PsClient, model: nn.Module, trained: dict[str, nn.Parameter]) -> None:
        """``trained``: the parameters that the servers have, by their names there."""
        self.iteration = 0  # that the current batch is computed on
        self.restarted_batches = 0  # because the servers had a newer iteration
        self._client = client
        self._model = model
        self._trained = trained
        self._tables = tables_of(model)
        self._ordered = 0  # the newest iteration that the master has ordered
        self._fetched: dict[str, tuple[Ids, Floats]] = {}  # of the current batch: distinct ids and their rows
        for name, table in self._tables.items():
            table.attach(_Rows(self, name))
        self._prefetcher: RowPrefetcher | None = None
        self._prefetched: list[tuple[Batch, Future[Model]]] = []  # batches that follow, and their rows
        if not client.sync and self._features_known() and client.is_remote():
            self._prefetcher = client.ahead()
        self._stream: ModelStream | None = None
        self._computing = False
        self._keras = any(is_keras(module) for module in model.modules())
        self._abandoned = False  # the current batch, for a newer model
        self._before: dict[str, torch.Tensor] = {}  # what a batch changes besides gradients, as it was before
        if client.sync and trained:
            self._stream = client.follow(list(trained))
            watch = _Watch(self)
            for module in model.modules():
                if not isinstance(module, torch.jit.ScriptModule):  # those take no hooks
                    module.register_forward_pre_hook(watch)
            for parameter in trained.values():
                parameter.register_post_accumulate_grad_hook(watch)  # type: ignore[no-untyped-call]

    def _features_known(self) -> bool:
        return any(table.feature is not None for table in self._tables.values())

    @property
    def newest(self) -> int:
        """The newest iteration that this worker knows of."""
        return max(self._ordered, self.iteration, self._client.iteration)

    def compute(self, batch: Batch, loss: Loss) -> float:
        """Leaves the gradients in the model and its tables; ``iteration`` is what they were computed on."""
        self._before = {name: value.detach().clone() for name, value in self._changing()}
        meter = time_meter()
        while True:
            self._abandoned = False
            try:
                self._fetch(batch)
                began = meter.busy()
                value = self._compute(batch, loss)
            except Exception:  # the model's own code may make another error of _NewerModel, as Keras does
                if not self._abandoned:
                    raise
            if not self._abandoned:
                meter.unit(meter.busy() - began)
                return value
            self.restarted_batches += 1
            self.undo()

    @property
    def has_buffers(self) -> bool:
        """Whether a batch changes more than gradients: then what became of it has to be known before the next one."""
        return next(self._changing(), None) is not None

    def undo(self) -> None:
        """The last batch does not count, or not yet: what a batch norm saw counts once."""
        with torch.no_grad():
            for name, value in self._changing():
                if name in self._before:
                    before = self._before[name]
                    if value.shape == before.shape:
                        value.copy_(before)
                    else:
                        value.data = before.clone()

    def _changing(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Buffers; and of Keras models the parameters that are not trained, since their moving means are there."""
        yield from self._model.named_buffers()
        for name, parameter in self._model.named_parameters() if self._keras else ():
            if not parameter.requires_grad and name not in self._trained:
                yield name, parameter

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

    def prefetching(self, batches: Iterator[tuple[Batch, int]]) -> Iterator[tuple[Batch, int]]:
        """The same batches; while one is computed, the rows of the next are fetched."""
        self._prefetched = []
        following = next(batches, None)
        while following is not None:
            given, following = following, next(batches, None) if self._prefetcher is not None else None
            if self._prefetcher is not None and following is not None:
                self._prefetched.append((following[0], self._prefetcher.ask(self._wanted(following[0]))))
            yield given
            self._prefetched = [coming for coming in self._prefetched if coming[0] is not given[0]]
            if following is None:
                following = next(batches, None)

    def stop_prefetching(self) -> None:
        """Gradients were refused as stale: rows are no longer prefetched."""
        prefetcher, self._prefetcher, self._prefetched = self._prefetcher, None, []
        if prefetcher is not None:
            prefetcher.close()

    def close(self) -> None:
        self.stop_prefetching()
        if self._stream is not None:
            self._stream.close()

    # --- what a batch needs

    def _fetch(self, batch: Batch) -> None:
        wanted = self._wanted(batch)
        rows = self._pull(batch, wanted) if self._stream is None else self._take(self._stream, wanted)
        self._fetched = {name: (ids, rows[name]) for name, ids in wanted.items()}

    def _wanted(self, batch: Batch) -> dict[str, Ids]:
        """By table the distinct ids of a batch."""
        wanted = {}
        for name, table in self._tables.items():
            if table.feature is not None:
                wanted[name] = table.places(torch.as_tensor(feature_of(batch.features, table.feature, name))).ids
        return wanted

    def _pull(self, batch: Batch, wanted: dict[str, Ids]) -> dict[str, Floats]:
        asked = next((rows for coming, rows in self._prefetched if coming is batch), None)
        with time_meter().peers:
            came = None if asked is None else asked.result()
        found = self._client.pull({} if came else wanted, dense=list(self._trained))
        self._fill(min(found.iteration, came.iteration) if came else found.iteration, found.dense)
        return came.rows if came else found.rows

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
        if had is ids and rows is not None:  # the same tensor of ids: see ``lookup``
            return rows
        if had is not None and rows is not None and had.size:
            order = np.argsort(had)
            found_at = order[np.minimum(np.searchsorted(had, ids, sorter=order), had.size - 1)]
            if np.array_equal(had[found_at], ids):
                return np.ascontiguousarray(rows[found_at])
        found = self._client.pull({table: ids}, dense=[], at_least=self.iteration)
        if self._client.sync and found.iteration != self.iteration:
            self._leave(found.iteration)
        return found.rows[table]

    def check(self) -> None:
        """As often as the work can be left."""
        if self._computing and self._stream is not None and self._stream.newest > self.iteration:
            self._leave(self._stream.newest)

    def _leave(self, newer: int) -> None:
        self.ordered(newer)
        self._abandoned = True
        raise _NewerModel("the model changed in the middle of a batch")


class _NewerModel(RetryableError):
    """The servers have a newer iteration; the gradient of the current batch would be dropped."""


class _Watch:
    """A hook of modules and parameters. In a copy of the model, or one that was pickled, it does nothing."""

    def __init__(self, served: ServedModel | None = None) -> None:
        self._served = (lambda: None) if served is None else weakref.ref(served)

    def __call__(self, *_: Any) -> None:
        if torch.compiler.is_compiling():  # what is compiled must not depend on the iteration
            return
        if (served := self._served()) is not None:
            served.check()

    def __reduce__(self) -> tuple[type[_Watch], tuple[()]]:
        return _Watch, ()


class _Rows:
    """Rows of one table, for its module."""

    def __init__(self, served: ServedModel, table: str) -> None:
        self._served = served
        self._table = table

    def pull(self, ids: Ids) -> Floats:
        return self._served.rows_of(self._table, ids)

    def __deepcopy__(self, _: dict[int, Any]) -> _Rows:
        """A copy of the model uses the rows of the servers too."""
        return self
