from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from pliant.checkpoint.manifest import step_folder
from pliant.cli.commands.checkpoint import app
from pliant.core.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from tests.checkpoint.conftest import Cluster


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_ls_names_good_and_broken_ones(cluster: Cluster, state_of: Any) -> None:
    cluster.save(10, state_of(1), world=2)
    cluster.save(20, state_of(2), world=2)
    cluster.snapshot(30, state_of(3), world=2)
    cluster.write_out(0)
    part = Path(cluster.directory, step_folder(20), "part-00001-of-00002.safetensors")
    part.write_bytes(part.read_bytes()[:-5])
    rows = json.loads(run("ls", cluster.directory, "--json"))["checkpoints"]
    assert [(row["step"], row["status"]) for row in rows] == [(10, "complete"), (20, "broken"), (30, "incomplete")]
    text = run("ls", cluster.directory)
    assert "part-00001-of-00002.safetensors has" in text
    assert "1 of 2 parts present" in text


def test_ls_with_verify_finds_a_flipped_bit(cluster: Cluster, state_of: Any) -> None:
    cluster.save(10, state_of(1))
    part = next(Path(cluster.directory, step_folder(10)).glob("*.safetensors"))
    content = bytearray(part.read_bytes())
    content[-1] ^= 4
    part.write_bytes(content)
    run("ls", cluster.directory)
    assert "crc32 does not match" in run("ls", cluster.directory, "--verify", code=1)
    assert "crc32 does not match" in run("inspect", cluster.directory, "--verify", code=1)


def test_inspect_shows_tensors(cluster: Cluster, state_of: Any) -> None:
    cluster.save(10, state_of(1, 1500), world=3)
    shown = json.loads(run("inspect", cluster.directory, "--verify", "--json"))
    assert shown["verified"]
    tensors = {tensor["name"]: tensor for tensor in shown["tensors"]}
    assert tensors["model.embedding"]["shape"] == [1500, 1000]
    assert tensors["model.embedding"]["parts"] == [0, 1, 2]
    assert tensors["model.layer.weight"]["dtype"] == "bfloat16"
    assert "1500x1000" in run("inspect", cluster.directory)


def test_export_gives_plain_state_dicts(cluster: Cluster, state_of: Any, tmp_path: Path, same: Any) -> None:
    model = state_of(1)["model"]
    cluster.save(10, state_of(1), world=3)
    run("export", cluster.directory, "--to", str(tmp_path / "m.safetensors"))
    loaded = load_file(tmp_path / "m.safetensors")
    assert same({name: loaded[name] for name in model}, model)
    run("export", cluster.directory, "--to", str(tmp_path / "m.pt"), "--step", "10")
    assert same(torch.load(tmp_path / "m.pt", weights_only=True), model)
    out = json.loads(run("export", cluster.directory, "--to", str(tmp_path / "a.pt"), "--prefix", "", "--json"))
    assert out["tensors"] == 4


def test_mistakes_are_explained(cluster: Cluster, state_of: Any, tmp_path: Path) -> None:
    cluster.save(10, state_of(1))
    with pytest.raises(NotFound, match="model, optimizer, step"):
        run("export", cluster.directory, "--to", str(tmp_path / "m.pt"), "--prefix", "net")
    with pytest.raises(InvalidRequest, match=r"\.safetensors or \.pt"):
        run("export", cluster.directory, "--to", str(tmp_path / "m.onnx"))
    with pytest.raises(NotFound, match="step 11"):
        run("inspect", cluster.directory, "--step", "11")
    with pytest.raises(NotFound, match="no-such-job"):
        run("ls", "no-such-job")
    run("ls", str(tmp_path), code=1)


def test_a_job_is_found_by_its_folder(cluster: Cluster, state_of: Any, tmp_path: Path) -> None:
    cluster.directory = str(tmp_path / "job" / "checkpoints")
    cluster.save(10, state_of(1))
    (tmp_path / "job" / "job.yaml").write_text("name: x\nroles: {worker: {replicas: 1, command: python train.py}}\n")
    assert json.loads(run("ls", str(tmp_path / "job"), "--json"))["checkpoints"][0]["step"] == 10


@pytest.mark.parametrize("directory", ["saved", "/abs", "memory://pliant-cli/saved"])
def test_the_directory_of_a_job_is_that_of_its_programs_wherever_one_asks(
    cluster: Cluster, state_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    directory = directory.replace("/abs", str(tmp_path / "absolute"))
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here, tmp_path / "job"):
        folder.mkdir()
    cluster.directory = directory if "://" in directory else str(there / directory)
    cluster.save(10, state_of(1))
    spec = f"name: x\nroles: {{worker: {{command: x}}}}\nworking_dir: {there}\ncheckpoint: {{dir: '{directory}'}}\n"
    (tmp_path / "job" / "job.yaml").write_text(spec)
    monkeypatch.chdir(here)
    assert json.loads(run("ls", str(tmp_path / "job"), "--json"))["checkpoints"][0]["step"] == 10
