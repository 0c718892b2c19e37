"""A session in one file: out, in, and in again."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sessiontree.errors import NotASessionError, PersistenceError, SessionNotFoundError
from sessiontree.export.bundle_export import export_bundle, import_bundle
from sessiontree.session.manager import SessionManager
from sessiontree.storage.handles import Handle
from sessiontree.storage.memory import MemorySessionStorage
from sessiontree.storage.temp_files import claim

TIME = "2026-02-16T10:20:30.000Z"
RAW = bytes(range(256)) * 8
DIGEST = hashlib.sha256(RAW).hexdigest()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SESSIONTREE_AGENT_DIR", "SESSIONTREE_PROFILE", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def session(home: Path) -> Path:
    """A session of omp's with a blob and two artifacts."""
    agent = home / ".omp/agent"
    folder = agent / "sessions/--work-pi--"
    folder.mkdir(parents=True)
    (agent / "blobs").mkdir()
    (agent / "blobs" / DIGEST).write_bytes(RAW)
    (agent / "blobs" / ("0" * 64)).write_bytes(b"of another session")
    header = {
        "type": "session",
        "version": 3,
        "id": "1f9d2a6b9c0d1234",
        "timestamp": TIME,
        "cwd": "/work/pi",
        "title": "A title",
    }
    image = {"type": "image", "data": f"blob:sha256:{DIGEST}", "mimeType": "image/png"}
    message = {"role": "user", "content": [image], "timestamp": 1}
    path = folder / "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl"
    lines = [
        json.dumps(header),
        json.dumps(
            {
                "type": "message",
                "id": "a0000001",
                "parentId": None,
                "timestamp": TIME,
                "message": message,
            }
        ),
        '{"a damaged line',
        '{"type": "custom",  "id":"a0000002","parentId":"a0000001","timestamp":""}',
    ]
    path.write_text("\n".join(lines) + "\n")
    artifacts = path.with_suffix("")
    (artifacts / "sub").mkdir(parents=True)
    (artifacts / "0.bash.log").write_text("log")
    (artifacts / "sub/ünï.md").write_text("# x")
    return path


@pytest.fixture
def bundle(session: Path, tmp_path: Path) -> Path:
    path = tmp_path / "bundle.zip"
    export_bundle(session, path)
    return path


def lines_of(path: str | Path) -> list[str]:
    return Path(path).read_text().splitlines()


def test_a_bundle_holds_the_session_its_blobs_and_its_artifacts(
    session: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out.zip"
    before = session.read_bytes()
    report = export_bundle(session, path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert archive.read("session.jsonl") == before
        assert archive.read(f"blobs/{DIGEST}") == RAW
        manifest = json.loads(archive.read("manifest.json"))
    assert sorted(names) == [
        "artifacts/0.bash.log",
        "artifacts/sub/ünï.md",
        f"blobs/{DIGEST}",
        "manifest.json",
        "session.jsonl",
    ]
    assert manifest["format"] == "sessiontree-bundle"
    assert manifest["session"] == {
        "id": "1f9d2a6b9c0d1234",
        "cwd": "/work/pi",
        "profile": "omp",
        "dialect": "omp",
    }
    listed = {item["path"]: item for item in manifest["files"]}
    assert listed["session.jsonl"]["sha256"] == hashlib.sha256(before).hexdigest()
    assert (report.blobs, report.artifacts, report.notes) == (1, 2, [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert session.read_bytes() == before


@pytest.mark.parametrize("profile", ["sessiontree", "pi"])
def test_what_comes_in_is_as_old_as_what_was_said_in_it_last(bundle: Path, profile: str) -> None:
    report = import_bundle(bundle, profile=profile)
    # The last entry but one is the last that anybody said: 2026-02-16T10:20:30Z.
    assert os.stat(report.session_path).st_mtime == 1_771_237_230


def test_a_bundle_comes_in_whole(home: Path, bundle: Path, session: Path) -> None:
    report = import_bundle(bundle)
    path = Path(report.session_path)
    assert path.parent == home / ".sessiontree/agent/sessions/--work-pi--"
    assert path.name == session.name
    assert lines_of(path)[1:] == lines_of(session)[1:]
    assert (path.with_suffix("") / "sub/ünï.md").read_text() == "# x"
    with SessionManager.open(path) as opened:
        assert opened.session_name == "A title"
        (first, _) = opened.get_entries()
        data = first.data["message"]["content"][0]["data"]
    assert base64.b64decode(data) == RAW
    assert not list((home / ".sessiontree/agent").glob(".import-*"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_header_says_where_it_came_from(bundle: Path) -> None:
    report = import_bundle(bundle, now_ms=1_790_000_000_000)
    header = json.loads(lines_of(report.session_path)[0])
    assert header["importedFrom"]["agent"] == "bundle"
    assert header["importedFrom"]["sessionId"] == "1f9d2a6b9c0d1234"
    assert header["importedFrom"]["path"] == str(bundle)
    assert header["title"] == "A title"


def test_an_old_session_stays_what_it_is_until_it_is_opened(home: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.jsonl"
    entries = (
        b'{"type":"message","timestamp":"x","message":{"role":"user","content":"a"}}\n'
        b'{"type":"message","timestamp":"x","message":{"role":"user","content":"b"}}\n'
    )
    old.write_bytes(b'{"type":"session","id":"old","cwd":"/w"}\n' + entries)
    export_bundle(old, tmp_path / "old.zip")
    report = import_bundle(tmp_path / "old.zip")
    assert "version" not in json.loads(lines_of(report.session_path)[0])
    assert Path(report.session_path).read_bytes().endswith(entries)
    with SessionManager.open(report.session_path) as opened:
        assert len(opened.get_branch()) == 2


def test_a_title_slot_and_debris_before_the_header_keep_their_bytes(
    session: Path, tmp_path: Path
) -> None:
    slot = {"updatedAt": TIME, "type": "title", "v": 1, "title": "Slot", "pad": ""}
    slot["pad"] = " " * (255 - len(json.dumps(slot)))
    lead = json.dumps(slot) + "\n\nnot json\n"
    session.write_text(lead + session.read_text())
    export_bundle(session, tmp_path / "slot.zip")
    report = import_bundle(tmp_path / "slot.zip")
    assert Path(report.session_path).read_text().startswith(lead)
    with SessionManager.open(report.session_path) as opened:
        assert opened.session_name == "Slot"


def test_the_project_can_be_another_here(home: Path, bundle: Path, tmp_path: Path) -> None:
    report = import_bundle(bundle, cwd=tmp_path / "proj")
    header = json.loads(lines_of(report.session_path)[0])
    assert header["cwd"] == str(tmp_path / "proj")
    assert report.session_path.startswith(str(home / ".sessiontree/agent/sessions/--"))
    assert SessionManager.list(tmp_path / "proj")[0].path == report.session_path


def test_the_same_bundle_twice_is_one_session(bundle: Path) -> None:
    first = import_bundle(bundle)
    before = Path(first.session_path).read_bytes()
    again = import_bundle(bundle)
    assert not again.is_new
    assert again.session_path == first.session_path
    assert Path(first.session_path).read_bytes() == before


def test_a_session_that_is_here_already_is_left_alone(bundle: Path, session: Path) -> None:
    before = session.read_bytes()
    report = import_bundle(bundle, profile="omp")
    assert report.is_new
    assert report.session_id != "1f9d2a6b9c0d1234"
    assert Path(report.session_path) != session
    assert session.read_bytes() == before
    assert json.loads(lines_of(report.session_path)[0])["id"] == report.session_id
    again = import_bundle(bundle, profile="omp")
    assert (again.is_new, again.session_path) == (False, report.session_path)


def test_artifacts_that_are_here_already_are_left_alone(
    home: Path, bundle: Path, session: Path
) -> None:
    folder = home / ".sessiontree/agent/sessions/--work-pi--" / session.stem
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    report = import_bundle(bundle)
    assert (folder / "mine.txt").read_text() == "mine"
    assert Path(report.session_path).stem != session.stem


def test_for_pi_a_bundle_is_said_in_its_words(home: Path, bundle: Path) -> None:
    report = import_bundle(bundle, profile="pi")
    header, *entries = [json.loads(line) for line in lines_of(report.session_path)]
    assert report.session_path.startswith(str(home / ".pi/agent/sessions/"))
    assert base64.b64decode(entries[0]["message"]["content"][0]["data"]) == RAW
    assert header["importedFrom"]["path"] == header["convertedFrom"]["path"] == str(bundle)
    assert (Path(report.session_path).with_suffix("") / "0.bash.log").read_text() == "log"
    assert not (home / ".pi/agent/blobs").exists()
    again = import_bundle(bundle, profile="pi")
    assert (again.is_new, again.session_path) == (False, report.session_path)


def test_it_works_in_any_storage(bundle: Path, tmp_path: Path) -> None:
    storage = MemorySessionStorage()
    report = import_bundle(bundle, storage=storage, session_dir=tmp_path / "flat")
    assert os.path.dirname(report.session_path) == str(tmp_path / "flat")
    assert not (tmp_path / "flat").exists()
    assert b"a0000001" in storage.read(report.session_path)
    out = tmp_path / "again.zip"
    assert export_bundle(report.session_path, out, storage=storage).blobs == 1


def test_links_and_unportable_names_are_left_out_and_said(session: Path, tmp_path: Path) -> None:
    folder = session.with_suffix("")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "loop").symlink_to(folder)
    (folder / "back\\slash").write_text("x")
    (folder / "0.BASH.log").write_text("differs in case only")
    report = export_bundle(session, tmp_path / "out.zip")
    assert report.artifacts == 2
    assert len(report.notes) == 3
    import_bundle(tmp_path / "out.zip")


def test_a_missing_blob_is_said(home: Path, session: Path, tmp_path: Path) -> None:
    (home / ".omp/agent/blobs" / DIGEST).unlink()
    report = export_bundle(session, tmp_path / "out.zip")
    assert report.notes == [f"a blob is missing: {DIGEST}"]
    assert import_bundle(tmp_path / "out.zip").blobs == 0


def test_a_blob_that_is_damaged_here_is_replaced_by_the_good_one(home: Path, bundle: Path) -> None:
    here = home / ".sessiontree/agent/blobs"
    here.mkdir(parents=True)
    (here / DIGEST).write_bytes(b"damaged")
    import_bundle(bundle)
    assert (here / DIGEST).read_bytes() == RAW


def test_a_file_that_is_there_is_not_overwritten(session: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.zip"
    path.write_text("precious")
    with pytest.raises(PersistenceError, match="already exists"):
        export_bundle(session, path)
    assert path.read_text() == "precious"
    export_bundle(session, path, overwrite=True)
    assert zipfile.is_zipfile(path)


def test_an_export_that_fails_leaves_no_file(session: Path, tmp_path: Path) -> None:
    with pytest.raises(PersistenceError):
        export_bundle(session, tmp_path / "no/such/folder/out.zip")
    with pytest.raises(SessionNotFoundError):
        export_bundle(tmp_path / "gone.jsonl", tmp_path / "out.zip")
    (tmp_path / "x.jsonl").write_text("no session\n")
    with pytest.raises(NotASessionError):
        export_bundle(tmp_path / "x.jsonl", tmp_path / "out.zip")
    assert not list(tmp_path.glob("*.zip"))
    assert not list(tmp_path.glob(".*"))


def test_an_import_that_fails_half_way_leaves_everything_as_it_was(
    home: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = MemorySessionStorage()
    rename = storage.rename

    def failing(source: str, target: str, **more: Any) -> None:
        if target.endswith(".jsonl"):
            raise OSError(28, "No space left on device", target)
        rename(source, target, **more)

    monkeypatch.setattr(storage, "rename", failing)
    with pytest.raises(PersistenceError, match="No space left"):
        import_bundle(bundle, storage=storage)
    agent = str(home / ".sessiontree/agent")
    assert [os.path.basename(path) for path in storage.list_dirs(agent + "/sessions")] == [
        "--work-pi--"
    ]
    assert storage.list_files(agent + "/sessions/--work-pi--") == []
    assert storage.list_dirs(agent + "/sessions/--work-pi--") == []
    assert not any(".import-" in path for path in storage.list_dirs(agent))


def test_what_a_killed_import_left_is_removed_by_the_next(home: Path, bundle: Path) -> None:
    agent = home / ".sessiontree/agent"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = agent / f".import-{ended.pid}-abc"
    alive = agent / f".import-{os.getpid()}-abc"
    for folder in (dead, alive):
        folder.mkdir(parents=True)
    import_bundle(bundle)
    assert not dead.exists()
    assert alive.exists()


def test_an_import_that_runs_in_another_container_is_not_swept(home: Path, bundle: Path) -> None:
    theirs = home / ".sessiontree/agent/.import-999999999-abc"
    theirs.mkdir(parents=True)
    handle = Handle(str(theirs), os.O_RDONLY)
    assert claim(handle, str(theirs))
    import_bundle(bundle)
    assert theirs.exists()
    handle.close()
    import_bundle(bundle)
    assert not theirs.exists()


def test_a_missing_bundle_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(PersistenceError):
        import_bundle(tmp_path / "gone.zip")
