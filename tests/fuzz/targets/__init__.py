"""One module per parser; each has a ``Fuzz`` class (``tests.fuzz.driver.Target``)."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.driver import Target
from tests.fuzz.targets import (
    array_record,
    checkpoint_parts,
    checkpoint_state,
    data_index,
    dump_manifest,
    dump_part,
    frames,
    function_payload,
    function_result,
    job_spec,
    journal,
    manifests,
    notes,
    push_log,
    readers,
    recordio,
    rpc_messages,
    series,
)

TARGETS: dict[str, Callable[[], Target]] = {
    "rpc_messages": rpc_messages.Fuzz,
    "ps_frames": frames.Fuzz,
    "recordio": recordio.Fuzz,
    "array_record": array_record.Fuzz,
    "checkpoint_manifest": manifests.Fuzz,
    "checkpoint_part": checkpoint_parts.Fuzz,
    "checkpoint_state": checkpoint_state.Fuzz,
    "dump_manifest": dump_manifest.Fuzz,
    "dump_part": dump_part.Fuzz,
    "push_log": push_log.Fuzz,
    "data_index": data_index.Fuzz,
    "job_spec": job_spec.Fuzz,
    "journal": journal.Fuzz,
    "notes": notes.Fuzz,
    "function_payload": function_payload.Fuzz,
    "function_result_json": function_result.Json,
    "function_result_safetensors": function_result.Safetensors,
    "series": series.Fuzz,
    "parquet": readers.Parquet,
    "npy": readers.Npy,
    "npz": readers.Npz,
    "csv": readers.Csv,
    "jsonl": readers.JsonLines,
}
