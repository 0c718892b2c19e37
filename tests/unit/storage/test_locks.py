"""Advisory locks: one holder at a time, none of them stale, and a limit to patience."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import processes

from sessiontree import FileSessionStorage, SessionBusyError
from sessiontree.storage import locks

HOLD = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"")
    return path


@pytest.fixture
def fd(file: Path) -> Iterator[int]:
    made = os.open(file, os.O_RDWR)
    yield made
    os.close(made)


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


def test_a_free_lock_is_had_at_once(fd: int) -> None:
    time = Time()
    assert locks.lock(fd, "x", clock=time.clock, sleep=time.sleep) is True
    assert time.sleeps == []
    locks.unlock(fd)


def test_patience_ends_with_an_error_that_names_the_file(file: Path, fd: int) -> None:
    other = processes.start(HOLD, file)
    processes.wait_for(other, "held")
    time = Time()
    with pytest.raises(SessionBusyError, match=r"x\.jsonl") as caught:
        locks.lock(fd, str(file), 3.0, clock=time.clock, sleep=time.sleep)
    assert caught.value.path == str(file)
    assert 3.0 <= time.now - 100.0 < 4.0
    other.kill()
    other.communicate()


def test_a_lock_is_had_when_its_holder_lets_go(file: Path, fd: int) -> None:
    other = os.open(file, os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    time = Time()

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        if len(time.sleeps) == 3:
            fcntl.flock(other, fcntl.LOCK_UN)

    assert locks.lock(fd, "x", clock=time.clock, sleep=sleep) is True
    assert len(time.sleeps) == 3
    os.close(other)


def test_the_dead_hold_no_locks(file: Path, fd: int) -> None:
    other = processes.start(HOLD, file)
    processes.wait_for(other, "held")
    other.kill()
    other.communicate()
    time = Time()
    assert locks.lock(fd, "x", clock=time.clock, sleep=time.sleep) is True


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_locks_the_work_goes_on_and_the_caller_is_told(
    code: int, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert locks.lock(fd, "x") is False


def test_a_true_error_is_raised(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="Input/output"):
        locks.lock(fd, "x")


def test_a_lock_that_the_system_does_not_release_is_let_go_of_all_the_same(
    file: Path, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise everybody else would wait for the life of this process."""
    writer = FileSessionStorage().open_writer(file, create=False)
    writer.lock()

    def refuse(number: int, what: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as refusing:
        refusing.setattr(fcntl, "flock", refuse)
        writer.unlock()
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(fd, fcntl.LOCK_UN)
    assert writer.lock() == 0
    writer.write_line(b"still ours\n")
    writer.unlock()
    writer.close()
    assert file.read_bytes() == b"still ours\n"
