"""``sessiontree hooks``, and hooks of the shipped program, as a user has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Machine

OFFLINE = ("--model", "offline")
HOOKS = """\
import sys
from sessiontree.runtime import events

def session_start(event):
    print("hook: start", file=sys.stderr)

def listen(event):
    if isinstance(event, events.AgentEnd):
        print("hook: end", file=sys.stderr)
"""


@pytest.fixture
def own(machine: Machine) -> Path:
    path = machine.home / ".config" / "sessiontree" / "hooks.py"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def project_hooks(machine: Machine) -> Path:
    path = machine.project / ".sessiontree" / "hooks.py"
    path.parent.mkdir()
    path.write_text(HOOKS)
    return path


def test_the_user_s_hooks_run_with_p(machine: Machine, own: Path) -> None:
    own.write_text(HOOKS)
    done = machine.run("-p", "hello", *OFFLINE)
    assert (done.code, done.err.splitlines()) == (0, ["hook: start", "hook: end"])
    machine.run("config", "set", "hooks", "false")
    assert machine.run("-p", "hello", *OFFLINE).err == ""


def test_a_failing_hook_is_one_line_and_the_answer_comes(machine: Machine, own: Path) -> None:
    own.write_text("def session_start(event): raise ValueError('boom')\n")
    done = machine.run("-p", "hello", *OFFLINE)
    assert done.code == 0
    assert "offline agent" in done.out
    (line,) = done.err.splitlines()
    assert line.endswith("session_start failed: ValueError: boom")


def test_a_project_s_hooks_run_after_they_were_trusted_only(
    machine: Machine, project_hooks: Path
) -> None:
    done = machine.run("-p", "hello", *OFFLINE)
    assert "hook:" not in done.err
    assert "does not run until you trust it: sessiontree hooks trust" in done.err
    (row,) = machine.run("hooks", "--json").json
    assert (row["from"], row["state"]) == ("project", "not trusted")

    unasked = machine.run("hooks", "trust")
    assert (unasked.code, unasked.out) == (1, "")
    assert "add --yes" in unasked.err
    assert machine.run("hooks", "trust", "--yes").code == 0
    assert machine.run("-p", "hello", *OFFLINE).err.splitlines() == ["hook: start", "hook: end"]

    with project_hooks.open("a") as file:
        file.write("\n")
    assert "has changed since you trusted it" in machine.run("-p", "hello", *OFFLINE).err
    assert machine.run("hooks", "untrust").code == 0
    assert machine.run("hooks", "untrust").code == 1


def test_trusting_shows_the_whole_file_and_asks(machine: Machine, project_hooks: Path) -> None:
    project_hooks.write_text("x = 1  # \u202ehidden\n")
    no = machine.on_terminal("hooks", "trust", replies=[("[y/N]", "n\n")])
    assert no.code == 1
    assert "x = 1  # \\u202ehidden" in no.out
    (row,) = machine.run("hooks", "--json").json
    assert row["state"] == "not trusted"
    assert machine.on_terminal("hooks", "trust", replies=[("[y/N]", "y\n")]).code == 0
    (row,) = machine.run("hooks", "--json").json
    assert row["state"] == "runs"


def test_trust_is_asked_for_only_after_the_last_line_was_shown(
    machine: Machine, project_hooks: Path
) -> None:
    project_hooks.write_text("".join(f"line = {number}\n" for number in range(1, 61)))
    # as a person does, who reads first: what is typed before a page is drawn does not count
    no = machine.on_terminal("hooks", "trust", replies=[("40 more lines", ""), ("", "n")])
    assert no.code == 1
    assert "line = 60" not in no.out
    pages = [("40 more lines", ""), ("", " "), ("20 more lines", ""), ("", " ")]
    pages += [("[y/N]", ""), ("", "y\n")]
    yes = machine.on_terminal("hooks", "trust", replies=pages)
    assert yes.code == 0
    assert "line = 60" in yes.out


def test_what_is_typed_before_the_question_trusts_nothing(
    machine: Machine, project_hooks: Path
) -> None:
    replies = [("hooks.py", "y\n"), ("[y/N]", "\n")]
    assert machine.on_terminal("hooks", "trust", replies=replies).code == 1
    (row,) = machine.run("hooks", "--json").json
    assert row["state"] == "not trusted"


def test_the_example_of_the_guide_loads(machine: Machine, own: Path) -> None:
    guide = Path(__file__).parents[2] / "docs" / "hooks.md"
    own.write_text(guide.read_text().partition("```python\n")[2].partition("```")[0])
    own.write_text(own.read_text().replace("subprocess.Popen([", "print(["))
    done = machine.run("-p", "hello", *OFFLINE)
    assert (done.code, done.err) == (0, "")
    assert "['notify-send', 'The agent is done']" in done.out


def test_without_hooks_the_command_says_where_they_would_be(machine: Machine) -> None:
    done = machine.run("hooks")
    assert done.code == 0
    assert "No hooks found" in done.out
    assert "~/.config/sessiontree/hooks.py (not there yet)" in done.out + done.err
