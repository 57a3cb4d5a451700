from __future__ import annotations

from pathlib import Path

import pytest

import pliant.rpc

HERE = Path(pliant.rpc.__file__).parent
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


@pytest.mark.parametrize("proto", ["pliant", "brain"])
def test_the_generated_code_is_that_of_the_proto(proto: str, tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    out = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    well_known = Path(protoc.__file__).parent / "_proto"  # google/protobuf/*.proto
    code = protoc.main(["protoc", f"-I{HERE.parent.parent}", f"-I{well_known}", *out, str(HERE / f"{proto}.proto")])
    assert code == 0
    names = [proto + suffix for suffix in SUFFIXES]
    stale = [name for name in names if (tmp_path / "pliant/rpc" / name).read_text() != (HERE / name).read_text()]
    assert not stale, "run `make proto`"
