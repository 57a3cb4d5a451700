"""What a program reports, in MLflow: one run per job, however often its programs start again.

    job.on_report(MlflowLogger(experiment="digits"))

The run is named as the job and found again by the job's identity, so a restarted program, or another worker, continues it. One
worker should log: ``job.on_report(MlflowLogger(...), when=lambda: trainer.rank == 0)``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from pliant.client.job import Job, connect
from pliant.integrations.leave import missing

try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric
    from mlflow.exceptions import MlflowException
except ImportError:
    raise missing("mlflow", "'pliant[mlflow]'") from None

UID_TAG, NAME_TAG = "pliant.uid", "pliant.job"
_NOT_ALLOWED = re.compile(r"[^\w\-. /:]")  # in names of metrics


class MlflowLogger:
    """``tracking_uri``: MLflow's default (``MLFLOW_TRACKING_URI``) unless given."""

    def __init__(self, *, experiment: str = "pliant", tracking_uri: str | None = None, job: Job | None = None) -> None:
        self._experiment = experiment
        self._client: Any = MlflowClient(tracking_uri)
        self._job = job or connect()
        self._run = ""

    def __call__(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        found = [Metric(_NOT_ALLOWED.sub("_", name), value, now, step) for name, value in metrics.items()]
        if found:
            self._run = self._run or self._find_run()
            self._client.log_batch(self._run, metrics=found)

    def _find_run(self) -> str:
        experiment = self._experiment_id()
        tags = {NAME_TAG: self._job.name, UID_TAG: self._job.uid}
        known = self._client.search_runs([experiment], f"tags.`{UID_TAG}` = '{self._job.uid}'", max_results=1)
        run = known[0] if known else self._client.create_run(experiment, tags=tags, run_name=self._job.name)
        return str(run.info.run_id)

    def _experiment_id(self) -> str:
        known = self._client.get_experiment_by_name(self._experiment)
        if known is not None:
            return str(known.experiment_id)
        try:
            return str(self._client.create_experiment(self._experiment))
        except MlflowException:  # another job has made it just now
            return str(self._client.get_experiment_by_name(self._experiment).experiment_id)
