"""The master's gRPC services, one per file: protobuf in, a component's method, protobuf out.

This is the border: protobuf is converted here and nowhere further in. Each handler answers only after
``journal.durable()``. A call to a component that this master does not run is refused with the flag that would start it.
"""

from __future__ import annotations

import grpc.aio

from pliant.master.controller import JobController
from pliant.master.services.checkpoints import CheckpointsServicer
from pliant.master.services.job import JobServicer
from pliant.master.services.nodes import NodesServicer
from pliant.master.services.parameters import ParametersServicer
from pliant.master.services.planning import PlanningServicer
from pliant.master.services.rendezvous import RendezvousServicer
from pliant.master.services.shards import ShardsServicer
from pliant.master.services.stats import StatsServicer
from pliant.master.services.training import TrainingServicer
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.call_stream.serving import CallStreams, Handlers


def add_services(server: grpc.aio.Server, controller: JobController) -> CallStreams:
    """Returns the streams over which clients make their hot calls; to be closed before the server is stopped."""
    handlers = Handlers(server)
    services.add_JobServicer_to_server(JobServicer(controller), handlers)
    services.add_NodesServicer_to_server(NodesServicer(controller), handlers)
    services.add_ShardsServicer_to_server(ShardsServicer(controller), handlers)
    services.add_RendezvousServicer_to_server(RendezvousServicer(controller), handlers)
    services.add_TrainingServicer_to_server(TrainingServicer(controller), handlers)
    services.add_ParametersServicer_to_server(ParametersServicer(controller), handlers)
    services.add_CheckpointsServicer_to_server(CheckpointsServicer(controller), handlers)
    services.add_StatsServicer_to_server(StatsServicer(controller), handlers)
    services.add_PlanningServicer_to_server(PlanningServicer(controller), handlers)
    streams = CallStreams(handlers.by_path)
    services.add_CallsServicer_to_server(streams, server)
    return streams
