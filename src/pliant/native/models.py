"""One model, whatever it is: a torch module or a Keras model on the torch back end. How it is made, called, saved and loaded.

A saved model is a directory: ``model.safetensors`` with the tensors and ``model.json`` that says what they are of. The JSON is
written last and names the checksum of the tensors, so a directory with a JSON file that fits is whole.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pliant.checkpoint import load_latest
from pliant.checkpoint.places import LocalPlace
from pliant.core.errors import CorruptData, InvalidRequest, NotFound
from pliant.native.contract import ModelFile
from pliant.native.description import Description
from pliant.native.feed import Batch
from pliant.platforms.durable_files import read_json, write_json

TENSORS, ABOUT = "model.safetensors", "model.json"


def make_model(file: ModelFile, *, seed: int, sample: Batch | None) -> nn.Module:
    """The user's model, with the same first weights on every worker. ``sample``: for models that are built by their input."""
    seed_all(seed)
    if (keras := sys.modules.get("keras")) is not None:
        keras.utils.clear_session()  # it numbers layers per process, and a state is known by their names
        keras.utils.set_random_seed(seed)  # its initializers have numbers of their own
    model = file.make_model()
    name = file.model_class or "custom_model"
    where = f"{file.path}:{file.lines.get(name, 1)}"
    if not isinstance(model, nn.Module):
        kind = f"{type(model).__module__}.{type(model).__name__}"
        hint = "set KERAS_BACKEND=torch" if "keras" in kind else "derive it from torch.nn.Module"
        raise InvalidRequest(f"{where}: {name} gives a {kind}, which is no torch module", hint=hint)
    unbuilt = (is_keras(model) and not model.built) or _is_lazy(model)
    if unbuilt and sample is not None:
        with torch.no_grad():
            file.call_as(name, predict, model.eval(), sample.features)
        model.train()
    if _is_lazy(model):
        raise InvalidRequest(
            f"{where}: {name} has parameters that get their shape from the first batch",
            hint="dataset_fn drops all of the first records: give the shape"
            if sample is None
            else "use all of its layers",
        )
    return model


def _is_lazy(model: nn.Module) -> bool:
    return any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters())


def seed_all(seed: int) -> None:
    """Whatever a model may draw its first weights from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))


def check_tables(model: nn.Module, about: Description) -> None:
    """Tables of ``pliant.torch`` are on parameter servers or in one process: workers that go in step do not share them."""
    tables: list[Any] = [m for m in model.modules() if type(m).__module__ == "pliant.torch.embedding"]
    if tables and about.strategy.startswith("ps") and about.trained:
        raise InvalidRequest(
            "--trained with tables on parameter servers",
            hint="--ps-options restore=FOLDER begins from the dumps of a job",
        )
    if tables and (about.strategy == "allreduce" or (about.strategy == "local" and about.virtual_workers > 1)):
        raise InvalidRequest(
            f"the model has the table {tables[0].spec.name!r}, and {about.strategy} would train it on each worker by itself",
            hint="use --strategy ps-sync or ps-async, or local",
        )


def is_keras(model: nn.Module) -> bool:
    return any(base.__module__.startswith("keras.") for base in type(model).__mro__)


def predict(model: nn.Module, features: Any) -> Any:
    """A tuple of features is given as several arguments, all else as one. Train or evaluate: as the module is set."""
    if is_keras(model):
        given = list(features) if isinstance(features, tuple | list) else features
        return model(given, training=model.training)
    return model(*features) if isinstance(features, tuple | list) else model(features)


def feature_of(features: Any, key: str | int, table: str) -> Any:
    """The ids of a table, among the features of a batch."""
    try:
        if isinstance(features, dict | tuple | list):
            return features[key]  # type: ignore[index]  # a list by a name raises
        raise TypeError
    except (KeyError, IndexError, TypeError):
        known = ", ".join(map(str, features)) if isinstance(features, dict) else f"a {type(features).__name__}"
        raise InvalidRequest(
            f"table {table!r} is to have its ids from the feature {key!r}", hint=f"features are {known:.300}"
        ) from None


def loss_of(file: ModelFile, labels: Any, predictions: Any) -> torch.Tensor:
    """The mean over the batch."""
    made = file.get("loss")(labels, predictions)
    if not isinstance(made, torch.Tensor):
        raise InvalidRequest(f"{file.where('loss')}: loss must give a tensor; it gives {type(made).__name__}")
    return made if made.dim() == 0 else made.mean()


def copy_state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def save_model(directory: Path, state: Mapping[str, torch.Tensor], about: Mapping[str, Any]) -> None:
    from safetensors.torch import save

    directory.mkdir(parents=True, exist_ok=True)
    for left in directory.glob(f".{TENSORS}.*"):  # by a worker that was killed while it wrote
        left.unlink(missing_ok=True)
    data = save({name: value.contiguous() for name, value in _unshared(state).items()}, metadata={"format": "pt"})
    LocalPlace(directory).put(TENSORS, (data,), len(data))
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
    from safetensors.torch import load

    about = read_about(directory)
    if about is None:
        raise NotFound(f"there is no model in {directory}", hint=f"{ABOUT} is missing; was it exported to the end?")
    try:
        data = (directory / str(about["tensors"])).read_bytes()
    except OSError as error:
        raise CorruptData(f"{directory / str(about['tensors'])} cannot be read: {error.strerror}") from error
    if blake2b(data, digest_size=16).hexdigest() != about["digest"]:
        raise CorruptData(f"{directory / TENSORS} is not the file that {ABOUT} describes")
    return load(data), about


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
        except (SafetensorError, OSError) as error:
            raise CorruptData(f"{given} is no safetensors file: {error}") from error
    if given.is_dir() and (restored := load_latest(given)) is not None:
        state: dict[str, torch.Tensor] = dict(restored.state["model"])
        return state, {"version": restored.found.step}
    raise NotFound(f"there is no trained model in {path}", hint="give the --output directory of a training")


def put_state(model: nn.Module, state: Mapping[str, torch.Tensor], where: str) -> None:
    try:
        model.load_state_dict(dict(state))
    except RuntimeError as error:
        raise InvalidRequest(
            f"the trained model in {where} does not fit this model: {error}",
            hint="give the --model, --model-class and --model-params that it was trained with",
        ) from error


def as_arrays(value: Any) -> Any:
    """Tensors as NumPy arrays, in the same structure."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().float().numpy() if value.dtype is torch.bfloat16 else value.detach().cpu().numpy()
    if isinstance(value, dict):
        return {name: as_arrays(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return tuple(as_arrays(one) for one in value)
    raise InvalidRequest(f"tensors are expected, also in tuples and dicts; there is a {type(value).__name__}")


def describe_file(file: ModelFile) -> dict[str, Any]:
    params = json.loads(json.dumps(dict(file.model_params), default=str))
    return {"model_file": file.path.name, "model_class": file.model_class, "model_params": params}
