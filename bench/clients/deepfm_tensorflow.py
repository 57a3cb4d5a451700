"""DeepFM with TensorFlow's ParameterServerStrategy: a coordinator, servers and workers as processes. A peer of ``bench/deepfm.py``.

    python deepfm_tensorflow.py TRAIN TEST ROWS BATCH EPOCHS WORKERS STEPS

Training is asynchronous, by ``ClusterCoordinator.schedule``; a scheduled function makes STEPS steps. The distinct ids of a batch
are found on the worker, only their rows travel, and they are updated by TensorFlow's own kernel of Adagrad for sparse gradients, on
the server (Keras' optimizers would go through the whole table). Prints one JSON line: records per second after the warm-up, the
loss on the records of TEST.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf
from deepfm_data import DIM, EPSILON, FIELDS, INITIAL, LAYERS, LEARNING_RATE, RECORD_BYTES, WARM_UP, log_loss, unpack

SHUFFLED = 256  # batches


def serve(job: str, index: int, cluster: dict[str, list[str]]) -> None:
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster), job_name=job, task_index=index, protocol="grpc", start=True
    )
    server.join()


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Model:
    """The variables, on the servers, and one step of training."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        uniform = tf.random.stateless_uniform
        last = tf.reshape(tf.cast(tf.range(rows + 1) < rows, tf.float32), [-1, 1])
        self.vectors = tf.Variable(uniform([rows + 1, DIM], (1, 2), -INITIAL, INITIAL) * last)
        self.weights = tf.Variable(tf.zeros([rows + 1, 1]))
        self.dense = [tf.Variable(tf.zeros([1]))]
        for number, (inputs, outputs) in enumerate(LAYERS):  # as torch begins
            bound = inputs**-0.5
            self.dense.append(tf.Variable(uniform([inputs, outputs], (number, 3), -bound, bound)))
            self.dense.append(tf.Variable(uniform([outputs], (number, 4), -bound, bound)))
        self.tables = [self.vectors, self.weights]
        self.sums = {id(v): tf.Variable(tf.zeros(v.shape)) for v in (*self.tables, *self.dense)}

    def logits(self, vectors: Any, weights: Any, dense: list[Any], ids: Any, age: Any) -> Any:
        """Of rows that were looked up, of shape (batch, fields, …)."""
        there = tf.cast(ids < self.rows, tf.float32)[:, :, None]
        vectors = vectors * there
        first = tf.reduce_sum(weights * there, axis=[1, 2])
        second = 0.5 * tf.reduce_sum(tf.reduce_sum(vectors, 1) ** 2 - tf.reduce_sum(vectors**2, 1), 1)
        bias, *layers = dense
        deep = tf.concat([tf.reshape(vectors, [-1, FIELDS * DIM]), age[:, None]], axis=1)
        for at in range(0, len(layers), 2):
            deep = deep @ layers[at] + layers[at + 1]
            deep = tf.nn.relu(deep) if at + 2 < len(layers) else deep
        return bias + first + second + deep[:, 0]

    def step(self, ids: Any, age: Any, click: Any) -> None:
        unique, places = tf.unique(tf.reshape(ids, [-1]))
        rows = [tf.gather(table, unique) for table in self.tables]
        dense = [tf.identity(variable) for variable in self.dense]
        with tf.GradientTape() as tape:
            tape.watch([*rows, *dense])
            vectors, weights = (tf.reshape(tf.gather(r, places), [-1, FIELDS, r.shape[1]]) for r in rows)
            logits = self.logits(vectors, weights, dense, ids, age)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(click, logits))
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, [*rows, *dense])]
        rate, epsilon = tf.constant(LEARNING_RATE), tf.constant(EPSILON)
        for table, gradient in zip(self.tables, gradients, strict=False):
            tf.raw_ops.ResourceSparseApplyAdagradV2(
                var=table.handle,
                accum=self.sums[id(table)].handle,
                lr=rate,
                epsilon=epsilon,
                grad=gradient,
                indices=unique,
            )
        for variable, gradient in zip(self.dense, gradients[len(rows) :], strict=True):
            tf.raw_ops.ResourceApplyAdagradV2(
                var=variable.handle, accum=self.sums[id(variable)].handle, lr=rate, epsilon=epsilon, grad=gradient
            )


def batches(path: Path, batch: int, seed: int) -> Any:
    def parsed(packed: Any) -> Any:
        table = tf.reshape(tf.io.decode_raw(packed, tf.uint8), [batch, RECORD_BYTES])
        ids = tf.reshape(tf.bitcast(tf.reshape(table[:, : 8 * FIELDS], [batch, FIELDS, 8]), tf.int64), [batch, FIELDS])
        numbers = tf.bitcast(tf.reshape(table[:, 8 * FIELDS :], [batch, 2, 4]), tf.float32)
        return ids, numbers[:, 0], numbers[:, 1]

    whole = path.stat().st_size // (batch * RECORD_BYTES) * batch * RECORD_BYTES
    data = tf.data.FixedLengthRecordDataset(str(path), batch * RECORD_BYTES, footer_bytes=path.stat().st_size - whole)
    return data.shuffle(SHUFFLED, seed=seed).repeat().map(parsed).prefetch(8)


def train(
    train: Path, test: Path, rows: int, batch: int, epochs: int, cluster: dict[str, list[str]], each: int
) -> None:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Model(rows)

    @tf.function
    def some_steps(iterator: Any) -> None:
        for _ in range(each):
            model.step(*next(iterator))

    data = coordinator.create_per_worker_dataset(lambda: batches(train, batch, 0))
    iterator = iter(data)
    calls = epochs * (train.stat().st_size // RECORD_BYTES // batch) // each
    warm = max(1, int(WARM_UP * calls))
    for _ in range(warm):
        coordinator.schedule(some_steps, args=(iterator,))
    coordinator.join()
    began = time.perf_counter()
    for _ in range(calls - warm):
        coordinator.schedule(some_steps, args=(iterator,))
    coordinator.join()
    rate = (calls - warm) * each * batch / (time.perf_counter() - began)
    ids, age, click = unpack(test)
    vectors, weights = (tf.gather(tf.convert_to_tensor(table), ids) for table in model.tables)
    logits = model.logits(vectors, weights, [tf.convert_to_tensor(v) for v in model.dense], tf.constant(ids), age)
    print(json.dumps({"records_per_second": rate, "loss": log_loss(logits.numpy(), click)}), flush=True)


def main() -> None:
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
        return
    files, numbers = (Path(sys.argv[1]), Path(sys.argv[2])), [int(number) for number in sys.argv[3:]]
    rows, batch, epochs, workers, each = numbers
    ports = [f"127.0.0.1:{port}" for port in free_ports(workers + 2)]
    cluster = {"chief": ports[:1], "ps": ports[1:2], "worker": ports[2:]}
    tasks = [("ps", 0), *(("worker", index) for index in range(workers))]
    started = [
        subprocess.Popen([sys.executable, __file__, "serve", job, str(index), json.dumps(cluster)])
        for job, index in tasks
    ]
    try:
        train(*files, rows, batch, epochs, cluster, each)
    finally:
        for process in started:
            process.kill()
            process.wait()
    os._exit(0)  # the coordinator's threads wait for the servers


if __name__ == "__main__":
    main()
