"""What is special to Hermes Agent: rows that are taken back or compacted, sessions that go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent_databases import HermesDatabase, Record

from sessiontree import search
from sessiontree.discovery import catalogue
from sessiontree.discovery.adapters import get_adapter
from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.native_agent import native_command
from sessiontree.discovery.sources import find_sources
from sessiontree.importers.foreign import load_foreign


@pytest.fixture
def database(home: Path) -> Iterator[HermesDatabase]:
    catalogue.forget_process_memory()
    made = HermesDatabase(home)
    yield made
    made.close()
    catalogue.forget_process_memory()


def messages(path: str | Path) -> list[Record]:
    return list(load_foreign(path).build_session_context().messages)


def said(path: str | Path) -> list[str]:
    return [" ".join(block.get("text", "") for block in each["content"]) for each in messages(path)]


def test_what_was_taken_back_stays_as_a_branch(database: HermesDatabase) -> None:
    own = database.session("s1")
    database.message(own, "user", "go")
    database.message(own, "assistant", "one")
    wrong = database.message(own, "user", "wrong")
    database.message(own, "assistant", "oops")
    assert [info.message_count for info in list_agent_sessions("hermes")] == [4]
    database.run("UPDATE messages SET active = 0 WHERE id >= ?", wrong)
    (info,) = list_agent_sessions("hermes")
    assert info.status == "complete"
    assert said(info.path) == ["go", "one"]
    database.message(own, "user", "right")
    assert said(info.path) == ["go", "one", "right"]
    assert len([e for e in load_foreign(info.path).get_entries() if e.type == "message"]) == 5


def test_a_compaction_hides_the_rows_it_replaced(database: HermesDatabase) -> None:
    own = database.session("s1")
    database.message(own, "user", "first")
    database.message(own, "assistant", "a walrus")
    database.run("UPDATE messages SET active = 0, compacted = 1")
    database.message(own, "user", "[CONTEXT COMPACTION — REFERENCE ONLY] We met a walrus.")
    database.message(own, "user", "second")
    (info,) = list_agent_sessions("hermes")
    summary, prompt = messages(info.path)
    assert summary["summary"].endswith("We met a walrus.")
    assert prompt["role"] == "user"
    assert len(search("first")) == 1


def test_a_compaction_that_keeps_the_beginning_still_hides_the_rest(
    database: HermesDatabase,
) -> None:
    own = database.session("s1")
    database.message(own, "user", "first")
    database.message(own, "assistant", "long")
    database.run("UPDATE messages SET active = 0, compacted = 1")
    database.message(own, "user", "first")
    database.message(own, "assistant", "[CONTEXT SUMMARY]: long things")
    (info,) = list_agent_sessions("hermes")
    assert [each["role"] for each in messages(info.path)] == [
        "compactionSummary", "user", "custom",
    ]  # fmt: skip


def test_subagents_are_parts_but_branches_and_continuations_are_sessions(
    database: HermesDatabase,
) -> None:
    own = database.session("s1")
    database.message(own, "user", "go")
    child = database.session("s2", source="subagent", parent_session_id=own)
    database.message(child, "user", "find a quokka")
    branch = json.dumps({"_branched_from": own})
    database.message(
        database.session("s3", parent_session_id=own, model_config=branch), "user", "else"
    )
    database.session("s4", end_reason="compression", ended_at=1_767_260_000.0)
    database.message("s4", "user", "long ago")
    database.message(database.session("s5", parent_session_id="s4"), "user", "and on")
    found = {info.id: info.parent_session for info in list_agent_sessions("hermes")}
    assert found == {"s1": None, "s3": "s1", "s4": None, "s5": "s4"}
    assert [hit.session.id for hit in search("quokka")] == ["s1"]


def test_sums_grow_without_moving_an_entry(database: HermesDatabase) -> None:
    own = database.session("s1")
    database.message(own, "user", "go")
    database.used(own, actual_cost_usd=0.5)
    (info,) = list_agent_sessions("hermes")
    before = [entry.id for entry in load_foreign(info.path).get_entries()]
    database.message(own, "assistant", "one")
    database.run("UPDATE session_model_usage SET output_tokens = 90, last_seen = last_seen + 1")
    assert [entry.id for entry in load_foreign(info.path).get_entries()][: len(before)] == before
    (source,) = find_sources("hermes")
    (answers,) = source.survey_answers().values()
    assert [(row.output, row.cost) for row in answers.rows] == [(90, 0.5)]


def test_an_older_database_tells_sums_by_session(home: Path, database: HermesDatabase) -> None:
    database.run("DROP TABLE session_model_usage")
    for column in ("active", "compacted", "observed", "reasoning_content"):
        database.run(f"ALTER TABLE messages DROP COLUMN {column}")
    for column in ("cwd", "title", "actual_cost_usd", "end_reason"):
        database.run(f"ALTER TABLE sessions DROP COLUMN {column}")
    database.run(
        "INSERT INTO sessions (id, source, model, started_at, input_tokens, output_tokens)"
        " VALUES ('s1', 'cli', 'gpt-5', 1767258000.0, 70, 7)"
    )
    database.message("s1", "user", "hi")
    (info,) = list_agent_sessions("hermes")
    assert (info.id, info.first_message) == ("s1", "hi")
    (source,) = find_sources("hermes")
    (answers,) = source.survey_answers().values()
    assert [(row.input, row.output) for row in answers.rows] == [(70, 7)]
    assert answers.models == ["unknown/gpt-5"]


def test_images_and_what_others_said_in_a_group(database: HermesDatabase) -> None:
    own = database.session("s1", source="telegram", cwd=None)
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "input_audio", "data": "x"},
    ]
    database.message(own, "user", "overheard", observed=1)
    database.message(own, "user", "\x00json:" + json.dumps(parts))
    (info,) = list_agent_sessions("hermes")
    assert (info.first_message, info.message_count, info.cwd) == ("see", 1, "")
    overheard, prompt = messages(info.path)
    assert overheard["role"] == "custom"
    assert prompt["content"][1] == {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    assert load_foreign(info.path).report.kept == {"parts": 1}


def test_each_profile_has_its_own_database(home: Path, database: HermesDatabase) -> None:
    database.message(database.session("s1"), "user", "hi")
    other = HermesDatabase(home, "coder")
    other.message(other.session("s2"), "user", "hello")
    other.close()
    found = {info.id: info.path for info in list_agent_sessions("hermes")}
    assert set(found) == {"s1", "s2"}
    command = native_command("hermes", found["s2"], "s2", None)
    assert list(command.argv) == ["hermes", "--profile", "coder", "--resume", "s2"]
    assert get_adapter("hermes").has_row(found["s2"])
