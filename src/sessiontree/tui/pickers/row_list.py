"""A list of one-line rows that draws only what is visible, and the one-line bars around it.

The list handles the cursor, scrolling, the mouse and the keys. Its owner passes a function that
draws a row, and receives a message when the user chooses a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from sessiontree.tui import safe_text

Row = TypeVar("Row")

RenderRow = Callable[[Row, int, bool], Text]
"""Draw a row: the row, the width in columns, whether the cursor is on it."""


class RowList(ScrollView, Generic[Row], can_focus=False):
    """Rows with a cursor. The focused widget calls the actions for the keys."""

    DEFAULT_CSS = """
    RowList {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        background: $background;
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "cursor(-1)", show=False),
        Binding("down", "cursor(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "first", show=False),
        Binding("end", "last", show=False),
    ]

    class Moved(Message):
        """The cursor moved to another row."""

    class Picked(Message):
        """The user double-clicked the row under the cursor."""

    def __init__(
        self,
        render: RenderRow[Row],
        *,
        empty: str = "",
        id: str | None = None,  # noqa: A002 - Textual's name
    ) -> None:
        super().__init__(id=id)
        self._draw_row = render
        self._rows: Sequence[Row] = ()
        self._cursor = 0
        self._empty = empty
        self._ground = Style()

    # -- rows ------------------------------------------------------------------------------------

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def current(self) -> Row | None:
        """The row under the cursor; None if there are none."""
        return self._rows[self._cursor] if self._rows else None

    def show_rows(self, rows: Sequence[Row], cursor: int = 0, *, empty: str | None = None) -> None:
        """Show these rows with the cursor on one of them."""
        self._rows = rows
        if empty is not None:
            self._empty = empty
        self._cursor = min(max(cursor, 0), max(len(rows) - 1, 0))
        self.virtual_size = Size(self.size.width, max(len(rows), 1))
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def move_to(self, cursor: int) -> None:
        """Put the cursor on this row, or on the nearest one that exists."""
        target = min(max(cursor, 0), max(len(self._rows) - 1, 0))
        if target == self._cursor:
            return
        old, self._cursor = self._cursor, target
        self.refresh_line(old)
        self.refresh_line(target)
        self._reveal()
        self.post_message(self.Moved())

    def _reveal(self) -> None:
        height = self.size.height
        if height <= 0:
            return
        top = self.scroll_offset.y
        # By force: rows that have just come get their scrollbar only at the next layout.
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False, force=True)
        elif self._cursor >= top + height:
            self.scroll_to(y=self._cursor - height + 1, animate=False, force=True)

    # -- keys and mouse --------------------------------------------------------------------------

    def action_cursor(self, step: int) -> None:
        self.move_to(self._cursor + step)

    def action_page(self, direction: int) -> None:
        self.move_to(self._cursor + direction * max(1, self.size.height - 1))

    def action_first(self) -> None:
        self.move_to(0)

    def action_last(self) -> None:
        self.move_to(len(self._rows) - 1)

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y
        if 0 <= row < len(self._rows):
            self.move_to(row)
            if event.chain >= 2:
                self.post_message(self.Picked())

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, max(len(self._rows), 1))
        self._reveal()

    # -- drawing ---------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        self._ground = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        index = y + self.scroll_offset.y
        if not self._rows:
            text = Text(self._empty if index == 0 else "", style="")
            return self._strip(Text(" ") + text, width)
        if index >= len(self._rows):
            return Strip.blank(width, self._ground)
        return self._strip(self._draw_row(self._rows[index], width, index == self._cursor), width)

    def _strip(self, line: Text, width: int) -> Strip:
        line.no_wrap = True
        segments = line.render(self.app.console)
        strip = Strip(segments).apply_style(self._ground)
        style = self._ground
        if isinstance(line.style, Style):
            style += line.style
        return strip.adjust_cell_length(width, style)


Draw = Callable[[int], Text]
"""Draw the line for a width in columns."""


class Bar(Widget):
    """A line that is drawn for the present width."""

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
    """Join a left and a right part in one line; a narrow width cuts the left one."""
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
    """Join a title and facts in one line; a notice may displace both, so that it fits whole."""
    if not notice.plain:
        return two_sided(title, right, width)
    whole = Text("   ").join((title, notice))
    if whole.cell_len + 2 + right.cell_len <= width:
        return two_sided(whole, right, width)
    if notice.cell_len + 2 + right.cell_len <= width:
        return two_sided(notice, right, width)
    return two_sided(notice, Text(), width)


def safe(text: str, style: str = "") -> Text:
    """Make content safe as a piece of a line."""
    return Text(safe_text.one_line(text), style)
