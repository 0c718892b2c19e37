"""A search in the database finds what a search over the files of the same sessions finds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, user

from sessiontree import FileStore, SessionManager
from sessiontree.profiles import get_profile
from sessiontree.scope import Scope
from sessiontree.serving.filtered_search import FilteredSearch
from sessiontree.stores.postgres import listing
from sessiontree.stores.postgres import search as rows_search
from sessiontree.stores.postgres.database import Statement
from sessiontree.stores.postgres.pool import Row
from sessiontree.stores.postgres.statements import OURS
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.transfer import transfer

CWD = "/work/search"
WORDS = [
    *("parser", "tree", "café", "naïve", "Straße", "lexer", "token", "branch", "数据库", "数据"),
    *("全文搜索", "データ", "검색", "поиск", "foo_bar", "x", "don't", "a" * 300, "C++"),
    *("日本語の文", "🌳 leaf"),
]
QUERIES = [
    *("parser", "PARSER", "tree branch", '"tree branch"', "par*", "tree -branch", "cafe", "CAFÉ"),
    *("naive", "strasse", "数据", "数据库", "全文", "搜索", "据", "データ", "검색", "поиск"),
    *("foo_bar", "foo", "don't", '"don t"', "a" * 300, "a" * 299, "a" * 250 + "*", "c++", "日本"),
    *("語の", "nothingofthis", '-"tree branch" parser', "leaf", "🌳", "title", "named parser"),
    *("ls", "xyz"),
]


def say(dice: random.Random) -> str:
    return " ".join(dice.choice(WORDS) for _ in range(dice.randrange(1, 6)))


def fill(store: FileStore, dice: random.Random, count: int) -> None:
    for number in range(count):
        with SessionManager.create(CWD, storage=store) as session:
            for at in range(dice.randrange(1, 5)):
                said = {**user(say(dice)), "timestamp": 1_700_000_000_000 + 1000 * (number + at)}
                session.append_message(said)
                answer = assistant(say(dice))
                answer["content"].append(
                    {"type": "toolCall", "id": f"c{at}", "name": "ls", "arguments": {"p": "xyz"}}
                )
                answer["timestamp"] = said["timestamp"] + 1
                session.append_message(answer)
            if number % 3 == 0:
                session.set_session_name(f"title {say(dice)}")


@pytest.fixture
def twins(tmp_path: Path, store: PostgresStore) -> tuple[FileStore, PostgresStore]:
    files = FileStore(session_dir=tmp_path / "sessions")
    fill(files, random.Random(1), 40)
    made = transfer(files, store, files.list())
    assert (made.new, made.failed) == (40, [])
    return files, store


def found(store: Any, query: str, **options: Any) -> set[tuple[Any, ...]]:
    """What a search finds, without the order of equals."""
    results = store.search(query, limit=None, **options)
    return {(hit.session.id, hit.entry_id, hit.role, hit.snippet, hit.marks) for hit in results}


def test_every_query_finds_the_same(twins: tuple[FileStore, PostgresStore]) -> None:
    files, store = twins
    for query in QUERIES:
        assert found(store, query) == found(files, query), query


@pytest.mark.parametrize(
    "options",
    [
        {"role": "user"},
        {"role": "assistant"},
        {"role": "tool"},
        {"include_tools": True},
        {"since": 1_700_000_020},
        {"since": 1_700_000_020, "role": "user"},
    ],
)
def test_options_narrow_it_alike(
    twins: tuple[FileStore, PostgresStore], options: dict[str, Any]
) -> None:
    files, store = twins
    for query in QUERIES[::3]:
        assert found(store, query, **options) == found(files, query, **options), query


def test_common_words_are_capped_and_still_found_together(
    twins: tuple[FileStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, store = twins
    monkeypatch.setattr(rows_search, "MOST_ROWS", 5)
    for query in ("tree", "tree branch"):  # what the cap leaves out is looked for in the newest
        expected = {hit.session.id for hit in files.search(query, limit=None)}
        assert {hit.session.id for hit in store.search(query, limit=None)} == expected
    rare = {hit.session.id for hit in store.search("tree nothingofthis", limit=None)}
    assert rare == set()


def test_common_words_are_found_though_not_in_the_messages_that_were_taken(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another project, or never two in one message."""
    for number in range(8):
        with SessionManager.create(f"/work/p{number % 2}", storage=store) as session:
            for text in ("even", "odd"):
                session.append_message(user(text))
                session.append_message(assistant("yes"))
    store.search("even")
    monkeypatch.setattr(rows_search, "MOST_ROWS", 2)
    both = store.search("even odd", limit=None)
    assert len(both) == 8
    assert both.total is None
    assert len(store.search("even", cwd="/work/p1")) == 4
    assert len(store.search("even", cwd="/work/p2")) == 0
    assert len(store.search("even odd nothing")) == 0


def test_the_listing_is_the_same(twins: tuple[FileStore, PostgresStore]) -> None:
    files, store = twins
    ours, theirs = store.list(CWD), files.list(CWD)

    def facts(info: Any) -> tuple[Any, ...]:
        return (
            *(info.id, info.title, info.cwd, info.created, info.modified, info.message_count),
            *(info.first_message, info.status, info.size, info.all_messages_text),
        )

    assert {facts(info) for info in ours} == {facts(info) for info in theirs}
    assert [info.modified for info in ours] == [info.modified for info in theirs]


def test_what_is_appended_rewritten_and_deleted_is_found_so(store: PostgresStore) -> None:
    with SessionManager.create(CWD, storage=store) as session:
        session.append_message(user("first words"))
        session.append_message(assistant("second words"))
        assert len(store.search("second")) == 1
        session.append_message(user("third 数据"))
        assert len(store.search("数据")) == 1
        session.get_entries()[0].data["message"]["content"] = "changed words"
        session.rewrite_entries()
        assert len(store.search("changed")) == 1
        assert len(store.search("first")) == 0
        store.delete(session.ref)
        assert len(store.search("changed")) == 0
        store.restore(session.session_id)
        assert len(store.search("changed")) == 1


def test_a_replica_that_takes_no_writes_searches_without_waiting(
    url: str, store: PostgresStore
) -> None:
    with SessionManager.create("/work/replica", storage=store) as session:
        session.append_message(user("the words of a basket"))
        session.append_message(assistant("yes"))
    store.database.run(f"UPDATE st_session SET indexed = 0 WHERE {OURS}")
    replica = PostgresStore(f"{url}&options=-c%20default_transaction_read_only%3Don")
    assert [hit.session.id for hit in replica.search("basket")] == [session.session_id]
    assert replica.database.round_trips < 6  # nothing was tried again
    replica.close()


def test_a_search_reads_no_rows_of_other_tenants(url: str, store: PostgresStore) -> None:
    other = PostgresStore(url.partition("?")[0] + "?tenant=of-many-words")
    for number in range(30):
        with SessionManager.create("/work/other", storage=other) as session:
            said = [user(f"everywhere {number}.{at}") for at in range(20)]
            session.append_many([{"type": "message", "message": each} for each in said])
            session.append_message(assistant("everywhere"))
    with SessionManager.create("/work/own", storage=store) as session:
        session.append_message(user("everywhere"))
        session.append_message(assistant("yes"))
    assert len(store.search("everywhere")) == 1
    plan = store.database.run_all(
        [
            Statement("SET LOCAL enable_seqscan = off"),
            Statement(
                "EXPLAIN (ANALYZE, FORMAT JSON) SELECT FROM st_text "
                "WHERE words @@ ('everywhere'::tsquery && (SELECT st_own_query()))"
            ),
        ]
    )[1][0][0][0]["Plan"]
    (scan,) = [each for each in plan["Plans"] if each["Node Type"] == "Bitmap Index Scan"]
    assert scan["Index Name"] == "st_text_words"
    assert scan["Actual Rows"] == 1
    other.close()


def test_a_search_reads_only_the_sessions_that_it_found(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        with SessionManager.create("/work/many", storage=store) as session:
            session.append_message(user("rare" if number == 7 else "usual"))
            session.append_message(assistant("yes"))
    sent: list[Statement] = []
    send = store.database.run_all

    def note(statements: Sequence[Statement]) -> list[list[Row]]:
        sent.extend(statements)
        return send(statements)

    monkeypatch.setattr(store.database, "run_all", note)
    assert len(store.search("rare")) == 1
    (asked,) = [each for each in sent if each.sql.startswith("WITH")]
    explain = Statement("EXPLAIN (ANALYZE, FORMAT JSON) " + asked.sql, asked.parameters)
    plan = send([Statement("SET LOCAL enable_seqscan = off"), explain])[1][0][0][0]["Plan"]
    read = [each for each in _nodes(plan) if each.get("Relation Name") == "st_session"]
    assert [(each["Index Name"], each["Actual Rows"]) for each in read] == [("st_session_pkey", 1)]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


@pytest.mark.parametrize("query", ["usual", "usual words", '"usual words"', "usu*", "🌳"])
@pytest.mark.parametrize("most", ["sessions", "rows"])
def test_a_filter_finds_what_is_far_behind_the_best(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch, query: str, most: str
) -> None:
    """The session that a filter leaves is the oldest, and has the words once."""
    for number in range(12):
        with SessionManager.create(f"/work/p{number}", storage=store) as session:
            said = "🌳 usual words " * (1 if number in (0, 1) else 3)
            at = 1_700_000_000_000 + number * 60_000
            session.append_message({**user(said), "timestamp": at})
            session.append_message({**assistant("yes"), "timestamp": at + 1})
    if most == "sessions":
        monkeypatch.setattr(rows_search, "_MOST_SESSIONS", 3)
    else:
        monkeypatch.setattr(rows_search, "MOST_ROWS", 2)
        monkeypatch.setattr(rows_search, "_MOST_ASKED", 2)
    monkeypatch.setattr(listing, "PAGE", 4)
    scope = Scope("/", get_profile(None), url=url, reach="all")
    for filters, expected in (("dir:p0", [0]), ("dir:p1", [11, 10, 1]), ("dir:none", [])):
        search = FilteredSearch.of(f"{query} {filters}", scope)
        results = search.search()
        assert {hit.session.cwd for hit in results} == {f"/work/p{each}" for each in expected}
        assert results.total == len(expected)
        assert len(search.search(limit=1)) == min(1, len(expected))
