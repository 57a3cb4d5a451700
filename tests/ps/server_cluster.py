"""Parameter servers of this process and a map of them, for tests of clients: real servers and sockets, no master."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS
from pliant.ps.payloads import BlockGradient, Push
from pliant.ps.placement import blocks_of
from pliant.ps.server.server import PsServer
from pliant.ps.specs import DenseSpec, InitializerSpec, OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.parameters import table_messages, variable_messages

TOKEN = "0123456789abcdef" * 4


RULE = OptimizerSpec("sgd", 1.0)
ZERO = InitializerSpec("zeros")
VARIABLES = [DenseSpec("w", (3, 2), RULE, ZERO), DenseSpec("b", (5,), RULE, ZERO)]


class ServerCluster:
    """Each variable is on the server of its place in ``variables``. It is also the conversation of a client with its master."""

    def __init__(
        self, variables: list[DenseSpec], servers: int = 2, sync: bool = True, tables: Sequence[TableSpec] = ()
    ) -> None:
        self.stores = [ParameterStore() for _ in range(servers)]
        self.servers = [PsServer(store, TOKEN, standalone=True) for store in self.stores]
        self.fencing_tokens = [1] * servers
        self.variables = variables
        self.tables = tables
        self.initialized = [spec.name for spec in variables]
        self.name = "cluster"
        self._sync = sync
        address = SimpleNamespace(token=TOKEN, tls=None)
        parameters = SimpleNamespace(GetMap=self._map)
        self.master: Any = SimpleNamespace(address=address, stubs=SimpleNamespace(parameters=parameters))
        for store in self.stores:
            for spec in variables:
                store.define(spec)
            for table in tables:
                store.define(table)
        for server in self.servers:
            server.start()
        self._ports = [server.port for server in self.servers]

    def close(self) -> None:
        for server in self.servers:
            server.stop()

    def replace(self, place: int) -> None:
        """The server of a place dies; another one, with the same parameters, is there at another address."""
        self.servers[place].stop()
        self.servers[place] = PsServer(self.stores[place], TOKEN, standalone=True)
        self.servers[place].start()
        self._ports[place] = self.servers[place].port
        self.fencing_tokens[place] += 1

    def step(self, *places: int, gradient: float = 1.0) -> None:
        """An update of these servers (all, if none is named): every variable they have falls by ``gradient``."""
        for place in places or range(len(self.stores)):
            blocks = tuple(
                BlockGradient(spec.name, block, np.full(length, gradient, np.float32))
                for number, spec in enumerate(self.variables)
                if number % len(self.stores) == place
                for block, (_, length) in enumerate(blocks_of(spec.size))
            )
            store = self.stores[place]
            store.apply_now(Push("cluster", store.iteration + 1, blocks=blocks))

    def call_with_retry(self, method: Callable[..., Any], request: Any, timeout: float = 10.0) -> Any:
        return method(request)

    def renew(self, name: str) -> None:
        assert name != self.name, "sessions do not end here"

    def _map(self, request: Any) -> pb.ParameterMap:
        count = len(self.servers)
        return pb.ParameterMap(
            map=pb.PartitionMap(
                version=1,
                partitions=[partition % count for partition in range(DEFAULT_PARTITIONS)],
                blocks={
                    spec.name: pb.BlockSeats(seats=[number % count] * len(blocks_of(spec.size)))
                    for number, spec in enumerate(self.variables)
                },
            ),
            seats_version=sum(self.fencing_tokens),
            seats=[
                pb.SeatStatus(seat=seat, address=f"127.0.0.1:{port}", fencing_token=fencing_token, order=1, floats=1)
                for seat, (port, fencing_token) in enumerate(zip(self._ports, self.fencing_tokens, strict=True))
            ],
            tables=table_messages(spec.to_json() for spec in self.tables),
            variables=variable_messages(spec.to_json() for spec in self.variables),
            initialized=self.initialized,
            iteration=min(store.iteration for store in self.stores),
            sync=self._sync,
            batch=1,
        )
