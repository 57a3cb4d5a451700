"""What parameter servers keep of a model: its trained parameters and its tables, each with its optimizer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from pliant.core.errors import InvalidRequest
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.schedules import ServerRates
from pliant.ps.specs import DenseSpec, OptimizerSpec, TableSpec
from pliant.torch.tables.embedding import tables_of
from pliant.torch.tables.server_optimizers import server_optimizer


@dataclass(frozen=True)
class ServerSpecs:
    tables: dict[str, TableSpec]
    variables: dict[str, DenseSpec]
    rates: ServerRates | None  # the schedule of the learning rate


def server_specs(file: ModelFile, model: nn.Module) -> ServerSpecs:
    """Refuses what the servers cannot do."""
    scheduled = file.get("learning_rate_schedule") is not None
    made = file.make_optimizer(model)
    learns: dict[int, OptimizerSpec] = {}
    groups: dict[int, int] = {}  # parameter -> which group it is in, over all optimizers
    bases: list[float] = []
    for optimizer in made if isinstance(made, list | tuple) else [made]:
        for group in optimizer.param_groups:
            try:
                how = server_optimizer(optimizer, group)
            except InvalidRequest as error:
                raise InvalidRequest(f"{file.where('optimizer')}: {error.message}", hint=error.hint) from None
            if scheduled and not how.learning_rate:
                how = replace(how, learning_rate=1.0)  # something to multiply
            learns |= {id(parameter): how for parameter in group["params"]}
            groups |= {id(parameter): len(bases) for parameter in group["params"]}
            bases.append(how.learning_rate)
    tables = {}
    for name, module in tables_of(model).items():
        own = module.own_optimizer or learns.get(id(module.anchor))
        module.anchor.requires_grad_(own is not None and module.anchor.requires_grad)
        own_group = -1 if module.own_optimizer else groups.get(id(module.anchor), -1)
        tables[name] = replace(module.spec, optimizer=own or OptimizerSpec(), rate_group=own_group)
    variables = {
        name: DenseSpec(name, tuple(parameter.shape), optimizer=learns[id(parameter)], rate_group=groups[id(parameter)])
        for name, parameter in model.named_parameters()
        if id(parameter) in learns and parameter.requires_grad and parameter.numel()
    }
    for name, parameter in model.named_parameters():
        if name in variables and parameter.dtype is not torch.float32:
            raise InvalidRequest(
                f"parameter {name!r} is {parameter.dtype}; parameter servers support only torch.float32"
            )
    for spec in (*tables.values(), *variables.values()):
        spec.check()
    return ServerSpecs(tables, variables, ServerRates(file, model, bases) if scheduled else None)
