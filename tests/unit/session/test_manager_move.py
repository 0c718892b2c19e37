"""Moving a session to another project: file, artifacts and header, all of it or nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.samples import assistant, read, said, slot, user, with_artifacts, write

from sessiontree import FileSessionStorage, PersistenceError, SessionManager
from sessiontree.testing import FaultyStorage


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage(FileSessionStorage())


@pytest.fixture
def session(storage: FaultyStorage) -> SessionManager:
    return with_artifacts(SessionManager.create("/work/old", storage=storage))


def files(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and ".cache" not in path.parts
    }


def test_file_artifacts_and_header_move_together(session: SessionManager, home: Path) -> None:
    old = Path(str(session.session_file))
    session.move_to("/work/new")
    new = Path(str(session.session_file))
    assert new == home / ".sessiontree/agent/sessions/--work-new--" / old.name
    assert session.cwd == "/work/new"
    assert session.session_dir == str(new.parent)
    assert read(new)[0]["cwd"] == "/work/new"
    assert not old.exists()
    assert not old.with_suffix("").exists()
    assert (new.with_suffix("") / "todo.json").read_text() == "{}"
    assert session.artifacts_dir == str(new.with_suffix(""))


def test_a_moved_session_goes_on(session: SessionManager) -> None:
    identity = session.session_id
    session.move_to("/work/new")
    session.append_message(user("3"))
    session.close()
    again = SessionManager.open(str(session.session_file))
    assert said(again) == ["1", "2", "3"]
    assert again.session_id == identity
    assert again.cwd == "/work/new"


def test_a_session_in_a_folder_of_its_own_stays_there(tmp_path: Path) -> None:
    session = SessionManager.create("/work/old", tmp_path)
    session.append_message(assistant("1"))
    file = session.session_file
    session.move_to("/work/new")
    assert session.session_file == file
    assert read(str(file))[0]["cwd"] == "/work/new"
    assert session.cwd == "/work/new"
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.parametrize(
    ("operation", "path_part"),
    [
        ("ensure_dir", "--work-new--"),
        ("write_atomic", "--work-new--"),
        ("rename", "--work-new--"),
        ("unlink", "--work-old--"),
    ],
)
def test_a_move_that_fails_is_taken_back_as_a_whole(
    session: SessionManager, storage: FaultyStorage, home: Path, operation: str, path_part: str
) -> None:
    before = files(home)
    place = (session.session_file, session.cwd, session.session_dir, dict(session.header))
    storage.fail(operation, errno.EIO, path_part=path_part)
    with pytest.raises(PersistenceError):
        session.move_to("/work/new")
    assert files(home) == before
    assert (
        session.session_file,
        session.cwd,
        session.session_dir,
        dict(session.header),
    ) == place
    session.recover()
    session.append_message(user("3"))
    assert said(SessionManager.open(str(session.session_file))) == ["1", "2", "3"]
    session.move_to("/work/new")
    assert session.cwd == "/work/new"


def test_nothing_that_is_there_already_is_overwritten(session: SessionManager, home: Path) -> None:
    name = Path(str(session.session_file)).name
    target = home / ".sessiontree/agent/sessions/--work-new--" / name
    target.parent.mkdir()
    target.write_bytes(b"somebody else's")
    before = session.session_file
    with pytest.raises(PersistenceError, match="already"):
        session.move_to("/work/new")
    assert target.read_bytes() == b"somebody else's"
    assert session.session_file == before
    assert (session.cwd, session.header["cwd"]) == ("/work/old", "/work/old")


def test_artifacts_that_are_there_already_stop_the_move(
    session: SessionManager, home: Path
) -> None:
    name = Path(str(session.session_file)).stem
    target = home / ".sessiontree/agent/sessions/--work-new--" / name
    target.mkdir(parents=True)
    (target / "todo.json").write_text("somebody else's")
    before = files(home)
    with pytest.raises(PersistenceError):
        session.move_to("/work/new")
    assert files(home) == before
    session.append_message(user("3"))


def test_a_new_session_moves_before_it_has_a_file(home: Path) -> None:
    session = SessionManager.create("/work/old")
    session.move_to("/work/new")
    session.append_message(assistant("1"))
    file = Path(str(session.session_file))
    assert file.parent.name == "--work-new--"
    assert read(file)[0]["cwd"] == "/work/new"


def test_a_draft_moves_as_a_draft(home: Path) -> None:
    session = SessionManager.create("/work/old")
    session.append_message(user("1"))
    session.move_to("/work/new")
    root = home / ".sessiontree/agent/sessions"
    assert os.listdir(root / "--work-old--") == []
    (draft,) = os.listdir(root / "--work-new--")
    assert draft.endswith(".draft")
    session.append_message(assistant("2"))
    assert said(SessionManager.open(str(session.session_file))) == ["1", "2"]
    assert os.listdir(root / "--work-new--") == [Path(str(session.session_file)).name]


def test_a_session_in_memory_moves_too() -> None:
    session = SessionManager.in_memory("/work/old")
    session.move_to("/work/new")
    assert (session.cwd, session.header["cwd"]) == ("/work/new", "/work/new")


def test_a_title_slot_moves_along(home: Path) -> None:
    from tests.samples import chain, header

    folder = home / ".omp/agent/sessions/--work-old--"
    file = write(folder / "x.jsonl", slot("Title"), header(cwd="/work/old"), *chain(assistant("1")))
    session = SessionManager.open(file)
    session.move_to("/work/new")
    moved = Path(str(session.session_file))
    assert moved.parent == home / ".omp/agent/sessions/--work-new--"
    assert moved.read_bytes().startswith(slot("Title"))
    assert SessionManager.open(moved).session_name == "Title"


def test_what_others_appended_moves_along(session: SessionManager) -> None:
    from tests.samples import dump, message

    with Path(str(session.session_file)).open("ab") as out:
        out.write(dump(message("f", session.leaf_id, user("foreign"))) + b"\n")
    session.move_to("/work/new")
    assert "f" in [record["id"] for record in read(str(session.session_file))]
