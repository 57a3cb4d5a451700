"""What only this process can use is refused before anything starts, by the name that it has in the function."""

from __future__ import annotations

import io
import logging
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.api.functions.packing import pack
from pliant.api.functions.pickling import MAX_PAYLOAD_BYTES, captures_of, pickled
from pliant.core.errors import InvalidRequest, NotAvailable

pytest.importorskip("cloudpickle")


def refusal(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(InvalidRequest) as found:
        pack(function, args, kwargs, has_path=True)
    return str(found.value)


def closing_over(value: object) -> Callable[[], object]:
    def train() -> object:
        return value

    return train


def numbers() -> Iterator[int]:
    yield 1


def test_locks_files_sockets_threads_and_generators_are_refused_by_name(tmp_path: Path) -> None:
    made = types.ModuleType("made_here")
    with (tmp_path / "data.txt").open("w") as file, socket.socket() as connection:
        refused = {
            "a lock": threading.Lock(),
            "a lock (_thread.RLock)": threading.RLock(),
            "a lock (threading.Event)": threading.Event(),
            "data.txt": file,
            "a socket": connection,
            "a generator (numbers)": numbers(),
            "a thread": threading.Thread(),
            "the module made_here": made,
        }
        for what, value in refused.items():
            said = refusal(closing_over(value))
            assert said.startswith("train cannot be sent: it captures")
            assert what in said
            assert ", `value`" in said
            assert "what to do:" in said


def test_the_name_leads_to_where_the_refused_object_is() -> None:
    state = {"inner": [threading.Lock()]}
    assert "`value['inner'][0]`" in refusal(closing_over(state))
    assert "`args[0][1]`" in refusal(print, [1, threading.Lock()])
    handler = logging.StreamHandler(io.StringIO())
    assert "`kwargs['handler'].lock`" in refusal(lambda handler: None, handler=handler)

    def helper() -> object:
        return state

    assert "`state['inner'][0]`, used by `helper`" in refusal(closing_over(helper))


def test_what_cannot_be_pickled_for_a_reason_of_its_own_is_named_too() -> None:
    class Stubborn:
        def __reduce__(self) -> str:
            raise RuntimeError("not today")

    said = refusal(closing_over(Stubborn()))
    assert "`value`" in said
    assert "not today" in said


def test_a_tensor_on_a_gpu_is_refused() -> None:
    torch = pytest.importorskip("torch")

    OnGpu = type("OnGpu", (torch.Tensor,), {"is_cuda": True})  # this machine has none
    assert "a CUDA tensor, `value`" in refusal(closing_over(torch.ones(2).as_subclass(OnGpu)))


def test_too_large_a_function_names_the_largest_that_it_captures() -> None:
    large, larger, small = b"a" * 600_000, b"b" * 900_000, b"c"

    def train() -> int:
        return len(large) + len(larger) + len(small)

    said = refusal(train)
    assert f"at most {MAX_PAYLOAD_BYTES:,} can be sent" in said
    assert said.index("`larger` (bytes, 900,0") < said.index("`large` (bytes, 600,0")


def test_arguments_count_too_also_those_that_are_json() -> None:
    said = refusal(len, "x" * (MAX_PAYLOAD_BYTES + 1))
    assert "`args[0]` (str, 1,048,5" in said


def test_measuring_what_is_much_too_large_keeps_none_of_it() -> None:
    value = bytes(50 << 20)
    with pytest.raises(InvalidRequest, match=r"52,4\d\d,\d\d\d bytes"):
        pickled(value, "train", captures_of(len, (value,), {}, by_value=False))


def test_a_function_of_a_module_that_was_made_by_a_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = types.ModuleType("made_here")
    exec("def helper(): pass", vars(made))
    monkeypatch.setitem(sys.modules, "made_here", made)
    assert "helper of the module made_here, which a worker cannot import" in refusal(closing_over(made.helper))


def test_standard_streams_are_those_of_the_other_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))  # as in a notebook, which has its own
    assert pack(closing_over(sys.stdout), (), {}, has_path=True).payload.body


def test_without_cloudpickle_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(NotAvailable, match="not installed: cloudpickle") as found:
        pack(closing_over(1), (), {}, has_path=True)
    assert "pliant[notebook]" in found.value.hint


def test_a_pickle_says_which_modules_it_needs() -> None:
    assert "json.decoder" in pack(closing_over(__import__("json").JSONDecoder), (), {}, has_path=True).modules
