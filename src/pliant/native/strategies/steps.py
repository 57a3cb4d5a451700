"""Synchronous training by a plan of steps: ``allreduce`` with any number of workers, ``local`` with one.

Which records a step has is a pure function of its number, and progress is one number (``pliant.torch.Trainer``), so the model is
that of training on each record once per epoch, whatever happened to the machines. The plan is shown to the master as the dataset
``train``, one shard per step in the order of the epoch.

A due version is saved and reported by rank 0. Every worker keeps a copy of the due state until it knows that the version was
reported, so that a successor of rank 0 can do it.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.core.errors import NotFound
from pliant.core.shards.datasets import DatasetSpec
from pliant.native.failures import check_gradients, check_loss
from pliant.native.model_file.feed import Batch, Feed, Mode, RecordNumbers
from pliant.native.model_file.models import check_tables, copy_state, loss_of, make_model, predict
from pliant.native.model_file.saved_models import describe_file, load_trained, put_state, save_model
from pliant.native.model_file.schedules import make_scheduler
from pliant.native.strategies.base import TRAIN, Strategy, StrategyContext
from pliant.torch import Step, Trainer
from pliant.torch.worlds.membership import TrainingOver

log = logging.getLogger(__name__)


class StepStrategy(Strategy):
    def __init__(self, context: StrategyContext) -> None:
        super().__init__(context)
        about = context.description
        make = partial(make_model, context.file, seed=about.seed, sample=context.sample)
        self.model: nn.Module = make()
        check_tables(self.model, about)
        if about.trained:
            put_state(self.model, load_trained(about.trained)[0], about.trained)
        self._evaluated: nn.Module | None = make() if context.hooks.evaluates else None
        self._evaluated_version = -1
        self._due: dict[int, dict[str, torch.Tensor]] = {}  # version -> its state, until it is reported
        self._last = 0  # committed steps
        self._plan_steps = 0

    # --- training

    def train(self) -> None:
        about, context = self.context.description, self.context
        data = RecordNumbers(context.reader)
        step_records = about.micro_batch * about.virtual_workers
        context.job.create_dataset(DatasetSpec(TRAIN, step_records, size=len(data), epochs=about.epochs))
        optimizer = context.file.make_optimizer(self.model)
        trainer = Trainer(
            self.model,
            optimizer,
            virtual_workers=about.virtual_workers,
            deterministic=about.deterministic,
            threads=1 if about.strategy == "allreduce" else torch.get_num_threads(),
            seed=about.seed,
            scheduler=make_scheduler(context.file, optimizer),
            on_gradients=lambda: check_gradients(trainer.total + 1, self.model.named_parameters()),
            job=context.job,
        )
        feed = Feed(context.file, context.reader, Mode.TRAINING)
        per_epoch = -(-len(data) // step_records)
        context.hooks.begin(self.model)
        try:
            for step in trainer.steps(
                data,
                micro_batch=about.micro_batch,
                epochs=about.epochs,
                shuffle=about.shuffle,
                max_steps=about.max_steps or None,
                collate_fn=feed.batch_of,
            ):
                self._learn(step)
                self._after(trainer, step, ends_epoch=step.number == per_epoch - 1)
                if context.hooks.stop_reason:
                    trainer.stop()
        except TrainingOver as over:
            log.info("%s", over.message)  # the others have the last version, and saved it
            return
        finally:
            trainer.close()
        self._finish(max(self._last, trainer.total))

    def _learn(self, step: Step) -> None:
        self.model.train()
        for batch in step:
            step.backward(self._loss(batch, step))

    def _loss(self, batch: Batch | None, step: Step) -> torch.Tensor:
        if batch is None:  # dataset_fn dropped all of these records: they move nothing
            return torch.stack([(p * 0).sum() for p in self.model.parameters() if p.requires_grad]).sum()
        loss = loss_of(self.context.file, batch.labels, predict(self.model, batch.features))
        check_loss(float(loss.detach()), step.index + 1, batch, self.context.reader)
        return loss

    def _after(self, trainer: Trainer, step: Step, *, ends_epoch: bool) -> None:
        hooks, version = self.context.hooks, trainer.total
        self._last = version
        leads = trainer.rank == 0
        due = hooks.is_due(version, epoch=step.epoch, ends_epoch=ends_epoch)
        if due or (leads and hooks.is_time()):
            self._due[version] = copy_state(self.model)
        self._report_due(leads=leads)
        if leads:
            hooks.commit(TRAIN, version)
        hooks.after_step(version, step.loss, epoch=step.epoch, ends_epoch=ends_epoch)

    def _report_due(self, *, leads: bool) -> None:
        """Rank 0 saves and reports; all forget what was reported."""
        if not self._due:
            return
        hooks = self.context.hooks
        for version in sorted(self._due):
            if version <= hooks.watch.state.due:
                del self._due[version]
            elif leads:
                self.context.versions.save(version, self._due.pop(version), self._about())
                hooks.report(version, evaluate=True)
                self.keep_only(hooks.watch.state.needed, upto=version)

    def _finish(self, version: int) -> None:
        """All have the last version. It is saved before training is reported as over."""
        hooks = self.context.hooks
        self._report_due(leads=True)
        self.context.versions.save(version, copy_state(self.model), self._about())
        hooks.report(version, evaluate=hooks.evaluates)
        hooks.commit(TRAIN, version, end=True)

    def _about(self) -> dict[str, Any]:
        about = self.context.description
        return {**describe_file(self.context.file), "job": self.context.job.name, "strategy": about.strategy}

    # --- versions

    def model_at(self, version: int) -> nn.Module | None:
        if self._evaluated is None:
            return None
        if self._evaluated_version != version:
            state = self.context.versions.load(version)
            if state is None:
                return None
            self._evaluated.load_state_dict(state)
            self._evaluated_version = version
        return self._evaluated.eval()

    def export(self, version: int, directory: Path) -> None:
        state = self.context.versions.load(version)
        if state is None and version == self._last:
            state = copy_state(self.model)
        if state is None:
            raise NotFound(
                f"the model of version {version} is missing: {self.context.versions.path(version)}",
                hint="workers need a shared directory; set --checkpoint-dir",
            )
        save_model(directory, state, {**self._about(), "version": version})
