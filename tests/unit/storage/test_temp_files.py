"""Temporary files: those of the dead are swept, those of the living never, wherever they live."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests import processes

from sessiontree import FileSessionStorage
from sessiontree.storage import temp_files
from sessiontree.storage.handles import Handle

# A process whose id means nothing here, as if it lived in another container.
ELSEWHERE = 999_999_999

WRITE = """
import sys
from sessiontree.storage.temp_files import make_temp_file
handle = make_temp_file(sys.argv[1])
print("writing", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    return tmp_path / f".s.jsonl.{ELSEWHERE}-0a1b2c3d.tmp"


def test_what_is_being_written_elsewhere_stays_and_what_was_left_there_goes(
    temp: Path, tmp_path: Path
) -> None:
    writer = processes.start(WRITE, temp)
    processes.wait_for(writer, "writing")
    FileSessionStorage().write_atomic(tmp_path / "s.jsonl", b"{}\n")
    assert temp.exists()
    writer.kill()
    writer.communicate()
    FileSessionStorage().write_atomic(tmp_path / "s.jsonl", b"{}\n")
    assert not temp.exists()


def test_what_a_process_here_writes_without_a_lock_stays(tmp_path: Path) -> None:
    temp = tmp_path / f".s.jsonl.{os.getpid()}-0a1b2c3d.tmp"
    temp.write_bytes(b"half")
    FileSessionStorage().write_atomic(tmp_path / "s.jsonl", b"{}\n")
    assert temp.exists()


def test_only_its_own_names_are_swept(tmp_path: Path) -> None:
    others = [
        tmp_path / name
        for name in (
            f".other.jsonl.{ELSEWHERE}-aa.tmp",
            f"s.jsonl.{ELSEWHERE}-aa.tmp",
            ".s.jsonl.7fa9.tmp",
            f".s.jsonl.{ELSEWHERE}-aa",
        )
    ]
    for other in others:
        other.write_bytes(b"")
    FileSessionStorage().write_atomic(tmp_path / "s.jsonl", b"{}\n")
    assert all(other.exists() for other in others)


def test_a_file_swept_before_it_was_locked_is_made_again(
    temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = temp_files.claim
    swept: list[str] = []

    def sweep_first(handle: Handle, path: str) -> bool:
        if not swept:
            swept.append(path)
            os.unlink(path)
        return claim(handle, path)

    monkeypatch.setattr(temp_files, "claim", sweep_first)
    handle = temp_files.make_temp_file(str(temp))
    os.write(handle.number, b"here")
    handle.close()
    assert swept == [str(temp)]
    assert temp.read_bytes() == b"here"
