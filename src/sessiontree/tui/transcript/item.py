"""A block with its drawn lines, or a guess of its height before it is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from sessiontree.tui.palette import Palette
from sessiontree.tui.transcript.block_lines import draw_block
from sessiontree.tui.transcript.blocks import Block
from sessiontree.tui.transcript.long_text import find
from sessiontree.tui.transcript.markdown import Growth


class TranscriptItem:
    """A block and its drawn lines."""

    __slots__ = ("_drawn", "_key", "block", "gap", "growth", "height", "is_exact", "is_folded")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.is_folded: bool | None = None
        """The user's choice; None follows the switch for the block's kind."""
        self.gap = 1
        self.height = 1
        self.is_exact = False
        self.growth = Growth()
        self._drawn: Sequence[Text] = ()
        self._key: object = None

    def guess(self, width: int, is_folded: bool) -> None:
        """Guess the height without drawing."""
        text = self.block.text
        if self.block.can_fold and is_folded:
            lines = 1
        else:
            lines = text.count("\n") + len(text) // max(20, width - 4) + 1
        self.height = lines + self.gap
        self.is_exact = False

    def draw(self, width: int, palette: Palette, is_folded: bool) -> bool:
        """Draw if something changed; return whether the height changed."""
        key = (self.block.version, width, palette.name, is_folded, self.gap)
        if self.is_exact and key == self._key:
            return False
        self._drawn = draw_block(
            self.block, width, palette, is_folded=is_folded, growth=self.growth
        )
        self._key = key
        before, self.height = self.height, len(self._drawn) + self.gap if self._drawn else 0
        was_exact, self.is_exact = self.is_exact, True
        return before != self.height or not was_exact

    def line(self, number: int) -> Text:
        """Return a drawn line; an empty one above them and beyond them."""
        place = number - self.gap
        return self._drawn[place] if 0 <= place < len(self._drawn) else Text()

    def find_line(self, words: Sequence[str]) -> int:
        """Find the first drawn line that contains one of these words; 0 if none does."""
        wanted = [word.casefold() for word in words if word]
        place = find(self._drawn, wanted)
        return 0 if place is None else place + self.gap
