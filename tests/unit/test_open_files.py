"""After an error no file stays open until the garbage collector comes by."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.samples import ASKED, assistant, header, user, write

from sessiontree import FileSessionStorage, FileStore, PersistenceError, SessionManager
from sessiontree.errors import SessionTreeError, without_frames
from sessiontree.testing import FaultyStorage

FAULTS = [
    *("open_reader", "read_at", "stat", "exists", "list_files", "ensure_dir", "sync_dir"),
    *("open_writer", "lock", "write_line", "overwrite", "truncate", "fsync", "close"),
    *("write_atomic", "rename", "unlink"),
]

Work = Callable[[SessionManager, Path], object]


def _flush(session: SessionManager, _: Path) -> None:
    session.append_message(assistant("4"))
    session.flush()


def _recover(session: SessionManager, _: Path) -> None:
    session.append_message(user("x"))
    session.recover()


def _close(session: SessionManager, _: Path) -> None:
    session.branch("a1")
    session.close()


WORK: dict[str, Work] = {
    "append": lambda session, _: session.append_message(assistant("4")),
    "append twice": lambda session, _: [session.append_message(user("x")) for _ in range(2)],
    "flush": _flush,
    "name": lambda session, _: session.set_session_name("name"),
    "rewrite": lambda session, _: session.rewrite_entries(),
    "fork": lambda session, _: session.fork(),
    "branch off": lambda session, _: session.create_branched_session("a1"),
    "move": lambda session, folder: session.move_to(folder / "elsewhere"),
    "switch": lambda session, folder: session.set_session_file(folder / "other.jsonl"),
    "new": lambda session, _: (session.append_message(user("x")), session.new_session()),
    "close": _close,
    "recover": _recover,
}


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _open_below(folder: Path) -> list[str]:
    """The files in this folder that this process has open."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # the listing's own
        if path.startswith(str(folder)):
            found.append(path)
    return found


@pytest.mark.parametrize("name", WORK)
def test_a_session_that_is_dropped_after_an_error_leaves_no_file_open(
    name: str, tmp_path: Path
) -> None:
    failed = 0
    for fault in FAULTS:
        for at in (1, 2):
            folder = tmp_path / f"{fault}-{at}"
            write(folder / "x.jsonl", header(), *ASKED)
            write(folder / "other.jsonl", header(id="other"), *ASKED)
            failed += _fail(folder, WORK[name], fault, at)
            assert _open_below(folder) == [], f"{fault} no. {at}"
    assert failed > 1


def _fail(folder: Path, work: Work, fault: str, at: int) -> bool:
    """Whether the work failed; in a frame of its own, that nothing of it is left here."""
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(folder / "x.jsonl", folder, storage=storage)
    storage.fail(fault, errno.EIO, at=at)
    has_failed = False
    for _ in range(2):  # the second time it is the latched error
        try:
            work(session, folder)
        except SessionTreeError:
            has_failed = True
    return has_failed


@pytest.mark.parametrize("make", [SessionManager.open, SessionManager.fork_from])
def test_opening_or_forking_that_fails_leaves_no_file_open(
    make: Callable[..., SessionManager], tmp_path: Path
) -> None:
    for fault in FAULTS:
        for at in (1, 2, 3, 4):
            folder = tmp_path / f"{fault}-{at}"
            file = write(folder / "x.jsonl", b"torn\n", *ASKED)
            storage = FaultyStorage(FileSessionStorage())
            storage.fail(fault, errno.EIO, at=at)
            try:
                if make == SessionManager.open:
                    make(file, storage=storage)
                else:
                    make(file, folder, folder, storage=storage)
            except SessionTreeError:
                pass
            assert _open_below(folder) == [], f"{fault} no. {at}"


def test_a_switch_that_fails_leaves_the_other_file_closed_while_the_error_is_kept(
    tmp_path: Path,
) -> None:
    for name in ("x", "other"):
        write(tmp_path / f"{name}.jsonl", header(id=name), *ASKED)
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(tmp_path / "x.jsonl", storage=storage)
    session.branch("a1")
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError) as caught:
        session.set_session_file(tmp_path / "other.jsonl")
    assert caught.value.path == session.session_file
    assert [Path(path).name for path in _open_below(tmp_path)].count("other.jsonl") == 0


def test_a_closed_session_has_no_file_open_and_can_still_be_read(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ASKED)
    session = SessionManager.open(file)
    session.append_message(user("4"))
    session.close()
    assert _open_below(tmp_path) == []
    assert [entry.data["message"]["content"] for entry in session.get_branch()][::3] == ["1", "4"]
    session.append_message(user("5"))
    session.close()
    assert _open_below(tmp_path) == []
    assert len(SessionManager.open(file).get_entries()) == 5


@pytest.mark.parametrize("length", [0, 100])
def test_a_closed_session_says_so_when_another_file_has_its_name(
    length: int, tmp_path: Path
) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ASKED)
    session = SessionManager.open(file)
    session.close()
    content = file.read_bytes()
    file.write_bytes(content[::-1] + b"x" * length)  # the same file to the system
    with pytest.raises(PersistenceError, match="replaced after the session was closed") as caught:
        _ = session.get_entries()[0].data
    assert caught.value.path == str(file)


def _fail_to_write() -> None:
    try:
        raise OSError(errno.ENOSPC, "full", "/x")
    except OSError as error:
        raise PersistenceError.from_os_error("/x", error) from error


def test_a_kept_error_says_the_same_and_refers_to_no_frame() -> None:
    with pytest.raises(PersistenceError) as caught:
        _fail_to_write()
    kept = without_frames(caught.value)
    assert str(kept) == str(caught.value) == "/x: full"
    assert (kept.path, kept.__traceback__) == ("/x", None)
    cause = kept.__cause__
    assert isinstance(cause, OSError)
    assert (cause.errno, cause.filename) == (errno.ENOSPC, "/x")
    assert (cause.__traceback__, cause.__context__) == (None, None)


def test_the_latched_error_is_raised_each_time_and_grows_no_traceback(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ASKED)
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    storage.fail("write_line", errno.ENOSPC)
    depths = []
    for _ in range(3):
        with pytest.raises(PersistenceError, match="No space left") as caught:
            session.append_message(user("x"))
        depths.append(len(caught.traceback))
    assert depths[1] == depths[2]


@pytest.mark.parametrize("how", ["opened", "begun here", "moved here", "moved by others"])
def test_a_closed_session_keeps_no_file_open_and_can_be_read(how: str, tmp_path: Path) -> None:
    store = FileStore(session_dir=tmp_path)
    session = SessionManager.create("/work/app", storage=store)
    session.append_message(user("question"))
    session.append_message(assistant("answer"))
    if how == "opened":
        session.close()
        session = SessionManager.open(session.ref, storage=store)
    elif how == "moved here":
        session.move_to("/work/other")
    elif how == "moved by others":
        with SessionManager.open(session.ref, storage=store) as other:
            other.move_to("/work/other")
        session.append_message(user("after that"))
    for entry in session.get_entries():
        entry.release()
    session.close()
    assert _open_below(tmp_path) == []
    assert session.get_entries()[0].data["message"]["content"] == "question"
