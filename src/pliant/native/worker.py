"""The program of a worker in native training: ``python -m pliant.native native.json``.

Train, then help with what is left (rounds of evaluation, the export) until nothing is. Every worker does the same, so any of them
may die at any time: what it had in work is given to another, and one that starts when training is over only helps.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from pliant.client.job import Job, connect
from pliant.core.errors import InvalidRequest
from pliant.data import DataReader
from pliant.native.callbacks import better
from pliant.native.contract import ModelFile, load_model_file
from pliant.native.description import FOLDER, Description
from pliant.native.failures import CannotGoOn, give_up
from pliant.native.feed import Batch, Feed, Mode, open_data
from pliant.native.hooks import Hooks
from pliant.native.rounds import LOSS, SHARD_BATCHES, Evaluator, Rounds, TrainingWatch
from pliant.native.strategies import strategy_class
from pliant.native.strategies.base import Strategy, Work
from pliant.native.versions import VersionStore
from pliant.torch.checkpoints import CheckpointOptions

log = logging.getLogger(__name__)

TRAIN_END = "train-end"
BEST = "best"  # folder in the output, of the best version where it is not the last
IDLE_SECONDS = 0.2  # between two looks for something to do
LOST_SECONDS = 60.0  # without the model of a version, before its evaluation is given up


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    if len(arguments) != 1:
        print("usage: python -m pliant.native DESCRIPTION.json", file=sys.stderr)  # noqa: T201
        return 2
    path = Path(arguments[0])
    description = Description.load(path)
    beside = path.parent / FOLDER / description.model
    file = load_model_file(
        beside
        if beside.exists()
        else path.parent / description.model,  # sent to a cluster, all files lie in one folder
        description.model_class,
        task=description.task,
        model_params=description.model_params,
    )
    job = connect()
    if not job.elastic:
        raise InvalidRequest("native training runs as a job", hint="see `pliant train --help`")
    try:
        _work(description, file, job)
    except CannotGoOn as error:
        give_up(job, error)
        return 1
    return 0


def _work(description: Description, file: ModelFile, job: Job) -> None:
    if description.task == "train":
        Training(description, file, job).run()
    elif description.task == "evaluate":
        from pliant.native.standalone import evaluate

        evaluate(description, file, job)
    else:
        from pliant.native.prediction import predict

        predict(description, file, job)


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
        work = Work(about, self._file, reader, self._job, self._versions, first_batch(self._file, reader, about), hooks)
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

    def _make_rounds(self, reader: DataReader, strategy: Strategy) -> Rounds:
        about, when = self._description, self._description.evaluation
        evaluator = Evaluator(self._file, reader, about.micro_batch)
        monitor = when.monitor or next(iter(evaluator.metrics), LOSS)
        if monitor not in evaluator.all_metrics():
            known = ", ".join(evaluator.all_metrics())
            raise InvalidRequest(f"there is no metric {monitor!r} to compare versions by", hint=f"there are {known}")
        return Rounds(
            self._job,
            self._watch,
            evaluator,
            strategy.model_at,
            shard_size=when.shard_size or SHARD_BATCHES * about.micro_batch,
            monitor=monitor,
            mode=when.mode or better(monitor),
        )

    def _help(self, hooks: Hooks, strategy: Strategy) -> None:
        """Until training is over and every round is closed."""
        while True:
            state = self._watch.state
            hooks.tell_results()
            if state.trained and not state.open_dataset and not state.waiting:
                return
            if hooks.rounds is not None and hooks.rounds.do_some():
                continue
            if hooks.rounds is not None and hooks.rounds.lacks_model() > LOST_SECONDS:
                hooks.rounds.give_up()
            self._watch.wait(IDLE_SECONDS)

    def _export(self, hooks: Hooks, strategy: Strategy) -> None:
        """Exactly one worker does it; the others wait, and one of them takes over if it dies."""
        for shard in self._job.shards(TRAIN_END, prefetch=1):
            state = self._watch.refresh()
            log.info("exports version %d", state.version)
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
    """Where all workers find the models of versions: beside the checkpoints if those have a place of their own."""
    saved = CheckpointOptions.from_env().directory
    home = os.environ.get("PLIANT_JOB_DIR")
    if home and (not saved or Path(saved).parent == Path(home)):
        return Path(home) / "versions"
    return (Path(saved) if saved else Path.cwd()) / "versions"


def first_batch(file: ModelFile, reader: DataReader, about: Description) -> Batch | None:
    """Of the first records that ``dataset_fn`` lets through; None if it drops them all."""
    mode = {"train": Mode.TRAINING, "evaluate": Mode.EVALUATION, "predict": Mode.PREDICTION}[about.task]
    feed = Feed(file, reader, mode)
    count = min(len(reader), 2 * about.micro_batch)
    return feed.batch([(i, record) for i, record in enumerate(reader.fetch(range(count)))]) if count else None
