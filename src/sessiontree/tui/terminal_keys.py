"""A key that terminals send and Textual's parser does not know: Alt+Enter.

Without the newer keyboard protocols a terminal says Esc Return for it, which the parser takes apart
into its pieces and gives as a plain Enter. Textual has no public way to add a sequence.
"""

from __future__ import annotations

from enum import Enum

from textual import _ansi_sequences


class _Key(Enum):
    ALT_ENTER = "alt+enter"


def teach_alt_enter() -> None:
    """Have Alt+Enter known as ``alt+enter`` on every terminal."""
    sequences = getattr(_ansi_sequences, "ANSI_SEQUENCES_KEYS", None)
    if isinstance(sequences, dict):
        sequences.setdefault("\x1b\r", (_Key.ALT_ENTER,))
