"""When the system says no: one clear error, nothing lost, and a way on."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import processes
from tests.samples import (
    assistant,
    calling,
    chain,
    header,
    lines,
    message,
    read,
    said,
    slot,
    user,
    write,
)

from sessiontree import FileSessionStorage, PersistenceError, SessionManager
from sessiontree.core.tree import SessionTree
from sessiontree.storage import locks
from sessiontree.testing import FaultyStorage

CALLED = chain(user("1"), assistant("2"), calling("call"), user("4"))
WHOLE = lines(header(), *CALLED)
CODES = [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "session.jsonl", header(), *CALLED)


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage(FileSessionStorage())


@pytest.fixture
def session(file: Path, storage: FaultyStorage) -> SessionManager:
    return SessionManager.open(file, storage=storage)


def assert_same(found: PersistenceError, error: PersistenceError) -> None:
    """The error that was latched, raised once more: as a copy, which refers to no open file."""
    assert (type(found), str(found), found.path) == (type(error), str(error), error.path)
    assert str(found.__cause__) == str(error.__cause__)


def state(session: SessionManager) -> Any:
    """All that a failed operation must leave as it was."""
    return (
        session.session_file,
        session.session_id,
        session.cwd,
        dict(session.header),
        session.session_name,
        session.leaf_id,
        [found.id for found in session.get_entries()],
        session.build_session_context(),
    )


# -- appends ----------------------------------------


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("operation", ["write_line", "lock", "open_writer"])
def test_a_failed_append_is_one_clear_error_and_changes_nothing(
    session: SessionManager, storage: FaultyStorage, file: Path, operation: str, code: int
) -> None:
    before = state(session)
    storage.fail(operation, code)
    with pytest.raises(PersistenceError, match=rf"session\.jsonl: {os.strerror(code)}") as caught:
        session.append_message(user("lost?"))
    assert caught.value.path == str(file)
    assert isinstance(caught.value.__cause__, OSError)
    assert state(session) == before
    assert file.read_bytes() == WHOLE


def test_an_error_stays_until_it_is_recovered_from(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError) as first:
        session.append_message(user("x"))
    later: list[Callable[[], object]] = [
        lambda: session.append_message(user("y")),
        lambda: session.append_label_change("a1", "x"),
        lambda: session.branch("a1"),
        lambda: session.branch("nowhere"),
        session.reset_leaf,
        lambda: session.branch_with_summary("a1", "x"),
        lambda: session.set_session_name("name"),
        session.rewrite_entries,
        session.flush,
        session.refresh,
        lambda: session.move_to("/elsewhere"),
        session.fork,
        lambda: session.create_branched_session("a2"),
        lambda: session.rewrite_tool_call_args("call", {}),
        lambda: session.rewrite_tool_call_args("no such call", {}),
        session.close,
    ]
    before = state(session)
    for work in later:
        with pytest.raises(PersistenceError) as again:
            work()
        assert_same(again.value, first.value)
        assert state(session) == before
    assert file.read_bytes() == WHOLE
    assert said(session) == ["1", "2", "<toolCall>", "4"]
    session.recover()
    session.append_message(user("5"))
    session.close()
    assert said(SessionManager.open(file))[-1] == "5"


def test_after_an_error_everything_can_still_be_read(
    session: SessionManager, storage: FaultyStorage
) -> None:
    session.append_label_change("a1", "here")

    def look() -> list[object]:
        return [
            session.build_session_context(),
            [entry.data for entry in session.get_entries()],
            [entry.id for entry in session.get_branch("a2")],
            [node.entry.id for node in session.get_tree()],
            [entry.id for entry in session.get_children("a1")],
            (session.get_label("a1"), session.leaf_id, session.session_name, session.header),
        ]

    before = look()
    storage.fail("write_line", errno.ENOSPC, times=None)
    with pytest.raises(PersistenceError):
        session.append_message(user("x"))
    assert look() == before
    with pytest.raises(PersistenceError):
        session.close()
    assert look() == before


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_session_whose_first_entry_failed_says_so_too(
    tmp_path: Path, storage: FaultyStorage, is_removed: bool
) -> None:
    session = SessionManager.create("/work", tmp_path / "new", storage=storage)
    storage.fail("open_writer", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.append_message(user("x"))
    if is_removed:
        shutil.rmtree(tmp_path / "new")
    before = state(session)
    for work in (session.flush, session.fork, lambda: session.move_to("/elsewhere"), session.close):
        with pytest.raises(PersistenceError):
            work()
    assert state(session) == before
    session.recover()
    session.append_message(user("1"))
    session.append_message(assistant("2"))
    session.flush()
    assert said(SessionManager.open(str(session.session_file))) == ["1", "2"]


@pytest.mark.parametrize("way_out", ["new_session", "set_session_file"])
def test_another_session_is_a_way_out(
    session: SessionManager, storage: FaultyStorage, tmp_path: Path, way_out: str
) -> None:
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.append_message(user("x"))
    if way_out == "new_session":
        session.new_session()
    else:
        session.set_session_file(tmp_path / "other.jsonl")
    session.append_message(user("on"))
    session.reset_leaf()
    session.close()


def test_the_first_error_is_logged_once_with_the_file(
    session: SessionManager, storage: FaultyStorage, caplog: pytest.LogCaptureFixture
) -> None:
    storage.fail("write_line", errno.EIO, times=None)
    for _ in range(3):
        with pytest.raises(PersistenceError):
            session.append_message(user("x"))
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "session.jsonl" in errors[0].getMessage()


def test_recovering_while_the_cause_is_there_leads_to_the_same_error(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    storage.fail("write_line", errno.ENOSPC, times=None)
    for _ in range(3):
        with pytest.raises(PersistenceError):
            session.append_message(user("x"))
        session.recover()
    assert file.read_bytes() == WHOLE


@pytest.mark.parametrize("keep", [1, 30, 200])
def test_half_a_line_on_a_full_disk_is_never_glued_to(
    session: SessionManager, storage: FaultyStorage, file: Path, keep: int
) -> None:
    storage.fail("write_line", errno.ENOSPC, keep=keep)
    with pytest.raises(PersistenceError):
        session.append_message(user("torn " * 100))
    session.recover()
    session.append_message(user("5"))
    session.append_message(user("6"))
    session.close()
    again = SessionManager.open(file)
    assert said(again) == ["1", "2", "<toolCall>", "4", "5", "6"]
    assert said(session) == said(again)


def test_a_close_raises_the_error_and_lets_go_of_the_file(
    session: SessionManager, storage: FaultyStorage
) -> None:
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError) as first:
        session.append_message(user("x"))
    opened = storage.calls["open_writer"]
    with pytest.raises(PersistenceError) as closing:
        session.close()
    assert_same(closing.value, first.value)
    assert storage.calls["close"] == opened


def test_a_close_that_can_not_mark_the_leaf_says_so(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    session.branch("a2")
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.close()
    assert file.read_bytes() == WHOLE


def test_an_error_inside_a_with_block_is_the_one_that_is_raised(
    file: Path, storage: FaultyStorage
) -> None:
    storage.fail("write_line", errno.ENOSPC, times=None)
    session = SessionManager.open(file, storage=storage)
    session.branch("a2")
    with pytest.raises(ZeroDivisionError), session:
        raise ZeroDivisionError


def test_another_session_is_free_of_the_error(
    session: SessionManager, storage: FaultyStorage, tmp_path: Path
) -> None:
    other = write(tmp_path / "other.jsonl", header(id="other"), message("o", None, assistant("o")))
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.append_message(user("x"))
    session.set_session_file(other)
    session.append_message(user("on"))
    assert said(SessionManager.open(other)) == ["o", "on"]


def test_a_new_session_is_free_of_the_error(
    session: SessionManager, storage: FaultyStorage
) -> None:
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.append_message(user("x"))
    session.new_session()
    session.append_message(assistant("on"))
    assert len(read(str(session.session_file))) == 2


# -- syncing ----------------------------------------


def test_a_failed_sync_is_an_error_and_recovering_writes_all_anew(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    """After a failed fsync the system may have dropped what it had accepted."""
    session.append_message(user("5"))
    storage.fail("fsync", errno.EIO)
    with pytest.raises(PersistenceError, match="Input/output"):
        session.flush()
    with pytest.raises(PersistenceError):
        session.append_message(user("6"))
    inode = file.stat().st_ino
    session.recover()
    assert file.stat().st_ino != inode
    session.append_message(user("6"))
    assert said(SessionManager.open(file))[-2:] == ["5", "6"]


def test_a_failed_sync_of_an_entry_is_an_error(file: Path, storage: FaultyStorage) -> None:
    session = SessionManager.open(file, storage=storage, durability="entry")
    storage.fail("fsync", errno.EIO)
    before = state(session)
    with pytest.raises(PersistenceError):
        session.append_message(user("5"))
    assert state(session) == before
    session.recover()
    session.append_message(user("again"))
    session.close()
    again = SessionManager.open(file)
    assert said(again)[-1] == "again"
    assert [found.id for found in again.get_entries()] == [
        found.id for found in session.get_entries()
    ]


def test_a_line_written_when_ctrl_c_came_is_not_lost(file: Path, storage: FaultyStorage) -> None:
    session = SessionManager.open(file, storage=storage, durability="entry")

    def press() -> None:
        raise KeyboardInterrupt

    storage.interrupt("fsync", press)
    with pytest.raises(KeyboardInterrupt):
        session.append_message(user("interrupted"))
    session.append_message(user("after"))
    on_disk = [entry["id"] for entry in read(file) if entry["type"] == "message"]
    assert [entry.id for entry in session.get_entries()] == on_disk
    assert len(on_disk) == len(CALLED) + 2


def press_ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_between_a_line_and_its_place_in_memory_costs_no_rewrite_the_line(
    session: SessionManager, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as keyboard:
        keyboard.setattr(SessionTree, "add_all", press_ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            session.append_message(user("interrupted"))
    session.append_message(user("after"))
    session.rewrite_entries()
    assert file.read_bytes().count(b"interrupted") == 1
    assert [entry["id"] for entry in read(file)[1:]] == [e.id for e in session.get_entries()]


def cut_short(file: Path, session: SessionManager) -> None:
    """Another program puts a shorter file in its place."""
    session.append_message(user("5"))
    session.append_message(user("6"))
    other = file.with_name("other")
    other.write_bytes(lines(header(), *CALLED[:3], message("f", "a3", user("foreign"))))
    os.replace(other, file)


def lengthen(file: Path, session: SessionManager) -> None:
    session.append_message(user("5"))
    with file.open("ab") as out:
        out.write(lines(message("f", "a4", user("foreign"))))


def delete(file: Path, session: SessionManager) -> None:
    session.append_message(user("5"))
    file.unlink()


@pytest.mark.parametrize("operation", ["lock", "read_at", "open_reader", "write_line", "fsync"])
@pytest.mark.parametrize("happen", [cut_short, lengthen, delete])
def test_ctrl_c_at_any_step_of_an_append_loses_and_doubles_nothing(
    tmp_path: Path, happen: Callable[[Path, SessionManager], None], operation: str
) -> None:
    for at in range(1, 30):
        storage = FaultyStorage(FileSessionStorage())
        file = write(tmp_path / str(at) / "session.jsonl", header(), *CALLED)
        session = SessionManager.open(file, storage=storage, durability="entry")
        happen(file, session)
        known = {found.id for found in session.get_entries()}
        storage.interrupt(operation, press_ctrl_c, at=at)
        with contextlib.suppress(KeyboardInterrupt):
            session.append_message(user("perhaps"))
            break
        if file.exists():
            with file.open("ab") as other:
                assert locks.lock(other.fileno(), str(file), 0.0)
        session.append_message(user("surely"))
        session.rewrite_entries()
        on_disk = [entry["id"] for entry in read(file)[1:]]
        assert sorted(on_disk) == sorted(found.id for found in session.get_entries())
        assert len(set(on_disk)) == len(on_disk)
        assert known <= set(on_disk)
        messages = [str(entry["message"]) for entry in read(file)[1:]]
        assert len(set(messages)) == len(messages)
    assert 1 <= at < 29


def test_a_folder_that_can_not_be_synced_is_an_error(
    tmp_path: Path, storage: FaultyStorage
) -> None:
    session = SessionManager.create("/work", tmp_path, storage=storage)
    session.append_message(user("1"))
    session.append_message(assistant("2"))
    storage.fail("sync_dir", errno.EIO)
    with pytest.raises(PersistenceError):
        session.flush()
    session.recover()
    session.flush()
    assert said(SessionManager.open(str(session.session_file))) == ["1", "2"]


# -- new sessions ----------------------------------------


@pytest.mark.parametrize(
    ("operation", "at"),
    [
        ("ensure_dir", 1),
        ("open_writer", 1),
        ("write_line", 1),
        ("write_line", 2),
        ("open_reader", 1),
    ],
)
def test_a_first_prompt_that_can_not_be_kept_is_told_and_can_be_given_again(
    tmp_path: Path, storage: FaultyStorage, operation: str, at: int
) -> None:
    session = SessionManager.create("/work", tmp_path / "s", storage=storage)
    storage.fail(operation, errno.ENOSPC, at=at)
    with pytest.raises(PersistenceError, match="space"):
        session.append_message(user("1"))
    assert session.get_entries() == []
    session.recover()
    session.append_message(user("1"))
    session.append_message(assistant("2"))
    session.close()
    assert said(SessionManager.open(str(session.session_file))) == ["1", "2"]
    assert len(read(str(session.session_file))) == 3
    assert len(os.listdir(tmp_path / "s")) == 1


@pytest.mark.parametrize(
    ("operation", "at"), [("rename", 1), ("open_writer", 2), ("write_line", 3), ("fsync", 3)]
)
def test_a_first_answer_that_can_not_be_kept_costs_no_prompt(
    tmp_path: Path, storage: FaultyStorage, operation: str, at: int
) -> None:
    session = SessionManager.create("/work", tmp_path, storage=storage, durability="entry")
    storage.fail(operation, errno.EIO, at=at)
    session.append_message(user("1"))
    raised = False
    try:
        session.append_message(assistant("2"))
        session.append_message(user("3"))
    except PersistenceError:
        raised = True
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b'"content":"1"' in kept
    if raised:
        session.recover()
        session.append_message(assistant("again"))
    session.close()
    again = SessionManager.open(str(session.session_file))
    assert [found.id for found in again.get_entries()] == [
        found.id for found in session.get_entries()
    ]
    assert said(again)[0] == "1"


# -- whole-file operations ----------------------------------------

OPERATIONS: dict[str, Callable[[SessionManager, Path], object]] = {
    "name": lambda session, _: session.set_session_name("name"),
    "rewrite": lambda session, _: session.rewrite_entries(),
    "arguments": lambda session, _: session.rewrite_tool_call_args("call", {"x": 1}),
    "move": lambda session, folder: session.move_to(folder / "elsewhere"),
    "fork": lambda session, _: session.fork(),
    "branched": lambda session, _: session.create_branched_session("a2"),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_whole_file_operation_that_fails_changes_nothing(
    tmp_path: Path, file: Path, storage: FaultyStorage, name: str, code: int
) -> None:
    session = SessionManager.open(file, storage=storage)
    before = state(session)
    storage.fail("write_atomic", code)
    with pytest.raises(PersistenceError, match=os.strerror(code)):
        OPERATIONS[name](session, tmp_path)
    assert state(session) == before
    assert file.read_bytes() == WHOLE
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]
    session.recover()
    session.append_message(user("5"))
    session.close()
    assert said(SessionManager.open(file))[-1] == "5"


def test_a_title_that_can_not_be_overwritten_in_place_stays(
    tmp_path: Path, storage: FaultyStorage
) -> None:
    file = write(tmp_path / "x.jsonl", slot("old"), header(), *CALLED)
    session = SessionManager.open(file, storage=storage)
    storage.fail("overwrite", errno.EIO)
    with pytest.raises(PersistenceError):
        session.set_session_name("new")
    assert session.session_name == "old"
    session.recover()
    session.set_session_name("new")
    assert SessionManager.open(file).session_name == "new"


@pytest.mark.parametrize("operation", ["write_atomic", "ensure_dir"])
def test_a_blob_that_can_not_be_stored_stops_its_line(
    session: SessionManager, storage: FaultyStorage, file: Path, operation: str
) -> None:
    storage.fail(operation, errno.ENOSPC, path_part="blobs")
    with pytest.raises(PersistenceError, match="blobs") as first:
        session.append_message(user("y" * 600_000))
    with pytest.raises(PersistenceError) as later:
        session.append_message(user("small"))
    assert_same(later.value, first.value)
    assert file.read_bytes() == WHOLE
    assert session.leaf_id == "a4"
    session.recover()
    session.append_message(user("y" * 600_000))
    assert said(SessionManager.open(file))[-1] == "y" * 600_000


def test_entries_of_a_replaced_file_survive_a_full_disk(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    """The file came back shorter, and the disk is full while its lost entries are put back."""
    lost = [session.append_message(user("5")), session.append_message(user("6"))]
    other = file.with_name("other")
    other.write_bytes(WHOLE)
    os.replace(other, file)
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.append_message(user("7"))
    assert set(lost) <= {found.id for found in session.get_entries()}
    session.recover()
    last = session.append_message(user("8"))
    session.close()
    again = SessionManager.open(file)
    assert {*lost, last} <= {found.id for found in again.get_entries()}
    assert said(again)[-3:] == ["5", "6", "8"]


def test_entries_of_a_file_replaced_once_more_on_a_full_disk_are_put_back_once(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    cut_short(file, session)
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.append_message(user("7"))
    other = file.with_name("other")
    other.write_bytes(WHOLE)
    os.replace(other, file)
    session.recover()
    on_disk = [entry["id"] for entry in read(file)[1:]]
    assert on_disk == [found.id for found in session.get_entries()]
    assert len(set(on_disk)) == len(on_disk) == len(CALLED) + 3


def test_an_entry_put_back_that_can_be_neither_synced_nor_taken_back_is_there_once(
    file: Path, storage: FaultyStorage
) -> None:
    session = SessionManager.open(file, storage=storage, durability="entry")
    cut_short(file, session)
    storage.fail("fsync", errno.EIO)
    storage.fail("truncate", errno.EIO)
    with pytest.raises(PersistenceError):
        session.append_message(user("7"))
    session.recover()
    messages = [str(entry["message"]) for entry in read(file)[1:]]
    assert len(set(messages)) == len(messages) == len(CALLED) + 3


def test_a_first_prompt_that_failed_leaves_no_header_behind(
    tmp_path: Path, storage: FaultyStorage
) -> None:
    session = SessionManager.create("/work", tmp_path, storage=storage)
    storage.fail("open_reader", errno.EMFILE)
    with pytest.raises(PersistenceError):
        session.append_message(user("1"))
    session.recover()
    session.set_session_name("another header")
    session.append_message(assistant("2"))
    assert [entry["type"] for entry in read(str(session.session_file))] == ["session", "message"]


def test_a_file_restored_before_an_error_is_told_of_after_it(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    session.append_message(user("5"))
    file.unlink()
    storage.fail("open_writer", errno.EMFILE, at=2)
    with pytest.raises(PersistenceError):
        session.append_message(user("6"))
    session.recover()
    assert ["was deleted" in warning.reason for warning in session.warnings] == [True]


def test_entries_of_a_file_replaced_before_an_error_are_back_after_it(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    def replace_again() -> None:
        other.write_bytes(WHOLE)
        os.replace(other, file)

    other = file.with_name("other")
    cut_short(file, session)
    storage.interrupt("open_reader", replace_again)
    storage.fail("open_writer", errno.EMFILE, at=2)
    with pytest.raises(PersistenceError):
        session.append_message(user("7"))
    session.recover()
    assert said(session)[-3:] == ["4", "5", "6"]
    assert said(SessionManager.open(file)) == said(session)


def test_a_line_is_taken_back_if_what_stands_before_it_can_not_be_read(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    def write_unlocked() -> None:
        with file.open("ab") as out:
            out.write(lines(message("f", "a4", user("foreign"))))
        storage.fail("read_at", errno.EIO)

    storage.interrupt("write_line", write_unlocked)
    with pytest.raises(PersistenceError):
        session.append_message(user("refused"))
    session.recover()
    assert b"refused" not in file.read_bytes()
    assert [entry["id"] for entry in read(file)[1:]] == [e.id for e in session.get_entries()]


def test_a_deleted_file_on_a_full_disk_is_not_forgotten(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    session.append_message(user("5"))
    file.unlink()
    storage.fail("write_atomic", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.append_message(user("6"))
    session.recover()
    session.append_message(user("6"))
    assert said(SessionManager.open(file))[-2:] == ["5", "6"]


def test_a_payload_that_can_not_be_read_is_one_clear_error(
    session: SessionManager, storage: FaultyStorage
) -> None:
    storage.fail("read_at", errno.EIO)
    with pytest.raises(PersistenceError, match=r"session\.jsonl.*Input/output"):
        session.build_session_context()
    assert said(session) == ["1", "2", "<toolCall>", "4"]


def test_a_look_that_fails_is_one_clear_error(
    session: SessionManager, storage: FaultyStorage
) -> None:
    storage.fail("read_at", errno.EIO, times=None)
    storage.fail("stat", errno.EIO, times=None)
    with pytest.raises(PersistenceError, match=r"session\.jsonl"):
        session.refresh()
    storage.heal()
    session.recover()
    assert session.refresh() == 0


def test_a_close_that_the_system_reports_as_failed_is_one_clear_error(
    session: SessionManager, storage: FaultyStorage, file: Path
) -> None:
    """Network file systems tell of a full disk only when the file is closed."""
    session.append_message(user("5"))
    storage.fail("close", errno.ENOSPC)
    with pytest.raises(PersistenceError, match=r"session\.jsonl"):
        session.close()
    assert said(SessionManager.open(file))[-1] == "5"


# -- rights ----------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    folder = processes.make_open_folder()
    yield folder
    shutil.rmtree(folder)


ATTEMPT = """
import json, os, sys
path, work = sys.argv[1:3]
os.environ["HOME"] = os.path.dirname(os.path.dirname(path))
messages = lambda session: len(session.build_session_context().messages)
def say(text):
    return {"role": "assistant", "content": text, "timestamp": 1}
try:
    if work == "open":
        print(messages(SessionManager.open(path)))
    elif work == "append":
        session = SessionManager.open(path)
        try:
            session.append_message(say("x"))
        finally:
            print(messages(session))
    elif work == "name":
        SessionManager.open(path).set_session_name("x")
    elif work == "create":
        SessionManager.create("/work", os.path.dirname(path)).append_message(say("x"))
except PersistenceError as error:
    print("refused", os.path.dirname(path) in str(error), "\\n" not in str(error))
"""


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "work", "expected"),
    [
        (0o444, 0o755, "open", "4\n"),
        (0o444, 0o755, "append", "4\nrefused True True\n"),
        (0o644, 0o555, "name", "refused True True\n"),
        (0o644, 0o555, "create", "refused True True\n"),
        (0o000, 0o755, "open", "refused True True\n"),
        (0o644, 0o000, "open", "refused True True\n"),
    ],
)
def test_what_is_forbidden_is_one_clear_error_and_nothing_is_lost(
    open_folder: Path, file_mode: int, folder_mode: int, work: str, expected: str
) -> None:
    file = write(open_folder / "sessions" / "x.jsonl", header(), *CALLED)
    file.chmod(file_mode)
    file.parent.chmod(folder_mode)
    assert processes.run(ATTEMPT, file, work, unprivileged=True) == expected
    file.parent.chmod(0o755)
    assert file.read_bytes() == WHOLE
    assert os.listdir(file.parent) == ["x.jsonl"]


def test_an_old_file_that_may_not_be_rewritten_is_one_clear_error(open_folder: Path) -> None:
    old = lines(header(version=None), {"type": "message", "message": user("1")})
    file = write(open_folder / "sessions" / "x.jsonl", old)
    file.parent.chmod(0o555)
    assert processes.run(ATTEMPT, file, "open", unprivileged=True) == "refused True True\n"
    assert file.read_bytes() == old


# -- a full disk ----------------------------------------

FILL = """
import json, sys
from sessiontree import PersistenceError, SessionManager
session = SessionManager.open(sys.argv[1])
made = []
try:
    while len(made) < 100_000:
        made.append(session.append_message(
            {"role": "user", "content": f"{len(made)} " * 100, "timestamp": 1}))
except PersistenceError as error:
    assert sys.argv[1] in str(error), error
try:
    session.set_session_name("no room for this")
except PersistenceError:
    pass
print(json.dumps(made), flush=True)
print("full", flush=True)
sys.stdin.readline()
session.recover()
made.append(session.append_message({"role": "user", "content": "room again", "timestamp": 1}))
session.close()
print(json.dumps(made))
"""


LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 10**9))\n"
UNLIMIT = "resource.setrlimit(resource.RLIMIT_FSIZE, (10**9, 10**9))\n"


class SmallDisk:
    """A folder with little room, and a way to make more."""

    def __init__(self, folder: Path, *, mounted: bool) -> None:
        self.folder = folder
        self.mounted = mounted
        self.ballast = folder / "ballast"
        self.ballast.write_bytes(b"x" * 100_000)

    @property
    def code(self) -> str:
        """What fills it: as it is, or under a limit on the size of files."""
        if self.mounted:
            return FILL
        return LIMIT + FILL.replace("session.recover()", UNLIMIT + "session.recover()")


@pytest.fixture(params=["a file system of its own", "a limit on the size of files"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    """Half a megabyte of tmpfs where this user may mount one, else short writes and EFBIG."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    wanted = request.param == "a file system of its own" and shutil.which("mount") is not None
    mounted = wanted and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield SmallDisk(folder, mounted=mounted)
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_tears_and_loses_nothing(small_disk: SmallDisk) -> None:
    file = write(small_disk.folder / "session.jsonl", header(), *CALLED)
    process = processes.start(small_disk.code, file)
    assert process.stdout is not None
    made = json.loads(process.stdout.readline())
    processes.wait_for(process, "full")
    assert len(made) > 100
    assert [record["id"] for record in read(file)[1:]] == ["a1", "a2", "a3", "a4", *made]
    assert sorted(os.listdir(small_disk.folder)) == ["ballast", "session.jsonl"]
    small_disk.ballast.unlink()
    output, errors = process.communicate("go\n", timeout=60)
    assert process.returncode == 0, errors
    session = SessionManager.open(file)
    assert [found.id for found in session.get_branch()][4:] == json.loads(output)
    assert said(session)[-1] == "room again"


def test_a_first_header_that_could_not_be_taken_back_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    session = SessionManager.create(tmp_path / "project", tmp_path / "sessions")
    with monkeypatch.context() as patched:
        patched.setattr("sessiontree.stores.files.log.load_document", refuse)
        patched.setattr("sessiontree.stores.files.log._take_back", lambda *_: False)
        with pytest.raises(PersistenceError, match="Input/output error"):
            session.append_message(user("1"))
    session.recover()
    session.append_message(user("1"))
    session.append_message(assistant("2"))
    session.close()
    assert [record["type"] for record in read(Path(str(session.session_file)))] == [
        "session",
        "message",
        "message",
    ]
