"""omp's lock: its name as the living omp 18.2.3 makes it, both layers, nothing left behind."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from pathlib import Path

import pytest
from tests import processes
from tests.interrupts import Keyboard

from sessiontree import SessionBusyError
from sessiontree.storage import omp_lock

# Paths, and the names of the sockets that omp's own FileLock bound for them.
NAMES = {
    "a": "a053d1cfb2118107a3b15dd2e2b5ebdb",
    "/a": "fbc3440a8f1e57684a245809c02cb763",
    "/a/": "c0163b6e005e952e176798b9b6c27b94",
    "/tmp/a": "e857c53857f5f2e6d40e49d113a74bdf",
    "/tmp/lkdir/b": "a9c10abcea04da6b074c60a25ed13a36",
    "/tmp/lkdir/.a.jsonl.lock.os": "4fe63f544778d4b4527dffdd77be5a7c",
    "/tmp/lkdir/sub/../.a.jsonl.lock.os": "8814418b8a4ae21fb14bd8e87e703962",
}

HOLD = """
import socket, sys
name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
name.bind(b"\\0" + sys.argv[1].encode())
print("held", flush=True)
sys.stdin.read()
"""

linux = pytest.mark.xfail(sys.platform != "linux", reason="the gate is a socket on Linux")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


@pytest.fixture
def lock_file(file: Path) -> Path:
    return file.with_name(".s.jsonl.lock")


@pytest.mark.parametrize(("path", "digits"), NAMES.items())
def test_the_gate_has_the_name_that_omp_gives_it(path: str, digits: str) -> None:
    assert omp_lock.gate_name(path) == f"omp-file-lock-{digits}"


@linux
def test_while_it_is_held_nobody_else_gets_either_layer(file: Path, lock_file: Path) -> None:
    address = b"\0" + omp_lock.gate_name(f"{lock_file}.os").encode()

    def look() -> str:
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
            pytest.raises(OSError, match="in use"),
        ):
            other.bind(address)
        with pytest.raises(FileExistsError):
            os.open(lock_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        return lock_file.read_text()

    record = omp_lock.hold(str(file), look)
    assert re.fullmatch(rf"{os.getpid()}:\d{{13}}\n", record)
    assert not lock_file.exists()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(address)


def test_it_is_let_go_of_when_the_work_fails(file: Path, lock_file: Path) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        omp_lock.hold(str(file), fail)
    assert not lock_file.exists()
    assert omp_lock.hold(str(file), lambda: "again") == "again"


@linux
def test_a_living_omp_is_waited_for_and_a_dead_one_holds_nothing(
    file: Path, lock_file: Path
) -> None:
    holder = processes.start(HOLD, omp_lock.gate_name(f"{lock_file}.os"))
    processes.wait_for(holder, "held")
    assert omp_lock.is_held(str(file))
    with pytest.raises(SessionBusyError, match=r"s\.jsonl"):
        omp_lock.hold(str(file), lambda: None, timeout_s=0.05)
    assert not lock_file.exists()
    holder.kill()
    holder.communicate()
    assert not omp_lock.is_held(str(file))
    assert omp_lock.hold(str(file), lambda: 1, timeout_s=0.05) == 1


def test_the_lock_file_of_a_living_process_is_respected(file: Path, lock_file: Path) -> None:
    lock_file.write_text(f"{os.getpid()}:1\n")
    with pytest.raises(SessionBusyError):
        omp_lock.hold(str(file), lambda: None, timeout_s=0.05)
    assert lock_file.read_text() == f"{os.getpid()}:1\n"


@pytest.mark.parametrize("content", ["999999999:1\n", "", "nonsense"])
def test_a_lock_file_that_was_left_behind_goes_once_it_is_old(
    file: Path, lock_file: Path, content: str
) -> None:
    lock_file.write_text(content)
    with pytest.raises(SessionBusyError):  # a process in another container may be at work
        omp_lock.hold(str(file), lambda: None, timeout_s=0.05)
    os.utime(lock_file, (time.time() - 5, time.time() - 5))
    assert omp_lock.hold(str(file), lambda: "held", timeout_s=0.05) == "held"
    assert not lock_file.exists()


def test_a_planted_link_in_the_place_of_the_lock_file_is_not_followed(
    file: Path, lock_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    lock_file.symlink_to(other)
    assert omp_lock.hold(str(file), lambda: "done", timeout_s=0.05) == "done"
    assert other.read_text() == "precious"


def test_where_no_lock_file_can_be_made_the_work_is_done(tmp_path: Path) -> None:
    assert omp_lock.hold(str(tmp_path / "nowhere" / "s.jsonl"), lambda: "done") == "done"


def test_ctrl_c_at_any_step_leaves_neither_layer_behind(file: Path, lock_file: Path) -> None:
    def hold() -> None:
        omp_lock.hold(str(file), lambda: None, timeout_s=0.05)

    hold()  # what happens once only is no step of this
    counted = Keyboard()
    counted.watch(hold)
    for at in range(1, counted.steps, max(1, counted.steps // 1_000)):
        keyboard = Keyboard(at)
        with pytest.raises(KeyboardInterrupt) as interrupt:
            keyboard.watch(hold)
        assert not lock_file.exists(), keyboard.where
        hold()
        del interrupt


@pytest.mark.parametrize("refused", ["os.unlink", "sessiontree.storage.omp_lock._OmpLock._read"])
def test_a_lock_file_that_could_not_be_removed_does_not_lock_its_own_process_out(
    file: Path, lock_file: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(refused, refuse)
        assert omp_lock.hold(str(file), lambda: "done") == "done"
        assert lock_file.exists()
    assert omp_lock.hold(str(file), lock_file.exists, 0)
    assert not lock_file.exists()
