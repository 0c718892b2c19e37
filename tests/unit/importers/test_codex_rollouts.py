"""Codex's rollouts: what only events hold, whose tokens a count tells of, and what was copied."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from tests.unit.importers.test_imports_growing import CODEX, NAMES

from sessiontree.core.context import build_session_context
from sessiontree.discovery.adapters.records import RecordList
from sessiontree.importers.codex import convert_codex
from sessiontree.importers.foreign import load_foreign
from sessiontree.importers.foreign_listing import describe_foreign
from sessiontree.importers.imports import import_session
from sessiontree.importers.transcript import Transcript
from sessiontree.model.messages import text_of

Record = dict[str, Any]


def convert(*records: Record) -> Transcript:
    return convert_codex(RecordList(list(records)), session_id="s")


def item(kind: str, **fields: Any) -> Record:
    payload = {"type": kind, **fields}
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload}


def event(kind: str, **fields: Any) -> Record:
    payload = {"type": kind, **fields}
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "event_msg", "payload": payload}


def message(role: str, words: str) -> Record:
    return item("message", role=role, content=[{"type": "text", "text": words}])


def call(call_id: str) -> Record:
    return item("function_call", name="shell", arguments="{}", call_id=call_id)


def output(call_id: str) -> Record:
    return item("function_call_output", call_id=call_id, output="ok")


def count(total: int, last: int) -> Record:
    """A token count: output tokens of all answers and of the last one."""
    info = {
        "total_token_usage": {"input_tokens": 0, "output_tokens": total},
        "last_token_usage": {"input_tokens": 0, "output_tokens": last},
    }
    return event("token_count", info=info)


def path_of(transcript: Transcript) -> list[tuple[str, str]]:
    messages = build_session_context(transcript.entries, transcript.leaf_id).messages
    return [(m["role"], text_of(m.get("content"))) for m in messages]


def outputs_of(transcript: Transcript) -> list[int]:
    said = [e["message"] for e in transcript.entries if e["type"] == "message"]
    return [m["usage"]["output"] for m in said if m["role"] == "assistant"]


TURN = [event("task_started", turn_id="1"), message("user", "Look at it")]


# -- events ----------------------------------------------------------------------------------------


def test_an_interrupted_answer_that_only_events_hold_is_kept() -> None:
    transcript = convert(
        *TURN,
        message("assistant", "It is a parser."),
        event("agent_message", message="It is a parser."),
        event("task_started", turn_id="2"),
        event("user_message", message="Rewrite it"),
        event("agent_reasoning", text="**Reading the grammar**"),
        event("agent_message", message="I will begin with the lexer."),
        event("turn_aborted", reason="interrupted"),
        event("task_started", turn_id="3"),
        message("user", "Stop"),
        event("user_message", message="Stop"),
    )
    assert path_of(transcript) == [
        ("user", "Look at it"),
        ("assistant", "It is a parser."),
        ("user", "Rewrite it"),
        ("assistant", "I will begin with the lexer."),
        ("user", "Stop"),
    ]
    broken_off = [e["message"] for e in transcript.entries if e["type"] == "message"][3]
    assert broken_off["stopReason"] == "aborted"
    assert broken_off["content"][0] == {"type": "thinking", "thinking": "**Reading the grammar**"}


@pytest.mark.parametrize("is_event_first", [True, False])
def test_an_event_that_shows_an_item_is_no_second_one(is_event_first: bool) -> None:
    pairs = [
        [message("user", "Look at it"), event("user_message", message="Look at it")],
        [
            item("reasoning", summary=[{"text": "**One**"}, {"text": "**Two**"}]),
            event("agent_reasoning", text="**One**\n\n**Two**"),
        ],
        [message("assistant", "Done."), event("agent_message", message="Done.")],
    ]
    ordered = [pair[::-1] if is_event_first else pair for pair in pairs]
    transcript = convert(*(record for pair in ordered for record in pair))
    assert path_of(transcript) == [("user", "Look at it"), ("assistant", "Done.")]


def test_a_paragraph_of_a_thought_is_shown_by_its_own_event() -> None:
    parts = [{"text": "**Reading the grammar first**"}, {"text": "**Then the lexer of it**"}]
    transcript = convert(
        *TURN,
        item("reasoning", summary=parts),
        event("agent_reasoning", text="**Reading the grammar first**"),
        event("agent_reasoning", text="**Then the lexer of it**"),
        message("assistant", "Read."),
    )
    blocks = transcript.entries[-1]["message"]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text"]


def test_a_prompt_said_twice_and_recorded_once_is_there_twice() -> None:
    transcript = convert(
        event("task_started", turn_id="1"),
        event("user_message", message="continue"),
        event("turn_aborted", reason="interrupted"),
        event("task_started", turn_id="2"),
        message("user", "continue"),
        event("user_message", message="continue"),
        message("assistant", "Going on."),
    )
    assert path_of(transcript) == [
        ("user", "continue"),
        ("user", "continue"),
        ("assistant", "Going on."),
    ]


# -- tokens ----------------------------------------------------------------------------------------

BEFORE = [count(7, 7), call("1"), output("1"), count(10, 3), message("assistant", "Done.")]
BEHIND = [call("1"), count(7, 7), output("1"), message("assistant", "Done."), count(10, 3)]
AFTER_OUTPUTS = [call("1"), output("1"), count(7, 7), message("assistant", "Done."), count(10, 3)]
REPEATED = [
    call("1"), count(7, 7), count(7, 7), output("1"), count(7, 7), message("assistant", "Done."),
    count(10, 3), count(10, 3),
]  # fmt: skip


@pytest.mark.parametrize("records", [BEFORE, BEHIND, AFTER_OUTPUTS, REPEATED])
def test_a_count_belongs_to_its_answer_wherever_it_stands(records: list[Record]) -> None:
    assert outputs_of(convert(*TURN, *records)) == [7, 3]


def test_two_answers_in_a_row_are_two_if_each_was_counted() -> None:
    transcript = convert(
        *TURN,
        message("assistant", "First."),
        count(7, 7),
        message("assistant", "Second."),
        count(10, 3),
    )
    assert outputs_of(transcript) == [7, 3]


def test_the_count_that_a_resumed_session_begins_with_is_the_earlier_ones() -> None:
    transcript = convert(
        count(90, 40),
        *TURN,
        count(90, 40),
        message("assistant", "Done."),
        count(95, 5),
    )
    assert outputs_of(transcript) == [5]


def meta(session: str, **more: Any) -> Record:
    payload = {"id": session, "cwd": "/srv", "model_provider": "openai", **more}
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": payload}


def at(record: Record, ms: int) -> Record:
    return {**record, "timestamp": f"2026-01-02T00:00:{ms // 1000:02d}.{ms % 1000:03d}Z"}


PARENT = "0199aaaa-0000-7000-8000-000000000001"
CHILD = "0199bbbb-0000-7000-8000-000000000002"


@pytest.mark.parametrize("has_parent", [True, False])
def test_a_fork_does_not_count_what_it_copied(no_real_home: Path, has_parent: bool) -> None:
    said = [*TURN, message("assistant", "It is a parser."), count(50, 50)]
    folder = no_real_home / ".codex/sessions/2026/01/02"
    folder.mkdir(parents=True)
    if has_parent:
        parent = folder / f"rollout-2026-01-01T00-00-00-{PARENT}.jsonl"
        parent.write_text("".join(json.dumps(r) + "\n" for r in [meta(PARENT), *said]))
    copied = [meta(CHILD, forked_from_id=PARENT), meta(PARENT), *said]
    own = [message("user", "And now?"), message("assistant", "Now this."), count(54, 4)]
    lines = [at(record, n) for n, record in enumerate(copied)]
    lines += [at(record, 5000 + 900 * n) for n, record in enumerate(own)]
    child = folder / f"rollout-2026-01-02T00-00-00-{CHILD}.jsonl"
    child.write_text("".join(json.dumps(line) + "\n" for line in lines))
    transcript = load_foreign(child).transcript
    assert path_of(transcript) == [
        ("user", "Look at it"),
        ("assistant", "It is a parser."),
        ("user", "And now?"),
        ("assistant", "Now this."),
    ]
    assert outputs_of(transcript) == [0, 4]


def test_history_of_another_rollout_was_counted_there(no_real_home: Path) -> None:
    folder = no_real_home / ".codex/sessions/2026/01/02"
    folder.mkdir(parents=True)
    said = [*TURN, message("assistant", "It is a parser."), count(50, 50)]
    parent = folder / f"rollout-2026-01-01T00-00-00-{PARENT}.jsonl"
    parent.write_text("".join(json.dumps(r) + "\n" for r in [meta(PARENT), *said]))
    own = [message("user", "And now?"), message("assistant", "Now this."), count(54, 4)]
    child = folder / f"rollout-2026-01-02T00-00-00-{CHILD}.jsonl"
    records = [meta(CHILD, history_base={"thread_id": PARENT}), *own]
    child.write_text("".join(json.dumps(r) + "\n" for r in records))
    assert outputs_of(load_foreign(child).transcript) == [0, 4]
    listed = describe_foreign(str(child), "codex")
    assert listed is not None
    assert listed.message_count == 4


# -- tool calls ------------------------------------------------------------------------------------


def test_a_web_search_is_a_tool_call() -> None:
    action = {"type": "search", "query": "flask login"}
    transcript = convert(
        *TURN,
        item("web_search_call", status="completed", action=action),
        event("web_search_end", call_id="ws_1", query="flask login", action=action),
        message("assistant", "Use flask-login."),
    )
    answered, found = [e["message"] for e in transcript.entries if e["type"] == "message"][1:]
    assert answered["content"][0] == {
        "type": "toolCall",
        "id": "ws_1",
        "name": "web_search",
        "arguments": {"query": "flask login"},
    }
    assert answered["stopReason"] == "stop"
    assert (found["role"], found["toolCallId"], found["isError"]) == ("toolResult", "ws_1", False)


def test_a_web_search_that_only_an_event_tells_of_is_one_too() -> None:
    action = {"type": "open_page", "url": "https://example.org"}
    found = [{"title": "An example"}]
    transcript = convert(
        *TURN,
        event("web_search_end", call_id="ws_1", query="", action=action, results=found),
        event("turn_aborted", reason="interrupted"),
    )
    answered, result = [e["message"] for e in transcript.entries if e["type"] == "message"][1:]
    assert answered["content"][0]["name"] == "web_open_page"
    assert json.loads(text_of(result["content"])) == found


# -- counts of messages ----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(CODEX)
def test_a_listing_counts_the_messages_that_an_import_makes(records: list[Record]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAMES["codex"]
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        listed = describe_foreign(str(path), "codex")
        assert listed is not None
        document = load_foreign(path)
        made = [entry for entry in document.get_entries() if entry.type == "message"]
        assert listed.message_count == len(made)
        assert listed.title == document.title


def test_an_imported_session_has_as_many_messages_as_its_listing_said(
    codex_file: Path, claude_file: Path
) -> None:
    for file in codex_file.parents[3].rglob("rollout-*.jsonl"):
        listed = describe_foreign(str(file), "codex")
        assert listed is not None
        report = import_session(file)
        lines = Path(report.path).read_text().splitlines()
        made = [line for line in map(json.loads, lines) if line["type"] == "message"]
        assert listed.message_count == len(made)
