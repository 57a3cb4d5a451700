"""The fake machines behave as the API server and its controllers expect of real ones."""

from __future__ import annotations

from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import Space, Testbed

from pliant.platforms.kubernetes.kinds import PODS, Object


def a_pod(name: str, node: str) -> Object:
    container = {"name": "main", "image": "localhost/nothing:1"}
    return {
        "metadata": {"name": name},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container]},
    }


def test_a_pod_is_bound_runs_and_ends_as_the_test_says(control_plane: Testbed, space: Space) -> None:
    with FakeKubelet(control_plane.kube, prefix=f"fake-{space.name[-6:]}") as kubelet:
        pod = space.create(PODS, a_pod("one", kubelet.nodes[0]))
        space.wait_for(lambda: space.get(PODS, "one")["spec"].get("nodeName"), "the Pod to be bound")
        kubelet.run(pod)
        assert space.get(PODS, "one")["status"]["phase"] == "Running"
        kubelet.run_out_of_memory(pod)
        status = space.get(PODS, "one")["status"]
        assert status["phase"] == "Failed"
        assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"


def test_a_deleted_pod_goes_when_deletions_are_obeyed(control_plane: Testbed, space: Space) -> None:
    with FakeKubelet(control_plane.kube, prefix=f"fake-{space.name[-6:]}") as kubelet:
        kubelet.obey_deletions(space.name)
        kubelet.run(space.create(PODS, a_pod("one", kubelet.nodes[0])))
        space.delete(PODS, "one")
        space.wait_for(lambda: space.find(PODS, "one") is None, "the Pod to be gone")


def test_the_pods_of_a_silent_machine_are_asked_to_go(control_plane: Testbed, space: Space) -> None:
    with FakeKubelet(control_plane.kube, nodes=2, prefix=f"fake-{space.name[-6:]}") as kubelet:
        pod = space.create(PODS, a_pod("one", kubelet.nodes[0]))
        space.wait_for(lambda: space.get(PODS, "one")["spec"].get("nodeName"), "the Pod to be bound")
        kubelet.run(pod)
        kubelet.fall_silent(kubelet.nodes[0])
        space.wait_for(lambda: space.get(PODS, "one")["metadata"].get("deletionTimestamp"), "the Pod to be evicted")
