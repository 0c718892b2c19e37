"""Columns on a terminal: the command line measures as the screen draws."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sessiontree.text.width import fit, text_width, wrap

FLAG = "\U0001f1e9\U0001f1ea"
KEYCAP = "1\ufe0f\u20e3"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
HEART = "\u2764\ufe0f"
SAFE = st.text(st.characters(exclude_categories=("Cc", "Cs")))
WRITINGS = st.lists(
    st.sampled_from(["a", "é", "e\u0301", "한", "漢", "ｱ", "न", "्", FAMILY, HEART, "👍🏽", "…"])
).map("".join)


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.cells", None)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("plain", 5),
        ("naïve – Ελλάδα", 14),
        ("cafe\u0301", 4),
        ("漢字", 4),
        ("한글", 4),
        ("ｶﾅ", 2),
        (FAMILY, 2),
        (HEART, 2),
        ("👍🏽", 2),
        ("\U0001fae9", 2),
        (FLAG, 2),
        (KEYCAP, 2),
        ("\U0001f469\u200d\U0001f680", 2),
    ],
)
def test_a_line_takes_the_columns_that_a_terminal_gives_it(text: str, columns: int) -> None:
    assert text_width(text) == columns


@given(SAFE | WRITINGS)
def test_the_command_line_measures_as_the_screen_does(text: str) -> None:
    assert text_width(text) == cell_len(text)


def test_every_character_is_measured_as_the_screen_does() -> None:
    characters = (chr(code) for code in range(0x20, 0x110000) if not 0xD800 <= code < 0xE000)
    safe = [one for one in characters if not "\x7f" <= one < "\xa0"]
    assert [one for one in safe if text_width(one) != cell_len(one)] == []


@given(SAFE | WRITINGS, st.integers(0, 30))
def test_a_line_that_is_fitted_takes_no_more_and_is_whole_if_it_fits(text: str, width: int) -> None:
    shown = fit(text, width)
    assert text_width(shown) <= width
    if text_width(text) <= width and len(text) <= width:
        assert shown == text
    if shown != text:
        assert shown == "" or (shown[-1] == "…" and text.startswith(shown[:-1]))


def test_a_cut_takes_no_emoji_apart() -> None:
    assert fit(FAMILY * 3, 5) == FAMILY * 2 + "…"
    assert fit("x" + HEART * 3, 4) == "x" + HEART + "…"
    assert fit(FLAG * 3, 5) == FLAG * 2 + "…"


def test_a_line_without_end_is_not_read_to_its_end() -> None:
    assert fit("漢" * 10_000_000, 5) == "漢漢…"
    assert text_width(fit("e" + "\u0301" * 10_000_000, 5)) <= 5


@pytest.mark.usefixtures("without_rich")
@pytest.mark.parametrize(
    ("text", "columns"),
    [("漢字", 4), ("cafe\u0301", 4), ("ｶﾅ", 2), ("नमस्ते", 4), ("\U0001fae9", 2), ("\u0378", 1)],
)
def test_the_core_alone_measures_scripts_the_same(text: str, columns: int) -> None:
    assert text_width(text) == columns
    assert text_width(fit(text * 9, columns)) <= columns


def test_wrapping_measures_wide_characters() -> None:
    assert wrap("  漢字漢字 漢字漢字 漢字", 14) == ["  漢字漢字", "  漢字漢字", "  漢字"]
