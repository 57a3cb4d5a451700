"""What a program is taken to train, and with whom."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pliant.client.combining import TrainingObserver


class Optimizers(ModuleType):
    """Stands for torch.optim.optimizer, of a program that may or may not have it."""

    def __init__(self) -> None:
        super().__init__("torch.optim.optimizer")
        self.hooks: list[Callable[..., None]] = []

    def register_optimizer_step_post_hook(self, hook: Callable[..., None]) -> Any:
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def step(self) -> None:
        for hook in list(self.hooks):
            hook(None, (), {})


@pytest.fixture
def optimizers(monkeypatch: pytest.MonkeyPatch) -> Optimizers:
    made = Optimizers()
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", made)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    return made


@pytest.fixture
def observer() -> Iterator[TrainingObserver]:
    observer = TrainingObserver()
    yield observer
    observer.close()


def test_a_program_that_steps_an_optimizer_by_itself_says_so_once(
    optimizers: Optimizers, observer: TrainingObserver
) -> None:
    observer.watch()
    observer.watch()
    assert not observer.trains_alone(), "it may only predict"
    optimizers.step()
    assert not optimizers.hooks, "nothing is left in the way of the next steps"
    assert observer.trains_alone()
    assert not observer.trains_alone()


def test_a_program_without_torch_is_never_taken_to_train(
    observer: TrainingObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch.optim.optimizer", raising=False)
    observer.watch()
    assert not observer.trains_alone()


@pytest.mark.parametrize("way", ["said", "process group", "library"])
def test_a_program_that_combines_gradients_is_not_alone(
    way: str, optimizers: Optimizers, observer: TrainingObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer.watch()
    optimizers.step()
    match way:
        case "said":
            observer.combines = True
        case "process group":
            monkeypatch.setitem(sys.modules, "torch.distributed", SimpleNamespace(is_initialized=lambda: True))
        case "library":
            monkeypatch.setitem(sys.modules, "horovod", ModuleType("horovod"))
    assert not observer.trains_alone()


def test_a_process_group_that_is_not_there_combines_nothing(
    optimizers: Optimizers, observer: TrainingObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", SimpleNamespace(is_initialized=lambda: False))
    observer.watch()
    optimizers.step()
    assert observer.trains_alone()
