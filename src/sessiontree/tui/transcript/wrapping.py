"""Styled text in lines of a width. Pure.

Rich's own wrapping needs a console and drops what stands before a break; a chat wraps thousands of
lines and must keep the spaces of code. This is that, and nothing else.
"""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.text import Text

_WORD = re.compile(r"\s*\S+\s*|\s+")


def wrap_text(text: Text, width: int, *, keep_spaces: bool = False) -> list[Text]:
    """The text in lines of at most ``width`` columns; a word that is too long is cut.

    ``keep_spaces`` is for code: lines break anywhere and no space is lost.
    """
    width = max(1, width)
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= width:
            lines.append(line)
        elif keep_spaces:
            lines += line.divide(_hard_cuts(line.plain, width))
        else:
            lines += _divide_words(line, width)
    return lines


def _divide_words(line: Text, width: int) -> list[Text]:
    cuts: list[int] = []
    used = 0
    for found in _WORD.finditer(line.plain):
        word = found[0]
        full, bare = cell_len(word), cell_len(word.rstrip())
        if used and used + bare > width:
            cuts.append(found.start())
            used = 0
        if bare > width:
            inner = _hard_cuts(word.rstrip(), width)
            cuts += [found.start() + cut for cut in inner]
            used = cell_len(word[inner[-1] :]) if inner else full
        else:
            used += full
    pieces = list(line.divide(cuts))
    for piece in pieces:
        piece.rstrip()
    return pieces


def _hard_cuts(text: str, width: int) -> list[int]:
    """Where to cut so that each piece fits, whatever it holds."""
    cuts: list[int] = []
    used = 0
    for index, letter in enumerate(text):
        size = cell_len(letter)
        if used + size > width and used:
            cuts.append(index)
            used = 0
        used += size
    return cuts
