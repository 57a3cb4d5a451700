"""One worker's part in training: train, then help with what remains (evaluation rounds, the export) until nothing does.

Every worker does the same, so any of them may die at any time: what it was working on goes to another, and one that starts when
training is over only helps.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from tempfile import gettempdir

from pliant.client.job import Job
from pliant.core.errors import InvalidRequest
from pliant.core.nodes.environment import NodeEnvironment
from pliant.data import DataReader
from pliant.native.callbacks import better
from pliant.native.evaluation.eval_rounds import EvaluationRounds
from pliant.native.evaluation.evaluator import LOSS, Evaluator
from pliant.native.evaluation.versions import VersionStore
from pliant.native.hooks import Hooks
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.description import EVAL_SHARD_BATCHES, Description
from pliant.native.model_file.feed import first_batch, open_data
from pliant.native.strategies import strategy_class
from pliant.native.strategies.base import Strategy, StrategyContext
from pliant.native.training_watch import TrainingWatch
from pliant.torch.checkpoints import settings_of_job

log = logging.getLogger(__name__)

TRAIN_END = "train-end"
BEST = "best"  # folder in the output, of the best version where it is not the last
IDLE_POLL_S = 0.2
MODEL_TIMEOUT_S = 60.0  # without the model of a version, before its evaluation is abandoned


class Training:
    """One worker's part, from its start to the job's end."""

    def __init__(self, description: Description, file: ModelFile, job: Job) -> None:
        self._description = description
        self._file = file
        self._job = job
        self._versions = VersionStore(versions_folder())
        self._watch = TrainingWatch(job)

    def run(self) -> None:
        about = self._description
        reader = open_data(self._file, about, about.data)
        evaluation = open_data(self._file, about, about.eval_data) if about.eval_data else None
        hooks = Hooks(self._job, self._watch, self._file, about.evaluation if evaluation is not None else None)
        work = StrategyContext(
            about, self._file, reader, self._job, self._versions, first_batch(self._file, reader, about), hooks
        )
        strategy = strategy_class(about.strategy)(work)
        if evaluation is not None:
            hooks.rounds = self._make_rounds(evaluation, strategy)
        try:
            if self._watch.refresh().trained:
                strategy.finish()
            else:
                strategy.train()
            self._help(hooks, strategy)
            self._export(hooks, strategy)
        finally:
            if hooks.rounds is not None:
                hooks.rounds.close()
            self._watch.close()
            strategy.close()

    def _make_rounds(self, reader: DataReader, strategy: Strategy) -> EvaluationRounds:
        about, when = self._description, self._description.evaluation
        evaluator = Evaluator(self._file, reader, about.micro_batch)
        monitor = when.monitor or next(iter(evaluator.metrics), LOSS)
        if monitor not in evaluator.all_metrics():
            known = ", ".join(evaluator.all_metrics())
            raise InvalidRequest(f"unknown metric {monitor!r} for comparing versions", hint=f"known metrics: {known}")
        return EvaluationRounds(
            self._job,
            self._watch,
            evaluator,
            strategy.model_at,
            shard_size=when.shard_size or EVAL_SHARD_BATCHES * about.micro_batch,
            monitor=monitor,
            mode=when.mode or better(monitor),
        )

    def _help(self, hooks: Hooks, strategy: Strategy) -> None:
        """Until training is over and every round is closed."""
        while True:
            state = self._watch.state
            hooks.report_results()
            if state.trained and not state.open_dataset and not state.waiting:
                return
            if hooks.rounds is not None and hooks.rounds.work():
                continue
            if hooks.rounds is not None and hooks.rounds.seconds_without_model() > MODEL_TIMEOUT_S:
                hooks.rounds.abandon_open_round()
            self._watch.wait(IDLE_POLL_S)

    def _export(self, hooks: Hooks, strategy: Strategy) -> None:
        """Exactly one worker does it; the others wait, and one of them takes over if it dies."""
        for shard in self._job.shards(TRAIN_END, prefetch=1):
            state = self._watch.refresh()
            log.info("exporting version %d", state.version)
            if self._description.output:
                folder = Path(self._description.output)
                strategy.export(state.version, folder)
                if state.best >= 0 and state.best != state.version:
                    strategy.export(state.best, folder / BEST)
                hooks.end(str(folder))
            else:
                hooks.end("")
            if not shard.commit():
                continue
            strategy.keep_only({state.best, state.version}, upto=state.version)


def versions_folder() -> Path:
    """Where all workers find the models of versions: beside the checkpoints if those have a directory of their own.

    Versions are files. Where checkpoints go to a URL, versions lie in what else the workers share, or on each machine.
    """
    environment = NodeEnvironment.from_env(os.environ)
    saved, home = settings_of_job().directory, environment.job_dir
    is_url = "://" in saved
    if home is not None and (not saved or is_url or Path(saved).parent == home):
        return home / "versions"
    if is_url:
        shared = environment.parameters_dir
        own = Path(gettempdir()) / f"pliant-{os.getuid()}-{environment.job}"
        return (shared.parent if shared is not None else own) / "versions"
    return (Path(saved) if saved else Path.cwd()) / "versions"
