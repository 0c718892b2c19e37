"""A text of which only the words are held answers as the text itself would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessiontree.tui.fuzzy import Field, Kind, Query, WordField, distinct_words, fold

_PIECES = st.sampled_from(
    [
        "log",
        "login",
        "Log",
        "ca",
        "über",
        "ÜBER",
        "日本",
        "本語",
        "_",
        " ",
        "\n",
        ".",
        "—",
        "\ud83d",
    ]
)
TEXTS = st.lists(_PIECES, max_size=8).map("".join)
TERMS = st.lists(_PIECES, min_size=1, max_size=2).map("".join)


def kind_in(term: str, text: str) -> Kind | None:
    hit = WordField("text", distinct_words(text), lambda: text).find(fold(term))
    return None if hit is None else hit.kind


@given(TERMS, TEXTS)
def test_what_the_text_has_its_words_have(term: str, text: str) -> None:
    hit = Field.of("text", text).find(fold(term))
    expected = None if hit is None else min(hit.kind, Kind.WORD)
    found = kind_in(term, text)
    assert (None if found is None else min(found, Kind.WORD)) == expected


def test_a_text_is_not_read_for_a_word_nor_for_a_phrase_that_it_can_not_have() -> None:
    def read() -> str:
        raise AssertionError("read")

    field = WordField("text", distinct_words("Fix the login form"), read)
    for query in ("login", "log", "ogi", "nothing", '"the logout"', "form.py"):
        Query(query).match([field])


def test_phrases_and_patterns_are_looked_for_in_the_text() -> None:
    text = "Fix the login form"
    field = WordField("text", distinct_words(text), lambda: text)
    for query, spans in (('"the login"', [(4, 13)]), ("re:l.g", [(8, 11)]), ('"login the"', None)):
        found = Query(query).match([field])
        assert (found and found.spans_in("text")) == spans


def test_words_that_are_said_again_take_no_more_room() -> None:
    assert len(distinct_words("the same words, again; " * 100_000)) < 30
