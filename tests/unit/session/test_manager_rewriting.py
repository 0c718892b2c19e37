"""Rewrites: only what was changed changes, on disk as in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import (
    assistant,
    calling,
    chain,
    header,
    lines,
    message,
    read,
    result,
    said,
    user,
    write,
)

from sessiontree import SessionManager

CALLED = chain(user("1"), calling("call-1", "call-2"), result("call-1"), assistant("4"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "session.jsonl", header(), *CALLED)


# -- rewrite_entries ----------------------------------------


def test_a_changed_entry_is_written_and_the_others_keep_their_bytes(tmp_path: Path) -> None:
    odd = b'{ "type":"future","id":"x","parentId":"a4" ,"timestamp":"t","n":1.0e2}\n'
    file = write(tmp_path / "x.jsonl", header(), *CALLED, odd)
    session = SessionManager.open(file)
    for found in session.get_entries():
        assert found.data["id"]
    found = session.get_entries()[0]
    found.data["message"]["content"] = "changed"
    session.rewrite_entries()
    expected = [message("a1", None, user("changed")), *CALLED[1:]]
    assert file.read_bytes() == lines(header(), *expected, odd)
    assert said(session)[0] == said(SessionManager.open(file))[0] == "changed"


def test_what_was_changed_in_the_context_is_written_too(file: Path) -> None:
    session = SessionManager.open(file)
    session.build_session_context().messages[0]["content"] = "changed"
    session.rewrite_entries()
    assert said(SessionManager.open(file))[0] == "changed"


@pytest.mark.parametrize("is_built", [True, False])
def test_a_replaced_message_is_what_the_model_sees(file: Path, is_built: bool) -> None:
    session = SessionManager.open(file)
    if is_built:
        session.build_session_context()
    session.get_entries()[0].data["message"] = user("another")
    session.rewrite_entries()
    assert said(session)[0] == "another"
    assert said(SessionManager.open(file))[0] == "another"


def test_an_entry_changed_twice_is_written_twice(file: Path) -> None:
    session = SessionManager.open(file)
    for text in ("once", "twice"):
        session.get_entries()[3].data["message"]["content"] = text
        session.rewrite_entries()
        assert said(SessionManager.open(file))[-1] == text


def test_entries_appended_here_can_be_changed_too(file: Path) -> None:
    session = SessionManager.open(file)
    made = session.append_message(user("5"))
    found = session.get_entry(made)
    assert found is not None
    found.data["message"]["content"] = "five"
    session.rewrite_entries()
    session.append_message(user("6"))
    assert said(SessionManager.open(file))[-2:] == ["five", "6"]


def test_a_large_change_is_trimmed(file: Path) -> None:
    session = SessionManager.open(file)
    session.get_entries()[0].data["message"]["content"] = "y" * 600_000
    session.rewrite_entries()
    assert "spilled" in read(file)[1]
    assert file.stat().st_size < 520_000
    assert said(SessionManager.open(file))[0] == "y" * 600_000


def test_a_change_that_json_can_not_say_changes_no_file(file: Path) -> None:
    before = file.read_bytes()
    session = SessionManager.open(file)
    session.get_entries()[0].data["message"] = object()
    with pytest.raises(TypeError):
        session.rewrite_entries()
    assert file.read_bytes() == before
    session.get_entries()[0].data["message"] = user("sound")
    session.rewrite_entries()
    assert said(SessionManager.open(file))[0] == "sound"


def test_a_rewrite_keeps_the_leaf(file: Path) -> None:
    session = SessionManager.open(file)
    session.branch("a2")
    session.rewrite_entries()
    assert session.leaf_id == "a2"
    session.append_message(user("on"))
    assert len(session.get_branch()) == 3


def test_rewriting_an_empty_session_is_fine(tmp_path: Path) -> None:
    SessionManager.in_memory().rewrite_entries()
    session = SessionManager.create("/work", tmp_path)
    session.rewrite_entries()
    session.append_message(user("1"))
    session.rewrite_entries()
    session.append_message(assistant("2"))
    session.rewrite_entries()
    assert said(SessionManager.open(str(session.session_file))) == ["1", "2"]


def test_a_rewrite_is_atomic_and_keeps_the_files_rights(file: Path) -> None:
    file.chmod(0o640)
    inode = file.stat().st_ino
    session = SessionManager.open(file)
    session.rewrite_entries()
    assert file.stat().st_ino != inode
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == [file.name]


# -- tool call arguments ----------------------------------------


def test_the_arguments_of_one_call_are_replaced(file: Path) -> None:
    session = SessionManager.open(file)
    assert session.rewrite_tool_call_args("call-2", {"path": "new"}) is True
    expected = calling("call-1", "call-2")
    expected["content"][1]["arguments"] = {"path": "new"}
    assert file.read_bytes() == lines(
        header(), CALLED[0], message("a2", "a1", expected), *CALLED[2:]
    )
    assert session.build_session_context().messages[1] == expected


def test_the_latest_call_of_that_id_is_meant(file: Path) -> None:
    session = SessionManager.open(file)
    session.append_message(calling("call-1"))
    session.rewrite_tool_call_args("call-1", {"new": True})
    found = [
        record["message"]["content"][0]["arguments"] for record in (read(file)[2], read(file)[5])
    ]
    assert found == [{"command": "ls"}, {"new": True}]


def test_an_unknown_call_changes_nothing(file: Path) -> None:
    before, inode = file.read_bytes(), file.stat().st_ino
    session = SessionManager.open(file)
    assert session.rewrite_tool_call_args("call", {}) is False
    assert session.rewrite_tool_call_args("1", {}) is False
    assert (file.read_bytes(), file.stat().st_ino) == (before, inode)


def test_arguments_change_in_memory_and_in_drafts_too(tmp_path: Path) -> None:
    for session in (SessionManager.in_memory(), SessionManager.create("/work", tmp_path)):
        session.append_message(user("1"))
        session.append_message(calling("call"))
        assert session.rewrite_tool_call_args("call", {"x": 1}) is True
        shown = session.build_session_context().messages[1]["content"][0]
        assert shown["arguments"] == {"x": 1}


@pytest.mark.parametrize("call_id", ["é\U0001f600", 'quo"te\\', "tool|call", "\ud83d"])
def test_ids_of_any_kind_are_found(tmp_path: Path, call_id: str) -> None:
    import json

    escaped = json.dumps(message("a", None, calling(call_id))).encode() + b"\n"
    file = write(tmp_path / "x.jsonl", header(), escaped)
    session = SessionManager.open(file)
    assert session.rewrite_tool_call_args(call_id, {"x": 1}) is True
    assert read(file)[1]["message"]["content"][0]["arguments"] == {"x": 1}


def test_arguments_that_json_can_not_say_change_nothing(file: Path) -> None:
    before = file.read_bytes()
    session = SessionManager.open(file)
    with pytest.raises(TypeError):
        session.rewrite_tool_call_args("call-1", {"x": object()})
    assert file.read_bytes() == before
    shown = session.build_session_context().messages[1]["content"][0]
    assert shown["arguments"] == {"command": "ls"}
