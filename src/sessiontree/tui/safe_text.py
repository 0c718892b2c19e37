"""Make session text safe for a screen and fit it to a width. All content goes through here.

``sessiontree.text.escaping`` decides what is dangerous and how it is shown; this module adds tabs,
overwritten progress lines, and cutting and wrapping by terminal columns. Markup needs no rule:
content reaches the screen only as ``rich.text.Text``, never as markup. Pure.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

from sessiontree.text import escaping
from sessiontree.text.escaping import one_line, strip_terminal
from sessiontree.text.width import fit, fit_end

__all__ = [
    "block",
    "fill",
    "fit",
    "fit_end",
    "fit_middle",
    "one_line",
    "terminal_output",
    "wrap",
]

TAB_WIDTH = 4

_OVERWRITTEN = re.compile("(?m:^)[^\n]*\r(?!\n|$)")


def block(text: str) -> str:
    """Make text safe to show, keeping its line breaks; tabs become spaces."""
    plain = text.replace("\r\n", "\n")
    if "\t" in plain:
        plain = "\n".join(line.expandtabs(TAB_WIDTH) for line in plain.split("\n"))
    return escaping.block(plain)


def terminal_output(text: str) -> str:
    """Make a command's output safe: without colours and overwritten progress lines."""
    plain = strip_terminal(text).replace("\r\n", "\n")
    if "\r" in plain:
        plain = _OVERWRITTEN.sub("", plain).replace("\r", "")
    return block(plain)


def fit_middle(line: str, width: int) -> str:
    """Cut the safe line to ``width`` columns in its middle, to keep both ends of a path."""
    if width <= 0:
        return ""
    if cell_len(line) <= width:
        return line
    head = (width - 1) // 2
    start = set_cell_size(line, head).rstrip()
    return f"{start}…{_end_of(line, width - 1 - head)}"


def _end_of(line: str, width: int) -> str:
    end = line[-width:] if width > 0 else ""
    while cell_len(end) > width:
        end = end[1:]
    return end


def fill(line: str, width: int) -> str:
    """Cut or pad the safe line to exactly ``width`` columns."""
    shown = fit(line, width)
    return shown + " " * (width - cell_len(shown)) if width > 0 else ""


def wrap(line: str, width: int) -> list[str]:
    """Break a safe line into pieces of at most ``width`` columns, at spaces where possible."""
    if width <= 0:
        return []
    pieces: list[str] = []
    current = ""
    for word in line.split(" "):
        joined = f"{current} {word}" if current else word
        if cell_len(joined) <= width:
            current = joined
            continue
        if current:
            pieces.append(current)
        while cell_len(word) > width:
            cut = width
            while cut > 1 and cell_len(word[:cut]) > width:
                cut -= 1
            pieces.append(word[:cut])
            word = word[cut:]
        current = word
    pieces.append(current)
    return pieces
