"""Training with parameter servers: ``ps-sync`` and ``ps-async``.

The servers have the model; a worker has a copy for the batch that it works on. For each batch of a leased shard it pulls what the
batch needs, computes the gradient, and contributes it together with the records it is of: one decision of the master, so a record
counts once whoever dies. A gradient that is dropped as too old is computed again, of the same records on the newer model.

How the model comes to the worker, and what happens when a newer one comes in the middle of a batch, is in ``served_model``.

A version is an iteration. To be evaluated or exported it is dumped by the servers and written as one model; a lock beside the
versions lets one worker do it, and another if that one dies.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.client.shards import Shard
from pliant.core.errors import CorruptData, NotFound
from pliant.native.failures import check_loss, hopeless, records_text
from pliant.native.feed import Batch, Feed, Mode
from pliant.native.models import check_tables, describe_file, load_trained, loss_of, make_model, put_state, save_model
from pliant.native.server_specs import server_specs
from pliant.native.server_state import state_of_dump
from pliant.native.strategies.base import TRAIN, Strategy, Work
from pliant.native.strategies.served_model import ServedModel
from pliant.platforms.durable_files import FileLock, write_text
from pliant.ps.client import Contributed
from pliant.rpc import pliant_pb2 as pb

log = logging.getLogger(__name__)

SHARD_BATCHES = 8  # of training, in one shard
DUMP_SECONDS = 120.0  # of one call; it is made again


class ServerStrategy(Strategy):
    def __init__(self, work: Work) -> None:
        super().__init__(work)
        about = work.description
        self.model: nn.Module = make_model(work.file, seed=about.seed, sample=work.sample)
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
        self._served = ServedModel(self._client, self.model, self._trained)
        self._too_old = 0  # gradients that were dropped
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
        return bool(self.work.hooks.stop_reason) or bool(most and self._served.newest >= most)

    def _end_last_epochs(self) -> None:
        """No more records come: all epochs are over, unless training was ended early."""
        about, hooks = self.work.description, self.work.hooks
        if hooks.stop_reason or 0 < about.max_steps <= self._client.latest():
            return
        for ended in range(self._epoch, about.epochs):
            hooks.after_epoch(ended)

    def _learn(self, shard: Shard, feed: Feed) -> None:
        for batch, done in self._served.looking_ahead(self._batches(shard, feed)):
            told, loss = self._contribute(batch, shard, done)
            if not told.accepted:
                log.info("%s is given back: %s", shard, told.reason)  # another's now, or nobody's: training is over
                shard.release()
                return
            self._after(told.iteration, loss, shard.epoch)
            if self._is_over() and not shard.finished:
                shard.release()
                return
        shard.done()

    def _batches(self, shard: Shard, feed: Feed) -> Iterator[tuple[Batch, int]]:
        """Each with the number of records of the shard that are done with it."""
        reader, size = self.work.reader, self.work.description.micro_batch
        positions = list(reader.positions(shard))
        for at in range(0, len(positions), size):
            some = positions[at : at + size]
            batch = feed.batch(list(zip(some, reader.fetch(some), strict=True)))
            if batch is not None:  # else dataset_fn dropped all of them: done with the next gradient, or with the shard
                yield batch, at + len(some)

    def _contribute(self, batch: Batch, shard: Shard, done: int) -> tuple[Contributed, float]:
        """Until the gradient of these records is taken, or they are another's."""
        while True:
            loss = self._served.compute(batch, partial(loss_of, self.work.file))
            step = self._served.iteration + 1
            check_loss(loss, step, batch, self.work.reader)
            dense, rows = self._served.gradients()
            with hopeless(partial(self._gradients_text, step, batch)):
                told = self._client.push(
                    self._served.iteration, examples=batch.size, dense=dense, rows=rows, shards=[(shard, done)]
                )
            self._served.ordered(told.iteration)
            if not told.accepted:
                self._served.undo()
            if not told.stale:
                return told, loss
            self._too_old += 1
            self._served.be_fresh()
            log.debug("computes %d records again: %s", batch.size, told.reason)

    def _gradients_text(self, step: int, batch: Batch) -> str:
        return f"the gradients of step {step}, of {records_text(batch.ids, self.work.reader)}"

    # --- versions

    def _after(self, version: int, loss: float, epoch: int) -> None:
        hooks, every = self.work.hooks, self.work.description.evaluation.every_steps
        self.work.job.report_step(version, loss=loss)  # its records were counted with their shard
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
        if self._client.sync:
            log.info(
                "began %d batches anew because a newer model came, and computed %d gradients that came too late",
                self._served.begun_anew,
                self._too_old,
            )
        self._served.close()
        self._client.close()
