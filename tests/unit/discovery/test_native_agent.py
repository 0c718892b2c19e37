"""Commands that open sessions in their own agents, also for hostile ids and folders."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from sessiontree.discovery.native_agent import NoNativeCommandError, native_command


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("claude-code", ["claude", "--resume", "abc-1"]),
        ("codex", ["codex", "resume", "abc-1"]),
        ("pi", ["pi", "--session", "/s/abc.jsonl"]),
        ("omp", ["omp", "--resume", "/s/abc.jsonl"]),
        ("xcsh", ["xcsh", "--resume", "/s/abc.jsonl"]),
        ("sessiontree", ["sessiontree", "--resume", "/s/abc.jsonl"]),
    ],
)
def test_each_agent_has_its_own_words(agent: str, words: list[str], tmp_path: Path) -> None:
    command = native_command(agent, "/s/abc.jsonl", "abc-1", str(tmp_path))
    assert list(command.argv) == words
    assert command.cwd == str(tmp_path)
    assert shlex.split(command.shell) == ["cd", str(tmp_path), "&&", *words]


def test_a_hostile_id_or_folder_stays_one_argument_in_a_shell(tmp_path: Path) -> None:
    folder = tmp_path / "a; touch hacked; '"
    folder.mkdir()
    hostile = "x'; touch hacked; $(touch hacked) `touch hacked` #"
    command = native_command("claude-code", "/s/a.jsonl", hostile, str(folder))
    printed = command.shell.replace("claude", "printf %s\\\\n", 1)
    ended = subprocess.run(
        ["sh", "-c", printed], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ended.stdout == f"--resume\n{hostile}\n"
    assert not list(tmp_path.rglob("hacked"))


@pytest.mark.parametrize("session_id", ["--dangerously-skip-permissions", "-p", "a\nb", "a\x1b[2J"])
def test_an_id_that_would_be_an_option_or_a_line_is_refused(session_id: str) -> None:
    with pytest.raises(NoNativeCommandError):
        native_command("claude-code", "/s/a.jsonl", session_id, None)
    with pytest.raises(NoNativeCommandError):
        native_command("codex", "/s/a.jsonl", session_id, None)


def test_a_project_that_is_gone_and_a_subagents_transcript_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoNativeCommandError, match="no longer exists"):
        native_command("codex", "/s/a.jsonl", "abc", str(tmp_path / "gone"))
    with pytest.raises(NoNativeCommandError, match="can't open"):
        native_command("claude-code", "/p/agent-12.jsonl", "abc", None)


def test_the_program_is_looked_up_in_path_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")
    command = native_command("codex", "/s/a.jsonl", "abc", None)
    assert command.arguments() == [str(program), "resume", "abc"]
    monkeypatch.setenv("PATH", os.devnull)
    assert command.program is None
    with pytest.raises(NoNativeCommandError, match="Codex is not installed: no codex in PATH"):
        command.arguments()
