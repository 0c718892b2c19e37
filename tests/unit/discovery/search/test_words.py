"""Words of texts: in order, and as a set."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from sessiontree.discovery.search.words import find_words, split_words


@given(st.text())
@example("Don't STOP_now 42 café Straße İstanbul ｶﾞ 数据库 데이터 \ud800x ภาษา")
@example("İ K ſ x\u0301 \u0301 \u0301數")
def test_the_words_of_a_text_are_those_it_is_split_into(text: str) -> None:
    assert find_words(text) == {word.text for word in split_words(text)}
