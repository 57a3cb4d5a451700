"""GPUs without a GPU: the driver's files are a folder of the test, and whoever has one is a descriptor."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pliant.platforms.gpus import Gpu, GpuGrant, GpuPool, find_gpus, parse_listing, visible_gpus

TWO = (Gpu("0", "GPU-aaaa-1"), Gpu("1", "GPU-bbbb-2"))
LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa-1)
  MIG 3g.20gb     Device  0: (UUID: MIG-1111)
  MIG 3g.20gb     Device  1: (UUID: MIG-2222)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb-2)
"""


def no_tool() -> str:
    return ""


def a_board(root: Path, bus: str, uuid: str) -> None:
    folder = root / "proc/driver/nvidia/gpus" / bus
    folder.mkdir(parents=True)
    (folder / "information").write_text(
        f"Model: \t\t NVIDIA A100\nIRQ:   \t\t 60\nGPU UUID: \t {uuid}\nDevice Minor: \t 0\n"
    )


def test_a_machine_without_a_driver_has_none(tmp_path: Path) -> None:
    assert find_gpus(tmp_path, no_tool) == ()


def test_gpus_are_found_in_the_drivers_files_by_the_order_of_the_bus(tmp_path: Path) -> None:
    a_board(tmp_path, "0000:81:00.0", "GPU-bbbb-2")
    a_board(tmp_path, "0000:01:00.0", "GPU-aaaa-1")
    assert find_gpus(tmp_path, no_tool) == TWO


def test_device_files_are_counted_where_the_driver_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-caps"):
        (tmp_path / "dev" / name).touch()
    assert find_gpus(tmp_path, no_tool) == (Gpu("0"), Gpu("1"))


def test_the_tool_is_asked_where_there_are_no_files_and_where_a_gpu_is_divided(tmp_path: Path) -> None:
    assert find_gpus(tmp_path, lambda: LISTING) == (Gpu("MIG-1111", "MIG-1111"), Gpu("MIG-2222", "MIG-2222"), TWO[1])
    a_board(tmp_path, "0000:01:00.0", "GPU-aaaa-1")
    assert find_gpus(tmp_path, lambda: LISTING) == TWO[:1], "the files suffice"
    (tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig/gi1").mkdir(parents=True)
    assert len(find_gpus(tmp_path, lambda: LISTING)) == 3


def test_what_is_no_listing_is_no_gpu() -> None:
    assert parse_listing("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.") == ()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, ["0", "1"]),
        ("0,1", ["0", "1"]),
        ("1", ["1"]),
        (" 1 , 0 ", ["1", "0"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("1,7,0", ["1"]),
        ("0,0", ["0"]),
        ("GPU-bbbb", ["GPU-bbbb"]),
        ("GPU-aaaa-1,1", ["GPU-aaaa-1", "1"]),
        ("0,GPU-aaaa-1", ["0"]),
        ("MIG-3333,MIG-4444", ["MIG-3333", "MIG-4444"]),
    ],
)
def test_an_outer_choice_is_respected_as_cuda_does(given: str | None, names: list[str]) -> None:
    env = {} if given is None else {"CUDA_VISIBLE_DEVICES": given}
    assert [gpu.name for gpu in visible_gpus(env, TWO)] == names
    assert visible_gpus(env, ()) == (), "a choice makes no GPU"


def test_a_refusal_says_what_is_there_and_what_is_free(tmp_path: Path) -> None:
    pool = GpuPool(TWO, tmp_path)
    assert pool.take(3, ()) == "3 GPUs requested; the machine has 2"
    assert pool.take(2, {"0"}) == "2 GPUs requested; 1 of 2 available"
    assert GpuPool(()).take(1, ()) == "1 GPU requested; the machine has none"
    assert isinstance(GpuPool(()).take(0, ()), GpuGrant)


def test_another_job_that_calls_a_gpu_by_another_name_does_not_get_it_too(tmp_path: Path) -> None:
    ours = GpuPool(visible_gpus({"CUDA_VISIBLE_DEVICES": "1"}, TWO), tmp_path).take(1, ())
    assert isinstance(ours, GpuGrant)
    others = GpuPool(visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}, TWO), tmp_path)
    assert others.take(1, ()) == "1 GPU requested; 0 of 1 available"
    ours.release()
    assert isinstance(others.take(1, ()), GpuGrant)


class GpuHistories(RuleBasedStateMachine):
    """Two jobs on a machine with four GPUs. A living node is the descriptors that its agent inherited, and its record."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.gpus = tuple(Gpu(str(number), f"GPU-{number}") for number in range(4))
        self.pools = {job: self.new_pool() for job in ("a", "b")}
        self.records: dict[tuple[str, int], tuple[str, ...]] = {}
        self.agents: dict[tuple[str, int], list[int]] = {}
        self.launched = 0

    def new_pool(self) -> GpuPool:
        return GpuPool(self.gpus, Path(self.folder.name))

    @rule(job=st.sampled_from("ab"), count=st.integers(0, 5), has_record=st.booleans())
    def launch(self, job: str, count: int, has_record: bool) -> None:
        """``has_record``: a master may die before it writes one, and its successor then knows nothing of the node."""
        in_use = {name for (owner, _), names in self.records.items() if owner == job for name in names}
        held = sum(len(descriptors) for descriptors in self.agents.values())
        grant = self.pools[job].take(count, in_use)
        if isinstance(grant, str):
            assert count > len(self.gpus) - held, "free GPUs were refused"
            return
        assert len(grant.names) == count
        self.launched += 1
        node = (job, self.launched)
        self.agents[node] = [os.dup(descriptor) for descriptor in grant.descriptors]
        if has_record:
            self.records[node] = grant.names
        grant.release()

    @rule(pick=st.integers(0, 100))
    def a_node_ends(self, pick: int) -> None:
        if self.agents:
            node = sorted(self.agents)[pick % len(self.agents)]
            for descriptor in self.agents.pop(node):
                os.close(descriptor)
            self.records.pop(node, None)

    @rule(job=st.sampled_from("ab"))
    def the_master_restarts(self, job: str) -> None:
        self.pools[job] = self.new_pool()

    @invariant()
    def no_gpu_has_two_nodes(self) -> None:
        names = [name for names in self.records.values() for name in names]
        assert len(names) == len(set(names))
        files = [os.readlink(f"/proc/self/fd/{fd}") for descriptors in self.agents.values() for fd in descriptors]
        assert len(files) == len(set(files))

    def teardown(self) -> None:
        while self.agents:
            self.a_node_ends(0)
        self.folder.cleanup()


TestGpuHistories = GpuHistories.TestCase
TestGpuHistories.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
