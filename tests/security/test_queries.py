"""No text is taken for SQL or for the syntax of a search."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.samples import assistant as answer
from tests.samples import chain, header, write
from tests.samples import user as prompt

from sessiontree import HistoryStorage, search
from sessiontree.profiles import Profile

INJECTIONS = [
    "'; DROP TABLE history; --",
    '" OR 1=1 --',
    "history_fts MATCH 'x'",
    'NEAR("a" "b")',
    "prompt:*",
    "* OR a",
    "%' ESCAPE '\\",
    "\\",
    "a\0b",
    "{x}^2",
    '"""',
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_prompt_is_taken_for_sql_or_search_syntax(profile: Profile, text: str) -> None:
    with HistoryStorage.for_profile() as history:
        history.add("something else")
        history.add(text, cwd=text)
        assert history.flush(5)
        assert [entry.prompt for entry in history.search(text)] == [text]
        assert [entry.prompt for entry in history.recent(cwd=text)] == [text]
    connection = sqlite3.connect(profile.history_path)
    assert connection.execute("SELECT count(*) FROM history").fetchone() == (2,)
    connection.close()


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_words_of_a_session_are_taken_for_sql_or_search_syntax(
    profile: Profile, text: str
) -> None:
    folder = Path(profile.sessions_dir) / "--p--"
    said = chain(prompt(f"begin {text} end"), answer("hi"))
    path = write(folder / "x.jsonl", header(id=text, cwd=text, title=text), *said)
    write(folder / "y.jsonl", header(), *chain(prompt("something else"), answer("hi")))
    assert str(path.with_name("y.jsonl")) not in [hit.path for hit in search(text)]
    for _ in range(2):  # read, and from the index
        assert [hit.path for hit in search("begin")] == [str(path)]
