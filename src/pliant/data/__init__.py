"""Records, from the formats people have to the framework they use.

``recordio``: our own record files. ``contract`` and ``readers``: one way to read any format. ``stream`` and ``pipeline``: from
shards to records in a training loop. ``torch_dataset`` and ``tf_dataset``: the same for those frameworks; they alone import them.
"""

from pliant.data.contract import DataReader, Metadata, RecordRange
from pliant.data.errors import OutOfRange, RecordError
from pliant.data.map_dataset import MapDataset
from pliant.data.opening import open_reader
from pliant.data.pipeline import batches_of, records_of
from pliant.data.recordio.reader import RecordIOReader
from pliant.data.recordio.writer import RecordIOWriter
from pliant.data.stream import Dataset

__all__ = [
    "DataReader",
    "Dataset",
    "MapDataset",
    "Metadata",
    "OutOfRange",
    "RecordError",
    "RecordIOReader",
    "RecordIOWriter",
    "RecordRange",
    "batches_of",
    "open_reader",
    "records_of",
]
