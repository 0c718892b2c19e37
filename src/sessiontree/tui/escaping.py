"""Making text of a session safe and fit for a screen: the only door through which content goes.

Owns what is shown of control characters and how text is cut to a width in terminal columns. The
rules are those of the command line's output: control characters, escape sequences, bidirectional
overrides, half surrogates and invisible tags come out as visible escapes. Markup needs no rule
here, because content reaches the screen only as ``rich.text.Text``, never as markup. Pure.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

TAB_WIDTH = 4

# C0 and C1 controls and DEL; Arabic letter mark, directional marks, embeddings, overrides and
# isolates; line and paragraph separators; surrogates; interlinear marks; invisible tag characters.
_HAZARD = (
    "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_HAZARDS = re.compile(f"[{_HAZARD}]")
_HAZARDS_IN_BLOCK = re.compile(f"(?!\n)[{_HAZARD}]")
_BREAKS = re.compile("[ \t]*(?:\r\n|[\n\r\v\f\x85\u2028\u2029])[\\s]*|\t+")
# What a command writes for a terminal: colours and cursor movement (CSI), titles and links (OSC,
# to BEL or ST), character sets and other short escapes.
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|\x1b\\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\\\)"
    "|\x1b[()*+][0-9A-Za-z]"
    "|\x1b[=>78DEHMNOZc]"
)
_OVERWRITTEN = re.compile("[^\n]*\r(?!\n|$)")


def one_line(text: str) -> str:
    """The text as one line that is safe to show: breaks become spaces, hazards visible escapes."""
    return _HAZARDS.sub(_visible, _BREAKS.sub(" ", text))


def block(text: str) -> str:
    """The text safe to show with its line breaks; tabs become spaces."""
    plain = text.replace("\r\n", "\n")
    if "\t" in plain:
        plain = "\n".join(line.expandtabs(TAB_WIDTH) for line in plain.split("\n"))
    return _HAZARDS_IN_BLOCK.sub(_visible, plain)


def terminal_output(text: str) -> str:
    """What a command printed, as it looked in the end: no colours, no overwritten progress."""
    plain = _SEQUENCE.sub("", text).replace("\r\n", "\n")
    if "\r" in plain:
        plain = _OVERWRITTEN.sub("", plain).replace("\r", "")
    return block(plain)


def fit(line: str, width: int) -> str:
    """The safe line cut to ``width`` columns, the cut marked with ``…``."""
    if width <= 0:
        return ""
    if cell_len(line) <= width:
        return line
    return set_cell_size(line, width - 1).rstrip() + "…"


def fit_middle(line: str, width: int) -> str:
    """The safe line cut to ``width`` columns in its middle: both ends of a path say something."""
    if width <= 0:
        return ""
    if cell_len(line) <= width:
        return line
    head = (width - 1) // 2
    start = set_cell_size(line, head).rstrip()
    return f"{start}…{_end_of(line, width - 1 - head)}"


def fit_end(line: str, width: int) -> str:
    """The safe line cut to ``width`` columns at its beginning: a path's last names say most."""
    if width <= 0:
        return ""
    return line if cell_len(line) <= width else "…" + _end_of(line, width - 1)


def _end_of(line: str, width: int) -> str:
    end = line[-width:] if width > 0 else ""
    while cell_len(end) > width:
        end = end[1:]
    return end


def fill(line: str, width: int) -> str:
    """The safe line cut or padded to exactly ``width`` columns."""
    shown = fit(line, width)
    return shown + " " * (width - cell_len(shown)) if width > 0 else ""


def wrap(line: str, width: int) -> list[str]:
    """A safe line in pieces of at most ``width`` columns, broken at spaces where there are any."""
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


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
