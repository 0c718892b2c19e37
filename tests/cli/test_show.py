"""``show`` and ``tree``: reading one session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sessiontree.cli.commands import show, tree
from sessiontree.cli.commands.show import Printer
from sessiontree.export.view import open_view

from .conftest import Machine, assistant, behead, user

A, B = "0199a3f2c0de1234", "0199b000c0de5678"


def _rich() -> list[dict[str, Any]]:
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls -la"}}
    lines = "\n".join(f"\x1b[32mfile{n}\x1b[0m" for n in range(20))
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash"}
    return [
        user("Why does login fail?"),
        assistant({"type": "thinking", "thinking": "secret thought"}, "Let me look.", call),
        {"message": {**result, "content": [{"type": "text", "text": lines}], "isError": False}},
        assistant("The cookie."),
    ]


def test_the_newest_session_is_shown_without_an_id(machine: Machine) -> None:
    machine.session(A, "older", "hi", age_s=60)
    machine.session(B, "newer", "hi")
    result = machine.run("show")
    assert "newer" in result.out
    assert "older" not in result.out


def test_a_conversation_reads_in_order_with_tools_in_short(machine: Machine) -> None:
    machine.session(A, title="Login", entries=_rich(), said=datetime(2026, 2, 16, 10, tzinfo=UTC))
    result = machine.run("show", "0199a3f2")
    assert result.code == 0
    assert result.lines == [
        "Login",
        f"{A} · {machine.project} · 4 messages · 240 tokens · $1.00",
        "",
        "You  2026-02-16 10:01 · 00000001",
        "Why does login fail?",
        "",
        "Agent  m1 · 2026-02-16 10:02 · 00000002",
        "Let me look.",
        "→ bash ls -la",
        *(f"  file{n}" for n in range(6)),
        "  … 14 more lines",
        "",
        "Agent  m1 · 2026-02-16 10:04 · 00000004",
        "The cookie.",
        "",
    ]
    assert result.err == "Hidden: 1 long output cut (--full) · 1 thought (--full)\n"


def test_an_answer_names_its_agent_and_no_model_that_nobody_knows(machine: Machine) -> None:
    answer = assistant("It rains.")
    answer["message"] |= {"agentName": "forecaster", "model": "unknown"}
    machine.session(A, entries=[user("And the weather?"), answer])
    headings = [line for line in machine.run("show", A).lines if line.startswith("Agent")]
    (heading,) = headings
    assert heading.startswith("Agent  forecaster · 20")
    assert "agent forecaster It rains." in machine.run("tree", A).out
    machine.run("export", A, "-o", "out.md")
    assert "## Agent (forecaster) · " in (machine.project / "out.md").read_text()
    machine.run("export", A, "-o", "out.html")
    assert "forecaster" in (machine.project / "out.html").read_text()


def test_the_facts_are_wrapped_between_words(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", "hello", "hi", cwd=machine.root / "some" / "folder")
    shown = machine.on_terminal("show", "0199a3f2c0de1234", columns=40, NO_COLOR="1")
    assert "2 messages" in [part for line in shown.lines for part in line.split(" · ")], shown.lines
    assert shown.lines[1] == "0199a3f2c0de1234"


def test_full_shows_everything(machine: Machine) -> None:
    machine.session(A, title="Login", entries=_rich())
    result = machine.run("show", A, "--full")
    assert "secret thought" in result.out
    assert "  file19" in result.lines
    assert result.err == ""


def test_what_a_compaction_hides_is_counted_and_shown_in_full(machine: Machine) -> None:
    compaction = {"type": "compaction", "summary": "the summary", "tokensBefore": 9000}
    entries = [
        user("forgotten question"),
        assistant("forgotten answer"),
        user("kept question"),
        {**compaction, "firstKeptEntryId": "00000003"},
        user("new question"),
    ]
    machine.session(A, entries=entries, title="Compacted")
    result = machine.run("show")
    assert "forgotten" not in result.out
    assert result.out.index("the summary") < result.out.index("kept question")
    assert "2 entries before the compaction (--full)" in result.err
    full = machine.run("show", "--full")
    assert full.out.index("forgotten answer") < full.out.index("the summary")


def test_a_compaction_shows_again_what_it_keeps_whatever_was_reset_before(machine: Machine) -> None:
    compaction = {"type": "compaction", "summary": "the summary", "tokensBefore": 9000}
    entries = [
        user("first question"),
        {"type": "reset_boundary"},
        user("kept question"),
        {**compaction, "firstKeptEntryId": "00000001"},
        user("new question"),
    ]
    machine.session(A, entries=entries, title="Cleared")
    result = machine.run("show")
    order = [result.out.index(text) for text in ("the summary", "first question", "kept question")]
    assert order == sorted(order)


def test_another_branch_can_be_shown(machine: Machine) -> None:
    entries = [
        user("question"),
        assistant("answer one"),
        {**assistant("answer two"), "parentId": "00000001"},
    ]
    machine.session(A, entries=entries)
    result = machine.run("show")
    assert "answer two" in result.out
    assert f"1 entry on other branches (sessiontree tree {A})" in result.err
    assert "answer one" in machine.run("show", "--at", "00000002").out
    missing = machine.run("show", "--at", "ffff")
    assert (missing.code, missing.err) == (1, "Entry ffff not found\n")


def test_json_gives_the_entries_as_they_are(machine: Machine) -> None:
    machine.session(A, entries=_rich())
    shown = machine.run("show", "--json", "--full").json
    assert (shown["id"], shown["leafId"], len(shown["entries"])) == (A, "00000004", 4)
    assert shown["entries"][1]["message"]["content"][0]["thinking"] == "secret thought"


def test_the_last_entries_only(machine: Machine) -> None:
    machine.session(A, "one", "two", "three", "four")
    result = machine.run("show", "-n", "2")
    assert "two" not in result.out
    assert "three" in result.out
    assert "2 earlier entries (leave out -n)" in result.err


def test_a_result_at_the_beginning_is_shown_with_its_call(machine: Machine) -> None:
    calls = [
        {"type": "toolCall", "id": f"c{n}", "name": "bash", "arguments": {"command": f"run {n}"}}
        for n in (1, 2)
    ]
    results = [
        {"message": {"role": "toolResult", "toolCallId": f"c{n}", "content": f"output {n}"}}
        for n in (1, 2)
    ]
    machine.session(A, entries=[user("go"), assistant("Wait.", *calls), *results, assistant("ok")])
    assert machine.run("show", "-n", "2").lines[2:-4] == ["", "→ bash run 2", "  output 2"]
    three = machine.run("show", "-n", "3").lines[2:-4]
    assert [line for line in three if line] == [
        "→ bash run 1",
        "  output 1",
        "→ bash run 2",
        "  output 2",
    ]
    whole = machine.run("show").out
    assert (whole.count("→ bash run 1"), whole.count("→ bash run 2")) == (1, 1)


def test_a_result_without_any_call_says_of_which_tool_it_is(machine: Machine) -> None:
    lost = {"role": "toolResult", "toolCallId": "c9", "toolName": "read", "content": "output"}
    machine.session(A, entries=[user("go"), {"message": lost}, assistant("ok")])
    assert machine.run("show", "-n", "2").lines[2:-4] == ["", "→ read", "  output"]


def test_ever_so_many_results_without_a_call_are_shown(machine: Machine) -> None:
    lost = {"role": "toolResult", "toolName": "read", "content": "output"}
    entries = [{"message": {**lost, "toolCallId": f"c{n}"}} for n in range(20_000)]
    machine.session(A, entries=[user("go"), *entries])
    assert machine.run("show").lines.count("→ read") == 20_000


def test_a_call_of_another_turn_is_not_taken_for_that_of_a_result(machine: Machine) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "before"}}
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": "output"}
    turns = [user("go"), assistant(call), user("on"), {"message": result}, assistant("ok")]
    machine.session(A, entries=turns)
    assert machine.run("show", "-n", "2").lines[2:-4] == ["", "→ read", "  output"]


def test_the_messages_of_a_branch_are_told_apart_from_those_of_the_session(
    machine: Machine,
) -> None:
    machine.session(A, title="Login", entries=_branched())
    assert machine.run("ls", "--json").json[0]["messageCount"] == 6
    assert " · 4 of 6 messages · " in machine.run("show").lines[1]


def test_damage_is_told_and_nothing_is_written(machine: Machine) -> None:
    path = machine.session(A, "hello", "hi")
    path.write_text(path.read_text() + "damaged line\n")
    before = path.read_bytes()
    result = machine.run("show")
    assert result.code == 0
    assert "warning: line 4: skipped" in result.err
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("ffff", 1, 'Session "ffff" not found.\n'),
        ("./missing.jsonl", 1, 'Session "./missing.jsonl" not found.\n'),
        ("./README.md", 1, "README.md: not a session file; the file was not modified\n"),
    ],
)
def test_what_is_not_there_is_said(machine: Machine, value: str, code: int, message: str) -> None:
    (machine.project / "README.md").write_text("# hello\n")
    result = machine.run("show", value)
    assert (result.code, result.out) == (code, "")
    assert result.err.endswith(message)
    assert (machine.project / "README.md").read_text() == "# hello\n"


@pytest.mark.parametrize(
    "command", [("show",), ("tree",), ("export",), ("export", "--bundle", "-o", "s.zip")]
)
def test_a_session_that_lost_its_header_is_told_with_its_cure(
    machine: Machine, command: tuple[str, ...]
) -> None:
    machine.session(A, "older", "hi", age_s=60)
    path = machine.session(B, "newer", "hi")
    behead(path)
    result = machine.run(*command)
    assert (result.code, result.out) == (1, "")
    cure = "sessiontree doctor --repair"
    assert result.err == (
        f"{path}: no session header (to recover what it holds: {cure}); the file was not modified\n"
    )
    assert machine.run(*cure.split()[1:]).code == 0
    assert machine.run(*command).code == 0


def test_the_cure_names_the_folder_that_was_asked_about(machine: Machine) -> None:
    folder = machine.root / "kept here"
    behead(machine.session(A, "hello", "hi", folder=folder))
    result = machine.run("show", "--session-dir", str(folder))
    assert f"sessiontree doctor --repair --session-dir '{folder}'" in result.err
    elsewhere = machine.run("show", str(folder / f"2026-02-16T10-20-30-000Z_{A}.jsonl"))
    assert (elsewhere.code, "doctor" in elsewhere.err) == (1, False)


def test_of_very_many_sessions_of_an_id_the_newest_are_listed(machine: Machine) -> None:
    for number in range(25):
        machine.session(f"0199aaaa{number:04d}", f"prompt {number}", "hi", age_s=60 * number)
    result = machine.run("show", "0199aaaa")
    first, *listed, last = result.err.splitlines()
    assert (result.code, first) == (2, 'Session "0199aaaa" is ambiguous: 25 sessions match.')
    assert [line.split()[0] for line in listed] == [f"0199aaaa{n:04d}" for n in range(20)]
    assert last == "  and 5 older ones: give more of the id, or see sessiontree ls"


def test_an_id_of_several_lists_them(machine: Machine) -> None:
    machine.session(A, "one", "hi", title="First", age_s=3600)
    machine.session(B, "two", "hi", cwd=machine.home)
    machine.session("0199ffff", "three", "hi", cwd=machine.home, age_s=60)
    here = machine.run("show", "0199")
    assert here.code == 0  # this project comes first, and has just one
    assert "First" in here.out
    result = machine.run("show", "0199", cwd=machine.root)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [
        'Session "0199" is ambiguous: 3 sessions match.',
        f"  {B}    just now  two  ~",
        "  0199ffff              1m ago  three  ~",
        f"  {A}      1h ago  First  {machine.project}",
    ]


def test_a_project_without_sessions_asks_for_an_id(machine: Machine) -> None:
    result = machine.run("show")
    assert result.code == 1
    assert result.err.startswith("This project has no sessions")


def test_a_conversation_is_shown_without_holding_it(machine: Machine) -> None:
    with open_view(machine.session(A, entries=_rich())) as view:
        show._write_head(view, None)
        printer = Printer(full=True)
        for entry in view.path:
            printer.entry(entry)
        assert not any(entry.is_loaded for entry in view.path)


def test_json_holds_no_entry_that_it_has_written(machine: Machine) -> None:
    with open_view(machine.session(A, entries=_branched())) as view:
        show._write_json(view, view.path)
        tree._write_tree_json(view, list(tree._lay_out(view.tree, view.tree.entries)))
        assert {entry.type for entry in view.tree.entries if entry.is_loaded} == {"label"}


# -- tree ----------------------------------------------------------------------------------------


def _branched() -> list[dict[str, Any]]:
    return [
        user("start"),
        {"type": "model_change", "model": "acme/m1"},
        assistant("shared answer"),
        user("left way"),
        assistant("left end"),
        {**user("right way"), "parentId": "00000003"},
        {"type": "label", "targetId": "00000003", "label": "fork\x1b[2J here"},
        {**assistant("right end"), "parentId": "00000006"},
    ]


def test_branches_step_to_the_right_and_the_active_one_is_marked(machine: Machine) -> None:
    machine.session(A, title="Ways", entries=_branched())
    result = machine.run("tree")
    assert result.lines == [
        f"Ways  {A}",
        "● 00000001 you start",
        "● 00000003 agent shared answer [fork\\x1b[2J here]",
        "├─ ○ 00000004 you left way",
        "│  ○ 00000005 agent left end",
        "└─ ● 00000006 you right way",
        "   ● 00000008 agent right end ← here",
    ]
    assert result.err == "Hidden: 2 tool steps and settings (--all)\n"
    everything = machine.run("tree", "--all")
    assert len(everything.lines) == 9
    assert everything.err == ""


def test_the_tree_as_json(machine: Machine) -> None:
    machine.session(A, entries=_branched())
    tree = machine.run("tree", "--json").json
    by_id = {entry["id"]: entry for entry in tree["entries"]}
    assert len(by_id) == 8
    assert by_id["00000005"]["active"] is False
    assert by_id["00000008"]["active"] is True
    assert by_id["00000003"]["label"] == "fork\x1b[2J here"
    assert by_id["00000004"]["parentId"] == "00000003"


def test_a_very_deep_tree_is_walked_without_recursion(machine: Machine) -> None:
    machine.session(A, *(f"m{n}" for n in range(5000)))
    result = machine.run("tree")
    assert result.code == 0
    assert len(result.lines) == 5001
    assert result.lines[-1] == "● 00001388 agent m4999 ← here"


@pytest.mark.parametrize("command", ["show", "tree"])
def test_a_long_prompt_is_no_heading(machine: Machine, command: str) -> None:
    machine.session(A, "why " * 5000, "because")
    heading = machine.run(command).lines[0]
    assert heading.startswith("why why ")
    assert len(heading.removesuffix(f"  {A}")) <= 40
    assert "…" in heading


def test_of_branches_upon_branches_the_nearest_levels_are_drawn(machine: Machine) -> None:
    moment = {"timestamp": "2026-02-16T10:00:00.000Z"}
    parting = [
        {**user(f"{way} {n}"), **moment, "id": f"{way}{n}", "parentId": f"on{n - 1}" if n else None}
        for n in range(2000)
        for way in ("off", "on")
    ]
    machine.session(A, entries=parting)
    lines = machine.run("tree").lines
    assert len(lines) == 4001
    assert lines[-1] == "   " * 11 + "└─ ● on1999 you on 1999 ← here"
    depths = [entry["depth"] for entry in machine.run("tree", "--json").json["entries"]]
    assert max(depths) == 2000


def test_a_session_without_a_name_goes_by_its_latest_compaction(machine: Machine) -> None:
    cut = {"type": "compaction", "summary": "…", "firstKeptEntryId": "00000001", "tokensBefore": 9}
    first, latest = ({**cut, "shortSummary": text} for text in ("Its first title", "Its latest"))
    machine.session(A, entries=[user("hello"), assistant("hi"), first, latest])
    assert machine.run("show", A).lines[0] == "Its latest"
    assert machine.run("tree", A).lines[0].startswith("Its latest  ")
    assert machine.run("ls").out.count("Its latest") == 1
    assert machine.run("rm", A).lines[0] == f"Moved to the trash: Its latest  {A}"


# -- what newer pi writes -------------------------------------------------------------------------


def _edited() -> list[dict[str, Any]]:
    system = {"role": "system", "content": "You are pi", "sections": {"cwd": "/x"}, "timestamp": 1}
    used = {"input": 0, "cacheRead": 50_000, "cost": {"total": 0.25}}
    return [
        {"message": {**system, "toolsAdded": [{"name": "read"}]}},
        user("Why does login fail?"),
        assistant("The \x1b[31mcookie."),
        {"type": "context_edit", "targetId": "00000003", "replacement": None},
        {"type": "context_edit", "targetId": "00000002", "replacement": {"content": "n\x1b]0;w"}},
        {"type": "usage", "kind": "cache_warm", "provider": "acme", "model": "m1", "usage": used},
    ]


def test_edits_of_the_context_are_shown_beside_what_they_hide(machine: Machine) -> None:
    machine.session(A, title="Login", entries=_edited())
    result = machine.run("show")
    assert "cookie." in result.out
    assert "(context: 00000003 left out)" in result.lines
    assert "$0.75" in result.lines[1]
    assert "You are pi" not in result.out
    assert "cache_warm" not in result.out
    assert "\x1b" not in result.out
    full = machine.run("show", "--full").out
    assert "(system: prompt; sections cwd; 1 tool added)" in full
    assert "You are pi" in full
    assert "(usage: cache_warm: acme/m1, 50,000 tokens, $0.25)" in full


def test_a_tree_hides_prompts_and_edits_until_it_is_asked_for_all(machine: Machine) -> None:
    machine.session(A, title="Login", entries=_edited())
    short = machine.run("tree").out
    assert "Why does login fail?" in short
    assert "system" not in short
    every = machine.run("tree", "--all").out
    for said in ("prompt; sections cwd", "00000003 left out", "cache_warm: acme/m1"):
        assert said in every


def test_usage_counts_what_is_no_answer(machine: Machine) -> None:
    cost = {"usage": {"input": 10, "cost": {"total": 1.0}}}
    summary = {"type": "compaction", "summary": "s", "firstKeptEntryId": "x", "tokensBefore": 1}
    machine.session(A, entries=[*_edited(), {**summary, **cost}])
    rows = {row["model"]: row for row in machine.run("usage", A, "--json").json}
    assert (rows["acme/m1"]["cost"], rows["acme/m1"]["answers"]) == (0.75, 1)
    assert rows["acme/m1"]["cacheRead"] == 50_000
    assert (rows["tools and summaries"]["cost"], rows["tools and summaries"]["answers"]) == (1.0, 0)
