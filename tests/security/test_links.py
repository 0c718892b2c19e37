"""Links planted in our folders: the file at their other end stays as it is.

That the storage itself writes through no link but a session's is in ``tests/unit/storage``; what
is left for the trash, for garbage and for repairs is in ``tests/unit/maintenance``.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from tests.samples import assistant as answer
from tests.samples import chain, header, lines, write
from tests.samples import user as prompt

from sessiontree import HistoryStorage, NotASessionError, SessionManager, SessionTreeError
from sessiontree.discovery import catalogue
from sessiontree.discovery.breadcrumbs import write_breadcrumb
from sessiontree.discovery.listing import list_sessions
from sessiontree.discovery.search import index
from sessiontree.profiles import Profile
from sessiontree.stores.files.folders import remember_session_dir
from sessiontree.stores.files.trash import list_trash, move_to_trash, restore

MINE = "not yours\n"


@pytest.fixture
def folder(profile: Profile) -> Path:
    made = Path(profile.sessions_dir) / "--p--"
    made.mkdir(parents=True)
    return made


def test_a_link_to_a_file_that_is_no_session_costs_that_file_nothing(
    folder: Path, outside: Path
) -> None:
    link = folder / "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl"
    link.symlink_to(outside)
    with pytest.raises(NotASessionError):
        SessionManager.open(link)
    assert outside.read_text() == MINE
    # Not even if it could be recovered, were it ours.
    damaged = lines(b"torn\n", *chain(prompt("1"), answer("2")))
    outside.write_bytes(damaged)
    with pytest.raises(SessionTreeError, match="a link"):
        SessionManager.open(link)
    assert outside.read_bytes() == damaged
    assert os.listdir(folder) == [link.name]


def test_a_link_to_a_file_that_is_not_there_makes_none(folder: Path, outside: Path) -> None:
    link = folder / "s.jsonl"
    link.symlink_to(outside.parent / "authorized_keys")
    with pytest.raises(SessionTreeError, match="a link"):
        SessionManager.open(link)
    assert os.listdir(outside.parent) == [outside.name]


@pytest.mark.parametrize("name", [".s.jsonl.draft", "s.jsonl.rejected", ".s.jsonl.lock.os"])
def test_a_link_beside_a_session_is_not_written_through(
    folder: Path, outside: Path, name: str
) -> None:
    path = write(folder / "s.jsonl", header(), *chain(prompt("1"), answer("2")), b"garbage\n")
    if name.endswith(".draft"):
        path.unlink()
    (folder / name).symlink_to(outside)
    with contextlib.suppress(SessionTreeError), SessionManager.open(path) as session:
        session.append_message(prompt("x"))
        session.set_session_name("name")
        session.append_message(answer("x"))
    assert outside.read_text() == MINE


def test_a_draft_that_is_a_link_is_not_written_through(profile: Profile, outside: Path) -> None:
    session = SessionManager.create("/p")
    file = Path(str(session.session_file))
    file.parent.mkdir(parents=True)
    (file.parent / f".{file.name}.draft").symlink_to(outside)
    with pytest.raises(SessionTreeError, match="a link"):
        session.append_message(prompt("x"))
    assert outside.read_text() == MINE


def test_a_temporary_file_that_is_a_link_is_not_written_through(
    folder: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is drawn at random; should somebody guess it, it is not taken."""
    path = write(folder / "s.jsonl", header(), *chain(prompt("1"), answer("2")))
    monkeypatch.setattr(os, "urandom", bytes)
    (folder / f".s.jsonl.{os.getpid()}-00000000.tmp").symlink_to(outside)
    session = SessionManager.open(path)
    with pytest.raises(SessionTreeError, match="File exists"):
        session.rewrite_entries()
    assert outside.read_text() == MINE


def test_a_blob_that_is_a_link_is_not_written_through(profile: Profile, outside: Path) -> None:
    data = b"\x89PNG" + bytes(3_000)
    digest = hashlib.sha256(data).hexdigest()
    blobs = Path(profile.blobs_dir)
    blobs.mkdir(parents=True)
    (blobs / digest).symlink_to(outside)
    session = SessionManager.create("/p")
    image = {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}
    session.append_message(prompt([image]))
    session.append_message(answer("x"))
    session.close()
    assert outside.read_text() == MINE
    again = SessionManager.open(str(session.session_file))
    assert again.build_session_context().messages[0] == prompt([image])


def test_a_breadcrumb_that_is_a_link_is_not_written_through(
    profile: Profile, outside: Path
) -> None:
    crumbs = Path(profile.terminal_sessions_dir)
    crumbs.mkdir(parents=True)
    (crumbs / "tmux-%1").symlink_to(outside)
    write_breadcrumb(profile, "/p", "/p/s.jsonl", terminal="tmux-%1")
    assert outside.read_text() == MINE


def test_a_list_of_folders_that_is_a_link_is_not_written_through(
    profile: Profile, outside: Path
) -> None:
    Path(profile.agent_dir).mkdir()
    Path(profile.agent_dir, "session-dirs").symlink_to(outside)
    remember_session_dir(profile, "/p")
    assert outside.read_text() == MINE


@pytest.mark.parametrize("companion", ["", "-wal", "-journal", ".lock"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_cache_that_is_a_link_is_not_written_through(
    folder: Path, outside: Path, companion: str, exists: bool
) -> None:
    target = outside if exists else outside.parent / "new"
    for schema in (catalogue.SCHEMA, index.SCHEMA):
        os.makedirs(os.path.dirname(schema.path), exist_ok=True)
        os.symlink(target, schema.path + companion)
    catalogue.forget_process_memory()
    write(folder / "s.jsonl", header(cwd="/p"), *chain(prompt("1"), answer("2")))
    assert len(list_sessions("/p", folder)) == 1
    assert len(list_sessions("/p", folder)) == 1
    assert outside.read_text() == MINE
    assert os.listdir(outside.parent) == [outside.name]


@pytest.mark.parametrize("companion", ["", "-wal", "-journal"])
def test_a_history_that_is_a_link_is_not_written_through(
    profile: Profile, outside: Path, companion: str
) -> None:
    Path(profile.agent_dir).mkdir()
    os.symlink(outside, profile.history_path + companion)
    with contextlib.suppress(SessionTreeError), HistoryStorage.for_profile() as history:
        history.add("a prompt")
        history.flush(5)
    assert outside.read_text() == MINE


def test_a_trash_that_leads_elsewhere_moves_nothing_out_and_nothing_in(
    profile: Profile, outside: Path
) -> None:
    """A planted manifest wants to put a file where the user's own belong."""
    item = Path(profile.trash_dir) / "2026-item"
    item.mkdir(parents=True)
    (item / "0-x").write_text("ssh-rsa attacker")
    target = outside.parent / "authorized_keys"
    wire = {
        "version": 1,
        "path": str(target),
        "sessionId": "x",
        "title": None,
        "cwd": "/",
        "removedAt": "2026-02-16T10:20:30.000Z",
        "batch": "x",
        "pieces": [{"from": str(target), "name": "0-x"}],
    }
    (item / "manifest.json").write_text(json.dumps(wire))
    (Path(profile.trash_dir) / "linked").symlink_to(outside.parent)
    for found in list_trash(profile):
        with contextlib.suppress(SessionTreeError):
            restore(found)
    assert os.listdir(outside.parent) == [outside.name]
    assert outside.read_text() == MINE


def test_removing_follows_no_link_out_of_the_trash(
    folder: Path, profile: Profile, outside: Path
) -> None:
    path = write(folder / "s.jsonl", header(), *chain(prompt("1"), answer("2")))
    path.with_suffix("").symlink_to(outside.parent)
    item = move_to_trash(path, profile=profile)
    assert not path.with_suffix("").is_symlink()
    shutil.rmtree(item.folder)
    assert outside.read_text() == MINE


def test_a_fork_takes_no_link_of_an_artifact_folder_along(folder: Path, outside: Path) -> None:
    source = write(folder / "s.jsonl", header(), *chain(prompt("hello"), answer("hi")))
    artifacts = source.with_suffix("")
    artifacts.mkdir()
    (artifacts / "note.txt").write_text("kept")
    (artifacts / "secret").symlink_to(outside)
    (artifacts / "loop").symlink_to(".")
    (artifacts / "loop again").symlink_to(".")
    with SessionManager.fork_from(source, folder) as fork:
        assert fork.artifacts_dir is not None
        assert os.listdir(fork.artifacts_dir) == ["note.txt"]
