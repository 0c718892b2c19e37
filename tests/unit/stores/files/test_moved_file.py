"""A session's folder is renamed while it is open, as living omp does at its start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.samples import assistant, message, read, user

from sessiontree import SessionManager
from sessiontree.discovery.paths import draft_path, encode_cwd
from sessiontree.profiles import get_profile


@pytest.fixture
def project(home: Path) -> Path:
    """A project that has sessions under the older spelling of its folder's name."""
    folder = home / "src" / "pi"
    folder.mkdir(parents=True)
    older_folder(folder).mkdir(parents=True)
    return folder


def older_folder(project: Path) -> Path:
    return Path(get_profile("omp").sessions_dir) / encode_cwd(project)


def opened(project: Path, *, is_answered: bool = True) -> SessionManager:
    session = SessionManager.create(project, profile="omp")
    session.append_message(user("first"))
    if is_answered:
        session.append_message(assistant("answer"))
    return session


def file_of(session: SessionManager) -> Path:
    assert session.session_file is not None
    return Path(session.session_file)


def rename_folder(session: SessionManager) -> Path:
    """What omp's migration does where no folder of the newer name is there."""
    before = file_of(session).parent
    return before.rename(before.with_name("-src-pi"))


def merge_folder(session: SessionManager) -> Path:
    """What it does where there is one: file by file."""
    before = file_of(session).parent
    after = before.with_name("-src-pi")
    after.mkdir()
    for item in list(before.iterdir()):
        item.rename(after / item.name)
    before.rmdir()
    return after


def texts_of(session: SessionManager) -> list[object]:
    return [entry.data["message"]["content"] for entry in session.get_entries()]


@pytest.mark.parametrize("migrate", [rename_folder, merge_folder])
def test_an_open_session_goes_on_where_its_file_was_moved(project: Path, migrate: object) -> None:
    with opened(project) as session:
        before = file_of(session)
        after = migrate(session)  # type: ignore[operator]
        session.append_message(user("second"))
        assert file_of(session) == after / before.name
        assert not before.parent.exists()
        assert [line["type"] for line in read(after / before.name)] == ["session"] + ["message"] * 3
        assert any("moved by another program" in told.reason for told in session.warnings)
    assert not before.parent.exists()


def test_what_others_appended_there_is_taken_in(project: Path) -> None:
    with opened(project) as session:
        after = rename_folder(session) / file_of(session).name
        with after.open("ab") as out:
            out.write(b"")
        theirs = message("abcd0001", session.leaf_id, user("theirs"))
        with SessionManager.open(after, profile="omp") as other:
            other.append_message(theirs["message"])
        assert session.refresh() == 1
        session.append_message(user("ours"))
        assert texts_of(session)[2:] == ["theirs", "ours"]
        assert len(read(after)) == 5


def test_a_prompt_without_an_answer_is_followed_too(project: Path) -> None:
    with opened(project, is_answered=False) as session:
        before = file_of(session)
        after = rename_folder(session)
        session.append_message(user("second"))
        assert Path(draft_path(after / before.name)).exists()
        session.append_message(assistant("answer"))
        assert (after / before.name).exists()
        assert os.listdir(after) == [before.name]
    assert not before.parent.exists()


def test_a_new_name_and_a_new_session_go_to_the_new_folder(project: Path) -> None:
    with opened(project) as session:
        after = rename_folder(session)
        session.set_session_name("Named")
        assert read(file_of(session))[0]["title"] == "Named"
        session.new_session()
        session.append_message(user("x"))
        session.append_message(assistant("y"))
        assert file_of(session).parent == after


def test_closing_leaves_nothing_in_the_old_place(project: Path) -> None:
    session = opened(project)
    before = file_of(session)
    first = session.get_entries()[0].id
    session.branch(first)
    after = rename_folder(session)
    session.close()
    assert not before.parent.exists()
    with SessionManager.open(after / before.name, profile="omp") as again:
        assert again.leaf_entry is not None
        assert again.leaf_entry.parent_id == first


def test_a_copy_of_the_same_name_is_not_the_session(project: Path) -> None:
    with opened(project) as session:
        before = file_of(session)
        copy = before.parent.with_name("-elsewhere") / before.name
        copy.parent.mkdir()
        shutil.copy(before, copy)
        kept = copy.read_bytes()
        before.unlink()
        session.append_message(user("second"))
        assert file_of(session) == before
        assert len(read(before)) == 4
        assert copy.read_bytes() == kept


def test_a_moved_session_is_continued_in_its_new_place(project: Path) -> None:
    with opened(project) as session:
        after = rename_folder(session)
    with SessionManager.continue_recent(project, profile="omp") as again:
        assert file_of(again) == after / file_of(session).name
        assert len(texts_of(again)) == 2
