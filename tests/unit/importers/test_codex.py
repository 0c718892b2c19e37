"""Codex's rollouts in our words: expectations are read off the fixtures by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiontree.core.context import build_session_context
from sessiontree.discovery.adapters.records import RecordList
from sessiontree.importers.codex import convert_codex
from sessiontree.importers.foreign import ForeignDocument, load_foreign
from sessiontree.importers.transcript import Transcript
from sessiontree.model.messages import text_of

GOLDEN = Path(__file__).parents[2] / "golden" / "codex"


def find(session_id: str) -> ForeignDocument:
    (path,) = GOLDEN.rglob(f"rollout-*-{session_id}.jsonl")
    return load_foreign(path)


@pytest.fixture(scope="module")
def current() -> ForeignDocument:
    return find("0197f0aa-1111-7000-8000-00000000000a")


@pytest.fixture(scope="module")
def paginated() -> ForeignDocument:
    return find("0198aaaa-2222-7000-8000-00000000000b")


@pytest.fixture(scope="module")
def continued() -> ForeignDocument:
    return find("0198bbbb-3333-7000-8000-00000000000c")


@pytest.fixture(scope="module")
def bare() -> ForeignDocument:
    return find("5973b6c0-94b8-487b-a530-2aeb6098ae0e")


def messages_of(document: ForeignDocument) -> list[dict[str, Any]]:
    return [e.data["message"] for e in document.get_branch() if e.type == "message"]


def said(document: ForeignDocument) -> list[tuple[str, str]]:
    return [(m["role"], text_of(m.get("content"))) for m in messages_of(document)]


def convert(*records: dict[str, Any]) -> Transcript:
    return convert_codex(RecordList(list(records)), session_id="s")


def item(payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload}


def event(payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "event_msg", "payload": payload}


def message(role: str, text: str) -> dict[str, Any]:
    return item({"type": "message", "role": role, "content": [{"type": "text", "text": text}]})


def texts(transcript: Transcript) -> list[str]:
    context = build_session_context(transcript.entries, transcript.leaf_id)
    return [text_of(m.get("content")) for m in context.messages]


def test_the_conversation_is_told_in_order(current: ForeignDocument) -> None:
    assert said(current) == [
        ("user", "The login test fails, see the picture"),
        ("assistant", "I'll run it and read the handler."),
        ("toolResult", "Exit code: 1\nWall time: 2 seconds\nOutput:\n1 failed"),
        ("toolResult", "def login(): ..."),
        ("assistant", ""),
        ("toolResult", "[The results were not recorded.]"),
        (
            "toolResult",
            (
                '{"output":"Success. Updated the following files:\\nM login.py\\n",'
                '"metadata":{"exit_code":0,"duration_seconds":0.1}}'
            ),
        ),
        ("assistant", "Fixed: login returns 200."),
        ("user", "Add a test instead"),
        ("assistant", "Added test_login_ok."),
        ("bashExecution", ""),
        ("user", "Commit it"),
        ("assistant", ""),
        ("toolResult", "nothing to commit"),
        ("assistant", "There was nothing to commit."),
    ]


def test_the_items_of_one_answer_become_one_message_with_its_counts(
    current: ForeignDocument,
) -> None:
    first = messages_of(current)[1]
    assert [block["type"] for block in first["content"]] == [
        "thinking",
        "text",
        "toolCall",
        "toolCall",
    ]
    assert first["content"][2] == {
        "type": "toolCall",
        "id": "call_A",
        "name": "shell_command",
        "arguments": {"command": "pytest -q", "workdir": "/home/ana/api"},
    }
    assert (first["provider"], first["model"]) == ("openai", "gpt-5.2-codex")
    usage = first["usage"]
    assert (usage["input"], usage["cacheRead"], usage["output"]) == (5000, 4000, 210)


def test_each_token_count_belongs_to_the_answer_before_it(current: ForeignDocument) -> None:
    outputs = [m["usage"]["output"] for m in messages_of(current) if m["role"] == "assistant"]
    assert outputs == [210, 80, 40, 30, 0, 0]


def test_encrypted_reasoning_goes_back_to_openai_whole(current: ForeignDocument) -> None:
    thinking = messages_of(current)[1]["content"][0]
    assert thinking["thinking"] == "**Looking at the test**"
    assert json.loads(thinking["thinkingSignature"])["encrypted_content"] == "gAAAAABEncrypted1"


def test_encrypted_reasoning_of_another_provider_keeps_its_text_only() -> None:
    reasoning = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "x",
    }
    transcript = convert(
        {"type": "session_meta", "payload": {"id": "s", "model_provider": "azure"}},
        item(reasoning),
        message("assistant", "yes"),
    )
    assert transcript.entries[-1]["message"]["content"][0] == {
        "type": "thinking",
        "thinking": "Hm.",
    }


def test_exit_codes_and_refusals_mark_failed_tools(current: ForeignDocument) -> None:
    failed = {m["toolCallId"]: m["isError"] for m in messages_of(current) if "toolCallId" in m}
    assert failed == {
        "call_A": True,
        "call_B": False,
        "web_search_1": False,
        "call_C": False,
        "call_D": True,
    }
    details = next(m for m in messages_of(current) if m.get("toolCallId") == "call_A")["details"]
    assert details["exit_code"] == 1


def test_a_rolled_back_turn_stays_as_a_branch(current: ForeignDocument) -> None:
    taken_back = next(
        e
        for e in current.get_entries()
        if e.type == "message" and "Rust" in text_of(e.data["message"].get("content"))
    )
    instead = next(
        e
        for e in current.get_entries()
        if e.type == "message" and text_of(e.data["message"].get("content")) == "Add a test instead"
    )
    assert taken_back.parent_id == instead.parent_id
    (broken_off,) = current.get_children(taken_back.id)
    assert broken_off.data["message"]["stopReason"] == "aborted"


def test_a_compaction_keeps_its_summary_and_the_prompts_it_repeats(
    current: ForeignDocument,
) -> None:
    summary, retained, *rest = current.build_session_context().messages
    assert summary["summary"] == "Login was fixed and a test was added."
    assert summary["tokensBefore"] == 10130
    assert [block["text"] for block in retained["content"]] == [
        "The login test fails, see the picture",
        "Add a test instead",
    ]
    assert text_of(rest[0]["content"]) == "Commit it"


def test_model_and_effort_follow_the_turns(current: ForeignDocument) -> None:
    context = current.build_session_context()
    assert context.models == {"default": "openai/gpt-5.2"}
    assert context.thinking_level == "low"


def test_a_users_shell_command_is_a_bash_message(current: ForeignDocument) -> None:
    shell = next(m for m in messages_of(current) if m["role"] == "bashExecution")
    assert (shell["command"], shell["output"], shell["exitCode"]) == ("pytest -q", "2 passed", 0)


def test_what_codex_put_there_itself_is_no_user_message(current: ForeignDocument) -> None:
    hidden = [e.data for e in current.get_branch() if e.type == "custom_message"]
    assert [data["customType"] for data in hidden] == [
        "codex.developer",
        "codex.context",
        "codex.context",
        "codex.retained",
    ]
    assert not any(data["display"] for data in hidden)


def test_unknown_records_are_kept_and_reported(current: ForeignDocument) -> None:
    assert current.report.kept == {
        "turn_aborted": 1,
        "world_state": 1,
        "hologram": 1,
    }
    leaf = current.get_entry(current.leaf_id or "")
    assert leaf is not None
    assert leaf.data["customType"] == "codex.hologram"
    assert leaf.data["data"] == {"from": "the future"}


def test_the_latest_name_in_the_index_is_the_title(current: ForeignDocument) -> None:
    assert current.title == "Login test"


def test_a_paginated_rollout_is_not_told_twice(paginated: ForeignDocument) -> None:
    assert said(paginated) == [
        ("user", "How do I fix this bug?"),
        ("assistant", ""),
        ("toolResult", "Script done\n a.txt\n"),
        ("assistant", "Rename a.txt."),
        ("user", "Said after the fork"),
    ]
    assert paginated.report.kept == {"item_completed": 1}


def test_a_rollout_that_continues_another_begins_with_its_history(
    continued: ForeignDocument,
) -> None:
    assert [text for _, text in said(continued)] == [
        "How do I fix this bug?",
        "",
        "Script done\n a.txt\n",
        "Rename a.txt.",
        "And what about b.txt?",
        "Leave it.",
        "Thanks",
    ]
    assert continued.header["parentSession"] == "0198aaaa-2222-7000-8000-00000000000b"


def test_a_summary_only_openai_can_read_hides_nothing(continued: ForeignDocument) -> None:
    messages = continued.build_session_context().messages
    assert text_of(messages[1]["content"]) == "How do I fix this bug?"
    assert any("only its provider can read" in line for line in continued.warnings)


def test_a_missing_ancestor_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "rollout-2026-01-01T00-00-00-0198bbbb-3333-7000-8000-00000000000c.jsonl"
    meta = {"id": "c", "history_base": {"thread_id": "gone"}}
    lines = [{"type": "session_meta", "payload": meta}, message("user", "hello")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert load_foreign(path).warnings == ["the rollout it continues is not there: gone"]


def test_the_bare_format_of_2025_is_read(bare: ForeignDocument) -> None:
    assert said(bare) == [
        ("user", "list files"),
        ("assistant", ""),
        (
            "toolResult",
            '{"output":"no such dir","metadata":{"exit_code":2,"duration_seconds":0.0}}',
        ),
        ("assistant", "There is nothing."),
    ]
    assert bare.cwd == "/srv/app"
    assert bare.session_id == "5973b6c0-94b8-487b-a530-2aeb6098ae0e"
    assert messages_of(bare)[2]["isError"] is True


def test_a_file_with_events_only_is_told_by_them() -> None:
    transcript = convert(
        event({"type": "user_message", "message": "hello"}),
        event({"type": "agent_reasoning", "text": "hm"}),
        event({"type": "agent_message", "message": "hi"}),
        event(
            {"type": "item_completed", "item": {"type": "UserMessage", "content": [{"text": "x"}]}}
        ),
    )
    assert texts(transcript) == ["hello", "hi", "x"]


def test_a_note_between_two_calls_does_not_cut_the_answer() -> None:
    transcript = convert(
        item({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}),
        item({"type": "hologram_call", "action": {"query": "x"}}),
        item({"type": "function_call", "name": "f", "arguments": "not json", "call_id": "2"}),
        item({"type": "function_call_output", "call_id": "1", "output": "one"}),
    )
    kinds = [e["type"] for e in transcript.entries]
    assert kinds == ["message", "custom", "message"]
    calls = transcript.entries[0]["message"]["content"]
    assert [call["arguments"] for call in calls] == [{}, {"input": "not json"}]


def test_a_rollback_further_back_than_the_file_goes_to_its_beginning() -> None:
    transcript = convert(
        message("user", "one"),
        message("assistant", "two"),
        event({"type": "thread_rolled_back", "num_turns": 9}),
        message("user", "three"),
    )
    assert texts(transcript) == ["three"]
    assert transcript.report.notes == ["a rollback goes further back than the file"]


def test_only_whole_tags_of_codex_are_context() -> None:
    typed = ["<b>bold</b>", "<environment_context> is what?", "see <user_x>", "<a_1>x</a_1>"]
    transcript = convert(*(message("user", text) for text in typed))
    roles = [e.get("message", {}).get("role") for e in transcript.entries]
    assert roles == ["user"] * 4


def test_the_same_records_give_the_same_entries_and_more_records_only_more() -> None:
    records = [
        message("user", "same"),
        message("assistant", "same"),
        message("user", "same"),
        message("assistant", "same"),
        {"type": "world_state", "payload": {"n": 1}},
        message("user", "end"),
    ]
    whole = [e["id"] for e in convert(*records).entries]
    assert len(set(whole)) == len(whole)
    for length in range(1, len(records)):
        part = [e["id"] for e in convert(*records[:length]).entries]
        assert part == whole[: len(part)]


def test_ids_that_a_later_version_adds_to_items_change_nothing() -> None:
    before = message("user", "hello")
    after = message("user", "hello")
    after["payload"]["id"] = "msg_1"
    assert convert(before).entries[0]["id"] == convert(after).entries[0]["id"]
