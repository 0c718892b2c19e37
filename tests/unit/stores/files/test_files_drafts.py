"""Before the first answer: a hidden draft keeps what was typed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests import processes
from tests.samples import assistant, read, said, user

from sessiontree import FileSessionStorage, FileStore, SessionManager, SessionStorageReader
from sessiontree.testing import FaultyStorage

TYPED = """
import sys
from sessiontree import SessionManager
session = SessionManager.create(sys.argv[1], sys.argv[2])
session.append_model_change("a/b")
session.append_message({"role": "user", "content": "a precious prompt", "timestamp": 1})
print(session.session_file, flush=True)
print("typed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def the_draft(folder: Path) -> Path:
    (name,) = os.listdir(folder)
    assert name.startswith(".")
    assert name.endswith(".jsonl.draft")
    return folder / name


def kill_after_typing(folder: Path) -> str:
    process = processes.start(TYPED, "/work", folder)
    assert process.stdout is not None
    file = process.stdout.readline().strip()
    processes.wait_for(process, "typed")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return file


def test_what_is_typed_is_in_a_hidden_draft_beside_the_file_to_be(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    session.append_message(user("prompt"))
    file = Path(str(session.session_file))
    assert the_draft(folder).name == f".{file.name}.draft"
    assert [record["type"] for record in read(the_draft(folder))] == ["session", "message"]
    assert said(session) == ["prompt"]


def test_a_process_killed_before_the_answer_loses_no_prompt(folder: Path) -> None:
    file = kill_after_typing(folder)
    assert not Path(file).exists()
    session = SessionManager.open(the_draft(folder))
    assert said(session) == ["a precious prompt"]
    assert session.session_file == file


def test_continue_recent_finds_the_draft_and_goes_on_with_it(folder: Path) -> None:
    file = kill_after_typing(folder)
    session = SessionManager.continue_recent("/work", folder)
    assert said(session) == ["a precious prompt"]
    session.append_message(assistant("at last"))
    assert session.session_file == file
    assert os.listdir(folder) == [Path(file).name]
    assert [record["type"] for record in read(file)] == [
        *["session", "model_change", "message", "message"]
    ]


def test_continue_recent_of_another_project_leaves_the_draft_alone(folder: Path) -> None:
    kill_after_typing(folder)
    session = SessionManager.continue_recent("/elsewhere", folder)
    assert session.get_entries() == []


def test_listings_do_not_show_drafts(folder: Path) -> None:
    kill_after_typing(folder)
    assert SessionManager.list("/work", folder) == []


def test_the_draft_is_gone_once_the_session_file_exists(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    session.append_message(user("1"))
    session.append_message(assistant("2"))
    assert os.listdir(folder) == [Path(str(session.session_file)).name]


def test_at_no_moment_is_there_neither_draft_nor_file(folder: Path) -> None:
    """The draft becomes the file in one rename: the inode is the same."""
    session = SessionManager.create("/work", folder)
    session.append_message(user("1"))
    inode = the_draft(folder).stat().st_ino
    session.append_message(assistant("2"))
    assert Path(str(session.session_file)).stat().st_ino == inode


def test_a_draft_is_synced_by_a_flush(folder: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.create("/work", folder, storage=storage)
    session.append_message(user("1"))
    session.flush()
    assert storage.calls["fsync"] == 1


def test_a_closed_session_with_a_prompt_keeps_its_draft(folder: Path) -> None:
    with SessionManager.create("/work", folder) as session:
        session.append_message(user("still here"))
    assert said(SessionManager.open(the_draft(folder))) == ["still here"]


def test_a_closed_session_in_which_nothing_was_said_leaves_nothing(folder: Path) -> None:
    with SessionManager.create("/work", folder) as session:
        session.append_model_change("a/b")
        session.append_thinking_level_change("high")
    assert os.listdir(folder) == []


def test_a_name_given_before_the_answer_is_kept(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    session.set_session_name("early")
    session.append_message(user("1"))
    session.set_session_name("later")
    assert read(the_draft(folder))[0]["title"] == "later"
    session.append_message(assistant("2"))
    assert read(str(session.session_file))[0]["title"] == "later"
    assert SessionManager.open(str(session.session_file)).session_name == "later"


def test_a_prompt_on_another_branch_is_kept_too(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    session.append_message(user("1"))
    session.reset_leaf()
    session.append_message(user("2"))
    session.append_message(assistant("3"))
    again = SessionManager.open(str(session.session_file))
    assert said(again) == ["2", "3"]
    assert len(again.get_tree()) == 2


def test_opening_a_draft_whose_session_exists_gives_the_session(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    session.append_message(user("1"))
    draft = the_draft(folder)
    session.append_message(assistant("2"))
    again = SessionManager.open(draft)
    assert said(again) == ["1", "2"]
    assert again.session_file == session.session_file


def test_two_windows_on_one_draft_lose_nothing(folder: Path) -> None:
    one = SessionManager.create("/work", folder)
    one.append_message(user("question"))
    two = SessionManager.open(the_draft(folder))
    made = [one.append_message(assistant("one")), one.append_message(user("more"))]
    one.close()
    made.append(two.append_message(assistant("two")))
    made.append(two.append_message(user("more of two")))
    two.close()
    assert os.listdir(folder) == [Path(str(one.session_file)).name]
    again = SessionManager.open(str(one.session_file))
    assert set(made) <= {found.id for found in again.get_entries()}
    assert said(again) == ["question", "two", "more of two"]


def test_two_windows_answered_at_the_same_time_lose_nothing(folder: Path) -> None:
    one = SessionManager.create("/work", folder)
    one.append_message(user("question"))
    two = SessionManager.open(the_draft(folder))
    made = []
    for number in range(3):
        made += [two.append_message(assistant(f"two {number}"))]
        made += [one.append_message(assistant(f"one {number}"))]
    assert one.session_file == two.session_file
    assert os.listdir(folder) == [Path(str(one.session_file)).name]
    again = SessionManager.open(str(one.session_file))
    assert set(made) <= {found.id for found in again.get_entries()}


def test_a_draft_deleted_under_us_is_written_anew(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    session.append_message(user("1"))
    the_draft(folder).unlink()
    session.append_message(user("2"))
    assert len(read(the_draft(folder))) == 3
    session.append_message(assistant("3"))
    assert said(SessionManager.open(str(session.session_file))) == ["1", "2", "3"]


def test_a_torn_draft_loses_only_its_torn_line(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    session.append_message(user("1"))
    session.append_message(user("2"))
    draft = the_draft(folder)
    draft.write_bytes(draft.read_bytes()[:-10])
    again = SessionManager.open(draft)
    assert said(again) == ["1"]
    again.append_message(assistant("3"))
    assert said(SessionManager.open(str(again.session_file))) == ["1", "3"]


def test_an_empty_draft_is_no_session_and_the_file_asked_for_begins(tmp_path: Path) -> None:
    """A full disk left it: the draft was made, and its header could not be written."""
    file = tmp_path / "2026-02-16T10-20-30-000Z_abc.jsonl"
    (tmp_path / f".{file.name}.draft").touch()
    session = SessionManager.open(file)
    assert session.session_file == str(file)
    assert session.session_id == "abc"
    session.append_message(user("1"))
    assert len(file.read_bytes().splitlines()) == 2


def test_a_draft_made_of_another_leaves_nothing_if_nothing_was_said(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    leaf = session.append_model_change("a/b")
    session.create_branched_session(leaf)
    session.append_model_change("c/d")
    session.close()
    assert os.listdir(folder) == []


@pytest.mark.parametrize("is_opened", [True, False])
def test_a_draft_that_gets_its_first_answer_while_it_is_opened_is_found(
    folder: Path, is_opened: bool
) -> None:
    class AnswersFirst(FileSessionStorage):
        def open_reader(self, path: str | os.PathLike[str]) -> SessionStorageReader:
            if os.fspath(path).endswith(".draft") and not answered:
                answered.append(session.append_message(assistant("answer")))
            return super().open_reader(path)

    answered: list[str] = []
    session = SessionManager.create("/work", folder)
    session.append_message(user("prompt"))
    store = FileStore(AnswersFirst(), session_dir=folder)
    log = store.open(session.ref) if is_opened else store.read(session.ref)
    assert answered
    assert [entry.id for entry in log.tree.entries] == [e.id for e in session.get_entries()]
    assert not log.is_draft
    assert log.ref == session.ref
    log.close()
    session.close()
