"""``search`` and ``history``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessiontree.history import HistoryStorage
from sessiontree.text.width import text_width

from .conftest import Machine, assistant, user

A, B = "0199a3f2c0de1234", "0199b000c0de5678"


def test_a_word_is_found_with_its_place_and_the_way_there(machine: Machine) -> None:
    machine.session(A, "how does the connection pool work?", "It reuses sockets.", title="Pool")
    machine.session(B, "something else", "yes", cwd=machine.home)
    result = machine.run("search", "sockets")
    assert result.code == 0
    assert result.lines == [
        f"Pool  just now · {machine.project}",
        "  agent: It reuses sockets.",
        f"  sessiontree --resume {A}",
    ]


def test_a_hit_in_another_project_says_where_to_go(machine: Machine) -> None:
    where = machine.root / "my project"
    where.mkdir()
    machine.session(A, "quokka", "yes", cwd=where)
    assert f"  cd '{where}' && sessiontree --resume {A}" in machine.run("search", "quokka").lines
    here = machine.run("search", "quokka", "--here")
    assert (here.code, here.lines) == (1, ["Nothing found"])


def test_a_hit_in_a_project_that_is_gone_sends_nobody_there(machine: Machine) -> None:
    machine.session(A, "quokka", "yes", cwd=machine.root / "gone")
    assert machine.run("search", "quokka").lines[-1] == f"  sessiontree --resume {A}"


def test_all_profiles_are_searched_unless_one_is_named(machine: Machine) -> None:
    pi = machine.home / ".pi" / "agent" / "sessions" / "--x--"
    machine.session(A, "quokka in pi", "yes", folder=pi)
    found = machine.run("search", "quokka")
    assert "--profile pi --resume" in found.out
    assert machine.run("search", "quokka", "--profile", "sessiontree").code == 1


def test_filters_narrow_a_search(machine: Machine) -> None:
    other = machine.root / "shop"
    other.mkdir()
    machine.session(A, "quokka", "yes", title="Zoo")
    machine.session(B, "a quokka again", "yes", cwd=other)

    def ids(*query: str) -> set[str]:
        return {hit["id"] for hit in machine.run("search", "--json", *query).json}

    assert ids("quokka", "dir:shop") == {B}
    assert ids("quokka", "-dir:shop") == {A}
    assert ids("quokka is:named") == {A}
    assert ids("dir:shop") == {B}, "filters alone list sessions"
    assert ids("quokka", "role:assistant") == set()
    assert ids("quokka", "agent:pi") == set()
    assert ids("quokka", "model:acme") == {A, B}
    assert ids("quokka", "model:opus") == set()
    assert ids("quokka", "date:..2001") == set()
    wrong = machine.run("search", "is:new")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith("is:new is unknown: use named, fork")
    assert machine.run("search", '"is:new"').code == 1


def test_words_in_tool_output_are_found_by_a_filter(machine: Machine) -> None:
    block = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls zebra"}}
    machine.session(A, entries=[user("list it"), assistant(block)])
    assert machine.run("search", "zebra").code == 1
    assert machine.run("search", "in:tools", "zebra").code == 0


def test_a_typo_is_told_from_what_is_nowhere(machine: Machine) -> None:
    machine.session(A, "refresh the token", "yes")
    machine.run("search", "anything")
    assert machine.run("search", "tokne", "refersh").lines == [
        "Nothing found. Did you mean: token refresh"
    ]
    assert machine.run("search", "quokka").lines == [
        "Nothing found: no session has the word quokka"
    ]
    # Each word is there, but not in one session.
    machine.session(B, "a kettle", "yes")
    assert machine.run("search", "kettle", "token").lines == ["Nothing found"]


def test_words_phrases_and_exclusions(machine: Machine) -> None:
    machine.session(A, "the red house", "yes")
    machine.session(B, "a house painted red", "yes")

    def ids(*query: str) -> set[str]:
        return {hit["id"] for hit in machine.run("search", "--json", *query).json}

    assert ids("red", "house") == {A, B}
    assert ids('"red house"') == {A}
    assert ids("house", "-painted") == {A}
    assert ids("house", "-n", "5", "-n9", "-painted") == {A}
    assert ids("--", "house", "-painted") == {A}
    assert ids("pai*") == {B}


def test_a_session_is_found_by_its_name(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi", title="Payments refactor")
    machine.session(B, "hello", "hi", title="\x1b[2JOther")
    result = machine.run("search", '"payments refactor"', "--tools", "--all-agents")
    assert (result.code, result.err) == (0, "")
    assert result.lines == [
        f"Payments refactor  just now · {machine.project}",
        "  name: Payments refactor",
        f"  sessiontree --resume {A}",
    ]
    (hit,) = machine.run("search", "payments", "--json").json
    assert (hit["path"], hit["role"], hit["entryId"]) == (str(path), "name", None)
    assert machine.run("rename", A, "Refunds").code == 0
    assert machine.run("search", "payments").code == 1
    assert machine.run("search", "refunds").code == 0
    assert "\x1b" not in machine.on_terminal("search", "other", NO_COLOR="1").out


def test_sessions_of_other_agents_are_found_by_their_names(machine: Machine) -> None:
    folder = machine.home / ".claude" / "projects" / "-x"
    folder.mkdir(parents=True)
    line = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": B, "cwd": "/x"}
    said = {**line, "timestamp": "2026-01-01T00:00:00.000Z", "message": user("hello")["message"]}
    title = {"type": "custom-title", "customTitle": "Payments refactor", "sessionId": B}
    name = folder / "0199b000-c0de-4678-8000-000000000000.jsonl"
    name.write_text("".join(json.dumps(each) + "\n" for each in (said, title)))
    (hit,) = machine.run("search", "payments", "--all-agents", "--json").json
    assert (hit["agent"], hit["role"], hit["entryId"]) == ("claude-code", "name", None)
    assert machine.run("search", "payments", "--all-agents", "--role", "user").code == 1


def test_tool_output_only_on_request(machine: Machine) -> None:
    result = {"role": "toolResult", "toolCallId": "c", "toolName": "bash", "isError": False}
    text = [{"type": "text", "text": "obsidian heron"}]
    entries = [user("run it"), assistant("ok"), {"message": {**result, "content": text}}]
    machine.session(A, entries=entries)
    without = machine.run("search", "heron")
    assert without.code == 1
    assert "tool output (--tools)" in without.err
    assert machine.run("search", "heron", "--tools").code == 0


def test_json_has_what_a_program_needs(machine: Machine) -> None:
    path = machine.session(A, "hello", "a marmot", title="T")
    (hit,) = machine.run("search", "marmot", "--json").json
    start, end = hit.pop("marks")[0]
    assert hit["snippet"][start:end] == "marmot"
    assert hit == {
        "id": A, "path": str(path), "agent": "sessiontree", "title": "T",
        "cwd": str(machine.project), "entryId": "00000002", "role": "assistant",
        "snippet": "a marmot", "resume": f"sessiontree --resume {A}", "copyOf": None,
    }  # fmt: skip


def test_a_hostile_hit_is_harmless(machine: Machine) -> None:
    machine.session(A, "evil \x1b]52;c;AAAA\x07 marmot \u202e", "yes", title="\x1b[2Jt")
    result = machine.on_terminal("search", "marmot", NO_COLOR="1")
    assert "marmot" in result.out
    assert not [c for c in result.out if ord(c) < 32 and c != "\n"]


# -- history -------------------------------------------------------------------------------------


@pytest.fixture
def prompts(machine: Machine) -> Path:
    path = machine.agent_dir / "history.db"
    times = iter(range(1_760_000_000, 1_760_000_100))
    with HistoryStorage(path, clock=lambda: float(next(times))) as history:
        history.add("fix the parser", cwd=str(machine.project))
        history.add("explain C++ \x1b[31mtemplates", cwd=str(machine.home))
        history.add("run the tests")
    return path


@pytest.mark.usefixtures("prompts")
def test_prompts_newest_first(machine: Machine) -> None:
    result = machine.run("history")
    assert result.lines == [
        "2025-10-09  run the tests",
        "2025-10-09  explain C++ \\x1b[31mtemplates  ~",
        f"2025-10-09  fix the parser                 {machine.project}",
    ]
    assert machine.run("history", "--here").lines == ["2025-10-09  fix the parser"]


@pytest.mark.usefixtures("prompts")
def test_prompts_that_match(machine: Machine) -> None:
    assert [hit["prompt"] for hit in machine.run("history", "c++", "--json").json] == [
        "explain C++ \x1b[31mtemplates"
    ]
    nothing = machine.run("history", "quokka")
    assert (nothing.code, nothing.out) == (0, "No prompts found\n")


@pytest.mark.usefixtures("prompts")
def test_the_rest_is_told(machine: Machine) -> None:
    result = machine.run("history", "-n", "1")
    assert (len(result.lines), result.err) == (1, "More prompts match (-n 0 shows all)\n")


def test_no_history_yet_makes_no_file(machine: Machine) -> None:
    assert machine.run("history").out == "No prompts found\n"
    assert not machine.agent_dir.exists()


def test_on_a_terminal_a_hit_takes_three_lines_and_its_match_is_in_sight(machine: Machine) -> None:
    """Each line fits the terminal, so that nothing breaks in the middle of a word."""
    for number, around in enumerate(("word " * 60, "字" * 90)):
        text = f"{around}quokka {around}"
        machine.session(f"0199a3f2c0de000{number}", text, "yes", title=f"{around}title")
    shown = machine.on_terminal("search", "quokka", columns=70, NO_COLOR="1").out
    lines = [line for line in shown.split("\n") if line.strip()]
    assert len([line for line in lines if line.startswith("  you: ")]) == 2
    for line in lines[:6]:
        if "--resume" not in line:
            assert text_width(line) <= 70
    assert all("quokka" in line for line in lines if line.startswith("  you: "))
