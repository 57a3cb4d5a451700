"""``pliant evaluate``: one round of evaluation of a trained model, by any number of workers."""

from __future__ import annotations

from pliant.client.job import Job
from pliant.native.callbacks import better
from pliant.native.evaluation.eval_rounds import EvaluationRounds
from pliant.native.evaluation.evaluator import LOSS, Evaluator
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.description import EVAL_SHARD_BATCHES, Description
from pliant.native.model_file.feed import first_batch, open_data
from pliant.native.model_file.models import make_model
from pliant.native.model_file.saved_models import load_trained, put_state
from pliant.native.training_watch import TrainingWatch
from pliant.rpc import pliant_pb2 as pb

IDLE_POLL_S = 0.2


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
    size = description.shard_size or EVAL_SHARD_BATCHES * description.batch_size
    rounds = EvaluationRounds(
        job, watch, evaluator, lambda _: model, shard_size=size, monitor=monitor, mode=better(monitor)
    )
    session = job.session()
    request = pb.ReportVersionRequest(version=version, node=job.node, evaluate=True)
    session.call_with_retry(session.master.stubs.training.ReportVersion, request)
    watch.refresh()
    while not any(result.version == version for result in watch.state.results):
        if not rounds.work():
            watch.wait(IDLE_POLL_S)
    rounds.close()
    watch.close()
