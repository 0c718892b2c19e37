"""The catalogue: reads only what changed, and losing it costs nothing but time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.samples import assistant, dump, entry, message, slot, user, write
from tests.samples import header as make_header
from tests.unit.discovery.places import put, talk

from sessiontree.discovery import catalogue
from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.listing import SessionList, list_sessions
from sessiontree.storage import sqlite
from sessiontree.storage.base import SessionStorageReader, StrPath
from sessiontree.storage.file import FileSessionStorage


class CountingReader:
    def __init__(self, reader: SessionStorageReader, storage: CountingStorage) -> None:
        self._reader = reader
        self._storage = storage
        self.stat = reader.stat
        self.close = reader.close

    def read_at(self, offset: int, length: int) -> bytes:
        data = self._reader.read_at(offset, length)
        self._storage.bytes_read += len(data)
        return data


class CountingStorage(FileSessionStorage):
    """Counts the files opened and the bytes read."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.bytes_read = 0

    def open_reader(self, path: StrPath) -> SessionStorageReader:
        self.opened.append(os.path.basename(path))
        return CountingReader(super().open_reader(path), self)


@pytest.fixture
def storage() -> CountingStorage:
    return CountingStorage()


@pytest.fixture(autouse=True)
def fresh_memory() -> Iterator[None]:
    catalogue.forget_process_memory()
    yield
    catalogue.forget_process_memory()


@pytest.fixture(autouse=True)
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files made a moment ago count as settled: tests don't wait for the clock to tick."""
    monkeypatch.setattr(freshness, "_TICK_NS", -(10**12))


def listed(folder: Path, storage: CountingStorage | None = None) -> SessionList:
    return list_sessions("/x", folder, storage=storage)


def listed_anew(folder: Path, storage: CountingStorage | None = None) -> SessionList:
    """As another process would list it: with the database, without this one's memory."""
    catalogue.forget_process_memory()
    return listed(folder, storage)


def add(file: Path, *records: dict[str, object] | bytes) -> None:
    with file.open("ab") as stream:
        for record in records:
            stream.write(record if isinstance(record, bytes) else dump(record) + b"\n")


def make_large(folder: Path, **fields: object) -> Path:
    """A session larger than what is read whole when it has changed."""
    answers = ["question", "x" * 100_000] * 4
    return put(folder, *talk(*answers), **fields)  # type: ignore[arg-type]


def test_unchanged_files_are_not_opened_again(tmp_path: Path, storage: CountingStorage) -> None:
    for _ in range(40):
        put(tmp_path, *talk("x"))
    first = listed(tmp_path, storage)
    assert len(storage.opened) == 40
    assert listed(tmp_path, storage) == first
    assert listed_anew(tmp_path, storage) == first
    assert len(storage.opened) == 40


def test_only_the_changed_file_is_read(tmp_path: Path, storage: CountingStorage) -> None:
    files = [put(tmp_path, *talk("x")) for _ in range(40)]
    listed(tmp_path, storage)
    storage.opened.clear()
    add(files[7], message("b0000001", "a0000000", assistant("y")))
    counts = {info.path: info.message_count for info in listed_anew(tmp_path, storage)}
    assert storage.opened == [files[7].name]
    assert counts[str(files[7])] == 2


def test_a_grown_file_is_read_from_its_old_end(tmp_path: Path, storage: CountingStorage) -> None:
    file = make_large(tmp_path)
    listed(tmp_path, storage)
    storage.bytes_read = 0
    add(
        file,
        message("b0000001", "a0000007", user("more")),
        entry("session_info", "b0000002", "b0000001", name="Named"),
    )
    (info,) = listed_anew(tmp_path, storage)
    assert storage.bytes_read < 100_000
    assert (info.message_count, info.title, info.status) == (9, "Named", "interrupted")
    assert info.first_message == "question"


def test_growth_alone_does_not_prove_an_append(tmp_path: Path) -> None:
    file = make_large(tmp_path, title="Old")
    listed(tmp_path)
    data = file.read_bytes()
    lines = data.splitlines(keepends=True)
    with file.open("r+b") as stream:  # the same inode, longer, and other bytes before the old end
        stream.write(b"".join([lines[0].replace(b"Old", b"A new title"), *lines[2:], lines[-1]]))
        stream.write(b"x" * 100_000 + b"\n")
    (info,) = listed_anew(tmp_path)
    assert (info.title, info.status, info.message_count) == ("A new title", "damaged", 8)


def test_a_rename_in_the_title_slot_is_noticed(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", slot("Old"), make_header(), *talk("x"))
    assert listed(tmp_path)[0].title == "Old"
    with file.open("r+b") as stream:
        stream.write(slot("New"))
    assert listed_anew(tmp_path)[0].title == "New"


def test_an_edit_that_puts_the_old_mtime_back_is_noticed(tmp_path: Path) -> None:
    file = put(tmp_path, *talk("one"), mtime=1_790_000_000)
    assert listed(tmp_path)[0].first_message == "one"
    before = file.stat()
    with file.open("r+b") as stream:
        data = stream.read().replace(b"one", b"two")
        stream.seek(0)
        stream.write(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_ino,
    )
    assert listed(tmp_path)[0].first_message == "two"


def test_a_file_that_changes_within_a_tick_of_the_clock_is_not_trusted(
    tmp_path: Path, storage: CountingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "_TICK_NS", 3_600 * 10**9)
    put(tmp_path, *talk("x"))
    listed(tmp_path, storage)
    listed(tmp_path, storage)
    assert len(storage.opened) == 2


def test_a_replaced_file_is_read_whole(tmp_path: Path) -> None:
    file = put(tmp_path, *talk("one"), mtime=1_790_000_000)
    listed(tmp_path)
    other = put(tmp_path / "other", *talk("two"), mtime=1_790_000_000)
    os.replace(other, file)
    assert [info.first_message for info in listed_anew(tmp_path)] == ["two"]


def test_deleted_and_renamed_files_are_forgotten(tmp_path: Path) -> None:
    files = [put(tmp_path, *talk("x"), session_id=f"s{n:02}") for n in range(40)]
    listed(tmp_path)
    files[0].unlink()
    files[1].rename(tmp_path / "moved.jsonl")
    found = listed_anew(tmp_path)
    assert len(found) == 39
    assert str(tmp_path / "moved.jsonl") in {info.path for info in found}
    with sqlite3.connect(catalogue.SCHEMA.path) as database:
        assert database.execute("SELECT count(*) FROM files").fetchone() == (39,)
    database.close()


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 100_000])
def test_a_corrupt_catalogue_is_made_anew(tmp_path: Path, size: int) -> None:
    put(tmp_path, *talk("x"))
    first = listed(tmp_path)
    path = Path(catalogue.SCHEMA.path)
    path.write_bytes(b"corrupt" * (size // 7))
    assert listed_anew(tmp_path) == first
    assert listed_anew(tmp_path) == first
    assert _row_count(path) == 1


def test_a_catalogue_with_damaged_pages_is_made_anew(tmp_path: Path) -> None:
    for _ in range(200):
        put(tmp_path, *talk("x" * 400))
    first = listed(tmp_path)
    path = Path(catalogue.SCHEMA.path)
    data = bytearray(path.read_bytes())
    data[4096 : len(data) // 2] = b"\xff" * (len(data) // 2 - 4096)
    path.write_bytes(bytes(data))
    assert listed_anew(tmp_path) == first
    assert listed_anew(tmp_path) == first
    assert _row_count(path) == 200


def test_a_catalogue_of_another_version_or_kind_is_made_anew(tmp_path: Path) -> None:
    put(tmp_path, *talk("x"))
    path = Path(catalogue.SCHEMA.path)
    path.parent.mkdir(parents=True)
    for script in ("PRAGMA user_version = 99", "CREATE TABLE files (a)", "PRAGMA user_version = 1"):
        path.unlink(missing_ok=True)
        database = sqlite3.connect(path)
        database.execute(script)
        database.commit()
        database.close()
        assert len(listed_anew(tmp_path)) == 1
        assert len(listed_anew(tmp_path)) == 1
        assert _row_count(path) == 1


def test_rows_of_nonsense_are_read_again(tmp_path: Path) -> None:
    put(tmp_path, *talk("x"))
    first = listed(tmp_path)
    for nonsense in (b"", b"\x00", b"[", b"[1,2]", b"\x92\xc0\xc0", "text", 5, 0.5):
        database = sqlite3.connect(catalogue.SCHEMA.path)
        database.execute("UPDATE files SET data = ?", (nonsense,))
        database.commit()
        database.close()
        assert listed_anew(tmp_path) == first


def test_a_row_that_is_not_whole_is_read_again(tmp_path: Path) -> None:
    put(tmp_path, *talk("one question"))
    first = listed(tmp_path)
    database = sqlite3.connect(catalogue.SCHEMA.path)
    ((data,),) = database.execute("SELECT data FROM files")
    for damaged in (data.replace(b"one", b"two"), data[:-1], data[1:], data + b"\x00"):
        assert damaged != data
        database.execute("UPDATE files SET data = ?", (damaged,))
        database.commit()
        assert listed_anew(tmp_path) == first
    database.close()


def test_a_deleted_catalogue_costs_nothing_but_time(
    tmp_path: Path, storage: CountingStorage
) -> None:
    put(tmp_path, *talk("x"))
    first = listed(tmp_path, storage)
    for file in Path(sqlite.cache_dir()).iterdir():
        file.unlink()
    assert listed_anew(tmp_path, storage) == first
    assert len(storage.opened) == 2


def test_where_no_catalogue_can_be_listing_still_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in the way").touch()
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(tmp_path / "in the way"))
    put(tmp_path, *talk("x"))
    assert len(listed(tmp_path)) == 1
    assert len(listed_anew(tmp_path)) == 1


def test_a_catalogue_that_is_locked_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.05)
    file = put(tmp_path, *talk("x"))
    listed(tmp_path)
    database = sqlite3.connect(catalogue.SCHEMA.path, isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    add(file, message("b0000001", "a0000000", assistant("y")))
    assert listed_anew(tmp_path)[0].message_count == 2
    database.execute("ROLLBACK")
    database.close()


def test_the_catalogue_is_private(tmp_path: Path) -> None:
    put(tmp_path, *talk("x"))
    listed(tmp_path)
    folder = Path(sqlite.cache_dir())
    assert folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())


def test_half_an_emoji_is_remembered_too(tmp_path: Path, storage: CountingStorage) -> None:
    put(tmp_path, *talk("x"), title="\ud83d", session_id="abc")
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes().replace(b"\xed\xa0\xbd", b"\\ud83d"))
    first = listed(tmp_path, storage)
    assert first[0].title == "\ud83d"
    assert listed_anew(tmp_path, storage) == first
    assert len(storage.opened) == 1


def test_names_that_are_no_text_are_remembered_too(
    tmp_path: Path, storage: CountingStorage
) -> None:
    file = put(tmp_path, *talk("x"))
    os.rename(file, os.fsencode(tmp_path) + b"/\xff\n\x1b.jsonl")
    first = listed(tmp_path, storage)
    assert listed_anew(tmp_path, storage) == first
    assert len(storage.opened) == 1


def test_the_cache_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(tmp_path / "cache"))
    put(tmp_path, *talk("x"))
    listed(tmp_path)
    assert (tmp_path / "cache" / "catalogue-5.sqlite3").exists()


def _row_count(path: Path) -> int:
    database = sqlite3.connect(path)
    (count,) = database.execute("SELECT count(*) FROM files").fetchone()
    database.close()
    return int(count)


def test_what_follows_damage_is_read_as_a_full_scan_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torn answer with another process's line glued to it, then a child of the torn one."""
    monkeypatch.setattr(freshness, "SMALLEST_GROWN_BYTES", 64)
    file = write(tmp_path / "a.jsonl", make_header(), message("a0000001", None, user("first")))
    torn = dump(message("a0000002", "a0000001", assistant("answer " * 3_000)))[:6_000]
    add(file, torn + dump(message("b0000001", "a0000001", user("more"))) + b"\n")
    assert listed(tmp_path)[0].status == "damaged"
    add(file, message("c0000001", "a0000002", user("on")))
    grown = listed(tmp_path)
    sqlite.replace(catalogue.SCHEMA)
    assert grown == listed_anew(tmp_path)
