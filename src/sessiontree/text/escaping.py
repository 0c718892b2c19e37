"""Make text safe to show on a terminal. Imports nothing of ours.

Session content is untrusted: it may hold escape sequences that move the cursor, set titles or
type commands, and characters that misrepresent the text. The command line and the
screens show content only through this module. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

# C0 and C1 controls and DEL; Arabic letter mark, directional marks, embeddings, overrides and
# isolates; line and paragraph separators; surrogates; interlinear marks; invisible tag characters.
_HAZARD = (
    "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f"
)
HAZARDS = re.compile(f"[{_HAZARD}]")
HAZARDS_IN_BLOCK = re.compile(f"(?![\n\t])[{_HAZARD}]")
"""The same in text whose line breaks and tabs are kept."""


# Patterns that few texts need are compiled when one does: that takes as long as many searches.


@cache
def _breaks() -> re.Pattern[str]:
    # From the first blank of a run on, and never back: a long run is read once.
    return re.compile("(?<![ \t])[ \t]*+(?:\r\n|[\n\r\v\f\x85\u2028\u2029])\\s*+|\t+")


@cache
def _terminal_sequence() -> re.Pattern[str]:
    """Colours and cursor movement (CSI); titles, links and device strings up to their terminator.

    That must follow within 4096 characters. Character sets; two-character escapes.
    """
    return re.compile(
        "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
        "|\x1b[\\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\\\)"
        "|\x1b[ -/]+[0-~]"
        "|\x1b[0-OQ-WYZ\\\\`-~]"
    )


def strip_terminal(text: str) -> str:
    """Remove terminal sequences: colours, cursor movement, titles, links, character sets.

    An unfinished sequence and other control characters stay, so make the result safe before showing
    it. Matching takes time in proportion to the text's length.
    """
    return _terminal_sequence().sub("", text) if "\x1b" in text or "\x9b" in text else text


def one_line(text: str) -> str:
    """Make one line that is safe to show: breaks become spaces, hazards visible escapes."""
    if text.isprintable():  # neither breaks nor hazards are: most lines need no more than this look
        return text
    return HAZARDS.sub(_visible, _breaks().sub(" ", text))


def block(text: str) -> str:
    """Make the text safe to show, keeping its line breaks and tabs."""
    return HAZARDS_IN_BLOCK.sub(_visible, text.replace("\r\n", "\n"))


# Printable as far as Unicode is concerned, but of no width or blank: joiners, variation selectors,
# fillers, the empty Braille cell.
@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(
        "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
        "\U000e0100-\U000e01ef]"
    )


def exact(text: str) -> str:
    """Escape everything invisible; keep line breaks and tabs.

    For text that the user approves: carriage returns, blanks other than the space, and characters
    of no width also become visible escapes, though a writing system or an emoji may need them.
    """
    return "".join(piece for piece, _ in exact_pieces(text))


def exact_pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield that text in pieces, each with whether it is an escape that replaces a character."""
    for number, line in enumerate(text.split("\n")):
        if number:
            yield "\n", False
        if line.isprintable() and _unseen().search(line) is None:
            yield line, False
            continue
        for character in line:
            is_seen = character == "\t" or _is_seen(character)
            yield (character, False) if is_seen else (_escape(character), True)


def exact_line(text: str) -> str:
    """Escape everything invisible, line breaks and tabs included."""
    return "".join(one if _is_seen(one) else _escape(one) for one in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() and _unseen().match(character) is None


def _visible(found: re.Match[str]) -> str:
    return _escape(found[0])


@lru_cache(1024)
def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
