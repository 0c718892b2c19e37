"""Branching into a new file, and moving in the tree of the same one."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from sessiontree import FileSessionStorage
from sessiontree.errors import EntryNotFoundError, PersistenceError, SessionTreeError
from sessiontree.runtime import events
from sessiontree.runtime.agent_session import AgentSession
from sessiontree.runtime.hooks import Cancel, ProvidedSummary
from sessiontree.runtime.modes import Mode, ModeRegistry
from sessiontree.runtime.navigation import Navigation
from sessiontree.testing import FaultyStorage
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

from .rig import DEAR, THINKER, Boom, RecordingAgent, live, picture, saved, texts


def entry(session: AgentSession, text: str) -> str:
    """The id of the entry that says this."""
    for found in session.manager.get_entries():
        message: Any = found.data.get("message")
        if found.type == "message" and texts([message]) == [(message["role"], text)]:
            return found.id
        if found.type == "custom_message" and found.data["content"] == text:
            return found.id
    raise AssertionError(text)


async def talk(session: AgentSession, *prompts: str) -> None:
    for prompt in prompts:
        await session.prompt(prompt)


# --- into a new file --------------------------------------------------------------------------


async def test_a_branch_holds_everything_before_the_prompt_and_gives_its_text(
    tmp_path: Path,
) -> None:
    async with live(ScriptedAgent(["one", "two", "three"]), tmp_path) as session:
        await talk(session, "a", "b")
        here = session.session_file
        heard: list[Any] = []
        session.on("session_before_branch", heard.append)
        session.on("session_branch", heard.append)
        asked = entry(session, "b")
        assert await session.branch(asked) == "b"
        assert texts(session.messages) == [("user", "a"), ("assistant", "one")]
        assert session.session_file != here
        assert heard == [
            events.SessionBeforeBranch(asked),
            events.SessionBranch(here, session.session_file),
        ]
        await session.prompt("better b")
        assert saved(session.session_file) == [
            ("user", "a"),
            ("assistant", "one"),
            ("user", "better b"),
            ("assistant", "three"),
        ]
        assert len(saved(here)) == 4


async def test_a_branch_before_the_first_prompt_is_an_empty_session(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        await talk(session, "a")
        here = session.session_file
        assert await session.branch(entry(session, "a")) == "a"
        assert session.messages == []
        assert session.session_file != here
        assert session.model == THINKER


async def test_a_session_kept_nowhere_can_be_branched_too(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one", "two"]), tmp_path, persist=False) as session:
        await talk(session, "a", "b")
        assert await session.branch(entry(session, "b")) == "b"
        assert texts(session.messages) == [("user", "a"), ("assistant", "one")]


async def test_only_a_users_prompt_can_be_branched_from(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one"]), tmp_path) as session:
        await talk(session, "a")
        before = picture(session)
        with pytest.raises(SessionTreeError, match="is not a user message"):
            await session.branch(entry(session, "one"))
        with pytest.raises(EntryNotFoundError, match="Entry nope not found"):
            await session.branch("nope")
        assert picture(session) == before


async def test_a_hook_may_refuse_a_branch(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        await talk(session, "a")
        before = picture(session)
        session.on("session_before_branch", lambda payload: Cancel())
        assert await session.branch(entry(session, "a")) is None
        assert picture(session) == before


async def test_a_branch_that_fails_leaves_no_file_and_no_trace(tmp_path: Path) -> None:
    agent = RecordingAgent(["one", "two"])
    async with live(agent, tmp_path) as session:
        await talk(session, "a", "b")
        before = picture(session)
        files = _files(tmp_path)
        agent.notes.fail_at = "replace messages"
        with pytest.raises(Boom):
            await session.branch(entry(session, "b"))
        await session.stats()
        assert picture(session) == before
        assert _files(tmp_path) == files


def _files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file() and ".jsonl" in path.name}


# --- in the same file -------------------------------------------------------------------------


async def test_choosing_an_answer_goes_on_from_it(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one", "two", "three"]), tmp_path) as session:
        await talk(session, "a", "b")
        here, old_leaf = session.session_file, session.manager.leaf_id
        heard: list[Any] = []
        session.on("session_before_tree", heard.append)
        session.on("session_tree", heard.append)
        target = entry(session, "one")
        left = (entry(session, "b"), entry(session, "two"))
        assert await session.navigate_tree(target) == Navigation(True)
        assert session.session_file == here
        assert session.manager.leaf_id == target
        assert texts(session.messages) == [("user", "a"), ("assistant", "one")]
        assert heard == [
            events.SessionBeforeTree(target, old_leaf, target, left, False),
            events.SessionTree(old_leaf, target, None),
        ]
        await session.prompt("c")
        assert saved(here) == [
            ("user", "a"),
            ("assistant", "one"),
            ("user", "c"),
            ("assistant", "three"),
        ]


async def test_choosing_a_prompt_goes_before_it_and_gives_its_text(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one", "two"]), tmp_path) as session:
        await talk(session, "a")
        await session.send_custom_message("note", "by the way")
        await talk(session, "b")
        moved = await session.navigate_tree(entry(session, "b"))
        assert (moved.is_moved, moved.editor_text) == (True, "b")
        assert session.manager.leaf_id == entry(session, "by the way")
        moved = await session.navigate_tree(entry(session, "by the way"))
        assert moved.editor_text == "by the way"
        assert session.manager.leaf_id == entry(session, "one")


async def test_choosing_the_first_prompt_leads_before_all_messages(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        await talk(session, "a")
        assert (await session.navigate_tree(entry(session, "a"))).editor_text == "a"
        assert session.messages == []


async def test_moving_to_where_one_stands_does_nothing(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one"]), tmp_path) as session:
        await talk(session, "a")
        before = picture(session)
        assert not (await session.navigate_tree(entry(session, "one"))).is_moved
        assert picture(session) == before
        with pytest.raises(EntryNotFoundError):
            await session.navigate_tree("nope")


async def test_the_branch_left_is_summarised_if_so_wished(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one", "two"], summaries=["they tried b"])
    async with live(agent, tmp_path) as session:
        await talk(session, "a", "b")
        target = entry(session, "one")
        moved = await session.navigate_tree(target, summarize=True, instructions="be kind")
        assert moved.summary_entry_id == session.manager.leaf_id
        found = session.manager.get_entry(str(moved.summary_entry_id))
        assert found is not None
        assert (found.type, found.parent_id) == ("branch_summary", target)
        assert found.data["fromId"] == target
        assert "they tried b" in found.data["summary"]
        assert found.data["details"] == {"readFiles": [], "modifiedFiles": []}
        asked = agent.completions[0].messages[0]["content"][0]["text"]
        assert "[User] b" in asked
        assert "[Assistant] two" in asked
        assert "[User] a" not in asked
        assert "be kind" in asked
        assert session.messages[-1]["role"] == "branchSummary"


async def test_a_handler_may_bring_its_own_summary(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one", "two"])
    async with live(agent, tmp_path) as session:
        await talk(session, "a", "b")
        session.on("session_before_tree", lambda payload: ProvidedSummary("mine", {"k": 1}))
        moved = await session.navigate_tree(entry(session, "one"), summarize=True)
        found = session.manager.get_entry(str(moved.summary_entry_id))
        assert found is not None
        assert (found.data["summary"], found.data["details"]) == ("mine", {"k": 1})
        assert found.data["fromExtension"] is True
        assert agent.completions == []


async def test_a_branch_without_messages_is_not_summarised(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one"])
    async with live(agent, tmp_path) as session:
        await talk(session, "a")
        target = str(session.manager.leaf_id)
        await session.append_custom_entry("x", 1)
        moved = await session.navigate_tree(target, summarize=True)
        assert (moved.is_moved, moved.summary_entry_id) == (True, None)
        assert agent.completions == []


async def test_calling_off_the_summary_calls_off_the_move(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one", "two"], summaries=[Reply("they", hold=True)])
    async with live(agent, tmp_path) as session:
        await talk(session, "a", "b")
        await session.follow_up("later")
        before = picture(session)
        move = asyncio.create_task(session.navigate_tree(entry(session, "one"), summarize=True))
        await agent.wait_held()
        await session.abort()
        assert await move == Navigation(False, is_cancelled=True)
        assert picture(session) == before


async def test_a_summary_that_fails_fails_the_move(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one", "two"], summaries=[Reply(error="overloaded")])
    async with live(agent, tmp_path) as session:
        await talk(session, "a", "b")
        before = picture(session)
        with pytest.raises(SessionTreeError, match="overloaded"):
            await session.navigate_tree(entry(session, "one"), summarize=True)
        assert picture(session) == before


async def test_a_hook_may_refuse_a_move(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one", "two"]), tmp_path) as session:
        await talk(session, "a", "b")
        before = picture(session)
        session.on("session_before_tree", lambda payload: Cancel())
        moved = await session.navigate_tree(entry(session, "one"))
        assert moved == Navigation(False, is_cancelled=True)
        assert picture(session) == before


async def test_a_moved_session_is_as_if_it_had_been_opened_there(tmp_path: Path) -> None:
    modes = ModeRegistry([Mode("plan")])
    async with live(ScriptedAgent(["one", "two"]), tmp_path, modes=modes) as session:
        await talk(session, "a")
        await session.set_model(DEAR)
        await session.set_thinking_level("xhigh")
        await session.set_mode("plan")
        await talk(session, "b")
        end = str(session.manager.leaf_id)
        await session.navigate_tree(entry(session, "one"))
        assert (session.model, session.thinking_level) == (THINKER, "medium")
        assert (session.mode.name, session.agent.mode) == ("none", "none")
        await session.navigate_tree(end)
        assert (session.model, session.thinking_level) == (DEAR, "xhigh")
        assert (session.mode.name, session.agent.mode) == ("plan", "plan")


async def test_moving_in_mid_answer_records_it_as_aborted_on_its_branch(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one", Reply("two three", hold=True)])
    async with live(agent, tmp_path) as session:
        await talk(session, "a")
        target = str(session.manager.leaf_id)
        run = asyncio.create_task(session.prompt("b"))
        await agent.wait_held()
        assert (await session.navigate_tree(target)).is_moved
        await run
        assert texts(session.messages) == [("user", "a"), ("assistant", "one")]
        aborted = session.manager.get_entry(entry(session, "two t"))
        assert aborted is not None
        assert aborted.data["message"]["stopReason"] == "aborted"
        assert aborted.parent_id == entry(session, "b")


@pytest.mark.parametrize(
    "step",
    [
        "unsubscribe",
        "abort",
        "wait idle",
        "clear steering",
        "replace messages",
        "set model",
        "set thinking_level",
        "set mode",
        "subscribe",
    ],
)
async def test_a_fault_at_any_step_of_a_move_leaves_everything_as_it_was(
    step: str, tmp_path: Path
) -> None:
    agent = RecordingAgent(["one", "two", "three"])
    async with live(agent, tmp_path) as session:
        await talk(session, "a", "b")
        target = entry(session, "one")
        await session.steer("steered")
        before = picture(session)
        agent.notes.fail_at = step
        with pytest.raises(Boom):
            await session.navigate_tree(target)
        assert picture(session) == before
        await session.clear_queues()
        await session.prompt("c")
        assert saved(session.session_file)[-2:] == [("user", "c"), ("assistant", "three")]


async def test_a_move_that_ends_in_a_failed_write_is_undone_although_nothing_may_move_now(
    tmp_path: Path,
) -> None:
    storage = FaultyStorage(FileSessionStorage())
    opened: list[AgentSession] = []

    def note_down(_: object) -> None:
        if opened:
            opened[0].manager.append_custom_entry("entered")

    modes = ModeRegistry()
    agent = ScriptedAgent(["one", "two", "three"])
    async with live(agent, tmp_path, modes=modes, storage=storage) as session:
        modes.register(Mode("plan", enter=note_down))
        await session.set_mode("plan")
        await talk(session, "a")
        await session.set_mode("none")
        await talk(session, "b")
        before = picture(session)
        opened.append(session)
        storage.fail("write_line", errno.ENOSPC)
        with pytest.raises(PersistenceError):
            await session.navigate_tree(entry(session, "one"))
        assert picture(session) == before
        opened.clear()
        await session.recover()
        await session.prompt("c")
        assert saved(session.session_file)[-2:] == [("user", "c"), ("assistant", "three")]
