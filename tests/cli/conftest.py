from __future__ import annotations

from tests.cli.command_line import command_line, module_command_line

__all__ = ["command_line", "module_command_line"]
