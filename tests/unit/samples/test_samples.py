"""Sample sessions are ordinary sessions: they open, branch, compact and show pictures."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path

import pytest

from sessiontree.export.view import SessionView, open_view
from sessiontree.profiles import Profile
from sessiontree.samples import MARK, create_samples, find_samples
from sessiontree.samples.pictured import draw_tree
from sessiontree.session.manager import SessionManager
from sessiontree.stores.files.store import FileStore


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setenv("TMUX_PANE", "%1")  # a terminal that could be led to a sample
    return Profile("sessiontree", str(tmp_path / "agent"), "omp")


def _views(profile: Profile) -> list[SessionView]:
    return [open_view(path, profile=profile) for path in find_samples(FileStore(profile=profile))]


def test_each_sample_is_marked_and_titled_as_such(profile: Profile, tmp_path: Path) -> None:
    made = create_samples(str(tmp_path), FileStore(profile=profile))
    views = _views(profile)
    assert sorted(view.id for view in views) == sorted(session_id for session_id, _ in made)
    for view in views:
        assert (view.name or "").startswith("Sample: ")
        assert view.tree.entries[0].data["customType"] == MARK
        assert not view.warnings
        view.close()
    assert not Path(profile.terminal_sessions_dir).exists()


def test_one_has_branches_one_a_compaction_one_pictures(profile: Profile, tmp_path: Path) -> None:
    create_samples(str(tmp_path), FileStore(profile=profile))
    views = _views(profile)
    types = [{entry.type for entry in view.tree.entries} for view in views]
    assert [
        sum("branch_summary" in each for each in types),
        sum("compaction" in each for each in types),
    ] == [1, 1]
    assert any(len(view.path) < len(view.tree.entries) for view in views)
    pictures = [
        block["data"]
        for view in views
        for entry in view.path
        if entry.type == "message"
        for block in entry.data["message"]["content"]
        if block["type"] == "image"
    ]
    assert len(pictures) == 2
    assert all(base64.b64decode(data).startswith(b"\x89PNG") for data in pictures)
    assert len(list(Path(profile.blobs_dir).iterdir())) == 2
    for view in views:
        view.close()


def test_a_sample_can_be_gone_on_with(profile: Profile, tmp_path: Path) -> None:
    create_samples(str(tmp_path), FileStore(profile=profile))
    for path in find_samples(FileStore(profile=profile)):
        with SessionManager.open(path, profile=profile) as manager:
            roles = [message["role"] for message in manager.build_session_context().messages]
            assert roles[-1] == "assistant"
            manager.append_message({"role": "user", "content": "thanks", "timestamp": 1})


def test_pi_gets_samples_in_its_own_words(tmp_path: Path) -> None:
    profile = Profile("pi", str(tmp_path / "pi"), "pi")
    create_samples(str(tmp_path), FileStore(profile=profile))
    views = _views(profile)
    assert len(views) == 3
    assert all((view.name or "").startswith("Sample: ") for view in views)
    assert not Path(profile.blobs_dir).exists()
    for view in views:
        view.close()


def test_other_sessions_are_no_samples(profile: Profile, tmp_path: Path) -> None:
    with SessionManager.create(tmp_path, profile=profile) as manager:
        manager.append_message({"role": "user", "content": "Sample: not one", "timestamp": 1})
        manager.append_message({"role": "assistant", "content": [], "timestamp": 1})
    assert find_samples(FileStore(profile=profile)) == []


def test_the_picture_is_a_whole_png() -> None:
    data = draw_tree((10, 20, 30), size=16)
    at, names, body = 8, [], b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        name, chunk = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (
            zlib.crc32(name + chunk),
        )
        names.append(name)
        body += chunk if name == b"IDAT" else b""
        at += 12 + length
    assert names == [b"IHDR", b"IDAT", b"IEND"]
    assert len(zlib.decompress(body)) == 16 * (16 * 3 + 1)


def test_a_fork_of_a_sample_is_its_maker_s_own(profile: Profile, tmp_path: Path) -> None:
    create_samples(str(tmp_path), FileStore(profile=profile))
    samples = find_samples(FileStore(profile=profile))
    fork = SessionManager.fork_from(samples[0], tmp_path, profile=profile)
    assert fork.session_file not in samples
    assert find_samples(FileStore(profile=profile)) == samples
