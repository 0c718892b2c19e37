"""What others write while a session file is being replaced, and after: none of it is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.samples import (
    ONE_TURN,
    assistant,
    header,
    lines,
    message,
    read,
    texts,
    user,
    write,
)

from sessiontree import FileSessionStorage, SessionManager
from sessiontree.storage.base import FileStat, Growth, Piece, StrPath


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "session.jsonl", header(), *ONE_TURN)


class Busy(FileSessionStorage):
    """Storage on which others are at work: each step happens around the next replacement."""

    def __init__(self) -> None:
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []

    def write_atomic(
        self,
        path: StrPath,
        pieces: bytes | Iterable[Piece],
        *,
        durable: bool = True,
        private: bool = False,
        growth: Growth | None = None,
    ) -> FileStat:
        _run(self.before)
        found = super().write_atomic(path, pieces, durable=durable, private=private, growth=growth)
        _run(self.after)
        return found


def _run(steps: list[Callable[[], object]]) -> None:
    while steps:
        steps.pop(0)()


class Other:
    """Another program, which has the file open and takes no lock."""

    def __init__(self, file: Path) -> None:
        self._fd = os.open(file, os.O_WRONLY | os.O_APPEND)

    def says(self, data: bytes) -> Callable[[], None]:
        def say() -> None:
            os.write(self._fd, data)

        return say

    def leave(self) -> None:
        os.close(self._fd)


@pytest.fixture
def storage() -> Busy:
    return Busy()


@pytest.fixture
def session(file: Path, storage: Busy) -> SessionManager:
    return SessionManager.open(file, storage=storage)


def ids(file: Path) -> list[str]:
    return [record["id"] for record in read(file)[1:]]


def test_lines_that_come_while_the_new_file_is_written_are_in_it(
    session: SessionManager, storage: Busy, file: Path
) -> None:
    other = Other(file)
    storage.before.append(
        other.says(lines(message("f1", "a2", user("3")), message("f2", "f1", assistant("4"))))
    )
    session.set_session_name("Named")
    assert ids(file) == ["a1", "a2", "f1", "f2"]
    session.close()
    other.leave()
    again = SessionManager.open(file)
    assert again.session_name == "Named"
    assert texts(again.build_session_context().messages) == ["1", "2", "3", "4"]
    assert not again.warnings


def test_lines_that_come_to_the_old_file_just_afterwards_are_brought_over(
    session: SessionManager, storage: Busy, file: Path
) -> None:
    other = Other(file)
    storage.after.append(other.says(lines(message("f1", "a2", user("3")))))
    session.set_session_name("Named")
    assert ids(file) == ["a1", "a2", "f1"], "before the operation is over"
    other.says(lines(message("f2", "f1", assistant("4"))))()
    assert session.refresh() == 2
    made = session.append_message(user("ours"))
    assert ids(file) == ["a1", "a2", "f1", "f2", made]
    other.says(lines(message("f3", "f2", user("5"))))()
    session.close()
    assert ids(file) == ["a1", "a2", "f1", "f2", made, "f3", *ids(file)[6:]]
    other.leave()
    assert {entry.parent_id for entry in SessionManager.open(file).get_entries()} >= {"f1", "f2"}


def test_a_line_that_comes_late_does_not_move_the_leaf_of_those_who_went_on(
    session: SessionManager, storage: Busy, file: Path
) -> None:
    other = Other(file)
    session.set_session_name("Named")
    with file.open("ab") as out:  # they have opened the name again
        out.write(lines(message("f2", "f1", assistant("4"))))
    other.says(lines(message("f1", "a2", user("3"))))()  # what was written before that, in time
    session.close()
    other.leave()
    again = SessionManager.open(file)
    assert texts(again.build_session_context().messages) == ["1", "2", "3", "4"]
    assert len([entry for entry in again.get_entries() if entry.parent_id is None]) == 1


def test_a_line_that_is_half_written_when_the_file_is_replaced_arrives_whole(
    session: SessionManager, storage: Busy, file: Path
) -> None:
    other = Other(file)
    line = lines(message("f1", "a2", user("3" * 5_000)))
    storage.before.append(other.says(line[:2_000]))
    storage.after.append(other.says(line[2_000:]))
    session.set_session_name("Named")
    other.leave()
    assert ids(file) == ["a1", "a2", "f1"]
    assert line in file.read_bytes()


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_a_last_line_without_an_end_is_kept_with_what_is_glued_to_it(
    tmp_path: Path, storage: Busy, ending: bytes
) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(lines(header(), *ONE_TURN)[:-1])
    session = SessionManager.open(file, storage=storage)
    other = Other(file)
    storage.before.append(other.says(ending + lines(message("f1", "a2", user("3")))))
    session.set_session_name("Named")
    session.close()
    other.leave()
    again = SessionManager.open(file)
    assert {"a1", "a2", "f1"} <= {entry.id for entry in again.get_entries()}


def test_a_file_that_another_program_replaces_at_the_same_time_is_merged(
    session: SessionManager, storage: Busy, file: Path
) -> None:
    def replace() -> None:
        copy = file.with_name("copy")
        copy.write_bytes(file.read_bytes() + lines(message("f1", "a2", user("3"))))
        os.replace(copy, file)

    storage.before.append(replace)
    session.set_session_name("Named")
    assert ids(file) == ["a1", "a2", "f1"]
    assert SessionManager.open(file).session_name == "Named"


def test_a_file_that_another_program_overwrites_at_the_same_time_is_merged(
    session: SessionManager, storage: Busy, file: Path
) -> None:
    def overwrite() -> None:
        file.write_bytes(lines(header(), message("b1", None, user("1"))))

    storage.before.append(overwrite)
    session.build_session_context()  # what is in memory can be put back
    session.rewrite_entries()
    assert {"a1", "a2", "b1"} <= set(ids(file))


def test_nothing_is_kept_open_once_nobody_can_write_to_the_old_file(
    session: SessionManager, file: Path
) -> None:
    def count_open() -> int:
        return len([1 for name in os.listdir("/proc/self/fd") if _leads_to(name, str(file))])

    def _leads_to(name: str, wanted: str) -> bool:
        try:
            return wanted in os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            return False

    before = count_open()
    for number in range(5):
        session.set_session_name(f"Name {number}")
    assert count_open() <= before + 1
    other = Other(file)
    for number in range(20):
        session.set_session_name(f"Name {number}")
    assert count_open() <= before + 10
    session.close()
    other.leave()
    assert count_open() <= 1


def test_a_line_that_is_there_already_is_not_written_twice(
    session: SessionManager, storage: Busy, file: Path
) -> None:
    other = Other(file)
    line = lines(message("f1", "a2", user("3")))
    session.set_session_name("Named")
    with file.open("ab") as out:
        out.write(line)
    other.says(line)()
    session.append_message(user("ours"))
    other.leave()
    assert file.read_bytes().count(line) == 1
