"""A session that is moved back to where a move has left a link is neither lost nor overwritten."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.samples import assistant, lines, message, user

from sessiontree import FileSessionStorage, SessionManager
from sessiontree.errors import PersistenceError
from sessiontree.stores.files.rerooting import reroot_session


def test_a_session_that_is_open_elsewhere_can_be_moved_back(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    other = SessionManager.create(here)
    made = [other.append_message(user("question")), other.append_message(assistant("answer"))]
    first = str(other.session_file)
    session = SessionManager.open(first)
    session.move_to(there)
    second = str(session.session_file)
    if not os.path.lexists(first):
        os.symlink(second, first)  # as is left where a program has it open
    session.move_to(here)
    assert session.session_file == first
    session.close()
    assert not os.path.islink(first)
    assert [entry.id for entry in SessionManager.open(first).get_entries()][:2] == made


def move_in_manager(now: str, here: Path) -> None:
    with SessionManager.open(now) as session:
        session.move_to(here)


def move_file(now: str, here: Path) -> None:
    first = os.path.join(os.path.dirname(os.path.dirname(now)), "first", os.path.basename(now))
    reroot_session(FileSessionStorage(), now, first, str(here), {})


@pytest.fixture
def moved(tmp_path: Path) -> tuple[str, str]:
    """The place where a session is now, and the link to it where it was."""
    folders = [tmp_path / "sessions" / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir(parents=True)
    with SessionManager.create(tmp_path / "there", session_dir=folders[1]) as session:
        session.append_message(user("question"))
        session.append_message(assistant("answer"))
        now = str(session.session_file)
    link = str(folders[0] / os.path.basename(now))
    os.symlink(now, link)
    return now, link


def meddle(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Let another program do something whenever a file was written and before it has its place."""
    write_atomic = FileSessionStorage.write_atomic

    def write(self: FileSessionStorage, *given: object, **options: object) -> object:
        work()
        found = write_atomic(self, *given, **options)  # type: ignore[arg-type]
        work()
        return found

    monkeypatch.setattr(FileSessionStorage, "write_atomic", write)


def test_a_program_that_finds_it_through_the_link_loses_no_line_when_it_is_moved_back(
    tmp_path: Path, moved: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pi opens the file by its name for each line, and makes one where there is none."""
    now, link = moved
    with SessionManager.open(now) as session:
        last = session.leaf_id
    said: list[str] = []

    def speak() -> None:
        made = message(f"said{len(said):04}", said[-1] if said else last, user("and"))
        with open(link, "ab") as file:
            file.write(lines(made))
        said.append(str(made["id"]))

    meddle(monkeypatch, speak)
    move_file(now, tmp_path / "here")
    monkeypatch.undo()
    speak()
    assert len(said) == 3
    assert not os.path.islink(link)
    assert not os.path.exists(now)
    with SessionManager.open(link) as session:
        assert [entry.id for entry in session.get_branch(said[-1])][-3:] == said
        assert session.cwd == str(tmp_path / "here")


@pytest.fixture
def session(tmp_path: Path) -> SessionManager:
    """An open session that was moved, with a link in its first place."""
    session = SessionManager.create(tmp_path / "here")
    session.append_message(user("question"))
    session.append_message(assistant("answer"))
    first = str(session.session_file)
    session.move_to(tmp_path / "there")
    if not os.path.lexists(first):
        os.symlink(str(session.session_file), first)
    return session


def link_to(session: SessionManager) -> str:
    (link,) = Path(str(session.session_file)).parents[1].glob("*-here--/*.jsonl")
    return str(link)


def test_the_same_with_an_open_session(
    tmp_path: Path, session: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = link_to(session)
    said: list[str] = []

    def speak() -> None:
        made = message(f"said{len(said):04}", said[-1] if said else session.leaf_id, user("and"))
        with open(link, "ab") as file:
            file.write(lines(made))
        said.append(str(made["id"]))

    meddle(monkeypatch, speak)
    session.move_to(tmp_path / "here")
    monkeypatch.undo()
    session.close()
    assert said
    assert not os.path.islink(link)
    with SessionManager.open(link) as again:
        assert set(said) <= {entry.id for entry in again.get_branch(said[-1])}


def refuse_places(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: FileSessionStorage, source: str, target: str, **options: object) -> None:
        raise OSError(5, "input/output error", target)

    monkeypatch.setattr(FileSessionStorage, "rename", refuse)


def test_a_move_back_that_fails_leaves_the_link_and_no_copy(
    tmp_path: Path, moved: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, link = moved
    before = Path(now).read_bytes()
    refuse_places(monkeypatch)
    with pytest.raises(OSError, match="input/output"):
        move_file(now, tmp_path / "here")
    assert os.path.islink(link)
    assert Path(now).read_bytes() == before
    assert os.listdir(os.path.dirname(link)) == [os.path.basename(link)]


def test_an_open_session_that_can_not_move_back_stays_with_its_link(
    tmp_path: Path, session: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, link = str(session.session_file), link_to(session)
    refuse_places(monkeypatch)
    with pytest.raises(PersistenceError):
        session.move_to(tmp_path / "here")
    monkeypatch.undo()
    session.recover()
    assert session.session_file == now
    assert os.path.realpath(link) == now
    assert os.listdir(os.path.dirname(link)) == [os.path.basename(link)]
