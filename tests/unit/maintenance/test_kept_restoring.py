"""Restoring: where it was, as it was, and never over anything."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from tests.agent_samples import claude_answer, claude_prompt, put_claude, put_subagent

from sessiontree.errors import PersistenceError, SessionNotFoundError
from sessiontree.maintenance.keeping import keep_sessions
from sessiontree.maintenance.kept_restoring import RestoreRefusedError, restore_session

ONE = "11111111-1111-4111-8111-111111111111"


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessiontree.discovery.catalogue.freshness._TICK_NS", 0)


@pytest.fixture
def files(home: Path) -> dict[Path, bytes]:
    """A kept session with a part and a file of a tool."""
    main = put_claude(home, ONE, claude_prompt("hello"), claude_answer("yes"))
    part = put_subagent(home, ONE, "x", claude_prompt("below", 7), claude_answer("yes", 8))
    printed = main.with_suffix("") / "tool-results" / "1.txt"
    printed.parent.mkdir()
    printed.write_bytes(b"\0\xff" * 1000)
    keep_sessions()
    return {path: path.read_bytes() for path in (main, part, printed)}


def test_a_session_is_put_back_with_all_that_belongs_to_it(
    home: Path, files: dict[Path, bytes]
) -> None:
    main = next(iter(files))
    shutil.rmtree(home / ".claude")
    done = restore_session(str(main))
    assert sorted(done.written) == sorted(map(str, files))
    assert {path: path.read_bytes() for path in files} == files
    assert main.stat().st_mode & 0o777 == 0o600
    assert main.stat().st_mtime > time.time() - 60  # or its agent would delete it at once
    assert not list(home.rglob(".restored-*"))
    again = restore_session(str(main))
    assert (again.written, sorted(again.present)) == ([], sorted(map(str, files)))


def test_what_differs_is_never_written_over(home: Path, files: dict[Path, bytes]) -> None:
    main, part, printed = files
    main.unlink()
    printed.unlink()
    for other in (b"", files[part][:-1], files[part] + b"x", b"\n" + files[part][1:]):
        part.write_bytes(other)
        with pytest.raises(RestoreRefusedError, match="exists and differs"):
            restore_session(str(main))
        assert part.read_bytes() == other
        assert not main.exists(), "all or nothing"
    part.unlink()
    part.mkdir()
    with pytest.raises(RestoreRefusedError):
        restore_session(str(main))
    part.rmdir()
    os.symlink("/nowhere", part)
    with pytest.raises(PersistenceError):
        restore_session(str(main))
    assert os.readlink(part) == "/nowhere"


def test_an_earlier_version_is_put_back(files: dict[Path, bytes]) -> None:
    main = next(iter(files))
    main.write_bytes(b"{}\n")
    keep_sessions()
    main.unlink()
    restore_session(str(main), version=1)
    assert main.read_bytes() == files[main]


def test_what_is_not_kept_cannot_be_restored(home: Path, files: dict[Path, bytes]) -> None:
    main = next(iter(files))
    for path, version in ((str(home / "none.jsonl"), 0), (str(main), 1)):
        with pytest.raises(SessionNotFoundError):
            restore_session(path, version=version)
