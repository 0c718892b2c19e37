"""``doctor``, ``gc``, ``usage`` and ``demo``."""

from __future__ import annotations

import hashlib
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from .conftest import Machine, assistant, user

A, B = "0199a3f2c0de1234", "0199b000c0de5678"
_TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def _old(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (1, 1))
    return path


# -- doctor --------------------------------------------------------------------------------------


def test_a_sound_profile(machine: Machine) -> None:
    machine.session(A, "hello", "hi")
    result = machine.run("doctor")
    assert (result.code, result.out, result.err) == (0, "Checked 1 session: no damage found\n", "")


def test_damage_is_told_then_mended_with_a_backup(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi")
    path.write_text(path.read_text() + "damaged \x1b[2J line\n")
    before = path.read_bytes()
    found = machine.run("doctor")
    assert found.code == 1
    assert found.lines[0] == "damaged (1)"
    assert "1 damaged line, the first is line 4" in found.out
    assert found.lines[-1] == "Checked 1 session: 1 problem"
    assert found.err == "1 can be repaired (a backup is kept): sessiontree doctor --repair\n"
    assert path.read_bytes() == before

    mended = machine.run("doctor", "--repair")
    assert mended.code == 0
    assert mended.out.startswith("repaired ")
    assert mended.err.startswith("Backup: ")
    (copy,) = (machine.agent_dir / "backups").rglob("*.jsonl")
    assert copy.read_bytes() == before
    assert machine.run("doctor").code == 0
    assert machine.run("doctor", "--repair").out == "Nothing to repair\n"


def test_what_can_not_be_mended_stays_an_error(machine: Machine) -> None:
    machine.session(A, f"blob:sha256:{'a' * 64}", "hi")
    assert machine.run("doctor", "--repair").code == 1
    finding = machine.run("doctor", "--json").json["findings"][0]
    assert (finding["kind"], finding["problem"], finding["repairable"]) == (
        "missing blob",
        True,
        False,
    )


def test_a_draft_is_shown_with_its_prompt(machine: Machine) -> None:
    path = machine.session(A, "never answered prompt")
    path.rename(path.parent / f".{path.name}.draft")
    result = machine.run("doctor")
    assert result.code == 0
    assert "draft (1)" in result.out
    assert "never answered: never answered prompt" in result.out


def test_a_message_without_content_is_no_damage(machine: Machine) -> None:
    path = machine.session(A, entries=[user("hello"), {"message": None}, assistant("hi")])
    before = path.read_bytes()
    result = machine.run("doctor")
    assert (result.code, result.err) == (0, "")
    assert result.lines[0] == "empty message (1)"
    assert result.lines[2:] == [
        "    line 3: entry 00000002 is a message without content",
        "Checked 1 session: no damage found",
    ]
    (finding,) = machine.run("doctor", "--json").json["findings"]
    assert (finding["problem"], finding["repairable"]) == (False, False)
    assert machine.run("doctor", "--repair").out == "Nothing to repair\n"
    assert path.read_bytes() == before


def test_secrets_are_named_by_kind_never_shown(machine: Machine) -> None:
    machine.session(A, f"use {_TOKEN}", "ok")
    result = machine.run("doctor", "--secrets")
    assert result.code == 1
    assert "github-token (1); in entries 00000001" in result.out
    assert _TOKEN not in result.out


def test_mending_does_not_hide_the_secrets_that_were_asked_for(machine: Machine) -> None:
    path = machine.session(A, f"use {_TOKEN}", "ok")
    path.with_suffix("").mkdir()
    (path.with_suffix("") / "link").symlink_to("/etc/hostname")
    path.write_text(path.read_text() + "damaged\n")
    result = machine.run("doctor", "--repair", "--secrets")
    assert result.code == 1
    assert result.lines[0].startswith("repaired ")
    assert "    github-token (1); in entries 00000001" in result.lines
    assert "not searched (1)" in result.lines
    again = machine.run("doctor", "--repair", "--secrets", "--json")
    assert again.code == 1
    assert again.json["repaired"] == []
    assert [finding["kind"] for finding in again.json["left"]] == ["secret", "not searched"]
    path.write_text(path.read_text().replace(_TOKEN, "it"))
    assert machine.run("doctor", "--repair", "--secrets").code == 0


# -- gc ------------------------------------------------------------------------------------------


def test_gc_looks_first_and_acts_on_request(machine: Machine) -> None:
    blobs = machine.agent_dir / "blobs"
    needed, useless = (blobs / hashlib.sha256(data).hexdigest() for data in (b"a", b"b" * 3000))
    machine.session(A, f"blob:sha256:{needed.name}", "ok")
    _old(needed, b"a")
    _old(useless, b"b" * 3000)
    # Changing a file's times changes its ctime, which is now: both still count as young.
    young = machine.run("gc")
    assert young.out == "Nothing to remove\n"
    assert "1 blob in use · 1 blob younger than an hour" in young.err
    for path in (needed, useless):
        assert path.exists()


def test_gc_removes_what_is_old_and_unused(machine: Machine) -> None:
    machine.session(A, "hello", "hi")
    left = machine.agent_dir / "sessions" / "--gone--"
    left.mkdir()
    # The clock of the command is set ahead instead: files can't be given an old ctime.
    ahead = str(_clock_ahead(machine.root))
    blob = _old(machine.agent_dir / "blobs" / ("ab" * 32), b"x" * 2048)
    looked = machine.run("gc", PYTHONPATH=ahead)
    assert looked.lines == ["1 blob  2 KB", "1 empty folder  0 B"]
    assert looked.err.endswith("To remove 2 KB: sessiontree gc --yes\n")
    assert blob.exists()
    acted = machine.run("gc", "--yes", PYTHONPATH=ahead)
    assert acted.lines[-1] == "Removed 2 items, 2 KB"
    assert not blob.exists()
    assert not left.exists()
    assert machine.run("ls").code == 0


def test_gc_empties_the_trash_only_when_told(machine: Machine) -> None:
    machine.session(A, "hello", "hi", title="Old thing")
    machine.run("rm", A)
    kept = machine.run("gc", "--yes")
    assert "1 session in the trash: --trash DAYS" in kept.err
    assert "Old thing" not in machine.run("gc", "--trash", "1").out
    assert "Old thing" in machine.run("gc", "--trash", "0").out
    assert machine.run("gc", "--trash", "0", "--yes").code == 0
    assert machine.run("restore").err == "The trash is empty\n"


def test_gc_says_how_much_of_the_trash_would_go_and_with_which_command(machine: Machine) -> None:
    path = machine.session(A, "hello", "x" * 5000, title="Old thing")
    artifact = path.with_suffix("") / "output.txt"
    artifact.parent.mkdir()
    artifact.write_bytes(b"y" * 100_000)
    assert machine.run("rm", A).code == 0
    files = [each for each in (machine.agent_dir / "trash").rglob("*") if each.is_file()]
    size = f"{sum(each.stat().st_size for each in files) / 1024:.0f} KB"
    assert size.startswith("10")
    looked = machine.run("gc", "--trash", "0")
    assert looked.lines == [f"trashed session  Old thing  {size}"]
    assert looked.err.endswith(f"To remove {size}: sessiontree gc --trash 0 --yes\n")
    named = machine.run("--profile", "sessiontree", "gc", "--trash", "0", "--session-dir", "my s")
    folder = machine.project / "my s"
    assert named.err.endswith(
        f"sessiontree --profile sessiontree gc --session-dir '{folder}' --trash 0 --yes\n"
    )
    removed = machine.run("gc", "--trash", "0", "--yes")
    assert removed.lines[-1] == f"Removed 1 item, {size}"
    assert machine.run("gc", "--trash", "0").out == "Nothing to remove\n"


def _clock_ahead(root: Path) -> Path:
    """A folder whose sitecustomize lets a process live two hours later."""
    folder = root / "ahead"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import time\nreal = time.time_ns\ntime.time_ns = lambda: real() + 7200 * 10**9\n"
    )
    return folder


# -- usage ---------------------------------------------------------------------------------------


def test_usage_by_session_with_a_total(machine: Machine) -> None:
    machine.session(A, "one", "yes", title="First")
    machine.session(B, "two", "yes", "three", "yes", title="Second", age_s=60)
    assert machine.run("usage").lines == [
        f"{A}  First   1  100  20  0  0  $0.50",
        f"{B}  Second  2  200  40  0  0  $1.00",
        "total                     3  300  60  0  0  $1.50",
    ]


def test_usage_counts_every_branch_and_groups_by_model_and_day(machine: Machine) -> None:
    other = {
        **assistant("two", model="m2"),
        "parentId": "00000001",
        "timestamp": "2026-03-01T00:00:00.000Z",
    }
    began = datetime(2026, 2, 16, 10, tzinfo=UTC)
    machine.session(A, entries=[user("q"), assistant("one"), other], said=began)
    by_model = machine.run("usage", A, "--json").json
    assert [(row["model"], row["answers"], row["cost"]) for row in by_model] == [
        ("acme/m1", 1, 0.5),
        ("acme/m2", 1, 0.5),
    ]
    days = machine.run("usage", "--by", "day", "--json").json
    assert [row["day"] for row in days] == ["2026-03-01", "2026-02-16"]
    late = machine.run("usage", "--by", "day", "--since", "2026-02-20", "--json").json
    assert [row["day"] for row in late] == ["2026-03-01"]
    for since in ("2026-02..2026-03", "2026-02", ">2026-02-16", "9y"):
        both = machine.run("usage", "--by", "day", "--since", since, "--json").json
        assert [row["day"] for row in both] == ["2026-03-01", "2026-02-16"]
    assert machine.run("usage", "--since", "today").out == "No usage found\n"
    nothing = machine.run("usage", cwd=machine.home)
    assert nothing.out == "No usage found\n"
    assert "Not counted: other projects (--all) · other agents (--all-agents)" in nothing.err
    assert machine.run("usage", "--all", "--by", "project", "--json", cwd=machine.home).json[0][
        "project"
    ] == str(machine.project)


# -- demo ----------------------------------------------------------------------------------------


def test_the_samples_come_and_go_in_one_step(machine: Machine) -> None:
    made = machine.run("demo")
    assert made.code == 0
    assert len(made.lines) == 3
    listed = machine.run("ls", "--json").json
    assert all(found["title"].startswith("Sample: ") for found in listed)
    assert len(listed) == 3
    assert "├─" in machine.run("tree", listed[0]["id"]).out
    compacted = machine.run("show", listed[1]["id"])
    assert "before the compaction (--full)" in compacted.err
    assert "[image: image/png" in machine.run("show", listed[2]["id"]).out
    assert len(list((machine.agent_dir / "blobs").iterdir())) == 2
    assert machine.run("doctor", "--deep").code == 0

    again = machine.run("demo")
    assert again.code == 1
    assert "demo --remove" in again.err
    assert machine.run("demo", "--remove").out == "Moved 3 samples to the trash\n"
    assert machine.run("ls").out == "No sessions found\n"
    assert machine.run("demo", "--remove").out == "No samples found\n"


def test_samples_of_another_project_are_told_with_the_way_to_them(machine: Machine) -> None:
    machine.run("demo")
    ids = {found["id"] for found in machine.run("ls", "--json").json}
    inside = machine.run("demo").err
    assert inside.startswith("You already have the samples in this project; open one with: ses")
    outside = machine.run("demo", cwd=machine.home)
    assert outside.code == 1
    start = (
        f"You already have the samples in {machine.project}; "
        f"open one with: cd {machine.project} && sessiontree --resume "
    )
    assert outside.err.startswith(start)
    assert outside.err[len(start) :].partition(";")[0] in ids
    assert outside.err.endswith("; to remove them: sessiontree demo --remove\n")


def test_samples_do_not_get_in_the_way_of_continuing(machine: Machine) -> None:
    machine.run("demo")
    machine.session(A, "my own work", "yes", age_s=10)
    result = machine.on_terminal("demo", "--remove")
    assert result.code == 0
    machine.run("restore")
    listed = machine.run("ls", "--json").json
    assert listed[0]["id"] == A
    assert not (machine.agent_dir / "terminal-sessions").exists()
    assert time.time() - os.stat(listed[1]["path"]).st_mtime > 3000
