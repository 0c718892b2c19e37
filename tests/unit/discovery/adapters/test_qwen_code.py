"""What is special to Qwen Code: a tree of records, and messages that the user did not type."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.agent_kinds import QWEN_ID, qwen_answer, qwen_path, qwen_record
from tests.agent_samples import Record, write_lines

from sessiontree.discovery.adapters.records import read_records
from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.search import search
from sessiontree.discovery.sources import find_sources
from sessiontree.importers.foreign import detect_agent, load_foreign


def put(home: Path, *records: Record) -> Path:
    return write_lines(qwen_path(home), list(records))


def roles(path: Path) -> list[str]:
    return [message["role"] for message in load_foreign(path).build_session_context().messages]


def test_going_back_makes_a_branch(home: Path) -> None:
    path = put(
        home,
        qwen_record(1, "user", [{"text": "first"}]),
        qwen_answer(2, {"text": "one"}),
        qwen_record(3, "user", [{"text": "second"}]),
        qwen_answer(4, {"text": "two"}),
        qwen_record(5, "system", None, subtype="rewind", systemPayload={}, parentUuid="u2"),
    )
    document = load_foreign(path)
    assert [m["content"][0]["text"] for m in document.build_session_context().messages] == [
        "first",
        "one",
    ]
    assert document.report.messages == 4
    assert list_agent_sessions("qwen-code")[0].status == "complete"


def test_what_others_wrote_in_the_users_role_is_no_prompt(home: Path) -> None:
    path = put(
        home,
        qwen_record(1, "user", [{"text": "Every morning"}], subtype="cron"),
        qwen_record(
            2,
            "user",
            [{"text": "hello <hook>be brief</hook>"}],
            systemPayload={"displayText": "hello", "hookContext": "be brief"},
        ),
        qwen_answer(3, {"text": "hi"}),
    )
    (info,) = list_agent_sessions("qwen-code")
    assert (info.first_message, info.message_count) == ("hello", 2)
    assert roles(path) == ["custom", "custom", "user", "assistant"]


def test_a_compression_hides_what_came_before(home: Path) -> None:
    history = [
        {"role": "user", "parts": [{"text": "They greeted each other."}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
        {"role": "user", "parts": [{"text": "kept"}]},
    ]
    payload = {"info": {"originalTokenCount": 900}, "compressedHistory": history}
    path = put(
        home,
        qwen_record(1, "user", [{"text": "first"}]),
        qwen_answer(2, {"text": "one"}),
        qwen_record(3, "system", None, subtype="chat_compression", systemPayload=payload),
        qwen_record(4, "user", [{"text": "second"}]),
    )
    assert roles(path) == ["compactionSummary", "custom", "user"]
    assert load_foreign(path).report.messages == 3


@pytest.mark.parametrize("total", [420, 425])
def test_thoughts_count_once_however_the_backend_counts_them(home: Path, total: int) -> None:
    counts = {
        "promptTokenCount": 400,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 5,
        "totalTokenCount": total,
    }
    put(
        home,
        qwen_record(1, "user", [{"text": "a"}]),
        qwen_answer(2, {"text": "b"}, usageMetadata=counts),
    )
    (source,) = find_sources("qwen-code")
    ((row,),) = (each.rows for each in source.survey_answers().values())
    assert (row.input, row.output, row.reasoning) == (400, total - 400, 5)


def test_a_subagent_is_a_part_of_its_session(home: Path) -> None:
    path = put(home, qwen_record(1, "user", [{"text": "hello"}]), qwen_answer(2, {"text": "hi"}))
    below = path.parents[1] / "subagents" / QWEN_ID / "agent-explore-1.jsonl"
    write_lines(
        below, [qwen_record(1, "user", [{"text": "find a quokka"}], isSidechain=True, agentId="e")]
    )
    (info,) = list_agent_sessions("qwen-code")
    assert (info.id, info.message_count) == (QWEN_ID, 2)
    assert [hit.session.id for hit in search("quokka")] == [QWEN_ID]
    document = load_foreign(path)
    assert any("quokka" in str(entry.data) for entry in document.get_entries())
    assert len(document.build_session_context().messages) == 2


def test_its_files_are_not_taken_for_claude_codes(home: Path) -> None:
    path = put(home, qwen_record(1, "user", [{"text": "hello"}]), qwen_answer(2, {"text": "hi"}))
    assert detect_agent(str(path), read_records(path.read_bytes())) == "qwen-code"


def test_a_fork_names_the_session_it_was_made_from(home: Path) -> None:
    copied = {"forkedFrom": {"sessionId": "older", "messageUuid": "u1"}}
    put(home, qwen_record(1, "user", [{"text": "hello"}], **copied))
    assert list_agent_sessions("qwen-code")[0].parent_session == "older"


def test_other_files_beside_the_sessions_are_none(home: Path) -> None:
    path = put(home, qwen_record(1, "user", [{"text": "hello"}]))
    write_lines(path.with_name(f"{QWEN_ID}.ledger.jsonl"), [{"x": 1}])
    archived = path.parent / "archive" / path.name.replace("2.jsonl", "3.jsonl")
    write_lines(archived, [qwen_record(1, "user", [{"text": "old"}])])
    assert len(list_agent_sessions("qwen-code")) == 2


def test_one_id_for_all_records_takes_no_longer_than_they_are_long(home: Path) -> None:
    many = 10_000  # each compared with each it would take minutes
    path = put(home, *[qwen_record(1, "user", [{"text": "x"}], parentUuid="u1")] * many)
    start = time.process_time()
    assert len(load_foreign(path).get_entries()) == many
    assert time.process_time() - start < 15
