"""A worker's copy of a model that servers have: batches that are begun anew, and modules of all kinds."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.ps.server_cluster import ServerCluster
from torch import nn

from pliant.client.shards import Shard
from pliant.core.parameters.contributions import PushDecision, PushOutcome
from pliant.native.model_file.feed import Batch
from pliant.native.strategies.base import StrategyContext
from pliant.native.strategies.served_model import ServedModel
from pliant.native.strategies.servers import ServerStrategy
from pliant.ps.client.client import PsClient
from pliant.ps.specs import DenseSpec, InitializerSpec, OptimizerSpec
from pliant.rpc.parameters import push_reply
from pliant.testing.waiting import MAX_WAIT_S
from pliant.torch import EmbeddingBag
from pliant.torch.tables.embedding import tables_of

FEATURES = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])


@dataclass
class Served:
    cluster: ServerCluster
    client: PsClient
    served: ServedModel


@contextmanager
def serving(model: nn.Module, *, sync: bool = True) -> Iterator[Served]:
    """The model's trained parameters on a server of this process."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}
    rule, begin = OptimizerSpec("sgd", 0.01), InitializerSpec("uniform")
    variables = [DenseSpec(name, tuple(p.shape), rule, begin) for name, p in named.items()]
    cluster = ServerCluster(variables, servers=1, sync=sync, tables=[table.spec for table in tables_of(model).values()])
    client = PsClient(cluster, retry_timeout=MAX_WAIT_S)
    served = ServedModel(client, model, named)
    try:
        yield Served(cluster, client, served)
    finally:
        served.close()
        client.close()
        cluster.close()


def batch_of(features: Any, size: int = 2) -> Batch:
    return Batch(features, torch.zeros(size, 1), list(range(size)))


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return ((predictions - labels) ** 2).mean()


@pytest.mark.parametrize("sync", [True, False])
def test_a_batch_of_which_a_table_gets_nothing_but_padding_is_computed(sync: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tags = EmbeddingBag("tags", 4, padding_idx=-1, feature="tags")
            self.top = nn.Linear(4, 1)

        def forward(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
            out: torch.Tensor = self.top(self.tags(features["tags"]))
            return out

    net = Net()
    with serving(net, sync=sync) as here:
        here.served.compute(batch_of({"tags": torch.tensor([[1, -1], [2, 3]])}), loss)
        assert "tags" in here.served.gradients()[1]
        alone = here.served.compute(batch_of({"tags": torch.full((2, 2), -1)}), loss)
        assert alone == pytest.approx(float(net.top.bias.detach()[0]) ** 2)
        assert here.client.pull({"tags": np.empty(0, np.int64)}, dense=[]).rows["tags"].shape == (0, 4)


class Interrupted(nn.Module):
    """The first time that it is called, and a newer model is wanted, the servers go on meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.here: Served | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        here, self.here = self.here, None
        if here is not None:
            here.cluster.step(gradient=0.01)
            assert here.served._stream is not None
            with here.served._stream.model(here.cluster.stores[0].iteration):
                pass
        return x


def test_a_batch_of_a_keras_model_is_begun_anew_and_its_moving_means_see_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    between = Interrupted()

    class Net(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = keras.layers.BatchNormalization()
            self.between = between
            self.inner = nn.Linear(3, 3)
            self.top = keras.layers.Dense(1)

        def call(self, x: torch.Tensor, training: bool | None = None) -> Any:
            return self.top(self.inner(self.between(self.norm(x, training=training))))

    net = Net()
    net(torch.zeros(2, 3))
    with serving(net) as here:
        between.here = here
        here.served.compute(batch_of(FEATURES), loss)
        assert here.served.restarted_batches == 1
        assert here.served.iteration == 1
        seen = torch.as_tensor(net.norm.moving_mean.value).detach()
        torch.testing.assert_close(seen, FEATURES.mean(0) * 0.01)  # momentum 0.99, once


def test_a_newer_model_that_the_models_own_code_hides_is_noticed() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.between, self.top = Interrupted(), nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                out: torch.Tensor = self.top(self.between(x))
            except Exception:  # noqa: BLE001  # as a user may
                return torch.zeros(2, 1, requires_grad=True)
            return out

    net = Net()
    with serving(net) as here:
        net.between.here = here
        here.served.compute(batch_of(FEATURES), loss)
        assert (here.served.restarted_batches, here.served.iteration) == (1, 1)
        assert net.top.weight.grad is not None


def test_an_error_of_the_model_itself_is_not_taken_for_a_newer_model() -> None:
    with serving(nn.Linear(3, 1)) as here, pytest.raises(RuntimeError, match="shapes"):
        here.served.compute(batch_of(torch.zeros(2, 9)), loss)


def test_a_model_that_is_served_can_be_copied_and_pickled() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    with serving(net) as here:
        here.served.compute(batch_of(FEATURES), loss)
        again = pickle.loads(pickle.dumps(net))  # noqa: S301  # our own
        averaged = torch.optim.swa_utils.AveragedModel(net)
        for other in (copy.deepcopy(net), again, averaged):
            torch.testing.assert_close(other(FEATURES), net(FEATURES))


def test_a_copy_of_a_model_uses_the_same_rows_of_servers() -> None:
    bag = EmbeddingBag("tags", 4)
    net = nn.Sequential(bag, nn.Linear(4, 1))
    ids = torch.tensor([[1, 2], [3, 3]])
    with serving(net) as here:
        here.served.compute(batch_of(ids), loss)
        torch.testing.assert_close(copy.deepcopy(net)(ids), net(ids))


def test_a_model_with_scripted_modules_is_served() -> None:
    between = Interrupted()
    net = nn.Sequential(torch.jit.script(nn.Linear(3, 4)), between, nn.Linear(4, 1))
    with serving(net) as here:
        between.here = here
        here.served.compute(batch_of(FEATURES), loss)
        assert (here.served.restarted_batches, here.served.iteration) == (1, 1)


def test_a_compiled_model_is_not_compiled_again_for_each_iteration() -> None:
    compiled: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Any:
        compiled.append(graph)
        return graph.forward

    net = torch.compile(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)), backend=backend)
    assert isinstance(net, nn.Module)
    with serving(net) as here:
        for _ in range(4):
            here.cluster.step(gradient=0.01)
            here.served.ordered(here.cluster.stores[0].iteration)
            here.served.compute(batch_of(FEATURES), loss)
        assert len(compiled) == 1


def test_a_batch_that_does_not_count_is_forgotten_by_batch_norm() -> None:
    norm = nn.BatchNorm1d(3)
    with serving(nn.Sequential(norm, nn.Linear(3, 1))) as here:
        before = {name: value.clone() for name, value in norm.named_buffers()}
        here.served.compute(batch_of(FEATURES), loss)
        assert norm.num_batches_tracked == torch.tensor(1)
        here.served.undo()
        for name, value in norm.named_buffers():
            assert torch.equal(value, before[name])


def test_gradients_that_come_too_late_count_once_for_batch_norm() -> None:
    norm = nn.BatchNorm1d(3)
    outcomes = [PushOutcome.STALE, PushOutcome.STALE, PushOutcome.ACCEPTED]
    with serving(nn.Sequential(norm, nn.Linear(3, 1))) as here:
        parameters = here.cluster.master.stubs.parameters
        parameters.Contribute = lambda _: push_reply(PushDecision(outcomes.pop(0), 0))
        strategy = ServerStrategy.__new__(ServerStrategy)  # all that a contribution uses
        strategy._served, strategy._client, strategy._stale = here.served, here.client, 0
        strategy.context = cast(StrategyContext, SimpleNamespace(file=SimpleNamespace(get=lambda _: loss), reader=None))
        shard = cast(
            Shard, SimpleNamespace(lease=1, offset=0, session="cluster", lost=False, contributed=lambda _: None)
        )
        told, _ = strategy._contribute(batch_of(FEATURES), shard, 2)
        assert told.accepted
        assert strategy._stale == 2
        assert norm.num_batches_tracked == torch.tensor(1)


class Counted(nn.Module):
    """Ids in, numbers out."""

    def __init__(self) -> None:
        super().__init__()
        self.users = EmbeddingBag("users", 4, mode="sum", feature="users")
        self.top = nn.Linear(4, 1)

    def forward(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
        out: torch.Tensor = self.top(self.users(features["users"]))
        return out


def users(*ids: int) -> Batch:
    return batch_of({"users": torch.tensor(ids).reshape(-1, 1)}, len(ids))


def test_rows_of_the_next_batch_are_fetched_from_other_machines_while_one_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PsClient, "is_remote", lambda _: True)
    batches = [(users(1, 2), 2), (users(2, 3), 4), (users(9), 5)]
    with serving(Counted(), sync=False) as here:
        based_on, seen = [], []
        for batch, done in here.served.prefetching(iter(batches)):
            for coming, rows in here.served._prefetched:
                assert rows.result(timeout=MAX_WAIT_S).rows["users"].shape == (len(coming.ids), 4)
            value = here.served.compute(batch, loss)
            based_on.append(here.served.iteration)
            seen.append((done, value))
            here.cluster.step(gradient=0.01)
        assert [done for done, _ in seen] == [2, 4, 5]
        assert based_on == [0, 0, 1]  # the second and the third had rows of the model before
        assert not here.served._prefetched


def test_rows_are_fetched_when_a_batch_begins_once_a_gradient_was_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PsClient, "is_remote", lambda _: True)
    with serving(Counted(), sync=False) as here:
        batches = here.served.prefetching(iter([(users(1), 1), (users(2), 2), (users(3), 3)]))
        next(batches)
        assert here.served._prefetched
        here.served.stop_prefetching()
        for number, (batch, _) in enumerate(batches, 1):
            here.cluster.step(gradient=0.01)
            here.served.compute(batch, loss)
            assert here.served.iteration == number
        assert number == 2


def test_servers_of_this_machine_are_asked_when_a_batch_begins() -> None:
    with serving(Counted(), sync=False) as here:
        assert here.served._prefetcher is None
        assert [done for _, done in here.served.prefetching(iter([(users(1), 1), (users(2), 2)]))] == [1, 2]
