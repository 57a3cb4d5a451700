from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.brain.executor.frames import HEADER, MAX_ANSWER_BYTES, frame, length_of, message_of
from pliant.core.errors import CorruptData


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())))
def test_a_message_is_the_same_after_its_way(message: dict[str, Any]) -> None:
    sent = frame(message)
    length = length_of(sent[: HEADER.size], len(sent))
    assert length == len(sent) - HEADER.size
    assert message_of(sent[HEADER.size :]) == message


@given(st.binary() | st.sampled_from([b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"null", b"1", b'"x"', b"{", b"\xff"]))
def test_anything_else_is_refused(content: bytes) -> None:
    try:
        message = message_of(content)
    except CorruptData:
        return
    assert isinstance(message, dict)


def test_a_length_beyond_the_limit_is_refused_before_anything_is_read() -> None:
    assert length_of(HEADER.pack(MAX_ANSWER_BYTES), MAX_ANSWER_BYTES) == MAX_ANSWER_BYTES
    with pytest.raises(CorruptData, match="a message of 4294967295 bytes"):
        length_of(b"\xff\xff\xff\xff", MAX_ANSWER_BYTES)
