"""One model, whatever it is: a torch module or a Keras model on the torch back end. How it is made and called.

``saved_models`` stores and loads it.
"""

from __future__ import annotations

import inspect
import random
import sys
from typing import Any

import numpy as np
import torch
from torch import nn

from pliant.core.errors import InvalidRequest
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.description import Description
from pliant.native.model_file.feed import Batch


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
        hint = "set KERAS_BACKEND=torch" if "keras" in kind else "subclass torch.nn.Module"
        raise InvalidRequest(f"{where}: {name} returned a {kind}, which is not a torch module", hint=hint)
    unbuilt = (is_keras(model) and not model.built) or _is_lazy(model)
    if unbuilt and sample is not None:
        with torch.no_grad():
            file.call_as(name, predict, model.eval(), sample.features)
        model.train()
    if _is_lazy(model):
        raise InvalidRequest(
            f"{where}: {name} has lazy parameters, which get their shape from the first batch",
            hint="dataset_fn drops all of the first records: set the shapes explicitly"
            if sample is None
            else "use all layers in forward",
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
    tables: list[Any] = [m for m in model.modules() if type(m).__module__ == "pliant.torch.tables.embedding"]
    if tables and about.strategy.startswith("ps") and about.trained:
        raise InvalidRequest(
            "--trained cannot be combined with tables on parameter servers",
            hint="restore the dumps of a job with --ps-options restore=FOLDER",
        )
    if tables and (about.strategy == "allreduce" or (about.strategy == "local" and about.virtual_workers > 1)):
        raise InvalidRequest(
            f"the model has the table {tables[0].spec.name!r}, which {about.strategy} would train on each worker separately",
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


PAIR_ASSUMED = "in mode predict a pair is read as (features, label), so the model was called with its first part only"
HOW_TO_YIELD_TWO = "if both parts are features, yield ((a, b), None), or a dict, which is passed as one argument"


def check_arguments(file: ModelFile, model: nn.Module, batch: Batch) -> None:
    """Features that are several are several arguments; the model must take as many."""
    features = batch.features
    several = isinstance(features, tuple | list)
    if is_keras(model) or not (several or batch.is_pair_assumed):
        return
    if isinstance(features, list) and all(isinstance(one, str | bytes) for one in features):
        raise InvalidRequest(f"{file.where('dataset_fn')}: features are strings; convert them to numbers")
    try:
        inspect.signature(model.forward).bind(*(features if several else (features,)))
    except TypeError as error:
        if batch.is_pair_assumed:
            raise InvalidRequest(
                f"{file.where('dataset_fn')}: {PAIR_ASSUMED}: {error}", hint=HOW_TO_YIELD_TWO
            ) from None
        name = file.model_class or "custom_model"
        raise InvalidRequest(
            f"{file.path}:{file.lines.get(name, 1)}: its forward is called with the {len(features)} features of a tuple as "
            f"arguments: {error}",
            hint="accept that many arguments, or yield the features as a dict, which is passed as one argument",
        ) from None
    except ValueError:
        return  # a signature that cannot be inspected


def feature_of(features: Any, key: str | int, table: str) -> Any:
    """The ids of a table, among the features of a batch."""
    try:
        if isinstance(features, dict | tuple | list):
            return features[key]  # type: ignore[index]  # a list by a name raises
        raise TypeError
    except (KeyError, IndexError, TypeError):
        known = ", ".join(map(str, features)) if isinstance(features, dict) else f"a {type(features).__name__}"
        raise InvalidRequest(
            f"table {table!r} takes its ids from the feature {key!r}, which does not exist",
            hint=f"features: {known:.300}",
        ) from None


def loss_of(file: ModelFile, labels: Any, predictions: Any) -> torch.Tensor:
    """The mean over the batch."""
    made = file.get("loss")(labels, predictions)
    if not isinstance(made, torch.Tensor):
        raise InvalidRequest(f"{file.where('loss')}: loss must return a tensor; it returned {type(made).__name__}")
    return made if made.dim() == 0 else made.mean()


def copy_state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def as_arrays(value: Any) -> Any:
    """Tensors as NumPy arrays, in the same structure."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().float().numpy() if value.dtype is torch.bfloat16 else value.detach().cpu().numpy()
    if isinstance(value, dict):
        return {name: as_arrays(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return tuple(as_arrays(one) for one in value)
    raise InvalidRequest(f"expected tensors (also in tuples and dicts), got {type(value).__name__}")
