"""Claude Code's odd histories: copies, records out of order, wrapped prompts, lost main files.

Expectations follow from the rule: no conversation and no token twice, nothing lost, and what is
shown is what the person typed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiontree.core.context import build_session_context
from sessiontree.discovery.adapters.records import RecordList
from sessiontree.importers.claude_code import Sidechain, convert_claude_code
from sessiontree.importers.foreign import load_foreign
from sessiontree.importers.foreign_listing import find_foreign_sessions, resolve_foreign
from sessiontree.importers.imports import import_session
from sessiontree.importers.transcript import Transcript
from sessiontree.model.messages import text_of

Record = dict[str, Any]


def convert(*records: Record, sidechains: list[Sidechain] | None = None) -> Transcript:
    return convert_claude_code(
        RecordList(list(records)), session_id="s", sidechains=sidechains or []
    )


def prompt(uuid: str, parent: str | None, content: object, **more: Any) -> Record:
    message = {"role": "user", "content": content}
    base = {"type": "user", "uuid": uuid, "parentUuid": parent, "message": message}
    return {**base, "timestamp": "2026-01-01T00:00:00.000Z", **more}


def answer(
    uuid: str, parent: str | None, message_id: str, block: Record, output: int = 5, **more: Any
) -> Record:
    usage = {"input_tokens": 100, "output_tokens": output}
    message = {"role": "assistant", "id": message_id, "model": "claude-x", "usage": usage}
    base = {"type": "assistant", "uuid": uuid, "parentUuid": parent}
    stamp = {"timestamp": "2026-01-01T00:00:01.000Z"}
    return {**base, **stamp, "message": {**message, "content": [block]}, **more}


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def call(call_id: str) -> Record:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {}}


def result(uuid: str, parent: str, call_id: str) -> Record:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": f"result of {call_id}"}
    return prompt(uuid, parent, [block])


def path_of(transcript: Transcript) -> list[tuple[str, str]]:
    messages = build_session_context(transcript.entries, transcript.leaf_id).messages
    return [(m["role"], text_of(m.get("content"))) for m in messages]


def answers_of(transcript: Transcript) -> list[Record]:
    said = [e["message"] for e in transcript.entries if e["type"] == "message"]
    return [message for message in said if message["role"] == "assistant"]


def output_of(transcript: Transcript) -> int:
    return sum(message["usage"]["output"] for message in answers_of(transcript))


# -- nothing twice ---------------------------------------------------------------------------------


def test_a_subagent_that_compacts_repeats_nothing_of_the_main_conversation() -> None:
    main = [prompt("p", None, "do it"), answer("a", "p", "m1", text("done"), 40)]
    own = [
        prompt("c1", "a", "Summarize the conversation so far."),
        answer("c2", "c1", "m2", text("It was done."), 7),
    ]
    copied = [{**record, "isSidechain": True} for record in main]
    transcript = convert(*main, sidechains=[Sidechain("acompact-1", [*copied, *own])])
    assert [text_of(m["content"]) for m in answers_of(transcript)] == ["done", "It was done."]
    assert output_of(transcript) == 40 + 7
    assert transcript.report.left_out["repeated records"] == 2
    assert transcript.report.notes == []


def test_a_subagent_that_only_repeats_leaves_nothing() -> None:
    main = [prompt("p", None, "do it"), answer("a", "p", "m1", text("done"), 40)]
    alone = convert(*main)
    repeated = convert(*main, sidechains=[Sidechain("acompact-1", [dict(r) for r in main])])
    assert repeated.entries == alone.entries


def test_history_under_new_uuids_is_the_history_that_is_there() -> None:
    transcript = convert(
        prompt("p", None, "do it"),
        answer("a", "p", "m1", call("one"), 40),
        result("r", "a", "one"),
        answer("b", "r", "m2", text("done"), 8),
        prompt("p'", None, "do it"),
        answer("a'", "p'", "m1", call("one"), 40),
        result("r'", "a'", "one"),
        answer("b'", "r'", "m2", text("done"), 8),
        prompt("q", "b'", "and now?"),
        answer("c", "q", "m3", text("now this"), 3),
    )
    assert path_of(transcript) == [
        ("user", "do it"),
        ("assistant", ""),
        ("toolResult", "result of one"),
        ("assistant", "done"),
        ("user", "and now?"),
        ("assistant", "now this"),
    ]
    assert len(answers_of(transcript)) == 3
    assert output_of(transcript) == 40 + 8 + 3
    assert transcript.report.left_out["repeated records"] == 4


def test_a_copy_that_says_something_else_is_kept_but_not_paid_for_twice() -> None:
    transcript = convert(
        prompt("p", None, "do it"),
        answer("a", "p", "m1", text("done"), 40),
        prompt("p'", None, "do it, please"),
        answer("a'", "p'", "m1", text("done, and tidied"), 40),
    )
    assert [text_of(m["content"]) for m in answers_of(transcript)] == ["done", "done, and tidied"]
    assert output_of(transcript) == 40


def test_the_same_words_asked_again_are_another_prompt() -> None:
    transcript = convert(
        prompt("p", None, "do it"),
        answer("a", "p", "m1", text("done"), 1),
        prompt("q", None, "do it"),
        answer("b", "q", "m2", text("done"), 2),
    )
    assert len([e for e in transcript.entries if e["type"] == "message"]) == 4
    assert output_of(transcript) == 3


def test_an_answer_costs_what_its_last_part_says_wherever_that_stands() -> None:
    transcript = convert(
        prompt("p", None, "do it"),
        answer("a1", "p", "m1", text("first"), 2),
        prompt("q", "p", "meanwhile"),
        answer("a2", "q", "m1", text("second"), 631),
    )
    assert [m["usage"]["output"] for m in answers_of(transcript)] == [631, 0]


def test_a_gateway_that_gives_every_answer_one_id_is_paid_for_each_request() -> None:
    transcript = convert(
        prompt("p", None, "one"),
        answer("a", "p", "m", text("eins"), 10, requestId="req1"),
        prompt("q", "a", "two"),
        answer("b", "q", "m", text("zwei"), 20, requestId="req2"),
    )
    assert [m["usage"]["output"] for m in answers_of(transcript)] == [10, 20]


# -- out of order ----------------------------------------------------------------------------------


def test_a_part_that_was_written_before_the_part_it_hangs_on_belongs_to_the_answer() -> None:
    transcript = convert(
        prompt("p", None, "do both"),
        answer("a2", "a1", "m1", call("two"), 9),
        answer("a1", "p", "m1", call("one"), 4),
        result("r2", "a2", "two"),
        result("r1", "a1", "one"),
        answer("b", "r1", "m2", text("both done"), 1),
    )
    (first, _) = answers_of(transcript)
    assert [block["id"] for block in first["content"]] == ["one", "two"]
    assert first["usage"]["output"] == 9
    assert [role for role, _ in path_of(transcript)] == [
        "user",
        "assistant",
        "toolResult",
        "toolResult",
        "assistant",
    ]
    assert transcript.report.notes == []


@pytest.mark.parametrize("parent", ["a2", "a1", "lost"])
def test_a_result_that_came_late_stays_on_the_path(parent: str) -> None:
    transcript = convert(
        prompt("p", None, "do both"),
        answer("a1", "p", "m1", call("one")),
        answer("a2", "a1", "m1", call("two")),
        result("r1", "a1", "one"),
        answer("b", "r1", "m2", text("one is done")),
        prompt("q", "b", "go on"),
        result("r2", parent, "two"),
    )
    assert [content for _, content in path_of(transcript)] == [
        "do both",
        "",
        "result of one",
        "result of two",
        "one is done",
        "go on",
    ]


def test_a_record_that_hangs_on_a_subagents_is_not_said_to_hang_on_nothing() -> None:
    transcript = convert(
        prompt("p", None, "explore"),
        prompt("s", None, "look", isSidechain=True, agentId="x"),
        prompt("q", "s", "and then?"),
    )
    assert transcript.report.notes == []
    assert [words for _, words in path_of(transcript)] == ["explore", "and then?"]


def test_records_that_hang_on_each_other_in_a_circle_are_all_kept() -> None:
    transcript = convert(prompt("p", "q", "one"), prompt("q", "p", "two"))
    assert sorted(words for _, words in path_of(transcript)) == ["one", "two"]


def test_a_note_without_a_time_has_its_neighbours() -> None:
    note = {"type": "last-prompt", "lastPrompt": "x"}
    transcript = convert(
        dict(note),
        prompt("p", None, "one", timestamp="2026-01-01T00:00:05.000Z"),
        dict(note),
        prompt("q", "p", "two", timestamp="2026-01-01T00:00:09.000Z"),
    )
    assert [entry["timestamp"][17:19] for entry in transcript.entries] == ["05", "05", "05", "09"]


# -- what the person typed -------------------------------------------------------------------------

OPENED = "<ide_opened_file>The user opened /srv/a.py in the IDE.</ide_opened_file>"
SKILL = '<skill name="tidy" location="/x/SKILL.md">Tidy up.</skill>'


@pytest.mark.parametrize(
    ("content", "typed"),
    [
        (f"{OPENED}\nWhy does it fail?", "Why does it fail?"),
        ([text(OPENED), text("Why does it fail?")], "Why does it fail?"),
        ("Why?\n<system-reminder>Be brief.</system-reminder>", "Why?"),
        (f"{SKILL}\n\nthe shop", "the shop"),
        (f"{OPENED}<ide_selection>x = 1</ide_selection> Explain", "Explain"),
    ],
)
def test_what_was_put_around_a_prompt_is_no_part_of_it(content: object, typed: str) -> None:
    transcript = convert(prompt("p", None, content))
    around, said = transcript.entries
    assert said["message"]["role"] == "user"
    assert text_of(said["message"]["content"]) == typed
    assert (around["customType"], around["display"]) == ("claude-code.context", False)
    # The model saw all of it, and still does.
    context = build_session_context(transcript.entries, transcript.leaf_id)
    assert len(context.messages) == 2


@pytest.mark.parametrize(
    "content",
    ["<b>bold</b>", "<ide_opened_file> is what?", "a <skill>x</skill> b", "<skills>x</skills>"],
)
def test_other_tags_are_what_the_person_typed(content: str) -> None:
    (entry,) = convert(prompt("p", None, content)).entries
    assert entry["message"]["content"] == content


def test_a_slash_command_reads_as_it_was_typed() -> None:
    markup = (
        "<command-message>review is running</command-message>\n"
        "<command-name>/review</command-name>\n<command-args>12 --fast</command-args>"
    )
    printed = "<local-command-stdout>Reviewed.</local-command-stdout>"
    transcript = convert(
        prompt("p", None, markup),
        prompt("o", "p", printed),
        answer("a", "o", "m", text("Looks good")),
    )
    command, output = transcript.entries[:2]
    assert command["content"] == "/review 12 --fast"
    assert command["details"] == {"markup": markup}
    assert output["content"] == "Reviewed."
    assert transcript.title == "/review 12 --fast"


# -- in folders ------------------------------------------------------------------------------------


def write(path: Path, *records: Record) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def project(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a home without any other session."""
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    return tmp_path / "own/.claude/projects/-srv-shop"


def test_a_listing_shows_what_was_typed(project: Path) -> None:
    write(project / "one.jsonl", prompt("p", None, f"{OPENED}\nWhy?"))
    command = "<command-name>/init</command-name><command-args></command-args>"
    write(
        project / "two.jsonl",
        prompt("q", None, command),
        answer("a", "q", "m", text("Reading")),
    )
    names = {session.id: session.name for session in find_foreign_sessions()}
    assert names == {"one": "Why?", "two": "/init"}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_summary_is_the_title_of_its_own_session_only(project: Path, is_first: bool) -> None:
    said = [prompt("p", None, "hello"), answer("a", "p", "m", text("hi"))]
    theirs = {"type": "summary", "summary": "Another's", "leafUuid": "elsewhere"}
    ours = {"type": "summary", "summary": "Greeting", "leafUuid": "a"}
    notes = [ours, theirs]
    write(project / "one.jsonl", *([*notes, *said] if is_first else [*said, *notes]))
    write(project / "two.jsonl", theirs, prompt("q", None, "hello there"))
    titles = {session.id: session.title for session in find_foreign_sessions()}
    assert titles == {"one": "Greeting", "two": None}
    assert load_foreign(project / "one.jsonl").title == "Greeting"
    assert load_foreign(project / "two.jsonl").title is None


def subagent(session: str, words: str) -> list[Record]:
    side: Record = {"isSidechain": True, "agentId": "ab12", "sessionId": session, "cwd": "/srv"}
    return [
        prompt(f"{session}-1", None, words, **side),
        answer(f"{session}-2", f"{session}-1", f"m-{session}", text("Found it."), 3, **side),
    ]


def test_a_subagent_without_its_main_transcript_is_a_session(project: Path) -> None:
    write(project / "kept.jsonl", prompt("p", None, "hello", sessionId="kept"))
    write(project / "kept/subagents/agent-ab12.jsonl", *subagent("kept", "Explore kept"))
    new = project / "lost/subagents/agent-ab12.jsonl"
    write(new, *subagent("lost", "Explore the parser"))
    new.with_suffix(".meta.json").write_text('{"description": "Parser survey"}')
    old = write(project / "agent-ab12.jsonl", *subagent("gone", "Explore the shop"))

    found = {session.id: session for session in find_foreign_sessions()}
    assert sorted(found) == ["ab12@gone", "ab12@lost", "kept"]
    assert found["ab12@lost"].name == "Parser survey"
    assert found["ab12@gone"].name == "Explore the shop"
    assert found["ab12@gone"].message_count == 2
    assert resolve_foreign("ab12@g").path == str(old)

    paths = set()
    for file in (new, old):
        document = load_foreign(file)
        assert [e.type for e in document.get_branch()] == ["message", "model_change", "message"]
        paths.add(import_session(file).path)
        assert import_session(file).is_unchanged
    assert len(paths) == 2
    assert load_foreign(old).header["parentSession"] == "gone"
