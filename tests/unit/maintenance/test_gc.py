"""Garbage: only what nothing refers to goes, and only after a look."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sessiontree.errors import PersistenceError
from sessiontree.maintenance.gc import find_garbage, remove_garbage
from sessiontree.profiles import Profile, get_profile
from sessiontree.storage.temp_files import make_temp_file
from sessiontree.stores.files.folders import known_session_dirs, remember_session_dir
from sessiontree.stores.files.references import references_in

DAY = 86_400


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("SESSIONTREE_AGENT_DIR", "PI_CODING_AGENT_DIR", "SESSIONTREE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return get_profile()


def _later() -> float:
    return time.time() + DAY


def _blob(profile: Profile, content: bytes) -> Path:
    folder = Path(profile.blobs_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(content).hexdigest()
    path.write_bytes(content)
    return path


def _write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _project(profile: Profile) -> Path:
    return Path(profile.sessions_dir) / "--work--"


def _garbage(profile: Profile) -> set[str]:
    return {piece.path for piece in find_garbage(profile, clock=_later).garbage}


def test_a_blob_that_nothing_names_can_go(profile: Profile) -> None:
    needed, useless = _blob(profile, b"needed"), _blob(profile, b"useless")
    _write(_project(profile) / "a.jsonl", f'{{"data":"blob:sha256:{needed.name}"}}\n')
    report = find_garbage(profile, clock=_later)
    assert [(piece.kind, piece.path, piece.size) for piece in report.garbage] == [
        ("blob", str(useless), 7)
    ]
    assert (report.referenced, report.young, report.size) == (1, 0, 7)
    assert useless.exists()
    removal = remove_garbage(report, clock=_later)
    assert [piece.path for piece in removal.removed] == [str(useless)]
    assert needed.exists()
    assert not useless.exists()


@pytest.mark.parametrize(
    "place",
    [
        "sessions/--work--/a.jsonl",
        "sessions/--work--/.a.jsonl.draft",
        "sessions/--work--/a.jsonl.rejected",
        "sessions/--work--/a.jsonl.corrupt-2026-01-01T00-00-00-000Z",
        "sessions/--work--/a/subagent.jsonl",
        "sessions/--work--/.a.jsonl.123-ab.tmp",
        "trash/x/0-a.jsonl",
        "backups/2026/a.jsonl",
    ],
)
def test_a_blob_stays_while_any_file_of_the_profile_names_it(profile: Profile, place: str) -> None:
    blob = _blob(profile, b"picture")
    _write(Path(profile.agent_dir) / place, f'garbage blob:sha256:{blob.name}" torn')
    assert str(blob) not in _garbage(profile)


def test_a_session_under_another_profile_keeps_a_blob(profile: Profile) -> None:
    blob = _blob(profile, b"picture")
    _write(Path(get_profile("omp").sessions_dir) / "-x" / "a.jsonl", f"blob:sha256:{blob.name}")
    assert str(blob) not in _garbage(profile)


def test_a_session_in_a_folder_of_its_own_keeps_a_blob(profile: Profile, tmp_path: Path) -> None:
    blob = _blob(profile, b"picture")
    elsewhere = tmp_path / "my sessions"
    _write(elsewhere / "a.jsonl", f"blob:sha256:{blob.name}")
    assert str(blob) in _garbage(profile)
    assert not find_garbage(profile, folders=[str(elsewhere)], clock=_later).garbage
    remember_session_dir(profile, str(elsewhere))
    remember_session_dir(profile, str(elsewhere))
    assert known_session_dirs(profile) == [str(elsewhere)]
    assert str(blob) not in _garbage(profile)


def test_a_session_that_a_terminal_had_open_keeps_a_blob(profile: Profile, tmp_path: Path) -> None:
    blob = _blob(profile, b"picture")
    session = _write(tmp_path / "elsewhere" / "a.jsonl", f"blob:sha256:{blob.name}")
    _write(Path(profile.terminal_sessions_dir) / "pts-3", f"/work\n{session}\n")
    assert str(blob) not in _garbage(profile)


def test_a_sessions_folder_behind_a_link_counts(profile: Profile, tmp_path: Path) -> None:
    blob = _blob(profile, b"picture")
    _write(tmp_path / "disk" / "--work--" / "a.jsonl", f"blob:sha256:{blob.name}")
    os.symlink(tmp_path / "disk", profile.sessions_dir)
    os.symlink(profile.agent_dir, tmp_path / "disk" / "loop")
    assert str(blob) not in _garbage(profile)


def test_what_lies_behind_a_link_is_not_ours_to_remove(profile: Profile, tmp_path: Path) -> None:
    """A folder planted among ours may be anybody's, with names like those we remove."""
    ours = _blob(profile, b"picture")
    outside = tmp_path / "outside"
    theirs = {_write(outside / ("c" * 64), "theirs"), _write(outside / ".notes.tmp", "theirs")}
    os.symlink(outside, Path(profile.blobs_dir) / "more")
    _project(profile).mkdir(parents=True)
    os.symlink(outside, _project(profile) / "more")
    report = find_garbage(profile, clock=_later)
    assert [piece.path for piece in report.garbage] == [str(ours)]
    assert remove_garbage(report, clock=_later).removed == report.garbage
    assert all(path.exists() for path in theirs)


def test_young_blobs_stay(profile: Profile) -> None:
    _blob(profile, b"just stored")
    report = find_garbage(profile)
    assert (report.garbage, report.young) == ([], 1)


def test_a_blob_used_since_the_look_stays(profile: Profile) -> None:
    blob = _blob(profile, b"picture")
    os.utime(blob, (1, 1))
    report = find_garbage(profile, clock=_later)
    assert len(report.garbage) == 1
    os.utime(blob)  # what storing the same content again does
    removal = remove_garbage(report)
    assert (removal.removed, removal.spared) == ([], 1)
    assert blob.read_bytes() == b"picture"
    assert list(blob.parent.iterdir()) == [blob]


def test_links_that_name_the_kind_of_an_image_go_with_their_blob(profile: Profile) -> None:
    used, useless = _blob(profile, b"used"), _blob(profile, b"useless")
    _write(_project(profile) / "a.jsonl", f"blob:sha256:{used.name}")
    for blob in (used, useless):
        os.link(blob, f"{blob}.png")
    assert _garbage(profile) == {str(useless), f"{useless}.png"}


def test_other_files_among_the_blobs_are_left_alone(profile: Profile) -> None:
    _write(Path(profile.blobs_dir) / "README.txt", "mine")
    _write(Path(profile.blobs_dir) / ("a" * 63), "not a hash")
    assert _garbage(profile) == set()


def test_nothing_goes_while_something_can_not_be_read(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    _blob(profile, b"picture")
    locked = _write(_project(profile) / "a.jsonl", "secret")
    real = os.open

    def guarded(path: str, *args: int) -> int:
        if path == str(locked):
            raise PermissionError(13, "Permission denied", str(locked))
        return real(path, *args)

    monkeypatch.setattr(os, "open", guarded)
    with pytest.raises(PersistenceError, match="Permission denied"):
        find_garbage(profile, clock=_later)


def test_a_reference_across_two_reads_is_seen(tmp_path: Path) -> None:
    digest = "ab" * 32
    for shift in (0, 1, 40, 75, 76):
        path = _write(
            tmp_path / "x", b"." * ((1 << 20) - shift) + b"blob:sha256:" + digest.encode()
        )
        assert references_in(str(path)) == {digest}


def test_temporary_files_of_dead_writers_can_go(profile: Profile) -> None:
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    dead = _write(_project(profile) / f".a.jsonl.{child.stdout.strip()}-12ab34cd.tmp", "x")
    _write(_project(profile) / f".a.jsonl.{os.getpid()}-12ab34cd.tmp", "x")
    _write(_project(profile) / "notes.tmp", "x")
    foreign = _write(_project(profile) / ".a.jsonl.7fa9.tmp", "x")
    assert _garbage(profile) == {str(dead), str(foreign)}


def test_what_is_being_written_in_another_container_stays(profile: Profile) -> None:
    temp = _write(_project(profile) / ".a.jsonl.999999999-12ab34cd.tmp", "")
    temp.unlink()
    handle = make_temp_file(str(temp))
    os.utime(temp, (0, 0))
    assert _garbage(profile) == set()
    handle.close()
    assert _garbage(profile) == {str(temp)}


def test_the_link_of_a_move_goes_once_it_is_old(profile: Profile) -> None:
    session = _write(_project(profile).parent / "--new--" / "a.jsonl", "{}")
    link = _project(profile) / "a.jsonl"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(session)
    lately = time.time() - 6 * 86_400
    os.utime(link, (lately, lately), follow_symlinks=False)
    assert not find_garbage(profile).garbage
    before = time.time() - 8 * 86_400
    os.utime(link, (before, before), follow_symlinks=False)
    report = find_garbage(profile)
    assert [(piece.kind, piece.path) for piece in report.garbage] == [("link of a move", str(link))]
    remove_garbage(report)
    assert not os.path.lexists(link)
    assert session.exists()


def test_a_draft_goes_only_when_the_session_has_all_of_it(profile: Profile) -> None:
    header = '{"type":"session","version":3,"id":"s","timestamp":"2026","cwd":"/"}\n'
    one = '{"type":"message","id":"00000001","parentId":null,"timestamp":"2026","message":{}}\n'
    two = one.replace("00000001", "00000002")
    folder = _project(profile)
    answered = _write(folder / ".a.jsonl.draft", header + one)
    _write(folder / "a.jsonl", header + one + two)
    _write(folder / ".b.jsonl.draft", header + one + two)
    _write(folder / "b.jsonl", header + one)
    _write(folder / ".c.jsonl.draft", header + one)
    _write(folder / ".d.jsonl.draft", "damaged")
    _write(folder / "d.jsonl", header)
    assert _garbage(profile) == {str(answered)}


def test_the_folder_of_a_scope_that_holds_only_its_lock_can_go(profile: Profile) -> None:
    scope = Path(profile.sessions_dir) / "@acme"
    _write(scope / ".ids.lock", "")
    _write(Path(profile.sessions_dir) / "--project--" / ".ids.lock", "")
    report = find_garbage(profile, clock=_later)
    assert [(piece.kind, piece.path) for piece in report.garbage] == [("empty folder", str(scope))]
    assert len(remove_garbage(report, clock=_later).removed) == 1
    assert not scope.exists()


def test_empty_project_folders_can_go(profile: Profile) -> None:
    empty = _project(profile)
    empty.mkdir(parents=True)
    _write(Path(profile.sessions_dir) / "--other--" / "a.jsonl", "")
    report = find_garbage(profile, clock=_later)
    assert [(piece.kind, piece.path) for piece in report.garbage] == [("empty folder", str(empty))]
    _write(empty / "new.jsonl", "")
    removal = remove_garbage(report, clock=_later)
    assert removal.removed == []
    assert len(removal.failed) == 1
    assert (empty / "new.jsonl").exists()
