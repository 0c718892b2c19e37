"""Claude Code's transcripts in our words: expectations are read off the fixtures by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiontree.core.context import build_session_context
from sessiontree.discovery.adapters.claude_content import read_usage
from sessiontree.discovery.adapters.records import RecordList
from sessiontree.importers.claude_code import Sidechain, convert_claude_code
from sessiontree.importers.foreign import ForeignDocument, load_foreign
from sessiontree.importers.transcript import Transcript
from sessiontree.model.messages import text_of

GOLDEN = Path(__file__).parents[2] / "golden" / "claude-code"
CURRENT = GOLDEN / "3f2a9c10-7b1e-4c55-9d0a-5e6f7a8b9c01.jsonl"
OLD = GOLDEN / "0c1d2e3f-old0-4000-8000-000000000001.jsonl"


@pytest.fixture(scope="module")
def current() -> ForeignDocument:
    return load_foreign(CURRENT)


@pytest.fixture(scope="module")
def old() -> ForeignDocument:
    return load_foreign(OLD)


def said(entries: list[Any]) -> list[tuple[str, str]]:
    """Role and text of the messages among entries."""
    return [
        (entry.data["message"]["role"], text_of(entry.data["message"].get("content")))
        for entry in entries
        if entry.type == "message"
    ]


def convert(*records: dict[str, Any], sidechains: list[Sidechain] | None = None) -> Transcript:
    return convert_claude_code(
        RecordList(list(records)), session_id="s", sidechains=sidechains or []
    )


def prompt(uuid: str, parent: str | None, text: object, **more: Any) -> dict[str, Any]:
    return {
        "type": "user",
        "uuid": uuid,
        "parentUuid": parent,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": text},
        **more,
    }


def answer(
    uuid: str, parent: str | None, message_id: str, *blocks: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {
        "type": "assistant",
        "uuid": uuid,
        "parentUuid": parent,
        "timestamp": "2026-01-01T00:00:01.000Z",
        "message": {
            "role": "assistant",
            "id": message_id,
            "model": "claude-opus-4-5",
            "content": list(blocks),
            **more,
        },
    }


def call(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": call_id}}


def result(uuid: str, parent: str, call_id: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": f"result of {call_id}"}
    return prompt(uuid, parent, [block])


def path_messages(transcript: Transcript) -> list[dict[str, Any]]:
    return build_session_context(transcript.entries, transcript.leaf_id).messages


def test_the_main_conversation_is_told_in_order(current: ForeignDocument) -> None:
    assert said(current.get_branch()) == [
        ("user", "Why does the parser drop the last line? Screenshot attached."),
        ("assistant", "Let me look at the reader and its tests."),
        ("toolResult", "     1→def parse(text):\n     2→    return text.split('\\n')[:-1]"),
        ("toolResult", "No matches found"),
        (
            "assistant",
            (
                "`[:-1]` always drops the last piece, also when there is no final newline. "
                "I'll have a subagent check the callers."
            ),
        ),
        ("toolResult", "Only cli.py calls parse()."),
        ("user", "keep the old behaviour behind a flag"),
        ("assistant", "Done: `parse(text, keep_last=True)`."),
        ("bashExecution", ""),
        ("user", "Write a changelog entry, one line only"),
        ("assistant", "Fixed: the parser keeps a last line without newline."),
        ("user", "Now benchmark it"),
        ("assistant", "API Error: 529 Overloaded"),
        ("user", "try again"),
        ("assistant", "Starting the benchm"),
        ("user", "[Request interrupted by user]"),
        ("user", "What is left to do?"),
        ("assistant", "Only the benchmark."),
    ]


def test_the_records_of_one_answer_become_one_message_with_the_last_counts(
    current: ForeignDocument,
) -> None:
    first = next(e for e in current.get_branch() if said([e])[:1] and "reader" in said([e])[0][1])
    message = first.data["message"]
    assert [block["type"] for block in message["content"]] == [
        "thinking",
        "text",
        "toolCall",
        "toolCall",
    ]
    assert message["content"][2] == {
        "type": "toolCall",
        "id": "toolu_01Read",
        "name": "Read",
        "arguments": {"file_path": "/home/ana/projects/parser/parse.py"},
    }
    assert (message["provider"], message["model"]) == ("anthropic", "claude-sonnet-4-5-20250929")
    assert message["stopReason"] == "toolUse"
    usage = message["usage"]
    assert (usage["input"], usage["output"]) == (4, 187)
    assert (usage["cacheRead"], usage["cacheWrite"]) == (11203, 512)
    assert usage["totalTokens"] == 4 + 187 + 11203 + 512


def test_images_stay_images(current: ForeignDocument) -> None:
    first = next(e for e in current.get_branch() if e.type == "message")
    image = first.data["message"]["content"][1]
    assert image["type"] == "image"
    assert image["mimeType"] == "image/png"
    assert image["data"].startswith("iVBORw0KGgo")


def test_tool_results_name_their_tool_and_keep_the_structured_result(
    current: ForeignDocument,
) -> None:
    results = [
        e.data["message"]
        for e in current.get_branch()
        if e.type == "message" and e.data["message"]["role"] == "toolResult"
    ]
    assert [message["toolName"] for message in results] == ["Read", "Grep", "Task"]
    assert results[0]["details"]["file"]["numLines"] == 2
    assert not any(message["isError"] for message in results)


def test_a_prompt_that_was_asked_again_leaves_a_branch(current: ForeignDocument) -> None:
    asked = [e for e in current.get_entries() if said([e]) and "changelog" in said([e])[0][1]]
    assert [said([e])[0][1] for e in asked] == [
        "Write a changelog entry",
        "Write a changelog entry, one line only",
    ]
    assert asked[0].parent_id == asked[1].parent_id
    assert said(current.get_children(asked[0].id)) == [("assistant", "### Fixed\n- parser")]


def test_a_compaction_keeps_the_preserved_records_in_context(current: ForeignDocument) -> None:
    context = current.build_session_context()
    summary, *rest = context.messages
    assert summary["role"] == "compactionSummary"
    assert summary["summary"].endswith("fixed behind keep_last.")
    assert summary["tokensBefore"] == 15422
    assert [text_of(message.get("content")) for message in rest] == [
        "try again",
        "Starting the benchm",
        "[Request interrupted by user]",
        "What is left to do?",
        "Only the benchmark.",
    ]
    assert context.models == {"default": "anthropic/claude-sonnet-4-5-20250929"}
    assert context.thinking_level == "high"


def test_errors_and_interruptions_are_told_by_the_stop_reason(current: ForeignDocument) -> None:
    by_text = {
        text_of(e.data["message"]["content"]): e.data["message"]
        for e in current.get_entries()
        if e.type == "message" and e.data["message"]["role"] == "assistant"
    }
    failed = by_text["API Error: 529 Overloaded"]
    assert failed["stopReason"] == "error"
    assert failed["errorMessage"] == "API Error: 529 Overloaded"
    assert failed["model"] == "claude-sonnet-4-5-20250929"
    assert by_text["Starting the benchm"]["stopReason"] == "aborted"
    assert by_text["Only the benchmark."]["stopReason"] == "stop"


def test_a_shell_command_and_its_output_are_one_message(current: ForeignDocument) -> None:
    shell = [
        e.data["message"]
        for e in current.get_branch()
        if e.type == "message" and e.data["message"]["role"] == "bashExecution"
    ]
    assert len(shell) == 1
    assert shell[0]["command"] == "pytest -q"
    assert shell[0]["output"] == "3 passed in 0.12s"


def test_what_the_user_did_not_type_is_no_user_message(current: ForeignDocument) -> None:
    hidden = [e.data for e in current.get_branch() if e.type == "custom_message"]
    assert [(data["customType"], data["display"]) for data in hidden] == [
        ("claude-code.meta", False),
        ("claude-code.command", True),
        ("claude-code.command", True),
    ]


def test_a_subagent_is_a_root_of_its_own_that_says_who_called_it(
    current: ForeignDocument,
) -> None:
    roots = current.get_tree()
    assert len(roots) == 2
    marker = roots[1].entry.data
    assert marker["customType"] == "claude-code.sidechain"
    caller = current.get_entry(marker["data"]["calledFrom"])
    assert caller is not None
    assert "toolu_01Task" in str(caller.data["message"]["content"])
    assert {k: marker["data"][k] for k in ("agentId", "agentType", "description")} == {
        "agentId": "a748733",
        "agentType": "Explore",
        "description": "Check callers",
    }
    last = [e for e in current.get_entries() if said([e])][-1]
    assert said(current.get_branch(last.id)) == [
        ("user", "Find every caller of parse()."),
        ("assistant", ""),
        ("toolResult", "cli.py:10: parse(text)"),
        ("assistant", "Only cli.py calls parse()."),
    ]


def test_the_users_title_wins_over_the_generated_one(current: ForeignDocument) -> None:
    assert current.title == "Last line bug"
    assert current.transcript.title_source == "user"


def test_what_has_no_counterpart_is_kept_and_reported(current: ForeignDocument) -> None:
    assert current.report.kept == {
        "mode": 1,
        "permission-mode": 1,
        "file-history-snapshot": 1,
        "attachment": 1,
        "last-prompt": 1,
        "queue-operation": 2,
        "system": 1,
        "pr-link": 1,
    }
    kept = [e.data for e in current.get_entries() if e.type == "custom"]
    pull_request = next(d for d in kept if d["customType"] == "claude-code.pr-link")
    assert pull_request["data"]["prUrl"] == "https://example.org/ana/parser/pull/12"
    assert [line for line, _ in current.report.skipped] == [21]


def test_an_old_file_keeps_its_sidechain_apart(old: ForeignDocument) -> None:
    assert said(old.get_branch()) == [
        ("user", "Add a price column"),
        ("assistant", ""),
        ("toolResult", "Agent failed"),
        ("assistant", "Going on."),
    ]
    assert len(old.get_tree()) == 2


def test_an_old_compaction_without_a_boundary_hides_what_came_before(
    old: ForeignDocument,
) -> None:
    messages = old.build_session_context().messages
    assert [message["role"] for message in messages] == ["compactionSummary", "assistant"]
    assert messages[0]["summary"] == "Summary: a price column is wanted."


def test_a_signature_of_another_provider_is_not_carried_over(old: ForeignDocument) -> None:
    thinking = old.get_branch()[2 + 1].data["message"]
    assert thinking["provider"] == "amazon-bedrock"
    assert thinking["content"][0] == {"type": "thinking", "thinking": "Where is the schema?"}


def test_a_signature_of_anthropic_is_carried_over(current: ForeignDocument) -> None:
    signatures = [
        block["thinkingSignature"]
        for e in current.get_branch()
        if e.type == "message" and e.data["message"]["role"] == "assistant"
        for block in e.data["message"]["content"]
        if block["type"] == "thinking"
    ]
    assert signatures == ["EqQBCkYIBxgCKkDw1F0bGh2Signature==", "EqQBOnlyASignature=="]


def test_an_old_cost_and_a_failed_tool_are_told(old: ForeignDocument) -> None:
    by_role = {
        e.data["message"]["role"]: e.data["message"] for e in old.get_branch()[:6] if said([e])
    }
    assert by_role["assistant"]["usage"]["cost"]["total"] == 0.0125
    assert by_role["toolResult"]["isError"] is True


@pytest.mark.parametrize("cost", [10**400, 1e999, True, "much", [1]])
def test_a_cost_that_is_none_is_none(cost: object) -> None:
    assert read_usage({}, cost)["cost"]["total"] == 0.0


def test_only_a_summary_of_this_session_is_its_title(old: ForeignDocument) -> None:
    assert old.title == "Price column"
    assert old.report.kept["summary"] == 1


def test_a_block_without_a_counterpart_follows_its_message(old: ForeignDocument) -> None:
    leaf = old.get_entry(old.leaf_id or "")
    assert leaf is not None
    assert leaf.data["customType"] == "claude-code.blocks"
    assert leaf.data["data"]["blocks"][0]["name"] == "web_search"
    parent = old.get_entry(leaf.parent_id or "")
    assert parent is not None
    assert parent.data["message"]["stopReason"] == "length"


@pytest.mark.parametrize("second_parent", ["a1", "r1"])
def test_parallel_results_come_after_the_whole_answer_wherever_they_hang(
    second_parent: str,
) -> None:
    transcript = convert(
        prompt("p", None, "do both"),
        answer("a1", "p", "m", call("one")),
        result("r1", "a1", "one"),
        answer("a2", second_parent, "m", call("two")),
        result("r2", "a2", "two"),
        answer("a3", "r1", "m2", {"type": "text", "text": "both done"}),
    )
    messages = path_messages(transcript)
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "toolResult",
        "toolResult",
        "assistant",
    ]
    assert [block["id"] for block in messages[1]["content"]] == ["one", "two"]
    assert [message["toolCallId"] for message in messages[2:4]] == ["one", "two"]


def test_a_lost_parent_is_bridged_and_reported() -> None:
    transcript = convert(
        prompt("p", None, "first"),
        answer("a", "p", "m", {"type": "text", "text": "yes"}),
        prompt("q", "lost", "second"),
    )
    assert [text_of(m["content"]) for m in path_messages(transcript)] == ["first", "yes", "second"]
    assert transcript.report.notes == ["some records hang on records that are not in the file"]


def test_a_record_that_was_written_twice_counts_once() -> None:
    twice = prompt("p", None, "hello")
    transcript = convert(twice, dict(twice))
    assert len(transcript.entries) == 1
    assert transcript.report.left_out["repeated records"] == 1


def test_a_compaction_without_preserved_records_keeps_nothing() -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b",
        "parentUuid": None,
        "logicalParentUuid": "a",
        "compactMetadata": {"trigger": "auto", "preTokens": 7},
    }
    transcript = convert(
        prompt("p", None, "first"),
        answer("a", "p", "m", {"type": "text", "text": "yes"}),
        boundary,
        prompt("s", "b", "the summary", isCompactSummary=True),
        prompt("q", "s", "second"),
    )
    messages = path_messages(transcript)
    assert [message["role"] for message in messages] == ["compactionSummary", "user"]
    compaction = next(e for e in transcript.entries if e["type"] == "compaction")
    assert compaction["firstKeptEntryId"] == compaction["id"]


def test_a_preserved_segment_that_names_its_own_boundary_does_no_harm() -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b",
        "parentUuid": None,
        "compactMetadata": {"preservedSegment": {"headUuid": "b", "tailUuid": "s"}},
    }
    transcript = convert(
        boundary, prompt("s", "b", "summary", isCompactSummary=True), prompt("q", "s", "go on")
    )
    assert [m["role"] for m in path_messages(transcript)] == ["compactionSummary", "user"]


def test_a_boundary_without_a_summary_hides_nothing() -> None:
    transcript = convert(
        prompt("p", None, "first"),
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "logicalParentUuid": "p"},
        prompt("q", "b", "second"),
    )
    assert [text_of(m["content"]) for m in path_messages(transcript)] == ["first", "second"]


def test_redacted_reasoning_is_kept_for_anthropic_only() -> None:
    redacted = {"type": "redacted_thinking", "data": "opaque"}
    ours = convert(answer("a", None, "m", redacted))
    assert ours.entries[-1]["message"]["content"] == [
        {
            "type": "thinking",
            "thinking": "[Reasoning redacted]",
            "thinkingSignature": "opaque",
            "redacted": True,
        }
    ]
    record = answer("a", None, "m", redacted)
    record["message"]["model"] = "glm-4.6"
    theirs = convert(record)
    assert theirs.report.kept == {"redacted_thinking block": 1}


def test_a_session_that_is_one_command_is_called_by_it() -> None:
    transcript = convert(
        prompt("p", None, "<command-name>/init</command-name>"),
        answer("a", "p", "m", {"type": "text", "text": "Reading"}),
    )
    assert transcript.title == "/init"


def test_a_fork_names_the_session_it_came_from() -> None:
    record = prompt("p", None, "hello", sessionId="s", forkedFrom={"sessionId": "origin"})
    assert convert(record).parent_session == "origin"


def test_the_same_records_give_the_same_entries_and_more_records_only_more() -> None:
    records = [
        prompt("p", None, "do both"),
        answer("a1", "p", "m", call("one")),
        result("r1", "a1", "one"),
        {"type": "last-prompt", "lastPrompt": "x"},
        prompt("q", "r1", "next"),
        {"type": "last-prompt", "lastPrompt": "x"},
        answer("a2", "q", "m2", {"type": "text", "text": "fine"}),
    ]
    whole = convert(*records).entries
    assert convert(*records).entries == whole
    for length in (1, 3, 4, 5, 6):
        part = convert(*records[:length]).entries
        assert part == whole[: len(part)]


def test_an_answer_that_grew_is_the_same_entry_with_more_in_it() -> None:
    records = [
        prompt("p", None, "do both"),
        answer("a1", "p", "m", call("one")),
        result("r1", "a1", "one"),
        answer("a2", "a1", "m", call("two")),
        result("r2", "a2", "two"),
    ]
    half = [e["id"] for e in convert(*records[:3]).entries]
    whole = convert(*records).entries
    assert [e["id"] for e in whole][: len(half)] == half
    grown = next(e for e in whole if e.get("message", {}).get("role") == "assistant")
    assert [block["id"] for block in grown["message"]["content"]] == ["one", "two"]
