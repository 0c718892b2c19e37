"""The public fakes do what they are told, when they are told."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from sessiontree import MemorySessionStorage
from sessiontree.testing import FaultyStorage, fixed_clock


@pytest.fixture
def storage() -> FaultyStorage:
    inside = MemorySessionStorage()
    inside.ensure_dir("/s")
    inside.write_atomic("/s/x", b"1\n")
    inside.write_atomic("/s/y", b"2\n")
    return FaultyStorage(inside)


def outcomes(storage: FaultyStorage, paths: list[str]) -> list[str]:
    found = []
    for path in paths:
        try:
            found.append(storage.read(path).decode().strip())
        except OSError as error:
            found.append(errno.errorcode[error.errno or 0])
    return found


def test_what_is_not_told_to_fail_works(storage: FaultyStorage) -> None:
    assert outcomes(storage, ["/s/x", "/s/y", "/s/z"]) == ["1", "2", "ENOENT"]
    assert storage.calls == {"read": 3}
    assert storage.trace == [("read", "/s/x"), ("read", "/s/y"), ("read", "/s/z")]


def test_the_next_call_fails_once(storage: FaultyStorage) -> None:
    storage.fail("read", errno.EIO)
    assert outcomes(storage, ["/s/x", "/s/x"]) == ["EIO", "1"]


def test_the_nth_call_fails_as_often_as_told(storage: FaultyStorage) -> None:
    storage.fail("read", errno.EACCES, at=2, times=2)
    assert outcomes(storage, ["/s/x"] * 5) == ["1", "EACCES", "EACCES", "1", "1"]


def test_a_call_fails_until_it_is_healed(storage: FaultyStorage) -> None:
    storage.fail("read", errno.EROFS, times=None)
    assert outcomes(storage, ["/s/x"] * 3) == ["EROFS"] * 3
    storage.heal()
    assert outcomes(storage, ["/s/x"]) == ["1"]


def test_only_calls_on_a_certain_path_fail(storage: FaultyStorage) -> None:
    storage.fail("read", errno.EIO, at=2, path_part="/y")
    assert outcomes(storage, ["/s/y", "/s/x", "/s/x", "/s/y"]) == ["2", "1", "1", "EIO"]


def test_writers_and_readers_fail_too(storage: FaultyStorage) -> None:
    writer, reader = storage.open_writer("/s/x"), storage.open_reader("/s/x")
    for operation, work in (
        ("write_line", lambda: writer.write_line(b"3\n")),
        ("fsync", writer.fsync),
        ("flush", writer.flush),
        ("lock", writer.lock),
        ("truncate", lambda: writer.truncate(0)),
        ("overwrite", lambda: writer.overwrite(0, b"x")),
        ("read_at", lambda: reader.read_at(0, 1)),
        ("close", writer.close),
    ):
        storage.fail(operation, errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            work()
    assert isinstance(writer.get_error(), OSError)
    assert storage.read("/s/x") == b"1\n"


def test_a_write_is_cut_short(storage: FaultyStorage) -> None:
    writer = storage.open_writer("/s/x")
    storage.fail("write_line", errno.ENOSPC, keep=3)
    with pytest.raises(OSError, match="space"):
        writer.write_line(b"half a line\n")
    assert storage.read("/s/x") == b"1\nhal"


def test_another_process_gets_its_turn_between_two_steps(storage: FaultyStorage) -> None:
    storage.interrupt("read", lambda: storage.inside.write_atomic("/s/x", b"theirs\n"), at=2)
    assert outcomes(storage, ["/s/x"] * 3) == ["1", "theirs", "theirs"]


def test_what_can_not_fail_is_refused(storage: FaultyStorage) -> None:
    with pytest.raises(ValueError, match="no operation 'explode'"):
        storage.fail("explode", errno.EIO)
    with pytest.raises(ValueError, match="no operation 'explode'"):
        storage.interrupt("explode", lambda: None)
    with pytest.raises(ValueError, match="cut short"):
        storage.fail("rename", errno.EIO, keep=1)


def test_a_clock_stands_still_or_moves_by_its_step() -> None:
    still, moving = fixed_clock(), fixed_clock(1_000, 5)
    assert [still() for _ in range(3)] == [1_771_237_230_000] * 3
    assert [moving() for _ in range(3)] == [1_000, 1_005, 1_010]


FORGETFUL = """
import pytest
from sessiontree import MemorySessionStorage
from sessiontree.testing import StorageContract


class Forgetful(MemorySessionStorage):
    def read_prefix(self, path, length):
        return b"forgotten"


class TestForgetful(StorageContract):
    @pytest.fixture
    def storage(self):
        return Forgetful()

    @pytest.fixture
    def root(self):
        return "/contract"
"""


def test_the_contract_shows_what_a_storage_gave_where_it_breaks_a_rule(tmp_path: Path) -> None:
    (tmp_path / "test_forgetful.py").write_text(FORGETFUL, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "beginning", "test_forgetful.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert "b'forgotten'" in done.stdout
