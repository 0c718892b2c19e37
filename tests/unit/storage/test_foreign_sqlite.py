"""Another program's database is read as it is, and stays as it is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiontree.storage.foreign_sqlite import fingerprint, read_database

TABLES = {"said": frozenset(("id", "text"))}


def texts(database: sqlite3.Connection) -> list[str]:
    return [row[0] for row in database.execute("SELECT text FROM said ORDER BY id")]


def read(path: Path) -> list[str]:
    return read_database(str(path), TABLES, texts)


def bytes_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.iterdir())
    }


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The agent's own connection, in WAL mode."""
    connection = sqlite3.connect(tmp_path / "a b#?.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE said (id INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("INSERT INTO said VALUES (1, 'one')")
    yield connection
    connection.close()


PATH = "a b#?.db"


def test_what_is_only_in_the_log_is_read_and_nothing_changes(
    tmp_path: Path, owner: sqlite3.Connection
) -> None:
    owner.execute("INSERT INTO said VALUES (2, 'two')")
    before = bytes_of(tmp_path)
    assert len(before) == 3
    # in a process of its own: this one's locks would be the owner's
    code = (
        "import sys; from sessiontree.storage.foreign_sqlite import read_database;"
        "print(read_database(sys.argv[1], {}, lambda d: d.execute('SELECT text FROM said')"
        ".fetchall()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / PATH)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[('one',), ('two',)]\n", done.stderr
    assert bytes_of(tmp_path) == before
    owner.execute("INSERT INTO said VALUES (3, 'three')")  # and its owner goes on


def test_a_closed_database_gets_no_companions(tmp_path: Path, owner: sqlite3.Connection) -> None:
    owner.close()
    before = bytes_of(tmp_path)
    assert list(before) == [PATH]
    assert read(tmp_path / PATH) == ["one"]
    assert bytes_of(tmp_path) == before


@pytest.mark.parametrize("kept", [("-wal", "-shm"), ("-wal",)])
def test_the_log_of_a_killed_owner_counts(
    tmp_path: Path, owner: sqlite3.Connection, kept: tuple[str, ...]
) -> None:
    del owner
    left = tmp_path / "left"
    left.mkdir()
    for suffix in ("", *kept):
        shutil.copy(tmp_path / (PATH + suffix), left / (PATH + suffix))
    before = bytes_of(left)
    assert read(left / PATH) == ["one"]
    assert bytes_of(left) == before


def test_a_read_only_folder_is_no_obstacle(tmp_path: Path, owner: sqlite3.Connection) -> None:
    owner.close()
    tmp_path.chmod(0o500)
    try:
        assert read(tmp_path / PATH) == ["one"]
    finally:
        tmp_path.chmod(0o700)


def test_each_reading_is_one_state_while_the_owner_writes(
    tmp_path: Path, owner: sqlite3.Connection
) -> None:
    """The owner writes pairs, in the log and (closing it again and again) in the file itself."""
    stop = time.monotonic() + 1.0
    failures: list[object] = []

    def write() -> None:
        number = 2
        while time.monotonic() < stop:
            other = sqlite3.connect(tmp_path / PATH, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            other.executemany(
                "INSERT INTO said VALUES (?, ?)", [(number, "x" * 3000), (number + 1, "y")]
            )
            other.execute("COMMIT")
            other.close()
            number += 2

    owner.close()
    writer = threading.Thread(target=write)
    writer.start()
    code = (
        "import sys; from sessiontree.storage.foreign_sqlite import read_database\n"
        "for _ in range(60):\n"
        "    try:\n"
        "        found = read_database(sys.argv[1], {}, lambda d: d.execute("
        "'SELECT count(*) FROM said').fetchone()[0])\n"
        "    except OSError as error:\n"
        "        assert error.strerror.startswith('another program is writing'), error\n"
        "    else:\n"
        "        assert found % 2 == 1, found\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / PATH)],
        capture_output=True,
        text=True,
        check=False,
    )
    writer.join()
    assert done.returncode == 0, done.stderr
    assert failures == []


def message(path: Path, tables: dict[str, frozenset[str]] = TABLES) -> str:
    with pytest.raises(OSError) as caught:
        read_database(str(path), tables, texts)
    assert caught.value.filename == str(path)
    return str(caught.value.strerror)


def test_errors_say_in_one_line_what_is_wrong(tmp_path: Path, owner: sqlite3.Connection) -> None:
    owner.close()
    good = tmp_path / PATH
    assert "no table other" in message(good, {"other": frozenset()})
    assert "no column said.more" in message(good, {"said": frozenset(("more",))})
    torn = tmp_path / "torn.db"
    torn.write_bytes(good.read_bytes()[:4096] + b"\xff" * 4096)
    assert "damaged" in message(torn)
    (tmp_path / "text.db").write_text("no database at all, but long enough to be one" * 40)
    assert "damaged" in message(tmp_path / "text.db")
    os.mkfifo(tmp_path / "pipe.db")
    assert "regular file" in message(tmp_path / "pipe.db")
    assert fingerprint(str(tmp_path / "none.db")) is None
    assert "No such file" in message(tmp_path / "none.db")


def test_a_half_written_database_is_left_to_its_owner(
    tmp_path: Path, owner: sqlite3.Connection
) -> None:
    owner.close()
    (tmp_path / (PATH + "-journal")).write_bytes(b"\xd9\xd5\x05\xf9 a change that is not finished")
    before = bytes_of(tmp_path)
    assert "not finished" in message(tmp_path / PATH)
    assert bytes_of(tmp_path) == before


def test_a_view_in_place_of_a_table_is_not_read(tmp_path: Path) -> None:
    """It could compute for ever."""
    path = tmp_path / "view.db"
    hostile = sqlite3.connect(path)
    hostile.execute(
        "CREATE VIEW said AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)"
        " SELECT id, 'x' AS text FROM n"
    )
    hostile.commit()
    hostile.close()
    assert "another layout" in message(path)
