"""`create_agent_session`: from nothing to a live agent, in the documented order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sessiontree
from sessiontree.errors import NotASessionError
from sessiontree.runtime import events
from sessiontree.runtime.hooks import Hooks
from sessiontree.runtime.models import ModelNotFoundError, ModelRegistry
from sessiontree.runtime.modes import Mode, ModeRegistry, ModeState
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.session.manager import SessionManager
from sessiontree.testing.scripted_agent import ScriptedAgent

from .rig import DEAR, PLAIN, THINKER, Boom, RecordingAgent, live, saved, texts


async def test_the_session_is_chosen_before_the_agent_exists(tmp_path: Path) -> None:
    made: list[str] = []

    async def make(manager: SessionManager) -> ScriptedAgent:
        made.append(manager.cwd)
        return ScriptedAgent()

    async with live(make, tmp_path) as session:
        assert made == [str(tmp_path)]
        await session.prompt("hi")


async def test_start_up_restores_messages_once_then_model_level_and_mode(tmp_path: Path) -> None:
    modes = ModeRegistry([Mode("plan")])
    async with live(ScriptedAgent(["one"]), tmp_path, modes=modes) as session:
        await session.prompt("hi")
        await session.set_model(DEAR)
        await session.set_mode("plan")
        path = session.session_file
    agent = RecordingAgent()
    async with live(agent, tmp_path, resume=path, modes=modes) as session:
        steps = [step for step in agent.notes.steps if step != "set model"]
        assert steps == [
            "set session_id",
            "set cwd",
            "replace messages",
            "set thinking_level",
            "set mode",
            "subscribe",
        ]
        assert session.model == DEAR
        assert session.mode == ModeState("plan")


async def test_a_new_session_writes_down_what_it_starts_with(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        assert [e.type for e in session.manager.get_entries()] == [
            "model_change",
            "thinking_level_change",
        ]
        assert (session.model, session.thinking_level) == (THINKER, "medium")


async def test_a_session_that_was_never_spoken_in_leaves_no_file(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path):
        pass
    assert not _files(tmp_path)


def _files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and "jsonl" in path.name]


async def test_arguments_win_over_the_session_and_the_session_over_the_settings(
    tmp_path: Path,
) -> None:
    settings = RuntimeSettings(default_model="acme/plain", default_thinking="low")
    async with live(ScriptedAgent(), tmp_path, settings=settings) as session:
        assert (session.model, session.thinking_level) == (PLAIN, "off")
        await session.prompt("hi")
        path = session.session_file
    async with live(ScriptedAgent(), tmp_path, resume=path) as session:
        assert session.model == PLAIN
    async with live(
        ScriptedAgent(), tmp_path, resume=path, model="acme/dear", thinking_level="max"
    ) as session:
        assert (session.model, session.thinking_level) == (DEAR, "xhigh")
    async with live(ScriptedAgent(), tmp_path, resume=path) as session:
        assert (session.model, session.thinking_level) == (DEAR, "xhigh")


async def test_a_model_that_is_gone_falls_back_visibly_and_keeps_its_place(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path, model="acme/dear") as session:
        await session.prompt("hi")
        path = session.session_file
    fewer = ModelRegistry([PLAIN])
    async with live(ScriptedAgent(), tmp_path, resume=path, models=fewer) as session:
        assert session.model == PLAIN
        assert session.model_fallback is not None
        assert session.model_fallback.wanted == "acme/dear"
    async with live(ScriptedAgent(), tmp_path, resume=path) as session:
        assert session.model == DEAR
        assert session.model_fallback is None


async def test_a_model_asked_for_that_is_not_known_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        async with live(ScriptedAgent(), tmp_path, model="acme/gone"):
            raise AssertionError
    assert not _files(tmp_path)


async def test_a_file_of_another_kind_is_refused_untouched(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("hello")
    with pytest.raises(NotASessionError):
        async with live(ScriptedAgent(), tmp_path, resume=notes):
            raise AssertionError
    assert notes.read_text() == "hello"


async def test_continuing_takes_the_projects_last_session(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one"]), tmp_path) as session:
        await session.prompt("hi")
        path = session.session_file
    async with live(ScriptedAgent(), tmp_path, continue_recent=True) as session:
        assert session.session_file == path
        assert texts(session.messages) == [("user", "hi"), ("assistant", "one")]


async def test_a_manager_of_ones_own_is_used_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "flat"
    manager = SessionManager.create(tmp_path, folder)
    async with live(ScriptedAgent(), tmp_path, manager=manager) as session:
        await session.prompt("hi")
        assert session.manager is manager
        assert await session.new_session()
        await session.prompt("hello")
        assert str(session.session_file).startswith(str(folder))
        assert len(saved(session.session_file)) == 2


async def test_a_mode_that_refuses_at_start_up_is_an_error(tmp_path: Path) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.prompt("hi")
        await session.set_mode("plan")
        path = session.session_file

    def refuse(data: Any) -> None:
        raise Boom("no")

    with pytest.raises(Boom):
        async with live(
            ScriptedAgent(),
            tmp_path,
            resume=path,
            modes=ModeRegistry([Mode("plan", enter=refuse)]),
        ):
            raise AssertionError


async def test_handlers_registered_before_hear_of_the_start(tmp_path: Path) -> None:
    hooks = Hooks()
    heard: list[Any] = []
    hooks.on("session_start", heard.append)
    async with live(ScriptedAgent(), tmp_path, hooks=hooks) as session:
        assert heard == [events.SessionStart(session.session_id, session.session_file)]


def test_the_public_names_lead_here() -> None:
    from sessiontree.runtime.agent_session import AgentSession
    from sessiontree.runtime.create import create_agent_session

    assert sessiontree.AgentSession is AgentSession
    assert sessiontree.create_agent_session is create_agent_session


async def test_an_empty_list_of_models_is_a_choice_too(tmp_path: Path) -> None:
    none = ModelRegistry([])
    async with live(ScriptedAgent(), tmp_path, models=none) as session:
        assert session.model is None
    with pytest.raises(ModelNotFoundError):
        async with live(ScriptedAgent(), tmp_path, models=none, model="offline/offline"):
            raise AssertionError
