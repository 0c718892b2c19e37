"""Compaction through the agent: by request, above the threshold, and after an overflow."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.core.compaction import CompactionError, CompactionSettings, estimate_path
from sessiontree.errors import EntryNotFoundError
from sessiontree.model.entries import Entry
from sessiontree.runtime import events
from sessiontree.runtime.compacting import estimate_session
from sessiontree.runtime.hooks import Cancel, ProvidedSummary
from sessiontree.runtime.models import Model, ModelRegistry
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

from .rig import Boom, RecordingAgent, live, picture, saved, texts

SMALL = RuntimeSettings(compaction=CompactionSettings(keep_recent_tokens=100))
LONG = "x" * 2_000


def watch(session: Any) -> list[Any]:
    heard: list[Any] = []
    session.subscribe(heard.append)
    return heard


@pytest.mark.parametrize("cut", ["none", "compaction", "reset", "compaction, reset", "both ways"])
def test_an_estimate_looks_no_further_back_than_the_latest_cut(
    cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionManager.in_memory()

    def talk() -> None:
        for number in range(10):
            session.append_message(user(f"question {number}"))
            session.append_message(assistant(f"answer {number}"))

    talk()
    kept = session.get_entries()[-2].id
    if cut in ("compaction", "compaction, reset"):
        session.append_compaction("summary", kept, 5_000)
        talk()
    if cut in ("reset", "compaction, reset", "both ways"):
        session._session.append("reset_boundary", {})
        talk()
    if cut == "both ways":
        session.append_compaction("summary", session.get_entries()[-2].id, 5_000)
        talk()
    expected = estimate_path(session.get_branch())
    walked = Counter[str]()
    get = SessionManager.get_entry

    def counting(self: SessionManager, entry_id: str) -> Entry | None:
        walked["entries"] += 1
        return get(self, entry_id)

    monkeypatch.setattr(SessionManager, "get_entry", counting)
    monkeypatch.setattr(SessionManager, "get_branch", None)  # the whole path is not asked for
    assert estimate_session(session) == expected
    assert walked["entries"] <= 21


async def test_a_requested_compaction_keeps_the_rest_and_shows_the_summary(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one " + LONG, "two " + LONG], summaries=["## Goal\nFind b."])
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        await session.prompt("b")
        heard = watch(session)
        told: list[Any] = []
        session.on("session_before_compact", told.append)
        session.on("session_compact", told.append)
        entry_id = await session.compact("mind the tests")
        found = session.manager.get_entry(entry_id)
        assert found is not None
        assert found.type == "compaction"
        assert found.data["summary"] == "## Goal\nFind b.\n\n---\n\n" + _turn_part(found)
        assert found.data["shortSummary"] == "Find b."
        assert found.data["details"] == {"readFiles": [], "modifiedFiles": []}
        assert found.data["tokensBefore"] > 500
        assert [m["role"] for m in session.messages] == ["compactionSummary", "assistant"]
        context = await session.read(lambda m: m.build_session_context())
        assert context.messages == list(session.messages)
        assert "mind the tests" in agent.completions[0].messages[0]["content"][0]["text"]
        assert [type(e).__name__ for e in heard] == [
            "CompactionStart",
            "CompactionEnd",
            "SessionReplaced",
        ]
        assert isinstance(told[0], events.SessionBeforeCompact)
        assert told[0].reason == "request"
        assert told[1] == events.SessionCompact(entry_id, False)
        await session.prompt("c")
        assert texts(session.messages)[-1] == ("assistant", "Done.")


def _turn_part(entry: Any) -> str:
    """The cut is inside b's turn, so its beginning is told apart, by the script's default."""
    tail = entry.data["summary"].split("---\n\n", 1)[1]
    assert tail.endswith("Done.")
    return str(tail)


async def test_what_a_user_is_told_when_there_is_nothing_to_do(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one " + LONG, "two " + LONG])
    async with live(agent, tmp_path, settings=SMALL) as session:
        with pytest.raises(CompactionError, match=r"^Nothing to compact \(session too small\)$"):
            await session.compact()
        await session.prompt("a")
        await session.prompt("b")
        await session.compact()
        before = picture(session)
        with pytest.raises(CompactionError, match=r"^Already compacted$"):
            await session.compact()
        assert picture(session) == before


async def test_an_abort_calls_off_a_compaction(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one " + LONG, "two " + LONG], summaries=[Reply("so", hold=True)])
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        await session.prompt("b")
        before = picture(session)
        heard = watch(session)
        compaction = asyncio.create_task(session.compact())
        await agent.wait_held()
        await session.abort()
        with pytest.raises(CompactionError, match=r"^Compaction cancelled$"):
            await compaction
        assert heard[-1] == events.CompactionEnd("request", error="Compaction cancelled")
        before["listeners of the session"] += 1
        assert picture(session) == before


async def test_a_hook_may_call_off_a_compaction_or_bring_the_summary(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one " + LONG, "two " + LONG])
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        await session.prompt("b")
        remove = session.on("session_before_compact", lambda payload: Cancel())
        with pytest.raises(CompactionError, match=r"^Compaction cancelled$"):
            await session.compact()
        remove()
        remove = session.on(
            "session_before_compact", lambda payload: ProvidedSummary("x", None, "nope")
        )
        with pytest.raises(EntryNotFoundError):
            await session.compact()
        remove()
        session.on("session_before_compact", lambda payload: ProvidedSummary("mine", {"k": 1}))
        found = session.manager.get_entry(await session.compact())
        assert found is not None
        assert (found.data["summary"], found.data["fromExtension"]) == ("mine", True)
        assert agent.completions == []


async def test_a_summariser_that_fails_changes_nothing(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        ["one " + LONG, "two " + LONG], summaries=[Reply(error="overloaded"), Reply("  ")]
    )
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        await session.prompt("b")
        before = picture(session)
        with pytest.raises(CompactionError, match="overloaded"):
            await session.compact()
        with pytest.raises(CompactionError, match="no text"):
            await session.compact()
        assert picture(session) == before


async def test_an_agent_that_refuses_the_new_messages_goes_on_with_the_old_ones(
    tmp_path: Path,
) -> None:
    agent = RecordingAgent(["one " + LONG, "two " + LONG, "three"])
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        await session.prompt("b")
        messages, leaf = list(session.messages), session.manager.leaf_id
        agent.notes.fail_at = "replace messages"
        with pytest.raises(Boom):
            await session.compact()
        assert (list(session.messages), session.manager.leaf_id) == (messages, leaf)
        await session.prompt("c")
        assert saved(session.session_file) == texts(session.messages)


async def test_a_conversation_above_the_threshold_is_compacted_by_itself(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        ["one " + LONG, Reply("two " + LONG, input_tokens=190_000), "three"], summaries=["notes"]
    )
    async with live(agent, tmp_path, settings=SMALL) as session:
        heard = watch(session)
        await session.prompt("a")
        assert not any(isinstance(e, events.CompactionStart) for e in heard)
        await session.prompt("b")
        told = [e for e in heard if isinstance(e, events.CompactionStart | events.CompactionEnd)]
        assert [(type(e).__name__, e.reason) for e in told] == [
            ("CompactionStart", "threshold"),
            ("CompactionEnd", "threshold"),
        ]
        assert session.messages[0]["role"] == "compactionSummary"
        count = len(agent.completions)
        await session.prompt("c")
        assert len(agent.completions) == count
        assert texts(session.messages)[-1] == ("assistant", "three")


async def test_compaction_by_itself_can_be_switched_off(tmp_path: Path) -> None:
    agent = ScriptedAgent([LONG, Reply(LONG, input_tokens=190_000)])
    off = RuntimeSettings(compaction=CompactionSettings(enabled=False, keep_recent_tokens=100))
    async with live(agent, tmp_path, settings=off) as session:
        await session.prompt("a")
        await session.prompt("b")
        assert agent.completions == []
        await session.compact()
        assert session.messages[0]["role"] == "compactionSummary"


async def test_a_failing_compaction_by_itself_never_breaks_a_prompt(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        [LONG, Reply(LONG, input_tokens=190_000), "three"],
        summaries=[Reply(error="overloaded"), Reply(error="overloaded"), Reply(error="x")],
    )
    async with live(agent, tmp_path, settings=SMALL) as session:
        heard = watch(session)
        await session.prompt("a")
        await session.prompt("b")
        await session.prompt("c")
        assert texts(session.messages)[-1] == ("assistant", "three")
        ends = [e for e in heard if isinstance(e, events.CompactionEnd)]
        assert ends
        assert all("overloaded" in str(e.error) or e.error == "Summary failed: x" for e in ends)


OVERFLOW = Reply(error="prompt is too long: 213462 tokens > 200000 maximum")


async def test_an_overflow_is_compacted_and_tried_again_once(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one " + LONG, OVERFLOW, "finally"], summaries=["notes"])
    async with live(agent, tmp_path, settings=SMALL) as session:
        heard = watch(session)
        await session.prompt("a")
        await session.prompt("b " + LONG)
        assert texts(session.messages)[-1] == ("assistant", "finally")
        assert session.messages[0]["role"] == "compactionSummary"
        assert all(m.get("stopReason") != "error" for m in session.messages)
        ends = [e for e in heard if isinstance(e, events.CompactionEnd)]
        assert [(e.reason, e.will_retry) for e in ends] == [("overflow", True)]
        # what happened, happened: the log keeps the failed answer
        kept = [e.data["message"].get("stopReason") for e in _messages(session)]
        assert "error" in kept
        asked = agent.requests[-1].messages
        assert asked[-1]["role"] == "user"


def _messages(session: Any) -> list[Any]:
    return [e for e in session.manager.get_entries() if e.type == "message"]


async def test_a_second_overflow_is_not_tried_again(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one " + LONG, OVERFLOW, OVERFLOW, "never"], summaries=["notes"])
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        await session.prompt("b " + LONG)
        assert session.messages[-1]["stopReason"] == "error"
        assert len(agent.requests) == 3


async def test_an_overflow_that_can_not_be_compacted_stands_as_it_is(tmp_path: Path) -> None:
    agent = ScriptedAgent([OVERFLOW, "never"])
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        assert session.messages[-1]["stopReason"] == "error"
        assert len(agent.requests) == 1


async def test_the_previous_summary_is_carried_on(tmp_path: Path) -> None:
    agent = ScriptedAgent(default=Reply(LONG), summaries=["first notes", "t", "second notes"])
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        await session.prompt("b")
        await session.compact()
        await session.prompt("c")
        await session.prompt("d")
        agent.summaries[:] = []
        agent.default = Reply("second notes")
        await session.compact()
        asked = agent.completions[2].messages[0]["content"][0]["text"]
        assert "<previous-notes>\nfirst notes" in asked
        summary = session.messages[0]["summary"]
        assert summary.startswith("second notes")


async def test_files_read_and_changed_are_listed_across_compactions(tmp_path: Path) -> None:
    async def done(arguments: Any, progress: Any) -> str:
        return "ok"

    agent = ScriptedAgent(
        [
            Reply("", tool_calls=[("read", {"path": "a.py"}), ("edit", {"path": "b.py"})]),
            Reply(LONG),
            Reply("", tool_calls=[("write", {"path": "a.py"})]),
            Reply(LONG),
        ],
        tools={"read": done, "edit": done, "write": done},
        default="notes",
    )
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("go")
        first = session.manager.get_entry(await session.compact())
        await session.prompt("on")
        second = session.manager.get_entry(await session.compact())
        assert first is not None
        assert second is not None
        assert first.data["details"] == {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}
        assert second.data["details"] == {"readFiles": [], "modifiedFiles": ["a.py", "b.py"]}
        assert "<modified-files>\na.py\nb.py\n</modified-files>" in second.data["summary"]
        assert "<read-files>" not in second.data["summary"]


async def test_a_conversation_far_beyond_a_small_window_is_summarised_in_pieces(
    tmp_path: Path,
) -> None:
    big = Model("acme", "big", context_window=1_000_000)
    tiny = Model("acme", "tiny", context_window=8_000, max_output=2_000)
    models = ModelRegistry([big, tiny], default="acme/big")
    agent = ScriptedAgent(default=Reply("y" * 8_000))
    settings = RuntimeSettings(compaction=CompactionSettings(keep_recent_tokens=500))
    async with live(agent, tmp_path, models=models, settings=settings) as session:
        for n in range(12):
            await session.prompt(f"question {n}")
        await session.set_model("acme/tiny")
        agent.default = Reply("notes")
        await session.compact()
        assert len(agent.completions) > 3
        for request in agent.completions:
            text = request.messages[0]["content"][0]["text"]
            assert len(text) / 4 + (request.max_tokens or 0) <= 8_000
        everything = "".join(r.messages[0]["content"][0]["text"] for r in agent.completions)
        assert all(f"question {n}" in everything for n in range(12))


async def test_a_switch_calls_off_a_compaction_under_way(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one " + LONG, "two " + LONG], summaries=[Reply("so", hold=True)])
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        await session.prompt("b")
        here = session.session_file
        compaction = asyncio.create_task(session.compact())
        await agent.wait_held()
        assert await session.new_session()
        with pytest.raises(CompactionError, match=r"^Compaction cancelled$"):
            await compaction
        assert session.messages == []
        assert len(saved(here)) == 4


async def test_an_abort_during_a_compaction_by_itself_lets_queued_messages_wait(
    tmp_path: Path,
) -> None:
    agent = ScriptedAgent(
        ["one " + LONG, Reply("two " + LONG, input_tokens=190_000)],
        summaries=[Reply("so", hold=True)],
    )
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        run = asyncio.create_task(session.prompt("b"))
        await agent.wait_held()
        agent.follow_ups.put({"role": "user", "content": "later", "timestamp": 1})
        await session.abort()
        await run
        assert texts(session.queued.follow_up) == [("user", "later")]
        assert texts(session.messages)[-1] == ("assistant", "two " + LONG)


async def test_compacting_in_mid_answer_stops_it_first(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one " + LONG, Reply("two " + LONG, hold=True)], summaries=["notes"])
    async with live(agent, tmp_path, settings=SMALL) as session:
        await session.prompt("a")
        run = asyncio.create_task(session.prompt("b"))
        await agent.wait_held()
        await session.compact()
        await run
        assert session.messages[-1]["stopReason"] == "aborted"
        assert session.messages[0]["role"] == "compactionSummary"
