"""Terminal sequences taken out of text."""

from __future__ import annotations

import pytest

from sessiontree.text.escaping import strip_terminal


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("plain", "plain"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b[2K\x1b[1Gline", "line"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice string\x1b\\text", "text"),
        ("\x1b(Bascii", "ascii"),
        ("\x1b7saved\x1b8", "saved"),
        ("\x1bcreset", "reset"),
    ],
)
def test_whole_sequences_are_removed(text: str, plain: str) -> None:
    assert strip_terminal(text) == plain


@pytest.mark.parametrize("text", ["\x1b]0;no end", "\x1b[31", "\x1bPno end", "end\x1b"])
def test_an_unfinished_sequence_hides_nothing(text: str) -> None:
    assert strip_terminal(text) == text
