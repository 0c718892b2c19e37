"""The index for servers: the answers of a search, at once, whatever there is still to read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.agent_samples import claude_answer, claude_prompt, put_claude, put_subagent
from tests.unit.discovery.places import put, talk

from sessiontree import search
from sessiontree.discovery.search import live
from sessiontree.discovery.search.index import SearchIndex
from sessiontree.discovery.search.live import LiveIndex
from sessiontree.profiles import get_profile
from sessiontree.storage.base import FileStat

ONE = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def project(home: Path) -> Path:
    folder = Path(get_profile().sessions_dir) / "--code-pi--"
    put(folder, *talk("an apple and a pear"), session_id="a")
    put(folder, *talk("apples of the tree"), session_id="b")
    put(folder, *talk("x -> y"), session_id="c", title="Apple cake")
    return folder


@pytest.fixture
def index(project: Path) -> Iterator[LiveIndex]:
    made = LiveIndex(agents="all")
    yield made
    made.close()


def ids(found: Sequence[Any]) -> set[str]:
    return {hit.session.id for hit in found}


@pytest.mark.parametrize(
    "query", ["apple", "apple pear", '"of the tree"', "app*", "tree -pear", "->", "nothing", ""]
)
def test_it_finds_what_a_search_finds(index: LiveIndex, query: str) -> None:
    index.wait(10)
    found, expected = index.search(query), search(query, max_indexing_s=None)
    assert ids(found) == ids(expected)
    assert [hit.snippet for hit in found] == [hit.snippet for hit in expected]
    assert not found.is_indexing


@pytest.mark.parametrize(
    ("query", "found"), [("app", {"a", "b", "c"}), ("pear app", {"a"}), ("ap", set()), ("", set())]
)
def test_the_last_word_may_go_on_while_somebody_types(
    index: LiveIndex, query: str, found: set[str]
) -> None:
    index.wait(10)
    assert ids(index.search(query, is_typing=True)) == found
    assert ids(index.search("app")) == set()


def test_only_the_sessions_in_question_are_found_and_counted(
    index: LiveIndex, project: Path
) -> None:
    index.wait(10)
    (first,) = (hit.path for hit in index.search("pear"))
    found = index.search("apple", among={first})
    assert ids(found) == {"a"}
    assert found.total == 1


def test_a_copy_is_left_out_where_its_session_is_found(index: LiveIndex) -> None:
    index.wait(10)
    paths = {hit.session.id: hit.path for hit in index.search("app*")}
    copies = {paths["b"]: paths["a"]}
    found = index.search("app*", copies=copies)
    assert ids(found) == {"a", "c"}
    assert found.total == 2
    assert ids(index.search("apples", copies=copies)) == {"b"}  # only the copy says that


def test_what_is_written_later_is_found_soon(
    index: LiveIndex, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_S", 0.0)
    index.wait(10)
    assert ids(index.search("quince")) == set()
    put(project, *talk("a quince"), session_id="d")
    index.wait(10)
    index.wait(10)  # the search above may have begun a look before the file was there
    assert ids(index.search("quince")) == {"d"}


def test_no_answer_waits_for_files_to_be_read(
    index: LiveIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first index of thousands of sessions takes a minute."""
    go_on = threading.Event()

    def update(*_: object, **__: object) -> list[FileStat]:
        go_on.wait(10)
        return []

    monkeypatch.setattr(SearchIndex, "update", update)
    monkeypatch.setattr(live, "FIRST_S", 0.05)
    found = index.search("apple")
    assert ids(found) == set()
    assert found.is_indexing
    assert (found.indexing.done, found.indexing.total) == (0, 3)
    go_on.set()


def test_closing_ends_the_work_in_the_background(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []

    def update(*_: object, should_stop: Any, **__: object) -> list[FileStat]:
        while not should_stop():
            threading.Event().wait(0.01)
        stopped.append(True)
        return []

    monkeypatch.setattr(SearchIndex, "update", update)
    index = LiveIndex(agents="all")
    index.wake()
    index.close()
    assert stopped == [True]
    assert index.wake() is None


@pytest.mark.parametrize(
    "query",
    [
        "common",
        "common -rare",
        "common every",
        "comm*",
        "common rare",
        "named",
        '"every one"',
        "-x",
    ],
)
@pytest.mark.parametrize("role", [None, "user", "assistant"])
def test_of_many_that_match_the_best_are_those_of_a_search(
    home: Path, query: str, role: str | None
) -> None:
    """Only they are looked up; the others are counted."""
    folder = Path(get_profile().sessions_dir) / "--code-pi--"
    for number in range(24):
        words = "common " * (1 + number % 7) + ("rare" if number % 9 == 0 else "plain")
        title = "common named" if number % 5 == 0 else None
        put(folder, *talk(f"{words} every one", "common"), title=title, mtime=1e9 + 1e6 * number)
    put_claude(home, ONE, claude_prompt("begin"), claude_answer("yes"))
    put_subagent(home, ONE, "x", claude_prompt("common every one there"))
    time.sleep(0.1)  # nothing is indexed that may still change within the clock's tick
    index = LiveIndex(agents="all")
    index.wait(10)
    found = index.search(query, role=role, limit=4)
    expected = search(query, role=role, limit=4, max_indexing_s=None)
    assert [hit.path for hit in found] == [hit.path for hit in expected]
    assert [hit.snippet for hit in found] == [hit.snippet for hit in expected]
    assert found.total == expected.total
    gone = {hit.path for hit in found if hit.path.startswith(str(folder))}
    others = {hit.path for hit in search(query, role=role, limit=None)} - gone
    narrow = index.search(query, role=role, limit=4, among=others)
    assert len(narrow) == min(4, len(others))
    assert narrow.total == len(others)
    for path in gone:
        Path(path).unlink()
    rest = index.search(query, role=role, limit=4)  # before anything looked at the files again
    assert len(rest) == min(4, len(others))
    assert {hit.path for hit in rest} <= others
    index.close()


def test_what_another_process_has_just_indexed_is_found(index: LiveIndex, project: Path) -> None:
    index.wait(10)
    assert ids(index.search("apple")) == {"a", "c"}
    put(project, *talk("an apple and a plum"), session_id="b")  # in place of another one
    time.sleep(0.1)
    search("plum", max_indexing_s=None)
    assert ids(index.search("apple")) == {"a", "b", "c"}


def test_words_of_the_question_before_are_found_where_they_were_said_meanwhile(
    index: LiveIndex, project: Path
) -> None:
    """Who types asks for the same words at every letter of the next one."""
    index.wait(10)
    assert ids(index.search("apple")) == {"a", "c"}
    put(project, *talk("apples of the tree", "and an apple, a cherry"), session_id="b")
    time.sleep(0.1)
    search("cherry", max_indexing_s=None)  # another process indexes what was added
    assert ids(index.search("apple che", is_typing=True)) == {"b"}
    assert ids(index.search("apple cher", is_typing=True)) == {"b"}
    assert ids(index.search("apple")) == {"a", "b", "c"}
