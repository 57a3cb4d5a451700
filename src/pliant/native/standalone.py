"""``pliant evaluate``: one round of evaluation of a trained model, by any number of workers."""

from __future__ import annotations

from pliant.client.job import Job
from pliant.native.callbacks import better
from pliant.native.contract import ModelFile
from pliant.native.description import Description
from pliant.native.feed import open_data
from pliant.native.models import load_trained, make_model, put_state
from pliant.native.rounds import LOSS, SHARD_BATCHES, Evaluator, Rounds, TrainingWatch
from pliant.native.worker import IDLE_SECONDS, first_batch
from pliant.rpc import pliant_pb2 as pb


def evaluate(description: Description, file: ModelFile, job: Job) -> None:
    """Until the metrics are there, whoever computed them."""
    reader = open_data(file, description, description.data)
    state, about = load_trained(description.trained)
    version = int(about.get("version", 0))
    model = make_model(file, seed=description.seed, sample=first_batch(file, reader, description))
    put_state(model, state, description.trained)
    watch = TrainingWatch(job)
    evaluator = Evaluator(file, reader, description.batch_size)
    monitor = next(iter(evaluator.metrics), LOSS)
    size = description.shard_size or SHARD_BATCHES * description.batch_size
    rounds = Rounds(job, watch, evaluator, lambda _: model, shard_size=size, monitor=monitor, mode=better(monitor))
    session = job.session()
    request = pb.ReportVersionRequest(version=version, node=job.node, evaluate=True)
    session.insist(session.master.stubs.training.ReportVersion, request)
    watch.refresh()
    while not any(result.version == version for result in watch.state.results):
        if not rounds.do_some():
            watch.wait(IDLE_SECONDS)
    rounds.close()
    watch.close()
