"""A fork's lines are copied while they are being checked: what may happen in between."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.samples import assistant, chain, header, lines, read, user, write

from sessiontree import FileSessionStorage, SessionManager
from sessiontree.storage.base import FileStat, Growth, Piece, SessionStorageReader, StrPath

LONG = chain(*(make(f"text {at}") for at in range(200) for make in (user, assistant)))
PATIENCE_S = 30.0


class _Watched:
    """A reader that calls out once, before the entries are read."""

    def __init__(self, reader: SessionStorageReader, before: Callable[[], None]) -> None:
        self._reader = reader
        self._before: Callable[[], None] | None = before

    def stat(self) -> FileStat:
        return self._reader.stat()

    def read_at(self, offset: int, length: int) -> bytes:
        if offset and self._before is not None:
            before, self._before = self._before, None
            before()
        return self._reader.read_at(offset, length)

    def close(self) -> None:
        self._reader.close()


class MeddledStorage(FileSessionStorage):
    """Lets something happen to the source when it is copied and not yet checked.

    Remembers what lay in the target folder whenever a file was begun there by who forks.
    """

    def __init__(self, source: Path, target: Path, meddle: Callable[[], object]) -> None:
        self._source = source
        self._target = target
        self._meddle = meddle
        self.seen: list[list[str]] = []

    def open_reader(self, path: StrPath) -> SessionStorageReader:
        reader = super().open_reader(path)
        if path == str(self._source) and threading.current_thread() is threading.main_thread():
            return _Watched(reader, self._wait_and_meddle)
        return reader

    def write_atomic(
        self,
        path: StrPath,
        pieces: bytes | Iterable[Piece],
        *,
        durable: bool = True,
        private: bool = False,
        growth: Growth | None = None,
    ) -> FileStat:
        if threading.current_thread() is threading.main_thread():
            self.seen.append(os.listdir(self._target))
        return super().write_atomic(path, pieces, durable=durable, private=private, growth=growth)

    def _wait_and_meddle(self) -> None:
        size = self._source.stat().st_size
        deadline = time.monotonic() + PATIENCE_S
        while not any(file.stat().st_size >= size for file in self._target.glob(".*.tmp")):
            assert time.monotonic() < deadline, "nothing was copied ahead"
            time.sleep(0.005)
        self._meddle()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "source" / "session.jsonl", header(), *LONG)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def _check(fork: SessionManager, expected: int) -> None:
    """Tree and file agree, also after going on and reading again."""
    assert len(fork.get_entries()) == expected
    assert len(read(str(fork.session_file))) == expected + 1
    made = fork.append_message(user("on"))
    fork.close()
    with SessionManager.open(str(fork.session_file)) as again:
        assert len(again.get_branch()) == expected + 1
        assert again.leaf_id == made
        assert again.warnings == []


@pytest.mark.parametrize("kept", [0, 1, 120])
def test_a_source_that_is_cut_short_after_it_was_copied_gives_what_was_read(
    source: Path, target: Path, kept: int
) -> None:
    rest = lines(header(), *LONG[:kept])
    storage = MeddledStorage(source, target, lambda: os.truncate(source, len(rest)))
    _check(SessionManager.fork_from(source, "/p", target, profile="omp", storage=storage), kept)


def test_a_source_that_is_rewritten_in_place_gives_what_was_read(
    source: Path, target: Path
) -> None:
    other = source.read_bytes().replace(b"text 1", b"next 1")
    storage = MeddledStorage(source, target, lambda: source.write_bytes(other))
    fork = SessionManager.fork_from(source, "/p", target, profile="omp", storage=storage)
    assert Path(str(fork.session_file)).read_bytes().endswith(other.split(b"\n", 1)[1])
    _check(fork, len(LONG))


def test_lines_that_come_while_it_is_copied_are_not_in_the_fork(source: Path, target: Path) -> None:
    def append() -> None:
        with SessionManager.open(source) as session:
            session.append_message(user("late"))

    storage = MeddledStorage(source, target, append)
    _check(
        SessionManager.fork_from(source, "/p", target, profile="omp", storage=storage),
        len(LONG),
    )


def test_a_copy_that_will_not_do_is_gone_before_the_entries_are_written(
    tmp_path: Path, target: Path
) -> None:
    damaged = write(tmp_path / "source" / "session.jsonl", header(), *LONG, b"damaged\n")
    storage = MeddledStorage(damaged, target, lambda: None)
    _check(
        SessionManager.fork_from(damaged, "/p", target, profile="omp", storage=storage),
        len(LONG),
    )
    assert storage.seen[0] == []


_INTERRUPTED = """
import os, random, shutil, signal, sys, time
from sessiontree import SessionManager

source, target = sys.argv[1:]
is_armed = False

def interrupt(*_):
    if is_armed:
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
SessionManager.fork_from(source, "/p", target).close()

def measure():
    started = time.perf_counter()
    SessionManager.fork_from(source, "/p", target).close()
    return time.perf_counter() - started

duration = min(measure() for _ in range(7))
interrupted = 0
for _ in range(150):
    shutil.rmtree(target)
    os.mkdir(target)
    try:
        is_armed = True
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, random.random() * duration))
        SessionManager.fork_from(source, "/p", target).close()
        is_armed = False
    except KeyboardInterrupt:
        is_armed = False
        interrupted += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    deadline = time.monotonic() + 20
    while any(name.endswith(".tmp") for name in os.listdir(target)):
        assert time.monotonic() < deadline, os.listdir(target)
        time.sleep(0.001)
assert interrupted > 20, interrupted
"""


@pytest.mark.parametrize("end", [b"", b"damaged\n"])
def test_an_interrupt_at_any_moment_ends_a_fork_and_leaves_nothing_half_done(
    tmp_path: Path, target: Path, end: bytes
) -> None:
    source = write(tmp_path / "source" / "session.jsonl", header(), *LONG, end)
    command = [sys.executable, "-c", _INTERRUPTED, str(source), str(target)]
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_that_no_file_can_lie_in_is_one_error_and_no_noise(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="null"):
        SessionManager.fork_from(source, "/p", f"{tmp_path}/a\0b")
    assert capfd.readouterr().err == ""
