"""Embedding tables of any size as modules: on the parameter servers of the job, or in this process where there are none.

    self.users = Embedding("users", 16)                 # any id from 0 to 2^63 - 1
    self.tags = EmbeddingBag("tags", 16, mode="mean")
    ...
    optimizer = torch.optim.Adam(model.parameters())    # also for the tables

A table has no fixed number of rows: a row begins, when an id is first seen, with values that depend on the table's name, the
seed and the id only, so they are the same in every process. The ids of a batch are made distinct before rows are asked for, and
the gradients of a row are added up before they go anywhere.

For a torch optimizer a table is one empty parameter, ``anchor``. The group that it is in defines how the table is updated
(``server_optimizers``), unless the table has an ``optimizer`` of its own. Without servers, rows are updated when that optimizer
makes its step. ``state_dict`` has the rows as ``ids`` and ``rows``; with servers it has nothing of them, since they are there.
"""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from pliant.core.errors import InvalidRequest
from pliant.ps.compiled.merging import merge
from pliant.ps.payloads import Floats, Ids
from pliant.ps.specs import EvictionSpec, InitializerSpec, OptimizerSpec, TableSpec
from pliant.torch.tables.local_rows import LocalRows
from pliant.torch.tables.lookup import Places, look_up, places_of
from pliant.torch.tables.server_optimizers import server_optimizer

MODES = ("sum", "mean", "sqrtn")
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Rows(Protocol):
    """Where the rows of tables are."""

    def pull(self, ids: Ids) -> Floats:
        """Of distinct ids."""


class _HostedTable(nn.Module):
    """What both modules are: a table, and the gradients of its rows that came since the last update."""

    def __init__(
        self,
        name: str,
        dim: int,
        *,
        initializer: str | InitializerSpec = "uniform",
        seed: int = 0,
        optimizer: OptimizerSpec | None = None,
        eviction: EvictionSpec | None = None,
        num_embeddings: int | None = None,
        padding_idx: int | None = None,
        feature: str | int | None = None,
    ) -> None:
        """``num_embeddings`` only bounds the ids. ``padding_idx``: this id (which may be negative) stands for nothing.
        ``feature``: the name or index of the ids in a batch's features, so that rows can be fetched with the batch."""
        super().__init__()
        begin = InitializerSpec(initializer) if isinstance(initializer, str) else initializer
        self.spec = TableSpec(name, dim, optimizer or OptimizerSpec(), begin, eviction or EvictionSpec(), seed)
        self.spec.check()
        self.own_optimizer = optimizer
        self.num_embeddings = num_embeddings
        self.padding_idx = padding_idx
        self.feature = feature
        self.anchor = nn.Parameter(torch.empty(0))
        self._local = LocalRows(self.spec)
        self._rows: Rows = self._local
        self._pending: list[tuple[Ids, Floats]] = []
        _watch_optimizers()

    # --- where the rows are

    def attach(self, rows: Rows | None) -> None:
        """Use rows from there; None: of this process."""
        self._rows = self._local if rows is None else rows
        self._pending = []

    @property
    def hosted(self) -> bool:
        return self._rows is not self._local

    def places(self, ids: Any) -> Places:
        """The distinct ids, without the padding, and for each given id its place among them."""
        if not isinstance(ids, torch.Tensor) or ids.dtype not in _WHOLE:
            given = ids.dtype if isinstance(ids, torch.Tensor) else type(ids).__name__
            raise InvalidRequest(f"table {self.spec.name!r}: ids must be an integer tensor, not {given}")
        found = places_of(ids, self.padding_idx)
        if found.ids.size:
            low, high = int(found.ids.min()), int(found.ids.max())
            if low < 0:
                raise InvalidRequest(
                    f"table {self.spec.name!r}: {low} is not a valid id",
                    hint="ids are 0 to 2^63 - 1; see padding_idx for gaps",
                )
            if self.num_embeddings is not None and high >= self.num_embeddings:
                raise InvalidRequest(
                    f"table {self.spec.name!r}: id {high} is out of range for {self.num_embeddings} embeddings"
                )
        return found

    def take_gradients(self) -> tuple[Ids, Floats] | None:
        """What came since they were last taken, with every id once."""
        pending, self._pending = self._pending, []
        self.anchor.grad = None
        if len(pending) <= 1:
            return pending[0] if pending else None
        return merge([(ids, gradients, 1.0) for ids, gradients in pending], self.spec.dim)

    # --- inside

    def _values(self, ids: Ids) -> torch.Tensor:
        """The rows of distinct ids as a leaf of the graph, whose gradient is stored for the next update."""
        values = torch.from_numpy(self._rows.pull(ids)).to(self.anchor.device)
        if torch.is_grad_enabled() and self.anchor.requires_grad:
            values.requires_grad_()
            values.register_post_accumulate_grad_hook(lambda leaf: self._came(ids, leaf))  # type: ignore[no-untyped-call]
            _tables[id(self.anchor)] = self
        return values

    def _came(self, ids: Ids, leaf: torch.Tensor) -> None:
        if leaf.grad is None:
            return
        if self.anchor.grad is None:  # zero_grad() was called
            self._pending = []
            self.anchor.grad = torch.zeros_like(self.anchor)
        self._pending.append((ids, leaf.grad.detach().to("cpu", torch.float32).contiguous().numpy()))
        leaf.grad = None

    def _step(self, optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
        if self.hosted:
            return  # whoever attached it takes the gradients
        if self.anchor.grad is None:  # zero_grad() was called after the backward pass
            self._pending = []
        came = self.take_gradients()
        how = self.own_optimizer or server_optimizer(optimizer, group)
        self._local.step(how, *(came or (None, None)))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if self.hosted:
            return
        batch, dim = self._local.export(), self.spec.dim
        destination[prefix + "ids"] = torch.from_numpy(batch.ids)
        destination[prefix + "rows"] = torch.from_numpy(np.ascontiguousarray(batch.data[:, :dim]))
        if batch.data.shape[1] > dim:
            destination[prefix + "state"] = torch.from_numpy(np.ascontiguousarray(batch.data[:, dim:]))
        destination[prefix + "steps"] = torch.tensor(self._local.steps)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if self.hosted:
            return
        if missing := [prefix + key for key in ("ids", "rows") if prefix + key not in state_dict]:
            missing_keys.extend(missing)
            return
        ids, rows, state = (state_dict.get(prefix + key) for key in ("ids", "rows", "state"))
        if ids.dim() != 1 or rows.shape != (ids.numel(), self.spec.dim):
            shape = tuple(rows.shape)
            error_msgs.append(f"table {self.spec.name!r}: {ids.numel()} ids, rows of {shape}, not of {self.spec.dim}")
            return
        self._local.replace(
            ids.cpu().numpy().astype(np.int64),
            rows.float().cpu().numpy(),
            None if state is None else state.float().cpu().numpy(),
            _with_states(self._local.spec.optimizer, 0 if state is None else state.shape[1] // self.spec.dim),
            int(state_dict.get(prefix + "steps", 0)),
        )

    def extra_repr(self) -> str:
        where = "on parameter servers" if self.hosted else f"{len(self._local)} rows here"
        return f"{self.spec.name!r}, {self.spec.dim}, {where}"


class Embedding(_HostedTable):
    """Ids of any shape in, a row of ``dim`` floats for each out."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = self.places(ids)
        return look_up(self._values(places.ids), places.numbers).reshape(*ids.shape, self.spec.dim)


class EmbeddingBag(_HostedTable):
    """Rows of several ids combined into one: their sum, their mean, or their sum over the root of their number (sqrtn).

    Give ids of shape (bags, ids) - those equal to ``padding_idx`` count as not there - or all ids in one row with the ``offsets``
    where each bag begins. With ``weights`` of the same shape, the mean divides by their sum, sqrtn by the root of the sum of
    their squares. A bag without ids is zero.
    """

    def __init__(self, name: str, dim: int, *, mode: str = "mean", **options: Any) -> None:
        super().__init__(name, dim, **options)
        if mode not in MODES:
            raise InvalidRequest(f"table {name!r}: unknown mode {mode!r}", hint=f"one of {', '.join(MODES)}")
        self.mode = mode

    def forward(
        self, ids: torch.Tensor, offsets: torch.Tensor | None = None, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        bags, count = self._bags(ids, offsets)
        if weights is not None and weights.shape != ids.shape:
            raise InvalidRequest(
                f"table {self.spec.name!r}: weights of {tuple(weights.shape)} for ids of {tuple(ids.shape)}"
            )
        counted = None if weights is None else weights.reshape(-1)
        places = self.places(ids)
        numbers, device = places.numbers, self.anchor.device
        if places.ids.size and numbers.min() < 0:
            kept = torch.from_numpy(np.flatnonzero(numbers >= 0))
            numbers, bags = numbers[kept.numpy()], bags[kept]
            counted = None if counted is None else counted[kept.to(counted.device)]
        elif not places.ids.size:
            numbers, bags, counted = numbers[:0], bags[:0], None if counted is None else counted[:0]
        rows, bags = look_up(self._values(places.ids), numbers), bags.to(device)
        each = torch.ones(numbers.size, device=device) if counted is None else counted.to(device, torch.float32)
        if counted is not None:
            rows = rows * each.unsqueeze(1)
        summed = rows.new_zeros(count, self.spec.dim).index_add(0, bags, rows)
        if self.mode == "sum":
            return summed
        total = each.new_zeros(count).index_add(0, bags, each if self.mode == "mean" else each * each)
        by = total if self.mode == "mean" else total.clamp_min(0).sqrt()
        return summed / torch.where(by == 0, torch.ones_like(by), by).unsqueeze(1)

    def _bags(self, ids: torch.Tensor, offsets: torch.Tensor | None) -> tuple[torch.Tensor, int]:
        """For each id the bag it is in, and the number of bags."""
        name = self.spec.name
        if not isinstance(ids, torch.Tensor):
            raise InvalidRequest(f"table {name!r}: ids must be an integer tensor, not {type(ids).__name__}")
        if offsets is None:
            if ids.dim() != 2:
                raise InvalidRequest(
                    f"table {name!r}: ids of shape {tuple(ids.shape)}", hint="pass (bags, ids), or one row with offsets"
                )
            return torch.arange(ids.shape[0]).repeat_interleave(ids.shape[1]), ids.shape[0]
        if ids.dim() != 1 or offsets.dim() != 1 or offsets.dtype not in _WHOLE:
            raise InvalidRequest(f"table {name!r}: offsets need 1-D ids and must be a 1-D integer tensor")
        ends = torch.cat([offsets.detach().cpu().long(), torch.tensor([ids.numel()])])
        lengths = ends.diff()
        if (
            (offsets.numel() and int(ends[0]) != 0)
            or bool((lengths < 0).any())
            or (ids.numel() and not offsets.numel())
        ):
            raise InvalidRequest(f"table {name!r}: offsets must start at 0 and never decrease, up to {ids.numel()}")
        return torch.arange(offsets.numel()).repeat_interleave(lengths), offsets.numel()


def tables_of(model: nn.Module) -> dict[str, Embedding | EmbeddingBag]:
    """The tables of a model by their names; a module that is used in several spots is one."""
    found: dict[str, Embedding | EmbeddingBag] = {}
    for path, module in model.named_modules():
        if isinstance(module, Embedding | EmbeddingBag):
            if module.spec.name in found:
                raise InvalidRequest(
                    f"two modules have the table {module.spec.name!r}; one is {path}",
                    hint="use one module for both, or choose different names",
                )
            found[module.spec.name] = module
    return found


_tables: WeakValueDictionary[int, _HostedTable] = WeakValueDictionary()  # by the id of their anchor
_watching = False


def _watch_optimizers() -> None:
    global _watching
    if not _watching:
        _watching = True
        register_optimizer_step_post_hook(_after_step)


def _after_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    if not _tables:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            table = _tables.get(id(parameter)) if parameter.numel() == 0 else None
            if table is not None and table.anchor is parameter:
                table._step(optimizer, group)


def _with_states(now: OptimizerSpec, states: int) -> OptimizerSpec | None:
    """Some optimizer with so much state, until the real one is known; None: the one there is will do."""
    if len(now.states) == states:
        return None
    return OptimizerSpec({0: "sgd", 1: "momentum", 2: "adam", 3: "amsgrad"}.get(states, "sgd"))
