"""Markdown as lines of text."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from sessiontree.tui.palette import DARK, LIGHT
from sessiontree.tui.transcript import markdown
from sessiontree.tui.transcript.blocks import Block, Kind
from sessiontree.tui.transcript.item import TranscriptItem
from sessiontree.tui.transcript.long_text import LongText
from sessiontree.tui.transcript.markdown import Growth, Splitter, draw_markdown
from sessiontree.tui.transcript.styled_text import wrap_text

PIECES = st.lists(
    st.sampled_from(
        [
            *("# Head", "text *em* **bold** `code`", "- item", "  - nested", "1. one", "> quote"),
            *("```python", "def f(): pass", "```", "~~~", "| a | b |", "|---|---|", "| 1 | 2 |"),
            *(
                "",
                "---",
                "===",
                "[x](http://y)",
                "[x]: http://z",
                "> [x]: http://q",
                "see [x]",
                "<b>html</b>",
                "\\",
                "    indented",
            ),
            *("漢字かな", "https://example.org", "![alt](img.png)", "* * *", "a  ", "~~gone~~"),
        ]
    ),
    max_size=14,
)


def draw(text: str, width: int = 40) -> list[str]:
    return [line.plain.rstrip() for line in draw_markdown(text, width, DARK)]


def test_headings_lists_quotes_and_rules() -> None:
    text = "# Title\n\nSome *text*.\n\n- one\n- two\n  1. deep\n\n> said\n\n---"
    assert draw(text) == [
        "Title",
        "",
        "Some text.",
        "",
        "• one",
        "• two",
        "  1. deep",
        "",
        "▎ said",
        "",
        "─" * 40,
    ]


def test_list_items_hang_below_themselves() -> None:
    assert draw("10. one two three\n11. x", 12) == ["10. one two", "    three", "11. x"]


def test_code_keeps_its_spaces_and_is_highlighted() -> None:
    lines = draw_markdown("```python\ndef f():\n    return 1\n```", 30, DARK)
    assert [line.plain.rstrip() for line in lines] == [" def f():", "     return 1"]
    assert any(span.style == DARK.of("secondary") for span in lines[0].spans)


def test_the_last_line_of_a_diff_is_coloured_too() -> None:
    line = draw_markdown("```diff\n-a\n+b\n```", 20, DARK)[-1]
    assert any(span.style == DARK.of("success") for span in line.spans)


@pytest.mark.parametrize("language", ["", "nonsense", "python", "x" * 500, "jsonl", "sh"])
def test_any_language_gives_the_code_itself(language: str) -> None:
    assert draw(f"```{language}\n$ a = 1\n```")[0].strip() == "$ a = 1"


def test_a_table_is_in_columns_and_its_cells_wrap() -> None:
    text = "| name | what it does |\n|---|---|\n| a | a long text that has to wrap |"
    assert draw(text, 24) == [
        "name  what it does",
        "────  ──────────────────",
        "a     a long text that",
        "      has to wrap",
    ]


def test_a_table_with_too_many_columns_is_stacked() -> None:
    head = "|" + "|".join(f"c{n}" for n in range(12)) + "|"
    rule = "|" + "---|" * 12
    body = "|" + "|".join(f"value {n}" for n in range(12)) + "|"
    assert "c0: value 0" in draw(f"{head}\n{rule}\n{body}", 30)


def test_a_link_shows_where_it_leads() -> None:
    assert draw("[click](https://evil.example/x)", 60) == ["click (https://evil.example/x)"]
    assert draw("<https://a.example>", 60) == ["https://a.example"]


def test_html_is_shown_as_it_is_written() -> None:
    assert draw("<script>x</script> and <b>y</b>", 60) == ["<script>x</script> and <b>y</b>"]


def test_control_characters_are_shown_not_sent() -> None:
    assert draw("a\x1b[31mb `\x07`") == ["a\\x1b[31mb \\x07"]


@given(PIECES, st.integers(10, 60))
def test_no_line_is_wider_than_asked(pieces: list[str], width: int) -> None:
    for line in draw_markdown("\n".join(pieces), width, DARK):
        assert "\n" not in line.plain
        assert line.cell_len <= width


@given(PIECES)
def test_drawing_a_text_as_it_grows_gives_what_drawing_it_whole_gives(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    growth = Growth()
    for end in range(0, len(text) + 1, 7):
        grown = [line.plain for line in draw_markdown(text[:end], 40, DARK, growth)]
        assert grown == [line.plain for line in draw_markdown(text[:end], 40, DARK)]


def test_a_list_that_goes_on_after_a_blank_line_stays_one_list() -> None:
    growth = Growth()
    for text in ("1. one", "1. one\n\n2", "1. one\n\n2. two"):
        lines = draw_markdown(text, 40, DARK, growth)
    assert [line.plain for line in lines] == ["1. one", "", "2. two"]
    assert growth.splitter.split("1. one\n\n2. two") == ["1. one\n\n2. two"]


@pytest.mark.parametrize("definition", ["[x]: http://y", "> [x]: http://y", "- [x]:\n  http://y"])
def test_a_link_may_be_defined_anywhere_in_the_text(definition: str) -> None:
    assert draw(f"[x] one\n\ntwo\n\n{definition}")[0] == "x (http://y) one"
    growth = Growth()
    for text in ("one", f"one\n\n{definition}", f"one\n\n{definition}\n\nsee [x]"):
        lines = draw_markdown(text, 40, DARK, growth)
    assert lines[-1].plain == "see x (http://y)"


def test_code_that_looks_like_a_definition_of_a_link_leaves_the_text_in_pieces() -> None:
    blocks = ["one", "```python\nif a[0]:\n    pass\n```", "```ts\n[key: string]: any\n```", "two"]
    assert Splitter().split("\n\n".join(blocks)) == blocks


def test_of_a_text_that_grows_only_finished_pieces_are_kept() -> None:
    text = "# Head\n\n" + "word " * 500 + "\n\n```python\n" + "a = 1\n" * 500
    growth = Growth()
    markdown._draw_finished.cache_clear()
    for end in range(0, len(text), 20):
        draw_markdown(text[:end], 40, DARK, growth)
    kept = markdown._draw_finished.cache_info()
    assert kept.currsize == kept.misses == 2


@given(st.text(max_size=200))
def test_any_text_is_markdown(text: str) -> None:
    draw_markdown(text, 30, LIGHT)


def test_deep_nesting_and_huge_texts_end() -> None:
    assert draw(">" * 5_000 + " x")
    assert draw("- " * 3_000 + "x")
    assert len(draw("word " * 100_000)) > 1_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("- \n" * 28, ["•"] * 28),
        ("- \n" * 50, ["•"] * 50),
        ("- " * 50, ["─" * 40]),
        ("-" * 50, ["─" * 40]),
        ("a\n\n" + " \n" * 90_000 + "b", ["a", "", "b"]),
    ],
)
def test_empty_items_rules_and_blank_lines_are_no_deep_nesting(text: str, shown: list[str]) -> None:
    assert draw(text) == shown


def test_what_nests_too_deep_is_drawn_as_it_is_written() -> None:
    for text in ("> " * 30 + "x", "1. " * 30 + "x", "- * " * 15 + "x"):
        assert draw(text, 200) == [text]


def test_a_splitter_can_be_given_another_text() -> None:
    growth = Growth()
    draw_markdown("# one\n\ntwo", 40, DARK, growth)
    lines = draw_markdown("other", 40, DARK, growth)
    assert [line.plain for line in lines] == ["other"]


@given(st.text("ab漢 \n", max_size=100), st.integers(2, 12))
def test_wrapping_keeps_every_letter_and_every_width(text: str, width: int) -> None:
    kept = wrap_text(Text(text), width, keep_spaces=True)
    assert "".join(line.plain for line in kept) == text.replace("\n", "")
    words = wrap_text(Text(text), width)
    assert "".join(line.plain for line in words).replace(" ", "") == text.replace("\n", "").replace(
        " ", ""
    )
    assert all(line.cell_len <= width for line in (*kept, *(w for w in words if w.plain.strip())))


# -- texts that are long -------------------------------------------------------------------------

LONG = {
    "newlines": "\n" * 1_000_000,
    "paragraphs": "a\n\n" * 100_000,
    "one line": "a" * 300_000,
    "words": "word " * 60_000,
    "wide": "漢字" * 150_000,
    "accents": "a\u0301" * 150_000,
    "a list": "- a\n" * 75_000,
    "a table": "|a|b|\n|-|-|\n" + "|a|b|\n" * 50_000,
    "code": "```py\n" + "a = 1\n" * 50_000 + "```",
    "emphasis": "*a* " * 75_000,
    "brackets": "[" * 300_000,
    "controls": "\x1b" * 300_000,
    "tabs": "\t\n" * 150_000,
}
KINDS: tuple[Kind, ...] = ("answer", "user", "thinking", "tool", "command", "note", "error")


@pytest.mark.parametrize("name", LONG)
def test_a_long_text_is_laid_out_in_bounded_time_and_memory(name: str) -> None:
    text = LONG[name]
    started = time.process_time()
    item = TranscriptItem(Block("answer", text))
    item.draw(100, DARK, is_folded=False)
    shown = [item.line(number) for number in range(item.height - 60, item.height)]
    assert time.process_time() - started < 2 * len(text) / 1e6 + 0.5
    assert all(line.cell_len <= 100 for line in shown)
    del item, shown
    tracemalloc.start()
    item = TranscriptItem(Block("answer", text))
    item.draw(100, DARK, is_folded=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 * len(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_folded", [True, False])
def test_every_kind_of_block_takes_long_texts(kind: Kind, is_folded: bool) -> None:
    for text in ("\n" * 300_000 + "end", "a" * 300_000):
        block = Block(kind, text, title="t" * 300_000, about=text, status="failed")
        started = time.process_time()
        item = TranscriptItem(block)
        item.draw(100, DARK, is_folded)
        assert time.process_time() - started < 1.5
        assert item.line(item.gap).cell_len <= 100


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_900,
        "[a](b) " * 5_900,
        "<a@b.c> " * 5_900,
        "\n".join("  " * (n % 20) + "- a" for n in range(2_900)),
    ],
)
def test_what_is_still_read_as_markdown_takes_a_moment(text: str) -> None:
    started = time.process_time()
    draw_markdown(text, 100, DARK)
    assert time.process_time() - started < 3


PARTS = st.lists(st.sampled_from(["a\n", "bb bb ", "漢字", "\n\n", "x" * 25, "é ", "\u0301"]))


@given(PARTS, st.integers(2, 30), st.booleans())
def test_a_long_text_that_grows_has_the_rows_of_one_that_is_there(
    parts: list[str], width: int, words: bool
) -> None:
    growing, text = LongText(width, words=words).show(""), ""
    for part in parts:
        text += part
        growing.show(text)
    whole = LongText(width, words=words).show(text)
    rows = [whole.row(number) for number in range(len(whole))]
    assert [growing.row(number) for number in range(len(growing))] == rows
    assert all(cell_len(row.rstrip()) <= width for row in rows)
    lines: list[str] = []
    for number, row in enumerate(rows):
        if whole.begins_line(number):
            lines.append("")
        lines[-1] += row
    assert "\n".join(lines) == text


def test_a_long_text_is_found_in_and_copied_from_like_any_other() -> None:
    item = TranscriptItem(Block("error", "word \n" * 5_000 + "needle\n" + "word \n" * 5_000))
    item.draw(80, DARK, is_folded=False)
    line = item.find_line(["needle"])
    assert item.line(line).plain.strip() == "needle"
    assert item.find_line(["nothing like it"]) == 0


def test_a_streaming_megabyte_is_not_read_again_with_every_word() -> None:
    block = Block("answer", "line of words\n" * 70_000)
    item = TranscriptItem(block)
    item.draw(100, DARK, is_folded=False)
    started = time.process_time()
    for _ in range(30):
        block.change(text=block.text + "more words\n")
        item.draw(100, DARK, is_folded=False)
    assert time.process_time() - started < 2
    assert item.line(item.height - 2).plain.strip() == "more words"
