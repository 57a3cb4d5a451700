"""Results of functions as JSON and as safetensors."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy

from pliant.api.functions.results import ResultFile, read, write


class _Results:
    name: str
    form: str

    def values(self) -> list[Any]:
        raise NotImplementedError

    def seeds(self) -> list[bytes]:
        found = []
        for value in self.values():
            with TemporaryDirectory() as folder:
                write(Path(folder), "worker-0", value)
                found.append((Path(folder) / "results" / f"worker-0.{self.form}").read_bytes())
        return found

    def check(self, data: bytes, folder: Path) -> None:
        results = folder / "results"
        results.mkdir(mode=0o700)
        path = results / f"worker-0.{self.form}"
        path.write_bytes(data)
        path.chmod(0o600)
        read(ResultFile("worker-0", 0, path))


class Json(_Results):
    name = "function_result_json"
    form = "json"

    def values(self) -> list[Any]:
        return [{"a": (1, float("inf"), 2**80), "b": [b"x", {1: None}]}, 3]


class Safetensors(_Results):
    name = "function_result_safetensors"
    form = "safetensors"

    def values(self) -> list[Any]:
        return [{"w": numpy.arange(6.0), "s": (numpy.float32(1), "text")}, numpy.ones((2, 2), dtype=numpy.int8)]
