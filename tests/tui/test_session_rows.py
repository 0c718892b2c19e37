"""Which sessions a picker lists, in which order, and why."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessiontree.discovery.listing import SessionInfo
from sessiontree.tui.fuzzy import Query
from sessiontree.tui.pickers.session_rows import (
    SessionIndex,
    SessionRow,
    Sort,
    effective_sort,
    explain,
    read_words,
)

from .support import make_info


def names(
    infos: list[SessionInfo], query: str = "", sort: Sort = "recent", *, named_only: bool = False
) -> list[str]:
    return [row.guides + row.name for row in rows(infos, query, sort, named_only=named_only)]


def rows(
    infos: list[SessionInfo], query: str = "", sort: Sort = "recent", *, named_only: bool = False
) -> list[SessionRow]:
    index = SessionIndex(infos)
    for info in infos:
        index.put_words(info.path, read_words(info))
    found = index.rows(Query(query), sort, named_only=named_only)
    assert found is not None
    return found


def test_the_newest_session_comes_first() -> None:
    infos = [make_info("old", age_s=900), make_info("new", age_s=1), make_info("mid", age_s=60)]
    assert names(infos) == ["new", "mid", "old"]


def test_a_session_without_a_title_goes_by_its_first_prompt_then_by_its_id() -> None:
    infos = [
        make_info("a", title=None, first_message="\nFix the \x1blogin\nplease", age_s=1),
        make_info("b", title=None, first_message="(no messages)", age_s=2),
    ]
    assert names(infos) == ["Fix the login", "id-b"]


def test_named_only_leaves_out_what_has_no_title() -> None:
    infos = [make_info("named"), make_info("b", title=None)]
    assert names(infos, named_only=True) == ["named"]


def test_a_query_looks_at_id_title_project_first_prompt_text_and_path() -> None:
    infos = [
        make_info("title-needle"),
        make_info("b", id="needle-9"),
        make_info("c", cwd="/src/needle"),
        make_info("d", first_message="find the needle"),
        make_info("e", all_messages_text="a needle in the talk"),
        make_info("f", path="/sessions/needle.jsonl"),
        make_info("g"),
    ]
    assert set(names(infos, "needle")) == {"title-needle", "b", "c", "d", "e", "f"}


def test_relevance_puts_whole_words_before_pieces_and_pieces_before_fuzzy_letters() -> None:
    infos = [
        make_info("lag on income note"),
        make_info("relogins"),
        make_info("login", age_s=999),
        make_info("fix the login form", age_s=500),
        make_info("longing in", age_s=1),
    ]
    found = names(infos, "login", "relevance")
    assert found[:3] == ["login", "fix the login form", "relogins"]


def test_once_something_is_typed_relevance_orders_unless_another_order_was_chosen() -> None:
    assert effective_sort(None, Query("")) == "recent"
    assert effective_sort(None, Query("x")) == "relevance"
    assert effective_sort("threaded", Query("x")) == "threaded"


def test_threads_stand_below_the_session_they_were_forked_from_by_path_or_by_id() -> None:
    infos = [
        make_info("root", age_s=900),
        make_info("lone", age_s=100),
        make_info("by-path", parent_session="/sessions/root.jsonl", age_s=50),
        make_info("by-id", parent_session="id-root", age_s=20),
        make_info("grandchild", parent_session="id-by-path", age_s=10),
    ]
    assert names(infos, sort="threaded") == [
        "root",
        "├ by-path",
        "│ └ grandchild",
        "└ by-id",
        "lone",
    ]


def test_a_thread_whose_root_does_not_match_begins_with_what_does() -> None:
    infos = [make_info("root", age_s=9), make_info("child xyz", parent_session="id-root")]
    assert names(infos, "xyz", "threaded") == ["child xyz"]


@given(st.lists(st.integers(0, 9), max_size=10))
def test_any_parents_even_cycles_keep_every_session_exactly_once(parents: list[int]) -> None:
    infos = [
        make_info(f"s{n}", parent_session=f"id-s{parent}", age_s=n)
        for n, parent in enumerate(parents)
    ]
    index = SessionIndex(infos)
    found = index.rows(Query(""), "threaded")
    assert found is not None
    assert sorted(row.name for row in found) == sorted(f"s{n}" for n in range(len(parents)))


def test_ten_thousand_sessions_in_one_line_of_forks_are_listed() -> None:
    infos = [
        make_info(f"s{n}", parent_session=f"id-s{n - 1}" if n else None, age_s=n)
        for n in range(10_000)
    ]
    assert len(names(infos, sort="threaded")) == 10_000


def test_why_a_session_matched_is_a_piece_of_text_with_marks() -> None:
    text = "long ago " * 30 + "the tokenizer returns early " + "and so on " * 30
    (row,) = rows([make_info("a", all_messages_text=text)], "tokenizer")
    reason = explain(row)
    assert reason is not None
    assert reason.field == "text"
    assert [reason.text[a:b] for a, b in reason.marks] == ["tokenizer"]
    assert reason.text.startswith("…")


def test_a_reason_leaves_out_the_marks_of_markdown() -> None:
    text = "so the **token** and `renew()` it, then 2**3 and the **last one is cut"
    (row,) = rows([make_info("a", all_messages_text=text)], "token")
    reason = explain(row)
    assert reason is not None
    assert reason.text == "so the token and renew() it, then 2**3 and the last one is cut"
    assert [reason.text[a:b] for a, b in reason.marks] == ["token"]


def test_a_match_in_the_name_needs_no_reason() -> None:
    (row,) = rows([make_info("the tokenizer")], "tokenizer")
    assert explain(row) is None


def test_a_session_that_was_removed_or_renamed_is_listed_accordingly() -> None:
    index = SessionIndex([make_info("a"), make_info("b")])
    index.remove("/sessions/a.jsonl")
    index.put(make_info("b", title="new name"))
    found = index.rows(Query(""), "recent")
    assert found is not None
    assert [row.name for row in found] == ["new name"]


def test_told_to_stop_the_index_gives_no_half_answer() -> None:
    index = SessionIndex([make_info("a")])
    assert index.rows(Query(""), "recent", should_stop=lambda: True) is None
