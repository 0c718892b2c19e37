"""Search: exactly the sessions that have the words, with an index and without."""

from __future__ import annotations

import functools
import os
import shlex
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.samples import (
    TIME_MS,
    assistant,
    calling,
    dump,
    entry,
    header,
    message,
    result,
    user,
    write,
)
from tests.unit.discovery.places import put, talk

from sessiontree import MemorySessionStorage, search
from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.search import SearchResults, index, update_search_index
from sessiontree.discovery.search import search as search_files
from sessiontree.discovery.search.query import Term
from sessiontree.maintenance.annotations import rename_session
from sessiontree.profiles import get_profile
from sessiontree.scope import choose_scope
from sessiontree.storage import sqlite
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files.store import FileStore

Finder = Callable[..., SearchResults]
ROADS = {"index": None, "scan": 0.0}


@pytest.fixture(autouse=True)
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files made a moment ago count as settled: tests don't wait for the clock to tick."""
    monkeypatch.setattr(freshness, "_TICK_NS", -(10**12))


@pytest.fixture(params=ROADS)
def find(request: pytest.FixtureRequest) -> Finder:
    """Each answer twice: from an index that is complete, and without one."""
    return functools.partial(search, max_indexing_s=ROADS[request.param])


@pytest.fixture
def project(home: Path) -> Path:
    """The session folder of a project of the default profile."""
    return Path(get_profile().sessions_dir) / "--code-pi--"


def ids(results: SearchResults) -> set[str]:
    return {hit.session.id for hit in results}


def say(folder: Path, session_id: str, *texts: str, **keywords: object) -> Path:
    return put(folder, *talk(*texts), session_id=session_id, **keywords)  # type: ignore[arg-type]


def add(file: Path, *records: dict[str, object]) -> None:
    with file.open("ab") as stream:
        stream.writelines(dump(record) + b"\n" for record in records)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("apple", {"a", "b"}),
        ("APPLE", {"a", "b"}),
        ("apple pear", {"a"}),
        ('"pear tree"', {"c"}),
        ("pear", {"a", "c"}),
        ("app*", {"a", "b", "d"}),
        ("apple -pear", {"b"}),
        ('pear -"pear tree"', {"a"}),
        ("tree -apple", {"c"}),
        ("jasmin", {"e"}),
        ("語で", {"f"}),
        ("日本語", {"f"}),
        ("本日", set()),
        ("nothing", set()),
        ("", set()),
        ("🚀", {"f"}),
        ('"', set()),
    ],
)
def test_exactly_the_sessions_with_the_words_are_found(
    project: Path, find: Finder, query: str, expected: set[str]
) -> None:
    say(project, "a", "an apple", "and a pear")
    say(project, "b", "question", "Apple!")
    say(project, "c", "the pear tree", "trees")
    say(project, "d", "applet")
    say(project, "e", "Jásmin", "x")
    say(project, "f", "これは日本語です 🚀", "日本語で答える")
    found = find(query)
    assert ids(found) == expected
    assert found.total == len(expected)


def test_words_of_one_query_may_stand_in_different_messages(project: Path, find: Finder) -> None:
    say(project, "a", "first apple", "then pear", "then plum")
    assert ids(find("apple plum")) == {"a"}


def test_a_phrase_does_not_reach_from_one_message_into_the_next(
    project: Path, find: Finder
) -> None:
    say(project, "a", "ends with apple", "x", "pear begins")
    assert ids(find('"apple pear"')) == set()


def test_a_hit_tells_where_it_is(project: Path, find: Finder) -> None:
    file = say(
        project, "abc", "no", "the first needle", "more", "the second needle here", title="T"
    )
    (hit,) = find("needle")
    assert hit.path == str(file)
    assert (hit.session.title, hit.session.message_count) == ("T", 4)
    assert (hit.entry_id, hit.role) == ("a0000003", "assistant")
    assert hit.time == datetime.fromtimestamp(TIME_MS / 1000, UTC)
    assert [hit.snippet[a:b] for a, b in hit.marks] == ["needle"]
    assert hit.profile == "sessiontree"


def test_the_message_with_the_most_of_the_words_is_shown(project: Path, find: Finder) -> None:
    say(project, "a", "apple and pear", "apple", "pear", "nothing")
    (hit,) = find("apple pear")
    assert hit.entry_id == "a0000000"


def test_the_resume_command_is_safe_for_a_shell(home: Path, find: Finder) -> None:
    folder = Path(get_profile("omp").sessions_dir) / "-x; rm -rf $HOME"
    file = say(folder, "abc", "needle")
    (hit,) = find("needle")
    assert shlex.split(hit.resume_command) == [
        "sessiontree",
        "--profile",
        "omp",
        "--resume",
        str(file),
    ]


def test_all_profiles_are_searched_or_just_one(home: Path, find: Finder) -> None:
    for name in ("sessiontree", "omp", "xcsh", "pi"):
        say(Path(get_profile(name).sessions_dir) / "--x--", name, "needle")
    assert ids(find("needle")) == {"sessiontree", "omp", "xcsh", "pi"}
    assert ids(find("needle", profile="pi")) == {"pi"}


def test_a_project_can_be_chosen(home: Path, find: Finder) -> None:
    sessions = Path(get_profile().sessions_dir)
    say(sessions / "--a-b-c--", "mine", "needle", cwd="/a-b/c")
    say(sessions / "--a-b-c--", "other", "needle", cwd="/a/b-c")
    say(sessions / "--elsewhere--", "far", "needle", cwd="/elsewhere")
    assert ids(find("needle", cwd="/a-b/c/")) == {"mine"}
    assert ids(find("needle")) == {"mine", "other", "far"}


def test_a_role_can_be_chosen(project: Path, find: Finder) -> None:
    say(project, "asked", "needle", "x")
    say(project, "answered", "x", "needle")
    assert ids(find("needle", role="user")) == {"asked"}
    assert ids(find("needle", role="assistant")) == {"answered"}
    assert ids(find("x -needle", role="user")) == {"answered"}


def test_a_role_that_nobody_has_is_an_error(project: Path) -> None:
    with pytest.raises(ValueError, match="bystander"):
        search("x", role="bystander")


def test_tool_output_counts_only_on_request(project: Path, find: Finder) -> None:
    shell = {"role": "bashExecution", "command": "make", "output": "needle", "timestamp": 1}
    put(
        project,
        message("a0000001", None, user("x")),
        message("a0000002", "a0000001", calling("t1")),
        message("a0000003", "a0000002", result("t1", "a needle")),
        message("a0000004", "a0000003", assistant("y")),
        session_id="tool",
    )
    put(project, message("a0000001", None, shell), session_id="shell")
    assert ids(find("needle")) == set()
    assert ids(find("needle", include_tools=True)) == {"tool", "shell"}
    assert ids(find("needle", role="toolResult")) == {"tool"}
    assert ids(find("needle", role="tool")) == {"tool", "shell"}
    assert ids(find("make", include_tools=True)) == {"shell"}
    assert ids(find("ls", role="toolCall")) == {"tool"}
    assert ids(find("bash ls needle", include_tools=True)) == {"tool"}
    assert ids(find("command", include_tools=True)) == set()
    (hit,) = find("needle", role="toolResult")
    assert (hit.entry_id, hit.role) == ("a0000003", "toolResult")


@pytest.mark.parametrize(
    "since", [TIME_MS / 1000 + 50, datetime.fromtimestamp(TIME_MS / 1000 + 50, UTC)]
)
def test_only_what_was_said_since_then_counts(
    project: Path, find: Finder, since: datetime | float
) -> None:
    late = {"timestamp": TIME_MS + 100_000}
    put(project, message("a0000001", None, user("needle")), session_id="old")
    put(
        project,
        message("a0000001", None, user("needle")),
        message("a0000002", "a0000001", assistant("other", **late)),
        session_id="went on",
    )
    put(
        project,
        message("a0000001", None, user("unwanted")),
        message("a0000002", "a0000001", user("needle", **late)),
        session_id="new",
    )
    assert ids(find("needle", since=since)) == {"new"}
    assert ids(find("needle -unwanted", since=since)) == {"new"}
    assert ids(find("needle")) == {"old", "went on", "new"}


def test_since_may_be_an_iso_time_and_nothing_else(project: Path) -> None:
    say(project, "a", "needle")
    assert ids(search("needle", since="2026-01-01")) == {"a"}
    with pytest.raises(ValueError, match="yesterday"):
        search("needle", since="yesterday")


def test_what_says_more_of_it_and_what_is_newer_comes_first(project: Path, find: Finder) -> None:
    now = datetime.now(UTC).timestamp()
    say(project, "much", "needle " * 20, "x", mtime=now - 10 * 365 * 86_400)
    say(project, "old", "a needle", "x " * 20, mtime=now - 10 * 365 * 86_400)
    say(project, "new", "a needle", "x " * 20, mtime=now)
    for number in range(20):
        say(project, f"other{number}", "hay", "x " * 20)
    found = [hit.session.id for hit in find("needle")]
    assert set(found) == {"much", "old", "new"}
    assert found[-1] == "old"


# -- names ---------------------------------------------------------------------------------------


def test_a_session_is_found_by_its_name(project: Path, find: Finder) -> None:
    say(project, "a", "hello", "hi", title="Payments refactor")
    say(project, "b", "hello", "hi", title="Something else")
    (hit,) = find('"payments refactor"')
    assert (hit.session.id, hit.role, hit.entry_id, hit.time) == ("a", "name", "", None)
    assert (hit.snippet, hit.marks) == ("Payments refactor", ((0, 17),))


def test_a_message_that_has_as_much_of_it_is_shown_rather_than_the_name(
    project: Path, find: Finder
) -> None:
    say(project, "a", "the payments refactor", "and now?", title="Payments refactor")
    (hit,) = find("payments refactor")
    assert (hit.role, hit.entry_id) == ("user", "a0000000")
    (hit,) = find("payments refactor now")
    assert (hit.role, hit.entry_id) == ("user", "a0000000")


def test_words_may_stand_in_the_name_and_in_messages(project: Path, find: Finder) -> None:
    say(project, "a", "about refunds", title="Payments")
    say(project, "b", "about refunds", title="Orders")
    assert ids(find("payments refunds")) == {"a"}
    assert ids(find("refunds -payments")) == {"b"}
    assert ids(find('"payments about"')) == set()


def test_a_session_that_is_called_so_comes_before_those_that_speak_of_it(
    project: Path, find: Finder
) -> None:
    for number in range(20):
        say(project, f"other{number}", "nothing of that kind", mtime=TIME_MS / 1000)
    say(project, "speaks", *["payments payments"] * 20, mtime=TIME_MS / 1000 + 9_000_000)
    say(project, "named", "hello", title="Payments", mtime=TIME_MS / 1000)
    assert [hit.session.id for hit in find("payments")] == ["named", "speaks"]


def test_a_new_name_is_found_and_the_old_one_no_more(project: Path, find: Finder) -> None:
    by_header = say(project, "a", "hello", title="Quokka")
    by_entry = say(project, "b", "hello " * 2_000)
    add(by_entry, entry("session_info", "e0000001", "a0000000", name="Quokka"))
    assert ids(find("quokka")) == {"a", "b"}
    rename_session(FileStore(), str(by_header), "Marmot")
    add(by_entry, entry("session_info", "e0000002", "e0000001", name="Marmot"))
    assert find("quokka").total == 0
    assert ids(find("marmot")) == {"a", "b"}
    rename_session(FileStore(), str(by_header), "")
    assert ids(find("marmot")) == {"b"}


def test_a_name_is_nobodys_words_and_as_old_as_its_session(project: Path, find: Finder) -> None:
    say(project, "a", "hello", title="Quokka", mtime=TIME_MS / 1000)
    assert find("quokka", role="user") == []
    assert find("quokka", role="assistant") == []
    assert ids(find("quokka", include_tools=True)) == {"a"}
    assert ids(find("quokka", since=TIME_MS / 1000 - 1)) == {"a"}
    assert find("quokka", since=TIME_MS / 1000 + 1) == []


def test_names_of_every_script_and_of_half_characters_are_found(
    project: Path, find: Finder
) -> None:
    say(project, "a", "x", title="支払いの整理 Café")
    say(project, "b", "x", title="half \ud83d rocket")
    assert ids(find("支払い")) == ids(find("cafe")) == ids(find("caf*")) == {"a"}
    assert ids(find("rocket")) == {"b"}


def test_hits_by_name_are_counted_with_the_others(project: Path, find: Finder) -> None:
    for number in range(5):
        say(project, f"named{number}", "hello", title="needle")
        say(project, f"speaks{number}", "a needle")
    found = find("needle", limit=4)
    assert (len(found), found.total) == (4, 10)
    assert {hit.role for hit in found} == {"name"}


# -- how many ------------------------------------------------------------------------------------


def test_no_more_hits_than_asked_for_but_all_are_counted(project: Path, find: Finder) -> None:
    for number in range(9):
        say(project, f"s{number}", "needle")
    found = find("needle", limit=4)
    assert (len(found), found.total) == (4, 9)
    assert len(find("needle", limit=None)) == 9


def test_text_of_half_characters_and_odd_words_is_searched(project: Path, find: Finder) -> None:
    raw = dump(message("a0000001", None, user("HALF needle")))
    write(project / "x.jsonl", header(id="a"), raw.replace(b"HALF", b"\\ud83d") + b"\n")
    assert ids(find("needle")) == {"a"}


@pytest.mark.parametrize(
    ("query", "spelled"),
    [
        ("needle", rb"NE\u0045dle"),
        ("needle", rb"\u006EEEDLE"),
        ("needle", rb"\u001b[1m needle\u001B[0m"),
        ("needle", rb"\u0000needle\u001F"),
        ('"two words"', rb"two\u000Awords"),
        ("caf\u00e9", rb"CAFE\u0301"),
        ("🚀", rb"\uD83D\uDE80"),
        ("</", rb"<\/"),
        ('"-\t-"', rb"-\u0009-"),
        ('"-\b-"', rb"-\u0008-"),
        ("ゟ", "ゟ".encode()),
    ],
)
def test_a_text_is_found_however_json_spells_it(
    project: Path, find: Finder, query: str, spelled: bytes
) -> None:
    raw = dump(message("a0000001", None, user("x SPELLED y")))
    write(project / "x.jsonl", header(id="a"), raw.replace(b"SPELLED", spelled) + b"\n")
    assert ids(find(query)) == {"a"}


def test_damaged_sessions_are_searched_too(project: Path, find: Finder) -> None:
    file = say(project, "a", "needle", "y", "z")
    file.write_bytes(b"junk\n" + file.read_bytes()[:-20])
    assert ids(find("needle")) == {"a"}


def test_damaged_headers_do_not_hide_a_session(project: Path, find: Finder) -> None:
    write(project / "2026-02-16T10-20-30-000Z_abc.jsonl", b"{torn\n", *talk("needle"))
    assert ids(find("needle")) == {"abc"}


# -- the index -----------------------------------------------------------------------------------


def test_an_indexed_session_is_not_read_unless_it_is_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        say(project, f"s{number}", "hay", "more hay")
    say(project, "it", "needle")
    assert update_search_index().is_complete
    read: list[str] = []
    from sessiontree.storage.file import FileSessionStorage

    original = FileSessionStorage.open_reader

    def open_reader(self: FileSessionStorage, path: str) -> object:
        read.append(path)
        return original(self, path)

    monkeypatch.setattr(FileSessionStorage, "open_reader", open_reader)
    found = search("needle")
    assert ids(found) == {"it"}
    assert not found.is_indexing
    assert len(set(read)) == 1


def test_what_is_not_indexed_yet_is_read_and_told(project: Path) -> None:
    for number in range(5):
        say(project, f"s{number}", "needle")
    found = search("needle", max_indexing_s=0)
    assert len(found) == 5
    assert found.is_indexing
    assert (found.indexing.done, found.indexing.total) == (0, 5)
    found = search("needle")
    assert len(found) == 5
    assert not found.is_indexing


def test_what_is_found_after_a_second_is_told_and_then_the_rest(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        say(project, f"old{number}", "needle")
    search_files("needle", max_indexing_s=None)
    for number in range(2):
        say(project, f"new{number}", "needle")
    monkeypatch.setattr("sessiontree.discovery.search.DEFAULT_INDEXING_S", 0.0)
    parts: list[SearchResults] = []
    found = search_files("needle", max_indexing_s=None, on_part=parts.append)
    (part,) = parts
    assert ids(part) == {"old0", "old1", "old2"}
    assert (part.indexing.done, part.indexing.total) == (3, 5)
    assert len(found) == 5
    assert found.indexing.is_complete
    search_files("needle", max_indexing_s=None, on_part=parts.append)
    assert len(parts) == 1, "where nothing is left to be indexed, the first answer is the whole one"


def test_a_first_search_of_agents_indexes_instead_of_reading_the_files(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        say(project, f"s{number}", "needle")
    monkeypatch.setattr("sessiontree.discovery.search.DEFAULT_INDEXING_S", 0.0)
    found = choose_scope(str(project)).reaching("all", agents="all").search("needle")
    assert len(found) == 3
    assert found.indexing.is_complete


def test_indexing_can_be_stopped_and_goes_on_where_it_was(project: Path) -> None:
    for number in range(10):
        say(project, f"s{number}", "needle")
    told: list[tuple[int, int]] = []

    def stop() -> bool:
        return len(told) >= 4

    progress = update_search_index(
        on_progress=lambda done, total: told.append((done, total)), should_stop=stop
    )
    assert (progress.done, progress.total) == (4, 10)
    assert told == [(n, 10) for n in range(1, 5)]
    told.clear()
    assert update_search_index(on_progress=lambda *step: told.append(step)).is_complete
    assert len(told) == 6


def test_the_newest_sessions_are_indexed_first(project: Path) -> None:
    for number in range(10):
        say(project, f"s{number}", "needle", mtime=1_790_000_000 + number)
    update_search_index(should_stop=iter([False, False, True]).__next__)
    database = sqlite3.connect(index.SCHEMA.path)
    names = {name for (name,) in database.execute("SELECT name FROM sessions")}
    database.close()
    assert names == {f"2026-02-16T10-20-30-000Z_s{n}.jsonl".encode() for n in (8, 9)}


def test_what_is_appended_is_found_and_only_that_is_indexed(project: Path) -> None:
    file = say(project, "a", *["question", "x" * 100_000] * 4)
    assert update_search_index().is_complete
    add(file, message("b0000001", "a0000007", user("a needle")))
    assert ids(search("needle")) == {"a"}
    assert ids(search("question needle")) == {"a"}
    assert ids(search("question -needle")) == set()
    database = sqlite3.connect(index.SCHEMA.path)
    assert database.execute("SELECT no FROM sessions").fetchall() == [(1,)]
    assert database.execute("SELECT count(*) FROM said_docsize").fetchone()[0] > 1
    database.close()


def test_a_session_that_grows_line_by_line_stays_in_few_segments(project: Path) -> None:
    file = say(project, "a", *["question", "x" * 100_000] * 4)
    for number in range(70):
        add(file, message(f"b{number:07x}", "a0000007", user(f"needle{number}")))
        update_search_index()
    assert ids(search("needle0 needle69")) == {"a"}
    database = sqlite3.connect(index.SCHEMA.path)
    ((data,),) = database.execute("SELECT data FROM sessions")
    database.close()
    assert len(index._to_row(data).segments) < 66


def test_rewritten_deleted_and_moved_sessions_are_followed(project: Path) -> None:
    one = say(project, "one", "needle")
    two = say(project, "two", "needle")
    update_search_index()
    write(one.with_suffix(".tmp"), header(id="one"), *talk("hay"))
    os.replace(one.with_suffix(".tmp"), one)
    two.rename(project / "elsewhere.jsonl")
    assert ids(search("needle")) == {"two"}
    (project / "elsewhere.jsonl").unlink()
    assert ids(search("needle")) == set()
    assert ids(search("hay")) == {"one"}


def test_a_session_that_another_process_indexes_anew_in_mid_search_is_found(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = say(project, "a", "needle")
    update_search_index()
    original = index.SearchIndex.match

    def match(self: index.SearchIndex, term: Term, role: str | None) -> dict[int, float]:
        found = original(self, term, role)
        os.utime(file)
        assert update_search_index().is_complete
        return found

    monkeypatch.setattr(index.SearchIndex, "match", match)
    assert ids(search("needle")) == {"a"}


def test_a_session_that_another_process_forgets_in_mid_indexing_is_found(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked into the folder before the session was there."""
    say(project, "a", "needle")
    original = index.SearchIndex._seal

    def seal(self: index.SearchIndex, unfinished: set[str]) -> None:
        database = sqlite3.connect(index.SCHEMA.path, isolation_level=None)
        database.execute("DELETE FROM sessions")
        database.close()
        original(self, unfinished)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(index.SearchIndex, "_seal", seal)
        update_search_index()
    assert ids(search("needle")) == {"a"}


def test_an_edit_that_puts_the_old_mtime_back_is_noticed(project: Path) -> None:
    file = say(project, "a", "needle", mtime=1_790_000_000)
    update_search_index()
    with file.open("r+b") as stream:
        data = stream.read().replace(b"needle", b"thread")
        stream.seek(0)
        stream.write(data)
    os.utime(file, (1_790_000_000, 1_790_000_000))
    assert ids(search("needle")) == set()
    assert ids(search("thread")) == {"a"}


def test_a_file_written_within_a_tick_of_the_clock_is_read_not_indexed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "_TICK_NS", 3_600 * 10**9)
    say(project, "a", "needle")
    found = search("needle")
    assert ids(found) == {"a"}
    assert found.is_indexing


def test_searching_one_project_forgets_nothing_of_another(home: Path) -> None:
    sessions = Path(get_profile().sessions_dir)
    say(sessions / "--a-b-c--", "mine", "needle", cwd="/a-b/c")
    say(sessions / "--a-b-c--", "other", "needle", cwd="/a/b-c")
    update_search_index()
    search("needle", cwd="/a-b/c")
    found = search("needle", max_indexing_s=0)
    assert not found.is_indexing
    assert ids(found) == {"mine", "other"}


@pytest.mark.parametrize("content", [b"", b"corrupt" * 3_000])
def test_a_corrupt_index_is_made_anew(project: Path, content: bytes) -> None:
    say(project, "a", "needle")
    update_search_index()
    Path(index.SCHEMA.path).write_bytes(content)
    assert ids(search("needle")) == {"a"}
    assert ids(search("needle")) == {"a"}
    assert not search("needle", max_indexing_s=0).is_indexing


def test_an_index_with_damaged_pages_is_made_anew(project: Path) -> None:
    for number in range(200):
        say(project, f"s{number}", "needle " + "hay " * 200 + f"w{number}")
    update_search_index()
    path = Path(index.SCHEMA.path)
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    path.write_bytes(bytes(data))
    assert len(search("needle", limit=None)) == 200
    assert len(search("needle", limit=None)) == 200
    assert not search("needle", max_indexing_s=0).is_indexing


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE sessions SET data = substr(data, 1, length(data) - 1)",
        "UPDATE sessions SET data = x'ff' || substr(data, 2)",
        "UPDATE sessions SET data = 'text'",
        "UPDATE sessions SET data = 5",
        "UPDATE sessions SET name = 'text'",
        "UPDATE dead SET segments = 'many'",
        "DELETE FROM dead",
    ],
)
def test_an_index_with_rows_that_are_not_whole_is_made_anew(project: Path, damage: str) -> None:
    say(project, "a", "needle")
    update_search_index()
    database = sqlite3.connect(index.SCHEMA.path)
    database.execute(damage)
    database.execute("DELETE FROM folders")
    database.commit()
    database.close()
    for _ in range(3):
        assert ids(search("needle")) == {"a"}
    assert not search("needle", max_indexing_s=0).is_indexing


def test_an_index_about_which_sqlite_cannot_speak_is_made_anew(project: Path) -> None:
    say(project, "a", "needle")
    update_search_index()
    path = Path(index.SCHEMA.path)
    database = sqlite3.connect(path)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    data = path.read_bytes()
    assert b"CREATE TABLE dead" in data
    # its complaint quotes the schema, which is no text any more
    path.write_bytes(data.replace(b"CREATE TABLE dead", b"CREATE TABL\xcc dead"))
    assert ids(search("needle")) == {"a"}
    assert ids(search("needle")) == {"a"}
    assert not search("needle", max_indexing_s=0).is_indexing


@pytest.mark.parametrize("role", [[], {}, [["user"]], 5, None])
@pytest.mark.parametrize("text", ["needle", "needle \ud83d"])
def test_a_role_may_be_anything(find: Finder, project: Path, role: object, text: str) -> None:
    odd = message("b0000001", None, {"role": role, "content": text})
    put(project, *talk("needle"), odd, session_id="a")
    assert ids(find("needle")) == {"a"}
    assert ids(find("needle", include_tools=True)) == {"a"}


@pytest.mark.parametrize("time", [10**30, -(10**30), 1e300, 1 << 63, 10**400])
def test_a_time_that_no_calendar_has_is_none(find: Finder, project: Path, time: float) -> None:
    odd = message("b0000001", None, {**user("needle"), "timestamp": time})
    put(project, odd, session_id="a")
    (hit,) = find("needle")
    assert hit.time is None


def test_an_index_that_is_being_written_to_still_answers(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.05)
    say(project, "a", "needle")
    update_search_index()
    database = sqlite3.connect(index.SCHEMA.path, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    say(project, "b", "needle")
    found = search("needle")
    database.execute("ROLLBACK")
    database.close()
    assert ids(found) == {"a", "b"}
    assert (found.indexing.done, found.indexing.total) == (1, 2)


def test_where_no_index_can_be_search_still_works(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in the way").touch()
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(tmp_path / "in the way"))
    say(project, "a", "needle")
    assert ids(search("needle")) == {"a"}
    assert not update_search_index().is_complete


def test_a_worn_out_index_is_made_anew(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_MOST_DEAD", 3)
    file = say(project, "a", "needle")
    for number in range(6):
        write(file.with_suffix(".tmp"), header(id="a"), *talk(f"needle {number}"))
        os.replace(file.with_suffix(".tmp"), file)
        assert ids(search(f"needle {number}")) == {"a"}
    database = sqlite3.connect(index.SCHEMA.path)
    (dead,) = database.execute("SELECT segments FROM dead").fetchone()
    database.close()
    assert dead < 4


def test_the_index_is_private_and_holds_no_text(project: Path) -> None:
    say(project, "a", "the first prompt, which the catalogue has", "a secret sentence stands here")
    update_search_index()
    for file in Path(sqlite.cache_dir()).iterdir():
        assert file.stat().st_mode & 0o077 == 0
        assert b"secret sentence" not in file.read_bytes()


def test_a_memory_storage_is_searched_as_it_is() -> None:
    storage = MemorySessionStorage()
    folder = os.path.join(get_profile().sessions_dir, "--x--")
    storage.ensure_dir(folder)
    lines = [header(id="a"), *talk("needle")]
    storage.write_atomic(f"{folder}/x.jsonl", b"".join(dump(line) + b"\n" for line in lines))
    assert ids(search("needle", storage=storage)) == {"a"}
    assert ids(search("needle")) == set()


def test_progress_is_told_while_files_are_read(project: Path) -> None:
    for number in range(3):
        say(project, f"s{number}", "needle")
    told: list[tuple[int, int]] = []
    search("🚀", on_progress=lambda *step: told.append(step))
    assert told == [(1, 3), (2, 3), (3, 3)]
