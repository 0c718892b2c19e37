"""An entry in one line of ``tree``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.cli import output
from sessiontree.cli.commands import tree
from sessiontree.cli.commands.tree import first_line
from sessiontree.export.markdown_safety import clean

_PIECES = ["a", "漢", "\x1b[38;2;255;255;255m", "\x1b[0m", "\x1b]0;title\x07", "\n", "  ", "\t"]


@given(st.lists(st.sampled_from(_PIECES), max_size=400), st.integers(10, 20))
def test_the_first_line_is_what_the_whole_text_would_show(pieces: list[str], width: int) -> None:
    text = "".join(pieces)
    assert first_line(text, width) == output.fit(output.one_line(clean(text)), width)


@pytest.mark.parametrize("letter", ["a", "é", "\x1b[31ma\x1b[0m"])
def test_of_a_huge_output_only_the_beginning_is_read(
    monkeypatch: pytest.MonkeyPatch, letter: str
) -> None:
    read: list[int] = []

    def clean_counted(text: str) -> str:
        read.append(len(text))
        return clean(text)

    monkeypatch.setattr(tree, "clean", clean_counted)
    shown = first_line(letter * 1_000_000, 80)
    assert output.text_width(shown) == 80
    assert sum(read) < 10_000


def test_a_line_behind_much_that_takes_no_room_is_found() -> None:
    assert first_line("\x1b[0m" * 10_000 + "here", 20) == "here"
    assert first_line("a" + "\n" * 100_000 + "b", 20) == "a b"


def test_a_link_that_the_look_ends_in_leaves_nothing_of_itself() -> None:
    link = f"\x1b]8;;https://example.org/{'x' * 3_000}\x07the page\x1b]8;;\x07"
    for colours in range(90, 110):
        text = "\x1b[0m" * colours + link + " and more" * 100
        assert first_line(text, 20) == "the page and more a…"
