"""Saved models: a directory with ``model.safetensors`` (the tensors) and ``model.json``, which describes them.

The JSON is written last and holds the checksum of the tensors, so a directory with a JSON file that matches is whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.checkpoint import load_latest
from pliant.checkpoint.storage import LocalStorage
from pliant.core.errors import CorruptData, InvalidRequest, NotFound
from pliant.files.atomic import read_json, write_json
from pliant.files.regular import open_regular
from pliant.native.model_file.contract import ModelFile

TENSORS, ABOUT = "model.safetensors", "model.json"


def save_model(directory: Path, state: Mapping[str, torch.Tensor], about: Mapping[str, Any]) -> None:
    from safetensors.torch import save

    directory.mkdir(parents=True, exist_ok=True)
    for left in directory.glob(f".{TENSORS}.*"):  # by a worker that was killed while it wrote
        left.unlink(missing_ok=True)
    data = save({name: value.contiguous() for name, value in _unshared(state).items()}, metadata={"format": "pt"})
    LocalStorage(directory).put(TENSORS, (data,), len(data))
    digest = blake2b(data, digest_size=16).hexdigest()
    write_json(directory / ABOUT, {"format": 1, **about, "tensors": TENSORS, "digest": digest})


def _unshared(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tied weights are written under each of their names: a safetensors file has no memory in common."""
    seen: set[int] = set()
    plain = {}
    for name, value in state.items():
        plain[name] = value.clone() if value.data_ptr() in seen else value
        seen.add(value.data_ptr())
    return plain


def read_about(directory: Path) -> dict[str, Any] | None:
    """What a directory's model is; None if there is no whole one."""
    return read_json(directory / ABOUT)


def load_state(directory: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    about = read_about(directory)
    if about is None:
        raise NotFound(f"no model in {directory}", hint=f"{ABOUT} is missing; check that the export completed")
    if about.get("tensors") != TENSORS or not isinstance(about.get("digest"), str):
        raise CorruptData(f"{directory / ABOUT} is corrupt, or from another release")
    try:
        with open_regular(directory / TENSORS) as file:
            data = file.read()
    except OSError as error:
        raise CorruptData(f"{directory / TENSORS} cannot be read: {error.strerror}") from error
    if blake2b(data, digest_size=16).hexdigest() != about["digest"]:
        raise CorruptData(f"{directory / TENSORS} does not match {ABOUT}")
    try:
        return load(data), about
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise CorruptData(f"{directory / TENSORS} is corrupt: {error!s:.500}") from error


def load_trained(path: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """From what ``--output`` got, from a safetensors file, or from the newest checkpoint in a directory."""
    given = Path(path)
    if (given / ABOUT).is_file():
        return load_state(given)
    if given.is_file():
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(given), {"version": 0}
        except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
            raise CorruptData(f"{given} is not a safetensors file: {error}") from error
    if given.is_dir() and (restored := load_latest(given)) is not None:
        state = restored.state.get("model") if isinstance(restored.state, dict) else None
        if not isinstance(state, dict):
            raise InvalidRequest(
                f"the checkpoint {restored.found.path} has no model", hint="pass a checkpoint that `pliant train` wrote"
            )
        return dict(state), {"version": restored.found.step}
    raise NotFound(f"no trained model in {path}", hint="pass the --output directory of `pliant train`")


def put_state(model: nn.Module, state: Mapping[str, torch.Tensor], where: str) -> None:
    try:
        model.load_state_dict(dict(state))
    except RuntimeError as error:
        raise InvalidRequest(
            f"the trained model in {where} does not match this model: {error}",
            hint="pass the --model, --model-class and --model-params that it was trained with",
        ) from error


def describe_file(file: ModelFile) -> dict[str, Any]:
    params = json.loads(json.dumps(dict(file.model_params), default=str))
    return {"model_file": file.path.name, "model_class": file.model_class, "model_params": params}
