"""A scrolling pane of lines that draws only what is visible and knows if the end was seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

LayOut = Callable[[int], Sequence[Text]]
"""Makes the lines for a width."""


class TextPane(ScrollView, can_focus=False):
    """Show lines to read and scroll, however many they are."""

    DEFAULT_CSS = """
    TextPane {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
    }
    """

    class Seen(Message):
        """The pane shows another part now."""

    def __init__(self, lay_out: LayOut, *, classes: str = "") -> None:
        super().__init__(classes=classes or None)
        self._lay_out = lay_out
        self._lines: Sequence[Text] = ()
        self._width = 0
        self._end_seen = False

    @property
    def lines_below(self) -> int:
        """The number of lines below the view."""
        return max(0, len(self._lines) - self.scroll_offset.y - self.size.height)

    @property
    def is_end_seen(self) -> bool:
        """Whether the last line has been in view."""
        return self._end_seen

    def _lines_for(self, width: int) -> Sequence[Text]:
        """Lay out the lines for the width beside the scrollbar."""
        if width != self._width:
            self._width = width
            self._lines = self._lay_out(max(8, width - 1))
        return self._lines

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return len(self._lines_for(width))

    def on_resize(self) -> None:
        # The outer width: the scrollbar has its column whether it is there or not.
        lines = self._lines_for(self.outer_size.width)
        self.virtual_size = Size(self.size.width, len(lines))
        self._note_seen()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._note_seen()

    def _note_seen(self) -> None:
        # Wait until it is drawn: a line counts as seen only once it was on the screen.
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        if self.size.height > 0 and self._width > 0 and self.lines_below == 0:
            self._end_seen = True
        self.post_message(self.Seen())

    def render_line(self, y: int) -> Strip:
        width, ground = self.size.width, self.rich_style
        line = y + self.scroll_offset.y
        if line >= len(self._lines):
            return Strip.blank(width, ground)
        text = self._lines[line].copy()
        text.no_wrap = True
        strip = Strip(text.render(self.app.console)).apply_style(ground)
        return strip.adjust_cell_length(width, ground)
