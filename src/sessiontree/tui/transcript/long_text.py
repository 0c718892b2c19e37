"""Rows of a text that is too long to lay out whole: each row is made when it is shown.

Keeps only where each row begins, eight bytes a row, and continues that list when the text grows.
Pure. The text must be safe already (``safe_text``): tabs and control characters would be measured
wrongly.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import overload

from rich.cells import get_character_cell_size
from rich.text import Text

# Characters that are certainly one column wide; a line of only these is cut by arithmetic.
_NARROW = re.compile("[\x20-\x7e\xa0-\u02ff\u0370-\u0482\u048a-\u0590\u2010-\u2027\u2500-\u257f]*")
_LONG_CHARACTERS = 20_000
_LONG_LINES = 1_000
_MOST_MARKS = 4
"""Most characters a column: endless accents have no width, but they cost time to draw."""


class LongText:
    """A text in rows of at most ``width`` columns.

    With ``words`` rows end at spaces where possible, else wherever they are full.
    """

    def __init__(self, width: int, *, words: bool = False) -> None:
        self.width = max(2, width)
        self.words = words
        self._text = ""
        self._starts = array("q")
        self._last_line = 0

    def show(self, text: str) -> LongText:
        """Set the text; if it has only grown, read only its new end."""
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
        """Return one row, without its line break."""
        start = self._starts[number]
        following = number + 1
        end = self._starts[following] if following < len(self._starts) else len(self._text)
        return self._text[start:end].removesuffix("\n")

    def begins_line(self, number: int) -> bool:
        """Whether a row begins a line of the text rather than continuing one."""
        start = self._starts[number]
        return start == 0 or self._text[start - 1] == "\n"

    def find(self, words: Sequence[str]) -> int | None:
        """Find the first row with one of these words, ignoring case."""
        for number in range(len(self)):
            row = self.row(number).casefold()
            if any(word in row for word in words):
                return number
        return None

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
        elif self.words:
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


Draw = Callable[[str, bool], Text]
"""Draw the line of a row; the flag says whether the row begins a line of the text."""


class _Lazy(Sequence[Text]):
    """Lines that are made when they are read."""

    @abstractmethod
    def _line(self, number: int) -> Text:
        """Make the line with this number."""

    @overload
    def __getitem__(self, index: int) -> Text: ...

    @overload
    def __getitem__(self, index: slice) -> list[Text]: ...

    def __getitem__(self, index: int | slice) -> Text | list[Text]:
        if isinstance(index, slice):
            return [self._line(number) for number in range(*index.indices(len(self)))]
        number = index if index >= 0 else len(self) + index
        if not 0 <= number < len(self):
            raise IndexError(index)
        return self._line(number)


class Rows(_Lazy):
    """The rows of a long text as drawn lines."""

    def __init__(self, text: LongText, draw: Draw) -> None:
        self._text = text
        self._draw = draw

    def __len__(self) -> int:
        return len(self._text)

    def _line(self, number: int) -> Text:
        return self._draw(self._text.row(number), self._text.begins_line(number))

    def each(self, change: Callable[[Text], Text]) -> Rows:
        draw = self._draw
        return Rows(self._text, lambda row, begins: change(draw(row, begins)))

    def find(self, words: Sequence[str]) -> int | None:
        return self._text.find(words)


class Stack(_Lazy):
    """Several groups of lines in a column, some of them rows of long texts."""

    def __init__(self, parts: Sequence[Sequence[Text]]) -> None:
        self.parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _line(self, number: int) -> Text:
        part = bisect_right(self._ends, number)
        return self.parts[part][number - (self._ends[part - 1] if part else 0)]


def each(lines: Sequence[Text], change: Callable[[Text], Text]) -> Sequence[Text]:
    """Apply a change to all lines: now, or for a long text when a line is read."""
    match lines:
        case Stack(parts=parts):
            return Stack([each(part, change) for part in parts])
        case Rows():
            return lines.each(change)
        case _:
            return [change(line) for line in lines]


def stack(*parts: Sequence[Text]) -> Sequence[Text]:
    """Stack the lines of all parts."""
    flat: list[Sequence[Text]] = []
    for part in parts:
        flat += part.parts if isinstance(part, Stack) else [part]
    if any(isinstance(part, Rows) for part in flat):
        return Stack(flat)
    return [line for part in flat for line in part]


def find(lines: Sequence[Text], words: Sequence[str]) -> int | None:
    """Find the first line with one of these lower-case words."""
    if isinstance(lines, Rows):
        return lines.find(words)
    if isinstance(lines, Stack):
        passed = 0
        for part in lines.parts:
            place = find(part, words)
            if place is not None:
                return passed + place
            passed += len(part)
        return None
    for number, line in enumerate(lines):
        if any(word in line.plain.casefold() for word in words):
            return number
    return None


def is_long(text: str) -> bool:
    """Whether a text is long enough to lay out row by row."""
    return len(text) > _LONG_CHARACTERS or text.count("\n") > _LONG_LINES
