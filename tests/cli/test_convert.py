"""``convert``: into another agent's format, and where that agent finds it."""

from __future__ import annotations

from pathlib import Path

from .conftest import Machine
from .test_open import CLAUDE, claude_session

A = "0199a3f2-0000-7000-8000-00000000000a"


def test_for_claude_code_and_codex(machine: Machine) -> None:
    machine.session(A, "hello", "a marmot")
    for target, command in (("claude-code", "claude --resume"), ("codex", "codex resume")):
        result = machine.run("convert", A, "--to", target)
        assert result.code == 0
        session_id = result.out.splitlines()[0].rpartition(" ")[2]
        assert f"cd {machine.project} && {command} {session_id}" in result.out
        assert machine.run("open", session_id, "--print").out.split("&& ")[1].startswith(command)
        assert "a marmot" in machine.run("show", session_id).out


def test_from_another_agent(machine: Machine) -> None:
    source = claude_session(machine, machine.project)
    before = source.read_bytes()
    for target in ("codex", "pi"):
        result = machine.run("convert", CLAUDE, "--to", target)
        assert result.code == 0, result.err
        path = Path(result.out.splitlines()[1].strip().replace("~", str(machine.home), 1))
        assert "Fix the cart" in path.read_text()
    assert source.read_bytes() == before
    same = machine.run("convert", CLAUDE, "--to", "claude-code")
    assert (same.code, "already" in same.err) == (1, True)
