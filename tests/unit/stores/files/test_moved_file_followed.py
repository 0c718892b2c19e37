"""A session that is moved while others have it open: they follow it, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.samples import assistant, chain, header, lines, message, read, texts, user, write

from sessiontree import FileSessionStorage, SessionManager
from sessiontree.maintenance.checkup import check_profile
from sessiontree.profiles import get_profile
from sessiontree.stores.files.rerooting import reroot_session

NAME = "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl"


@pytest.fixture(autouse=True)
def _agent_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(tmp_path / "agent"))


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "sessions"


@pytest.fixture
def old(sessions: Path) -> Path:
    talk = chain(user("1"), assistant("2"))
    return write(sessions / "--work-old--" / NAME, header(cwd="/work/old"), *talk)


@pytest.fixture
def new(sessions: Path) -> Path:
    return sessions / "--work-new--" / NAME


def move(old: Path, new: Path, *, leave_link: bool = False) -> None:
    storage = FileSessionStorage()
    reroot_session(storage, str(old), str(new), "/work/new", {}, leave_link=leave_link)


def said_in(file: Path) -> list[str]:
    with SessionManager.open(file) as session:
        return texts(session.build_session_context().messages)


@pytest.mark.parametrize("leave_link", [False, True])
def test_another_window_goes_on_in_the_new_place(old: Path, new: Path, leave_link: bool) -> None:
    window = SessionManager.open(old)
    window.append_message(user("3"))
    move(old, new, leave_link=leave_link)
    window.append_message(assistant("4"))
    assert window.session_file == str(new)
    assert window.cwd == "/work/new"
    assert window.session_dir == str(new.parent)
    assert any("has moved the session to" in str(warning) for warning in window.warnings)
    window.close()
    assert said_in(new) == ["1", "2", "3", "4"]
    assert os.path.islink(old) == leave_link
    assert leave_link or not old.exists()


def test_a_window_that_only_looks_follows_too(old: Path, new: Path) -> None:
    window = SessionManager.open(old)
    move(old, new)
    with SessionManager.open(new) as other:
        other.append_message(user("3"))
    assert window.refresh() == 1
    assert window.session_file == str(new)
    window.close()
    assert not old.exists()


def test_a_window_follows_one_that_is_moved_by_its_manager(old: Path, new: Path) -> None:
    window, mover = SessionManager.open(old), SessionManager.open(old)
    mover.move_to("/work/new")
    assert mover.session_file == str(new)
    window.append_message(user("3"))
    mover.append_message(user("also 3"))
    window.close()
    mover.close()
    assert not old.exists()
    assert b"also 3" in new.read_bytes()
    assert said_in(new)[:2] == ["1", "2"]
    assert len([record for record in read(new) if record["type"] == "message"]) == 4


def test_it_follows_two_moves(old: Path, new: Path, sessions: Path) -> None:
    window = SessionManager.open(old)
    move(old, new)
    newest = sessions / "--work-newest--" / NAME
    move(new, newest)
    window.append_message(user("3"))
    window.close()
    assert window.session_file == str(newest)
    assert said_in(newest) == ["1", "2", "3"]


def test_a_file_that_was_only_deleted_is_written_again(old: Path) -> None:
    window = SessionManager.open(old)
    old.unlink()
    window.append_message(user("3"))
    window.close()
    assert said_in(old) == ["1", "2", "3"]


def test_lines_that_come_during_a_move_are_moved_too(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = os.open(old, os.O_WRONLY | os.O_APPEND)
    write_atomic = FileSessionStorage.write_atomic

    def write_and_meddle(self: FileSessionStorage, *given: object, **options: object) -> object:
        found = write_atomic(self, *given, **options)  # type: ignore[arg-type]
        os.write(fd, lines(message("f1", "a2", user("3"))))
        return found

    monkeypatch.setattr(FileSessionStorage, "write_atomic", write_and_meddle)
    move(old, new)
    monkeypatch.undo()
    os.close(fd)
    assert [record["id"] for record in read(new)[1:]] == ["a1", "a2", "f1"]
    assert b"moved" not in new.read_bytes()


def test_a_link_that_a_move_leaves_leads_others_to_the_file_and_is_not_listed(
    old: Path, new: Path
) -> None:
    move(old, new, leave_link=True)
    with old.open("ab") as out:  # as pi does it, by the name that it knows
        out.write(lines(message("f1", "a2", user("3"))))
    assert said_in(new) == ["1", "2", "3"]
    assert [info.path for info in SessionManager.list_all()] == [str(new)]


def test_doctor_finds_two_files_that_are_one_session(old: Path, new: Path) -> None:
    assert not check_profile(get_profile("sessiontree")).problems
    new.parent.mkdir()
    new.write_bytes(old.read_bytes())
    (finding,) = check_profile(get_profile("sessiontree")).problems
    assert finding.kind == "same session"
    assert finding.path == str(old)  # the later one by name
    assert str(new) in finding.text


def test_a_backup_that_shares_the_file_gets_no_note_of_the_move(
    old: Path, new: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup.jsonl"
    os.link(old, backup)
    content = backup.read_bytes()
    move(old, new)
    assert backup.read_bytes() == content


@pytest.mark.parametrize("is_by_manager", [True, False])
def test_half_a_line_of_a_crash_becomes_no_entry_of_the_moved_session(
    old: Path, new: Path, is_by_manager: bool
) -> None:
    with old.open("ab") as file:
        file.write(b"\0\0\0")
    if is_by_manager:
        with SessionManager.open(old) as session:
            session.move_to("/work/new")
    else:
        move(old, new)
    assert said_in(new) == ["1", "2"]
    assert b"sessiontree.moved" not in new.read_bytes()
