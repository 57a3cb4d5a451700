"""A worker of the training benches, elastic: writes the time of each committed step."""

from __future__ import annotations

import os
import time

import torch
import torch.nn.functional as F
from metering import Metering
from workload import dataset, make_model, option

import pliant.torch as elastic

torch.manual_seed(0)
model = make_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
trainer = elastic.Trainer(
    model,
    optimizer,
    virtual_workers=option("UNITS", 2),
    threads=option("THREADS", 1),
    shared_memory=bool(option("SHARED", 1)),
)
pause = option("PAUSE_MS", 0) / 1000
every_other = Metering() if option("METER_EVERY_OTHER", 0) else None  # step is not measured
with open(f"{os.environ['BENCH_OUT']}/{os.environ.get('PLIANT_NODE', 'alone')}.{os.getpid()}", "a", buffering=1) as out:
    for step in trainer.steps(dataset(), micro_batch=option("MICRO", 16), epochs=10**6, max_steps=option("STEPS", 100)):
        if every_other is not None:
            every_other.switch(on=step.index % 2 == 0)
        for x, y in step:
            step.backward(F.cross_entropy(model(x), y))
            if pause:
                time.sleep(pause)
        out.write(f"{time.time()} {step.index} {trainer.rank} {trainer.world_size}\n")
