"""What a typed query finds, and in which order."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.tui import fuzzy
from sessiontree.tui.fuzzy import Field, Kind, Query, fold


def match(query: str, text: str, *, fuzzy: bool = True) -> Kind | None:
    found = Query(query).match([Field.of("name", text, fuzzy=fuzzy)])
    return None if found is None else Kind(found.rank[0])


@pytest.mark.parametrize(
    ("query", "text", "kind"),
    [
        ("login", "login", Kind.EXACT),
        ("login", "Fix the Login form", Kind.WORD),
        ("log", "Fix the login form", Kind.PREFIX),
        ("ogi", "Fix the login form", Kind.PART),
        ("fxlgn", "Fix the login form", Kind.FUZZY),
        ("fgm", "Fix the login form", None),
        ("filog", "Fix login", Kind.FUZZY),
        ("logout", "Fix the login form", None),
        ("c++", "learn c++ now", Kind.WORD),
    ],
)
def test_how_a_word_is_found(query: str, text: str, kind: Kind | None) -> None:
    assert match(query, text) == kind


def test_a_whole_word_further_on_counts_more_than_a_piece_before_it() -> None:
    assert match("log", "catalog of the log") is Kind.WORD


def test_exact_and_word_matches_come_before_fuzzy_ones_whatever_their_fields() -> None:
    texts = ["sax elegy pool", "the parser", "parse results", "reparser", "parser"]
    query = Query("parser")
    found = {text: query.match([Field.of("name", text, 9, fuzzy=True)]) for text in texts}
    ranks = {text: one.rank for text, one in found.items() if one is not None}
    assert sorted(ranks, key=lambda text: ranks[text], reverse=True) == [
        "parser",
        "the parser",
        "reparser",
        "parse results",
    ]


def test_every_word_must_be_found_in_some_field() -> None:
    fields = [Field.of("name", "Fix the login"), Field.of("cwd", "/home/me/shop")]
    assert Query("login shop").match(fields) is not None
    assert Query("login bank").match(fields) is None


def test_a_phrase_is_found_only_as_it_is() -> None:
    assert match('"the login"', "Fix the login") is Kind.WORD
    assert match('"login the"', "Fix the login") is None
    assert match('"fxlogin"', "fix login") is None


def test_an_open_quote_is_a_phrase_that_is_still_being_typed() -> None:
    assert match('"the log', "Fix the login") is Kind.PREFIX


def test_fuzzy_counts_only_where_it_is_allowed() -> None:
    assert match("filog", "Fix login", fuzzy=False) is None


def test_a_pattern_ignores_case_and_says_where_it_matched() -> None:
    found = Query("re:fi.*log").match([Field.of("name", "Fix the Login")])
    assert found is not None
    assert found.spans_in("name") == [(0, 11)]


@pytest.mark.parametrize(
    "pattern",
    ["re:(", "re:(a|b)+", "re:(a*)*b", "re:(?:a?){9}", "re:.*.*.*.*x", "re:a{9999999999999}"],
)
def test_a_pattern_that_is_wrong_or_could_take_for_ever_says_so_and_finds_nothing(
    pattern: str,
) -> None:
    query = Query(pattern)
    assert query.error
    assert not query.is_empty
    assert query.match([Field.of("name", "aaaa")]) is None


@pytest.mark.parametrize(
    "pattern", ["re:(ab)+", "re:[(|*]+", r"re:\(a|b\)", "re:(?i:x)", "re:^fix", "re:a|b"]
)
def test_ordinary_patterns_are_allowed(pattern: str) -> None:
    assert Query(pattern).error is None


def test_the_worst_allowed_pattern_gives_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzy, "_PATIENCE_S", 0.5)
    text = Field.of("text", "a" * 10_000)
    query = Query("re:.*.*.*x")
    started = time.perf_counter()
    for _ in range(1_000):
        assert query.match([text]) is None
    assert query.error == "this pattern takes too long; try a simpler one"
    assert time.perf_counter() - started < 30


def test_a_pattern_of_a_long_line_is_found_in_its_later_pieces() -> None:
    assert match("re:needle", "x" * 6_000_000 + "needle") is Kind.WORD


@pytest.mark.parametrize("text", ["", "   ", '""', "re:", '"  "'])
def test_a_query_without_anything_to_look_for_is_empty(text: str) -> None:
    assert Query(text).is_empty


@given(st.text(), st.text())
def test_any_text_is_a_query_and_marks_what_is_there(query: str, text: str) -> None:
    found = Query(query).match([Field.of("name", text, fuzzy=True)])
    if found is not None:
        for start, end in found.spans_in("name"):
            assert 0 <= start < end <= len(text)


@given(st.text("abcxyz", min_size=1), st.text("ab xyz"), st.text("ab xyz"))
def test_a_word_that_is_in_the_text_is_always_found(word: str, before: str, after: str) -> None:
    assert match(word, before + word.upper() + after, fuzzy=False) is not None


@given(st.text())
def test_folding_keeps_every_index(text: str) -> None:
    assert len(fold(text)) == len(text)
