"""What the function returned on each worker, as a file in the job's folder: ``results/worker-0.json``.

    .json         everything that ``values`` expresses and that has no tensors
    .safetensors  the same with tensors of torch and arrays of NumPy; its metadata has the structure
    .pickle       anything else: kept, but loaded only if the caller says so, from a file that is this user's alone
    .json         with ``unkept``: why the value could not be kept at all

The job's result is that of the worker with the lowest number among those that returned. A worker that was started again returns
again, and its newest value counts.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.api.functions.payload import Stamps, read_private
from pliant.api.functions.pickling import cloudpickle_module
from pliant.api.functions.values import (
    NUMPY,
    SCALAR,
    TORCH,
    NotPlain,
    PlainValue,
    decode,
    encode,
    kinds_of_tensors,
    type_name,
)
from pliant.core.errors import CorruptData, InvalidRequest, NotAvailable, PliantError
from pliant.files.atomic import write_bytes
from pliant.files.private import FILE_MODE, check_own_folder, make_private_folder

FOLDER = "results"
MAX_BYTES = 1 << 30
KEY = "pliant"  # in the metadata of safetensors
PICKLE_MAGIC = b"pliant-result 1\n"
_FILE = re.compile(r"(?P<node>[a-z][-a-z0-9]*-(?P<number>\d+))\.(?P<form>json|safetensors|pickle)")
_HEADER_BYTES = 8
RETURN = (
    "return numbers, text, lists, dicts, tensors or arrays; write larger or other things to a file, and return its path"
)


@dataclass(frozen=True)
class ResultFile:
    node: str
    number: int
    path: Path


# --- on the worker


def write(folder: Path, node: str, value: object) -> str:
    """Keep it in the job's folder; returns a note for the log if it could not be kept as data. Never fails for the value's sake:
    the training is done."""
    results = folder / FOLDER
    make_private_folder(results)
    note = ""
    try:
        form, content = _serialized(value)
        if len(content) > MAX_BYTES:
            raise NotPlain(f"the result has {len(content):,} bytes; at most {MAX_BYTES:,} are kept")
        if form == "pickle":
            note = (
                f"the result is a {type_name(value)}, which is kept as a pickle: job.result(allow_pickle=True) loads it"
            )
    except NotPlain as error:
        note = f"the result is not kept: {error}"
        form, content = "json", json.dumps({"node": node, "unkept": str(error)}).encode()
    try:
        write_bytes(results / f"{node}.{form}", content, mode=FILE_MODE)
    except OSError as error:
        return f"the result is not kept: {results} cannot be written: {error.strerror}"
    for other in {"json", "safetensors", "pickle"} - {form}:  # of an earlier run of this worker
        (results / f"{node}.{other}").unlink(missing_ok=True)
    return note


def _serialized(value: object) -> tuple[str, bytes]:
    try:
        plain = encode(value, "result")
        if not plain.tensors:
            return "json", json.dumps({"value": plain.structure}).encode()
        return "safetensors", _safetensors(plain)
    except NotPlain as error:
        reason = str(error)
    try:
        body = cloudpickle_module().dumps(value)
    except NotAvailable as error:
        raise NotPlain(f"{reason}, and {error.message}") from None
    except Exception as error:  # noqa: BLE001  # of any object's own way to be pickled
        raise NotPlain(f"{reason}, which cannot be pickled ({type(error).__name__}: {error})") from None
    header = {"type": type_name(value), "reason": reason, "stamps": vars(Stamps.here())}
    return "pickle", PICKLE_MAGIC + json.dumps(header).encode() + b"\n" + body


def _safetensors(plain: PlainValue) -> bytes:
    metadata = {KEY: json.dumps(plain.structure)}
    try:
        if plain.has_torch:
            from safetensors.torch import save as save_torch

            torch = sys.modules["torch"]  # whose tensors they are
            tensors = {name: _as_torch(torch, tensor) for name, tensor in plain.tensors.items()}
            return bytes(save_torch(tensors, metadata))
        from safetensors.numpy import save as save_arrays

        return bytes(save_arrays(dict(plain.tensors), metadata))
    except ImportError as error:
        raise NotPlain(f"the result has arrays, and {error.name} is not installed") from None
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise NotPlain(f"the result has tensors of a type that safetensors does not know ({error})") from None


def _as_torch(torch: Any, tensor: Any) -> Any:
    return tensor if isinstance(tensor, torch.Tensor) else torch.from_numpy(tensor)


# --- where it is read


def results_in(folder: Path) -> list[ResultFile]:
    """Lowest number first."""
    results = folder / FOLDER
    if not results.is_dir() or results.is_symlink():
        return []
    found = [(path, _FILE.fullmatch(path.name)) for path in results.iterdir()]
    files = [ResultFile(match["node"], int(match["number"]), path) for path, match in found if match]
    newest = {file.node: file for file in sorted(files, key=lambda file: file.path.lstat().st_mtime_ns)}
    return sorted(newest.values(), key=lambda file: (file.number, file.node))


def read(file: ResultFile, *, allow_pickle: bool = False) -> Any:
    """Raises ``InvalidRequest`` for a pickle without ``allow_pickle``, and for a value that was not kept."""
    check_own_folder(file.path.parent)
    content = read_private(file.path, MAX_BYTES + (1 << 20), what=f"the result of {file.node}")
    match file.path.suffix:
        case ".json":
            return _read_json(content, file)
        case ".safetensors":
            return _read_safetensors(content, file)
        case _:
            return _read_pickle(content, file, allow_pickle=allow_pickle)


def _read_json(content: bytes, file: ResultFile) -> Any:
    value = _object(content, file)
    if "unkept" in value:
        raise InvalidRequest(f"the result of {file.node} was not kept: {value['unkept']}", hint=RETURN)
    if "value" not in value:
        raise CorruptData(f"{file.path} is corrupt: it has no value")
    return decode(value["value"], {}, str(file.path))


def _read_safetensors(content: bytes, file: ResultFile) -> Any:
    structure = _structure(content, file)
    kinds = kinds_of_tensors(structure)
    try:
        if TORCH in kinds:
            from safetensors.torch import load as load_torch

            loaded: Mapping[str, Any] = load_torch(content)
            arrays = _names(structure, frozenset({NUMPY, SCALAR}))
            tensors = {name: tensor.numpy() if name in arrays else tensor for name, tensor in loaded.items()}
        else:
            from safetensors.numpy import load as load_arrays

            tensors = load_arrays(content)
    except ImportError as error:
        raise NotAvailable(
            f"the result of {file.node} has tensors, and a package is not installed here: {error.name}",
            hint=f"pip install {error.name}; the file is {file.path}",
        ) from None
    except Exception as error:
        if type(error).__module__.startswith("safetensors") or isinstance(error, ValueError | KeyError):
            raise CorruptData(f"{file.path} is corrupt: {error}") from None
        raise
    return decode(structure, tensors, str(file.path))


def _structure(content: bytes, file: ResultFile) -> Any:
    try:
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[_HEADER_BYTES : _HEADER_BYTES + length])
        return json.loads(header["__metadata__"][KEY])
    except (struct.error, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise CorruptData(f"{file.path} is corrupt or truncated") from None


def _names(structure: Any, kinds: frozenset[str]) -> set[str]:
    if isinstance(structure, dict):
        inner = {structure[kind] for kind in kinds & structure.keys()}
        return inner.union(*(_names(value, kinds) for value in structure.values()))
    return set().union(*(_names(value, kinds) for value in structure)) if isinstance(structure, list) else set()


def _read_pickle(content: bytes, file: ResultFile, *, allow_pickle: bool) -> Any:
    line, _, body = content.removeprefix(PICKLE_MAGIC).partition(b"\n")
    if not content.startswith(PICKLE_MAGIC):
        raise CorruptData(f"{file.path} is not a result of this version of Pliant")
    header = _object(line, file)
    if not allow_pickle:
        raise InvalidRequest(
            f"the result of {file.node} is a pickle: {header.get('reason')}",
            hint=f"{RETURN}; or load it with allow_pickle=True, which runs code that is in the file",
        )
    try:
        Stamps(**header["stamps"]).check(str(file.path))
    except (KeyError, TypeError):
        raise CorruptData(f"{file.path} is corrupt: it has no stamps") from None
    try:
        return cloudpickle_module().loads(body)
    except PliantError:
        raise
    except Exception as error:
        raise CorruptData(f"{file.path} cannot be unpickled: {type(error).__name__}: {error}") from error


def _object(content: bytes, file: ResultFile) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise CorruptData(f"{file.path} is corrupt or truncated") from None
    if not isinstance(value, dict):
        raise CorruptData(f"{file.path} is corrupt: it is not an object")
    return value
