"""Breadcrumbs: which session a terminal worked on last."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.discovery.places import put

from sessiontree.discovery.breadcrumbs import (
    read_breadcrumb,
    read_moved_breadcrumb,
    terminal_id,
    write_breadcrumb,
)
from sessiontree.discovery.paths import encode_cwd
from sessiontree.discovery.resume import choose_recent
from sessiontree.profiles import Profile, get_profile
from sessiontree.storage.memory import MemorySessionStorage

NO_TERMINAL = -1


@pytest.fixture
def terminal() -> Iterator[int]:
    """The descriptor of a real terminal."""
    ours, theirs = pty.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


@pytest.fixture
def profile() -> Profile:
    return get_profile()


def test_a_terminal_is_named_after_its_device(terminal: int) -> None:
    device = os.ttyname(terminal)
    assert device.startswith("/dev/pts/")
    assert terminal_id({"TMUX_PANE": "%1"}, terminal) == f"pts-{device.rsplit('/', 1)[1]}"


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({"ZELLIJ_PANE_ID": "3", "ZELLIJ_SESSION_NAME": "a/b"}, "zellij-a-b-3"),
        ({"ZELLIJ_PANE_ID": "3"}, "zellij-3"),
        ({"TMUX_PANE": "%4", "KITTY_WINDOW_ID": "1"}, "tmux-%4"),
        ({"KITTY_WINDOW_ID": "1", "WEZTERM_PANE": "2"}, "kitty-1"),
        ({"WEZTERM_PANE": "2", "TERM_SESSION_ID": "x"}, "wezterm-2"),
        ({"TERM_SESSION_ID": "w0t1p0:A-B"}, "apple-w0t1p0:A-B"),
        ({"WT_SESSION": "5b/..\\x"}, "wt-5b-..-x"),
        ({"TMUX_PANE": ""}, None),
        ({}, None),
    ],
)
def test_without_a_device_the_environment_names_it(env: dict[str, str], name: str | None) -> None:
    assert terminal_id(env, NO_TERMINAL) == name


def test_a_breadcrumb_is_two_lines(profile: Profile, tmp_path: Path) -> None:
    file = put(tmp_path)
    write_breadcrumb(profile, tmp_path, file, terminal="pts-3")
    crumb = Path(profile.terminal_sessions_dir) / "pts-3"
    assert crumb.read_bytes() == f"{tmp_path}\n{file}\n".encode()
    assert crumb.stat().st_mode & 0o077 == 0
    assert read_breadcrumb(profile, f"{tmp_path}/", terminal="pts-3") == str(file)


def test_further_lines_of_omp_are_ignored(profile: Profile, tmp_path: Path) -> None:
    file = put(tmp_path)
    crumb = Path(profile.terminal_sessions_dir) / "pts-3"
    crumb.parent.mkdir(parents=True)
    crumb.write_bytes(f"{tmp_path}\r\n{file}\r\nfresh\ncwdstat 1 2\n".encode())
    assert read_breadcrumb(profile, tmp_path, terminal="pts-3") == str(file)


def test_a_new_session_that_was_never_written_is_not_passed_over_for_an_older_one(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """omp notes with ``fresh`` that its user has just asked for a new session."""
    monkeypatch.setenv("TMUX_PANE", "%7")
    monkeypatch.setattr("os.ttyname", lambda _: "")
    project, other = tmp_path / "project", tmp_path / "other"
    older = put(tmp_path / "s", name="older.jsonl", cwd=str(project))
    crumb = Path(profile.terminal_sessions_dir) / "tmux-%7"
    crumb.parent.mkdir(parents=True, exist_ok=True)

    def continued(extra: str, cwd: Path = project) -> str | None:
        crumb.write_text(f"{cwd}\n{tmp_path}/s/new.jsonl\n{extra}")
        return choose_recent(project, tmp_path / "s")

    assert continued("") == str(older)
    assert continued("fresh\n") is None
    assert continued("fresh\n", cwd=other) == str(older)
    new = put(tmp_path / "s", name="new.jsonl", cwd=str(project))
    assert continued("fresh\n") == str(new)


def test_a_breadcrumb_of_another_folder_or_terminal_does_not_count(
    profile: Profile, tmp_path: Path
) -> None:
    file = put(tmp_path)
    write_breadcrumb(profile, tmp_path, file, terminal="pts-3")
    assert read_breadcrumb(profile, tmp_path / "x", terminal="pts-3") is None
    assert read_breadcrumb(profile, tmp_path, terminal="pts-4") is None


def test_a_breadcrumb_to_a_file_that_is_gone_does_not_count(
    profile: Profile, tmp_path: Path
) -> None:
    file = put(tmp_path)
    write_breadcrumb(profile, tmp_path, file, terminal="pts-3")
    file.unlink()
    assert read_breadcrumb(profile, tmp_path, terminal="pts-3") is None


def test_a_session_that_is_only_a_draft_counts(profile: Profile, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    (tmp_path / ".x.jsonl.draft").write_text("{}\n")
    write_breadcrumb(profile, tmp_path, file, terminal="pts-3")
    assert read_breadcrumb(profile, tmp_path, terminal="pts-3") == str(file)


def test_a_breadcrumb_to_what_is_no_session_does_not_count(
    profile: Profile, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / ".folder.jsonl.draft").write_text("{}\n")
    for name in (".", "notes.txt", "folder.jsonl", "/dev/null"):
        write_breadcrumb(profile, tmp_path, tmp_path / name, terminal="pts-3")
        assert read_breadcrumb(profile, tmp_path, terminal="pts-3") is None, name


def test_a_breadcrumb_to_a_damaged_session_counts(profile: Profile, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text("{torn\n")
    write_breadcrumb(profile, tmp_path, damaged, terminal="pts-3")
    assert read_breadcrumb(profile, tmp_path, terminal="pts-3") == str(damaged)


def test_a_folder_that_two_lines_can_not_hold_leaves_no_old_crumb(
    profile: Profile, tmp_path: Path
) -> None:
    write_breadcrumb(profile, tmp_path, put(tmp_path), terminal="pts-3")
    odd = tmp_path / "a\nb"
    write_breadcrumb(profile, odd, put(odd), terminal="pts-3")
    assert os.listdir(profile.terminal_sessions_dir) == []


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n", b"/x", b"\xff\x00\n\x00\n", b"x" * 99999])
def test_a_damaged_breadcrumb_is_as_good_as_none(
    profile: Profile, tmp_path: Path, content: bytes
) -> None:
    crumb = Path(profile.terminal_sessions_dir) / "pts-3"
    crumb.parent.mkdir(parents=True)
    crumb.write_bytes(content)
    assert read_breadcrumb(profile, tmp_path, terminal="pts-3") is None


def test_writing_never_raises(profile: Profile, tmp_path: Path) -> None:
    Path(profile.agent_dir).mkdir(parents=True)
    Path(profile.terminal_sessions_dir).write_text("in the way")
    write_breadcrumb(profile, tmp_path, tmp_path / "x.jsonl", terminal="pts-3")
    write_breadcrumb(profile, "/a\x00b", tmp_path / "x.jsonl", terminal="pts-3")
    assert read_breadcrumb(profile, tmp_path, terminal="pts-3") is None


def test_a_storage_keeps_its_own_breadcrumbs(profile: Profile, tmp_path: Path) -> None:
    storage = MemorySessionStorage()
    storage.ensure_dir("/s")
    storage.write_atomic("/s/x.jsonl", b"{}\n")
    write_breadcrumb(profile, tmp_path, "/s/x.jsonl", terminal="pts-3", storage=storage)
    assert not Path(profile.terminal_sessions_dir).exists()
    found = read_breadcrumb(profile, tmp_path, terminal="pts-3", storage=storage)
    assert found == "/s/x.jsonl"


def test_a_breadcrumb_into_the_artifacts_of_a_session_leads_to_the_session(
    profile: Profile, tmp_path: Path
) -> None:
    file = put(tmp_path, name="x.jsonl")
    child = put(tmp_path / "x", name="0-Explore.jsonl")
    grandchild = put(tmp_path / "x" / "0-Explore", name="1-Deeper.jsonl")
    for inside in (child, grandchild):
        write_breadcrumb(profile, tmp_path, inside, terminal="pts-3")
        assert read_breadcrumb(profile, tmp_path, terminal="pts-3") == str(file)


def test_a_session_whose_folder_omp_renamed_is_found_under_its_new_name(home: Path) -> None:
    profile, project = get_profile("omp"), home / "pi"
    older = Path(profile.sessions_dir) / encode_cwd(project)
    file = put(older, cwd=str(project))
    write_breadcrumb(profile, project, file, terminal="pts-3")
    newer = older.rename(older.with_name("-pi"))
    assert read_breadcrumb(profile, project, terminal="pts-3") == str(newer / file.name)


# -- a project whose folder was renamed ----------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "project"
    folder.mkdir(parents=True)
    return folder


def renamed(project: Path) -> Path:
    return project.rename(project.with_name("renamed"))


def test_a_renamed_project_is_recognised(profile: Profile, tmp_path: Path, project: Path) -> None:
    file = put(tmp_path / "s")
    write_breadcrumb(profile, project, file, terminal="pts-3")
    assert read_moved_breadcrumb(profile, project, terminal="pts-3") is None
    new = renamed(project)
    found = read_moved_breadcrumb(profile, new, terminal="pts-3")
    assert found == (str(file), str(project))
    assert read_breadcrumb(profile, new, terminal="pts-3") is None
    assert read_moved_breadcrumb(profile, tmp_path, terminal="pts-3") is None


def test_a_renamed_project_in_which_something_was_made_since_is_recognised(
    profile: Profile, tmp_path: Path, project: Path
) -> None:
    (project / "old.txt").write_text("x")
    write_breadcrumb(profile, project, put(tmp_path / "s"), terminal="pts-3")
    new = renamed(project)
    (new / "new.txt").write_text("x")
    assert read_moved_breadcrumb(profile, new, terminal="pts-3") is not None


def test_a_breadcrumb_of_living_omp_tells_the_folder_too(
    profile: Profile, tmp_path: Path, project: Path
) -> None:
    file, found = put(tmp_path / "s"), project.stat()
    crumb = Path(profile.terminal_sessions_dir) / "pts-3"
    crumb.parent.mkdir(parents=True)
    crumb.write_text(f"{project}\n{file}\nfresh\ncwdstat {found.st_dev} {found.st_ino}\n")
    new = renamed(project)
    assert read_moved_breadcrumb(profile, new, terminal="pts-3") == (str(file), str(project))


def test_a_folder_that_is_gone_is_no_folder_that_moved(
    profile: Profile, tmp_path: Path, project: Path
) -> None:
    write_breadcrumb(profile, project, put(tmp_path / "s"), terminal="pts-3")
    project.rmdir()
    other = tmp_path / "other"
    other.mkdir()  # many file systems give it the inode of the one that was removed
    crumb = Path(profile.terminal_sessions_dir) / "pts-3"
    os.utime(crumb, ns=(0, other.stat().st_mtime_ns - 1))
    assert read_moved_breadcrumb(profile, other, terminal="pts-3") is None


def test_what_was_noted_of_another_breadcrumbs_folder_does_not_count(
    profile: Profile, tmp_path: Path, project: Path
) -> None:
    file = put(tmp_path / "s")
    write_breadcrumb(profile, project, file, terminal="pts-3")
    crumb = Path(profile.terminal_sessions_dir) / "pts-3"
    crumb.write_text(f"{tmp_path}/elsewhere\n{file}\n")  # an older omp knows no more lines
    assert read_moved_breadcrumb(profile, renamed(project), terminal="pts-3") is None
