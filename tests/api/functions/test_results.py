"""What a function returned comes back exactly, without a pickle where possible; and no value ends a job in failure."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.api.functions import results
from pliant.api.functions.results import read, results_in, write
from pliant.core.errors import Conflict, CorruptData, InvalidRequest, NotAvailable

pytest.importorskip("cloudpickle")


class Model:
    def __init__(self, size: int) -> None:
        self.size = size


def kept(folder: Path, value: object, **options: Any) -> Any:
    write(folder, "worker-0", value)
    (file,) = results_in(folder)
    return read(file, **options)


def test_plain_values_and_tensors_come_back_exactly(tmp_path: Path) -> None:
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    assert kept(tmp_path, {"loss": (1, None), "2": b"x"}) == {"loss": (1, None), "2": b"x"}
    assert str(kept(tmp_path, [float("nan"), float("-inf")])) == "[nan, -inf]"
    layer = torch.nn.Linear(2, 3)
    found = kept(
        tmp_path, {"state": layer.state_dict(), "views": [layer.weight, layer.weight.T], "array": numpy.arange(4)}
    )
    assert torch.equal(found["state"]["weight"], layer.weight)
    assert torch.equal(found["views"][1], layer.weight.T)
    assert found["array"].tolist() == [0, 1, 2, 3]
    assert isinstance(found["array"], numpy.ndarray)
    assert kept(tmp_path, torch.ones(2, dtype=torch.bfloat16)).dtype is torch.bfloat16
    big_endian = numpy.array([[1, 2]], dtype=">i4")
    assert kept(tmp_path, big_endian[:, ::-1]).tolist() == [[2, 1]]
    assert kept(tmp_path, numpy.float64(0.5)) == 0.5
    assert kept(tmp_path, numpy.array(7)).shape == ()


def test_the_file_is_private_and_replaces_that_of_an_earlier_run(tmp_path: Path) -> None:
    write(tmp_path, "worker-0", Model(1))
    write(tmp_path, "worker-0", 3)
    assert [file.path.name for file in results_in(tmp_path)] == ["worker-0.json"]
    assert (tmp_path / "results/worker-0.json").stat().st_mode & 0o777 == 0o600


def test_the_lowest_number_comes_first_and_other_files_are_none(tmp_path: Path) -> None:
    for node in ("worker-10", "worker-2", "worker-3"):
        write(tmp_path, node, node)
    (tmp_path / "results" / ".worker-1.json.abc").touch()
    (tmp_path / "results" / "notes.txt").touch()
    assert [file.node for file in results_in(tmp_path)] == ["worker-2", "worker-3", "worker-10"]
    assert results_in(tmp_path / "none") == []


def test_a_pickle_is_loaded_only_on_demand(tmp_path: Path) -> None:
    assert "kept as a pickle" in write(tmp_path, "worker-0", Model(3))
    (file,) = results_in(tmp_path)
    with pytest.raises(InvalidRequest, match=r"the result of worker-0 is a pickle: result is a .*Model"):
        read(file)
    assert read(file, allow_pickle=True).size == 3


def test_a_pickle_that_is_not_ours_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "worker-0", Model(3))
    (file,) = results_in(tmp_path)
    file.path.chmod(0o660)
    with pytest.raises(Conflict, match="not private"):
        read(file, allow_pickle=True)
    file.path.chmod(0o600)
    os.rename(file.path, tmp_path / "elsewhere")
    file.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict):
        read(file, allow_pickle=True)
    file.path.unlink()
    os.rename(tmp_path / "elsewhere", file.path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 4711)
    with pytest.raises(Conflict):
        read(file, allow_pickle=True)


def test_a_pickle_of_another_version_or_a_plain_one_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "worker-0", Model(3))
    (file,) = results_in(tmp_path)
    content = file.path.read_bytes()
    version = f'"python": "{sys.version_info.major}.{sys.version_info.minor}"'.encode()
    assert version in content
    file.path.write_bytes(content.replace(version, b'"python": "2.7"'))
    with pytest.raises(Conflict, match=r"pickled with Python 2\.7"):
        read(file, allow_pickle=True)
    file.path.write_bytes(pickle.dumps(1))
    with pytest.raises(CorruptData):
        read(file, allow_pickle=True)
    file.path.write_bytes(content[:-5])
    with pytest.raises(CorruptData, match="cannot be unpickled"):
        read(file, allow_pickle=True)


def numbers() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    "value", [threading.Lock(), numbers(), [threading.Lock()]], ids=["lock", "generator", "inside"]
)
def test_what_cannot_be_kept_is_said_when_it_is_asked_for(tmp_path: Path, value: object) -> None:
    assert "the result is not kept: result" in write(tmp_path, "worker-0", value)
    (file,) = results_in(tmp_path)
    with pytest.raises(InvalidRequest, match=r"was not kept: result.* cannot be pickled") as found:
        read(file)
    assert "return numbers, text" in found.value.hint


def test_a_result_that_is_too_large_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_BYTES", 1000)
    assert "2,013 bytes; at most 1,000" in write(tmp_path, "worker-0", "x" * 2000)


def test_a_full_disk_is_said_and_the_training_has_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results, "write_bytes", full)
    assert "No space left on device" in write(tmp_path, "worker-0", 1)


@pytest.mark.parametrize("name", ["worker-0.json", "worker-0.safetensors", "worker-0.pickle"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff" * 40, b"[" * 100_000, b"\x08" + b"\0" * 7 + b"{}      "])
def test_a_file_that_is_cut_or_garbled_is_corrupt(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "results").mkdir(mode=0o700)
    path = tmp_path / "results" / name
    path.write_bytes(content)
    path.chmod(0o600)
    (file,) = results_in(tmp_path)
    with pytest.raises(CorruptData):
        read(file, allow_pickle=True)


def test_tensors_without_torch_are_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    write(tmp_path, "worker-0", torch.ones(1))
    (file,) = results_in(tmp_path)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(NotAvailable, match="pip install"):
        read(file)
