"""Switching: fifteen steps in order, or none; whatever fails, and whenever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sessiontree.errors import NotASessionError, PersistenceError, SessionTreeError
from sessiontree.profiles import Profile
from sessiontree.runtime import events
from sessiontree.runtime.agent_base import Progress
from sessiontree.runtime.agent_session import AgentSession
from sessiontree.runtime.hooks import Cancel
from sessiontree.runtime.modes import Mode, ModeRegistry, ModeState
from sessiontree.runtime.operations import OperationInProgressError
from sessiontree.session.manager import SessionManager
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

from .rig import (
    DEAR,
    PLAIN,
    THINKER,
    Boom,
    RecordingAgent,
    file_bytes,
    live,
    noted_manager,
    picture,
    saved,
)
from .rig import texts as said


def make_session(
    folder: Path,
    *,
    model: str | None = None,
    level: str | None = None,
    mode: str | None = None,
    project: Path | None = None,
) -> str:
    """A session file with one exchange, of this project (else of the folder itself)."""
    profile = Profile("sessiontree", str(folder / "agent"), "omp")
    with SessionManager.create(project or folder, profile=profile) as manager:
        if model is not None:
            manager.append_model_change(model)
        if level is not None:
            manager.append_thinking_level_change(level)
        if mode is not None:
            manager.append_mode_change(mode, {"from": "file"})
        manager.append_message({"role": "user", "content": "old question", "timestamp": 1})
        manager.append_message(
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "old answer"}],
                "stopReason": "stop",
                "timestamp": 2,
            }
        )
        assert manager.session_file is not None
        return manager.session_file


OLD = [("user", "old question"), ("assistant", "old answer")]

STEPS = [
    "unsubscribe",  # 3
    "abort",  # 4
    "wait idle",
    "clear steering",  # 5
    "clear follow-ups",
    "clear next turn",
    "flush",  # 6
    "open the session",  # 7
    "set session_id",  # 8
    "set cwd",
    "build_session_context",  # 9
    "tell session_switch",  # 10
    "replace messages",  # 11
    "set model",  # 12
    "set thinking_level",  # 13
    "append_thinking_level_change",
    "enter plan",  # 14
    "set mode",
    "subscribe",  # 15
]


class Stage:
    """A live session with something in every place, and notes of every step."""

    def __init__(self) -> None:
        self.agent = RecordingAgent(["first answer", "second answer", "third answer"])
        self.notes = self.agent.notes
        self.modes = ModeRegistry(
            [
                Mode("plan", enter=lambda data: self.notes.step("enter plan")),
                Mode("review"),
            ]
        )

    async def fill(self, session: AgentSession) -> None:
        await session.prompt("first question")
        await session.set_model(DEAR)
        await session.set_thinking_level("xhigh")
        await session.set_mode("review", {"n": 1})
        await session.steer("steered")
        await session.follow_up("followed")
        await session.send_custom_message("note", "next", deliver="next_turn")
        wiring = session._wiring
        clear = wiring.next_turn.clear

        def noted_clear() -> list[Any]:
            self.notes.step("clear next turn")
            return clear()

        wiring.next_turn.clear = noted_clear  # type: ignore[method-assign]
        session.on("session_switch", lambda payload: self.notes.step("tell session_switch"))
        session.subscribe(lambda event: None)
        self.notes.steps.clear()


async def test_the_fifteen_steps_are_taken_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    target = make_session(tmp_path, model="acme/thinker", mode="plan", project=tmp_path / "other")
    async with live(stage.agent, tmp_path, modes=stage.modes) as session:
        await stage.fill(session)
        previous = session.session_file
        heard: list[Any] = []
        session.on("session_before_switch", heard.append)
        session.on("session_switch", heard.append)
        with noted_manager(stage.notes, monkeypatch):
            assert await session.switch_session(target) is True
            # A fresh manager builds the context; nothing else is asked of the disk in between.
            assert stage.notes.steps == STEPS
        assert heard == [
            events.SessionBeforeSwitch("resume", target),
            events.SessionSwitch("resume", previous, target),
        ]
        assert session.session_file == target
        assert session.agent.session_id == session.session_id
        assert session.agent.cwd == session.cwd == str(tmp_path / "other")
        assert said(session.messages) == OLD
        assert session.model == THINKER
        assert session.thinking_level == "medium"
        assert session.mode == ModeState("plan", {"from": "file"})
        assert session.agent.mode == "plan"
        assert session.queued == events.QueueChanged()
        assert stage.agent.listener_count == 1
        await session.prompt("go on")
        assert saved(target) == [*OLD, ("user", "go on"), ("assistant", "second answer")]


@pytest.mark.parametrize("step", [s for s in STEPS if s != "tell session_switch"])
async def test_a_fault_at_any_step_leaves_everything_as_it_was(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    target = make_session(tmp_path, model="acme/thinker", mode="plan", project=tmp_path / "other")
    async with live(stage.agent, tmp_path, modes=stage.modes) as session:
        await stage.fill(session)
        before = picture(session)
        with noted_manager(stage.notes, monkeypatch):
            stage.notes.fail_at = step
            with pytest.raises(Boom, match=step):
                await session.switch_session(target)
        assert picture(session) == before
        await session.clear_queues()
        await session.prompt("still here?")
        assert saved(session.session_file) == [
            ("user", "first question"),
            ("assistant", "first answer"),
            ("user", "still here?"),
            ("assistant", "second answer"),
        ]
        assert await session.switch_session(target)
        assert said(session.messages) == OLD


@pytest.mark.parametrize("step", STEPS)
async def test_a_switch_cancelled_at_any_step_leaves_everything_as_it_was(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    target = make_session(tmp_path, model="acme/thinker", mode="plan", project=tmp_path / "other")
    async with live(stage.agent, tmp_path, modes=stage.modes) as session:
        await stage.fill(session)
        before = picture(session)
        loop = asyncio.get_running_loop()
        original = stage.notes.step

        def step_and_cancel(name: str) -> None:
            original(name)
            if name == step:
                monkeypatch.setattr(stage.notes, "step", original)
                loop.call_soon_threadsafe(switch.cancel)

        with noted_manager(stage.notes, monkeypatch):
            monkeypatch.setattr(stage.notes, "step", step_and_cancel)
            switch = asyncio.create_task(session.switch_session(target))
            (outcome,) = await asyncio.gather(switch, return_exceptions=True)
        if isinstance(outcome, asyncio.CancelledError):
            assert picture(session) == before
        else:
            # Nothing was awaited any more: the switch was over before it could be called off.
            assert outcome is True
            assert session.session_file == target
            assert said(session.messages) == OLD
        assert stage.agent.listener_count == 1


async def test_an_agent_made_for_one_folder_stays_there_until_the_project_changes(
    tmp_path: Path,
) -> None:
    agent = ScriptedAgent()
    agent.cwd = str(tmp_path / "part")
    same, other = make_session(tmp_path), make_session(tmp_path, project=tmp_path / "other")
    async with live(agent, tmp_path) as session:
        await session.switch_session(same)
        assert agent.cwd == str(tmp_path / "part")
        await session.switch_session(other)
        assert agent.cwd == str(tmp_path / "other")
        await session.new_session()
        assert agent.cwd == session.cwd == str(tmp_path / "other")


async def test_a_file_of_another_kind_is_refused_untouched(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Hello\n")
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.prompt("hi")
        before = picture(session)
        with pytest.raises(NotASessionError):
            await session.switch_session(readme)
        assert picture(session) == before
    assert readme.read_text() == "# Hello\n"


async def test_a_target_that_is_a_folder_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder.jsonl"
    folder.mkdir()
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.prompt("hi")
        before = picture(session)
        with pytest.raises(SessionTreeError):
            await session.switch_session(folder)
        assert picture(session) == before


async def test_a_target_that_does_not_exist_becomes_a_new_session_there(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "new.jsonl"
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.prompt("hi")
        assert await session.switch_session(target)
        assert session.session_file == str(target)
        assert session.messages == []
        assert session.cwd == str(tmp_path)
    assert file_bytes(str(target))


async def test_a_session_that_can_not_be_flushed_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = make_session(tmp_path)

    def full(self: SessionManager) -> None:
        raise PersistenceError("x", "No space left on device")

    async with live(ScriptedAgent(), tmp_path) as session:
        await session.prompt("hi")
        before = picture(session)
        with monkeypatch.context() as patch:
            patch.setattr(SessionManager, "flush", full)
            with pytest.raises(PersistenceError, match="No space"):
                await session.switch_session(target)
        assert picture(session) == before


async def test_the_first_no_of_a_hook_stops_a_switch_before_anything_changes(
    tmp_path: Path,
) -> None:
    stage = Stage()
    target = make_session(tmp_path)
    async with live(stage.agent, tmp_path, modes=stage.modes) as session:
        await stage.fill(session)
        before = picture(session)

        async def refuse(payload: Any) -> Cancel:
            return Cancel("busy")

        session.on("session_before_switch", refuse)
        assert await session.switch_session(target) is False
        assert await session.new_session() is False
        assert await session.fork() is False
        assert picture(session) == before
        assert stage.notes.steps == []


@pytest.mark.parametrize("failure", [RuntimeError, asyncio.CancelledError])
async def test_a_failing_handler_never_breaks_a_switch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, failure: type[BaseException]
) -> None:
    def clumsy(payload: Any) -> None:
        raise failure("oh no")

    target = make_session(tmp_path)
    async with live(ScriptedAgent(), tmp_path) as session:
        session.on("session_before_switch", clumsy)
        session.on("session_switch", clumsy)
        with caplog.at_level(logging.ERROR):
            assert await session.switch_session(target)
    assert caplog.text.count("clumsy") >= 2


async def test_handlers_that_heard_of_a_switch_hear_of_the_way_back(tmp_path: Path) -> None:
    def refuse(data: Any) -> None:
        raise Boom("no planning")

    target = make_session(tmp_path, mode="plan")
    modes = ModeRegistry([Mode("plan", enter=refuse)])
    async with live(ScriptedAgent(), tmp_path, modes=modes) as session:
        await session.prompt("hi")
        here = session.session_file
        heard: list[Any] = []
        session.on("session_switch", heard.append)
        with pytest.raises(Boom):
            await session.switch_session(target)
        assert heard == [
            events.SessionSwitch("resume", here, target),
            events.SessionSwitch("resume", target, here),
        ]


async def test_a_handler_sees_the_new_session(tmp_path: Path) -> None:
    target = make_session(tmp_path)
    seen: list[str | None] = []
    async with live(ScriptedAgent(), tmp_path) as session:
        session.on("session_switch", lambda payload: seen.append(session.session_file))
        await session.switch_session(target)
    assert seen == [target]


async def test_a_handler_that_switches_again_is_refused_instead_of_waiting_for_ever(
    tmp_path: Path,
) -> None:
    target = make_session(tmp_path)
    refused: list[Exception] = []
    async with live(ScriptedAgent(), tmp_path) as session:

        async def clumsy(payload: Any) -> None:
            for attempt in (session.new_session, session.compact, session.aclose):
                try:
                    await attempt()
                except OperationInProgressError as error:
                    refused.append(error)

        session.on("session_switch", clumsy)
        assert await asyncio.wait_for(session.switch_session(target), 10)
    assert len(refused) == 3


# --- in the middle of things ------------------------------------------------------------------


async def test_switching_in_mid_answer_records_it_as_aborted_where_it_belongs(
    tmp_path: Path,
) -> None:
    target = make_session(tmp_path)
    agent = ScriptedAgent([Reply("one two", hold=True), "fresh"])
    async with live(agent, tmp_path) as session:
        here = session.session_file
        run = asyncio.create_task(session.prompt("count"))
        await agent.wait_held()
        assert await session.switch_session(target)
        await run
        assert saved(here) == [("user", "count"), ("assistant", "one ")]
        with SessionManager.open(str(here)) as manager:
            assert manager.build_session_context().messages[-1]["stopReason"] == "aborted"
        assert said(session.messages) == OLD
        await session.prompt("go on")
        assert saved(target) == [*OLD, ("user", "go on"), ("assistant", "fresh")]
        assert len(saved(here)) == 2


async def test_switching_while_a_tool_runs_ends_the_tool_first(tmp_path: Path) -> None:
    target = make_session(tmp_path)
    started = asyncio.Event()
    ended_in: list[str | None] = []

    async def slow(arguments: Mapping[str, Any], progress: Progress) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended_in.append(session.session_file)
        return ""

    agent = ScriptedAgent([Reply("", tool_calls=[("slow", {})])], tools={"slow": slow})
    async with live(agent, tmp_path) as session:
        here = session.session_file
        run = asyncio.create_task(session.prompt("go"))
        await started.wait()
        assert await session.switch_session(target)
        await run
        assert ended_in == [here]
        with SessionManager.open(str(here)) as manager:
            messages = manager.build_session_context().messages
        assert [m["role"] for m in messages] == ["user", "assistant", "toolResult"]
        assert messages[-1]["isError"] is True
        assert said(session.messages) == OLD


async def test_a_failed_switch_in_mid_answer_goes_on_with_the_aborted_answer(
    tmp_path: Path,
) -> None:
    agent = ScriptedAgent([Reply("one two", hold=True), "fresh"])
    async with live(agent, tmp_path) as session:
        run = asyncio.create_task(session.prompt("count"))
        await agent.wait_held()
        with pytest.raises(NotASessionError):
            await session.switch_session(_other_kind(tmp_path))
        await run
        assert session.messages[-1]["stopReason"] == "aborted"
        assert saved(session.session_file) == said(session.messages)
        await session.prompt("again")
        assert saved(session.session_file)[-1] == ("assistant", "fresh")


def _other_kind(folder: Path) -> Path:
    path = folder / "notes.txt"
    path.write_text("hello")
    return path


async def test_two_switches_at_once_happen_one_after_the_other(tmp_path: Path) -> None:
    first, second = make_session(tmp_path), make_session(tmp_path)
    async with live(ScriptedAgent(), tmp_path) as session:
        heard: list[Any] = []
        session.on("session_switch", heard.append)
        start = session.session_file
        outcomes = await asyncio.gather(
            session.switch_session(first), session.switch_session(second)
        )
        assert list(outcomes) == [True, True]
        assert [(h.previous_session_file, h.session_file) for h in heard] == [
            (start, first),
            (first, second),
        ]
        assert session.session_file == second


async def test_a_prompt_asked_during_a_switch_goes_to_the_new_session(tmp_path: Path) -> None:
    target = make_session(tmp_path)
    async with live(ScriptedAgent(["fresh"]), tmp_path) as session:
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def hold(payload: Any) -> None:
            reached.set()
            await go_on.wait()

        session.on("session_switch", hold)
        switch = asyncio.create_task(session.switch_session(target))
        await reached.wait()
        prompt = asyncio.create_task(session.prompt("where am I?"))
        await asyncio.sleep(0)
        go_on.set()
        assert await switch
        await prompt
        assert saved(target) == [*OLD, ("user", "where am I?"), ("assistant", "fresh")]


# --- what is restored -------------------------------------------------------------------------


async def test_the_sessions_own_level_is_restored_without_a_new_entry(tmp_path: Path) -> None:
    target = make_session(tmp_path, model="acme/dear", level="xhigh")
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.switch_session(target)
        assert (session.model, session.thinking_level) == (DEAR, "xhigh")
        assert len(session.manager.get_entries()) == 4


async def test_a_session_without_a_level_gets_the_default_clamped_and_written(
    tmp_path: Path,
) -> None:
    target = make_session(tmp_path, model="acme/plain")
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.switch_session(target)
        assert (session.model, session.thinking_level) == (PLAIN, "off")
        last = session.manager.get_entries()[-1]
        assert (last.type, last.data["thinkingLevel"]) == ("thinking_level_change", "off")


async def test_a_model_that_is_gone_is_stood_in_for_visibly(tmp_path: Path) -> None:
    target = make_session(tmp_path, model="acme/gone")
    async with live(ScriptedAgent(), tmp_path) as session:
        heard: list[Any] = []
        session.subscribe(heard.append)
        await session.switch_session(target)
        assert session.model == THINKER
        fallback = session.model_fallback
        assert fallback is not None
        assert (fallback.wanted, fallback.used) == ("acme/gone", "acme/thinker")
        assert fallback in heard
        context = await session.read(lambda m: m.build_session_context())
        assert context.models["default"] == "acme/gone"
        await session.set_model(DEAR)
        assert session.model_fallback is None


async def test_an_unknown_mode_is_kept_in_the_file_and_shown_as_unavailable(
    tmp_path: Path,
) -> None:
    target = make_session(tmp_path, mode="hypnosis")
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.switch_session(target)
        assert session.mode == ModeState("hypnosis", {"from": "file"}, available=False)
        await session.prompt("hi")
    with SessionManager.open(target) as manager:
        assert manager.build_session_context().mode == "hypnosis"


async def test_switching_to_the_present_session_reads_it_again_at_the_same_leaf(
    tmp_path: Path,
) -> None:
    async with live(ScriptedAgent(["one", "two", "three"]), tmp_path) as session:
        await session.prompt("a")
        await session.prompt("b")
        answer = next(e for e in session.manager.get_entries() if _says(e, "one"))
        await session.navigate_tree(answer.id)
        assert session.session_file is not None
        await session.switch_session(session.session_file)
        assert session.manager.leaf_id == answer.id
        assert said(session.messages) == [("user", "a"), ("assistant", "one")]
        path = session.session_file
    assert saved(path) == [("user", "a"), ("assistant", "one")]


def _says(entry: Any, text: str) -> bool:
    return entry.type == "message" and said([entry.data["message"]])[0][1] == text


async def test_the_session_that_is_left_keeps_its_leaf(tmp_path: Path) -> None:
    target = make_session(tmp_path)
    async with live(ScriptedAgent(["one", "two"]), tmp_path) as session:
        await session.prompt("a")
        await session.prompt("b")
        answer = next(e for e in session.manager.get_entries() if _says(e, "one"))
        await session.navigate_tree(answer.id)
        here = session.session_file
        await session.switch_session(target)
        await session.stats()
        assert saved(here) == [("user", "a"), ("assistant", "one")]


# --- new and forked ---------------------------------------------------------------------------


async def test_a_new_session_goes_on_with_the_present_model_and_level(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.prompt("hi")
        await session.set_model(DEAR)
        await session.set_thinking_level("xhigh")
        here = session.session_file
        heard: list[Any] = []
        session.on("session_before_switch", heard.append)
        session.on("session_switch", heard.append)
        assert await session.new_session(parent_session=here)
        assert session.messages == []
        assert (session.model, session.thinking_level) == (DEAR, "xhigh")
        assert session.manager.header.get("parentSession") == here
        assert heard == [
            events.SessionBeforeSwitch("new", None),
            events.SessionSwitch("new", here, session.session_file),
        ]
        await session.prompt("hello")
        path = session.session_file
    async with live(ScriptedAgent(), tmp_path, resume=path) as again:
        assert (again.model, again.thinking_level) == (DEAR, "xhigh")


async def test_a_fork_is_a_copy_that_goes_its_own_way(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one", "two", "three"]), tmp_path) as session:
        await session.prompt("a")
        await session.prompt("b")
        answer = next(e for e in session.manager.get_entries() if _says(e, "one"))
        await session.navigate_tree(answer.id)
        here = session.session_file
        assert await session.fork()
        assert session.session_file != here
        assert said(session.messages) == [("user", "a"), ("assistant", "one")]
        await session.prompt("c")
        assert saved(session.session_file)[-1] == ("assistant", "three")
        assert saved(here) == [("user", "a"), ("assistant", "one")]


async def test_a_fork_that_fails_leaves_no_file_behind(tmp_path: Path) -> None:
    stage = Stage()
    async with live(stage.agent, tmp_path, modes=stage.modes) as session:
        await stage.fill(session)
        before = picture(session)
        files = _files(tmp_path)
        stage.notes.fail_at = "subscribe"
        with pytest.raises(Boom):
            await session.fork()
        await session.stats()
        assert picture(session) == before
        assert _files(tmp_path) == files


def _files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file() and ".jsonl" in path.name}


async def test_a_session_that_is_kept_nowhere_can_not_be_forked(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path, persist=False) as session:
        await session.prompt("hi")
        before = picture(session)
        with pytest.raises(SessionTreeError, match="Nothing to fork"):
            await session.fork()
        assert picture(session) == before


async def test_a_session_without_an_answer_can_be_forked_and_resumed(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply(error="no network")])
    async with live(agent, tmp_path) as session:
        await session.send_custom_message("note", "only a draft so far")
        here = session.session_file
        assert here is not None
        assert file_bytes(here) is None
        assert await session.fork()
        assert said(session.messages) == [("custom", "only a draft so far")]
        assert await session.switch_session(here)
        assert said(session.messages) == [("custom", "only a draft so far")]
