"""The program of a worker in native training: ``python -m pliant.native native.json``. It trains, evaluates or predicts."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from pliant.client.job import Job, connect
from pliant.core.errors import InvalidRequest
from pliant.native.evaluation.evaluate import evaluate
from pliant.native.failures import PermanentFailure, fail_job
from pliant.native.model_file.contract import ModelFile, load_model_file
from pliant.native.model_file.description import FOLDER, Description
from pliant.native.prediction.predict import predict
from pliant.native.training import Training


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
        raise InvalidRequest("native training must run as a job", hint="use `pliant train` (see `pliant train --help`)")
    try:
        _work(description, file, job)
    except PermanentFailure as error:
        fail_job(job, error)
        return 1
    return 0


def _work(description: Description, file: ModelFile, job: Job) -> None:
    if description.task == "train":
        Training(description, file, job).run()
    elif description.task == "evaluate":
        evaluate(description, file, job)
    else:
        predict(description, file, job)
