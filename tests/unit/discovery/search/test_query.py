"""Queries and words: any text is a query, and a word is the same word everywhere."""

from __future__ import annotations

import random
import sqlite3
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.discovery.search import scan, words
from sessiontree.discovery.search.query import Query, Term, parse_query
from sessiontree.discovery.search.scan import Matcher, make_snippet
from sessiontree.discovery.search.words import (
    fold,
    fold_text,
    is_plain,
    spell_for_index,
    split_words,
)


def terms(text: str) -> list[tuple[str, ...]]:
    return [term.words for term in parse_query(text).wanted]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("two words", [("two",), ("words",)]),
        ('"a phrase" word', [("a", "phrase"), ("word",)]),
        ("foo.bar() -- baz", [("foo", "bar"), ("baz",)]),
        ("C++ c#", [("c",)]),
        ("OR AND NOT NEAR", [("or",), ("and",), ("not",), ("near",)]),
        ('"unbalanced', [("unbalanced",)]),
        ("user:admin {x} ^y (z)", [("user", "admin"), ("x",), ("y",), ("z",)]),
        ("--resume", [("resume",)]),
        ("snake_case", [("snake", "case")]),
        ("日本語", [("日本", "本語")]),
        ("", []),
        ('  "" ', []),
    ],
)
def test_any_text_is_a_query(text: str, wanted: list[tuple[str, ...]]) -> None:
    assert terms(text) == wanted


def test_a_minus_excludes_and_a_star_completes() -> None:
    assert parse_query('log -error -"full disk" conn*') == Query(
        (Term(("log",)), Term(("conn",), is_prefix=True)),
        (Term(("error",)), Term(("full", "disk"))),
    )


def test_a_query_of_exclusions_only_is_taken_at_its_words() -> None:
    assert terms("-rf") == [("rf",)]
    assert parse_query("-rf").unwanted == ()


@pytest.mark.parametrize("text", ["->", "🚀", "***", "…"])
def test_what_has_no_words_is_looked_for_as_it_is(text: str) -> None:
    (term,) = parse_query(text).wanted
    assert term.literal == text
    assert parse_query(text).needs_scan


def test_signs_beside_words_only_separate() -> None:
    assert terms("-> foo") == [("foo",)]
    assert not parse_query("-> foo").needs_scan


@given(st.text())
def test_no_text_is_refused_and_none_makes_an_error_in_the_index(text: str) -> None:
    query = parse_query(text)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE said USING fts5(user)")
    for term in query.wanted + query.unwanted:
        if term.literal is None:
            phrase = " ".join(term.words).replace('"', '""')
            expression = f'"{phrase}"' + (" *" if term.is_prefix else "")
            database.execute("SELECT * FROM said WHERE said MATCH ?", (expression,)).fetchall()
    database.close()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café", "cafe"),
        ("CAFE\u0301", "café"),
        ("STRASSE", "straße"),
        ("ＡＢＣ", "abc"),
        ("ﬁle", "file"),
        ("ΣΊΣΥΦΟΣ", "σισυφος"),
        ("İstanbul", "istanbul"),
    ],
)
def test_case_accents_and_forms_do_not_count(one: str, other: str) -> None:
    assert fold(one) == fold(other)


def test_marks_that_make_another_word_do_count() -> None:
    assert fold("हिन्दी") != fold("हन्द")
    assert [word.text for word in split_words("がか")] != [
        word.text for word in split_words("かか")
    ]


def found(query: str, text: str) -> bool:
    return all(Matcher(parse_query(query)).find(text))


@pytest.mark.parametrize(
    ("query", "text", "is_found"),
    [
        ("pool", "the connection pool", True),
        ("pool", "the whirlpool", False),
        ("pool", "pools", False),
        ("pool*", "pools", True),
        ("pool", "日本pool語", True),
        ("pool", "épool", False),
        ("pool", "Ｐool", True),
        ('"connection pool"', "connection-pool", True),
        ('"connection pool"', "connection of a pool", False),
        ('"connection pool"', "connéction pool", True),
        ("cafe", "un Café.", True),
        ("日本", "これは日本語です", True),
        ("本語で", "これは日本語です", True),
        ("日語", "これは日本語です", False),
        ("語", "日本語", True),
        ("カタカナ", "ｶﾀｶﾅ", True),
        ("한국", "대한국민", True),
        ("ภาษา", "นี่คือภาษาไทย", True),
        ("→", "a → b", True),
        ("->", "a -> b", True),
        ("->", "é -> b", True),
        ("हिन्दी", "यह हिन्दी है", True),
        ("हिन", "यह हिन्दी है", False),
    ],
)
def test_words_are_found_where_they_stand(query: str, text: str, is_found: bool) -> None:
    assert found(query, text) is is_found


ALPHABET = st.text(alphabet="ab AÉéｂ日本語の._-1ß\u0301हि🚀\n", max_size=30)


@given(ALPHABET, ALPHABET)
def test_the_index_finds_what_the_matcher_finds(text: str, query: str) -> None:
    parsed = parse_query(query)
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE said USING fts5(user, content='',"
        " tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* Mn Mc'\")"
    )
    database.execute("INSERT INTO said(rowid, user) VALUES (1, ?)", (spell_for_index(text),))
    matcher = Matcher(parsed)
    for term, spans in zip(matcher.terms, matcher.find(text), strict=True):
        if term.literal is None:
            expression = f'"{" ".join(term.words)}"' + (" *" if term.is_prefix else "")
            (count,) = database.execute(
                "SELECT count(*) FROM said WHERE said MATCH ?", (expression,)
            ).fetchone()
            assert bool(count) == bool(spans), term
    database.close()


@given(ALPHABET)
def test_marked_places_hold_the_words(text: str) -> None:
    matcher = Matcher(parse_query("a 日本"))
    letters, runs = matcher.find(text)
    assert all(fold(text[start:end]) == "a" for start, end in letters)
    assert all(text[start:end] == "日本" for start, end in runs)


def test_what_the_scan_skips_by_bytes_is_what_folding_leaves_alone() -> None:
    for code in range(128, sys.maxunicode + 1):
        if not 0xD800 <= code <= 0xDFFF and not is_plain(chr(code)):
            assert scan._foldable_bytes().search(chr(code).encode()), hex(code)


def test_a_snippet_shows_the_match_in_its_middle() -> None:
    text = "word " * 100 + "needle" + " word" * 100
    ((span,),) = Matcher(parse_query("needle")).find(text)
    snippet = make_snippet(text, [span])
    assert len(snippet.text) <= 162
    assert snippet.text.startswith("…word")
    assert snippet.text.endswith("…")
    assert [snippet.text[a:b] for a, b in snippet.marks] == ["needle"]


def test_a_snippet_is_one_line_without_controls() -> None:
    text = "a\nb\x1b[31m\r\tneedle\x07\u202e\ud83d"
    snippet = make_snippet(text, Matcher(parse_query("needle")).find(text)[0])
    assert snippet.text == "a b [31m  needle  �"
    assert [snippet.text[a:b] for a, b in snippet.marks] == ["needle"]


@given(st.text(max_size=400), st.data())
def test_marks_stay_within_the_snippet(text: str, data: st.DataObject) -> None:
    starts = st.integers(0, max(0, len(text) - 1))
    spans = [
        (start, min(len(text), start + data.draw(st.integers(1, 200))))
        for start in data.draw(st.lists(starts, max_size=4))
        if text
    ]
    snippet = make_snippet(text, spans)
    assert len(snippet.text) <= 162
    assert all(0 <= a < b <= len(snippet.text) for a, b in snippet.marks)
    assert bool(snippet.marks) == bool(spans)
    snippet.text.encode()


def test_pairs_that_overlap_are_marked_as_one() -> None:
    matcher = Matcher(parse_query("日本 本語"))
    spans = [span for each in matcher.find("これは日本語です") for span in each]
    assert make_snippet("これは日本語です", spans).marks == ((3, 6),)


def test_every_character_of_unspaced_scripts_is_a_pair() -> None:
    assert words._unspaced_runs().fullmatch("日本語ひらがなカタカナ한국어ภาษาไทย")


def test_every_folded_word_of_a_text_is_a_piece_of_the_folded_text() -> None:
    signs = "aK9 \t\n_-.é\u0301ßİﬁⅣＫ\u00a0\u3000Å日本語ガｶﾞ\u0e01\u1e9eςΣ½—"
    chance = random.Random(19)
    for _ in range(20_000):
        text = "".join(chance.choices(signs, k=chance.randint(1, 12)))
        folded = fold_text(text)
        assert all(word.text in folded for word in split_words(text) if not word.is_pair), text
