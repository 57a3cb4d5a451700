"""Virtual machines give no more than they have, and say what is left."""

from __future__ import annotations

from random import Random

from pliant.core.resources import Resources
from pliant.sim.cluster import MachineSize, VirtualCluster


def test_a_node_is_refused_where_no_machine_has_room_although_all_together_have() -> None:
    cluster = VirtualCluster([MachineSize(2, 4.0, 8192)])
    assert cluster.place("a", "worker-0", Resources(3.0, 1024)) is not None
    assert cluster.place("a", "worker-1", Resources(3.0, 1024)) is not None
    assert cluster.free_cpu == 2.0
    assert cluster.place("a", "worker-2", Resources(2.0, 1024)) is None
    assert cluster.room().largest_cpu == 1.0


def test_the_fullest_machine_that_has_room_is_taken() -> None:
    cluster = VirtualCluster([MachineSize(2, 8.0, 8192)])
    first = cluster.place("a", "worker-0", Resources(5.0))
    assert cluster.place("a", "worker-1", Resources(2.0)) == first
    assert cluster.room().largest_cpu == 8.0


def test_memory_is_a_limit_too_and_also_in_place() -> None:
    cluster = VirtualCluster([MachineSize(1, 8.0, 1000)])
    cluster.place("a", "worker-0", Resources(1.0, 600))
    assert cluster.place("a", "worker-1", Resources(1.0, 600)) is None
    assert not cluster.resize("a", "worker-0", Resources(1.0, 1001))
    assert cluster.resize("a", "worker-0", Resources(2.0, 1000))
    assert (cluster.free_cpu, cluster.free_memory_mb) == (6.0, 0.0)


def test_a_machine_that_is_not_available_takes_no_node() -> None:
    cluster = VirtualCluster([MachineSize(1, 8.0, 1000)])
    cluster.set_available("machine-0", False)
    assert cluster.place("a", "worker-0", Resources(1.0)) is None
    cluster.set_available("machine-0", True)
    assert cluster.place("a", "worker-0", Resources(1.0)) == "machine-0"


def test_whatever_comes_and_goes_no_machine_has_less_than_nothing_and_all_is_free_in_the_end() -> None:
    random, cluster = Random(3), VirtualCluster([MachineSize(5, 7.5, 4000), MachineSize(3, 16.0, 9000)])
    held: list[str] = []
    for number in range(2000):
        if held and random.random() < 0.45:
            cluster.release("a", held.pop(random.randrange(len(held))))
        elif cluster.place("a", f"n-{number}", Resources(random.choice([0.3, 1.0, 2.5]), random.randrange(2000))):
            held.append(f"n-{number}")
        assert 0 <= cluster.free_cpu <= cluster.total_cpu
        assert cluster.free_memory_mb >= 0
    for name in held:
        cluster.release("a", name)
    assert round(cluster.free_cpu, 6) == cluster.total_cpu
    assert cluster.free_memory_mb == cluster.total_memory_mb
