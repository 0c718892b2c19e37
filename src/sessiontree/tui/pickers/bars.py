"""One-line bars: something at the left, something at the right, cut to the width there is."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from sessiontree.tui import escaping

Draw = Callable[[int], Text]
"""Makes the line for a width in columns."""


class Bar(Widget):
    """A line that is drawn anew for every width."""

    DEFAULT_CSS = """
    Bar { height: 1; width: 1fr; padding: 0 1; }
    """

    def __init__(
        self,
        draw: Draw,
        *,
        id: str | None = None,  # noqa: A002 - Textual's name
    ) -> None:
        super().__init__(id=id)
        self._draw = draw

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return 1

    def render(self) -> Text:
        line = self._draw(self.content_size.width)
        line.no_wrap = True
        line.truncate(max(0, self.content_size.width), overflow="ellipsis")
        return line


def two_sided(left: Text, right: Text, width: int) -> Text:
    """Left and right part in one line; when narrow the left one gives way."""
    if right.cell_len + 3 >= width:
        right = Text()
    room = width - right.cell_len - (2 if right.plain else 0)
    if left.cell_len > room:
        left = left.copy()
        left.truncate(max(0, room), overflow="ellipsis")
    line = Text()
    line.append_text(left)
    line.append(" " * max(0, width - left.cell_len - right.cell_len))
    line.append_text(right)
    return line


def titled(title: Text, notice: Text, right: Text, width: int) -> Text:
    """A title and facts in one line; a notice is read whole even if both must give way to it."""
    if not notice.plain:
        return two_sided(title, right, width)
    whole = Text("   ").join((title, notice))
    if whole.cell_len + 2 + right.cell_len <= width:
        return two_sided(whole, right, width)
    if notice.cell_len + 2 + right.cell_len <= width:
        return two_sided(notice, right, width)
    return two_sided(notice, Text(), width)


def safe(text: str, style: str = "") -> Text:
    """Content as a piece of a line."""
    return Text(escaping.one_line(text), style)
