"""What is special to Gemini CLI: a log of changes, two formats, nameless folders."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest
from tests.agent_kinds import (
    GEMINI_ID,
    append_lines,
    gemini_answer,
    gemini_call,
    gemini_file,
    gemini_head,
    gemini_message,
)
from tests.agent_samples import Record, write_lines

from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.search import search
from sessiontree.importers.foreign import ForeignDocument, load_foreign


def put(home: Path, *records: Record) -> Path:
    return write_lines(gemini_file(home), [gemini_head(), *records])


def said(document: ForeignDocument) -> list[str]:
    """The conversation as the model sees it, one text a message."""
    texts = []
    for message in document.build_session_context().messages:
        content = message.get("content") or message.get("summary")
        blocks = content if isinstance(content, list) else [{"text": content}]
        texts.append(" ".join(str(block.get("text", "")) for block in blocks))
    return texts


def test_a_message_written_again_counts_once_as_it_was_last(home: Path) -> None:
    answer = gemini_answer(2, "Once.", tokens=None)
    put(home, gemini_message(1, "user", "hello"), answer, gemini_answer(2, "Once.", model="g"))
    (info,) = list_agent_sessions("gemini-cli")
    assert info.message_count == 2
    assert said(load_foreign(info.path)) == ["hello", "Once."]
    assert len(search("once")) == 1


def test_what_was_taken_back_stays_as_a_branch(home: Path) -> None:
    path = put(
        home,
        gemini_message(1, "user", "first"),
        gemini_answer(2, "one"),
        gemini_message(3, "user", "second"),
        gemini_answer(4, "two", toolCalls=[{"id": "c", "name": "bash", "args": {}}]),
        {"$rewindTo": "m3"},
    )
    assert list_agent_sessions("gemini-cli")[0].status == "complete"
    with path.open("a") as file:
        file.write(json.dumps(gemini_message(5, "user", "other")) + "\n")
    document = load_foreign(path)
    assert said(document) == ["first", "one", "other"]
    assert document.report.messages == 5
    assert [len(node.children) for node in document.get_tree()] == [1]
    (info,) = list_agent_sessions("gemini-cli")
    assert (info.message_count, info.status) == (5, "interrupted")


def test_a_compression_hides_what_it_sums_up(home: Path) -> None:
    summary = gemini_message(9, "user", [{"text": "They greeted each other."}])
    kept = gemini_message(3, "user", "second")
    path = put(
        home,
        gemini_message(1, "user", "first"),
        gemini_answer(2, "one"),
        kept,
        gemini_answer(4, "two"),
        {"$set": {"messages": [summary, kept, gemini_answer(4, "two")]}},
        gemini_message(5, "user", "third"),
    )
    document = load_foreign(path)
    assert said(document) == ["They greeted each other.", "second", "two", "third"]
    assert document.report.messages == 5


def test_output_that_was_shortened_stays_whole(home: Path) -> None:
    call, short = gemini_call("a long zebra"), gemini_call("[masked]")
    path = put(
        home,
        gemini_message(1, "user", "first"),
        gemini_answer(2, "one", toolCalls=[call]),
        {
            "$set": {
                "messages": [
                    gemini_message(1, "user", "first"),
                    gemini_answer(2, "one", toolCalls=[short]),
                ]
            }
        },
    )
    assert "a long zebra" in said(load_foreign(path))


def test_the_older_format_is_one_document(home: Path) -> None:
    path = gemini_file(home).with_suffix(".json")
    path.parent.mkdir(parents=True)
    messages = [gemini_message(1, "user", "an old walrus"), gemini_answer(2, "yes")]
    path.write_text(json.dumps({**gemini_head(), "messages": messages}, indent=2))
    (info,) = list_agent_sessions("gemini-cli")
    assert (info.id, info.message_count, info.path) == (GEMINI_ID, 2, str(path))
    assert said(load_foreign(path)) == ["an old walrus", "yes"]
    # Resumed, it goes on in the new format; the old file stays.
    put(home, *messages, gemini_message(3, "user", "again"))
    (info,) = list_agent_sessions("gemini-cli")
    assert (info.message_count, info.path) == (3, str(path) + "l")


def test_the_project_is_found_by_the_registry_too(home: Path) -> None:
    registry = home / ".gemini" / "projects.json"
    put(home, gemini_message(1, "user", "hello"))
    assert list_agent_sessions("gemini-cli")[0].cwd == ""
    registry.write_text(json.dumps({"projects": {"/srv/other": "shop", "/srv/hashed": "x"}}))
    hashed = hashlib.sha256(b"/srv/hashed").hexdigest()
    folder = home / ".gemini" / "tmp" / hashed / "chats"
    write_lines(
        folder / "session-2026-01-01T09-00-abcdabcd.jsonl",
        [{**gemini_head(), "sessionId": "abcdabcd-1"}, gemini_message(1, "user", "in the hash")],
    )
    found = {info.id: info.cwd for info in list_agent_sessions("gemini-cli", "/srv/hashed")}
    assert found == {"abcdabcd-1": "/srv/hashed"}


def test_a_subagent_is_a_part_of_its_session(home: Path) -> None:
    path = put(home, gemini_message(1, "user", "hello"), gemini_answer(2, "hi"))
    head = {**gemini_head(), "sessionId": "sub-1", "kind": "subagent"}
    write_lines(
        path.parent / GEMINI_ID / "sub-1.jsonl", [head, gemini_message(1, "user", "find a quokka")]
    )
    (info,) = list_agent_sessions("gemini-cli")
    assert (info.id, info.message_count) == (GEMINI_ID, 2)
    (hit,) = search("quokka")
    assert hit.session.id == GEMINI_ID
    document = load_foreign(path)
    assert said(document) == ["hello", "hi"]
    assert any("quokka" in str(entry.data) for entry in document.get_entries())


def test_what_the_program_added_is_no_prompt(home: Path) -> None:
    put(
        home,
        gemini_message(1, "user", "<session_context>\nToday is Thursday\n</session_context>"),
        gemini_message(2, "user", "hello"),
    )
    (info,) = list_agent_sessions("gemini-cli")
    assert (info.first_message, info.message_count) == ("hello", 1)


def test_many_changes_take_no_longer_than_they_are_long(home: Path) -> None:
    many = 30_000  # each compared with each it would take half a minute
    messages = [gemini_message(n, "user", "x") for n in range(many)]
    again = [gemini_message(many - 1, "user", f"y{n}") for n in range(many)]
    back = [{"$rewindTo": f"none{n}"} for n in range(many)]
    whole = {"$set": {"messages": messages[::-1]}}
    put(home, *messages, *again, *back, whole)
    start = time.process_time()
    (info,) = list_agent_sessions("gemini-cli")
    assert info.message_count == many
    assert time.process_time() - start < 15


@pytest.mark.parametrize("name", ["x\ud83d", "x\0y", "../../elsewhere", "x" * 5_000])
def test_an_id_that_no_folder_can_have_is_one_without_subagents(home: Path, name: str) -> None:
    head = {**gemini_head(), "sessionId": name}
    path = gemini_file(home)
    path.parent.mkdir(parents=True)
    append_lines(path, [head, gemini_message(1, "user", "hello")])
    assert said(load_foreign(path)) == ["hello"]
