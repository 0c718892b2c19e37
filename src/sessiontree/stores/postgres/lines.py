"""The lines of a session's entries, read from their rows when they are asked for.

An entry knows where its line would be in a file: offsets of a text that exists nowhere as a whole.
This module knows which row that is. A session is opened by its entries' places alone; what a
context or a page needs then comes in a statement for each stretch of rows, and what was read last
stays."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence

from sessiontree.errors import PersistenceError
from sessiontree.stores.payloads import GetBlob, Payloads

ReadRows = Callable[[int, int], Sequence[tuple[int, bytes]]]
"""The number and the line of each row between two numbers, both included."""

_KEPT_BYTES = 8 << 20
_AHEAD_BYTES = 1 << 18


def _read_nothing(first: int, last: int) -> Sequence[tuple[int, bytes]]:  # noqa: ARG001
    return ()


class RowLines(Payloads):
    """Gives entries of one session their lines. ``name`` is what errors call the session."""

    def __init__(self, name: str, read_rows: ReadRows, get_blob: GetBlob) -> None:
        super().__init__(get_blob)
        self.name = name
        self._read_rows = read_rows
        self._starts = array("q")
        self._numbers = array("q")
        self._end = 0
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._dropped: set[int] = set()

    def place(self, number: int, length: int, line: bytes | None = None) -> int:
        """Give a row the next place, and return it."""
        offset = self._end
        self._starts.append(offset)
        self._numbers.append(number)
        self._end = offset + length + 1
        if line is not None:
            self.keep(number, line)
        return offset

    def keep(self, number: int, line: bytes) -> None:
        """Keep a line in memory, and drop those that were used longest ago."""
        self._kept_bytes += len(line) - len(self._kept.pop(number, b""))
        self._kept[number] = line
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            dropped, gone = self._kept.popitem(last=False)
            self._kept_bytes -= len(gone)
            self._dropped.add(dropped)

    def forget_server(self) -> None:
        """Answer from memory alone, with lines as they were when they were first read."""
        self._read_rows = _read_nothing
        for number in self._dropped:
            self._kept.pop(number, None)

    def read_line(self, offset: int, length: int) -> bytes:
        """The line at a place, or the lines of neighbouring places joined by newlines.

        A line that another writer has changed since is as long as it is now.
        """
        first = bisect_right(self._starts, offset) - 1
        last = first + 1
        end = offset + length
        while last < len(self._starts) and self._starts[last] < end:
            last += 1
        numbers = self._numbers[first:last]
        if len(numbers) == 1:
            return self._line(first)
        return b"\n".join(self._lines(numbers))

    def _line(self, at: int) -> bytes:
        number = self._numbers[at]
        line = self._kept.get(number)
        if line is not None:
            self._kept.move_to_end(number)
            return line
        # reading one line is followed by reading its neighbours, on a walk upwards those before it
        low = bisect_right(self._starts, max(0, self._starts[at] - _AHEAD_BYTES // 2)) - 1
        high = bisect_right(self._starts, self._starts[at] + _AHEAD_BYTES // 2) - 1
        return self._lines(self._numbers[low : high + 1], wanted=number)[0]

    def _lines(self, numbers: Sequence[int], wanted: int | None = None) -> list[bytes]:
        found = {number: line for number in numbers if (line := self._kept.get(number)) is not None}
        missing = [number for number in numbers if number not in found]
        if missing:
            for number, line in self._read_rows(min(missing), max(missing)):
                if number not in self._kept:  # what callers hold was made of the line that is kept
                    found[number] = line
                    self.keep(number, line)
        try:
            return [found[number] for number in (numbers if wanted is None else (wanted,))]
        except KeyError:
            raise PersistenceError(
                self.name, "was deleted for good or moved to another store; its lines are gone"
            ) from None
