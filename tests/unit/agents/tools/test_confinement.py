"""The project folder cannot be left, whatever the path and whatever changes meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree.agents.tools.confinement import ConfinementError, ProjectFolder


@pytest.fixture
def folder(project: Path) -> ProjectFolder:
    (project / "inside.txt").write_text("inside\n")
    (project / "sub").mkdir()
    (project / "sub" / "deep.txt").write_text("deep\n")
    return ProjectFolder(project)


def test_a_file_is_read_by_every_spelling_that_stays_inside(
    folder: ProjectFolder, project: Path
) -> None:
    for path in (
        "inside.txt",
        "./inside.txt",
        "sub/../inside.txt",
        "sub//..///inside.txt",
        str(project / "inside.txt"),
        f"{project}/sub/../inside.txt",
    ):
        assert folder.read_bytes(path)[0] == b"inside\n", path


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "sub/../../project/inside.txt",
        "..",
        "../../../../../../../../etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "~/secret",
        "~root/x/../../../etc/passwd",
        "inside.txt\0.png",
        "\ud800",
    ],
)
def test_a_path_that_leads_out_is_refused_for_reading_and_writing(
    folder: ProjectFolder, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent-home")
    for operation in (
        lambda: folder.read_bytes(path),
        lambda: folder.list_directory(path),
        lambda: folder.replace(path, b"x", expected=None),
    ):
        with pytest.raises((ConfinementError, OSError)):
            operation()


def test_the_absolute_path_of_the_secret_is_refused(folder: ProjectFolder, secret: Path) -> None:
    with pytest.raises(ConfinementError, match="outside the project folder"):
        folder.read_bytes(str(secret))


def test_a_sibling_whose_name_begins_like_the_project_is_outside(
    folder: ProjectFolder, project: Path
) -> None:
    sibling = project.with_name("project-2")
    sibling.mkdir()
    (sibling / "x").write_text("x")
    with pytest.raises(ConfinementError):
        folder.read_bytes(str(sibling / "x"))


def test_links_that_stay_inside_work_and_links_that_lead_out_do_not(
    folder: ProjectFolder, project: Path, secret: Path
) -> None:
    (project / "in").symlink_to("sub/deep.txt")
    (project / "in-absolute").symlink_to(project / "sub")
    (project / "sub" / "up").symlink_to("../inside.txt")
    (project / "chain").symlink_to("in")
    assert folder.read_bytes("in")[0] == b"deep\n"
    assert folder.read_bytes("chain")[0] == b"deep\n"
    assert folder.read_bytes("in-absolute/deep.txt")[0] == b"deep\n"
    assert folder.read_bytes("in-absolute/up")[0] == b"inside\n"

    (project / "out").symlink_to(secret)
    (project / "out-relative").symlink_to("../outside/secret.txt")
    (project / "out-folder").symlink_to(secret.parent)
    (project / "sub" / "two-up").symlink_to("../../outside")
    (project / "to-out").symlink_to("out")
    for path in ("out", "out-relative", "out-folder/secret.txt", "sub/two-up/secret.txt", "to-out"):
        with pytest.raises(ConfinementError):
            folder.read_bytes(path)
        with pytest.raises(ConfinementError):
            folder.replace(path, b"overwritten", expected=None)
    with pytest.raises(ConfinementError):
        folder.list_directory("out-folder")
    assert secret.read_text() == "the secret\n"


def test_dotdot_after_a_link_means_the_parent_of_its_target(
    folder: ProjectFolder, project: Path
) -> None:
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "here.txt").write_text("a/here")
    (project / "jump").symlink_to("a/b")
    assert folder.read_bytes("jump/../here.txt")[0] == b"a/here"


def test_link_loops_end(folder: ProjectFolder, project: Path) -> None:
    (project / "one").symlink_to("two")
    (project / "two").symlink_to("one")
    (project / "self").symlink_to("self/x")
    for path in ("one", "one/x", "self"):
        with pytest.raises(OSError, match="symbolic links"):
            folder.read_bytes(path)


def test_links_that_double_at_every_step_end_soon(folder: ProjectFolder, project: Path) -> None:
    (project / "l0").symlink_to(".")
    for n in range(1, 30):
        (project / f"l{n}").symlink_to(f"l{n - 1}/l{n - 1}")
    with pytest.raises(OSError, match="symbolic links"):
        folder.list_directory("l29")


def test_a_project_reached_through_a_link_is_named_by_either_path(
    folder: ProjectFolder, project: Path, tmp_path: Path
) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(project)
    through = ProjectFolder(alias)
    assert through.read_bytes(f"{alias}/inside.txt")[0] == b"inside\n"
    assert through.read_bytes(f"{project}/inside.txt")[0] == b"inside\n"


def test_pipes_devices_and_folders_are_not_read_and_do_not_hang(
    folder: ProjectFolder, project: Path
) -> None:
    os.mkfifo(project / "pipe")
    with pytest.raises(ConfinementError, match="not a regular file"):
        folder.read_bytes("pipe")
    with pytest.raises(ConfinementError, match="not a regular file"):
        folder.replace("pipe", b"x", expected=None)
    with pytest.raises(IsADirectoryError):
        folder.read_bytes("sub")
    with pytest.raises(IsADirectoryError):
        folder.replace("sub", b"x", expected=None)


def test_the_longest_names_can_be_written(folder: ProjectFolder, project: Path) -> None:
    name = "é" * 127
    folder.replace(name, b"x", expected=None)
    assert (project / name).read_bytes() == b"x"


def test_writing_creates_folders_and_leaves_no_temporary_file(
    folder: ProjectFolder, project: Path
) -> None:
    folder.replace("new/er/file.txt", b"one", expected=None)
    assert (project / "new" / "er" / "file.txt").read_bytes() == b"one"
    assert os.listdir(project / "new" / "er") == ["file.txt"]


def test_writing_keeps_the_mode_but_drops_set_user_id(folder: ProjectFolder, project: Path) -> None:
    target = project / "inside.txt"
    target.chmod(0o4750)
    folder.replace("inside.txt", b"new", expected=folder.fingerprint("inside.txt"))
    assert target.stat().st_mode & 0o7777 == 0o750


def test_a_read_only_file_is_not_replaced(folder: ProjectFolder, project: Path) -> None:
    (project / "inside.txt").chmod(0o444)
    with pytest.raises(ConfinementError, match="read-only"):
        folder.replace("inside.txt", b"new", expected=folder.fingerprint("inside.txt"))
    assert (project / "inside.txt").read_bytes() == b"inside\n"


def test_writing_through_a_link_changes_its_target_and_keeps_the_link(
    folder: ProjectFolder, project: Path
) -> None:
    (project / "link").symlink_to("sub/deep.txt")
    folder.replace("link", b"new", expected=folder.fingerprint("link"))
    assert (project / "link").is_symlink()
    assert (project / "sub" / "deep.txt").read_bytes() == b"new"


def test_writing_to_a_hard_link_leaves_the_file_outside_as_it_was(
    folder: ProjectFolder, project: Path, secret: Path
) -> None:
    os.link(secret, project / "hard")
    folder.replace("hard", b"new", expected=folder.fingerprint("hard"))
    assert (project / "hard").read_bytes() == b"new"
    assert secret.read_text() == "the secret\n"


def test_a_file_changed_since_it_was_seen_is_not_overwritten(
    folder: ProjectFolder, project: Path
) -> None:
    seen = folder.fingerprint("inside.txt")
    (project / "inside.txt").write_text("changed by the user\n")
    with pytest.raises(ConfinementError, match="changed meanwhile"):
        folder.replace("inside.txt", b"ours", expected=seen)
    with pytest.raises(ConfinementError, match="changed meanwhile"):
        folder.replace("inside.txt", b"ours", expected=None)
    (project / "inside.txt").unlink()
    with pytest.raises(ConfinementError, match="removed meanwhile"):
        folder.replace("inside.txt", b"ours", expected=seen)
    assert sorted(os.listdir(project)) == ["sub"]


def _swapping(swap: Callable[[], None]) -> tuple[threading.Thread, threading.Event]:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            swap()

    thread = threading.Thread(target=work)
    thread.start()
    return thread, stop


def test_a_folder_swapped_for_a_link_during_the_call_never_leads_out(
    folder: ProjectFolder, project: Path, secret: Path
) -> None:
    """The classic race: ``sub`` is now a folder, now a link to the folder outside."""
    (project / "sub" / "secret.txt").write_text("harmless\n")
    (project / "evil").symlink_to(secret.parent)

    def swap() -> None:
        os.rename(project / "sub", project / "aside")
        os.rename(project / "evil", project / "sub")
        os.rename(project / "sub", project / "evil")
        os.rename(project / "aside", project / "sub")

    thread, stop = _swapping(swap)
    outcomes = {"read": 0, "refused": 0}
    try:
        for _ in range(5_000):
            try:
                content = folder.read_bytes("sub/secret.txt")[0]
                assert content == b"harmless\n"
                outcomes["read"] += 1
            except (ConfinementError, OSError):
                outcomes["refused"] += 1
    finally:
        stop.set()
        thread.join()
    assert outcomes["read"] > 0
    assert outcomes["refused"] > 0


def test_writing_below_a_link_that_is_swapped_during_the_call_never_leads_out(
    folder: ProjectFolder, project: Path, secret: Path
) -> None:
    """``current`` points inside and outside in turn, and is never missing."""
    (project / "current").symlink_to("sub")

    def swap() -> None:
        for target in ("../outside", "sub"):
            (project / "next").symlink_to(target)
            os.rename(project / "next", project / "current")

    thread, stop = _swapping(swap)
    written = 0
    try:
        for round_ in range(1_000):
            try:
                folder.replace(f"current/new-{round_}", b"x", expected=None)
                written += 1
            except (ConfinementError, OSError):
                pass
    finally:
        stop.set()
        thread.join()
    assert written == len(list((project / "sub").glob("new-*"))) > 0
    assert os.listdir(secret.parent) == ["secret.txt"]
    assert secret.read_text() == "the secret\n"


def test_a_file_swapped_for_a_link_during_the_call_never_leads_out(
    folder: ProjectFolder, project: Path, secret: Path
) -> None:
    target = project / "inside.txt"

    def swap() -> None:
        (project / "evil").symlink_to(secret)
        os.rename(project / "evil", target)
        (project / "good").write_text("inside\n")
        os.rename(project / "good", target)

    thread, stop = _swapping(swap)
    try:
        for _ in range(2_000):
            try:
                assert folder.read_bytes("inside.txt")[0] in (b"inside\n", b"")
            except (ConfinementError, OSError):
                pass
            try:
                seen = folder.fingerprint("inside.txt")
                folder.replace("inside.txt", b"inside\n", expected=seen)
            except (ConfinementError, OSError):
                pass
    finally:
        stop.set()
        thread.join()
    assert secret.read_text() == "the secret\n"


NAMES = st.sampled_from(
    ["..", ".", "", "sub", "up", "out", "loop", "inside.txt", "secret.txt", "outside", "project"]
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, max_size=8), st.booleans())
def test_no_combination_of_names_and_links_reads_the_secret(
    folder: ProjectFolder, project: Path, secret: Path, names: list[str], absolute: bool
) -> None:
    for name, target in (("up", ".."), ("out", "../outside"), ("loop", "sub/../loop")):
        if not (project / name).is_symlink():
            (project / name).symlink_to(target)
    path = "/".join(names)
    if absolute:
        path = f"{project}/{path}"
    try:
        content = folder.read_bytes(path)[0]
    except (ConfinementError, OSError):
        return
    assert content == b"inside\n"


def test_a_project_that_is_no_folder_is_refused(project: Path) -> None:
    (project / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        ProjectFolder(project / "file")
