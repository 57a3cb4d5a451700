"""The ``pliant`` command: one module per command."""

from __future__ import annotations


def main() -> None:
    from pliant.cli.app import app, run

    run(app)
