"""What is special to OpenCode: parts, steps, subagents' sessions, and a database in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent_databases import OpenCodeDatabase, opencode_call, opencode_step

from sessiontree.discovery import catalogue
from sessiontree.discovery.adapters import get_adapter
from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.catalogue import databases
from sessiontree.discovery.search import search
from sessiontree.importers.foreign import load_foreign
from sessiontree.storage.base import SessionStorage, SessionStorageReader


@pytest.fixture
def database(home: Path) -> Iterator[OpenCodeDatabase]:
    catalogue.forget_process_memory()
    made = OpenCodeDatabase(home)
    yield made
    made.close()


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def roles(path: str) -> list[str]:
    return [message["role"] for message in load_foreign(path).build_session_context().messages]


def test_an_open_database_is_read_with_its_log(database: OpenCodeDatabase) -> None:
    database.session("ses_1")
    database.prompt("ses_1", "hello")
    assert (database.path.parent / "opencode.db-wal").stat().st_size
    assert [info.first_message for info in list_agent_sessions("opencode")] == ["hello"]
    database.prompt("ses_1", "a walrus")
    assert [info.message_count for info in list_agent_sessions("opencode")] == [2]
    assert len(search("walrus")) == 1


@pytest.mark.parametrize("updated_ms", [40_000_000_000_000, 2**63 - 1, -(2**63)])
def test_a_row_with_a_time_that_no_file_has_hides_no_session(
    database: OpenCodeDatabase, updated_ms: int
) -> None:
    database.session("ses_1", time_updated=updated_ms)
    database.prompt("ses_1", "hello")
    assert [info.first_message for info in list_agent_sessions("opencode")] == ["hello"]
    assert len(search("hello")) == 1


def test_only_the_session_that_changed_is_read_again(
    database: OpenCodeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ses_1", "ses_2", "ses_3"):
        database.session(name)
        database.prompt(name, f"prompt of {name}")
    list_agent_sessions("opencode")
    adapter = get_adapter("opencode")
    original, opened = adapter.open, []

    def noting(path: str, storage: SessionStorage) -> SessionStorageReader:
        opened.append(Path(path).name)
        return original(path, storage)

    monkeypatch.setattr(adapter, "open", noting)
    list_agent_sessions("opencode")
    assert opened == []
    # A part that grows while the model speaks: no new row, the same message.
    database.run("UPDATE part SET data = ?, time_updated = time_updated + 5 WHERE session_id = ?",
                 '{"type":"text","text":"a longer prompt"}', "ses_2")  # fmt: skip
    found = {info.id: info.first_message for info in list_agent_sessions("opencode")}
    assert found["ses_2"] == "a longer prompt"
    assert opened == ["ses_2"]


def test_an_unchanged_database_is_not_even_asked(
    database: OpenCodeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.session("ses_1")
    database.prompt("ses_1", "hello")
    database.close()
    list_agent_sessions("opencode")
    first = databases.recall(str(database.path), ((),) * 3)  # type: ignore[arg-type]
    assert first is None  # other files
    # Some time later:
    monkeypatch.setattr(databases, "_TICK_NS", -(10**18))
    monkeypatch.setattr("sessiontree.discovery.adapters.rows.read_database", None)
    assert [info.first_message for info in list_agent_sessions("opencode")] == ["hello"]


def test_each_step_of_an_answer_is_a_message(database: OpenCodeDatabase) -> None:
    database.session("ses_1")
    database.prompt("ses_1", "go")
    first, end_first = opencode_step("tool-calls")
    second, end_second = opencode_step()
    call = opencode_call("read", {"filePath": "a"}, "lines")
    database.answer("ses_1", first, text("a"), call, end_first, second, text("b"), end_second)
    (info,) = list_agent_sessions("opencode")
    assert roles(info.path) == ["user", "assistant", "toolResult", "assistant"]
    assert info.message_count == 4


def test_undone_messages_stay_as_a_branch(database: OpenCodeDatabase) -> None:
    database.session("ses_1")
    database.prompt("ses_1", "go")
    database.answer("ses_1", text("gone"))
    undone = database.prompt("ses_1", "wrong")
    database.run("UPDATE session SET revert = ?", f'{{"messageID":"{undone}"}}')
    (info,) = list_agent_sessions("opencode")
    assert info.status == "complete"
    assert roles(info.path) == ["user", "assistant"]
    assert len(load_foreign(info.path).get_entries()) > 3


def test_a_compaction_hides_what_came_before_its_tail(database: OpenCodeDatabase) -> None:
    database.session("ses_1")
    database.prompt("ses_1", "first")
    database.answer("ses_1", text("one"))
    tail = database.prompt("ses_1", "second")
    database.answer("ses_1", text("two"))
    asked = database.message(
        "ses_1",
        {"role": "user", "agent": "build", "model": {}},
        {"type": "compaction", "auto": True, "tail_start_id": tail},
    )
    database.answer("ses_1", text("We said one."), summary=True, parentID=asked)
    database.prompt("ses_1", "third")
    (info,) = list_agent_sessions("opencode")
    assert roles(info.path) == ["compactionSummary", "user", "assistant", "user"]


def test_subagents_are_parts_of_their_session_all_the_way_up(database: OpenCodeDatabase) -> None:
    database.session("ses_1")
    database.prompt("ses_1", "go")
    database.session("ses_2", parent_id="ses_1")
    database.prompt("ses_2", "find a quokka")
    database.session("ses_3", parent_id="ses_2")
    database.prompt("ses_3", "find a numbat")
    (info,) = list_agent_sessions("opencode")
    assert (info.id, info.message_count) == ("ses_1", 1)
    assert [hit.session.id for hit in search("numbat")] == ["ses_1"]
    said = str([entry.data for entry in load_foreign(info.path).get_entries()])
    assert "quokka" in said
    assert "numbat" in said
    # Two that name each other are sessions as they are.
    database.run("UPDATE session SET parent_id = 'ses_3' WHERE id = 'ses_1'")
    list_agent_sessions("opencode")


def test_errors_and_interruptions_are_kept(database: OpenCodeDatabase) -> None:
    database.session("ses_1")
    database.prompt("ses_1", "go")
    error = {"name": "APIError", "data": {"message": "overloaded"}}
    database.answer("ses_1", error=error)
    (info,) = list_agent_sessions("opencode")
    assert info.status == "error"
    last = load_foreign(info.path).build_session_context().messages[-1]
    assert (last["stopReason"], last["errorMessage"]) == ("error", "overloaded")
    database.answer("ses_1", text("half"), error={"name": "MessageAbortedError", "data": {}})
    assert list_agent_sessions("opencode")[0].status == "aborted"


def test_odd_ids_are_paths_of_their_own(database: OpenCodeDatabase) -> None:
    names = ["..", ".", "a/b", "a b%2F", "\n", "ü" * 200, "x\x00y"]
    for name in names:
        database.session(name)
        database.prompt(name, "hello")
    found = list_agent_sessions("opencode")
    assert sorted(info.id for info in found) == sorted(names)
    assert len({info.path for info in found}) == len(names)
    assert all(load_foreign(info.path).report.messages == 1 for info in found)


def test_another_place_can_be_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    there = OpenCodeDatabase(home, tmp_path / "data/opencode/opencode.db")
    there.session("ses_1")
    there.prompt("ses_1", "hello")
    assert [info.id for info in list_agent_sessions("opencode")] == ["ses_1"]
    monkeypatch.setenv("OPENCODE_DB", str(tmp_path / "mine.sqlite"))
    mine = OpenCodeDatabase(home, tmp_path / "mine.sqlite")
    mine.session("ses_2")
    mine.prompt("ses_2", "hello")
    found = list_agent_sessions("opencode")
    assert sorted(info.id for info in found) == ["ses_1", "ses_2"]
    assert all(load_foreign(info.path).agent == "opencode" for info in found)
    there.close()
    mine.close()


def test_a_database_that_cannot_be_read_is_named_in_one_line(database: OpenCodeDatabase) -> None:
    database.close()
    good = database.path.read_bytes()
    database.path.write_bytes(good[:4096] + b"\xff" * (len(good) - 4096))
    found = list_agent_sessions("all")
    assert not found
    assert [each.path for each in found.unreadable] == [str(database.path)]
    assert "damaged" in found.unreadable[0].reason
