"""The attacks on system calls see all of them: what they do not see, they do not attack."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.torture.disks import Recorder, RecordingOs
from tests.torture.faulty_os import FAULTS, FaultySystem
from tests.torture.faulty_sqlite import HISTORY_FAULTS, SQLITE_FAULTS, install
from tests.torture.history_operations import HISTORY_OPERATIONS, closed, recall
from tests.torture.scarcity import at_most
from tests.torture.stand_ins import CONNECTING_MODULES, HISTORY_MODULES, MODULES, replace_os

from sessiontree import FileSessionStorage
from sessiontree.storage.base import FileRange

STORAGE = "sessiontree.storage."
CHANGES = {"open", "mkdir", "write", "pwrite", "ftruncate", "fsync", "replace", "unlink"}
KINDS = {"create", "mkdir", "write", "truncate", "fsync", "fsync folder", "rename", "unlink"}


def do_everything(folder: Path) -> None:
    """Each operation of the storage, with all that it does on the way."""
    storage = FileSessionStorage()
    home, file = str(folder / "one" / "two"), str(folder / "one" / "two" / "x.jsonl")
    storage.ensure_dir(home)
    writer = storage.open_writer(file)
    writer.lock()
    writer.write_line(b"line\n")
    writer.unlock()
    writer.overwrite(0, b"LINE")
    writer.truncate(3)
    writer.fsync()
    writer.stat()
    writer.close()
    dead = subprocess.Popen(["true"])
    dead.wait()
    Path(home, f".y.jsonl.{dead.pid}-00000000.tmp").touch()
    reader = storage.open_reader(file)
    storage.write_atomic(f"{home}/y.jsonl", [b"piece", FileRange(reader, 0, 3)])
    reader.close()
    os.chmod(file, 0o640)
    lock = Path(home, ".x.jsonl.lock")
    lock.touch()
    os.utime(lock, (0, 0))
    storage.write_atomic(file, b"other", growth=lambda: b"")
    storage.stat(file)
    storage.touch(file)
    storage.read(file)
    storage.list_files(home)
    storage.list_names(home)
    storage.list_dirs(home)
    storage.sync_dir(home)
    storage.rename(file, str(folder / "moved.jsonl"))
    storage.rename(f"{home}/y.jsonl", str(folder / "FAR.jsonl"))
    storage.unlink(str(folder / "moved.jsonl"))
    storage.remove_dir(home)


Calls = list[tuple[str, str]]


def watch(monkeypatch: pytest.MonkeyPatch, made: Calls, owner: Any, name: str) -> None:
    """Note each such call, and the module it comes from."""
    found: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        made.append((name, str(sys._getframe(1).f_globals["__name__"])))
        if name == "replace" and "FAR" in str(arguments[1]) and ".tmp" not in arguments[0]:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return found(*arguments, **options)

    monkeypatch.setattr(owner, name, call)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The calls that the system gets, and the modules they come from."""
    made: Calls = []
    for name in FAULTS:
        if name != "flock":
            watch(monkeypatch, made, os, name)
    return made


@pytest.fixture
def made_by_history(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The calls that the system and SQLite get, and the modules they come from."""
    made: Calls = []
    for name in HISTORY_FAULTS:
        if name != "flock":
            watch(monkeypatch, made, os, name)
    watch(monkeypatch, made, sqlite3, "connect")
    return made


def test_the_operations_make_calls_in_every_module_and_of_every_kind(
    tmp_path: Path, made: Calls
) -> None:
    """Else the tests below would say nothing."""
    do_everything(tmp_path)
    own = [(name, module) for name, module in made if module.startswith(STORAGE)]
    assert {name for name, _ in own} == FAULTS.keys() - {"flock"}
    assert {module for _, module in own} == {module.__name__ for module in MODULES}


def test_any_call_of_the_storage_can_be_told_to_fail(
    tmp_path: Path, made: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = FaultySystem()
    system.install(monkeypatch)
    with system.on():
        do_everything(tmp_path)
    assert not [call for call in made if call[1].startswith(STORAGE)]
    assert FAULTS.keys() <= set(system.calls)


def test_every_change_is_recorded(
    tmp_path: Path, made: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    replace_os(monkeypatch, RecordingOs(recorder))
    do_everything(tmp_path)
    passed_by = [name for name, module in made if module.startswith(STORAGE)]
    assert not CHANGES & set(passed_by)
    assert {event.kind for event in recorder.events} == KINDS


# -- the prompt history --------------------------------------------------------------------------


def do_everything_with_prompts(folder: Path) -> None:
    for number, operation in enumerate(HISTORY_OPERATIONS):
        state = operation.prepare(folder / str(number) / "history.db")
        operation.act(state)
        state.history.close()
    # SQLite cannot make the files it needs beside this one
    state = closed(folder / "full" / "history.db")
    with at_most(resource.RLIMIT_FSIZE, 0):
        recall(state)
    state.history.close()


def of_history(made: Calls) -> Calls:
    own = {module.__name__ for module in HISTORY_MODULES}
    prefix = f"{STORAGE}history"
    return [call for call in made if call[1] in own or call[1].startswith(prefix)]


def test_the_operations_on_prompts_make_calls_in_every_module_and_of_every_kind(
    tmp_path: Path, made_by_history: Calls
) -> None:
    """Else the test below would say nothing."""
    do_everything_with_prompts(tmp_path)
    own = of_history(made_by_history)
    assert {name for name, _ in own} == {*HISTORY_FAULTS, "connect"} - {"flock"}
    assert {module for name, module in own if name != "connect"} == {
        module.__name__ for module in HISTORY_MODULES
    }
    assert {module for name, module in own if name == "connect"} == {
        module.__name__ for module in CONNECTING_MODULES
    }


def test_any_call_of_the_prompt_history_can_be_told_to_fail(
    tmp_path: Path, made_by_history: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = FaultySystem()
    install(system, monkeypatch)
    with system.on():
        do_everything_with_prompts(tmp_path)
    assert not of_history(made_by_history)
    assert set(system.calls) == {*HISTORY_FAULTS, *SQLITE_FAULTS}


# these ask nothing of the system, or nothing whose refusal would be told
UNFAILING = {"fsencode", "fspath", "getpid", "kill", "strerror", "urandom"}


@pytest.mark.parametrize("module", HISTORY_MODULES, ids=lambda module: module.__name__)
def test_the_prompt_history_makes_no_call_that_cannot_be_told_to_fail(module: ModuleType) -> None:
    called = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value) == "os"
        and inspect.isroutine(getattr(os, node.attr, None))
    }
    assert called
    assert called <= HISTORY_FAULTS.keys() | UNFAILING
