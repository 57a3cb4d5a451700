"""The job as the user's program sees it."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pliant.client.combining import TrainingObserver
from pliant.client.lease_client import LeaseClient
from pliant.client.metric_values import metric_values
from pliant.client.progress_reporter import ProgressReporter
from pliant.client.records import RecordStream
from pliant.client.report_listener import ReportCallback, ReportListener
from pliant.client.session import Session
from pliant.client.shards import ShardStream
from pliant.client.standalone import StandaloneBook
from pliant.core.errors import NotAvailable, PliantError
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.progress import LOSS, TrainingProgress
from pliant.core.shards.datasets import DatasetSpec, FilePart, ShardType, StreamPartition
from pliant.core.status import JobStatus
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.brain.identity import job_uid
from pliant.rpc.channel import Address, MasterClient
from pliant.rpc.checkpoints import checkpoint_from, checkpoint_message
from pliant.rpc.datasets import from_message, to_message
from pliant.rpc.status import status_from_message

if TYPE_CHECKING:
    from pliant.ps.client.client import PsClient

log = logging.getLogger(__name__)

REPORT_TIMEOUT_S = 5.0
REPORT_RETRY_S = 30.0  # for a master that is being restarted
HOW_TO_RUN = "start it as a job: pliant run -- python PROGRAM; job.elastic tells whether it is one"

_connected: Job | None = None
_connecting = threading.Lock()


def connect() -> Job:
    """The job that this program belongs to, from its environment; without one, a job of only this process."""
    global _connected
    with _connecting:
        if _connected is None or _connected.closed:
            environment = NodeEnvironment.from_env(os.environ)
            address = Address.of_node(environment) if environment.master_addr else None
            _connected = Job(address)
        return _connected


class Job:
    def __init__(self, address: Address | None = None) -> None:
        environment = NodeEnvironment.from_env(os.environ)
        self.name = environment.job or "alone"
        # Tells it from other jobs of its name, and is the same in all of its programs.
        self.uid = job_uid(address.token if address is not None else uuid.uuid4().hex)
        self.node = environment.node or (f"guest-{os.getpid()}" if address else "alone")
        self.role = environment.role or "worker"
        self.incarnation = environment.incarnation or 0  # this run of the program on this node: 0, 1, 2, …
        self.closed = False
        self._under_agent = address is not None and environment.incarnation is not None
        self._master = MasterClient(address) if address is not None else None
        self._standalone = StandaloneBook() if address is None else None
        self._session: Session | None = None
        self._streams: WeakSet[ShardStream] = WeakSet()  # a loop that is left drops its stream, which then closes
        self._sources: list[LeaseClient] = []  # kept until their last report is answered
        self._observer = TrainingObserver()
        self._lock = threading.Lock()
        self._reporter: ProgressReporter | None = None
        self._listeners: list[ReportListener] = []
        if self._master is not None:
            self._reporter = ProgressReporter(self._master, self.node, close_timeout=environment.orphan_timeout)
        self._growing = threading.Lock()
        self._producer = uuid.uuid4().hex  # of records for streams
        self._growths = 0
        atexit.register(self.close)

    @property
    def elastic(self) -> bool:
        """Whether the program has a master, and possibly other workers."""
        return self._master is not None

    @property
    def combines(self) -> bool:
        """Whether this program combines what it learns with the other workers: a ``Trainer`` and parameter servers set it. Set it
        in a program that exchanges gradients some other way, or that trains separate models on purpose: no hint is given then."""
        return self._observer.combines

    @combines.setter
    def combines(self, value: bool) -> None:
        self._observer.combines = value

    # --- shards

    def shards(
        self,
        dataset: str,
        *,
        size: int | None = None,
        files: Iterable[tuple[str, int, int]] = (),
        indices: Sequence[int] = (),
        stream: bool = False,
        partitions: Mapping[str | int, int] | None = None,
        shard_size: int = 1,
        epochs: int = 1,
        shuffle: bool = False,
        shuffle_records: bool | None = None,
        seed: int = 0,
        type: str = "train",
        epoch_barrier: bool = False,
        max_failures: int = 3,
        skip_parked: bool = False,
        lease_floor: float = 300.0,
        prefetch: int | None = None,
        acknowledge: bool = True,
    ) -> ShardStream:
        """Iterate the shards of a dataset; all workers of the job share them, each shard goes to one.

        Pass one of ``size`` (record indices 0 to size - 1), ``files`` (name, start, end), ``indices`` or ``stream``; or
        none of them, for a dataset that the job spec or another worker defined. ``partitions`` of a stream are its
        partitions by name or number, each with the offset of its first record. ``shuffle`` shuffles the
        order of shards, differently in each epoch, and (unless ``shuffle_records`` is False) the records within each shard.
        A shard is acknowledged when the loop asks for the next one; with ``acknowledge=False`` when ``shard.done()`` says so.
        Nothing is leased before the first iteration, so the dataset can still be restored (``restore_shards``) until then.
        """
        indices = tuple(int(i) for i in indices)
        stream = stream or bool(partitions)
        given = size is not None or bool(files) or bool(indices) or stream
        spec = DatasetSpec(
            dataset,
            shard_size,
            size=size,
            files=tuple(FilePart(str(n), int(a), int(b)) for n, a, b in files),
            indices=indices,
            stream=stream,
            partitions=tuple(StreamPartition(str(n), int(start)) for n, start in (partitions or {}).items()),
            type=ShardType(type),
            epochs=epochs,
            shuffle=shuffle,
            shuffle_records=shuffle if shuffle_records is None else shuffle_records,
            seed=seed,
            epoch_barrier=epoch_barrier,
            max_failures=max_failures,
            skip_parked=skip_parked,
            lease_floor=lease_floor,
        )
        if given:
            spec.check()
            self.create_dataset(spec)
        if self._standalone is not None:
            known = self._standalone.book.queue(dataset).spec
            return self._keep(ShardStream(self._standalone.source(known), acknowledge=acknowledge))
        if not given:
            spec = self._defined(dataset)
        source = LeaseClient(self._open_session(), spec, prefetch=prefetch, observer=self._observer)
        self._sources = [*(kept for kept in self._sources if kept.busy), source]
        return self._keep(ShardStream(source, acknowledge=acknowledge))

    def dataset(
        self,
        reader: Any,
        *,
        shard_size: int,
        name: str = "train",
        dataset_fn: Callable[..., Any] | None = None,
        mode: str | None = None,
        prefetch: int | None = None,
        reader_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> RecordStream:
        """The records of a reader (or of a path that ``pliant.data.open_reader`` knows), shared by all workers.

        ``name``, ``epochs``, ``shuffle``, ``seed``, ``type`` and the other options are those of ``shards``. Iterating yields
        records, or what ``dataset_fn(dataset, mode, metadata)`` makes of them; see ``RecordStream`` for batches and frameworks.
        """
        from pliant.data import DataReader, open_reader

        opened = reader if isinstance(reader, DataReader) else open_reader(reader, **(reader_options or {}))
        files = [(part, 0, size) for part, size in opened.create_shards().items()]

        def lease() -> ShardStream:
            # Records are prefetched by a thread, whose pace says nothing of the loop's: a fixed few shards are leased ahead.
            return self.shards(name, files=files, shard_size=shard_size, acknowledge=False, prefetch=2, **options)

        wanted = mode or str(options.get("type", "train"))
        return RecordStream(lease, opened, dataset_fn=dataset_fn, mode=wanted, prefetch=prefetch)

    def create_dataset(self, spec: DatasetSpec) -> None:
        """Define a dataset; every worker may, as long as all definitions are equal."""
        if self._standalone is not None:
            self._standalone.create(spec)
            return
        session = self._open_session()
        session.call_with_retry(session.master.stubs.shards.CreateDataset, to_message(spec, defined_by=self.node))

    def extend_stream(
        self,
        dataset: str,
        records: int = 0,
        *,
        partition: str | int | None = None,
        end: int | None = None,
        close: bool = False,
    ) -> int:
        """Add records to a stream, or close it; returns its length.

        For a stream with partitions, pass the ``partition``; its end is returned. ``end`` instead of ``records`` is the offset
        after its last record, as a source such as Kafka tells it: one that was reached before changes nothing. Without a
        partition, ``close`` closes all of them.
        """
        name = None if partition is None else str(partition)
        if self._standalone is not None:
            return self._standalone.grow(dataset, records, close, name, end)
        session = self._open_session()
        with self._growing:  # in the order of their numbers
            self._growths += 1
            request = pb.GrowRequest(
                dataset=dataset,
                records=records,
                close=close,
                producer=self._producer,
                number=self._growths,
                partition=name,
                end=end,
            )
            return int(session.call_with_retry(session.master.stubs.shards.GrowStream, request).length)

    def shard_checkpoint(self) -> dict[str, Any]:
        """The progress of each dataset, small enough to store with a model; leased shards count as not done.

        It covers all that this program finished before the call: what is not reported yet is reported first.
        """
        for shards in list(self._streams):
            shards.flush()
        for source in list(self._sources):
            source.flush()
        if self._standalone is not None:
            return self._standalone.checkpoint()
        session = self._open_session()
        saved = session.call_with_retry(session.master.stubs.shards.Checkpoint, pb.Empty())
        return checkpoint_from(saved)

    def restore_shards(self, checkpoint: Mapping[str, Any]) -> list[str]:
        """Begin at the positions of a checkpoint; the datasets it names must be defined, and none of them begun.

        Returns the datasets that begin there now. A position is taken once per job: the same again (from other workers, or after
        a restart of the program) has no effect, nor has one that this job saved itself. Another one is a ``Conflict``.
        """
        if self._standalone is not None:
            return self._standalone.restore(checkpoint)
        session = self._open_session()
        call = session.master.stubs.shards.RestoreCheckpoint
        return list(session.call_with_retry(call, checkpoint_message(checkpoint)).restored)

    # --- parameter servers

    def parameters(self) -> PsClient:
        """The parameters that the job's servers keep; for the strategies ps-sync and ps-async."""
        from pliant.ps.client.client import PsClient

        self.combines = True
        return PsClient(self._open_session(), retry_timeout=NodeEnvironment.from_env(os.environ).orphan_timeout)

    # --- statistics

    def report(
        self,
        step: int,
        *,
        loss: float | None = None,
        records: int = 0,
        total: int = 0,
        metrics: Mapping[str, float] | None = None,
        **more: float,
    ) -> None:
        """Report how far the training is, for ``pliant run``, ``status``, ``top``, charts and the job's summary.

        ``step``: committed steps, of ``total``; ``records``: those that this worker has trained on since its last report. The
        loss and other metrics (``metrics``, for names that are no Python names, or keywords) are shown with their last value and
        charted (``pliant series``, TensorBoard). Call it as often as you like: it does not wait, and a thread sends the newest
        state a few times a second, the last one at the program's end.
        """
        values = metric_values({**(metrics or {}), **more, **({LOSS: loss} if loss is not None else {})})
        self.report_progress(TrainingProgress(int(step), total_steps=int(total), metrics=values), int(records))

    def on_report(self, callback: ReportCallback, *, when: Callable[[], bool] = lambda: True) -> None:
        """Pass the metrics of each report of this program on: ``callback(step, metrics)`` is called in a thread of its own, for
        reports at which ``when()`` is true. For trackers such as ``pliant.integrations.mlflow``."""
        self._listeners.append(ReportListener(callback, when))

    def report_progress(self, progress: TrainingProgress, records: int = 0) -> None:
        """The same, for a training loop that knows all of it."""
        numbers = {name: value for name, value in progress.metrics.items() if value is not None}
        for listener in self._listeners:
            listener.put(progress.step, numbers)
        if self._reporter is not None:
            self._reporter.put(progress, records)

    # --- checkpoints, of programs that write them out themselves

    def report_checkpoint(self, directory: str, step: int, problem: str = "", hint: str = "") -> None:
        """A checkpoint is complete, or could not be written for this reason. Not waited for longer than a master's restart."""
        master = self.master
        request = pb.CheckpointReport(node=self.node, directory=directory, step=step, problem=problem, hint=hint)
        try:
            master.call_with_retry(
                master.stubs.checkpoints.Report, request, retry_timeout=REPORT_RETRY_S, timeout=REPORT_TIMEOUT_S
            )
        except PliantError as error:
            log.error("what became of the checkpoint of step %d could not be reported: %s", step, error.message)

    def report_unusable_checkpoints(self, directory: str, problem: str, hint: str) -> bool:
        """Checkpoints cannot be written there; whether to train all the same."""
        master = self.master
        request = pb.UnusableDestination(node=self.node, directory=directory, problem=problem, hint=hint)
        reply = master.call_with_retry(
            master.stubs.checkpoints.ReportUnusable, request, retry_timeout=REPORT_RETRY_S, timeout=REPORT_TIMEOUT_S
        )
        return bool(reply.proceed)

    def status(self) -> JobStatus:
        """The status of the job, from its master."""
        if self._master is None:
            raise NotAvailable("this program runs without a master, so it has no job status", hint=HOW_TO_RUN)
        return status_from_message(self._master.call(self._master.stubs.job.GetStatus, pb.Empty()))

    def fail(self, reason: str) -> None:
        """End the job as Failed, for errors that would recur after a restart."""
        session = self._open_session()
        request = pb.StopRequest(reason=f"{self.node}: {reason}", failed=True)
        session.call_with_retry(session.master.stubs.job.Stop, request)

    @property
    def master(self) -> MasterClient:
        if self._master is None:
            raise NotAvailable("this program runs without a master", hint=HOW_TO_RUN)
        return self._master

    def close(self) -> None:
        """Release unfinished shards. Called at exit."""
        if self.closed:
            return
        self.closed = True
        self._observer.close()
        for listener in self._listeners:
            listener.close()
        atexit.unregister(self.close)
        died = self._under_agent and getattr(sys, "last_value", None) is not None  # of an error that nobody caught
        if self._reporter is not None:
            self._reporter.close(**({"timeout": 1.0} if died else {}))
        for shards in list(self._streams):
            shards.close() if not died else shards.drop()
        for source in self._sources:
            source.close(died=died)  # a loop that was left may have reports in flight
        if self._session is not None:
            self._session.close(release=not died)  # if it died, the agent reports why, and its shard is blamed
        if self._master is not None:
            self._master.close()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(self) -> Session:
        """This program's session with the master, for calls that ``Job`` has no method for."""
        return self._open_session()

    # --- inside

    def _open_session(self) -> Session:
        with self._lock:
            if self._session is None:
                self._session = Session(self.master, self.node, self.incarnation)
            return self._session

    def _keep(self, shards: ShardStream) -> ShardStream:
        self._streams.add(shards)
        return shards

    def _defined(self, dataset: str) -> DatasetSpec:
        session = self._open_session()
        found = session.call_with_retry(session.master.stubs.shards.GetDataset, pb.DatasetName(name=dataset))
        return from_message(found)
