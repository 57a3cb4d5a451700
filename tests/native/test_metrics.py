from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pliant.core.errors import CorruptData, InvalidRequest
from pliant.native.callbacks import EarlyStopping
from pliant.native.metrics import (
    AUC,
    MSE,
    Accuracy,
    Mean,
    as_metric,
    as_metrics,
    merge_states,
    pack_states,
    unpack_states,
)

MADE = np.random.default_rng(3)
LABELS = MADE.integers(0, 2, 500)
SCORES = np.round(MADE.random(500) * 0.6 + LABELS * 0.4, 2).astype(np.float32)  # with ties


def in_shards(metric: object, labels: np.ndarray, predictions: np.ndarray, cuts: list[int]) -> float:
    """As a round does it: states of uneven shards, over the wire, merged."""
    metrics = as_metrics({"m": metric}, "here")
    total: dict[str, dict[str, np.ndarray]] = {}
    for first, behind in zip([0, *cuts], [*cuts, len(labels)], strict=True):
        if behind > first:
            states = {"m": metrics["m"].state(labels[first:behind], predictions[first:behind])}
            total = merge_states(metrics, total, unpack_states(pack_states(states)))
    return metrics["m"].value(total["m"])


@pytest.mark.parametrize("cuts", [[], [1], [7, 8, 300], [499]])
def test_a_metric_is_of_all_records_however_they_are_cut_into_shards(cuts: list[int]) -> None:
    assert in_shards(AUC(), LABELS, SCORES, cuts) == pytest.approx(roc_auc_score(LABELS, SCORES), abs=1e-12)
    assert in_shards(Accuracy(), LABELS, SCORES, cuts) == np.mean((SCORES > 0.5) == LABELS)
    assert in_shards(MSE(), LABELS, SCORES, cuts) == pytest.approx(np.mean((SCORES - LABELS) ** 2))
    assert in_shards(Mean(lambda y, p: p - y), LABELS, SCORES, cuts) == pytest.approx(np.mean(SCORES - LABELS))
    assert in_shards(lambda y, p: float(np.median(p)), LABELS, SCORES, cuts) == pytest.approx(np.median(SCORES))
    assert in_shards(lambda y, p: (p > 0.5) == y, LABELS, SCORES, cuts) == np.mean((SCORES > 0.5) == LABELS)


def test_a_metric_object_is_fed_all_records() -> None:
    class Spread:
        def __init__(self) -> None:
            self.seen: list[float] = []

        def update(self, labels: np.ndarray, predictions: np.ndarray) -> None:
            self.seen += predictions.tolist()

        def compute(self) -> float:
            return max(self.seen) - min(self.seen)

    assert in_shards(Spread, LABELS, SCORES, [10, 400]) == pytest.approx(float(SCORES.max() - SCORES.min()))


def test_accuracy_knows_classes_and_one_hot_labels() -> None:
    logits = MADE.random((50, 4))
    labels = MADE.integers(0, 4, 50)
    expected = np.mean(logits.argmax(1) == labels)
    assert in_shards("accuracy", labels, logits, [20]) == expected
    assert in_shards("accuracy", np.eye(4)[labels], logits, [20]) == expected


def test_auc_of_one_class_is_not_a_number_and_of_two_outputs_takes_the_second() -> None:
    assert np.isnan(in_shards(AUC(), np.ones(4), SCORES[:4], []))
    both = np.stack([1 - SCORES, SCORES], 1)
    assert in_shards(AUC(), LABELS, both, [9]) == pytest.approx(roc_auc_score(LABELS, SCORES), abs=1e-9)


def test_what_is_no_metric_is_refused_and_a_damaged_state_is_told() -> None:
    with pytest.raises(InvalidRequest, match="is 5"):
        as_metric(5)
    with pytest.raises(CorruptData):
        unpack_states(b"no such thing")


def test_early_stopping_waits_for_its_patience() -> None:
    stopping = EarlyStopping("accuracy", patience=2, min_delta=0.01)
    answers = [stopping.on_evaluation(i, {"accuracy": a}) for i, a in enumerate([0.5, 0.6, 0.605, 0.7, 0.7, 0.65])]
    assert [answer is not None for answer in answers] == [False] * 5 + [True]
    with pytest.raises(InvalidRequest, match="monitors 'accuracy'"):
        stopping.on_evaluation(9, {"loss": 1.0})


def test_a_function_may_be_written_for_torch_or_for_numpy() -> None:
    expected = float(np.mean(SCORES - LABELS))
    for function in (lambda y, p: (p - y).mean(), lambda y, p: np.mean(p - y), lambda y, p: (p - y).mean(axis=0)):
        assert in_shards(function, LABELS, SCORES, [7, 200]) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(TypeError, match="mean"):
        in_shards(lambda y, p: p.mean(axes=0), LABELS, SCORES, [7])


@pytest.mark.parametrize(
    "state", [[1, 2], {}, {1: np.zeros(2)}, {"set": {1, 2}}, {"rows": [[1], [1, 2]]}, {"it": None}]
)
def test_a_state_that_cannot_be_sent_is_refused_with_the_name_of_its_metric(state: object) -> None:
    with pytest.raises(InvalidRequest, match=r"metric 'f1' has a state that cannot be sent: .+") as error:
        pack_states({"accuracy": {"sum": 1.0}, "f1": state})  # type: ignore[dict-item]
    assert "dict of NumPy arrays" in error.value.hint
