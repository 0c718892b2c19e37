"""What a typed query finds, and in which order."""

from __future__ import annotations

import sys
import threading
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


@pytest.mark.parametrize(
    ("query", "text", "is_found"),
    [
        ("login", "Write docs for the lock module of aging lines", False),
        ("login", "Why is the log of the parser empty in CI", False),
        ("rtc", "Run the cache", True),
        ("ftc", "Refactor the cache", False),
        ("shpapi", "/code/shop-api", True),
    ],
)
def test_letters_in_order_abbreviate_words_one_after_the_other(
    query: str, text: str, is_found: bool
) -> None:
    """In a long name, letters that merely follow each other are found nearly everywhere."""
    assert match(query, text) is (Kind.FUZZY if is_found else None)


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


@pytest.mark.parametrize("pattern", ["re:(", "re:[a", "re:*", "re:a{9999999999999}", "re:(?P<n>"])
def test_a_pattern_that_is_wrong_says_so_and_finds_nothing(pattern: str) -> None:
    query = Query(pattern)
    assert query.error is not None
    assert query.error.startswith("not a regular expression: ")
    assert not query.is_empty
    assert query.match([Field.of("name", "aaaa")]) is None


@pytest.mark.parametrize(
    ("pattern", "text", "span"),
    [
        ("re:(ab)+", "xABab", (1, 5)),
        ("re:[(|*]+", "a(|b", (1, 3)),
        (r"re:\(a|b\)", "(a or b)", (0, 2)),
        ("re:(a|b)+c", "xabac", (1, 5)),
        ("re:(?:do(?:ne)?,? ?){2,}", "done, do", (0, 8)),
        ("re:(.+)@(.+)[.](.+)[.](.+)", "me@a.b.c", (0, 8)),
        ("re:^fix", "then\nFix it", (5, 8)),
        ("re:then$", "and then\nfix", (4, 8)),
        ("re:x*", "abxx", (2, 4)),
        ("re:needle", "x" * 6_000_000 + "needle", (6_000_000, 6_000_006)),
        ("re:.*dle", "x" * 100_000 + "needle", (0, 100_006)),
    ],
)
def test_a_pattern_may_repeat_groups_and_look_at_any_line(
    pattern: str, text: str, span: tuple[int, int]
) -> None:
    found = Query(pattern).match([Field.of("name", text)])
    assert found is not None
    assert found.spans_in("name") == [span]


@pytest.mark.parametrize("pattern", ["re:(a|aa)+$", "re:(?:a?){9}b?c(?<=d)|(a+)+[!]?x?[^a!]"])
def test_a_pattern_that_would_take_for_ever_gives_up_and_says_so(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzzy, "_PATIENCE_S", 0.2)
    query = Query(pattern)
    texts = [Field.of("text", "a" * 60 + "!"), Field.of("text", "a" * 5_000 + "!")]
    for _ in range(1_000):
        assert query.match(texts) is None
    assert query.error == "this pattern takes too long; try a simpler one"


def test_many_texts_share_the_time_of_one_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzy, "_PATIENCE_S", 0.2)
    query = Query("re:(a|aa)+$")
    text = Field.of("text", "a" * 20 + "!")  # some ten thousand steps, a few milliseconds
    assert query.match([text]) is None
    errors = [query.error]
    while errors[-1] is None and len(errors) < 10_000:
        assert query.match([text]) is None
        errors.append(query.error)
    assert errors[0] is None
    assert errors[-1] == "this pattern takes too long; try a simpler one"


def test_other_threads_run_while_a_pattern_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzy, "_PATIENCE_S", 0.3)
    query = Query("re:(a|aa)+$")
    worker = threading.Thread(target=query.match, args=([Field.of("text", "a" * 60 + "!")],))
    worker.start()
    steps = 0
    while worker.is_alive():
        time.sleep(0.001)
        steps += 1
    assert query.error is not None
    assert steps > 20


def test_without_the_package_a_pattern_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "regex", None)
    assert Query("re:x").error == 're: needs the package "regex": pip install "sessiontree[tui]"'
    assert Query("x").error is None


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
