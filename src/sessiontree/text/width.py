"""Measure a safe line in terminal columns, and cut lines to fit. Pure.

Command line and screen measure alike, with rich's table of characters, since rich draws the screen.
The core installs without rich; then Python's own table has to do, which is as old as the Python and
takes each part of a composed emoji for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

# Latin, Greek, the most of Cyrillic, typographic signs and lines take one column each; Chinese,
# Japanese and Korean characters two. These are common, and need no table.
_NARROW = "\x00-\xac\xae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u2500-\u259f"
_WIDE = "\u3000-\u3029\u3041-\u3096\u30a0-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60"
_MAYBE_NOT_NARROW = re.compile(f"[^{_NARROW}]")
_MOST_A_COLUMN = 16
"""More characters than any writing puts into one column: a family of emoji has seven in two."""
_HIDDEN = ("Mn", "Mc", "Me", "Cf")
_WIDE_BLOCKS = ((0x1F000, 0x1FAFF), (0x20000, 0x3FFFD))
"""Where characters newer than the table are wide, too."""


def text_width(text: str) -> int:
    """Columns that a safe line takes on a terminal."""
    if _is_narrow(text):
        return len(text)
    if _is_plain(text):
        return len(text) + len(_wide().findall(text))
    try:
        from rich.cells import cell_len
    except ImportError:
        return sum(map(_width_of, text))
    return cell_len(text)


def _is_narrow(text: str) -> bool:
    """Whether every character surely takes one column."""
    return text.isascii() or _MAYBE_NOT_NARROW.search(text) is None


def _is_plain(text: str) -> bool:
    """Whether each character surely is a letter of its own, and takes one column or two."""
    return _maybe_not_plain().search(text) is None


@cache
def _maybe_not_plain() -> re.Pattern[str]:
    return re.compile(f"[^{_NARROW}{_WIDE}]")


@cache
def _wide() -> re.Pattern[str]:
    return re.compile(f"[{_WIDE}]")


def _letters(text: str) -> Iterable[tuple[int, int]]:
    """Where each letter with all its marks ends, and the columns it takes."""
    if _is_plain(text):
        return enumerate((2 if _wide().match(letter) else 1 for letter in text), 1)
    try:
        from rich.cells import split_graphemes
    except ImportError:
        return enumerate(map(_width_of, text), 1)
    return ((end, columns) for _, end, columns in split_graphemes(text)[0])


@lru_cache(4096)
def _width_of(character: str) -> int:
    """Columns of one character, without rich."""
    import unicodedata

    category = unicodedata.category(character)
    if category in _HIDDEN and character != "\xad":
        return 0
    if category == "Cn":
        return 2 if any(low <= ord(character) <= high for low, high in _WIDE_BLOCKS) else 1
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, width: int) -> str:
    """The line cut to ``width`` columns, the cut marked with ``…``. Looks at no more of it."""
    width = max(width, 0)
    if _is_narrow(text[: width + 1]):
        return text if len(text) <= width else _cut(text, width - 1)
    beginning = text[: _MOST_A_COLUMN * (width + 1)]
    used = cut = 0
    for end, columns in _letters(beginning):
        used += columns
        if used > width:
            break
        if used < width:
            cut = end
    else:
        if len(beginning) == len(text):
            return text
    return _cut(text, cut if width else -1)


def fit_end(text: str, width: int) -> str:
    """The line cut to ``width`` columns at its beginning, to keep the end of a path."""
    if width <= 0:
        return ""
    if text_width(text) <= width:
        return text
    end = text[-(width - 1) :] if width > 1 else ""
    while text_width(end) > width - 1:
        end = end[1:]
    return f"…{end}"


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
