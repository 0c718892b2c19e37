"""What may not reach a terminal as it is, and what is shown instead. Imports nothing of ours.

Session content is untrusted: it may hold escape sequences that move the cursor, set titles or
type commands, and characters that make text read other than it is. The command line and the
screens both show content only through here. Pure.
"""

from __future__ import annotations

import re

# C0 and C1 controls and DEL; Arabic letter mark, directional marks, embeddings, overrides and
# isolates; line and paragraph separators; surrogates; interlinear marks; invisible tag characters.
_HAZARD = (
    "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f"
)
HAZARDS = re.compile(f"[{_HAZARD}]")
HAZARDS_IN_BLOCK = re.compile(f"(?![\n\t])[{_HAZARD}]")
"""The same in text whose line breaks and tabs are kept."""
# From the first blank of a run on, and never back: a long run is read once.
_BREAKS = re.compile("(?<![ \t])[ \t]*+(?:\r\n|[\n\r\v\f\x85\u2028\u2029])\\s*+|\t+")


def one_line(text: str) -> str:
    """The text as one line that is safe to show: breaks become spaces, hazards visible escapes."""
    if text.isprintable():  # neither breaks nor hazards are: most lines need no more than this look
        return text
    return HAZARDS.sub(_visible, _BREAKS.sub(" ", text))


def block(text: str) -> str:
    """The text safe to show with its line breaks and tabs kept."""
    return HAZARDS_IN_BLOCK.sub(_visible, text.replace("\r\n", "\n"))


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
