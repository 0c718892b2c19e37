"""The trash: whatever was removed comes back exactly as it was."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.samples import assistant, chain, lines, message, user

from sessiontree import SessionManager
from sessiontree.errors import PersistenceError, SessionNotFoundError
from sessiontree.profiles import Profile
from sessiontree.storage.base import StrPath
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files.trash import (
    delete_forever,
    find_in_trash,
    list_trash,
    move_to_trash,
    restore,
)

NAME = "2026-02-16T10-20-30-000Z_0199a3f2c0de1234"


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return Profile("sessiontree", str(tmp_path / "agent"), "omp")


def _session(profile: Profile, name: str = NAME, title: str = "Fix login") -> Path:
    folder = Path(profile.sessions_dir) / "--work-pi--"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.jsonl"
    header = {
        "type": "session",
        "version": 3,
        "id": name.split("_")[1],
        "cwd": "/work/pi",
        "title": title,
    }
    file.write_text(json.dumps({**header, "timestamp": "2026-02-16T10:20:30.000Z"}) + "\n")
    return file


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_session_and_all_that_belongs_to_it_goes_and_comes_back(profile: Profile) -> None:
    file = _session(profile)
    beside = file.parent
    (beside / f"{file.name}.rejected").write_bytes(b"bad line\n")
    (beside / f"{file.name}.corrupt-2026-02-17T00-00-00-000Z").write_bytes(b"old\n")
    (beside / f".{file.name}.draft").write_bytes(b"draft\n")
    (beside / NAME / "deep").mkdir(parents=True)
    (beside / NAME / "deep" / "1.txt").write_bytes(b"artifact")
    other = _session(profile, "2026-02-16T10-20-31-000Z_ffff")
    before = _contents(beside)

    item = move_to_trash(file, profile=profile)
    assert list(_contents(beside)) == [other.name]
    assert not (beside / NAME).exists()
    assert (item.session_id, item.title, item.cwd) == ("0199a3f2c0de1234", "Fix login", "/work/pi")

    assert restore(item) == str(file)
    assert _contents(beside) == before
    assert list_trash(profile) == []
    assert os.listdir(profile.trash_dir) == []


def test_the_trash_lists_what_was_removed_last_first(profile: Profile) -> None:
    clock = iter([1_760_000_000_000, 1_760_000_001_000])
    for number in "12":
        file = _session(profile, f"2026-02-16T10-20-3{number}-000Z_{number * 4}")
        move_to_trash(file, profile=profile, clock=lambda: next(clock))
    assert [item.session_id for item in list_trash(profile)] == ["2222", "1111"]
    assert [item.session_id for item in find_in_trash("11", profile)] == ["1111"]
    assert find_in_trash("3", profile) == []


def test_the_trash_is_private(profile: Profile) -> None:
    item = move_to_trash(_session(profile), profile=profile)
    for path in (Path(profile.trash_dir), Path(item.folder)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((Path(item.folder) / "manifest.json").stat().st_mode) == 0o600


def test_a_damaged_session_can_be_removed_too(profile: Profile) -> None:
    file = _session(profile)
    file.write_bytes(b"\xff\xfe not a session")
    item = move_to_trash(file, profile=profile)
    assert (item.session_id, item.title) == ("0199a3f2c0de1234", None)
    restore(item)
    assert file.read_bytes() == b"\xff\xfe not a session"


@pytest.mark.parametrize("by_its_own_name", [True, False])
def test_a_draft_alone_can_be_removed(profile: Profile, by_its_own_name: bool) -> None:
    file = _session(profile)
    draft = file.parent / f".{file.name}.draft"
    file.rename(draft)
    (file.parent / NAME).mkdir()
    (file.parent / NAME / "1.txt").write_bytes(b"artifact")
    before = _contents(file.parent)
    item = move_to_trash(draft if by_its_own_name else file, profile=profile)
    assert (item.title, item.path) == ("Fix login", str(file))
    assert _contents(file.parent) == {}
    restore(item)
    assert _contents(file.parent) == before


def test_what_is_not_there_can_not_be_removed(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        move_to_trash(tmp_path / "missing.jsonl", profile=profile)
    assert not Path(profile.trash_dir).exists()


def test_nothing_is_overwritten_by_a_restore(profile: Profile) -> None:
    file = _session(profile)
    item = move_to_trash(file, profile=profile)
    file.write_text("a new file of the same name")
    with pytest.raises(PersistenceError, match="something else is there"):
        restore(item)
    assert file.read_text() == "a new file of the same name"
    assert list_trash(profile) == [item]


def test_a_session_that_a_program_wrote_anew_is_restored_by_leaving_it_there(
    profile: Profile,
) -> None:
    file = _session(profile)
    before = file.read_bytes()
    artifact = file.with_suffix("") / "0.txt"
    artifact.parent.mkdir()
    artifact.write_text("kept")
    item = move_to_trash(file, profile=profile)
    file.write_bytes(before + b'{"type":"custom"}\n')
    assert restore(item) == str(file)
    assert file.read_bytes() == before + b'{"type":"custom"}\n'
    assert artifact.read_text() == "kept"
    assert list_trash(profile) == []
    assert list(Path(profile.trash_dir).iterdir()) == []


def test_a_file_that_lacks_the_end_of_what_was_removed_is_something_else(profile: Profile) -> None:
    file = _session(profile)
    before = file.read_bytes()
    item = move_to_trash(file, profile=profile)
    file.write_bytes(before[:-1])
    with pytest.raises(PersistenceError, match="something else is there"):
        restore(item)
    assert list_trash(profile) == [item]


def test_a_link_to_what_is_in_the_trash_is_no_second_copy_of_it(profile: Profile) -> None:
    file = _session(profile)
    before = file.read_bytes()
    item = move_to_trash(file, profile=profile)
    file.symlink_to(Path(item.folder) / item.pieces[0][1])
    with pytest.raises(PersistenceError, match="something else is there"):
        restore(item)
    assert file.read_bytes() == before


def test_what_a_program_said_meanwhile_at_the_old_place_is_in_the_restored_session(
    profile: Profile,
) -> None:
    """pi opens the file by its name for each line, and makes one without a header."""
    file = _session(profile)
    talk = chain(user("1"), assistant("2"))
    with file.open("ab") as out:
        out.write(lines(*talk)[:-1])  # its last line has no end
    item = move_to_trash(file, profile=profile)
    said = [message("said1", talk[-1]["id"], user("3")), message("said2", "said1", assistant("4"))]
    file.write_bytes(lines(*said))
    assert restore(item) == str(file)
    with SessionManager.open(file) as session:
        assert [entry.id for entry in session.get_branch()] == [e["id"] for e in (*talk, *said)]
        assert session.warnings == []
    assert list_trash(profile) == []


def test_a_restore_that_was_killed_over_such_a_file_can_be_done_again(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _session(profile)
    talk = chain(user("1"), assistant("2"))
    with file.open("ab") as out:
        out.write(lines(*talk))
    item = move_to_trash(file, profile=profile)
    file.write_bytes(lines(message("said1", talk[-1]["id"], user("3"))))

    def refuse(self: FileSessionStorage, source: StrPath, target: StrPath) -> None:
        raise OSError(5, "input/output error", target)

    with monkeypatch.context() as patched:
        patched.setattr(FileSessionStorage, "rename", refuse)
        with pytest.raises(PersistenceError):
            restore(item)
    assert restore(list_trash(profile)[0]) == str(file)
    found = [json.loads(line)["id"] for line in file.read_bytes().splitlines() if line]
    assert found[1:] == [*(entry["id"] for entry in talk), "said1"]


def test_a_restore_makes_the_folder_again(profile: Profile) -> None:
    file = _session(profile)
    item = move_to_trash(file, profile=profile)
    file.parent.rmdir()
    restore(item)
    assert file.exists()


class _FailingRename(FileSessionStorage):
    """Fails at the n-th rename."""

    def __init__(self, fails_at: int) -> None:
        self.left = fails_at

    def rename(self, source: StrPath, target: StrPath, *, durable: bool = True) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(28, "No space left on device", target)
        super().rename(source, target, durable=durable)


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_removal_that_fails_leaves_everything_where_it_was(
    profile: Profile, fails_at: int
) -> None:
    file = _session(profile)
    (file.parent / NAME).mkdir()
    (file.parent / NAME / "1.txt").write_bytes(b"artifact")
    before = _contents(file.parent)
    with pytest.raises(PersistenceError, match="No space left"):
        move_to_trash(file, profile=profile, storage=_FailingRename(fails_at))
    assert _contents(file.parent) == before
    assert list_trash(profile) == []


@pytest.mark.parametrize("moved", [0, 1])
def test_a_removal_cut_short_by_a_crash_can_be_taken_back(profile: Profile, moved: int) -> None:
    file = _session(profile)
    (file.parent / NAME).mkdir()
    (file.parent / NAME / "1.txt").write_bytes(b"artifact")
    before = _contents(file.parent)

    class Crash(BaseException):
        pass

    class Crashing(FileSessionStorage):
        renames = 0

        def rename(self, source: StrPath, target: StrPath, *, durable: bool = True) -> None:
            if self.renames == moved:
                raise Crash
            self.renames += 1
            super().rename(source, target, durable=durable)

    with pytest.raises(Crash):
        move_to_trash(file, profile=profile, storage=Crashing())
    (item,) = list_trash(profile)
    restore(item)
    assert _contents(file.parent) == before
    assert list_trash(profile) == []


def _manifests() -> Iterator[str]:
    good = {
        "version": 1, "path": "/s/a.jsonl", "sessionId": "a", "title": None, "cwd": "/s",
        "removedAt": "2026", "batch": "b", "pieces": [{"from": "/s/a.jsonl", "name": "0-a.jsonl"}],
    }  # fmt: skip
    yield "not json"
    yield "[]"
    yield json.dumps({**good, "pieces": [{"from": "/s/a.jsonl", "name": "../../../x"}]})
    yield json.dumps({**good, "pieces": [{"from": "/etc/passwd", "name": "0-a.jsonl"}]})
    yield json.dumps({**good, "pieces": [{"from": "a.jsonl", "name": "0-a.jsonl"}]})
    yield json.dumps({**good, "path": 7})
    for there in ("/s/authorized_keys", "/s/a.jsonl.corrupt-/../b", "/s/b.jsonl", "/s/a.jsonl.sh"):
        yield json.dumps({**good, "pieces": [{"from": there, "name": "0-a.jsonl"}]})
    for there in ("/s\x00/a.jsonl", "/\ud83d/a.jsonl"):  # no file can be called so
        pieces = [{"from": there, "name": "0-a.jsonl"}]
        yield json.dumps({**good, "path": there, "pieces": pieces})
    yield json.dumps({**good, "pieces": [{"from": "/s/a.jsonl", "name": "0-\x00"}]})
    keys = {"path": "/s/keys", "pieces": [{"from": "/s/keys", "name": "0-keys"}]}
    yield json.dumps({**good, **keys})
    yield json.dumps({key: value for key, value in good.items() if key != "batch"})


@pytest.mark.parametrize("manifest", list(_manifests()))
def test_a_manifest_that_makes_no_sense_is_passed_over(profile: Profile, manifest: str) -> None:
    folder = Path(profile.trash_dir) / "x"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(manifest)
    assert list_trash(profile) == []


def test_a_folder_that_is_a_link_is_not_in_the_trash(profile: Profile, tmp_path: Path) -> None:
    item = move_to_trash(_session(profile), profile=profile)
    os.rename(item.folder, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", item.folder)
    assert list_trash(profile) == []


@pytest.mark.parametrize("name", ["notes.txt", ".bashrc", "x.json"])
def test_only_files_called_as_sessions_are_go_to_the_trash(
    profile: Profile, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(PersistenceError, match="only"):
        move_to_trash(tmp_path / name, profile=profile)
    assert (tmp_path / name).read_text() == "mine"
    assert not os.path.exists(profile.trash_dir)


def test_deleting_for_good_removes_the_item_only(profile: Profile) -> None:
    first = move_to_trash(_session(profile), profile=profile)
    second = move_to_trash(_session(profile, "2026-02-16T10-20-31-000Z_ffff"), profile=profile)
    delete_forever(first)
    assert list_trash(profile) == [second]
