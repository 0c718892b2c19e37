"""A database that another program holds costs a moment, and at most one line of complaint."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent_kinds import make_opencode

from .conftest import Machine

OFFLINE = ("--model", "offline")
# What a loaded machine takes for a command; the waits were 5 to 17 s.
SLACK_S = 3.5
USERS = {
    "catalogue-*.sqlite3": [("ls", "--all-agents"), ("search", "needle"), ("-p", "hi", *OFFLINE)],
    "search-*.sqlite3": [("search", "needle"), ("search", "needle", "--tools"), ("keep",)],
    "kept-*.sqlite3": [("keep",), ("keep", "--status"), ("ls", "--all-agents")],
    "history.db": [("history",), ("history", "needle"), ("doctor",), ("-p", "hi", *OFFLINE)],
    "opencode.db": [("ls", "--all-agents"), ("search", "needle"), ("keep",)],
}


@contextmanager
def held(path: Path, how: str) -> Iterator[None]:
    """Another program writes to the database, or keeps everybody out."""
    holder = sqlite3.connect(path, isolation_level=None)
    if how == "alone":
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE" if how == "alone" else "BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


@pytest.fixture
def used(machine: Machine) -> Machine:
    """A machine on which each of our databases exists, and another agent's."""
    machine.session("0199a3f2c0de1234", "needle", "yes", age_s=60)
    make_opencode(machine.home)
    assert machine.run("-p", "needle", *OFFLINE).code == 0
    assert machine.run("search", "needle").code == 0
    assert machine.run("keep").code == 0
    return machine


@pytest.mark.parametrize("how", ["writing", "alone"])
@pytest.mark.parametrize("name", USERS)
def test_each_command_answers_within_a_moment(used: Machine, name: str, how: str) -> None:
    (path,) = used.root.rglob(name)
    used.session("0199b000c0de5678", "another needle", "yes", age_s=60)  # something to note
    with held(path, how):
        for command in USERS[name]:
            began = time.monotonic()
            result = used.run(*command)
            assert time.monotonic() - began < SLACK_S, command
            assert "Internal error" not in result.err
            if result.code != 0:
                # the history is the only one that cannot be done without, by who asks for it
                assert (name, command[0], how) == ("history.db", "history", "alone")
                assert result.err.splitlines() == [
                    f"{path}: prompt history: in use by another program"
                ]


def test_what_is_kept_while_the_index_is_held_is_kept(used: Machine) -> None:
    path = used.session("0199b000c0de5678", "another needle", "yes", age_s=60)
    (index,) = used.root.rglob("kept-*.sqlite3")
    with held(index, "writing"):
        assert used.run("keep").lines[0].startswith("Kept 1 new of ")
        assert used.run("keep").lines[0].startswith("Nothing new: ")
        path.unlink()
        assert "another needle" in used.run("show", "0199b000c0de5678").out
    assert used.run("keep").lines[0].startswith("Nothing new: ")
    assert "another needle" in used.run("show", "0199b000c0de5678").out


def test_the_doctor_says_what_it_could_not_look_into(used: Machine) -> None:
    (history,) = used.root.rglob("history.db")
    with held(history, "alone"):
        result = used.run("doctor")
    assert result.code == 0
    assert "in use by another program" in result.out
