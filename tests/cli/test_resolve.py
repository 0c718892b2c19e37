"""An id that this profile does not have, but another agent does: it is read, or pointed at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.agent_samples import claude_prompt, put_claude

from .conftest import Machine

A, B = "0199a3f2c0de1234", "0199a3f3c0de5678"
CLAUDE = "5f2c81d0-1111-4222-8333-444455556666"


def _of(machine: Machine, agent: str) -> Path:
    return machine.home / f".{agent}" / "agent" / "sessions" / "--elsewhere--"


def _claude(machine: Machine, session_id: str = CLAUDE) -> None:
    folder = machine.home / ".claude" / "projects" / "-elsewhere"
    folder.mkdir(parents=True, exist_ok=True)
    prompt = {
        "type": "user",
        "uuid": "11111111-1111-4111-8111-111111111111",
        "parentUuid": None,
        "sessionId": session_id,
        "cwd": str(machine.project),
        "timestamp": "2026-02-16T10:20:30.000Z",
        "message": {"role": "user", "content": "from another program"},
    }
    (folder / f"{session_id}.jsonl").write_text(json.dumps(prompt) + "\n")


@pytest.mark.parametrize("agent", ["pi", "omp", "prime"])
def test_a_session_of_another_profile_is_read_where_a_search_finds_it(
    machine: Machine, agent: str
) -> None:
    flat = machine.home / ".prime" / "agent" / "sessions"
    path = machine.session(
        A, "hello", "hi", folder=flat if agent == "prime" else _of(machine, agent)
    )
    before = path.read_bytes()
    profile = "prime-agent" if agent == "prime" else agent
    (hit,) = machine.run("search", "hello", "--json").json
    assert (hit["id"], hit["agent"]) == (A, profile)
    assert "hello" in machine.run("show", A[:9]).out
    assert "hello" in machine.run("tree", A[:9]).out
    assert machine.run("usage", A[:9]).code == 0
    assert machine.run("export", A[:9], "-o", "talk.md").code == 0
    assert machine.run("open", A[:9], "--json").json["agent"] == profile
    converted = machine.run("convert", A[:9], "--to", "sessiontree")
    assert converted.code == 0, converted.err
    assert path.read_bytes() == before


def test_a_word_of_another_agents_name_leads_to_the_search(machine: Machine) -> None:
    summary = {"type": "summary", "summary": "Login fails", "leafUuid": "u1"}
    put_claude(machine.home, "0b6a8a52-1111-4222-8333-444455556666", claude_prompt("Why?"), summary)
    assert machine.run("ls", "--all-agents", "--json").json[0]["title"] == "Login fails"
    told = 'Session "login" not found. 1 name contains it: sessiontree search login\n'
    assert machine.run("show", "login").err == told


def test_a_profile_that_is_named_is_the_only_one_looked_in(machine: Machine) -> None:
    machine.session(A, "hello", "hi", folder=_of(machine, "pi"))
    result = machine.run("show", A[:9], "--profile", "omp")
    assert result.err == f'Session "{A[:9]}" not found. pi has it: use --profile pi\n'


def test_a_session_that_needs_no_import_is_pointed_at(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi", folder=_of(machine, "pi"))
    result = machine.run("import", A[:9])
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f'"{A[:9]}" is a session of pi and needs no import. Continue it with sessiontree '
        f"--profile pi --resume {A}, or in pi with sessiontree open {A}\n"
    )
    assert machine.run("import", A[:9], "--from", "codex").err == (
        f'Session "{A[:9]}" not found.\n'
    )
    path.unlink()
    machine.session(A, "hello", "hi")
    assert machine.run("import", A).err == (
        f'"{A}" is a session of sessiontree and needs no import. Continue it with sessiontree '
        f"--resume {A}\n"
    )


@pytest.mark.parametrize("command", [("rm",), ("rename", "x"), ("-r",), ("--fork",)])
def test_a_session_of_another_profile_is_pointed_at_where_it_would_be_changed(
    machine: Machine, command: tuple[str, ...]
) -> None:
    machine.session(A, "hello", "hi", folder=_of(machine, "pi"))
    result = machine.run(*command[:1], A[:9], *command[1:])
    assert (result.code, result.out) == (1, "")
    assert result.err == f'Session "{A[:9]}" not found. pi has it: use --profile pi\n'
    assert machine.run("show", A[:9], "--profile", "pi").code == 0


def test_the_own_profile_is_pointed_at_from_another(machine: Machine) -> None:
    machine.session(A, "hello", "hi", title="Mine")
    result = machine.run("show", "Mine", "--profile", "pi")
    assert result.err == 'Session "Mine" not found. sessiontree has it: use --profile sessiontree\n'


def test_a_session_of_claude_code_is_pointed_at_where_it_can_not_be_opened(
    machine: Machine,
) -> None:
    _claude(machine)
    assert "from another program" in machine.run("show", "5f2c81d0").out
    result = machine.run("-r", "5f2c81d0")
    assert result.code == 1
    assert result.err == (
        'Session "5f2c81d0" not found. Claude Code has it: sessiontree import 5f2c81d0\n'
    )
    assert machine.run("import", "5f2c81d0").code == 0


def test_of_several_none_is_pointed_at(machine: Machine) -> None:
    machine.session(A, "hello", "hi", folder=_of(machine, "pi"))
    machine.session(B, "hello", "hi", folder=_of(machine, "omp"))
    plain = 'Session "0199a3" not found.\n'
    assert machine.run("-r", "0199a3").err == plain
    several = machine.run("show", "0199a3")
    assert several.code == 2
    assert several.err.startswith('Session "0199a3" is ambiguous: 2 sessions match.\n')
    assert A in several.err
    assert B in several.err
    machine.session(B, "hello", "hi", folder=_of(machine, "pi"))
    assert machine.run("-r", "0199a3").err == plain
    _claude(machine)
    _claude(machine, "5f2c81d1-1111-4222-8333-444455556666")
    assert machine.run("-r", "5f2c81d").err == 'Session "5f2c81d" not found.\n'


def test_a_path_is_told_without_detours(machine: Machine) -> None:
    readme = machine.project / "README.md"
    readme.write_text("# mine\n")
    for command in ("show", "rm", "export", "--fork"):
        result = machine.run(command, "./../project/./README.md")
        assert result.code == 1
        assert result.err == f"{readme}: not a session file; the file was not modified\n"
    assert machine.run("rm", "./gone.jsonl").err == 'Session "./gone.jsonl" not found.\n'
