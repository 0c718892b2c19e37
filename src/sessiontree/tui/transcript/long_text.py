"""Rows of a text that is too long to be laid out whole: each row is made when somebody looks at it.

Owns where the rows of such a text begin, eight bytes a row, and finding them in a text that grows.
Pure. The text must be safe already (``escaping``): tabs and control characters have no width here.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from typing import overload

from rich.cells import get_character_cell_size
from rich.text import Text

# Letters that are one column wide for certain; a line of only these is cut by arithmetic.
_NARROW = re.compile("[\x20-\x7e\xa0-\u02ff\u0370-\u0482\u048a-\u0590\u2010-\u2027\u2500-\u257f]*")
_MOST_MARKS = 4
"""Letters a column at most: accents without end have no width, but they cost time to draw."""


class LongText:
    """A text in rows of at most ``width`` columns.

    With ``words`` a row ends at a space where there is one, else wherever it is full.
    """

    def __init__(self, width: int, *, words: bool = False) -> None:
        self.width = max(2, width)
        self._words = words
        self._text = ""
        self._starts = array("q")
        self._last_line = 0

    def show(self, text: str) -> LongText:
        """Be the rows of this text; of one that has grown only the new end is read."""
        if not self._starts or not text.startswith(self._text):
            self._starts, self._last_line = array("q"), 0
        elif len(text) == len(self._text):
            return self
        while self._starts and self._starts[-1] >= self._last_line:
            self._starts.pop()
        self._text = text
        self._find_rows()
        return self

    def __len__(self) -> int:
        return len(self._starts)

    def row(self, number: int) -> str:
        """One row, without its line break."""
        start = self._starts[number]
        following = number + 1
        end = self._starts[following] if following < len(self._starts) else len(self._text)
        return self._text[start:end].removesuffix("\n")

    def begins_line(self, number: int) -> bool:
        """Whether a row begins a line of the text, and is not the rest of one."""
        start = self._starts[number]
        return start == 0 or self._text[start - 1] == "\n"

    def find(self, words: Sequence[str]) -> int:
        """The first row with one of these words, in any case; 0 without one."""
        for number in range(len(self)):
            row = self.row(number).casefold()
            if any(word in row for word in words):
                return number
        return 0

    def _find_rows(self) -> None:
        text, place = self._text, self._last_line
        is_ascii = text.isascii()
        while True:
            end = text.find("\n", place)
            stop = len(text) if end < 0 else end
            self._last_line = place
            self._starts.append(place)
            if stop - place > self.width or not is_ascii:
                self._cut(place, stop, is_ascii)
            if end < 0:
                return
            place = end + 1

    def _cut(self, start: int, stop: int, is_ascii: bool) -> None:
        """Add the rows of one line after its first."""
        if not is_ascii and _NARROW.fullmatch(self._text, start, stop) is None:
            self._cut_wide(start, stop)
        elif self._words:
            self._cut_words(start, stop)
        else:
            self._starts.extend(range(start + self.width, stop, self.width))

    def _cut_words(self, start: int, stop: int) -> None:
        while stop - start > self.width:
            space = self._text.rfind(" ", start, start + self.width + 1)
            start = space + 1 if space > start else start + self.width
            if start < stop:
                self._starts.append(start)

    def _cut_wide(self, start: int, stop: int) -> None:
        used, count = 0, 0
        for place in range(start, stop):
            size = get_character_cell_size(self._text[place])
            if used + size > self.width or count >= self.width * _MOST_MARKS:
                self._starts.append(place)
                used, count = 0, 0
            used += size
            count += 1


class Rows(Sequence[Text]):
    """The rows of a long text as lines to show, after some that are there already.

    ``draw`` makes the line of a row, and hears whether the row begins a line of the text.
    """

    def __init__(
        self, text: LongText, draw: Callable[[str, bool], Text], before: Sequence[Text] = ()
    ) -> None:
        self.text = text
        self.before = before
        self._draw = draw

    def __len__(self) -> int:
        return len(self.before) + len(self.text)

    @overload
    def __getitem__(self, index: int) -> Text: ...

    @overload
    def __getitem__(self, index: slice) -> list[Text]: ...

    def __getitem__(self, index: int | slice) -> Text | list[Text]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index if index >= 0 else len(self) + index
        if number < len(self.before):
            return self.before[number]
        row = number - len(self.before)
        return self._draw(self.text.row(row), self.text.begins_line(row))
