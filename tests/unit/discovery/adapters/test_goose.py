"""What is special to Goose: compactions that hide, requests without an answer, old files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent_databases import GooseDatabase, Record, goose_call, goose_result
from tests.agent_samples import write_lines

from sessiontree import search
from sessiontree.discovery import catalogue
from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.sources import find_sources
from sessiontree.importers.foreign import load_foreign
from sessiontree.importers.imports import import_session


@pytest.fixture
def database(home: Path) -> Iterator[GooseDatabase]:
    catalogue.forget_process_memory()
    made = GooseDatabase(home)
    yield made
    made.close()
    catalogue.forget_process_memory()


def messages(path: str | Path) -> list[Record]:
    return list(load_foreign(path).build_session_context().messages)


def used() -> list[tuple[int, int, int, bool, float]]:
    (source,) = find_sources("goose")
    (answers,) = source.survey_answers().values()
    return [(r.input, r.output, r.cache_read, r.is_answer, r.cost) for r in answers.rows]


def test_a_compaction_hides_what_the_model_no_longer_sees(database: GooseDatabase) -> None:
    own = database.session("20260101_1")
    database.say(own, "user", "first", agentVisible=False)
    turn = {"userVisible": False, "turnContext": True}
    database.say(own, "user", "<turn-context>old</turn-context>", agentVisible=False, **turn)
    database.say(own, "assistant", "one", agentVisible=False)
    database.say(own, "user", "We said one.", userVisible=False)
    database.say(own, "assistant", "Go on naturally.", userVisible=False)
    database.say(own, "user", "second")
    database.say(own, "user", "<turn-context>now</turn-context>", **turn)
    (info,) = list_agent_sessions("goose")
    assert (info.first_message, info.message_count) == ("first", 3)
    found = messages(info.path)
    assert [each["role"] for each in found] == [
        "compactionSummary", "custom", "user", "custom",
    ]  # fmt: skip
    assert found[0]["summary"] == "We said one."
    assert load_foreign(info.path).report.kept == {"invisible": 1}


def test_a_rewritten_session_keeps_its_entries(database: GooseDatabase, tmp_path: Path) -> None:
    own = database.session("20260101_1")
    database.message(own, "assistant", {"type": "text", "text": "one"})
    database.run("UPDATE messages SET message_id = 'chatcmpl-1'")
    database.say(own, "user", "two")
    database.run("UPDATE messages SET message_id = 'chatcmpl-1'")
    (info,) = list_agent_sessions("goose")
    before = [entry.id for entry in load_foreign(info.path).get_entries()]
    assert len(set(before)) == len(before)
    import_session(info.path, session_dir=tmp_path)
    # A compaction writes all rows anew.
    database.run("UPDATE messages SET id = id + 100")
    assert [entry.id for entry in load_foreign(info.path).get_entries()] == before
    assert import_session(info.path, session_dir=tmp_path).is_unchanged


def test_a_request_counts_once_and_compactions_too(database: GooseDatabase) -> None:
    own = database.session("20260101_1")
    told = {"inputTokens": 440, "outputTokens": 20, "cacheReadTokens": 300, "cacheWriteTokens": 40}
    database.say(own, "user", "go")
    database.say(own, "assistant", "one", usage={**told, "cost": 0.25})
    database.used(own)
    database.used(own, input_tokens=1000, cache_read_tokens=None, cache_write_tokens=None)
    database.used(own, is_compaction=1)
    assert used() == [
        (100, 20, 300, True, 0.25),
        (1000, 20, 0, False, 0.25),
        (100, 20, 300, False, 0.25),
    ]


def test_an_older_database_only_adds_up(home: Path) -> None:
    database = GooseDatabase(home, has_ledger=False)
    sums = {"accumulated_input_tokens": 900, "accumulated_output_tokens": 50}
    own = database.session("20250101_1", **sums, accumulated_cost=0.5)
    database.say(own, "user", "go")
    assert used() == [(900, 50, 0, False, 0.5)]
    database.close()


def test_subagents_are_parts_of_their_session(database: GooseDatabase) -> None:
    own = database.session("20260101_1")
    database.say(own, "user", "go")
    child = database.session("20260101_2", session_type="sub_agent", parent_session_id=own)
    database.say(child, "user", "find a quokka")
    (info,) = list_agent_sessions("goose")
    assert (info.id, info.message_count) == (own, 1)
    assert [hit.session.id for hit in search("quokka")] == [own]
    assert "quokka" in str([entry.data for entry in load_foreign(info.path).get_entries()])


def test_names_that_goose_gives_at_first_are_no_titles(database: GooseDatabase) -> None:
    database.say(database.session("a"), "user", "hi")
    database.say(database.session("b", name="CLI Session", user_set_name=1), "user", "hi")
    database.say(database.session("c", name="", description="of old"), "user", "hi")
    titles = {info.id: info.title for info in list_agent_sessions("goose")}
    assert titles == {"a": None, "b": "CLI Session", "c": "of old"}


def test_odd_calls_and_results_are_told(database: GooseDatabase) -> None:
    own = database.session("20260101_1")
    failed = {"type": "toolRequest", "id": "c1", "toolCall": {"status": "error", "error": "bad"}}
    database.message(own, "assistant", failed, goose_call("c2", "screen"))
    error = {"type": "toolResponse", "id": "c1", "toolResult": {"status": "error", "error": "no"}}
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    resource = {"type": "resource", "resource": {"uri": "x", "text": "a file"}}
    database.message(own, "user", error, goose_result("c2", image, resource, isError=True))
    (info,) = list_agent_sessions("goose")
    answer, first, second = messages(info.path)
    assert [block["name"] for block in answer["content"]] == ["unknown", "screen"]
    assert answer["content"][0]["arguments"] == {"error": "bad"}
    assert (first["isError"], first["content"][0]["text"]) == (True, "no")
    assert [block["type"] for block in second["content"]] == ["image", "text"]
    assert second["isError"] is True


def test_files_of_old_versions_are_read_where_there_is_no_database(home: Path) -> None:
    folder = home / ".local/share/goose/sessions"
    write_lines(
        folder / "20240101_120000.jsonl",
        [
            {"working_dir": "/srv/shop", "description": "Of old", "message_count": 2},
            {"role": "user", "created": 1_704_110_400, "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "created": 1_704_110_401,
                "content": [{"type": "text", "text": "a heron"}],
            },
        ],
    )
    (info,) = list_agent_sessions("goose")
    assert (info.id, info.cwd, info.title) == ("20240101_120000", "/srv/shop", "Of old")
    assert [hit.session.id for hit in search("heron")] == ["20240101_120000"]
    assert [each["role"] for each in messages(info.path)] == ["user", "assistant"]
    assert load_foreign(info.path).agent == "goose"
    database = GooseDatabase(home)
    assert list_agent_sessions("goose") == []
    database.close()
