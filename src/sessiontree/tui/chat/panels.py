"""The panels between conversation and editor: todos and queued messages.

Each draws its lines for the width it has, and hides when it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from sessiontree.tui import safe_text
from sessiontree.tui.palette import Palette

DrawLines = Callable[[int], list[Text]]


class LinesPanel(Widget):
    """A panel as high as its lines."""

    DEFAULT_CSS = """
    LinesPanel { height: auto; width: 1fr; padding: 0 2; }
    """

    def __init__(self, draw: DrawLines, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._draw = draw
        self._height = -1

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return len(self._draw(width))

    def update(self) -> None:
        """Draw again: the lines may have changed."""
        height = len(self._draw(max(1, self.content_size.width or 80)))
        self.display = height > 0
        self.refresh(layout=height != self._height)
        self._height = height

    def render(self) -> Text:
        text = Text("\n").join(self._draw(self.content_size.width))
        text.no_wrap = True
        return text


def draw_queue(
    steering: Sequence[str], queued: Sequence[str], width: int, palette: Palette
) -> list[Text]:
    """Draw the queued messages, one line each."""
    rows = [("steer", text) for text in steering] + [("next", text) for text in queued]
    lines = []
    for word, text in rows[:5]:
        shown = safe_text.fit(safe_text.one_line(text), max(4, width - len(word) - 4))
        lines.append(Text.assemble((f"↳ {word}  ", palette.of("warning")), (shown, palette.dim)))
    if len(rows) > 5:
        lines.append(Text(f"  … {len(rows) - 5} more", palette.dim))
    return lines
