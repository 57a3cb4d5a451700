"""Training with parameter servers: ``ps-sync`` and ``ps-async``.

The servers have the model; a worker has a copy for the batch that it works on. For each batch of a leased shard it pulls what the
batch needs, computes the gradient, and contributes it together with the records it is of: one decision of the master, so a record
counts once whoever dies. A gradient that is dropped as too old is computed again, of the same records on the newer model.

The modules of ``pliant.torch`` with tables ask for rows when they are called, or all at once with the dense parameters if they say
in which feature their ids are. In sync mode a worker that sees a newer model in the middle of a batch begins the batch anew.

A version is an iteration. To be evaluated or exported it is dumped by the servers and written as one model; a lock beside the
versions lets one worker do it, and another if that one dies.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pliant.client.shards import Shard
from pliant.core.errors import CorruptData, NotFound, RetryableError
from pliant.native.feed import Batch, Feed, Mode
from pliant.native.models import (
    check_tables,
    describe_file,
    feature_of,
    load_trained,
    loss_of,
    make_model,
    predict,
    put_state,
    save_model,
)
from pliant.native.server_specs import server_specs
from pliant.native.server_state import state_of_dump
from pliant.native.strategies.base import TRAIN, Strategy, Work
from pliant.platforms.durable_files import FileLock, write_text
from pliant.ps.client import Contributed
from pliant.ps.pieces import Floats, Ids
from pliant.rpc import pliant_pb2 as pb
from pliant.torch.embedding import tables_of

log = logging.getLogger(__name__)

SHARD_BATCHES = 8  # of training, in one shard
DUMP_SECONDS = 120.0  # of one call; it is made again


class ServerStrategy(Strategy):
    def __init__(self, work: Work) -> None:
        super().__init__(work)
        about = work.description
        self.model: nn.Module = make_model(work.file, seed=about.seed, sample=work.sample)
        self._tables = tables_of(self.model)
        if about.trained:
            check_tables(self.model, about)
            put_state(self.model, load_trained(about.trained)[0], about.trained)
        self._first = {name: p.detach().cpu().numpy().copy() for name, p in self.model.named_parameters()}
        specs = server_specs(work.file, self.model)
        self._trained = {name: p for name, p in self.model.named_parameters() if name in specs.variables}
        self._client = work.job.parameters()
        self._client.define([*specs.tables.values(), *specs.variables.values()])
        self._client.initialize({name: self._first[name] for name in self._trained})
        if specs.rates is not None:
            self._client.schedule(specs.rates)
        self._iteration = 0  # of the model that the batch in work is computed on
        self._fetched: dict[str, tuple[Ids, Floats]] = {}  # of the batch in work: distinct ids, sorted, and their rows
        for name, module in self._tables.items():
            module.attach(_Rows(self, name))
        self._evaluated: nn.Module | None = None
        self._evaluated_version = -1
        self._epoch = 0

    # --- training

    def train(self) -> None:
        about, work = self.work.description, self.work
        feed = Feed(work.file, work.reader, Mode.TRAINING)
        work.hooks.begin(self.model)
        shards = work.job.shards(
            TRAIN,
            files=[(part, 0, size) for part, size in work.reader.create_shards().items()],
            shard_size=about.shard_size or SHARD_BATCHES * about.micro_batch,
            epochs=about.epochs,
            shuffle=about.shuffle,
            seed=about.seed,
            epoch_barrier=work.hooks.evaluates and about.evaluation.every_epochs > 0,
            prefetch=1,
            acknowledge=False,
        )
        with shards:
            for shard in shards:
                self._new_epoch(shard.epoch)
                self._learn(shard, feed)
                if self._is_over():
                    work.hooks.commit(TRAIN, 0, end=True)
                    break
            else:
                self._end_last_epochs()
        self.finish()

    def _is_over(self) -> bool:
        most = self.work.description.max_steps
        return bool(self.work.hooks.stop_reason) or bool(most and self._client.iteration >= most)

    def _end_last_epochs(self) -> None:
        """No more records come: all epochs are over, unless training was ended early."""
        about, hooks = self.work.description, self.work.hooks
        if hooks.stop_reason or 0 < about.max_steps <= self._client.latest():
            return
        for ended in range(self._epoch, about.epochs):
            hooks.after_epoch(ended)

    def _learn(self, shard: Shard, feed: Feed) -> None:
        reader, size = self.work.reader, self.work.description.micro_batch
        positions = list(reader.positions(shard))
        for at in range(0, len(positions), size):
            some = positions[at : at + size]
            batch = feed.batch(list(zip(some, reader.fetch(some), strict=True)))
            if batch is None:  # dataset_fn dropped all of them: done with the next gradient, or below
                continue
            told, loss = self._contribute(batch, shard, at + len(some))
            if not told.accepted:
                log.info("%s is given back: %s", shard, told.reason)  # another's now, or nobody's: training is over
                shard.release()
                return
            self._after(told.iteration, loss, shard.epoch, batch.size)
            if self._is_over() and not shard.finished:
                shard.release()
                return
        shard.done()

    def _contribute(self, batch: Batch, shard: Shard, done: int) -> tuple[Contributed, float]:
        """Until the gradient of these records is taken, or they are another's."""
        while True:
            try:
                loss = self._compute(batch)
            except _NewerModel:
                continue
            rows = {name: table.take_gradients() for name, table in self._tables.items()}
            told = self._client.push(
                self._iteration,
                examples=batch.size,
                dense={n: p.grad.detach().cpu().numpy() for n, p in self._trained.items() if p.grad is not None},
                rows={name: pair for name, pair in rows.items() if pair is not None},
                shards=[(shard, done)],
            )
            if not told.stale:
                return told, loss
            log.debug("computes %d records again: %s", batch.size, told.reason)

    def _compute(self, batch: Batch) -> float:
        """Leaves the gradients in the model."""
        self._pull(batch)
        self.model.train()
        self.model.zero_grad(set_to_none=True)
        loss = loss_of(self.work.file, batch.labels, predict(self.model, batch.features))
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _pull(self, batch: Batch) -> None:
        """All that is dense, and the rows of tables that say in which feature their ids are."""
        wanted = {}
        for name, table in self._tables.items():
            if table.feature is not None:
                ids = torch.as_tensor(feature_of(batch.features, table.feature, name)).reshape(-1)
                kept = ids if table.padding_idx is None else ids[ids != table.padding_idx]
                wanted[name] = table.distinct(kept)[0].numpy()
        found = self._client.pull(wanted, dense=list(self._trained))
        self._iteration = found.iteration
        with torch.no_grad():
            for name, parameter in self._trained.items():
                parameter.copy_(torch.from_numpy(found.dense[name]))
        self._fetched = {name: (ids, found.rows[name]) for name, ids in wanted.items()}

    def rows_of(self, table: str, ids: Ids) -> Floats:
        had, rows = self._fetched.get(table, (None, None))
        if had is not None and rows is not None and had.size:
            places = np.minimum(np.searchsorted(had, ids), had.size - 1)
            if np.array_equal(had[places], ids):
                return np.ascontiguousarray(rows[places])
        found = self._client.pull({table: ids}, dense=[], at_least=self._iteration)
        if self._client.sync and ids.size and found.iteration != self._iteration:
            raise _NewerModel
        return found.rows[table]

    # --- versions

    def _after(self, version: int, loss: float, epoch: int, records: int) -> None:
        hooks, every = self.work.hooks, self.work.description.evaluation.every_steps
        self.work.job.report_step(version, records=records, loss=loss)
        crossed = every > 0 and version // every > max(hooks.watch.state.due, 0) // every
        if hooks.evaluates and (crossed or hooks.is_time()):
            with self._alone(wait=False) as alone:
                due = max(hooks.watch.refresh().due, 0) if alone else 0  # another may have been faster
                if alone and (version // every > due // every if crossed else hooks.is_time()):
                    hooks.report(self._save(), evaluate=True)
        hooks.after_step(version, loss, epoch=epoch, ends_epoch=False)

    def _new_epoch(self, epoch: int) -> None:
        """Before the first record of an epoch that this worker sees, all of the epochs before are done."""
        if epoch <= self._epoch:
            return
        before, self._epoch = self._epoch, epoch
        hooks, every = self.work.hooks, self.work.description.evaluation.every_epochs
        if hooks.evaluates and every > 0 and epoch % every == 0:
            with self._alone(wait=True):
                told = self.work.versions.folder / f"epoch-{epoch}"
                if not told.exists():
                    version = self._save()
                    hooks.report(version, evaluate=True)
                    write_text(told, str(version))
        for ended in range(before, epoch):
            hooks.after_epoch(ended)

    def finish(self) -> None:
        """All records are done: the last version is there, and the master knows it."""
        hooks = self.work.hooks
        with self._alone(wait=True):
            last = self._client.latest()
            if hooks.watch.refresh().version < last or not self.work.versions.has(last):
                last = self._save()
                hooks.report(last, evaluate=hooks.evaluates)
            self.work.job.report_step(last)  # also for one that was killed before it could say so

    def _save(self) -> int:
        """The newest version, dumped by all servers, as one model."""
        session = self.work.job.session()
        while True:
            reply = session.insist(session.master.stubs.parameters.Dump, pb.DumpRequest(), timeout=DUMP_SECONDS)
            if not reply.complete:
                log.info("a dump was called off, and is asked for again")
                continue
            try:
                version, state = state_of_dump(self.model, Path(reply.path))
            except (CorruptData, FileNotFoundError) as error:  # newer dumps have replaced it
                if not Path(reply.path).parent.exists():
                    raise NotFound(
                        f"the servers' dumps are not here: {reply.path}",
                        hint="workers and servers need a common folder",
                    ) from error
                log.info("dump %d is read no more: %s", reply.order, error)
                continue
            self.work.versions.save(version, state, self._about())
            return version

    @contextmanager
    def _alone(self, *, wait: bool) -> Iterator[bool]:
        """Whether this worker is the one that saves versions."""
        folder = self.work.versions.folder
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".saving")
        if wait:
            lock.wait()
        elif not lock.try_acquire():
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def model_at(self, version: int) -> nn.Module | None:
        if self._evaluated_version != version:
            state = self.work.versions.load(version)
            if state is None:
                return None
            if self._evaluated is None:
                random_state = torch.get_rng_state()
                about = self.work.description
                self._evaluated = make_model(self.work.file, seed=about.seed, sample=self.work.sample)
                torch.set_rng_state(random_state)
            self._evaluated.load_state_dict(state)
            self._evaluated_version = version
        return self._evaluated.eval() if self._evaluated is not None else None

    def export(self, version: int, directory: Path) -> None:
        state = self.work.versions.load(version)
        if state is None:
            raise NotFound(
                f"the model of version {version} is gone: {self.work.versions.path(version)}",
                hint="workers need a directory that all of them can read; see --checkpoint-dir",
            )
        save_model(directory, state, {**self._about(), "version": version})

    def _about(self) -> dict[str, Any]:
        about = self.work.description
        return {**describe_file(self.work.file), "job": self.work.job.name, "strategy": about.strategy}

    def close(self) -> None:
        self._client.close()


class _NewerModel(RetryableError):
    """The servers went on while a batch was computed, whose gradient would be dropped."""

    def __init__(self) -> None:
        super().__init__("the model changed in the middle of a batch")


class _Rows:
    """Rows of one table, for its module."""

    def __init__(self, strategy: ServerStrategy, table: str) -> None:
        self._strategy = strategy
        self._table = table

    def pull(self, ids: Ids) -> Floats:
        return self._strategy.rows_of(self._table, ids)
