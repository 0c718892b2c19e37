"""Moved projects: sessions follow their folder when told to, and a hint says when."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.processes import start, wait_for
from tests.samples import assistant, chain, header, lines, message, slot, user, write
from tests.unit.discovery.places import put, session_name, talk

from sessiontree import SessionManager, relink
from sessiontree.discovery import paths
from sessiontree.discovery.listing import list_sessions
from sessiontree.discovery.moved_projects import find_moved_projects
from sessiontree.profiles import get_profile
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files import rerooting
from sessiontree.stores.files.relinking import RelinkReport

DAY_S = 86_400


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return tmp_path / "old" / "pi"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    folder = tmp_path / "new" / "pi"
    folder.mkdir(parents=True)
    return folder


def folder_of(cwd: Path, profile: str | None = None) -> Path:
    return Path(paths.session_folders(get_profile(profile), cwd)[0])


def moves(report: RelinkReport) -> set[tuple[str, str]]:
    return {(item.cwd, item.new_cwd) for item in report.sessions}


def test_a_dry_run_changes_nothing(old: Path, new: Path) -> None:
    file = put(folder_of(old), *talk("x"), cwd=str(old))
    before = file.read_bytes()
    report = relink(old, new)
    assert report.is_dry_run
    assert moves(report) == {(str(old), str(new))}
    assert report.sessions[0].new_path == str(folder_of(new) / file.name)
    assert file.read_bytes() == before
    assert not folder_of(new).exists()


def test_sessions_follow_their_folder(old: Path, new: Path) -> None:
    file = put(
        folder_of(old),
        *talk("x", "y"),
        cwd=str(old),
        title="Title",
        unknown={"kept": 1},
        mtime=1_790_000_000,
    )
    head, _, rest = file.read_bytes().partition(b"\n")
    (folder_of(old) / file.stem).mkdir()
    (folder_of(old) / file.stem / "todo.md").write_text("todo")
    report = relink(old, new, dry_run=False)
    assert (len(report.sessions), report.skipped) == (1, [])
    (info,) = list_sessions(new)
    moved = Path(info.path)
    assert moved == folder_of(new) / file.name
    assert moved.read_bytes().partition(b"\n")[2] == rest
    assert (info.cwd, info.title) == (str(new), "Title")
    assert b'"unknown":{"kept":1}' in moved.read_bytes()
    assert moved.stat().st_mtime == 1_790_000_000
    assert moved.stat().st_mode & 0o077 == 0
    assert (folder_of(new) / file.stem / "todo.md").read_text() == "todo"
    assert not file.exists()
    assert list_sessions(old) == []
    assert head != moved.read_bytes().partition(b"\n")[0]
    assert SessionManager.continue_recent(new).session_id == info.id


def test_folders_below_follow_and_neighbours_stay(old: Path, new: Path) -> None:
    below = old / "packages" / "core"
    neighbour = Path(f"{old}-two")
    for cwd in (old, below, neighbour, old.parent):
        put(folder_of(cwd), *talk("x"), cwd=str(cwd))
    report = relink(f"{old}/", new, dry_run=False)
    assert moves(report) == {(str(old), str(new)), (str(below), str(new / "packages" / "core"))}
    assert len(list_sessions(new / "packages" / "core")) == 1
    assert len(list_sessions(neighbour)) == 1
    assert len(list_sessions(old.parent)) == 1


def test_the_title_slot_stays_where_it_is(old: Path, new: Path) -> None:
    file = write(
        folder_of(old) / session_name("abc"), slot("Slot"), header(cwd=str(old)), *talk("x")
    )
    relink(old, new, dry_run=False)
    moved = folder_of(new) / file.name
    assert moved.read_bytes().startswith(slot("Slot"))
    assert list_sessions(new)[0].title == "Slot"


def test_a_parent_that_moves_too_is_named_at_its_new_place(old: Path, new: Path) -> None:
    parent = put(folder_of(old), *talk("x"), session_id="parent", cwd=str(old))
    put(folder_of(old), *talk("x"), session_id="c1", cwd=str(old), parentSession=str(parent))
    put(folder_of(old), *talk("x"), session_id="c2", cwd=str(old), parentSession="an-id")
    relink(old, new, dry_run=False)
    found = {info.id: info.parent_session for info in list_sessions(new)}
    assert found == {"parent": None, "c1": str(folder_of(new) / parent.name), "c2": "an-id"}


def test_drafts_follow_too(old: Path, new: Path) -> None:
    draft = Path(paths.draft_path(folder_of(old) / session_name("abc")))
    write(draft, header(id="abc", cwd=str(old)), *talk("unanswered"))
    relink(old, new, dry_run=False)
    assert SessionManager.continue_recent(new).session_id == "abc"
    assert not draft.exists()


@pytest.mark.parametrize("profile", ["omp", "pi"])
def test_only_the_chosen_profile_is_relinked(old: Path, new: Path, profile: str) -> None:
    for name in ("omp", "pi"):
        put(folder_of(old, name), *talk("x"), cwd=str(old))
    relink(old, new, dry_run=False, profile=profile)
    assert len(list_sessions(new, profile=profile)) == 1
    other = "pi" if profile == "omp" else "omp"
    assert len(list_sessions(old, profile=other)) == 1


def test_a_session_in_no_project_folder_only_changes_its_header(old: Path, new: Path) -> None:
    file = put(Path(get_profile().sessions_dir) / "mine", *talk("x"), cwd=str(old))
    relink(old, new, dry_run=False)
    assert f'"cwd":"{new}"' in file.read_text()


def test_a_file_in_the_way_is_not_overwritten(old: Path, new: Path) -> None:
    file = put(folder_of(old), *talk("x"), session_id="abc", cwd=str(old))
    other = put(folder_of(new), *talk("y"), session_id="abc", cwd=str(new))
    before = file.read_bytes(), other.read_bytes()
    report = relink(old, new, dry_run=False)
    assert report.sessions == []
    assert [item.path for item in report.skipped] == [str(file)]
    assert "in the way" in report.skipped[0].reason
    assert (file.read_bytes(), other.read_bytes()) == before


@pytest.mark.parametrize("age_s", [60, 10 * DAY_S])
def test_a_move_that_was_cut_off_is_finished_by_the_next(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch, age_s: float
) -> None:
    file = put(folder_of(old), *talk("x"), cwd=str(old), mtime=time.time() - age_s)

    class Died(Exception):
        pass

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(FileSessionStorage, "unlink", die)
        patch.setattr("sessiontree.stores.files.moved_file.os.symlink", die)
        with pytest.raises(Died):
            relink(old, new, dry_run=False)
    assert file.exists()
    assert not file.is_symlink()
    report = relink(old, new, dry_run=False)
    assert (len(report.sessions), report.skipped) == (1, [])
    assert file.is_symlink() == (age_s < DAY_S)
    assert file.exists() == (age_s < DAY_S)
    assert len(list_sessions(new)) == 1
    assert list_sessions(old) == []


def test_who_writes_to_the_old_place_after_a_relink_finds_the_session(old: Path, new: Path) -> None:
    said = chain(user("x"), assistant("y"))
    file = put(folder_of(old), *said, cwd=str(old), mtime=time.time() - 3_600)
    relink(old, new, dry_run=False)
    with file.open("ab") as place:  # by its name, as pi does
        place.write(lines(message("late0001", said[-1]["id"], user("said later"))))
    (info,) = list_sessions(new)
    assert info.message_count == 3


def test_a_session_that_another_process_holds_is_left_alone(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(folder_of(old), *talk("x"), cwd=str(old))
    holder = start(
        "import sys\n"
        "from sessiontree.storage.file import FileSessionStorage\n"
        "writer = FileSessionStorage().open_writer(sys.argv[1])\n"
        "writer.lock()\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n",
        file,
    )
    try:
        wait_for(holder, "held")
        monkeypatch.setattr("sessiontree.storage.locks.lock.__defaults__", (0.05,))
        report = relink(old, new, dry_run=False)
    finally:
        holder.communicate(input="", timeout=30)
    assert report.sessions == []
    assert [item.path for item in report.skipped] == [str(file)]
    assert file.exists()
    assert list_sessions(new) == []


def test_a_header_longer_than_what_is_read_at_once_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rerooting, "_HEAD_BYTES", 16)
    file = put(tmp_path, *talk("x"), cwd="/old", title="T" * 500)
    rerooting.reroot_session(FileSessionStorage(), str(file), str(file), "/new", {})
    (info,) = list_sessions("/x", tmp_path)
    assert (info.cwd, info.title, info.message_count) == ("/new", "T" * 500, 1)


# -- hints ---------------------------------------------------------------------------------------


def test_a_folder_without_sessions_learns_of_a_project_of_its_name(old: Path, new: Path) -> None:
    for number in range(3):
        put(folder_of(old), *talk("x"), cwd=str(old), mtime=1_790_000_000 + number)
    found = list_sessions(new)
    assert found == []
    (project,) = found.moved
    assert (project.cwd, project.session_count) == (str(old), 3)
    assert project.modified.timestamp() == 1_790_000_002


def test_a_folder_that_is_still_there_has_not_moved(old: Path, new: Path) -> None:
    old.mkdir(parents=True)
    put(folder_of(old), *talk("x"), cwd=str(old))
    assert find_moved_projects(new) == []


def test_another_name_is_another_project(old: Path, new: Path, tmp_path: Path) -> None:
    put(folder_of(tmp_path / "gone" / "xpi"), *talk("x"), cwd=str(tmp_path / "gone" / "xpi"))
    put(folder_of(tmp_path / "gone-pi"), *talk("x"), cwd=str(tmp_path / "gone-pi"))
    assert find_moved_projects(new) == []


def test_a_folder_with_sessions_gets_no_hint(old: Path, new: Path) -> None:
    put(folder_of(old), *talk("x"), cwd=str(old))
    put(folder_of(new), *talk("x"), cwd=str(new))
    assert list_sessions(new).moved == []


def test_home_relative_folders_give_hints_too(home: Path, new: Path) -> None:
    gone = home / "projects" / "pi"
    put(Path(get_profile("omp").sessions_dir) / "-projects-pi", *talk("x"), cwd=str(gone))
    (project,) = find_moved_projects(new, profile="omp")
    assert project.cwd == str(gone)


def test_the_root_folder_has_no_name_to_go_by(home: Path) -> None:
    assert find_moved_projects(os.sep) == []


# -- continuing where the folder was renamed -----------------------------------------------------


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX_PANE", "%7")
    monkeypatch.setattr("sessiontree.discovery.breadcrumbs._tty_id", lambda fd: None)


def started_in(project: Path, profile: str) -> str:
    """A session of a project that is there; its file."""
    project.mkdir(parents=True)
    with SessionManager.create(project, profile=profile) as manager:
        manager.append_message(user("question"))
        manager.append_message(assistant("answer"))
        assert manager.session_file is not None
        return manager.session_file


@pytest.mark.parametrize("profile", ["sessiontree", "omp"])
def test_the_last_session_of_a_renamed_project_is_continued_in_it(
    old: Path, terminal: None, profile: str
) -> None:
    before = started_in(old, profile)
    other = put(Path(before).parent, *talk("x"), session_id="other", cwd=str(old))
    new = old.rename(old.with_name("renamed"))
    with SessionManager.continue_recent(new, profile=profile) as manager:
        assert manager.cwd == str(new)
        assert [entry.type for entry in manager.get_entries()] == ["message", "message"]
        assert manager.session_file is not None
        folders = paths.session_folders(get_profile(profile), new)
        assert str(Path(manager.session_file).parent) in folders
        assert any(str(old) in warning.reason for warning in manager.warnings)
    assert Path(before).is_symlink()  # it was written to a moment ago
    assert len(list_sessions(old, profile=profile)) == 1
    assert other.exists()
    with SessionManager.continue_recent(new, profile=profile) as again:
        assert again.session_file == manager.session_file


def test_a_renamed_project_that_has_sessions_goes_on_with_its_own(
    old: Path, terminal: None
) -> None:
    before = started_in(old, "sessiontree")
    new = old.rename(old.with_name("renamed"))
    own = put(folder_of(new), *talk("x"), cwd=str(new))
    with SessionManager.continue_recent(new) as manager:
        assert manager.session_file == str(own)
    assert Path(before).exists()


def test_a_folder_of_ones_own_keeps_the_session(old: Path, terminal: None, tmp_path: Path) -> None:
    old.mkdir(parents=True)
    with SessionManager.create(old, tmp_path / "mine") as manager:
        manager.append_message(user("question"))
    new = old.rename(old.with_name("renamed"))
    with SessionManager.continue_recent(new, tmp_path / "mine") as again:
        assert again.session_id == manager.session_id
        assert again.cwd == str(new)


def test_the_folder_of_a_project_that_was_deleted_gives_its_session_to_nobody(
    old: Path, new: Path, terminal: None
) -> None:
    before = started_in(old, "sessiontree")
    old.rmdir()
    with SessionManager.continue_recent(new) as manager:
        assert manager.get_entries() == []
    assert Path(before).exists()
