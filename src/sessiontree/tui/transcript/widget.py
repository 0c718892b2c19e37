"""The conversation on screen: a scrolling widget that draws only the blocks that are seen.

Handles scrolling, folding, the chosen block, and text selection. It guesses the heights of blocks
that were never visible, and corrects them when they come into view without the text jumping; so a
session of ten thousand messages opens as fast as one of ten. `block_lines` draws the blocks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual._types import CallbackType
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from sessiontree.tui.palette import Palette
from sessiontree.tui.theme import palette_of
from sessiontree.tui.transcript.blocks import Block
from sessiontree.tui.transcript.item import TranscriptItem

_CLOSE = frozenset(("tool", "thinking", "state", "image"))
"""Kinds without a blank line between them."""
_SPOKEN = frozenset(("user", "answer"))


class Transcript(ScrollView, can_focus=True):
    """Show the blocks of a conversation."""

    # A click selects or unfolds; letters typed after it go to the editor.
    FOCUS_ON_CLICK = False

    DEFAULT_CSS = """
    Transcript {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        background: $background;
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "choose(-1)", show=False),
        Binding("down", "choose(1)", show=False),
        Binding("enter,space", "fold", show=False),
        Binding("home", "scroll_home", show=False),
        Binding("end", "scroll_end", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
    ]

    class EarlierWanted(Message):
        """The user wants to see what is before the first block."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._items: list[TranscriptItem] = []
        self._offsets: list[int] = [0]
        self._earlier = ""
        self._is_following = True
        self._shows_thinking = False
        self._shows_tools = False
        self._chosen: int | None = None
        self._is_settling = False

    # -- content ---------------------------------------------------------------------------------

    @property
    def blocks(self) -> list[Block]:
        return [item.block for item in self._items]

    @property
    def chosen_block(self) -> Block | None:
        """The block that the keys act on; None while the transcript has no focus."""
        return None if self._chosen is None else self._items[self._chosen].block

    def show(self, blocks: list[Block], earlier: str = "") -> None:
        """Show the end of a new conversation; ``earlier`` describes what is above it."""
        self._items = [TranscriptItem(block) for block in blocks]
        self._earlier = earlier
        self._chosen = None
        self._is_following = True
        self._guess_all()
        self._settle()

    def prepend(self, blocks: list[Block], earlier: str) -> None:
        """Add blocks above the first one; the visible ones stay in place."""
        added = [TranscriptItem(block) for block in blocks]
        anchor = self._anchor()
        self._items = added + self._items
        if self._chosen is not None:
            self._chosen += len(added)
        self._earlier = earlier
        self._guess_all()
        self._measure()
        if anchor is not None:
            self._keep((anchor[0] + len(added), anchor[1]))
        self._settle()

    def sync(self, blocks: list[Block]) -> None:
        """Update after the conversation's end grew or changed; unchanged blocks cost nothing."""
        known = len(self._items)
        if len(blocks) < known or (known and blocks[known - 1] is not self._items[-1].block):
            self.show(blocks, self._earlier)
            return
        for block in blocks[known:]:
            item = TranscriptItem(block)
            item.gap = self._gap_before(len(self._items), block)
            self._items.append(item)
            item.guess(self._width, self._is_folded(item))
        for item in self._items:
            # Measure a block again that changed out of sight, or following would miss the end.
            if item.is_exact:
                item.draw(self._width, self._palette, self._is_folded(item))
        self._settle()

    def _gap_before(self, index: int, block: Block) -> int:
        if index == 0:
            return 1 if self._earlier else 0
        before = self._items[index - 1].block
        return 0 if before.kind in _CLOSE and block.kind in _CLOSE else 1

    def _guess_all(self) -> None:
        for index, item in enumerate(self._items):
            item.gap = self._gap_before(index, item.block)
            item.guess(self._width, self._is_folded(item))

    # -- folding ---------------------------------------------------------------------------------

    def _is_folded(self, item: TranscriptItem) -> bool:
        if not item.block.can_fold:
            return False
        if item.is_folded is not None:
            return item.is_folded
        return not (self._shows_thinking if item.block.kind == "thinking" else self._shows_tools)

    def toggle_thinking(self) -> bool:
        """Show all thoughts or none; return whether they are shown now."""
        self._shows_thinking = not self._shows_thinking
        self._refold(lambda block: block.kind == "thinking")
        return self._shows_thinking

    def toggle_tools(self) -> bool:
        """Show all tools and summaries whole or folded; return whether they are whole now."""
        self._shows_tools = not self._shows_tools
        self._refold(lambda block: block.kind != "thinking")
        return self._shows_tools

    def _refold(self, concerns: Callable[[Block], bool]) -> None:
        anchor = self._anchor()
        for item in self._items:
            if item.block.can_fold and concerns(item.block):
                item.is_folded = None
                item.guess(self._width, self._is_folded(item))
        self._measure()
        if anchor is not None and not self._is_following:
            self._keep(anchor)
        self._settle()

    def toggle(self, index: int) -> None:
        """Fold or unfold one block."""
        item = self._items[index]
        if item.block.can_fold:
            item.is_folded = not self._is_folded(item)
            self._is_following = self._is_following and index == len(self._items) - 1
            item.draw(self._width, self._palette, self._is_folded(item))
            self._settle()

    # -- measuring -------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return max(20, self.size.width - 1)

    @property
    def _palette(self) -> Palette:
        return palette_of(self)

    @property
    def _head(self) -> int:
        """Count the lines above the first block."""
        return 1 if self._earlier else 0

    def _measure(self) -> None:
        self._offsets = list(accumulate((item.height for item in self._items), initial=self._head))
        self.virtual_size = Size(self.size.width, self._offsets[-1])

    def _anchor(self) -> tuple[int, int] | None:
        """Find the first drawn block in view, and the screen line on which it begins."""
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.size.height
        first = max(0, bisect_right(self._offsets, top) - 1)
        for index in range(first, len(self._items)):
            if self._offsets[index] >= bottom:
                break
            if self._items[index].is_exact:
                return index, self._offsets[index] - top
        return None

    def _keep(self, anchor: tuple[int, int]) -> None:
        index, line = anchor
        self.scroll_to(y=max(0, self._offsets[index] - line), animate=False, force=True)

    def _settle(self) -> None:
        """Draw the visible blocks until their heights are exact, keeping the text in place."""
        if self._is_settling or not self.size:
            return
        self._is_settling = True
        try:
            self._measure()
            for _ in range(50):
                if self._is_following:
                    self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
                anchor = None if self._is_following else self._anchor()
                if not self._draw_visible():
                    break
                self._measure()
                if anchor is not None:
                    self._keep(anchor)
        finally:
            self._is_settling = False
        self.refresh()

    def _draw_visible(self) -> bool:
        """Draw the visible blocks; return whether the height of one changed."""
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.size.height
        index = max(0, bisect_right(self._offsets, top) - 1)
        changed = False
        while index < len(self._items) and self._offsets[index] < bottom:
            item = self._items[index]
            changed |= item.draw(self._width, self._palette, self._is_folded(item))
            index += 1
        return changed

    # -- scrolling -------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._is_settling:
            return
        self._is_following = new_value >= self.max_scroll_y
        self._settle()
        if new_value <= 0 < old_value and self._earlier:
            self.post_message(self.EarlierWanted())

    def animate(
        self,
        attribute: str,
        value: Any,
        *,
        on_complete: CallbackType | None = None,
        **_: Any,
    ) -> None:
        # At once: Textual's animator fails when a step of it makes the text settle, which scrolls.
        setattr(self, attribute, value)
        if on_complete is not None:
            on_complete()

    def follow(self) -> None:
        """Scroll to the end and stay there while the conversation grows."""
        self._is_following = True
        self._settle()

    def go_to(self, entry_id: str, words: Sequence[str] = ()) -> bool:
        """Scroll to the first of these words in an entry's block; return whether it is here."""
        places = [n for n, item in enumerate(self._items) if item.block.entry_id == entry_id]
        if not places:
            return False
        texts = [n for n in places if self._items[n].block.kind in _SPOKEN]
        index = (texts or places)[0]
        item = self._items[index]
        item.draw(self._width, self._palette, self._is_folded(item))
        line = item.find_line(words)
        # Show the words, and the block's beginning too if there is room for both.
        if line > self.size.height - 2:
            line -= self.size.height // 2
        else:
            line = 0
        self._is_following = False
        self._measure()
        self.scroll_to(y=self._offsets[index] + line, animate=False, force=True)
        self._settle()
        return True

    @property
    def is_following(self) -> bool:
        return self._is_following

    def on_resize(self) -> None:
        for item in self._items:
            item.guess(self._width, self._is_folded(item))
        self._settle()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        for item in self._items:
            item.is_exact = False
        self._settle()

    # -- keys and mouse --------------------------------------------------------------------------

    def on_focus(self) -> None:
        if self._items and self._chosen is None:
            last = max(
                0, bisect_right(self._offsets, self.scroll_offset.y + self.size.height - 1) - 1
            )
            self._chosen = min(last, len(self._items) - 1)
        self.refresh()

    def on_blur(self) -> None:
        self._chosen = None
        self.refresh()

    def action_choose(self, step: int) -> None:
        if self._chosen is None:
            return
        self._chosen = min(max(self._chosen + step, 0), len(self._items) - 1)
        self._reveal(self._chosen)

    def _reveal(self, index: int) -> None:
        item = self._items[index]
        if item.draw(self._width, self._palette, self._is_folded(item)):
            self._measure()
        top, height = self._offsets[index], self._items[index].height
        view = self.size.height
        if top < self.scroll_offset.y:
            self.scroll_to(y=top, animate=False)
        elif top + height > self.scroll_offset.y + view:
            self.scroll_to(y=min(top, top + height - view), animate=False)
        self.refresh()

    def action_fold(self) -> None:
        if self._chosen is not None:
            self.toggle(self._chosen)
            self._reveal(self._chosen)

    def on_click(self, event: events.Click) -> None:
        if self.screen.get_selected_text():
            return
        line = event.y + self.scroll_offset.y
        if self._earlier and line == 0:
            self.post_message(self.EarlierWanted())
            return
        found = self._find(line)
        if found is not None and found[1] == self._items[found[0]].gap:
            self.toggle(found[0])

    def _find(self, line: int) -> tuple[int, int] | None:
        """Find the block on a line of the whole text, and the line within it."""
        index = bisect_right(self._offsets, line) - 1
        if not 0 <= index < len(self._items):
            return None
        return index, line - self._offsets[index]

    # -- drawing ---------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        width, ground = self.size.width, self.rich_style
        text = self._line(line)
        if text is None:
            return Strip.blank(width, ground)
        text = text.copy()
        text.no_wrap = True
        self._mark_selection(text, line)
        strip = Strip(text.render(self.app.console)).apply_style(ground)
        return strip.adjust_cell_length(width, ground).apply_offsets(0, line)

    def _line(self, line: int) -> Text | None:
        if line < self._head:
            return Text(f"  ▲ {self._earlier}", self._palette.dim)
        found = self._find(line)
        if found is None:
            return None
        index, within = found
        item = self._items[index]
        text = item.line(within)
        if index == self._chosen and self.has_focus and within >= item.gap:
            chosen = Text.assemble(("┃", self._palette.of("accent")))
            chosen.append_text(text[1:])
            return chosen
        return text

    # -- selection by mouse ----------------------------------------------------------------------

    def _mark_selection(self, text: Text, line: int) -> None:
        selection = self.text_selection
        span = selection.get_span(line) if selection is not None else None
        if span is None:
            return
        start, end = span
        style: Style = self.screen.get_component_rich_style("screen--selection")
        text.stylize(style, start, len(text) if end == -1 else end)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        # Make only the selected lines: a long text may have very many.
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self._offsets[-1] - 1
        lines = [self._plain_line(line) for line in range(first, min(last, self._offsets[-1]) + 1)]
        if lines and selection.end is not None and last < self._offsets[-1]:
            lines[-1] = lines[-1][: selection.end.x]
        if lines and selection.start is not None:
            lines[0] = lines[0][selection.start.x :]
        return "\n".join(line.rstrip() for line in lines), "\n"

    def _plain_line(self, line: int) -> str:
        found = self._find(line)
        return "" if found is None else self._items[found[0]].line(found[1]).plain

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002
        self.refresh()
