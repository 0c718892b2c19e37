"""Text for terminals that are not UTF-8."""

from __future__ import annotations

import pytest

from sessiontree.text.charsets import is_unicode, spell, spell_cells
from sessiontree.text.width import text_width


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [
        ("3m ago · pi → café…", "utf-8", "3m ago · pi → café…"),
        ("3m ago · pi → café…", "ascii", "3m ago - pi > caf\\xe9~"),
        ("3m ago · pi → café…", "iso8859-1", "3m ago - pi > café~"),
        ("3m ago · pi", None, "3m ago - pi"),
        ("│ ✓ 缓存 ❯", "ascii", "| + \\u7f13\\u5b58 >"),
        ("a\udc80b", "utf-8", "a\\udc80b"),
        ("·", "no-such-encoding", "-"),
    ],
)
def test_marks_have_a_likeness_and_words_lose_nothing(
    text: str, encoding: str | None, shown: str
) -> None:
    assert spell(text, encoding) == shown


def test_a_document_for_a_program_is_not_changed_to_a_likeness() -> None:
    assert spell("a · b…", "ascii", is_exact=True) == "a \\xb7 b\\u2026"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("│ ✓ read  ❯ │", "| + read  > |"),
        ("Ärger, naïve", "Arger, naive"),
        ("缓存 ok", "???? ok"),
        ("\x1b[38;5;1m●\x1b[0m", "\x1b[38;5;1m*\x1b[0m"),
        ("⠋⠙⠹⠸", "|/-\\"),
        ("e\u0301", "e"),
        ("½ ﬁ", "1 f"),
    ],
)
def test_on_a_screen_every_character_keeps_its_columns(text: str, shown: str) -> None:
    assert spell_cells(text, "ascii") == shown
    assert "\x1b" in text or text_width(shown) == text_width(text)


def test_what_the_terminal_has_stays() -> None:
    assert spell_cells("café · 缓", "iso8859-1") == "café - ??"
    assert is_unicode("UTF8")
    assert not is_unicode("iso8859-1")
    assert not is_unicode(None)
    assert not is_unicode("nonsense")
