"""How much room a safe line takes on a terminal, and lines that fit it. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

# Latin, Greek, the most of Cyrillic and typographic signs take one column each, and are common.
_MAYBE_NOT_NARROW = re.compile("[^\x00-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e]")


def text_width(text: str) -> int:
    """Columns that a safe line takes on a terminal."""
    return len(text) if _is_narrow(text) else sum(map(_width_of, text))


def _is_narrow(text: str) -> bool:
    """Whether every character surely takes one column."""
    return text.isascii() or _MAYBE_NOT_NARROW.search(text) is None


@lru_cache(4096)
def _width_of(character: str) -> int:
    import unicodedata

    if unicodedata.combining(character) or character in "\u200b\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, width: int) -> str:
    """The line cut to ``width`` columns, the cut marked with ``…``. Looks at no more of it."""
    width = max(width, 0)
    if _is_narrow(text[: width + 1]):
        return text if len(text) <= width else _cut(text, width - 1)
    used = cut = 0
    for end, wide in enumerate(map(_width_of, text), 1):
        used += wide
        if used > width:
            return _cut(text, cut if width else -1)
        if used < width:
            cut = end
    return text


def _cut(text: str, end: int) -> str:
    return text[:end].rstrip() + "…" if end >= 0 else ""


def wrap(line: str, width: int) -> list[str]:
    """The safe line in pieces that fit ``width`` columns, broken at spaces where there are some.

    What hangs over keeps the indentation of the line. A word that is too long is left to the
    terminal to break.
    """
    if text_width(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    if len(indent) >= width - 10:
        return [line]
    pieces: list[str] = []
    current = indent
    used = len(indent)
    for word in line[len(indent) :].split(" "):
        wide = text_width(word)
        if used > len(indent) and used + 1 + wide > width:
            pieces.append(current)
            current, used = indent + word, len(indent) + wide
        elif used > len(indent):
            current, used = f"{current} {word}", used + 1 + wide
        else:
            current, used = current + word, used + wide
    return [*pieces, current]
