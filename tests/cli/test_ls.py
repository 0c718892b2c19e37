"""``ls``: order, columns, what is left out, and that nothing in a session can harm a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner
from tests.agent_samples import claude_prompt, put_claude

from sessiontree.cli.commands.ls import ls_command
from sessiontree.discovery import listing
from sessiontree.discovery.catalogue import Survey, survey
from sessiontree.storage.base import FileStat

from .conftest import Machine

A, B, C = "0199a3f2c0de1234", "0199b000c0de5678", "0199c111c0de9abc"
EVIL = "\x1b]0;owned\x07\x1b[2J\u202etitle\nline two\x9b31m"


def test_sessions_are_listed_newest_first(machine: Machine) -> None:
    machine.session(A, "the oldest", "yes", title="Old one", age_s=7200)
    machine.session(B, "the newest", "yes", age_s=0)
    machine.session(C, "between", "yes", "more", "yes", age_s=300)
    result = machine.run("ls")
    assert (result.code, result.err) == (0, "")
    assert [line.split(None, 1)[0] for line in result.lines] == [B, C, A]
    assert result.lines == [
        f"{B}  just now  2  the newest",
        f"{C}  5m ago  4  between",
        f"{A}  2h ago  2  Old one",
    ]


def test_an_empty_project_says_so_and_what_to_try(machine: Machine) -> None:
    result = machine.run("ls")
    assert (result.code, result.out) == (0, "No sessions found\n")
    assert result.err == "sessiontree demo adds sample sessions\n"


def test_nobody_with_sessions_of_other_agents_is_sent_to_the_samples(machine: Machine) -> None:
    put_claude(machine.home, "0b6a8a52-1111-4222-8333-444455556666", claude_prompt("Why?"))
    result = machine.run("ls")
    assert result.out == "No sessions found\n"
    assert result.err == "Found: 1 of Claude Code (--all-agents lists them)\n"


def test_a_path_that_is_too_long_keeps_its_end(machine: Machine) -> None:
    cwd = machine.root / "a-folder-with-a-long-name" / "and-another-one" / "shop"
    machine.session(A, "a long first prompt " * 9, "hi", cwd=cwd)
    machine.session(B, "another shop", "hi", cwd=machine.root / "shop", age_s=60)
    for command in (["ls", "--all"], ["search", "prompt"]):
        lines = machine.on_terminal(*command, NO_COLOR="1").lines
        assert any("another-one/shop" in line for line in lines), lines
        assert not any("a-folder-with-a-long-name/" in line for line in lines[:2])


def test_a_listing_ends_with_what_it_left_out(machine: Machine) -> None:
    for number in range(4):
        machine.session(f"0199a3f2c0de000{number}", "hello", "hi", age_s=number)
    machine.session(B, "elsewhere", "hi", cwd=machine.home)
    machine.session(C)
    damaged = machine.session("0199dddd", "x")
    damaged.write_text("no session at all\n")
    result = machine.run("ls", "-n", "3")
    assert len(result.lines) == 3
    assert result.err == (
        "1 older (-n 0 shows all) · 1 without messages (--empty)"
        " · 1 in other projects (--all) · 1 unreadable file (sessiontree doctor)\n"
    )
    assert len(machine.run("ls", "-n", "0").lines) == 4
    assert C in machine.run("ls", "--empty").out


def test_other_projects_are_listed_with_their_folder(machine: Machine) -> None:
    machine.session(A, "here", "hi", age_s=60)
    machine.session(B, "there", "hi", cwd=machine.home / "src")
    result = machine.run("ls", "--all")
    assert result.lines == [
        f"{B}  just now  2  there  ~/src",
        f"{A}  1m ago  2  here  {machine.project}",
    ]


def test_in_a_folder_of_ones_own_those_of_other_projects_say_so(machine: Machine) -> None:
    folder = machine.root / "shared"
    machine.session(A, "here", "hi", folder=folder, age_s=60)
    assert machine.run("ls", "--session-dir", str(folder)).lines == [f"{A}  1m ago  2  here"]
    machine.session(B, "there", "hi", folder=folder, cwd=machine.home / "src")
    assert machine.run("ls", "--session-dir", str(folder)).lines == [
        f"{B}  just now  2  there  ~/src",
        f"{A}  1m ago  2  here  {machine.project}",
    ]


def test_projects_that_share_a_folder_name_are_told_apart(machine: Machine) -> None:
    # /x/a-b/c and /x/a/b-c are encoded alike
    one, other = machine.root / "a-b" / "c", machine.root / "a" / "b-c"
    for folder in (one, other):
        folder.mkdir(parents=True)
    machine.session(A, "one", "hi", cwd=one)
    machine.session(B, "other", "hi", cwd=other)
    assert A in machine.run("ls", cwd=one).out
    assert B not in machine.run("ls", cwd=one).out


def test_json_has_all_that_is_known(machine: Machine) -> None:
    path = machine.session(A, "first prompt", "hi", title="Named", header={"parentSession": "p"})
    result = machine.run("ls", "--json")
    (found,) = result.json
    assert found | {"modified": None} == {
        "id": A,
        "path": str(path),
        "agent": None,
        "cwd": str(machine.project),
        "title": "Named",
        "firstMessage": "first prompt",
        "parentSession": "p",
        "created": "2026-02-16T10:20:30.000Z",
        "modified": None,
        "messageCount": 2,
        "size": path.stat().st_size,
        "status": "complete",
        "kept": False,
        "copyOf": None,
    }
    assert machine.run("ls", "--json", cwd=machine.home).json == []


def test_how_a_session_ended_is_shown_where_it_matters(machine: Machine) -> None:
    machine.session(A, "unanswered", "hi", "and now?")
    machine.session(B, "fine", "hi", age_s=60)
    result = machine.run("ls")
    assert result.lines[0].endswith("unanswered  interrupted")
    assert result.lines[1].endswith("fine")


@pytest.mark.parametrize("args", [["ls"], ["ls", "--json"], ["ls", "--all"]])
def test_nothing_in_a_session_reaches_the_output_as_a_control(
    machine: Machine, args: list[str]
) -> None:
    machine.session(A, EVIL, "hi", title=EVIL)
    machine.session(B, EVIL, "hi")
    for result in (machine.run(*args), machine.on_terminal(*args, NO_COLOR="1")):
        assert result.code == 0
        assert not [c for c in result.out if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]
        assert "\u202e" not in result.out
    if "--json" in args:
        assert EVIL in [found["title"] for found in machine.run(*args).json]


def test_on_a_terminal_lines_fit_and_ids_are_short_but_unique(machine: Machine) -> None:
    machine.session(A, "a very long first prompt " * 10, "hi")
    machine.session("0199a3f2c0de1299", "漢字" * 60, "hi", age_s=60)
    result = machine.on_terminal("ls", columns=60, NO_COLOR="1")
    head, first, second = result.lines
    assert head.split() == ["ID", "AGE", "TITLE"]
    assert first.startswith("0199a3f2c0de12" + "3" + "  now")
    assert second.startswith("0199a3f2c0de12" + "9" + "   1m")
    assert first.endswith("…")
    assert len(first) <= 60


def test_titles_get_the_room_of_a_narrow_terminal(machine: Machine) -> None:
    title = "Why does the login test fail on the server only"
    folder = str(machine.home / "code" / "a-project")
    put_claude(machine.home, "11111111-2222", claude_prompt(title, cwd=folder))
    wide = machine.on_terminal("ls", "--all-agents", columns=160, NO_COLOR="1").lines
    assert wide[0].split() == ["ID", "AGE", "MSGS", "AGENT", "TITLE", "STATUS", "PROJECT"]
    assert "claude-code" in wide[1]
    assert wide[1].endswith("~/code/a-project")
    narrow = machine.on_terminal("ls", "--all-agents", columns=80, NO_COLOR="1").lines
    assert narrow[0].split() == ["ID", "AGE", "AGENT", "TITLE", "STATUS", "PROJECT"]
    assert "  claude  " in narrow[1]
    assert title[:30] in narrow[1]
    assert all(len(line) <= 80 for line in narrow)


def test_colour_only_on_a_terminal_that_wants_it(machine: Machine) -> None:
    machine.session(A, "hello", "hi")
    assert "\x1b[" in machine.on_terminal("ls").out
    assert "\x1b" not in machine.on_terminal("ls", NO_COLOR="1").out
    assert "\x1b" not in machine.on_terminal("ls", TERM="dumb").out
    assert "\x1b" not in machine.run("ls").out


def test_another_profile_is_listed_by_name(machine: Machine) -> None:
    folder = machine.home / ".pi" / "agent" / "sessions"
    where = folder / f"--{str(machine.project)[1:].replace('/', '-')}--"
    machine.session(A, "from pi", "hi", folder=where)
    assert "from pi" in machine.run("ls", "--profile", "pi").out
    assert "from pi" in machine.run("ls", SESSIONTREE_PROFILE="pi").out
    assert machine.run("ls").out == "No sessions found\n"


def test_sessions_of_other_agents_can_be_listed_along(machine: Machine) -> None:
    machine.session(A, "ours", "hi", age_s=600)
    claude = machine.home / ".claude" / "projects" / "-work"
    claude.mkdir(parents=True)
    session_id = "5f2c81d0-0000-4000-8000-000000000000"
    base = {"sessionId": session_id, "cwd": "/work", "isSidechain": False}
    text = [{"type": "text", "text": "ok"}]
    question = {"role": "user", "content": "asked elsewhere"}
    answer = {"id": "m", "role": "assistant", "model": "c", "content": text}
    asked = {"type": "user", "uuid": "u1", "parentUuid": None, "timestamp": "2026-02-16T10:00:00Z"}
    said = {
        "type": "assistant",
        "uuid": "u2",
        "parentUuid": "u1",
        "timestamp": "2026-02-16T10:00:01Z",
    }
    lines = [{**base, **asked, "message": question}, {**base, **said, "message": answer}]
    file = claude / f"{session_id}.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = machine.run("ls", "--all-agents")
    # By the last message, as ours: a file copied today is not a session of today.
    assert [line.split()[0] for line in result.lines] == [A, file.stem]
    assert "claude-code" in result.lines[1]
    assert "asked elsewhere" in machine.run("show", "5f2c81d0").out
    assert "asked elsewhere" in machine.run("search", "asked", "--all-agents").out
    imported = machine.run("import", "5f2c81d0")
    assert imported.code == 0
    assert imported.out.startswith("Imported ")
    assert "asked elsewhere" in machine.run("ls", "--all").out
    assert machine.run("import", "5f2c81d0").out.startswith("Already up to date")


def test_a_subagent_without_its_main_transcript_is_listed_found_and_imported(
    machine: Machine,
) -> None:
    session_id = "6a2c81d0-0000-4000-8000-000000000000"
    folder = machine.home / ".claude" / "projects" / "-work" / session_id / "subagents"
    folder.mkdir(parents=True)
    asked = {
        "type": "user", "uuid": "u1", "parentUuid": None, "isSidechain": True, "cwd": "/work",
        "sessionId": session_id, "timestamp": "2026-02-16T10:00:00Z",
        "message": {"role": "user", "content": "survey the marmots"},
    }  # fmt: skip
    (folder / "agent-ab12cd34.jsonl").write_text(json.dumps(asked) + "\n")
    assert "survey the marmots" in machine.run("ls", "--all-agents").out
    assert "survey the marmots" in machine.run("search", "marmots", "--all-agents").out
    assert machine.run("import", "ab12cd34").out.startswith("Imported ")
    assert "survey the marmots" in machine.run("ls", "--all").out


def test_a_moved_project_is_noticed_and_relinked(machine: Machine) -> None:
    old = machine.root / "old" / "app"
    new = machine.root / "new" / "app"
    new.mkdir(parents=True)
    machine.session(A, "hello", "hi", cwd=old)
    hint = machine.run("ls", cwd=new)
    assert f"Was this project {old} before? It has 1 session: sessiontree relink {old}" in hint.err
    preview = machine.run("relink", str(old), cwd=new)
    assert "1 session would move to" in preview.err
    assert "No sessions found" in machine.run("ls", cwd=new).out
    done = machine.run("relink", str(old), "--yes", cwd=new)
    assert (done.code, done.lines[-1]) == (0, "Relinked 1 session")
    assert A in machine.run("ls", cwd=new).out
    assert machine.run("relink", str(old), "--yes", cwd=new).code == 1


def test_a_folder_that_is_not_there_is_named(machine: Machine) -> None:
    missing = machine.root / "sesions"
    result = machine.run("ls", "--session-dir", str(missing))
    assert (result.code, result.out) == (0, "No sessions found\n")
    assert result.err == f"{missing}: no such folder\n"
    missing.mkdir()
    assert "no such folder" not in machine.run("ls", "--session-dir", str(missing)).err


def test_empty_sessions_cost_no_second_look_at_the_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.session(A, "here", "hi")
    machine.session(C)
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(machine.project)
    looks = []

    def look(files: Sequence[FileStat], *arguments: Any, **named: Any) -> Survey:
        looks.append(len(files))
        return survey(files, *arguments, **named)

    monkeypatch.setattr(listing, "survey", look)
    shown = CliRunner().invoke(ls_command, ["--empty"]).output
    assert A in shown
    assert C in shown
    assert looks == [2]
