"""Records that are read ahead, by threads: the same result to the last bit, bounded, and nothing is left behind."""

from __future__ import annotations

import logging

import pytest
from tests.torch.read_ahead_data import RECORDS, Augmented, Broken, Plain, loaders, make, train, work
from torch import nn

from pliant.core.errors import InvalidRequest
from pliant.testing import wait_until


@pytest.mark.parametrize("prefetch", [None, 1, 7])
def test_threads_do_not_change_a_bit(prefetch: int | None) -> None:
    assert train(Plain(), num_threads=2, prefetch=prefetch) == train(Plain())
    assert not loaders()


def test_a_dataset_that_draws_random_numbers_is_not_read_by_threads(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert train(Augmented(), num_threads=2) == train(Augmented())
    assert caplog.text.count("the dataset draws random numbers") == 1
    assert "num_workers" in caplog.text


def test_no_more_is_read_ahead_than_asked_for() -> None:
    trainer, dataset = make(), Plain()
    taken = 0
    for step in trainer.steps(dataset, micro_batch=1, epochs=1, num_threads=2, prefetch=3):
        for x, y in step:
            taken += 1
            due = min(taken + 3, RECORDS)
            wait_until(lambda due=due: dataset.reads >= due)  # type: ignore[misc]
            assert dataset.reads == due
            step.backward(nn.functional.cross_entropy(trainer.model(x), y))
    assert dataset.reads == RECORDS


def test_an_error_of_the_dataset_is_raised_where_its_record_is_wanted() -> None:
    trainer = make()
    with pytest.raises(ValueError, match="record 17 is poison"):
        work(trainer, Broken(), shuffle=False, num_threads=2)
    assert trainer.step == 1, "records 0 to 11 are trained"
    wait_until(lambda: not loaders())


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"num_threads": 1000},
        {"num_workers": 1, "num_threads": 1},
        {"prefetch": 2},
        {"num_workers": 1, "prefetch": 0},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        train(Plain(), **options)
