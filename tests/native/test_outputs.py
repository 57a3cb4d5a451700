"""Rows of predictions: what a processor may give, and the files they go to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.native.points import make_points
from tests.native.test_contract import GOOD

from pliant.core.errors import InvalidRequest
from pliant.data import open_reader
from pliant.data.packing import pack_row
from pliant.native.model_file.contract import load_model_file
from pliant.native.model_file.description import Description
from pliant.native.prediction.outputs import write_output
from pliant.native.prediction.predict import Predictor

PROCESSOR = """
class PredictionOutputsProcessor:
    def process(self, predictions, worker_id, ids):
        return {made}
"""


def rows(folder: Path, made: str, output_format: str = "jsonl") -> list[Any]:
    """What is written of three records."""
    make_points(folder / "new.csv", 3)
    (folder / "net.py").write_text(GOOD + PROCESSOR.format(made=made))
    file = load_model_file(folder / "net.py", "Net", task="predict")
    about = Description(task="predict", model="net.py", data=["new.csv"], batch_size=2, output_format=output_format)
    predictor = Predictor(file, open_reader(folder / "new.csv"), file.make_model().eval(), about, "worker-0")
    return [pack_row(row) for row in predictor.rows([0, 1, 2])]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("[(i, 1.5) for i in ids]", {"id": 2, "prediction": [2, 1.5]}),
        ("[{'a': torch.tensor([i, 3]), 4: predictions[0].argmax() * 0} for i in ids]", {"id": 2, "a": [2, 3], "4": 0}),
        ("(str(i) for i in ids)", {"id": 2, "prediction": "2"}),
        ("predictions[:, 0] * 0", {"id": 2, "prediction": 0.0}),
    ],
)
def test_a_processor_may_give_tuples_dicts_tensors_and_arrays(tmp_path: Path, made: str, expected: Any) -> None:
    assert json.loads(rows(tmp_path, made)[2]) == expected


def test_without_rows_of_the_processor_the_predictions_are_written_and_bytes_are_left_as_they_are(
    tmp_path: Path,
) -> None:
    assert set(json.loads(rows(tmp_path, "None")[0])) == {"id", "prediction"}
    assert rows(tmp_path, r"[b'\xff%d' % i for i in ids]", "recordio") == [b"\xff0", b"\xff1", b"\xff2"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("[1]", "returned 1 rows for 2 records"),
        ("3", "returned 1 rows for 2 records"),
        ("[b'x' for i in ids]", "returned bytes, which only RecordIO can hold"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_at_the_first_batch(tmp_path: Path, made: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"net.py:19: process {said}"):
        rows(tmp_path, made)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_with_other_columns_than_those_before_are_refused_and_leave_no_file(tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"said.{ending}"
    with pytest.raises(InvalidRequest, match="row 1 has columns id, b, earlier rows have id, a"):
        write_output(output, "", [b'{"id": 0, "a": 1}', b'{"id": 1, "b": 1}'])
    with pytest.raises(InvalidRequest, match="bytes"):
        write_output(output, "", [b"\xff"])
    assert list(tmp_path.iterdir()) == []


def test_a_column_of_parquet_has_one_kind_of_value(tmp_path: Path) -> None:
    output = tmp_path / "said.parquet"
    numbers = [b'{"id": %d, "a": %d}' % (i, i) for i in range(9000)]
    write_output(output, "", numbers)
    assert pq.read_table(output)["a"].to_pylist() == list(range(9000))
    with pytest.raises(InvalidRequest, match="rows from 8192 on have values of different types"):
        write_output(output, "", [*numbers[:8999], b'{"id": 8999, "a": "x"}'])
