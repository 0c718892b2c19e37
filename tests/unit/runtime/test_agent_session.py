"""A live session saves what happens as it happens, and keeps its state in the file."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sessiontree.runtime import events
from sessiontree.runtime.agent import AgentBusyError
from sessiontree.runtime.agent_base import Progress
from sessiontree.runtime.models import ModelNotFoundError
from sessiontree.runtime.modes import Mode, ModeRegistry, ModeState
from sessiontree.runtime.operations import OperationInProgressError
from sessiontree.session.manager import SessionManager
from sessiontree.session.worker import SessionClosedError
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

from .rig import DEAR, PLAIN, THINKER, live, saved, texts


def watch(session: Any) -> list[Any]:
    heard: list[Any] = []
    session.subscribe(heard.append)
    return heard


async def test_every_finished_message_is_in_the_file_before_the_next_one_begins(
    tmp_path: Path,
) -> None:
    counts: list[tuple[int, int]] = []
    agent = ScriptedAgent([Reply("look", tool_calls=[("ls", {})]), "done"], tools={"ls": _ls})
    async with live(agent, tmp_path) as session:

        async def compare(event: Any) -> None:
            if isinstance(event, events.MessageEnd):
                entries = await session.read(lambda m: m.build_session_context().messages)
                counts.append((len(entries), len(agent.messages)))

        session.subscribe(compare)
        await session.prompt("what is here?")
        assert counts == [(1, 1), (2, 2), (3, 3), (4, 4)]
        assert saved(session.session_file) == texts(agent.messages)


async def _ls(arguments: Mapping[str, Any], progress: Progress) -> str:
    return "a.py b.py"


async def test_the_prompt_is_safe_before_the_model_is_asked(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply("hm", hold=True)])
    async with live(agent, tmp_path) as session:
        run = asyncio.create_task(session.prompt("do not lose me"))
        await agent.wait_held()
        assert any(b"do not lose me" in found for found in _drafts(tmp_path))
        agent.release()
        await run


def _drafts(folder: Path) -> list[bytes]:
    return [draft.read_bytes() for draft in folder.rglob("*.draft")]


async def test_an_aborted_turn_is_recorded_as_aborted(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply("one two", hold=True), "fresh"])
    async with live(agent, tmp_path) as session:
        run = asyncio.create_task(session.prompt("count"))
        await agent.wait_held()
        await session.abort()
        assert not session.is_running
        await run
        last = (await session.read(lambda m: m.build_session_context())).messages[-1]
        assert last["stopReason"] == "aborted"
        assert texts([last]) == [("assistant", "one ")]
        await session.prompt("again")
        assert texts(session.messages)[-1] == ("assistant", "fresh")


async def test_the_disk_is_touched_only_from_the_sessions_own_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set()
    original = SessionManager.append_message

    def noted(self: SessionManager, message: Any) -> str:
        threads.add(threading.current_thread().name)
        return original(self, message)

    monkeypatch.setattr(SessionManager, "append_message", noted)
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.prompt("hi")
    assert len(threads) == 1
    assert threading.current_thread().name not in threads


async def test_a_slow_disk_does_not_hold_up_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    original = SessionManager.append_message

    def slow(self: SessionManager, message: Any) -> str:
        assert gate.wait(30)
        return original(self, message)

    monkeypatch.setattr(SessionManager, "append_message", slow)
    async with live(ScriptedAgent(), tmp_path) as session:
        run = asyncio.create_task(session.prompt("hi"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not run.done()
        gate.set()
        await run
        assert len(session.messages) == 2


async def test_each_saved_message_is_told_with_its_entry(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        heard = watch(session)
        await session.prompt("hi")
        told = [e for e in heard if isinstance(e, events.MessageSaved)]
        entries = [e for e in session.manager.get_entries() if e.type == "message"]
        assert [(t.entry_id, t.message) for t in told] == [
            (e.id, e.data["message"]) for e in entries
        ]


async def test_a_session_opens_again_as_it_was_left(tmp_path: Path) -> None:
    modes = ModeRegistry([Mode("plan")])
    async with live(ScriptedAgent(["one"]), tmp_path, modes=modes) as session:
        await session.prompt("hi")
        await session.set_model("acme/dear")
        await session.set_thinking_level("xhigh")
        await session.set_mode("plan", {"file": "plan.md"})
        await session.set_session_name("The plan")
        path = session.session_file
    async with live(ScriptedAgent(), tmp_path, resume=path) as again:
        assert texts(again.messages) == [("user", "hi"), ("assistant", "one")]
        assert again.model == DEAR
        assert again.thinking_level == "xhigh"
        assert again.mode == ModeState("plan", {"file": "plan.md"})
        assert again.agent.mode == "plan"
        assert again.session_name == "The plan"
        assert again.agent.session_id == again.session_id


async def test_choosing_a_model_clamps_the_thinking_level_and_both_are_saved(
    tmp_path: Path,
) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        heard = watch(session)
        await session.set_thinking_level("high")
        await session.set_model(PLAIN)
        assert (session.model, session.thinking_level) == (PLAIN, "off")
        context = await session.read(lambda m: m.build_session_context())
        assert context.models["default"] == "acme/plain"
        assert context.thinking_level == "off"
        assert events.ModelChanged("acme/plain") in heard
        assert events.ThinkingLevelChanged("off", "high") in heard


async def test_a_level_beyond_the_model_is_clamped(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        assert await session.set_thinking_level("xhigh") == "high"
        assert session.thinking_level == "high"


async def test_a_level_that_is_in_force_is_not_written_again(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.set_thinking_level("low")
        before = len(session.manager.get_entries())
        await session.set_thinking_level("low")
        assert len(session.manager.get_entries()) == before


async def test_an_unknown_model_changes_nothing(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        before = len(session.manager.get_entries())
        with pytest.raises(ModelNotFoundError):
            await session.set_model("acme/gone")
        assert session.model == THINKER
        assert len(session.manager.get_entries()) == before


async def test_a_mode_that_refuses_is_not_saved(tmp_path: Path) -> None:
    def refuse(data: Any) -> None:
        raise RuntimeError("no")

    modes = ModeRegistry([Mode("plan", enter=refuse)])
    async with live(ScriptedAgent(), tmp_path, modes=modes) as session:
        with pytest.raises(RuntimeError):
            await session.set_mode("plan")
        assert session.mode == ModeState()
        assert all(e.type != "mode_change" for e in session.manager.get_entries())
        with pytest.raises(KeyError, match=r"No mode .*; there are none, plan"):
            await session.set_mode("hypnosis")


async def test_a_prompt_during_a_run_is_refused_and_steering_is_not(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply("first", hold=True), "second", "third"])
    async with live(agent, tmp_path) as session:
        heard = watch(session)
        run = asyncio.create_task(session.prompt("one"))
        await agent.wait_held()
        with pytest.raises(AgentBusyError):
            await session.prompt("two")
        await session.steer("left")
        await session.follow_up("later")
        assert texts(session.queued.steering) == [("user", "left")]
        assert texts(session.queued.follow_up) == [("user", "later")]
        agent.release()
        await run
        assert [text for role, text in texts(session.messages) if role == "user"] == [
            "one",
            "left",
            "later",
        ]
        assert session.queued == events.QueueChanged()
        told = [e for e in heard if isinstance(e, events.QueueChanged)]
        assert [len(e.steering) + len(e.follow_up) for e in told] == [1, 2, 1, 0]
        assert saved(session.session_file) == texts(session.messages)


class DeafAgent(ScriptedAgent):
    """Takes nothing from its queues."""

    async def _run(self, messages: Any) -> None:
        steering, follow_ups = self.steering, self.follow_ups
        self.steering, self.follow_ups = type(steering)(), type(follow_ups)()
        try:
            await super()._run(messages)
        finally:
            self.steering, self.follow_ups = steering, follow_ups


async def test_what_an_agent_left_in_its_queues_is_asked_by_the_session(tmp_path: Path) -> None:
    agent = DeafAgent(["first", "second", "third"])
    async with live(agent, tmp_path) as session:
        await session.steer("and?")
        await session.follow_up("then?")
        await session.prompt("one")
        assert [text for role, text in texts(session.messages) if role == "user"] == [
            "one",
            "and?",
            "then?",
        ]


async def test_after_an_abort_queued_messages_wait(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply("first", hold=True)])
    async with live(agent, tmp_path) as session:
        run = asyncio.create_task(session.prompt("one"))
        await agent.wait_held()
        await session.follow_up("later")
        await session.abort()
        await run
        assert texts(session.queued.follow_up) == [("user", "later")]
        assert texts(await session.clear_queues()) == [("user", "later")]
        assert session.queued == events.QueueChanged()


async def test_a_command_of_the_user_is_recorded_and_shown_to_the_model(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with live(agent, tmp_path) as session:
        await session.record_bash("ls", "a.py", 0)
        await session.record_bash("cat secret", "42", 1, exclude_from_context=True)
        await session.prompt("hi")
        asked = json.dumps(agent.requests[0].messages)
        assert "Ran `ls`" in asked
        assert "secret" not in asked
        messages = (await session.read(lambda m: m.build_session_context())).messages
        first, second = messages[:2]
        assert (first["role"], first["command"], first["exitCode"]) == ("bashExecution", "ls", 0)
        assert "excludeFromContext" not in first
        assert second["excludeFromContext"] is True
        assert list(session.messages) == messages


async def test_a_command_in_mid_turn_never_parts_a_call_from_its_result(tmp_path: Path) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def slow(arguments: Mapping[str, Any], progress: Progress) -> str:
        started.set()
        await go.wait()
        return "ok"

    agent = ScriptedAgent([Reply("", tool_calls=[("slow", {})]), "done"], tools={"slow": slow})
    async with live(agent, tmp_path) as session:
        run = asyncio.create_task(session.prompt("go"))
        await started.wait()
        await session.record_bash("date", "now", 0)
        go.set()
        await run
        roles = [m["role"] for m in session.messages]
        assert roles == ["user", "assistant", "toolResult", "bashExecution", "assistant"]
        context = await session.read(lambda m: m.build_session_context())
        assert context.messages == list(session.messages)


async def test_a_programs_message_is_a_custom_message_entry(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    async with live(agent, tmp_path) as session:
        await session.send_custom_message("note", "remember", details={"n": 1})
        await session.send_custom_message("note", "next time", deliver="next_turn")
        assert texts(session.queued.next_turn) == [("custom", "next time")]
        await session.prompt("hi")
        entries = [e for e in session.manager.get_entries() if e.type == "custom_message"]
        assert [e.data["content"] for e in entries] == ["remember", "next time"]
        assert entries[0].data["details"] == {"n": 1}
        assert [m["role"] for m in session.messages] == ["custom", "custom", "user", "assistant"]


async def test_stats_count_the_path_and_add_up_all_that_was_paid(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply("a", input_tokens=1_000_000, output_tokens=500_000)])
    async with live(agent, tmp_path, model=DEAR) as session:
        await session.prompt("hi")
        entry = next(e for e in session.manager.get_entries() if e.type == "message")
        await session.navigate_tree(entry.id)
        agent.say_next(Reply("b", input_tokens=1_000_000, output_tokens=0))
        await session.prompt("hello")
        stats = await session.stats()
        assert (stats.messages.user, stats.messages.assistant) == (1, 1)
        assert stats.usage.input == 2_000_000
        assert stats.usage.cost == pytest.approx(1.0 + 1.0 + 1.0)
        assert stats.context_tokens == 1_000_000
        assert stats.context_window == DEAR.context_window


async def test_a_session_kept_nowhere_works_alike(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one", "two"]), tmp_path, persist=False) as session:
        await session.prompt("hi")
        assert session.session_file is None
        assert len(session.messages) == 2
        assert await session.new_session()
        assert session.messages == []
        assert session.session_file is None
    assert not _session_files(tmp_path)


def _session_files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.jsonl"))


async def test_an_operation_from_inside_a_listener_that_would_wait_for_itself_is_refused(
    tmp_path: Path,
) -> None:
    refused: list[Exception] = []
    async with live(ScriptedAgent(), tmp_path) as session:

        async def clumsy(event: Any) -> None:
            if isinstance(event, events.MessageEnd):
                try:
                    await session.new_session()
                except OperationInProgressError as error:
                    refused.append(error)

        session.subscribe(clumsy)
        await asyncio.wait_for(session.prompt("hi"), 10)
    assert len(refused) == 2


async def test_a_listener_may_change_the_model_in_mid_run(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:

        async def change(event: Any) -> None:
            if isinstance(event, events.TurnStart):
                await session.set_model(DEAR)

        session.subscribe(change)
        await session.prompt("hi")
        assert session.messages[-1]["model"] == "dear"


async def test_a_closed_session_says_so_and_closing_twice_is_fine(tmp_path: Path) -> None:
    heard: list[Any] = []
    async with live(ScriptedAgent(), tmp_path) as session:
        session.on("session_shutdown", heard.append)
        await session.prompt("hi")
        await session.aclose()
        await session.dispose()
        with pytest.raises(SessionClosedError):
            await session.stats()
    assert len(heard) == 1


async def test_closing_in_mid_answer_saves_what_was_said(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply("one two", hold=True)])
    async with live(agent, tmp_path) as session:
        run = asyncio.create_task(session.prompt("count"))
        await agent.wait_held()
        path = session.session_file
        await session.aclose()
        await run
    assert saved(path) == [("user", "count"), ("assistant", "one ")]


async def test_a_programs_message_in_mid_run_is_steered_or_waits_for_the_end(
    tmp_path: Path,
) -> None:
    agent = ScriptedAgent([Reply("first", hold=True), "second", "third"])
    async with live(agent, tmp_path) as session:
        run = asyncio.create_task(session.prompt("one"))
        await agent.wait_held()
        await session.send_custom_message("note", "at the end", deliver="follow_up")
        await session.send_custom_message("note", "in between")
        assert texts(session.queued.steering) == [("custom", "in between")]
        agent.release()
        await run
        customs = [text for role, text in texts(session.messages) if role == "custom"]
        assert customs == ["in between", "at the end"]
        assert saved(session.session_file) == texts(session.messages)


async def test_labels_and_a_programs_own_data_are_kept_outside_the_conversation(
    tmp_path: Path,
) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.prompt("hi")
        answer = str(session.manager.leaf_id)
        await session.set_label(answer, "good")
        kept = await session.append_custom_entry("mine", {"n": 1})
        assert session.manager.get_label(answer) == "good"
        assert len(session.messages) == 2
        path = session.session_file
    with SessionManager.open(str(path)) as manager:
        found = manager.get_entry(kept)
        assert found is not None
        assert (found.data["customType"], found.data["data"]) == ("mine", {"n": 1})
        assert manager.get_label(answer) == "good"


async def test_an_operation_on_a_session_that_waits_for_its_turn_can_be_cancelled(
    tmp_path: Path,
) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def hold(payload: Any) -> None:
            reached.set()
            await go_on.wait()

        session.on("session_switch", hold)
        switch = asyncio.create_task(session.new_session())
        await reached.wait()
        waiting = asyncio.create_task(session.set_model(DEAR))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
        assert await switch
        assert session.model == THINKER
        await session.set_model(DEAR)


async def test_an_edit_of_the_context_reaches_the_agent(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply("secret"), Reply("again")])
    async with live(agent, tmp_path) as session:
        await session.prompt("hi")
        answer = session.manager.leaf_id
        assert answer is not None
        await session.edit_context(answer, {"content": "[removed]"})
        assert texts(session.messages) == [("user", "hi"), ("assistant", "[removed]")]
        await session.prompt("more")
        assert ("assistant", "secret") not in texts(agent.messages)
        await session.edit_context(answer, None)
        assert [m["role"] for m in session.messages] == ["user", "user", "assistant"]


async def test_an_edit_that_another_process_makes_reaches_the_agent(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply("secret")])
    async with live(agent, tmp_path) as session:
        await session.prompt("hi")
        with SessionManager.open(str(session.session_file)) as other:
            assert other.leaf_id is not None
            other.append_context_edit(other.leaf_id, None)
        assert await session.catch_up() == 1
        assert texts(session.messages) == [("user", "hi")]
