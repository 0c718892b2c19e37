"""Rights that the system refuses to give stop nothing: it is said once, and the work goes on."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.samples import ONE_TURN, header, user, write

from sessiontree import PersistenceError, SessionManager
from sessiontree.maintenance.annotations import rename_session
from sessiontree.profiles import get_profile
from sessiontree.storage.atomic import move_across_devices
from sessiontree.stores.files.store import FileStore
from sessiontree.stores.files.trash import move_to_trash, restore


def _make(folder: Path, mode: int = 0o644) -> Path:
    file = write(folder / "x.jsonl", header(cwd=str(folder)), *ONE_TURN)
    os.chmod(file, mode)
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return _make(tmp_path / "s")


@pytest.fixture(params=[errno.EPERM, errno.EOPNOTSUPP])
def refused(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
) -> int:
    """A system that changes neither rights nor times, as vfat and some shares."""

    def refuse(path: Any, *_: Any, **__: Any) -> None:
        raise OSError(request.param, os.strerror(request.param), path)

    for name in ("chmod", "fchmod", "utime"):
        monkeypatch.setattr(os, name, refuse)
    return int(request.param)


def test_rename_rewrite_move_and_fork_go_on_and_say_it_once(
    file: Path, refused: int, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    with SessionManager.open(file, file.parent) as session:
        session.set_session_name("named")
        session.rewrite_entries()
        session.append_message(user("3"))
        session.move_to(tmp_path / "new")
        told = [str(warning) for warning in session.warnings]
        assert len([line for line in told if "rights" in line]) == 1
        assert os.strerror(refused) in told[0]
        assert str(file) in told[0]
        session.fork()
        session.append_message(user("4"))
        assert session.session_name == "named"
    again = SessionManager.open(file)
    assert len(again.get_entries()) == 3
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.usefixtures("refused")
def test_commands_go_on_too(file: Path, home: Path) -> None:
    told: list[object] = []
    assert rename_session(FileStore(), str(file), "named", told.append) == "named"
    assert len(told) == 1
    item = move_to_trash(file, profile=get_profile())
    assert restore(item) == str(file)


@pytest.mark.usefixtures("refused")
def test_a_move_to_another_device_goes_on(tmp_path: Path) -> None:
    source = tmp_path / "a"
    (source / "below").mkdir(parents=True)
    (source / "x.txt").write_text("x")
    (source / "below" / "y.txt").write_text("y")
    (source / "link").symlink_to("x.txt")
    move_across_devices(str(source), str(tmp_path / "b"))
    assert sorted(path.name for path in (tmp_path / "b").rglob("*")) == [
        *("below", "link", "x.txt", "y.txt")
    ]
    assert os.readlink(tmp_path / "b" / "link") == "x.txt"
    assert not source.exists()
    move_across_devices(str(tmp_path / "b" / "x.txt"), str(tmp_path / "z.txt"))
    assert (tmp_path / "z.txt").read_text() == "x"


def test_a_move_to_another_device_keeps_rights_and_times(tmp_path: Path) -> None:
    source = tmp_path / "a"
    (source / "below").mkdir(parents=True)
    (source / "below" / "y.txt").write_text("y")
    (source / "below" / "y.txt").chmod(0o640)
    (source / "below").chmod(0o750)
    for path in (source / "below" / "y.txt", source / "below"):
        os.utime(path, ns=(1_000, 2_000))
    move_across_devices(str(source), str(tmp_path / "b"))
    for name, mode in (("below/y.txt", 0o640), ("below", 0o750)):
        found = (tmp_path / "b" / name).stat()
        assert (stat.S_IMODE(found.st_mode), found.st_mtime_ns) == (mode, 2_000)


def test_rights_that_are_given_are_not_spoken_of(file: Path) -> None:
    with SessionManager.open(file) as session:
        session.set_session_name("named")
        assert session.warnings == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_failing_disk_is_no_refusal(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Any, *_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "broken", path)

    before = file.read_bytes()
    session = SessionManager.open(file)
    monkeypatch.setattr(os, "chmod", fail)
    with pytest.raises(PersistenceError, match="broken"):
        session.set_session_name("named")
    assert file.read_bytes() == before
    assert not list(file.parent.glob(".*.tmp"))
    shutil.rmtree(file.parent)
