"""What monitors see of their clusters: machines, and the nodes on them. The last observation is all that is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from pliant.brain.store import bounded
from pliant.brain.store.database import Database
from pliant.brain.store.leases import check_term
from pliant.brain.store.tables import clusters, machines, observed_nodes
from pliant.brain.store.upserts import upsert
from pliant.core.errors import NotFound
from pliant.core.planning.history import Room


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    cpu: float  # cores that can be given to nodes
    memory_mb: float
    gpu: int = 0
    free_cpu: float = 0.0  # not asked for by anybody
    free_memory_mb: float = 0.0
    free_gpu: int = 0
    used_cpu: float = 0.0  # measured; 0 where the platform does not say
    used_memory_mb: float = 0.0
    is_ready: bool = True


@dataclass(frozen=True, slots=True)
class ObservedNode:
    namespace: str
    job: str
    name: str
    role: str
    phase: str
    machine: str
    cpu: float = 0.0  # asked for
    memory_mb: float = 0.0
    gpu: int = 0
    used_cpu: float = 0.0
    used_memory_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class StoredCluster:
    name: str
    monitor: str
    observed_at: float


def observe(
    database: Database,
    cluster: str,
    seen_machines: Iterable[Machine],
    seen_nodes: Iterable[ObservedNode],
    *,
    time: float,
    monitor: str = "",
    term: int | None = None,
) -> bool:
    """Replaces what the cluster had. False: it is older than what is there, and changes nothing."""
    name = bounded.checked_name(cluster, "cluster")
    machine_rows = list({row["name"]: row for row in map(_machine_row, seen_machines)}.values())
    node_rows = list({(row["namespace"], row["name"]): row for row in map(_node_row, seen_nodes)}.values())
    head = {"name": name, "monitor": bounded.sentence(monitor), "observed_at": bounded.number(time)}

    def replace(connection: Connection) -> bool:
        check_term(connection, term)
        upsert(connection, clusters, [{**head, "observed_at": 0.0}], keep=("monitor", "observed_at"))
        found = connection.execute(select(clusters).where(clusters.c.name == name).with_for_update()).one()
        if found.observed_at > time:
            return False
        for table, rows in ((machines, machine_rows), (observed_nodes, node_rows)):
            connection.execute(delete(table).where(table.c.cluster_id == found.id))
            if rows:
                connection.execute(insert(table), [{"cluster_id": found.id, **row} for row in rows])
        connection.execute(clusters.update().where(clusters.c.id == found.id).values(**head))
        return True

    return database.transaction(replace)


def list_clusters(database: Database) -> tuple[StoredCluster, ...]:
    with database.reading() as connection:
        rows = connection.execute(select(clusters).order_by(clusters.c.name)).all()
    return tuple(StoredCluster(row.name, row.monitor, row.observed_at) for row in rows)


def machines_of(database: Database, cluster: str) -> tuple[Machine, ...]:
    columns = [column for column in machines.c if column.name != "cluster_id"]
    query = select(*columns).join(clusters).where(clusters.c.name == cluster).order_by(machines.c.name)
    with database.reading() as connection:
        return tuple(
            Machine(**{**row, "is_ready": bool(row["is_ready"])}) for row in connection.execute(query).mappings()
        )


def observed_nodes_of(database: Database, cluster: str) -> tuple[ObservedNode, ...]:
    columns = [column for column in observed_nodes.c if column.name != "cluster_id"]
    order = (observed_nodes.c.namespace, observed_nodes.c.name)
    query = select(*columns).join(clusters).where(clusters.c.name == cluster).order_by(*order)
    with database.reading() as connection:
        return tuple(ObservedNode(**row) for row in connection.execute(query).mappings())


def free_room(database: Database, cluster: str) -> Room:
    """On machines that are ready; the largest node fits on the machine with the most free cores. Raises ``NotFound``."""
    if cluster not in {each.name for each in list_clusters(database)}:
        raise NotFound(f"cluster {cluster!r} not found", hint="its monitor has not reported yet")
    ready = [machine for machine in machines_of(database, cluster) if machine.is_ready]
    largest = max(ready, key=lambda machine: (machine.free_cpu, machine.free_memory_mb), default=None)
    return Room(
        sum(max(0.0, machine.free_cpu) for machine in ready),
        sum(max(0.0, machine.free_memory_mb) for machine in ready),
        max(0.0, largest.free_cpu) if largest is not None else 0.0,
        max(0.0, largest.free_memory_mb) if largest is not None else 0.0,
    )


def _machine_row(machine: Machine) -> dict[str, Any]:
    return {**_checked(asdict(machine)), "name": bounded.checked_name(machine.name, "machine")}


def _node_row(node: ObservedNode) -> dict[str, Any]:
    return {
        **_checked(asdict(node)),
        "namespace": bounded.name_or_none(node.namespace, "namespace"),
        "job": bounded.name_or_none(node.job, "job"),
        "name": bounded.checked_name(node.name, "node"),
        "role": bounded.word(node.role),
        "phase": bounded.word(node.phase),
        "machine": bounded.label(node.machine),
    }


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    for value in row.values():
        if isinstance(value, float):
            bounded.number(value)
        elif isinstance(value, int):
            bounded.count(value)
    return row
