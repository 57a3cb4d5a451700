"""By reference where another process can import the function, by value where it cannot."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pliant.api.functions.packing import label_of, pack
from pliant.api.functions.payload import Payload
from pliant.api.functions.references import FunctionReference, is_installed, reference_to
from pliant.core.errors import InvalidRequest, NotFound


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "training.py").write_text(
        "import functools\ndef train(a, b=1): return a + b\nclass Model:\n    def fit(self): return 1\n"
        "def twice(f):\n    @functools.wraps(f)\n    def inner(*a): return 2 * f(*a)\n    return inner\n"
        "@twice\ndef decorated(a): return a\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "training", raising=False)
    yield import_module("training")
    del sys.modules["training"]


def there(function: Any, *args: Any, **kwargs: Any) -> Payload:
    return Payload.from_bytes(pack(function, args, kwargs, has_path=True).payload.to_bytes(), "the payload")


def test_an_importable_function_with_json_arguments_has_no_pickle(module: ModuleType) -> None:
    payload = there(module.train, 3, b=[1, {"x": math.nan}])
    assert payload.function == FunctionReference("training", "train")
    assert payload.body == b""
    assert payload.sources == {}
    assert json.dumps(payload.arguments) == '[[3], {"b": [1, {"x": {"$float": "nan"}}]}]'
    assert str(Path(module.__file__ or "").parent) in payload.path
    assert payload.function.load()(1, 2) == 3


def test_arguments_that_json_cannot_express_are_pickled_alone(module: ModuleType) -> None:
    payload = there(module.train, {1, 2})
    assert payload.function is not None
    assert payload.arguments is None
    assert payload.body


def test_functions_of_main_closures_lambdas_partials_and_bound_methods_travel_by_value(module: ModuleType) -> None:
    def closure() -> int:
        return 1

    for function in (closure, lambda: 1, functools.partial(module.train, 1), module.Model().fit):
        assert reference_to(function) is None
        assert there(function).function is None
    assert reference_to(module.decorated) is not None  # what is imported there is the decorated one
    assert reference_to(math.sqrt) == FunctionReference("math", "sqrt")


def test_a_function_whose_name_means_another_one_by_now_travels_by_value(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = module.train
    monkeypatch.setattr(module, "train", len)
    assert reference_to(old) is None


def test_wrong_arguments_are_found_before_anything_starts(module: ModuleType) -> None:
    with pytest.raises(InvalidRequest, match=r"train\(a, b=1\) cannot be called with these arguments: missing"):
        there(module.train)
    with pytest.raises(InvalidRequest, match="has the key 3"):
        pack(module.train, (), {3: 1}, has_path=True)  # type: ignore[dict-item]


def test_a_generator_function_is_refused() -> None:
    def train() -> Any:
        yield 1

    with pytest.raises(InvalidRequest, match="train is a generator function"):
        there(train)


def test_on_another_machine_the_import_path_of_this_one_means_nothing(module: ModuleType) -> None:
    assert pack(module.train, (1,), {}, has_path=False).payload.path == ()
    assert pack(module.train, (1,), {}, has_path=False).modules == {"training"}
    assert not is_installed("training")
    assert is_installed("json")
    assert is_installed("pytest")


def test_a_function_that_is_gone_on_the_other_side_is_named() -> None:
    with pytest.raises(NotFound, match="json has no function nothing any more"):
        FunctionReference("json", "nothing").load()


def test_labels_are_short_names_for_people() -> None:
    assert label_of(functools.partial(functools.partial(len))) == "len"
    assert label_of(test_labels_are_short_names_for_people) == "test_labels_are_short_names_for_people"
