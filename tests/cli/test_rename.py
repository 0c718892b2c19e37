"""``rename``, ``mv``, ``rm`` and ``restore``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests import processes
from tests.samples import lines, message, user

from .conftest import Machine

A, B = "0199a3f2c0de1234", "0199b000c0de5678"
DAY_S = 86_400


def _sessions(machine: Machine) -> list[tuple[str, str | None]]:
    return [(found["id"], found["title"]) for found in machine.run("ls", "--all", "--json").json]


def test_a_session_is_renamed_and_stays_where_it_was_in_time(machine: Machine) -> None:
    machine.session(A, "older", "hi", age_s=3600)
    machine.session(B, "newer", "hi")
    result = machine.run("rename", A, "Fix", "the", "login\x1b[2J")
    assert result.code == 0
    assert result.out.startswith("Renamed to Fix the login")
    assert "\x1b" not in result.out
    assert [session_id for session_id, _ in _sessions(machine)] == [B, A]
    assert _sessions(machine)[1][1] is not None
    assert machine.run("rename", A, "--clear").out == "Name cleared\n"
    assert _sessions(machine)[1][1] is None


@pytest.mark.parametrize("args", [[A], [A, "name", "--clear"]])
def test_renaming_needs_a_name_or_its_removal(machine: Machine, args: list[str]) -> None:
    machine.session(A, "hello", "hi")
    result = machine.run("rename", *args)
    assert (result.code, result.err.split(" See")[0]) == (2, "Give either a NAME or --clear.")


def test_a_pi_session_is_named_as_pi_reads_it(machine: Machine) -> None:
    folder = machine.home / ".pi" / "agent" / "sessions" / "--x--"
    path = machine.session(A, "hello", "hi", folder=folder)
    assert machine.run("--profile", "pi", "rename", A, "Named").code == 0
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["type"], last["name"]) == ("session_info", "Named")
    assert "title" not in json.loads(path.read_text().splitlines()[0])


HOLD = """
import sys
file = open(sys.argv[1], "ab")
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="who has a file open is unknown")
def test_a_session_that_is_open_elsewhere_is_moved_only_by_force(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi")
    target = machine.root / "target"
    target.mkdir()
    holder = processes.start(HOLD, path)
    processes.wait_for(holder, "open")
    refused = machine.run("mv", A, str(target))
    assert refused.code == 1
    assert f"(process {holder.pid}) has session {path} open" in refused.err
    assert "--force" in refused.err
    assert not path.is_symlink()
    moved = machine.run("mv", A, str(target), "--force")
    assert moved.code == 0
    assert "Left a link" in moved.out + moved.err
    assert path.is_symlink()
    assert len(_sessions(machine)) == 1
    holder.communicate("")


def test_who_only_reads_a_session_does_not_keep_it_from_moving(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi", age_s=3 * DAY_S)
    target = machine.root / "target"
    target.mkdir()
    reader = processes.start(HOLD.replace('"ab"', '"rb"'), path)
    processes.wait_for(reader, "open")
    assert machine.run("mv", A, str(target)).code == 0
    assert not os.path.lexists(path)
    reader.communicate("")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="who works where is unknown")
def test_a_pi_that_works_in_the_project_may_have_the_session_open(machine: Machine) -> None:
    folder = machine.home / ".pi" / "agent" / "sessions" / "--x--"
    path = machine.session(A, "hello", "hi", folder=folder)
    project = json.loads(path.read_text().splitlines()[0])["cwd"]
    os.makedirs(project, exist_ok=True)
    target = machine.root / "target"
    target.mkdir()
    script = machine.root / "pi"
    script.write_text(f"#!/bin/sh\ncd {project}\necho ready\nread line\n")
    script.chmod(0o755)
    pi = subprocess.Popen([script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert pi.stdout is not None
    assert pi.stdout.readline() == "ready\n"
    refused = machine.run("--profile", "pi", "mv", A, str(target))
    assert refused.code == 1
    assert f"pi (process {pi.pid}) works in" in refused.err
    pi.communicate("\n")
    os.utime(path, (1_760_000_000, 1_760_000_000))
    assert machine.run("--profile", "pi", "mv", A, str(target)).code == 0
    assert not os.path.lexists(path)


@pytest.mark.parametrize("age_s", [0, DAY_S - 3_600])
def test_a_session_that_was_written_to_lately_leaves_a_link(machine: Machine, age_s: float) -> None:
    """The program that wrote it may find the file by its name each time."""
    path = machine.session(A, "hello", "hi", age_s=age_s)
    target = machine.root / "target"
    target.mkdir()
    moved = machine.run("mv", A, str(target))
    assert moved.code == 0
    assert "Left a link in the old place" in moved.out + moved.err
    assert path.is_symlink()
    assert len(_sessions(machine)) == 1
    for cwd in (machine.project, target):
        assert machine.run("show", A, cwd=cwd).code == 0
        assert machine.run("show", A[:6], cwd=cwd).code == 0
        assert machine.run("show", path.name[:13], cwd=cwd).code == 0  # the time in its name


@pytest.mark.parametrize("cwd", ["project", "target", "."])
def test_a_session_is_found_with_what_a_program_wrote_where_it_was(
    machine: Machine, cwd: str
) -> None:
    path = machine.session(A, "hello", "hi", age_s=3 * DAY_S)
    last = json.loads(path.read_text().splitlines()[-1])["id"]
    target = machine.root / "target"
    target.mkdir()
    assert machine.run("mv", A, str(target)).code == 0
    path.write_bytes(lines(message("late0001", last, user("said later"))))
    shown = machine.run("show", A, cwd=machine.root / cwd)
    assert (shown.code, shown.err) == (0, "")
    assert "said later" in shown.out
    assert path.is_symlink()


def test_force_always_leaves_a_link(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi", age_s=3600)
    target = machine.root / "target"
    target.mkdir()
    assert machine.run("mv", A, str(target), "--force").code == 0
    assert path.is_symlink()


def test_what_a_program_wrote_to_the_old_place_is_brought_to_the_session(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi", age_s=3 * DAY_S)
    last = json.loads(path.read_text().splitlines()[-1])["id"]
    target = machine.root / "target"
    target.mkdir()
    assert machine.run("mv", A, str(target)).code == 0
    assert not os.path.lexists(path)
    late = message("late0001", last, user("said later"))
    path.write_bytes(lines(late))
    listed = machine.run("ls", "--all", "--json")
    assert [found["messageCount"] for found in listed.json] == [3]
    assert "held lines of a session that was moved" in listed.err
    assert path.is_symlink()
    with path.open("ab") as file:  # the program finds the session through the link
        file.write(lines(message("late0002", "late0001", user("and more"))))
    assert machine.run("ls", "--all", "--json").json[0]["messageCount"] == 4


def test_a_title_slot_is_renamed_in_place_and_listed_at_once(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi", age_s=3600)
    slot = {"type": "title", "v": 1, "title": "Old", "updatedAt": "2026-02-16T10:20:30.000Z"}
    room = 256 - len(json.dumps({**slot, "pad": ""})) - 1
    rest = path.read_text()
    path.write_text(json.dumps({**slot, "pad": " " * room}) + "\n" + rest)
    os.utime(path, (1_760_000_000, 1_760_000_000))
    assert _sessions(machine) == [(A, "Old")]
    assert machine.run("rename", A, "New").code == 0
    assert _sessions(machine) == [(A, "New")]
    assert path.stat().st_mtime == 1_760_000_000
    assert path.read_text().partition("\n")[2].startswith(rest.rstrip("\n"))


def test_a_session_moves_to_another_project(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi", age_s=3 * DAY_S)
    artifacts = path.with_suffix("")
    artifacts.mkdir()
    (artifacts / "1.txt").write_text("kept")
    target = machine.root / "other"
    target.mkdir()
    result = machine.run("mv", A, str(target))
    assert result.code == 0
    assert not path.exists()
    assert machine.run("ls").out == "No sessions found\n"
    moved = Path(machine.run("ls", "--json", cwd=target).json[0]["path"])
    assert (moved.with_suffix("") / "1.txt").read_text() == "kept"
    assert machine.run("mv", A, str(target)).out == f"It is already there: {target}\n"
    missing = machine.run("mv", A, str(machine.root / "nowhere"))
    assert (missing.code, missing.err) == (1, f"{machine.root}/nowhere: no such folder\n")


def test_removed_sessions_come_back_together(machine: Machine) -> None:
    one = machine.session(A, "one", "hi", title="First")
    two = machine.session(B, "two", "hi", age_s=60)
    before = one.read_bytes(), two.read_bytes()
    result = machine.run("rm", A, B)
    assert result.lines == [f"Moved to the trash: First  {A}", f"Moved to the trash: two  {B}"]
    assert result.err == "Undo: sessiontree restore\n"
    assert _sessions(machine) == []
    assert machine.run("restore").code == 0
    assert (one.read_bytes(), two.read_bytes()) == before
    assert _sessions(machine) == [(A, "First"), (B, None)]
    empty = machine.run("restore")
    assert (empty.code, empty.err) == (1, "The trash is empty\n")


def test_one_of_several_removed_sessions_is_restored_by_its_id(machine: Machine) -> None:
    machine.session(A, "one", "hi")
    machine.session(B, "two", "hi")
    machine.run("rm", A)
    machine.run("rm", B)
    assert [item["id"] for item in machine.run("restore", "--list", "--json").json] == [B, A]
    assert machine.run("restore", A[:10]).code == 0
    assert [session_id for session_id, _ in _sessions(machine)] == [A]
    missing = machine.run("restore", "ffff")
    assert missing.code == 1
    assert missing.err.startswith('Session "ffff" is not in the trash.')


def test_nothing_is_removed_unless_all_are_found(machine: Machine) -> None:
    machine.session(A, "one", "hi")
    result = machine.run("rm", A, "ffff")
    assert (result.code, result.err) == (1, 'Session "ffff" not found.\n')
    assert [session_id for session_id, _ in _sessions(machine)] == [A]


def test_an_ambiguous_id_removes_nothing(machine: Machine) -> None:
    machine.session(A, "one", "hi")
    machine.session(B, "two", "hi")
    result = machine.run("rm", "0199")
    assert result.code == 2
    assert "2 sessions match" in result.err
    assert len(_sessions(machine)) == 2


def test_a_file_that_is_no_session_is_not_removed(machine: Machine) -> None:
    readme = machine.project / "README.md"
    readme.write_text("mine")
    assert machine.run("rm", "./README.md").code == 1
    assert readme.read_text() == "mine"
