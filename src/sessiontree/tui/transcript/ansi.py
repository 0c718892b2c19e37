"""Spell Markdown as lines with the escape sequences of colours, for output that scrolls by."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Console

from sessiontree.tui.palette import TERMINAL
from sessiontree.tui.transcript.markdown import draw_markdown


def spell_markdown(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text, at most ``width`` columns wide, in the terminal's own colours.

    The text is untrusted; its own escape sequences come out as visible characters.
    """
    console = Console(
        file=StringIO(), force_terminal=True, color_system="standard", width=max(width, 8)
    )
    for line in draw_markdown(text.strip("\n"), width, TERMINAL):
        shown = line.copy()
        shown.rstrip()
        with console.capture() as captured:
            console.print(shown, end="", soft_wrap=True, markup=False, highlight=False, emoji=False)
        yield captured.get()
