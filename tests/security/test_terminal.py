"""Nothing that a session, a path or a model says controls a terminal, a shell or a browser."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Result, assistant, user
from tests.samples import chain, header, write
from tests.samples import user as prompt

from sessiontree import HistoryStorage
from sessiontree.text.escaping import HAZARDS, one_line

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x08\u202etxt.exe\u2066\x00\x7f end"
ANY_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
OUR_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def assert_harmless(result: Result) -> None:
    shown = OUR_COLOURS.sub("", result.out + result.err)
    assert not ANY_ESCAPE.search(shown), repr(ANY_ESCAPE.findall(shown))
    assert not [c for c in shown if unicodedata.category(c) == "Cs"]


COMMANDS = [
    ("ls",),
    ("ls", "--json"),
    ("ls", "--all"),
    ("show",),
    ("show", "--full"),
    ("show", "--json"),
    ("tree", "--all"),
    ("tree", "--json"),
    ("search", "needle", "--tools"),
    ("search", "needle", "--json"),
    ("usage", "--all", "--by", "model"),
    ("doctor", "--verbose", "--secrets"),
    ("doctor", "--json"),
]


@pytest.fixture
def hostile_session(machine: Machine) -> Path:
    """A session in which everything that anybody could have chosen is hostile."""
    said = f"needle {HOSTILE}"
    call = {"type": "toolCall", "id": HOSTILE, "name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}
    result = {
        "message": {
            "role": "toolResult",
            "toolCallId": HOSTILE,
            "toolName": HOSTILE,
            "content": [{"type": "text", "text": said}],
            "isError": True,
            "timestamp": 1,
        }
    }
    entries = [
        user(said),
        assistant(said, call, model=HOSTILE, provider=HOSTILE),
        result,
        {"type": "label", "targetId": "00000001", "label": HOSTILE},
        {"type": "compaction", "summary": said, "firstKeptEntryId": "x", "tokensBefore": 1},
        {"type": "branch_summary", "fromId": HOSTILE, "summary": said},
        {"type": "custom_message", "customType": HOSTILE, "content": said, "display": True},
        {"type": HOSTILE, "id": f"x{HOSTILE}", "parentId": HOSTILE},
    ]
    return machine.session("0199a3f2", title=HOSTILE, entries=entries)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_escape_sequence_of_a_session_reaches_a_terminal(
    machine: Machine, hostile_session: Path, command: tuple[str, ...]
) -> None:
    for result in (machine.run(*command), machine.on_terminal(*command)):
        assert "0199a3f2" in result.out or "needle" in result.out or "owned" in result.out
        assert_harmless(result)


def test_no_escape_sequence_of_what_was_removed_reaches_a_terminal(
    machine: Machine, hostile_session: Path
) -> None:
    assert_harmless(machine.on_terminal("rm", "0199a3f2"))
    for result in (machine.on_terminal("restore", "--list"), machine.run("restore", "--list")):
        assert "0199a3f2" in result.out
        assert_harmless(result)
    assert_harmless(machine.on_terminal("restore"))
    assert hostile_session.exists()


def test_no_escape_sequence_of_a_prompt_reaches_a_terminal(machine: Machine) -> None:
    with HistoryStorage(machine.agent_dir / "history.db") as history:
        history.add(HOSTILE)
    for result in (machine.on_terminal("history"), machine.run("history", "--json")):
        assert "owned" in result.out
        assert_harmless(result)


def test_no_escape_sequence_of_another_agents_session_reaches_a_terminal(machine: Machine) -> None:
    said = {"role": "user", "content": f"needle {HOSTILE}"}
    record = {
        "type": "user",
        "sessionId": "5f2c81d0",
        "uuid": HOSTILE,
        "cwd": f"/{HOSTILE}",
        "timestamp": "2026-02-16T10:20:30.000Z",
        "message": said,
    }
    path = write(machine.home / ".claude/projects/p/5f2c81d0.jsonl", record)
    for command in (
        ("ls", "--all-agents"),
        ("search", "needle", "--all-agents"),
        ("show", str(path)),
        ("import", str(path)),
    ):
        result = machine.on_terminal(*command)
        assert "5f2c81d0" in result.out or "needle" in result.out
        assert_harmless(result)


def test_an_export_on_a_terminal_is_harmless_and_in_a_file_exact(
    machine: Machine, hostile_session: Path
) -> None:
    assert_harmless(machine.on_terminal("export"))
    machine.run("export", "-o", "session.json")
    assert json.loads((machine.project / "session.json").read_text())["name"] == HOSTILE


@pytest.mark.parametrize("on_terminal", [False, True])
def test_no_escape_sequence_of_a_path_or_name_reaches_a_terminal(
    machine: Machine, on_terminal: bool
) -> None:
    name = "\x1b]0;owned\x07 \u202egnp"
    folder = machine.root / f"folder {name}"
    write(folder / "s.jsonl", header(cwd=f"/gone/{name}", parentSession=name), *chain(prompt("x")))
    write(folder / f"{name}.jsonl", header(cwd=f"/gone/{name}", title=name), *chain(prompt("x")))
    (folder / f"broken {name}.jsonl").write_bytes(b"no header\n")
    run: Callable[..., Result] = machine.on_terminal if on_terminal else machine.run
    for command in (
        ("ls", "--session-dir", str(folder)),
        ("doctor", "--verbose", "--session-dir", str(folder)),
        ("show", f"{folder}/{name}.jsonl"),
        ("show", f"{folder}/missing {name}.jsonl"),
        ("import", f"{folder}/{name}.zip"),
        ("--resume", name),
        ("rm", name),
    ):
        assert_harmless(run(*command))


@pytest.mark.parametrize("command", [("ls", "--json"), ("show", "--json"), ("tree", "--json")])
def test_json_says_exactly_what_the_session_says(
    machine: Machine, hostile_session: Path, command: tuple[str, ...]
) -> None:
    found = machine.run(*command)
    assert_harmless(found)
    assert HOSTILE in _strings(found.json)


def _strings(value: object) -> list[str]:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else []


HOSTILE_ID = "0199$(touch owned);`touch owned`\ntouch owned"


def test_a_shell_is_offered_no_id_that_it_would_run(machine: Machine) -> None:
    """What is completed stands in the command line as it is, and one id must not become two."""
    machine.session("0199a3f2", "hello", "hi")
    folder = machine.session(HOSTILE_ID, "hello", "hi").parent
    (folder / "2026-02-16T10-20-30-000Z_-rf.jsonl").write_text("x")
    offered = machine.run(
        _SESSIONTREE_COMPLETE="bash_complete", COMP_WORDS="sessiontree show ", COMP_CWORD="2"
    )
    assert offered.lines == ["plain,0199a3f2"]


def test_a_command_that_is_suggested_can_be_pasted_into_a_shell(machine: Machine) -> None:
    machine.session("x", "hello", "hi", folder=machine.project, header={"id": HOSTILE_ID})
    machine.run("export", f"{machine.project}/2026-02-16T10-20-30-000Z_x.jsonl", "-o", "b.zip")
    said = machine.run("import", "b.zip", SESSIONTREE_AGENT_DIR=str(machine.root / "other"))
    shown = said.out + said.err
    (command,) = re.findall(r"Resume with: (.*)", shown)
    assert shlex.split(command)[:2] == ["sessiontree", "--resume"]
    subprocess.run(["sh", "-c", f"sessiontree() {{ :; }}; {command}"], cwd=machine.home, check=True)
    assert os.listdir(machine.home) == []


def test_what_a_model_prints_is_harmless_while_it_streams(machine: Machine) -> None:
    (machine.project / "evil.txt").write_text(HOSTILE.replace("\0", "") + "\n\x1b[31mred\n")
    result = machine.on_terminal("-p", "read evil.txt", "--model", "offline")
    assert "red" in result.out
    assert_harmless(result)


def test_nothing_that_a_look_for_printable_text_lets_through_is_a_hazard() -> None:
    """``one_line`` gives printable text back unread."""
    printable = "".join(filter(str.isprintable, map(chr, range(sys.maxunicode + 1))))
    assert HAZARDS.search(printable) is None
    assert one_line(printable) == printable
    assert one_line("a\tb\u202ec") != "a\tb\u202ec"
