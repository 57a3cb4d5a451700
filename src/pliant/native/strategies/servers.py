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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.client.shards import Shard, ShardStream
from pliant.core.errors import CorruptData, NotFound
from pliant.files.atomic import write_text
from pliant.files.locks import FileLock
from pliant.files.time_meter import time_meter
from pliant.native.failures import check_loss, failing_permanently, records_text
from pliant.native.model_file.feed import Batch, Feed, Mode
from pliant.native.model_file.models import check_tables, loss_of, make_model
from pliant.native.model_file.saved_models import describe_file, load_trained, put_state, save_model
from pliant.native.strategies.base import TRAIN, Strategy, StrategyContext
from pliant.native.strategies.served_model import ServedModel
from pliant.native.strategies.server_specs import server_specs
from pliant.native.strategies.server_state import state_of_dump
from pliant.ps.client.model import Contributed
from pliant.ps.client.push_window import Decided
from pliant.rpc import pliant_pb2 as pb

log = logging.getLogger(__name__)

SHARD_BATCHES = 8  # of training, in one shard
DUMP_TIMEOUT_S = 120.0  # of one call; it is repeated


@dataclass
class _Computed:
    batch: Batch
    loss: float = 0.0


class ServerStrategy(Strategy):
    def __init__(self, context: StrategyContext) -> None:
        super().__init__(context)
        about = context.description
        self.model: nn.Module = make_model(context.file, seed=about.seed, sample=context.sample)
        if about.trained:
            check_tables(self.model, about)
            put_state(self.model, load_trained(about.trained)[0], about.trained)
        self._first = {name: p.detach().cpu().numpy().copy() for name, p in self.model.named_parameters()}
        specs = server_specs(context.file, self.model)
        self._trained = {name: p for name, p in self.model.named_parameters() if name in specs.variables}
        self._client = context.job.parameters()
        self._client.counts_units = False  # the served model does
        self._client.define([*specs.tables.values(), *specs.variables.values()])
        self._client.initialize({name: self._first[name] for name in self._trained})
        if specs.rates is not None:
            self._client.schedule(specs.rates)
        self._served = ServedModel(self._client, self.model, self._trained)
        self._stale = 0  # gradients that were dropped
        self._evaluated: nn.Module | None = None
        self._evaluated_version = -1
        self._epoch = 0

    # --- training

    def train(self) -> None:
        about, context = self.context.description, self.context
        feed = Feed(context.file, context.reader, Mode.TRAINING)
        context.hooks.begin(self.model)
        shards = context.job.shards(
            TRAIN,
            files=[(part, 0, size) for part, size in context.reader.create_shards().items()],
            shard_size=about.shard_size or SHARD_BATCHES * about.micro_batch,
            epochs=about.epochs,
            shuffle=about.shuffle,
            seed=about.seed,
            epoch_barrier=context.hooks.evaluates and about.evaluation.every_epochs > 0,
            prefetch=1,
            acknowledge=False,
        )
        with shards:
            if self._client.sync or self._served.has_buffers:
                self._learn_one_by_one(shards, feed)
            else:
                self._learn_through_window(shards, feed)
            if self._is_over():
                context.hooks.commit(TRAIN, 0, end=True)
            else:
                self._end_last_epochs()
        self.finish()

    def _learn_one_by_one(self, shards: ShardStream, feed: Feed) -> None:
        """What became of a batch is known before the next one begins."""
        for shard in shards:
            self._new_epoch(shard.epoch)
            self._learn(shard, feed)
            if self._is_over():
                return

    def _learn_through_window(self, shards: ShardStream, feed: Feed) -> None:
        """The master decides on a batch while the next ones are computed; those that it refuses come again. Everything is decided
        when this returns."""
        accepted: list[tuple[int, float, int]] = []

        def decided(one: Decided) -> None:
            self._served.ordered(one.pushed.iteration)
            if one.pushed.accepted:
                accepted.append((one.pushed.iteration, one.work.work.loss, one.work.shard.epoch))
            elif one.pushed.stale:
                self._stale += 1
                self._served.stop_prefetching()
                log.debug("recomputing a batch of %s: %s", one.work.shard, one.pushed.reason)
            else:
                log.info("released %s: %s", one.work.shard, one.pushed.reason)

        def after() -> None:
            while accepted:
                self._after(*accepted.pop(0))

        def cut(shard: Shard) -> Iterator[tuple[_Computed, int]]:
            self._new_epoch(shard.epoch)
            for batch, done in self._served.prefetching(self._batches(shard, feed)):
                yield _Computed(batch), done

        with self._client.pipeline(on_decided=decided) as pipeline:
            for one in pipeline.batches(shards, cut):
                batch = one.work.batch
                one.work.loss = self._compute(batch)
                dense, rows = self._served.gradients()
                iteration = self._served.iteration
                with failing_permanently(partial(self._gradients_text, iteration + 1, batch)):
                    pipeline.push(one, iteration, examples=batch.size, dense=dense, rows=rows)
                pipeline.collect()
                after()
                if self._is_over():
                    break
        after()

    def _is_over(self) -> bool:
        maximum = self.context.description.max_steps
        return bool(self.context.hooks.stop_reason) or bool(maximum and self._served.newest >= maximum)

    def _end_last_epochs(self) -> None:
        """No more records come: all epochs are over, unless training was ended early."""
        about, hooks = self.context.description, self.context.hooks
        if hooks.stop_reason or 0 < about.max_steps <= self._client.latest():
            return
        for ended in range(self._epoch, about.epochs):
            hooks.after_epoch(ended)

    def _learn(self, shard: Shard, feed: Feed) -> None:
        for batch, done in self._served.prefetching(self._batches(shard, feed)):
            pushed, loss = self._contribute(batch, shard, done)
            if not pushed.accepted:
                log.info("released %s: %s", shard, pushed.reason)  # leased to another worker, or training is over
                shard.release()
                return
            self._after(pushed.iteration, loss, shard.epoch)
            if self._is_over() and not shard.finished:
                shard.release()
                return
        shard.done()

    def _batches(self, shard: Shard, feed: Feed) -> Iterator[tuple[Batch, int]]:
        """Each with the number of records of the shard that are done with it."""
        reader, size = self.context.reader, self.context.description.micro_batch
        batches = feed.batches_of(list(reader.positions(shard)), size)
        while True:
            with time_meter().data:
                found = next(batches, None)
            if found is None:
                return
            batch, done = found
            if batch is not None:  # else dataset_fn dropped all of them: done with the next gradient, or with the shard
                yield batch, done

    def _contribute(self, batch: Batch, shard: Shard, done: int) -> tuple[Contributed, float]:
        """Until the gradient of these records is taken, or they are another's."""
        while True:
            loss = self._compute(batch)
            step = self._served.iteration + 1
            dense, rows = self._served.gradients()
            with failing_permanently(partial(self._gradients_text, step, batch)):
                pushed = self._client.push(
                    self._served.iteration, examples=batch.size, dense=dense, rows=rows, shards=[(shard, done)]
                )
            self._served.ordered(pushed.iteration)
            if not pushed.accepted:
                self._served.undo()
            if not pushed.stale:
                return pushed, loss
            self._stale += 1
            self._served.stop_prefetching()
            log.debug("recomputing the gradient of %d records: %s", batch.size, pushed.reason)

    def _compute(self, batch: Batch) -> float:
        loss = self._served.compute(batch, partial(loss_of, self.context.file))
        check_loss(loss, self._served.iteration + 1, batch, self.context.reader)
        return loss

    def _gradients_text(self, step: int, batch: Batch) -> str:
        return f"the gradients of step {step}, of {records_text(batch.ids, self.context.reader)}"

    # --- versions

    def _after(self, version: int, loss: float, epoch: int) -> None:
        hooks, every = self.context.hooks, self.context.description.evaluation.every_steps
        about = self.context.description
        self.context.job.report(version, loss=loss, total=about.max_steps)  # its records were counted with their shard
        crossed = every > 0 and version // every > max(hooks.watch.state.due, 0) // every
        if hooks.evaluates and (crossed or hooks.is_time()):
            with self._saving(wait=False) as alone:
                due = max(hooks.watch.refresh().due, 0) if alone else 0  # another may have been faster
                if alone and (version // every > due // every if crossed else hooks.is_time()):
                    hooks.report(self._save(), evaluate=True)
        hooks.after_step(version, loss, epoch=epoch, ends_epoch=False)

    def _new_epoch(self, epoch: int) -> None:
        """Before the first record of an epoch that this worker sees, all of the epochs before are done."""
        if epoch <= self._epoch:
            return
        before, self._epoch = self._epoch, epoch
        hooks, every = self.context.hooks, self.context.description.evaluation.every_epochs
        if hooks.evaluates and every > 0 and epoch % every == 0:
            with self._saving(wait=True):
                marker = self.context.versions.folder / f"epoch-{epoch}"
                if not marker.exists():
                    version = self._save()
                    hooks.report(version, evaluate=True)
                    write_text(marker, str(version))
        for ended in range(before, epoch):
            hooks.after_epoch(ended)

    def finish(self) -> None:
        """All records are done: the last version is there, and the master knows it."""
        hooks = self.context.hooks
        with self._saving(wait=True):
            last = self._client.latest()
            if hooks.watch.refresh().version < last or not self.context.versions.has(last):
                last = self._save()
                hooks.report(last, evaluate=hooks.evaluates)
            self.context.job.report(last, total=last)  # also for one that was killed before it could say so

    def _save(self) -> int:
        """The newest version, dumped by all servers, as one model."""
        session = self.context.job.session()
        while True:
            reply = session.call_with_retry(
                session.master.stubs.parameters.Dump, pb.DumpRequest(), timeout=DUMP_TIMEOUT_S
            )
            if not reply.complete:
                log.info("a dump was cancelled; requesting it again")
                continue
            try:
                version, state = state_of_dump(self.model, Path(reply.path))
            except (CorruptData, FileNotFoundError) as error:  # newer dumps have replaced it
                if not Path(reply.path).parent.exists():
                    raise NotFound(
                        f"cannot find the servers' dumps: {reply.path}",
                        hint="workers and servers need a shared directory",
                    ) from error
                log.info("dump %d was replaced: %s", reply.order, error)
                continue
            self.context.versions.save(version, state, self._about())
            return version

    @contextmanager
    def _saving(self, *, wait: bool) -> Iterator[bool]:
        """Whether this worker is the one that saves versions."""
        folder = self.context.versions.folder
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".saving")
        if wait:
            lock.acquire()
        elif not lock.try_acquire():
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def model_at(self, version: int) -> nn.Module | None:
        if self._evaluated_version != version:
            state = self.context.versions.load(version)
            if state is None:
                return None
            if self._evaluated is None:
                random_state = torch.get_rng_state()
                about = self.context.description
                self._evaluated = make_model(self.context.file, seed=about.seed, sample=self.context.sample)
                torch.set_rng_state(random_state)
            self._evaluated.load_state_dict(state)
            self._evaluated_version = version
        return self._evaluated.eval() if self._evaluated is not None else None

    def export(self, version: int, directory: Path) -> None:
        state = self.context.versions.load(version)
        if state is None:
            raise NotFound(
                f"the model of version {version} is missing: {self.context.versions.path(version)}",
                hint="workers need a shared directory; set --checkpoint-dir",
            )
        save_model(directory, state, {**self._about(), "version": version})

    def _about(self) -> dict[str, Any]:
        about = self.context.description
        return {**describe_file(self.context.file), "job": self.context.job.name, "strategy": about.strategy}

    def close(self) -> None:
        if self._client.sync:
            log.info(
                "restarted %d batches because of a newer model, and computed %d gradients that were stale",
                self._served.restarted_batches,
                self._stale,
            )
        self._served.close()
        self._client.close()
