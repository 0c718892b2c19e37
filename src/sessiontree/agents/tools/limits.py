"""Limits of the tool output that a model sees.

Owns the sizes and the words that say what was left out. Works on text only.
"""

from __future__ import annotations

from collections import deque

MAX_LINES = 2_000
MAX_CHARACTERS = 50_000
MAX_LINE_CHARACTERS = 2_000
MAX_IMAGE_BYTES = 3_750_000
"""Base64 makes this 5 MB, the most that providers take."""

_HEAD_CHARACTERS = 10_000


def cut_line(line: str, limit: int = MAX_LINE_CHARACTERS) -> str:
    """The line, or its beginning and a note of how much is missing."""
    if len(line) <= limit:
        return line
    return f"{line[:limit]}… [{len(line) - limit} more characters]"


class OutputWindow:
    """The beginning and the end of a stream of text, in bounded memory.

    Errors stand at either end of a command's output, so both are kept and the middle goes.
    """

    def __init__(self, limit: int = MAX_CHARACTERS, head: int = _HEAD_CHARACTERS) -> None:
        self._head_limit = min(head, limit)
        self._tail_limit = limit - self._head_limit
        self._head = ""
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self.dropped = 0
        """Characters that are no longer there."""

    def add(self, text: str) -> None:
        """Take in more of the stream."""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        if not text:
            return
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size > self._tail_limit:
            excess = self._tail_size - self._tail_limit
            first = self._tail.popleft()
            if len(first) > excess:
                self._tail.appendleft(first[excess:])
                removed = excess
            else:
                removed = len(first)
            self._tail_size -= removed
            self.dropped += removed

    def text(self) -> str:
        """The text that is kept, with a line that says what is missing."""
        tail = "".join(self._tail)
        if not self.dropped:
            return self._head + tail
        return f"{self._head}\n[… {self.dropped} characters left out …]\n{tail}"
