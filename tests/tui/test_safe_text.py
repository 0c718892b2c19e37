"""Nothing of a session reaches a screen unescaped, and everything fits where it is put."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sessiontree.text.escaping import exact, exact_line, exact_pieces
from sessiontree.tui import safe_text
from sessiontree.tui.chat.editor import editable

ANY_TEXT = st.text(st.characters(codec=None)) | st.text("ab \t\n\r\x1b[31m\x07\u202e\ud800é漢")
WIDTHS = st.integers(0, 40)


def is_safe(text: str) -> bool:
    return not any(
        unicodedata.category(letter) in ("Cc", "Cs") or letter in "\u202e\u2066\u2028"
        for letter in text
    )


@given(ANY_TEXT)
def test_a_line_is_safe(text: str) -> None:
    assert is_safe(safe_text.one_line(text))


@given(ANY_TEXT)
def test_a_block_holds_nothing_but_lines_of_safe_text(text: str) -> None:
    for line in safe_text.block(text).split("\n"):
        assert is_safe(line)
    for line in safe_text.terminal_output(text).split("\n"):
        assert is_safe(line)


@given(ANY_TEXT)
def test_what_goes_into_the_editor_holds_no_control_character(text: str) -> None:
    assert is_safe(editable(text).replace("\n", "").replace("\t", ""))


def test_escape_sequences_are_shown_in_text_and_removed_from_output() -> None:
    assert safe_text.block("a\x1b[31mred") == "a\\x1b[31mred"
    assert safe_text.terminal_output("a\x1b[31mred\x1b[0m \x1b]0;title\x07b") == "ared b"


def test_progress_that_was_overwritten_is_gone_from_output() -> None:
    assert safe_text.terminal_output("10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"


def test_a_long_line_beside_overwritten_progress_is_read_once() -> None:
    line = "x" * 1_000_000
    assert safe_text.terminal_output(f"10%\r100%\n{line}") == f"100%\n{line}"


def test_tabs_become_spaces_at_tab_stops() -> None:
    assert safe_text.block("a\tb\n\tc") == "a   b\n    c"


@given(st.text("ab漢 é"), WIDTHS)
def test_cut_lines_fit_and_whole_ones_stay(line: str, width: int) -> None:
    for cut in (safe_text.fit, safe_text.fit_end, safe_text.fit_middle):
        shown = cut(line, width)
        assert cell_len(shown) <= width
        if cell_len(line) <= width and width:
            assert shown == line
    assert cell_len(safe_text.fill(line, width)) == width


def test_a_cut_is_marked_where_it_is_made() -> None:
    assert safe_text.fit("one two three", 8) == "one two…"
    assert safe_text.fit_end("/home/me/app", 7) == "…me/app"
    assert safe_text.fit_middle("abcdefghi", 5) == "ab…hi"


@given(st.text("ab漢 ", max_size=80), st.integers(2, 20))
def test_wrapped_lines_fit_and_lose_only_spaces(line: str, width: int) -> None:
    pieces = safe_text.wrap(line, width)
    assert all(cell_len(piece) <= width for piece in pieces)
    assert "".join(pieces).replace(" ", "") == line.replace(" ", "")


@given(ANY_TEXT)
def test_what_is_approved_holds_nothing_but_visible_characters(text: str) -> None:
    for line in exact(text).split("\n"):
        for part in line.split("\t"):
            assert part.isprintable()
    assert exact(text).count("\n") == text.count("\n")
    assert exact_line(text).isprintable()
    assert "".join(piece for piece, _ in exact_pieces(text)) == exact(text)


def test_what_has_no_width_is_visible_where_something_is_approved() -> None:
    hidden = "\u200b\u200d\u2060\ufeff\u00ad\u034f\u180e\u3164\ufe0f\U000e0101\u2800"
    assert exact(f"a{hidden}b\r\n") == (
        "a\\u200b\\u200d\\u2060\\ufeff\\xad\\u034f\\u180e\\u3164\\ufe0f\\U000e0101\\u2800b\\x0d\n"
    )
    assert exact("naïve 漢字 \u05d0\u05d1 e\u0301") == "naïve 漢字 \u05d0\u05d1 e\u0301"
