"""A loop whose reports go to MLflow or W&B too."""

import os
import sys
from pathlib import Path

import pliant

job = pliant.connect()
which, gate = sys.argv[1], Path(sys.argv[2])
if which == "mlflow":
    from pliant.integrations.mlflow import MlflowLogger

    job.on_report(MlflowLogger(experiment="tests"))
else:
    from pliant.integrations.wandb import WandbLogger

    job.on_report(WandbLogger(project="tests", mode="offline", dir=str(gate.parent)))
is_first = not gate.exists()
first = 1 if is_first else 4
for step in range(first, first + 3):
    job.report(step, loss=1 / step, metrics={"val@1": step})
if is_first:
    job.close()
    gate.touch()
    os._exit(143)  # as one that followed a notice: a node in its place continues
