"""Foreign formats of data: Parquet, NumPy, CSV, JSON lines."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from pliant.data import open_reader


class _File:
    name = ""
    suffix = ""

    def check(self, data: bytes, folder: Path) -> None:
        path = folder / f"a{self.suffix}"
        path.write_bytes(data)
        reader = open_reader(path)
        try:
            count = len(reader)
            list(reader.read(0, min(count, 1000)))
            if count:
                reader[count - 1]
            reader.metadata  # noqa: B018
        finally:
            reader.close()


class Parquet(_File):
    name, suffix = "parquet", ".parquet"

    def seeds(self) -> list[bytes]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        made = []
        columns = {"n": [1, 2, None, 4], "t": ["a", "b", "", "d"], "l": [[1], [], [2, 3], None]}
        for options in ({}, {"compression": "gzip", "use_dictionary": False}, {"row_group_size": 2, "version": "1.0"}):
            out = io.BytesIO()
            pq.write_table(pa.table(columns), out, **options)
            made.append(out.getvalue())
        return made


class Npy(_File):
    name, suffix = "npy", ".npy"

    def seeds(self) -> list[bytes]:
        arrays = (
            np.arange(6.0).reshape(3, 2),
            np.array(["a", "bc"]),
            np.array([(1, 2.0)], "i4,f8"),
            np.asfortranarray(np.eye(3)),
        )
        return [_npy(array) for array in arrays]


class Npz(_File):
    name, suffix = "npz", ".npz"

    def seeds(self) -> list[bytes]:
        made = []
        for save in (np.savez, np.savez_compressed):
            out = io.BytesIO()
            save(out, x=np.arange(6.0).reshape(3, 2), y=np.arange(3))
            made.append(out.getvalue())
        return made


class Csv(_File):
    name, suffix = "csv", ".csv"

    def seeds(self) -> list[bytes]:
        return [b'a,b\n1,"x\ny"\n2,"say ""hi"""\n', b"a;b\r\n\r\n1;2\r\n", b"\xef\xbb\xbfa,b\n" + b"1,2\n" * 100]


class JsonLines(_File):
    name, suffix = "jsonl", ".jsonl"

    def seeds(self) -> list[bytes]:
        return [b'{"a": 1}\n[1, 2.5, null]\n"text"\n' * 40, b"1\n\n\r\n2"]


def _npy(array: object) -> bytes:
    out = io.BytesIO()
    np.save(out, array)  # type: ignore[arg-type]
    return out.getvalue()
