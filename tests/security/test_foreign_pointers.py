"""What a session says of its project and its parent is text; nothing is opened for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.conftest import Machine
from tests.samples import assistant as answer
from tests.samples import chain, header, write
from tests.samples import user as prompt

from sessiontree import SessionManager, get_recent_sessions
from sessiontree.discovery.listing import list_sessions
from sessiontree.profiles import Profile


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_session_that_names_another_project_is_not_worked_on_there_unasked(
    machine: Machine, is_damaged: bool
) -> None:
    """A file from elsewhere says that its project is where the keys are."""
    keys = machine.home / ".ssh"
    keys.mkdir()
    (keys / "id_rsa").write_text("the private key")
    evil = machine.session("0199a3f2", "hello", "hi", folder=machine.project, cwd=keys)
    if is_damaged:
        evil.write_bytes(b"\xff\n" + evil.read_bytes().replace(b'"type": "session", ', b"", 1))
    result = machine.run("--resume", str(evil), "-p", "read id_rsa", "--model", "offline")
    assert f"tools work here, not in {keys}" in result.err
    assert "the private key" not in result.out + result.err
    assert b"the private key" not in evil.read_bytes()
    assert b"read id_rsa" in evil.read_bytes()


def test_a_session_that_names_this_project_is_worked_on_wherever_it_lies(machine: Machine) -> None:
    (machine.project / "notes.txt").write_text("the notes")
    given = machine.session("0199a3f2", "hello", "hi", folder=machine.home)
    result = machine.run("--resume", str(given), "-p", "read notes.txt", "--model", "offline")
    assert "the notes" in result.out


def test_a_parent_session_is_a_word_and_is_never_opened(profile: Profile, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    folder = Path(profile.sessions_dir) / "--p--"
    path = write(
        folder / "s.jsonl", header(parentSession=str(pipe)), *chain(prompt("1"), answer("2"))
    )
    assert list_sessions("/p", folder)[0].parent_session == str(pipe)
    with SessionManager.open(path) as session:
        session.append_message(prompt("more"))
    assert get_recent_sessions(folder)[0].path == str(path)
