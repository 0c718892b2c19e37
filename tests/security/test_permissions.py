"""Nobody else reads what is kept: not at first, not after a rewrite, not for a moment."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples import ASKED, header, lines
from tests.samples import assistant as answer
from tests.samples import user as prompt

from sessiontree import HistoryStorage, PersistenceError, SessionManager, search
from sessiontree.discovery.breadcrumbs import write_breadcrumb
from sessiontree.discovery.listing import list_sessions
from sessiontree.export.bundle_export import export_bundle, import_bundle
from sessiontree.export.convert import convert_session
from sessiontree.maintenance.checkup import check_profile, repair_findings
from sessiontree.profiles import Profile
from sessiontree.stores.files.folders import remember_session_dir
from sessiontree.stores.files.trash import move_to_trash


def live_a_little(profile: Profile, tmp_path: Path) -> None:
    """Everything that makes files: drafts, blobs, rewrites, copies, trash, databases, repairs."""
    image = {"type": "image", "data": base64.b64encode(bytes(3_000)).decode(), "mimeType": "x"}
    session = SessionManager.create(tmp_path / "project")
    session.append_message(prompt([image]))
    session.append_message(answer("x"))
    session.set_session_name("name")
    session.rewrite_entries()
    Path(str(session.artifacts_dir)).mkdir(mode=0o700)
    session.move_to(tmp_path / "elsewhere")
    session.fork()
    session.close()
    file = Path(str(session.session_file))
    _damage(file)
    with SessionManager.open(file) as again:
        again.set_session_name("other")
    export_bundle(file, tmp_path / "b.zip")
    import_bundle(tmp_path / "b.zip")
    headless = file.with_name("headless.jsonl")
    headless.write_bytes(b"garbage\n" + file.read_bytes())
    headless.chmod(0o600)
    SessionManager.open(headless).close()
    move_to_trash(headless, profile=profile)
    SessionManager.create(tmp_path / "project", tmp_path / "flat").append_message(prompt("draft"))
    remember_session_dir(profile, str(tmp_path / "flat"))
    write_breadcrumb(profile, tmp_path, file, terminal="t")
    with HistoryStorage.for_profile() as history:
        history.add("a prompt")
        history.flush(5)
    list_sessions(tmp_path / "elsewhere")
    search("x")
    _damage(file)
    assert repair_findings(check_profile(profile).findings, profile).backup_dir


def _damage(file: Path) -> None:
    with open(file, "ab") as damaged:
        damaged.write(b"garbage\n")


def test_everything_is_private_and_stays_so(profile: Profile, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        live_a_little(profile, tmp_path)
    finally:
        os.umask(before)
    for root in (tmp_path / "agent", tmp_path / "cache", tmp_path / "flat"):
        found = [root, *root.rglob("*")]
        assert len(found) > 1
        for path in found:
            mode = stat.S_IMODE(path.lstat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), f"{path}: {mode:o}"
    assert stat.S_IMODE((tmp_path / "b.zip").stat().st_mode) == 0o600


def everybodys(path: Path, content: bytes) -> Path:
    """A file that anybody may read, in a folder where anybody may look."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o644)
    return path


def recover_damaged(tmp_path: Path) -> None:
    file = everybodys(tmp_path / "in" / "x.jsonl", lines(b"junk\n", *ASKED, b"junk\n"))
    SessionManager.open(file).close()


def recover_damaged_draft(tmp_path: Path) -> None:
    file = everybodys(tmp_path / "in" / ".x.jsonl.draft", lines(b"junk\n", *ASKED[:1]))
    SessionManager.open(file).close()


def recover_overwritten(tmp_path: Path) -> None:
    file = everybodys(tmp_path / "in" / "x.jsonl", lines(header(), *ASKED))
    session = SessionManager.open(file)
    session.build_session_context()
    file.write_bytes(b"something else\n")
    with pytest.raises(PersistenceError):
        session.append_message(prompt("on"))
    session.recover()


def restore_deleted(tmp_path: Path) -> None:
    file = everybodys(tmp_path / "in" / "x.jsonl", lines(header(), *ASKED))
    session = SessionManager.open(file)
    file.unlink()
    session.append_message(prompt("on"))


def copy_in_every_way(tmp_path: Path) -> None:
    source = everybodys(tmp_path / "out" / "x.jsonl", lines(header(), *ASKED))
    everybodys(tmp_path / "out" / "x" / "deep" / "artifact", b"a").parent.chmod(0o755)
    inside = tmp_path / "in"
    SessionManager.fork_from(source, "/other", inside).fork()
    SessionManager.fork_from(source, "/other", inside, profile="pi").close()
    session = SessionManager.open(source, inside)
    session.create_branched_session("a2")
    session.create_branched_session(session.get_entries()[0].id)
    convert_session(source, Profile("pi", str(inside / "agent"), "pi"))
    export_bundle(source, everybodys(inside / "b.zip", b"old"), overwrite=True)
    import_bundle(inside / "b.zip", session_dir=inside / "imported")


def keep_what_is_rejected(tmp_path: Path) -> None:
    file = everybodys(tmp_path / "out" / "x.jsonl", lines(header(), *ASKED, b"junk\n"))
    with SessionManager.open(file, tmp_path / "in") as session:
        session.rewrite_entries()
    (tmp_path / "in").mkdir()
    file.with_name("x.jsonl.rejected").rename(tmp_path / "in" / "rejected")


def move_away(tmp_path: Path) -> None:
    session = SessionManager.open(everybodys(tmp_path / "out" / "x.jsonl", lines(header(), *ASKED)))
    session.move_to(tmp_path / "elsewhere")
    (tmp_path / "in").mkdir()
    os.link(str(session.session_file), tmp_path / "in" / "x.jsonl")


@pytest.mark.usefixtures("profile")
@pytest.mark.parametrize(
    "make",
    [
        recover_damaged,
        recover_damaged_draft,
        recover_overwritten,
        restore_deleted,
        copy_in_every_way,
        keep_what_is_rejected,
        move_away,
    ],
)
def test_what_is_made_of_a_file_that_all_may_read_is_private(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        make(tmp_path)
    finally:
        os.umask(before)
    found = [path for path in (tmp_path / "in").rglob("*") if path.is_file()]
    assert found
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.usefixtures("profile")
def test_a_session_that_was_opened_to_others_stays_so_through_rewrites(tmp_path: Path) -> None:
    file = everybodys(tmp_path / "in" / "x.jsonl", lines(header(), *ASKED))
    with SessionManager.open(file) as session:
        session.set_session_name("name")
        session.rewrite_entries()
        session.append_message(prompt("on"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_file_is_private_from_its_first_byte(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not made open and closed later: in between, anybody could open it."""
    made: list[int] = []
    real = os.open

    def watch(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        if flags & os.O_CREAT:
            made.append(mode)
        return real(path, flags, mode, **options)

    monkeypatch.setattr(os, "open", watch)
    live_a_little(profile, tmp_path)
    assert made
    assert set(made) == {0o600}


def test_a_cache_is_private_with_all_the_folders_that_had_to_be_made(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new" / "cache"))
    monkeypatch.delenv("SESSIONTREE_CACHE_DIR", raising=False)
    before = os.umask(0)
    try:
        with SessionManager.create(tmp_path / "project") as session:
            session.append_message(prompt("x"))
            session.append_message(answer("y"))
        assert search("x")
    finally:
        os.umask(before)
    made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert len(made) > 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700, 0o600}
