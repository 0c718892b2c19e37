"""Ctrl-C at any moment: no lock, no open file and no copy is left, and the session goes on."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.interrupts import (
    APPEND,
    OPERATIONS,
    Keyboard,
    Operation,
    open_files,
    require_free,
    try_at,
)
from tests.samples import assistant, header, read, user, with_artifacts, write

from sessiontree import FileSessionStorage, MemorySessionStorage, SessionManager
from sessiontree.core.gc import with_paused_gc
from sessiontree.storage.base import StrPath
from sessiontree.storage.descriptors import FileWriter
from sessiontree.storage.handles import Handle
from sessiontree.stores.base import Durability
from sessiontree.stores.latch import logger

# a folder's listing that is dropped half-way tells so, and is closed all the same
pytestmark = pytest.mark.filterwarnings("ignore:unclosed scandir:ResourceWarning")

_SAMPLES = 20


@pytest.fixture(autouse=True)
def _quick_and_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk; and a logged error is not kept, as it would keep files open."""
    monkeypatch.setattr(os, "fsync", os.fstat)
    monkeypatch.setattr(logger, "disabled", True)
    # as many steps as there are processes, which come and go
    monkeypatch.setattr("sessiontree.stores.files.move.may_be_written", lambda *_: False)
    # nor may the steps of a time's spelling come and go with the milliseconds
    monkeypatch.setattr("time.time_ns", lambda: 1_771_237_230_123_456_789)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is such a thing: thousands of files come and go."""
    memory = Path("/dev/shm")
    root = memory if os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=root, prefix="sessiontree-") as folder:
        yield Path(folder)


def attempt(operation: Operation, at: int | None, yard: Path, durability: Durability) -> int:
    """Press Ctrl-C at one step; how many steps were made."""
    keyboard = try_at(operation, at, yard / "agent", durability)
    assert bool(keyboard.where) == (at is not None)
    shutil.rmtree(yard / "agent")
    return keyboard.steps


def count_steps(operation: Operation, yard: Path, durability: Durability) -> int:
    attempt(operation, None, yard, durability)  # imports modules on its way
    return attempt(operation, None, yard, durability)


@pytest.mark.parametrize("durability", ["flush", "entry"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_ctrl_c_at_some_steps_of_any_operation(
    operation: Operation, durability: Durability, yard: Path
) -> None:
    steps = count_steps(operation, yard, durability)
    for at in range(1 + steps // _SAMPLES // 2, steps + 1, steps // _SAMPLES):
        attempt(operation, at, yard, durability)


def test_ctrl_c_when_the_file_of_an_append_is_let_go_of(yard: Path) -> None:
    steps = count_steps(APPEND, yard, "flush")
    for at in range(steps - 150, steps + 1):
        attempt(APPEND, at, yard, "flush")


def test_ctrl_c_when_the_file_of_a_new_session_is_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionManager.create(tmp_path, tmp_path)
    with monkeypatch.context() as pressed:
        pressed.setattr(FileWriter, "unlock", _press)
        with pytest.raises(KeyboardInterrupt):
            session.append_message(user("1"))
    session.append_message(user("2"))
    session.append_message(assistant("3"))
    said = [entry.get("message") for entry in read(Path(str(session.session_file)))]
    assert said == [None, user("2"), assistant("3")]


def _press(*_: object) -> None:
    raise KeyboardInterrupt


# -- moves ---------------------------------------------------------------------------------------


class PressedStorage(FileSessionStorage):
    """Ctrl-C is pressed as soon as one of its operations is done."""

    def __init__(self) -> None:
        self.pressed_after = ""

    def _press(self, operation: str) -> None:
        if self.pressed_after == operation:
            self.pressed_after = ""
            raise KeyboardInterrupt

    def unlink(self, path: StrPath) -> None:
        super().unlink(path)
        self._press("unlink")

    def rename(self, source: StrPath, target: StrPath, *, durable: bool = True) -> None:
        super().rename(source, target, durable=durable)
        self._press("rename")


@pytest.fixture
def storage() -> PressedStorage:
    return PressedStorage()


@pytest.fixture
def session(storage: PressedStorage) -> SessionManager:
    return with_artifacts(SessionManager.create("/work/old", storage=storage))


def require_one(session: SessionManager, home: Path, cwd: str) -> None:
    """The session is in one place, with all that belongs to it, and goes on there."""
    assert session.cwd == session.header.get("cwd") == cwd
    file = Path(str(session.session_file))
    require_free(file)
    session.append_message(user("3"))
    session.flush()
    assert list(home.rglob("*.jsonl")) == [file]
    assert list(home.rglob("todo.json")) == [file.with_suffix("") / "todo.json"]
    assert read(file)[0]["cwd"] == cwd
    assert [entry["id"] for entry in read(file)[1:]] == [e.id for e in session.get_entries()]
    assert session.warnings == []


def test_a_move_whose_old_file_is_gone_is_done_in_spite_of_ctrl_c(
    session: SessionManager, storage: PressedStorage, home: Path
) -> None:
    storage.pressed_after = "unlink"
    with pytest.raises(KeyboardInterrupt):
        session.move_to("/work/new")
    require_one(session, home, "/work/new")


def test_a_move_whose_old_file_is_still_there_is_taken_back_after_ctrl_c(
    session: SessionManager, storage: PressedStorage, home: Path
) -> None:
    storage.pressed_after = "rename"
    with pytest.raises(KeyboardInterrupt):
        session.move_to("/work/new")
    require_one(session, home, "/work/old")
    session.move_to("/work/new")
    assert session.cwd == "/work/new"


def test_a_session_in_a_folder_of_its_own_has_one_project_whenever_ctrl_c_comes(
    yard: Path,
) -> None:
    def prepare(name: object) -> SessionManager:
        file = write(yard / str(name).zfill(5) / "session.jsonl", header(cwd="/work/old"))
        return SessionManager.open(file, file.parent)

    prepare("first").move_to("/work/new")
    counted, session = Keyboard(), prepare("count")
    counted.watch(lambda: session.move_to("/work/new"))
    # a few steps less are taken where something is remembered: the very last may not come again
    for at in range(1, counted.steps - 50, counted.steps // 60):
        session = prepare(at)
        with pytest.raises(KeyboardInterrupt):
            Keyboard(at).watch(functools.partial(session.move_to, "/work/new"))
        session.append_message(user("1"))
        assert read(Path(str(session.session_file)))[0]["cwd"] == session.cwd
        assert session.header.get("cwd") == session.cwd


# -- what an interrupt must not leave behind -----------------------------------------------------


def press_at_each_step(work: Callable[[], object], require: Callable[[], object]) -> int:
    """Try the work with Ctrl-C at each of its steps; how many there are."""
    for at in itertools.count(1):
        keyboard = Keyboard(at)
        with contextlib.suppress(KeyboardInterrupt):
            keyboard.watch(work)
            assert not keyboard.where, "nobody heard of it"
            return keyboard.steps
        require()
    raise AssertionError


def test_no_file_stays_open_when_a_storage_is_interrupted(yard: Path) -> None:
    storage = FileSessionStorage()
    file = write(yard / "x.jsonl", header())

    def work() -> None:
        storage.write_atomic(file, b"1\n")
        storage.read(file)
        writer = storage.open_writer(file)
        writer.lock()
        writer.write_line(b"2\n")
        writer.overwrite(0, b"3")
        writer.close()
        storage.list_files(yard)
        reader = storage.open_reader(file)
        del reader

    before = open_files()

    def require() -> None:
        assert open_files() == before
        require_free(file)
        assert os.listdir(yard) == ["x.jsonl"]

    assert press_at_each_step(work, require) > 300


def test_a_file_is_closed_with_its_last_user_and_only_once(tmp_path: Path) -> None:
    before = open_files()
    handle = Handle(str(tmp_path), os.O_RDONLY)
    number = handle.number
    handle.close()
    assert open_files() == before
    other = Handle(str(tmp_path), os.O_RDONLY)
    assert other.number == number
    handle.close()
    del handle
    assert len(open_files()) == len(before) + 1
    del other
    assert open_files() == before


def test_a_handle_given_over_to_a_file_is_closed_by_that(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"1")
    handle = Handle(str(path), os.O_RDONLY)
    with handle.to_file() as file:
        del handle
        assert file.read() == b"1"


def test_a_file_in_memory_is_let_go_of_whenever_ctrl_c_comes() -> None:
    storage = MemorySessionStorage()
    storage.ensure_dir("/s")
    writers = [storage.open_writer("/s/x")]

    def require() -> None:
        writers.pop().close()
        other = threading.Thread(target=lock_and_close, daemon=True)
        other.start()
        other.join(20)
        assert not other.is_alive()
        writers.append(storage.open_writer("/s/x"))

    def lock_and_close() -> None:
        writer = storage.open_writer("/s/x")
        writer.lock()
        writer.close()

    def work() -> None:
        writers[0].lock()
        writers[0].unlock()

    press_at_each_step(work, require)


def test_the_collector_goes_on_whenever_ctrl_c_comes() -> None:
    @with_paused_gc
    def build(is_sound: bool) -> list[int]:
        assert not gc.isenabled()
        if not is_sound:
            raise ValueError("no")
        return [1]

    def work() -> None:
        build(True)
        try:
            build(False)
        except ValueError:
            pass

    frozen = gc.get_freeze_count()  # Python 3.12 has some from the start

    def require() -> None:
        assert gc.isenabled()
        assert gc.get_freeze_count() == frozen

    press_at_each_step(work, require)


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        assert with_paused_gc(lambda: 1)() == 1
        assert not gc.isenabled()
    finally:
        gc.enable()
