"""Workers that do not compute, and a parameter server that does not update, in one process: they load a master with contributions.

    python ps_contributors.py SOCKET TOKEN_FILE WORKERS WINDOW SECONDS

Each worker has a connection of its own and one shard, and always one batch of WINDOW contributions on its way, each with one record
of it. The server asks for orders as a real one does. Prints one line of JSON: accepted contributions, seconds, and how long a batch
took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from pliant.core.parameters.orders import OrderKind
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, AsyncMasterClient
from pliant.rpc.contributions import orders_from_message
from pliant.rpc.identity import read_token_file

WARM_UP_S = 1.0


class Contributors:
    def __init__(self, address: Address, workers: int, window: int, seconds: float) -> None:
        self._address = address
        self._workers = workers
        self._window = window
        self._seconds = seconds
        self._iteration = 0
        self._counts: list[tuple[float, float, int]] = []  # end, seconds, accepted

    async def run(self) -> None:
        server = AsyncMasterClient(self._address)
        holder = (await server.call(server.stubs.parameters.JoinSeat, pb.JoinSeatRequest(node="ps-0"))).holder
        ready = pb.SeatReadyRequest(holder=holder, address="127.0.0.1:1")
        await server.call(server.stubs.parameters.SeatReady, ready)
        following = asyncio.create_task(self._follow(server, holder))
        version = (await server.call(server.stubs.parameters.GetMap, pb.GetMapRequest())).map.version
        clients = [AsyncMasterClient(self._address) for _ in range(self._workers)]
        begun = time.perf_counter()
        until = begun + WARM_UP_S + self._seconds
        work = [self._contribute(client, f"s{n}", holder, version, until) for n, client in enumerate(clients)]
        await asyncio.gather(*work)
        following.cancel()
        inside = [one for one in self._counts if begun + WARM_UP_S <= one[0] < until]
        took = sorted(one[1] for one in inside)
        print(
            json.dumps(
                {
                    "accepted": sum(one[2] for one in inside),
                    "all": sum(one[2] for one in self._counts),
                    "seconds": self._seconds,
                    "batch_ms": 1000 * took[len(took) // 2],
                }
            )
        )
        for client in (*clients, server):
            await client.close()

    async def _contribute(
        self, client: AsyncMasterClient, session: str, holder: pb.SeatHolder, version: int, until: float
    ) -> None:
        shards = client.stubs.shards
        await client.call(shards.OpenSession, pb.OpenSessionRequest(session=session, node=f"guest-{session}"))
        asked = pb.ExchangeRequest(session=session, request=1, dataset="d", want=1)
        lease = (await client.call(shards.Exchange, asked)).shards[0].lease
        done, window = 0, self._window
        place = pb.StagingPlace(holders=[holder], map_version=version)
        all_of_one = {
            "examples": [1] * window,
            "place": [0] * window,
            "reports": [1] * window,
            "leases": [lease] * window,
        }

        def batch(done: int) -> pb.ContributeBatchRequest:
            after, records = range(done, done + window), range(done + 1, done + window + 1)
            return pb.ContributeBatchRequest(
                session=session,
                places=[place],
                sequences=records,
                based_on=[self._iteration] * window,
                records=records,
                after=after,
                **all_of_one,
            )

        while time.perf_counter() < until:
            begun = time.perf_counter()
            if self._window == 1:
                request = pb.ContributeRequest(
                    session=session,
                    sequence=done + 1,
                    based_on=self._iteration,
                    examples=1,
                    holders=[holder],
                    map_version=version,
                    progress=[pb.LeaseProgress(lease=lease, records=done + 1, after=done)],
                )
                reply = await client.call(client.stubs.parameters.Contribute, request)
                outcomes, iteration = [reply.outcome], reply.iteration
            else:
                reply = await client.call(client.stubs.parameters.ContributeBatch, batch(done))
                outcomes, iteration = reply.outcomes, reply.iterations[-1]
            ended = time.perf_counter()
            accepted = list(outcomes).count(pb.PUSH_ACCEPTED)
            if accepted < self._window:
                raise RuntimeError(f"refused: {reply}")
            done += accepted
            self._iteration = max(self._iteration, iteration)
            self._counts.append((ended, ended - begun, accepted))

    async def _follow(self, client: AsyncMasterClient, holder: pb.SeatHolder) -> None:
        after = 0
        while True:
            request = pb.NextOrdersRequest(holder=holder, after=after)
            reply = await client.call(client.stubs.parameters.NextOrders, request)
            for order in orders_from_message(reply):
                after = order.number
                if order.kind is OrderKind.DUMP:
                    report = pb.ReportDumpRequest(holder=holder, order=order.number)
                    await client.call(client.stubs.parameters.ReportDump, report)


def main() -> None:
    target, token, workers, window, seconds = sys.argv[1:]
    address = Address(target, read_token_file(Path(token)))
    asyncio.run(Contributors(address, int(workers), int(window), float(seconds)).run())


if __name__ == "__main__":
    main()
