"""What a parameter server has to do so that parameters learn as a torch optimizer would have them learn.

The kind and the hyper-parameters of a group of a torch optimizer become an ``OptimizerSpec``. What the servers do not have is
refused by name, before anything is trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from pliant.core.errors import InvalidRequest
from pliant.ps.specs import OptimizerSpec

SUPPORTED = (
    "torch.optim.SGD (momentum, nesterov), Adagrad, Adam, AdamW (amsgrad) and SparseAdam; "
    "FTRL for tables, by their own optimizer="
)


def server_optimizer(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> OptimizerSpec:
    """Of the parameters in one of the optimizer's groups."""
    kind = type(optimizer)
    name = f"{kind.__module__.removesuffix('.' + kind.__name__.lower())}.{kind.__name__}"
    if group.get("maximize"):
        raise InvalidRequest(f"{name} with maximize=True: parameter servers only minimize", hint="negate the loss")
    make = _KINDS.get(kind)
    if make is None:
        raise InvalidRequest(f"parameter servers do not support {name}", hint=f"supported: {SUPPORTED}")
    spec = make(name, group)
    spec.check()
    return spec


def _sgd(name: str, group: Mapping[str, Any]) -> OptimizerSpec:
    if group["dampening"]:
        raise InvalidRequest(f"{name} with dampening {group['dampening']}: parameter servers do not support it")
    plain = OptimizerSpec("sgd", learning_rate=_number(group["lr"]), weight_decay=float(group["weight_decay"]))
    if not group["momentum"]:
        return plain
    return replace(plain, kind="nesterov" if group["nesterov"] else "momentum", momentum=float(group["momentum"]))


def _adagrad(name: str, group: Mapping[str, Any]) -> OptimizerSpec:
    return OptimizerSpec(
        "adagrad",
        learning_rate=_number(group["lr"]),
        weight_decay=float(group["weight_decay"]),
        epsilon=float(group["eps"]),
        learning_rate_decay=float(group["lr_decay"]),
        initial_accumulator=float(group["initial_accumulator_value"]),
    )


def _adam(name: str, group: Mapping[str, Any]) -> OptimizerSpec:
    return OptimizerSpec(
        "amsgrad" if group.get("amsgrad") else "adam",
        learning_rate=_number(group["lr"]),
        weight_decay=float(group.get("weight_decay", 0.0)),
        decoupled=bool(group.get("decoupled_weight_decay", False)),
        beta1=_number(group["betas"][0]),
        beta2=_number(group["betas"][1]),
        epsilon=float(group["eps"]),
    )


def _adamw(name: str, group: Mapping[str, Any]) -> OptimizerSpec:
    return _adam(name, {**group, "decoupled_weight_decay": True})


def _number(value: Any) -> float:
    """Torch also takes a learning rate as a tensor."""
    return float(value.item()) if isinstance(value, torch.Tensor) else float(value)


_KINDS = {
    torch.optim.SGD: _sgd,
    torch.optim.Adagrad: _adagrad,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adamw,
    torch.optim.SparseAdam: _adam,
}
