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


def add_services(server: grpc.aio.Server, controller: JobController) -> None:
    services.add_JobServicer_to_server(JobServicer(controller), server)
    services.add_NodesServicer_to_server(NodesServicer(controller), server)
    services.add_ShardsServicer_to_server(ShardsServicer(controller), server)
    services.add_RendezvousServicer_to_server(RendezvousServicer(controller), server)
    services.add_TrainingServicer_to_server(TrainingServicer(controller), server)
    services.add_ParametersServicer_to_server(ParametersServicer(controller), server)
    services.add_CheckpointsServicer_to_server(CheckpointsServicer(controller), server)
    services.add_StatsServicer_to_server(StatsServicer(controller), server)
    services.add_PlanningServicer_to_server(PlanningServicer(controller), server)
