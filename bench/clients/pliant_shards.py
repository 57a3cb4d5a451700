"""A client of ``bench/shards.py`` in Pliant's environment: takes orders, measures, answers.

The master's address is in the environment, as an agent would set it.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from typing import Any

import pliant
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, MasterClient

DATASET: dict[str, Any] = {"size": 10**12, "shard_size": 1000, "shuffle": True, "seed": 7}


def wait_until(begin: float) -> None:
    time.sleep(max(0.0, begin - time.time()))


def public(begin: float, seconds: float) -> dict[str, float]:
    """The way a user does it. Until everything is acknowledged by the master."""
    with pliant.connect() as job:
        shards = job.shards("bench", **DATASET)
        wait_until(begin)
        start = time.perf_counter()
        end, done = start + seconds, 0
        for _ in shards:
            done += 1
            if time.perf_counter() > end:
                break
        shards.close()  # the one in hand is given back; all others were reported
        return {"shards": done - 1, "seconds": time.perf_counter() - start}


class Raw:
    """Numbered Exchange calls and nothing else."""

    def __init__(self) -> None:
        self.master = MasterClient(Address.from_env())
        self.session = f"raw/{uuid.uuid4().hex}"
        shards = self.master.stubs.shards
        self.master.call(shards.OpenSession, pb.OpenSessionRequest(session=self.session, node="raw"))
        self.number = 0

    def exchange(self, want: int, done: list[int]) -> list[int]:
        self.number += 1
        request = pb.ExchangeRequest(
            session=self.session, request=self.number, dataset="bench" if want else "", want=want, done=done
        )
        reply = self.master.call(self.master.stubs.shards.Exchange, request, timeout=60)
        return [shard.lease for shard in reply.shards]

    def close(self) -> None:
        self.master.call(self.master.stubs.shards.CloseSession, pb.CloseSessionRequest(session=self.session))
        self.master.close()


def raw(begin: float, seconds: float, batch: int) -> dict[str, float]:
    """Each call reports the batch before and leases the next."""
    client = Raw()
    wait_until(begin)
    start = time.perf_counter()
    end, done, held = start + seconds, 0, []
    while time.perf_counter() < end:
        done += len(held)
        held = client.exchange(batch, held)
    client.exchange(0, held)
    done += len(held)
    took = time.perf_counter() - start
    client.close()
    return {"shards": done, "seconds": took}


def latency(pairs: int, ride_along: bool) -> dict[str, list[float]]:
    """Seconds of each lease + report: as two calls, or with the report riding on the next lease."""
    client = Raw()
    taken, held = [], client.exchange(1, [])
    for _ in range(pairs):
        start = time.perf_counter()
        if ride_along:
            held = client.exchange(1, held)
        else:
            client.exchange(0, held)
            held = client.exchange(1, [])
        taken.append(time.perf_counter() - start)
    client.close()
    return {"latencies": taken}


def create(name: str, size: int, shard_size: int, in_flight: int) -> dict[str, float]:
    """A dataset, its first shard, and a checkpoint with so many shards in flight."""
    client = Raw()
    stubs = client.master.stubs.shards
    start = time.perf_counter()
    dataset = pb.Dataset(
        name=name, type=pb.SHARD_TYPE_TRAIN, size=size, shard_size=shard_size, shuffle=True, epochs=1, seed=7
    )
    client.master.call(stubs.CreateDataset, dataset, timeout=60)
    created = time.perf_counter() - start
    client.number += 1
    first = pb.ExchangeRequest(session=client.session, request=client.number, dataset=name, want=1)
    client.master.call(stubs.Exchange, first, timeout=60)
    first_shard = time.perf_counter() - start
    client.number += 1
    more = pb.ExchangeRequest(session=client.session, request=client.number, dataset=name, want=in_flight)
    client.master.call(stubs.Exchange, more, timeout=60)
    start = time.perf_counter()
    saved = client.master.call(stubs.Checkpoint, pb.Empty(), timeout=60)
    answer = {
        "created": created,
        "first_shard": first_shard,
        "checkpoint_seconds": time.perf_counter() - start,
        "checkpoint_bytes": saved.ByteSize(),
    }
    client.close()
    return answer


def main() -> None:
    orders = {"public": public, "raw": raw, "create": create}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        kind = order.pop("kind")
        if kind == "latency":
            order.pop("begin", None)
            answer: dict[str, Any] = latency(**order)
        else:
            answer = orders[kind](**order)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
