from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.printable import escaped, escaped_line, escaped_output

HOSTILE = [
    "\x1b]0;owned\x07",  # the title
    "\x1b]52;c;cm0gLXJm\x07",  # the clipboard
    "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",  # a link
    "\x1b[2J\x1b[H",  # a cleared screen
    "\x1b[1A\x1b[2K",  # a line that is overwritten
    "\x9b2J",  # the same as one byte
    "\x1bc",  # a reset
    "\x1b[6n",  # an answer of the terminal, as if typed
    "\x08\x08\x08",
    "\x07",
    "abc\u202edef",  # shown from right to left
    "\ud800",  # half of a pair, which cannot be encoded
    "\x1b[",
    "\x1b",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_terminal_would_obey_is_shown_instead(text: str) -> None:
    for shown in (escaped(text), escaped_line(text), escaped_output(text)):
        assert shown.isprintable()
        assert "\\" in shown


def test_text_that_people_read_stays_as_it_is() -> None:
    text = "Zürich 東京 🚀 [bold]a[/b]\tb\nC:\\x1b"
    assert escaped(text) == text
    assert escaped_line("a\nb") == "a\\nb"


def test_colours_of_a_program_stay_and_everything_else_is_shown() -> None:
    assert (
        escaped_output("\x1b[1;31mred\x1b[0m \x1b[38;5;200mpink\x1b[m")
        == "\x1b[1;31mred\x1b[0m \x1b[38;5;200mpink\x1b[m"
    )
    assert escaped_output("\x1b[1;31mred\x1b[2Kgone") == "\x1b[1;31mred\\x1b[2Kgone"


def test_of_a_bar_that_overwrote_itself_the_last_state_is_shown() -> None:
    assert escaped_output("10 %\r50 %\r100 %\r\n") == "100 %"


@given(st.text())
def test_no_text_has_control_characters_afterwards(text: str) -> None:
    for shown in (escaped(text), escaped_line(text), escaped_output(text)):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", re.sub(r"\x1b\[[0-9;:]*m", "", shown))
        shown.encode()  # no surrogates
    assert "\x1b" not in escaped(text) + escaped_line(text)
    assert "\n" not in escaped_line(text) + escaped_output(text)
