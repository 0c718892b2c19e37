"""The attacks on system calls see all of them: what they do not see, they do not attack."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.torture.disks import Recorder, RecordingOs
from tests.torture.faulty_os import FAULTS, FaultySystem
from tests.torture.stand_ins import MODULES, replace_os

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
    Path(home, ".x.jsonl.lock.os").touch()
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
    storage.write_atomic(file, b"other")
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


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The calls that the system gets, and the modules they come from."""
    made: list[tuple[str, str]] = []

    def watch(name: str, found: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            made.append((name, str(sys._getframe(1).f_globals["__name__"])))
            if name == "replace" and "FAR" in str(arguments[1]) and ".tmp" not in arguments[0]:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            return found(*arguments, **options)

        return call

    for name in FAULTS:
        if name != "flock":
            monkeypatch.setattr(os, name, watch(name, getattr(os, name)))
    return made


def test_the_operations_make_calls_in_every_module_and_of_every_kind(
    tmp_path: Path, made: list[tuple[str, str]]
) -> None:
    """Else the tests below would say nothing."""
    do_everything(tmp_path)
    own = [(name, module) for name, module in made if module.startswith(STORAGE)]
    assert {name for name, _ in own} == FAULTS.keys() - {"flock"}
    assert {module for _, module in own} == {module.__name__ for module in MODULES}


def test_any_call_of_the_storage_can_be_told_to_fail(
    tmp_path: Path, made: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    system = FaultySystem()
    system.install(monkeypatch)
    with system.on():
        do_everything(tmp_path)
    assert not [call for call in made if call[1].startswith(STORAGE)]
    assert FAULTS.keys() <= set(system.calls)


def test_every_change_is_recorded(
    tmp_path: Path, made: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    replace_os(monkeypatch, RecordingOs(recorder))
    do_everything(tmp_path)
    passed_by = [name for name, module in made if module.startswith(STORAGE)]
    assert not CHANGES & set(passed_by)
    assert {event.kind for event in recorder.events} == KINDS
