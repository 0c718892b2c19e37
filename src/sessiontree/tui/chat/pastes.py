"""Long pasted texts, each folded to one mark in the editor, such as ``[pasted 213 lines]``. Pure.

A mark stands for its whole text: it is sent, edited elsewhere and copied as that. Knows texts and
columns, no widget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_LINES = 10
MOST_CHARACTERS = 2_000
"""Longer pastes are folded."""

Span = tuple[int, int]
"""Columns of a mark in its line: the first, and the one after the last."""


def is_long(text: str) -> bool:
    """Whether a pasted text is folded."""
    return len(text) > MOST_CHARACTERS or _count_lines(text) > MOST_LINES


def _count_lines(text: str) -> int:
    return text.removesuffix("\n").count("\n") + 1


class Pastes:
    """The folded texts of one prompt, by their marks."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def fold(self, text: str) -> str:
        """Keep a text and return the mark that stands for it."""
        lines = _count_lines(text)
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        mark, number = f"[pasted {size}]", 1
        while self._texts.get(mark, text) != text:
            number += 1
            mark = f"[pasted {size}, {number}]"
        self._texts[mark] = text
        self._pattern = re.compile("|".join(map(re.escape, self._texts)))
        return mark

    def expand(self, text: str) -> str:
        """The text with its marks unfolded; marks inside the pasted texts stay."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._texts[found[0]], text)

    def spans(self, line: str) -> Iterator[Span]:
        """Yield where the marks in a line are."""
        if self._pattern is not None:
            yield from (found.span() for found in self._pattern.finditer(line))

    def span_at(self, line: str, column: int) -> Span | None:
        """The mark that the cursor is in or beside, the one to its left first."""
        found = [span for span in self.spans(line) if span[0] <= column <= span[1]]
        return found[0] if found else None

    def outside(self, line: str, column: int, *, to_end: bool) -> int:
        """The column itself or, if it is inside of a mark, the mark's end or start."""
        for start, end in self.spans(line):
            if start < column < end:
                return end if to_end else start
        return column

    def clear(self) -> None:
        """Forget all texts, after they were sent."""
        self._texts.clear()
        self._pattern = None
