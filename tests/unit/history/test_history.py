"""Prompt history: recall, search, other programs' databases, damage, other processes."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree.errors import PersistenceError
from sessiontree.history import HistoryStorage
from sessiontree.profiles import get_profile

OMP_SCHEMA = """
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL DEFAULT 0, cwd TEXT, session_id TEXT);
CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
  INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;
CREATE TABLE session_titles (session_id TEXT PRIMARY KEY, title TEXT NOT NULL, updated_at INTEGER);
PRAGMA user_version = 1;
"""
XCSH_SCHEMA = """
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL,
  created_at INTEGER NOT NULL DEFAULT 0, cwd TEXT);
CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
  INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "agent" / "history.db"


@pytest.fixture
def history(path: Path) -> Iterator[HistoryStorage]:
    with HistoryStorage(path, clock=_ticking()) as storage:
        yield storage


def _ticking(start: int = 1_760_000_000) -> Callable[[], float]:
    seconds = iter(range(start, start + 1_000_000))
    return lambda: float(next(seconds))


def _add(history: HistoryStorage, *prompts: str, cwd: str | None = None) -> None:
    for prompt in prompts:
        history.add(prompt, cwd=cwd)


def _prompts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT prompt FROM history ORDER BY id")]


def _schema(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def _found(history: HistoryStorage, query: str, cwd: str | None = None) -> list[str]:
    return [entry.prompt for entry in history.search(query, cwd=cwd)]


# -- recall --------------------------------------------------------------------------------------


def test_recent_gives_the_newest_prompt_first(history: HistoryStorage) -> None:
    _add(history, "one", "two", "three")
    assert [entry.prompt for entry in history.recent(2)] == ["three", "two"]


def test_a_prompt_can_be_recalled_before_and_after_it_is_written(history: HistoryStorage) -> None:
    history.add("fix the parser", cwd="/p")
    before = [(e.prompt, e.created_at, e.cwd) for e in history.recent()]
    assert history.flush(10)
    after = history.recent()
    assert [(e.prompt, e.created_at, e.cwd) for e in after] == before
    assert before == [("fix the parser", 1_760_000_000, "/p")]
    assert after[0].id == 1


def test_prompts_survive_the_program_that_typed_them(path: Path) -> None:
    with HistoryStorage(path) as first:
        _add(first, "one", "two")
    with HistoryStorage(path) as second:
        assert [entry.prompt for entry in second.recent()] == ["two", "one"]


def test_recent_can_be_limited_to_a_folder(history: HistoryStorage) -> None:
    history.add("here", cwd="/a")
    history.add("there", cwd="/b")
    history.add("nowhere")
    assert [entry.prompt for entry in history.recent(cwd="/a")] == ["here"]
    history.flush(10)
    assert [entry.prompt for entry in history.recent(cwd=Path("/b"))] == ["there"]


def test_consecutive_identical_prompts_are_stored_once(path: Path) -> None:
    with HistoryStorage(path) as history:
        _add(history, "go on", "go on", "stop", "go on")
    assert _prompts(path) == ["go on", "stop", "go on"]


def test_the_prompt_that_ended_the_last_run_is_not_stored_again(path: Path) -> None:
    for _ in range(2):
        with HistoryStorage(path) as history:
            history.add("go on", cwd="/a")
    with HistoryStorage(path) as history:
        history.add("go on", cwd="/b")
    assert _prompts(path) == ["go on", "go on"]


@pytest.mark.parametrize("blank", ["", " ", "\n\t "])
def test_blank_prompts_are_not_kept(history: HistoryStorage, blank: str) -> None:
    history.add(blank)
    assert history.recent() == []


def test_reading_a_history_that_is_not_there_makes_no_file(path: Path) -> None:
    with HistoryStorage(path) as history:
        assert history.recent() == []
        assert history.search("x") == []
    assert not path.exists()


def test_the_database_and_its_folders_are_private(history: HistoryStorage, path: Path) -> None:
    history.add("secret")
    history.flush(10)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_profile_decides_where_the_history_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(tmp_path / "agent"))
    history = HistoryStorage.for_profile("sessiontree")
    assert history.path == get_profile("sessiontree").history_path


def test_adding_after_a_close_works_again(path: Path) -> None:
    history = HistoryStorage(path)
    history.add("one")
    history.close()
    history.add("two")
    history.close()
    assert _prompts(path) == ["one", "two"]


@pytest.mark.parametrize("limit", [0, -1, 1 << 70])
def test_any_limit_is_understood(history: HistoryStorage, limit: int) -> None:
    _add(history, "one", "two")
    history.flush(10)
    expected = 2 if limit > 2 else 0
    assert len(history.recent(limit)) == expected
    assert len(history.search("o", limit)) == expected


# -- search --------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("parser", ["fix the Parser in C++"]),
        ("PARS", ["fix the Parser in C++"]),
        ("the fix", ["fix the Parser in C++"]),
        ("c++", ["fix the Parser in C++"]),
        ('"fix the', ["fix the Parser in C++"]),
        ('"', ['say "hello"']),
        ("OR", ["this OR that", "restore the world"]),
        ("NEAR(", []),
        ("*", ["SELECT * FROM t"]),
        ("from", ["SELECT * FROM t"]),
        ("100%", ["cover 100% of it"]),
        ("100_", ["cover 100% of it"]),
        ("修复", ["请修复这个错误"]),
        ("STRASSE", ["die Straße sperren"]),
        ("nothing like it", []),
    ],
)
def test_search_takes_any_text_as_it_is(
    history: HistoryStorage, query: str, expected: list[str], written: bool
) -> None:
    _add(
        history,
        "fix the Parser in C++",
        'say "hello"',
        "restore the world",
        "this OR that",
        "SELECT * FROM t",
        "cover 100% of it",
        "请修复这个错误",
        "die Straße sperren",
    )
    if written:
        assert history.flush(10)
    assert _found(history, query) == expected


def test_every_word_must_be_there_or_be_a_part_of_one(history: HistoryStorage) -> None:
    _add(history, "rename the session manager", "session tree", "manage sessions")
    history.flush(10)
    assert _found(history, "session manag") == ["rename the session manager", "manage sessions"]
    assert _found(history, "manager session") == ["rename the session manager"]
    assert _found(history, "sess tree") == ["session tree"]
    assert _found(history, "ess ree") == ["session tree"]
    assert _found(history, "sess trees") == []


def test_beginnings_of_words_are_found_in_any_order(history: HistoryStorage) -> None:
    _add(history, "git commit and go on", "go with the mitigations", "mitten")
    history.flush(10)
    assert _found(history, "go mit") == ["go with the mitigations", "git commit and go on"]
    assert _found(history, "mit go") == ["go with the mitigations", "git commit and go on"]


def test_the_very_text_comes_before_the_words_in_another_order(history: HistoryStorage) -> None:
    _add(history, "run tests now", "now run tests twice", "tests run")
    history.flush(10)
    assert _found(history, "run tests") == ["now run tests twice", "run tests now", "tests run"]


def test_quotes_around_words_do_not_hide_them(history: HistoryStorage) -> None:
    _add(history, "explain the build")
    history.flush(10)
    assert _found(history, '"the build"') == ["explain the build"]


def test_a_blank_query_gives_the_newest(history: HistoryStorage) -> None:
    _add(history, "one", "two")
    assert _found(history, "  ") == ["two", "one"]


def test_search_can_be_limited_to_a_folder(history: HistoryStorage) -> None:
    history.add("deploy it", cwd="/a")
    history.add("deploy that", cwd="/b")
    history.flush(10)
    assert _found(history, "deploy", cwd="/a") == ["deploy it"]


_texts = st.text(max_size=40) | st.text(
    alphabet="\"'*^:(){}+-%_\\ aOR\0\ud83d\u0301é漢", max_size=20
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=_texts)
def test_any_text_is_a_valid_query(history: HistoryStorage, query: str) -> None:
    if not history.recent(1):
        _add(history, "fix the parser in C++", 'say "a OR b"', "漢字 naïve café")
        history.flush(10)
    history.search(query)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(prompt=_texts.filter(lambda text: text.strip()))
def test_any_prompt_is_found_by_its_own_text(history: HistoryStorage, prompt: str) -> None:
    history.add(prompt)
    assert history.flush(10)
    stored = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in prompt)
    assert stored in _found(history, prompt)


def test_a_deleted_or_changed_row_is_no_longer_found(history: HistoryStorage, path: Path) -> None:
    _add(history, "alpha one", "beta two")
    history.flush(10)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM history WHERE prompt = 'alpha one'")
        connection.execute("UPDATE history SET prompt = 'gamma two'")
        connection.commit()
        connection.execute("INSERT INTO history_fts(history_fts) VALUES ('integrity-check')")
        matches = "SELECT count(*) FROM history_fts WHERE history_fts MATCH ?"
        found = {
            word: connection.execute(matches, [word]).fetchone()[0]
            for word in ("alpha", "beta", "gamma")
        }
    assert found == {"alpha": 0, "beta": 0, "gamma": 1}
    assert _found(history, "beta") == []


# -- other programs' databases -------------------------------------------------------------------


@pytest.mark.parametrize("schema", [OMP_SCHEMA, XCSH_SCHEMA], ids=["omp", "xcsh"])
def test_a_database_of_another_agent_is_used_as_it_is(path: Path, schema: str) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        connection.execute("INSERT INTO history (prompt, created_at, cwd) VALUES ('old', 5, '/x')")
        connection.commit()
    before = _schema(path)
    with HistoryStorage(path, clock=_ticking()) as history:
        history.add("brand new", cwd="/y")
        history.flush(10)
        assert [(e.prompt, e.created_at) for e in history.recent()] == [
            ("brand new", 1_760_000_000),
            ("old", 5),
        ]
        assert _found(history, "bran") == ["brand new"]
        assert _found(history, "old") == ["old"]
    assert _schema(path) == before
    with closing(sqlite3.connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    assert version == (1 if schema is OMP_SCHEMA else 0)


def test_where_prompts_are_unique_a_repeated_one_becomes_the_newest(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OMP_SCHEMA)
    with HistoryStorage(path, clock=_ticking()) as history:
        _add(history, "one", "two", "one")
        history.flush(10)
        assert [entry.prompt for entry in history.recent()] == ["one", "two"]
        assert _found(history, "one") == ["one"]
    assert sorted(_prompts(path)) == ["one", "two"]


def test_a_database_without_a_text_index_is_searched_all_the_same(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE history (id INTEGER PRIMARY KEY, prompt TEXT, created_at, cwd TEXT)"
        )
        connection.execute("INSERT INTO history VALUES (1, 'plain old row', 1, NULL)")
        connection.commit()
    with HistoryStorage(path) as history:
        assert _found(history, "old") == ["plain old row"]


def test_rows_of_odd_types_and_bad_utf8_do_not_break_recall(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(XCSH_SCHEMA)
        connection.execute(
            "INSERT INTO history (prompt, created_at, cwd)"
            " VALUES (CAST(x'6162ff63' AS TEXT), 'x', 7)"
        )
        connection.commit()
    with HistoryStorage(path) as history:
        entry = history.recent()[0]
        assert (entry.prompt, entry.created_at, entry.cwd) == ("ab\ufffdc", 0, "7")
        assert _found(history, "b\ufffdc") == ["ab\ufffdc"]


def test_a_database_of_something_else_is_refused_untouched(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE history (url TEXT)")
        connection.commit()
    with HistoryStorage(path) as history, pytest.raises(PersistenceError, match="another program"):
        history.recent()
    assert [name for name, _ in _schema(path)] == ["history"]


# -- damage --------------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_set_aside_and_replaced(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is not SQLite at all" * 100)
    with HistoryStorage(path) as history:
        history.add("still works")
        assert history.flush(10)
        assert [entry.prompt for entry in history.recent()] == ["still works"]
    aside = list(path.parent.glob("history.db.corrupt-*"))
    assert [file.read_bytes() for file in aside] == [b"this is not SQLite at all" * 100]


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE history_fts_docsize",
        "DROP TABLE history_fts_data",
        "DROP TABLE history_fts",
        "DELETE FROM history_fts_config",
        "UPDATE sqlite_sequence SET seq = 9223372036854775807",
        "UPDATE sqlite_sequence SET seq = 1e300",
        "DELETE FROM history_fts_data; INSERT INTO history_fts_data VALUES (1, 'text'), (10, 'x')",
        "CREATE TRIGGER more AFTER INSERT ON history BEGIN INSERT INTO nowhere VALUES (1); END",
    ],
)
def test_tables_that_nobody_can_write_to_any_more_are_made_anew(path: Path, damage: str) -> None:
    with HistoryStorage(path) as history:
        _add(history, "an old prompt")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(damage)
    with HistoryStorage(path) as history:
        _add(history, "a new prompt")
        assert history.flush(5)
        assert [entry.prompt for entry in history.search("prompt")] == [
            "a new prompt",
            "an old prompt",
        ]
    assert len(list(path.parent.glob("history.db.corrupt-*[!ml]"))) == 1


def test_a_table_that_only_its_own_program_can_write_to_is_left_to_it(path: Path) -> None:
    with HistoryStorage(path) as history:
        _add(history, "an old prompt")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TRIGGER own AFTER INSERT ON history BEGIN SELECT its_own(new.id); END"
        )
    with HistoryStorage(path) as history:
        history.add("a new prompt")
        assert not history.flush(0.3)
        assert "its_own" in str(history.error)
    assert not list(path.parent.glob("history.db.corrupt-*"))


@pytest.mark.parametrize("time", [float("inf"), 1e300, -1e300, (1 << 63) - 1, "soon", b"x"])
def test_a_time_that_is_none_does_not_stop_recall(path: Path, time: object) -> None:
    with HistoryStorage(path) as history:
        _add(history, "an old prompt")
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE history SET created_at = ?", (time,))
        database.commit()
    with HistoryStorage(path) as history:
        (entry,) = history.recent()
        assert (entry.prompt, entry.created_at) == ("an old prompt", 0)


def test_reading_a_damaged_database_sets_it_aside_too(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"junk" * 1000)
    with HistoryStorage(path) as history:
        assert history.recent() == []
    assert len(list(path.parent.glob("history.db.corrupt-*"))) == 1


def test_what_can_be_read_of_a_damaged_database_is_kept(path: Path) -> None:
    with HistoryStorage(path) as history:
        for number in range(400):
            history.add(f"prompt {number} " + "x" * 200)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    raw = bytearray(path.read_bytes())
    for page in range(pages // 2, pages):
        raw[page * size : page * size + 64] = b"\xff" * 64
    path.write_bytes(raw)
    with HistoryStorage(path) as history:
        history.add("after the damage")
        assert history.flush(10)
        kept = [entry.prompt for entry in history.recent(1000)]
    assert kept[0] == "after the damage"
    assert any(prompt.startswith("prompt 0 ") for prompt in kept)
    assert len(list(path.parent.glob("history.db.corrupt-*[!ml]"))) == 1


def test_a_damaged_text_index_is_rebuilt_without_losing_a_prompt(path: Path) -> None:
    with HistoryStorage(path) as history:
        _add(history, "alpha one", "beta two")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM history_fts_data WHERE id > 10")
        connection.commit()
    with HistoryStorage(path) as history:
        assert _found(history, "one alp") == ["alpha one"]
    assert _prompts(path) == ["alpha one", "beta two"]


@pytest.mark.parametrize("is_read_first", [True, False])
def test_a_text_index_that_promises_more_than_memory_holds_is_rebuilt(
    path: Path, is_read_first: bool
) -> None:
    with HistoryStorage(path) as history:
        _add(history, "alpha one", "beta two")
    with closing(sqlite3.connect(path)) as connection:
        # one level, said to have two billion segments
        structure = bytes(4) + b"\x01\x01\x01\x00\x87\xff\xff\xff\x7f"
        connection.execute("UPDATE history_fts_data SET block = ? WHERE id = 10", (structure,))
        connection.commit()
    with HistoryStorage(path) as history:
        if is_read_first:
            assert _found(history, "one alp") == ["alpha one"]
        _add(history, "gamma three")
        assert _found(history, "thr gam") == ["gamma three"]
        assert _found(history, "one alp") == ["alpha one"]
    assert _prompts(path) == ["alpha one", "beta two", "gamma three"]


def test_a_database_deleted_while_open_is_made_again(path: Path, history: HistoryStorage) -> None:
    history.add("before")
    history.flush(10)
    assert history.recent()
    for file in path.parent.iterdir():
        file.unlink()
    history.add("after")
    assert history.flush(10)
    assert [entry.prompt for entry in history.recent()] == ["after"]
    assert _prompts(path) == ["after"]


def test_prompts_wait_while_nothing_can_be_written_and_are_written_later(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.mkdir()
    history = HistoryStorage(path)
    history.add("patient")
    assert not history.flush(0.05)
    path.rmdir()
    assert history.flush(10)
    history.close()
    assert _prompts(path) == ["patient"]
    assert history.error is None


def test_closing_gives_up_on_a_file_that_cannot_be_written(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir(parents=True)
    path.mkdir()
    history = HistoryStorage(path)
    history.add("lost")
    history.close()
    assert isinstance(history.error, PersistenceError)
    assert "1 prompt could not be saved" in caplog.text


# -- other threads and processes -----------------------------------------------------------------


def test_add_returns_at_once_while_another_process_holds_the_database(path: Path) -> None:
    with HistoryStorage(path) as history:
        history.add("first")
        history.flush(10)
        with closing(sqlite3.connect(path)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            history.add("second")
            assert [entry.prompt for entry in history.recent()] == ["second", "first"]
            assert not history.flush(0.05)
            holder.rollback()
        assert history.flush(10)
    assert _prompts(path) == ["first", "second"]


def test_a_reader_never_misses_or_doubles_a_prompt_while_it_is_being_written(path: Path) -> None:
    with HistoryStorage(path) as history:
        seen: list[list[str]] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                seen.append([entry.prompt for entry in history.recent(1000)])

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(200):
            history.add(f"prompt {number}")
        history.flush(10)
        done.set()
        reader.join()
    for prompts in seen:
        assert prompts == [f"prompt {n}" for n in reversed(range(len(prompts)))]


_CHILD = """
import sys
from sessiontree.history import HistoryStorage
history = HistoryStorage(sys.argv[1])
for number in range(50):
    history.add(f"{sys.argv[2]} {number}")
"""


def test_several_processes_share_one_history_and_exit_without_close(path: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", _CHILD, str(path), name], env=dict(os.environ))
        for name in "abcd"
    ]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    stored = _prompts(path)
    for name in "abcd":
        assert [p for p in stored if p[0] == name] == [f"{name} {n}" for n in range(50)]
    assert len(stored) == 200
