"""The job's status as metrics for Prometheus, taken at the moment they are asked for.

Anyone who reaches the port may ask. A connection has a thread, so there are few at a time: a new one ends the oldest, and
one that sends nothing ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pliant.core.nodes.states import NodeState
from pliant.core.status import DatasetStatus, JobStatus, NodeStatus, ParametersStatus
from pliant.master.controller import JobController

STATUS_TIMEOUT_S = 10.0  # for the event loop to make the status
MAX_CONNECTIONS = 16
SILENCE_TIMEOUT_S = 10.0  # of a connection
MB = 1 << 20


DATASETS: tuple[tuple[str, str, Callable[[DatasetStatus], float]], ...] = (
    ("pliant_dataset_records_done", "Records finished.", lambda dataset: dataset.records_done),
    ("pliant_dataset_records", "Records of all epochs.", lambda dataset: dataset.records_total),
    ("pliant_dataset_shards_in_work", "Shards leased to workers.", lambda dataset: dataset.shards_in_work),
    ("pliant_dataset_shards_waiting", "Shards that were returned.", lambda dataset: dataset.shards_waiting),
    (
        "pliant_dataset_shards_parked",
        "Shards that failed too often, and are not handed out again.",
        lambda d: len(d.parked),
    ),
)
NODES: tuple[tuple[str, str, Callable[[NodeStatus], float]], ...] = (
    ("pliant_node_cpu", "CPU cores in use.", lambda node: node.cpu),
    ("pliant_node_cpu_limit", "CPU cores that it may use; 0: no limit.", lambda node: node.cpu_limit),
    ("pliant_node_memory_bytes", "Memory in use.", lambda node: node.memory_mb * MB),
    ("pliant_node_memory_limit_bytes", "Memory that it may use; 0: no limit.", lambda node: node.memory_limit_mb * MB),
    ("pliant_node_restarts", "Restarts.", lambda node: node.restarts),
)


class JobCollector(Collector):
    def __init__(self, master: JobController) -> None:
        self._master = master
        self._loop = asyncio.get_running_loop()

    async def _status(self) -> JobStatus:
        return self._master.status()

    def describe(self) -> Iterable[Metric]:
        return []  # the names are fixed, and collecting at registration would wait for the loop that registers

    def collect(self) -> Iterable[Metric]:
        # Called from the web server's threads; the state belongs to the event loop.
        return status_metrics(
            asyncio.run_coroutine_threadsafe(self._status(), self._loop).result(timeout=STATUS_TIMEOUT_S)
        )


def status_metrics(status: JobStatus) -> Iterator[Metric]:
    job = status.name
    yield _phase(status)
    yield _node_counts(status)
    yield _wanted(status)
    yield _restarts(status)
    for name, text, value in (
        ("pliant_records_per_second", "Records finished per second.", status.records_per_second),
        ("pliant_steps_per_second", "Training steps per second.", status.steps_per_second),
        ("pliant_global_step", "The latest training step.", status.global_step),
        ("pliant_total_steps", "Total number of training steps; 0 if unknown.", status.progress.total_steps),
        ("pliant_records_done", "Records that the job has finished.", status.progress.records_done),
        ("pliant_progress_percent", "Progress of the job, 0 to 100.", status.progress.percent),
        ("pliant_eta_seconds", "Estimated time until all steps or records are done.", status.eta),
        ("pliant_stalled_seconds", "Time during which no record was finished.", status.stalled_seconds),
        ("pliant_master_starts", "Number of master starts.", status.master_starts),
    ):
        family = GaugeMetricFamily(name, text, labels=["job"])
        if value is not None:
            family.add_metric([job], value)
        yield family
    yield _training_metrics(status)
    for name, text, read in DATASETS:
        family = GaugeMetricFamily(name, text, labels=["job", "dataset"])
        for dataset in status.datasets:
            family.add_metric([job, dataset.name], read(dataset))
        yield family
    yield from _checkpoints(status)
    if status.parameters is not None:
        yield from _parameters(job, status.parameters)
    yield from _node_use(job, [node for node in status.nodes if node.state is NodeState.RUNNING])


def _training_metrics(status: JobStatus) -> Metric:
    family = GaugeMetricFamily("pliant_training_metric", "Loss and other metrics, last value.", labels=["job", "name"])
    for name, value in status.progress.metrics.items():
        if value is not None:
            family.add_metric([status.name, name], value)
    return family


def _phase(status: JobStatus) -> Metric:
    family = GaugeMetricFamily("pliant_job_phase", "1 for the phase that the job is in.", labels=["job", "phase"])
    family.add_metric([status.name, status.phase.value], 1)
    return family


def _wanted(status: JobStatus) -> Metric:
    family = GaugeMetricFamily("pliant_nodes_wanted", "Nodes that there should be, by role.", labels=["job", "role"])
    for role in status.roles:
        family.add_metric([status.name, role.name], role.wanted)
    return family


def _restarts(status: JobStatus) -> Metric:
    family = CounterMetricFamily(
        "pliant_restarts_total", "Restarts of programs, and replacements of nodes.", labels=["job", "kind"]
    )
    family.add_metric([status.name, "program"], sum(node.restarts for node in status.nodes))
    family.add_metric([status.name, "node"], sum(1 for node in status.nodes if node.replaces))
    return family


def _node_counts(status: JobStatus) -> Metric:
    family = GaugeMetricFamily("pliant_nodes", "Nodes by role and state.", labels=["job", "role", "state"])
    counts: dict[tuple[str, str], int] = {}
    for node in status.nodes:
        counts[node.role, node.state] = counts.get((node.role, node.state), 0) + 1
    for (role, state), count in sorted(counts.items()):
        family.add_metric([status.name, role, state], count)
    return family


def _checkpoints(status: JobStatus) -> Iterator[Metric]:
    """The time and step of the newest one only once there is one: 0 would raise an alarm, or hide one."""
    labels = ["job", "directory"]
    failures = CounterMetricFamily(
        "pliant_checkpoint_failures_total", "Checkpoints that could not be written.", labels=labels
    )
    written = CounterMetricFamily("pliant_checkpoints_written_total", "Complete checkpoints.", labels=labels)
    in_a_row = GaugeMetricFamily(
        "pliant_checkpoint_failures_in_a_row", "Failed checkpoints since the last complete one.", labels=labels
    )
    step = GaugeMetricFamily("pliant_checkpoint_last_step", "Step of the newest complete checkpoint.", labels=labels)
    time = GaugeMetricFamily(
        "pliant_checkpoint_last_success_timestamp_seconds", "Time of the newest complete checkpoint.", labels=labels
    )
    for found in status.checkpoints:
        names = [status.name, found.directory]
        failures.add_metric(names, found.failures)
        written.add_metric(names, found.written)
        in_a_row.add_metric(names, found.failures_in_a_row)
        if found.last_time:
            step.add_metric(names, found.last_step)
            time.add_metric(names, found.last_time)
    yield from (failures, written, in_a_row, step, time)


def _node_use(job: str, nodes: list[NodeStatus]) -> Iterator[Metric]:
    for name, text, read in NODES:
        family = GaugeMetricFamily(name, text, labels=["job", "node"])
        for node in nodes:
            family.add_metric([job, node.name], read(node))
        yield family


def _parameters(job: str, parameters: ParametersStatus) -> Iterator[Metric]:
    for name, text in (
        ("iteration", "The latest iteration of the parameters."),
        ("examples", "Examples whose gradients were applied."),
        ("contributions", "Gradients that were accepted."),
        ("stale", "Gradients rejected as stale since this master started."),
        ("dump_iteration", "The iteration of the latest complete dump."),
        ("moves", "Parameter moves between servers since this master started."),
    ):
        family = GaugeMetricFamily(f"pliant_parameters_{name}", text, labels=["job"])
        family.add_metric([job], getattr(parameters, name))
        yield family
    partitions = GaugeMetricFamily("pliant_ps_partitions", "Partitions of tables.", labels=["job", "seat", "node"])
    for seat in parameters.seats:
        partitions.add_metric([job, str(seat.seat), seat.node], seat.partitions)
    yield partitions
    for name, text in (
        ("rows", "Rows of tables."),
        ("bytes", "Memory of parameters."),
        ("bytes_in", "Bytes received."),
        ("bytes_out", "Bytes sent."),
        ("requests", "Requests served."),
        ("queue", "Requests in progress and pushes waiting for their order."),
        ("apply_seconds", "Time spent applying gradients."),
        ("cpu_seconds", "CPU time of the server."),
        ("log_bytes", "Staged pushes on disk."),
    ):
        family = GaugeMetricFamily(f"pliant_ps_{name}", text, labels=["job", "seat", "node"])
        for seat in parameters.seats:
            family.add_metric([job, str(seat.seat), seat.node], getattr(seat.stats, name))
        yield family


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: whoever connects would write to the master's log."""


class _BoundedServer(ThreadingMixIn, WSGIServer):
    """A thread per connection, for the newest ``MAX_CONNECTIONS`` of them."""

    daemon_threads = True
    request_queue_size = 128  # a shorter queue makes those who connect wait while strangers do

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._open: dict[int, socket.socket] = {}  # by descriptor, oldest first
        self._guard = threading.Lock()
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            if len(self._open) >= MAX_CONNECTIONS:
                oldest = self._open.pop(next(iter(self._open)))
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it
            self._open[request.fileno()] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            number = request.fileno()
            if self._open.get(number) is request:
                del self._open[number]
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a peer that goes away is no event, and its traceback would be the peer's to write."""


class MetricsServer:
    def __init__(self, server: _BoundedServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        self.port: int = server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(master: JobController, port: int | None, host: str) -> MetricsServer | None:
    """Serve on ``http://host:port/metrics`` from a thread of its own; None: not at all."""
    if port is None:
        return None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobCollector(master))
    server = _BoundedServer(host, port)
    server.set_app(make_wsgi_app(registry))
    return MetricsServer(server)
