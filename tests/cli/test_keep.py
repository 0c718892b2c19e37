"""``keep`` as its users run it: copy, look, delete, restore."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from tests.agent_samples import claude_answer, claude_prompt, put_claude

from .conftest import Machine

ONE = "11111111-1111-4111-8111-111111111111"
OURS = "0199a3f2c0de1234"


@pytest.fixture
def claude(machine: Machine) -> Path:
    path = put_claude(machine.home, ONE, claude_prompt("find the quokka"), claude_answer("here"))
    _settle(path)
    return path


def _settle(path: Path, days: float = 1) -> None:
    moment = time.time() - days * 86_400
    os.utime(path, (moment, moment))
    time.sleep(0.05)


def test_a_session_that_its_agent_deletes_stays(machine: Machine, claude: Path) -> None:
    shown = machine.run("show", ONE).out
    assert machine.run("keep").lines[0].startswith("Kept 1 new of 1 file; ")
    assert machine.run("keep").lines == ["Nothing new: 1 file kept"]
    content = claude.read_bytes()
    shutil.rmtree(machine.home / ".claude")
    assert machine.run("show", ONE).out == shown
    (row,) = machine.run("ls", "--all-agents", "--json").json
    assert (row["id"], row["kept"], row["agent"]) == (ONE, True, "claude-code")
    assert "  kept  " in machine.run("ls", "--all-agents").out
    assert machine.run("search", "quokka").code == 0
    assert machine.run("usage", "--all-agents", "--json").json[0]["answers"] == 1
    assert machine.run("export", ONE, "-o", "x.md").code == 0
    refused = machine.run("open", ONE, "--print")
    assert (refused.code, refused.out) == (1, "")
    assert f"keep --restore {ONE}" in refused.err
    result = machine.run("keep", "--restore", ONE[:8])
    assert result.lines[0] == f"Restored: find the quokka  {ONE}"
    assert claude.read_bytes() == content
    assert machine.run("keep", "--restore", ONE).lines[0].startswith("Already there")
    claude.write_bytes(b"{}\n" + content)
    refused = machine.run("keep", "--restore", ONE)
    assert (refused.code, refused.out) == (1, "")
    assert "exists and differs from the copy" in refused.err


def test_a_session_of_ours_that_is_gone_is_shown_too(machine: Machine) -> None:
    path = machine.session(OURS, "one", "yes", title="First")
    _settle(path)
    machine.run("keep")
    shown = machine.run("show", OURS).out
    path.unlink()
    assert machine.run("show", OURS).out == shown
    for flag in ("--print", "--json", "--here"):
        refused = machine.run("open", OURS, flag)
        assert (refused.code, refused.out) == (1, "")
        assert f"keep --restore {OURS}" in refused.err
    assert machine.run("keep", "--restore", "First").code == 0
    assert path.exists()


def test_the_status_tells_what_goes_next_week(machine: Machine, claude: Path) -> None:
    assert "1 session new or changed since" in machine.run("keep", "--status").out
    _settle(claude, 28)
    assert "1 session would be deleted within a week" in machine.run("keep").err
    shown = machine.run("keep", "--status").lines
    assert shown[0].startswith("1 session kept: ")
    assert shown[-1] == "in 2 d  claude-code  yes  find the quokka"
    wire = machine.run("keep", "--status", "--json").json
    assert (wire["sessions"], wire["expiring"][0]["path"]) == (1, str(claude))


def test_a_copy_is_forgotten_only_after_a_yes(machine: Machine, claude: Path) -> None:
    machine.run("keep")
    claude.unlink()
    refused = machine.run("keep", "--forget", ONE)
    assert refused.code == 1
    assert "--yes" in refused.err
    assert machine.run("keep", "--forget", ONE, "--yes").code == 0
    assert machine.run("ls", "--all-agents", "--json").json == []
    kept = machine.agent_dir / "kept"
    assert not any(b"STK1c" in pack.read_bytes() for pack in kept.glob("*.pack"))


def test_installing_asks_first_and_says_what_it_does(machine: Machine, claude: Path) -> None:
    settings = machine.home / ".claude" / "settings.json"
    refused = machine.run("keep", "--install", "hook")
    assert refused.code == 1
    assert f"Write {settings}" in refused.err
    assert not settings.exists()
    args = ("keep", "--install", "hook")
    assert "Installed" in machine.on_terminal(*args, replies=[("[y/N]", "y\n")]).out
    (group,) = json.loads(settings.read_text())["hooks"]["SessionEnd"]
    command = group["hooks"][0]["command"]
    assert os.system(f"cd / && env -i HOME={machine.home} PATH=/usr/bin:/bin {command}") == 0
    assert (machine.home / ".sessiontree" / "agent" / "kept").is_dir()
    assert "Runs by itself: hook" in machine.run("keep", "--status").out
    assert machine.run("keep", "--uninstall", "--yes").code == 0
    assert json.loads(settings.read_text()) == {}


def test_a_hook_runs_nothing_of_the_project_that_it_is_called_in(
    machine: Machine, claude: Path
) -> None:
    assert machine.run("keep", "--install", "hook", "--yes").code == 0
    settings = json.loads((machine.home / ".claude" / "settings.json").read_text())
    command = settings["hooks"]["SessionEnd"][0]["hooks"][0]["command"]
    for name in ("sessiontree.py", "json.py", "sqlite3.py"):
        (machine.project / name).write_text("open('was here', 'w')")
    assert os.system(f"cd {machine.project} && env -i HOME={machine.home} {command}") == 0
    assert not (machine.project / "was here").exists()


def test_options_that_do_not_go_together(machine: Machine) -> None:
    assert machine.run("keep", "--status", "--restore", "x").code == 2
    assert machine.run("keep", "--version", "1").code == 2
    assert machine.run("keep", "--restore", "nothing").code == 1


def test_titles_of_deleted_sessions_reach_no_terminal_unescaped(machine: Machine) -> None:
    path = put_claude(
        machine.home, ONE, claude_prompt("\x1b[31mred\x1b]0;x\x07"), claude_answer("y")
    )
    _settle(path, 29)
    machine.run("keep")
    path.unlink()
    for args in (("keep", "--status"), ("ls", "--all-agents"), ("keep", "--restore", ONE)):
        result = machine.run(*args)
        assert "\x1b" not in result.out + result.err, args
