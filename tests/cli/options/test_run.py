"""``-e``: what workers find in their environment."""

from __future__ import annotations

from pliant.cli.options.run import environment


def test_a_variable_is_given_with_its_value_or_taken_from_here() -> None:
    here = {"API_KEY": "secret", "EMPTY": "", "A": "other"}
    assert environment(["API_KEY", "A=1", "B=x=y", "EMPTY"], here) == {
        "API_KEY": "secret",
        "A": "1",
        "B": "x=y",
        "EMPTY": "",
    }
