"""Job specs: YAML text."""

from __future__ import annotations

from pathlib import Path

from pliant.spec import load_spec

ROOT = Path(__file__).parents[3]


class Fuzz:
    name = "job_spec"

    def seeds(self) -> list[bytes]:
        merge = b"roles:\n  worker: &w {command: [a], resources: &r {cpu: 1}}\n  ps: {<<: *w, resources: {<<: *r, memory: 1Gi}}\n"
        return [(ROOT / "examples" / "job.yaml").read_bytes(), b"name: a\nroles: {worker: {command: [x]}}\n", merge]

    def check(self, data: bytes, folder: Path) -> None:
        path = folder / "job.yaml"
        path.write_bytes(data)
        load_spec(path)
