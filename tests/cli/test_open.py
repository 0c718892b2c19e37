"""``open``: stand-ins for the agents print what they were started with, and where."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from .conftest import Machine

A = "0199a3f2-0000-7000-8000-00000000000a"
CLAUDE = "5f2c81d0-1111-4222-8333-444455556666"


def install(machine: Machine, name: str) -> str:
    """A PATH in which an agent of this name is installed."""
    folder = machine.root / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / name
    show = f'printf "started {name}"; printf " <%s>" "$@"; printf "\\n"; pwd'
    program.write_text(f"#!/bin/sh\n{show}\n")
    program.chmod(0o755)
    return f"{folder}:{machine.env['PATH']}"


def claude_session(machine: Machine, cwd: Path, session_id: str = CLAUDE) -> Path:
    folder = machine.home / ".claude" / "projects" / "-a-project"
    folder.mkdir(parents=True, exist_ok=True)
    base = {"sessionId": session_id, "cwd": str(cwd), "version": "2.1.0"}
    stamp = "2026-02-16T10:00:0{}.000Z"
    records = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "timestamp": stamp.format(1)}
        | {"message": {"role": "user", "content": "Fix the cart"}, **base},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "timestamp": stamp.format(2)}
        | {
            "message": {
                "role": "assistant",
                "id": "m1",
                "model": "claude-opus-5",
                "content": [{"type": "text", "text": "Fixed."}],
            },
            **base,
        },
    ]
    path = folder / f"{session_id}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def pi_session(machine: Machine) -> Path:
    project = str(machine.project)
    folder = machine.home / ".pi" / "agent" / "sessions" / f"--{project[1:].replace('/', '-')}--"
    return machine.session(A, "hello", "hi", folder=folder)


def test_a_session_of_claude_code_opens_in_it_in_its_project(machine: Machine) -> None:
    elsewhere = machine.root / "it's elsewhere"
    elsewhere.mkdir()
    claude_session(machine, elsewhere)
    result = machine.on_terminal("open", CLAUDE[:8], columns=300, PATH=install(machine, "claude"))
    shell = shlex.join(["cd", str(elsewhere)]) + f" && claude --resume {CLAUDE}"
    assert result.code == 0
    assert result.lines[-2:] == [f"started claude <--resume> <{CLAUDE}>", str(elsewhere)]
    assert "Opening in Claude Code: " in result.out
    assert shell in result.out


def test_a_session_of_pi_opens_in_pi_though_another_profile_is_the_default(
    machine: Machine,
) -> None:
    path = pi_session(machine)
    result = machine.on_terminal("open", A[:8], columns=300, PATH=install(machine, "pi"))
    assert result.lines[-2:] == [f"started pi <--session> <{path}>", str(machine.project)]
    assert "Opening in pi: " in result.out


def test_the_command_is_printed_for_a_shell_or_a_program(machine: Machine) -> None:
    path = claude_session(machine, machine.project)
    shell = f"cd {machine.project} && claude --resume {CLAUDE}"
    assert machine.run("open", CLAUDE, "--print").lines == [shell]
    assert machine.run("open", CLAUDE, "--json").json == {
        "agent": "claude-code",
        "id": CLAUDE,
        "path": str(path),
        "cwd": str(machine.project),
        "command": ["claude", "--resume", CLAUDE],
        "shell": shell,
        "installed": False,
    }
    in_pipe = machine.run("open", CLAUDE, PATH=install(machine, "claude"))
    assert (in_pipe.code, in_pipe.out) == (1, "")
    assert in_pipe.err == f"Claude Code needs a terminal. The command is: {shell}\n"


def test_an_agent_that_is_not_installed_is_named_with_the_way_on(machine: Machine) -> None:
    claude_session(machine, machine.project)
    asked = machine.on_terminal("open", CLAUDE, replies=[("[y/N]", "n\r")], columns=200)
    assert asked.code == 1
    assert "Claude Code is not installed: no claude in PATH." in asked.out
    assert f"To continue it in Sessiontree: sessiontree open {CLAUDE} --here" in asked.out


def test_a_session_without_its_project_and_a_hostile_one_start_nothing(machine: Machine) -> None:
    path_there = install(machine, "claude")
    claude_session(machine, machine.root / "gone")
    gone = machine.on_terminal("open", CLAUDE, columns=300, PATH=path_there)
    assert gone.code == 1
    assert "no longer exists" in gone.out
    path = claude_session(machine, machine.project, "--dangerously-skip-permissions")
    hostile = machine.on_terminal("open", str(path), columns=300, PATH=path_there)
    assert hostile.code == 1
    assert "started" not in hostile.out
    assert "option" in hostile.out


def test_nothing_of_the_project_runs_when_a_session_is_continued_here(machine: Machine) -> None:
    elsewhere = machine.root / "elsewhere"
    elsewhere.mkdir()
    for name in ("sessiontree.py", "json.py", "sqlite3.py"):
        (elsewhere / name).write_text("open('was here', 'w')")
    claude_session(machine, elsewhere)
    shown = machine.on_terminal("open", CLAUDE, "--here", replies=[("Fixed.", "\x04")], columns=100)
    assert "Fix the cart" in shown.out
    assert not (elsewhere / "was here").exists()


@pytest.mark.parametrize("flag", ["--print", "--json"])
def test_nothing_of_that_id(machine: Machine, flag: str) -> None:
    assert machine.run("open", "ffff", flag).err == 'Session "ffff" not found.\n'
