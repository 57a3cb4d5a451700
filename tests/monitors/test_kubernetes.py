from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pliant.monitors.base import Amounts, Observation
from pliant.monitors.kubernetes import amounts, asked_by, measured_use, observation_of
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import labels_of

READY = {"type": "Ready", "status": "True"}


def machine(name: str = "m-0", *, condition: Object = READY, **spec: Any) -> Object:
    size = {"cpu": "3920m", "memory": "8Gi", "nvidia.com/gpu": "2", "pods": "110"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": size, "conditions": [condition]}}


def pod(
    name: str, on: str = "m-0", *, labels: dict[str, str] | None = None, phase: str = "Running", **asks: str
) -> Object:
    spec: Object = {"containers": [{"name": "main", "resources": {"requests": asks}}]}
    if on:
        spec["nodeName"] = on
    return {
        "metadata": {"name": name, "namespace": "team", "labels": labels or {}},
        "spec": spec,
        "status": {"phase": phase},
    }


def is_ready(item: Object) -> bool:
    return observation_of([item], []).machines[0].is_ready


def test_pods_of_anybody_take_from_their_machine_and_those_without_one_from_none() -> None:
    pods = [pod("theirs", cpu="1500m", memory="1Gi"), pod("waiting", on="", cpu="1", memory="1Gi")]
    pods += [
        pod("ours", labels=labels_of("digits", role="worker", node="worker-0"), cpu="1", **{"nvidia.com/gpu": "1"})
    ]
    seen = observation_of([machine(), machine("m-1")], pods)
    first, second = seen.machines
    assert first.size == Amounts(3.92, 8192.0, 2)
    assert first.free == Amounts(3.92 - 2.5, 7168.0, 1)
    assert second.free == second.size
    [node] = seen.nodes
    assert (node.namespace, node.job, node.name, node.role) == ("team", "digits", "worker-0", "worker")
    assert (node.phase, node.machine, node.asked) == ("Running", "m-0", Amounts(1.0, 0.0, 1))


def test_a_master_is_seen_as_a_node_of_its_role_and_a_pod_that_is_deleted_as_terminating() -> None:
    leaving = pod("digits-worker-0", labels=labels_of("digits", role="worker", node="worker-0"))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    master = pod("digits-master", on="", phase="Pending", labels=labels_of("digits", role="master"))
    seen = observation_of([machine()], [master, leaving])
    assert [(node.name, node.role, node.phase, node.machine) for node in seen.nodes] == [
        ("master", "master", "Pending", ""),
        ("worker-0", "worker", "Terminating", "m-0"),
    ]


def test_a_machine_takes_nodes_unless_it_is_silent_cordoned_or_of_the_control_plane() -> None:
    assert is_ready(machine())
    assert is_ready(machine(taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]))
    assert not is_ready(machine(condition={"type": "Ready", "status": "Unknown"}))
    assert not is_ready(machine(unschedulable=True))
    assert not is_ready(machine(taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]))


def test_what_is_measured_is_told_of_machines_and_of_all_containers_of_a_pod() -> None:
    usage = {"containers": [{"usage": {"cpu": "250m", "memory": "64Mi"}}, {"usage": {"cpu": "1n", "memory": "0"}}]}
    used = measured_use(
        [
            {"metadata": {"name": "m-0"}, "usage": {"cpu": "2", "memory": "1Gi"}},
            {"metadata": {"name": "w", "namespace": "team"}, **usage},
        ]
    )
    seen = observation_of([machine()], [pod("w", labels=labels_of("digits", role="worker", node="worker-0"))], used)
    assert seen.machines[0].used == Amounts(2.0, 1024.0)
    assert seen.nodes[0].used == Amounts(0.25 + 1e-9, 64.0)


def test_a_pod_asks_for_what_its_containers_need_or_for_what_the_largest_before_them_needs() -> None:
    def asks(cpu: str, **rest: Any) -> Object:
        return {"resources": {"requests": {"cpu": cpu}}, **rest}

    assert asked_by({"containers": [asks("1"), asks("2"), {}]}).cpu == 3.0
    assert asked_by({"containers": [asks("1")], "initContainers": [asks("4"), asks("2")]}).cpu == 4.0
    beside = asks("500m", restartPolicy="Always")
    assert asked_by({"containers": [asks("1")], "initContainers": [beside]}).cpu == 1.5
    assert asked_by({"containers": [asks("1")], "overhead": {"cpu": "250m"}}).cpu == 1.25
    assert amounts({"cpu": "nonsense"}) == Amounts()


@given(
    st.lists(st.tuples(st.sampled_from(["m-0", "m-1", ""]), st.integers(0, 3000), st.integers(0, 9000)), max_size=12)
)
def test_free_and_asked_for_make_up_a_machine_and_free_is_never_less_than_nothing(
    asked: list[tuple[str, int, int]],
) -> None:
    pods = [pod(f"p-{i}", on, cpu=f"{cpu}m", memory=f"{mb}Mi") for i, (on, cpu, mb) in enumerate(asked)]
    seen: Observation = observation_of([machine("m-0"), machine("m-1")], pods)
    for found in seen.machines:
        cpu = sum(cpu for on, cpu, _ in asked if on == found.name) / 1000
        mb = sum(mb for on, _, mb in asked if on == found.name)
        assert abs(found.free.cpu - max(0.0, found.size.cpu - cpu)) < 1e-9
        assert found.free.memory_mb == max(0.0, found.size.memory_mb - mb)
