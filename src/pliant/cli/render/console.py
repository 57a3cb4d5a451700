"""Rich's console for what people did not write: names, messages, file names, output of programs.

No markup, so that ``a[/b]`` is a name and not a tag; and every piece of text is escaped as it is rendered: cells of tables, live
views, whatever. Only rich itself sends control sequences. ``output_text`` is a line of a program, with its colours as rich's
styles: a terminal shows them, a file does not get them (``FORCE_COLOR=1`` changes that).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from pliant.core.printable import escaped, escaped_output


class EscapingConsole(Console):
    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(escaped(segment.text), segment.style)


def output_text(line: str) -> Text:
    return Text.from_ansi(escaped_output(line))
