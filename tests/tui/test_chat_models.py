"""Choosing a model in the chat: the offline agent becomes a real one, and back."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from sessiontree import SessionManager
from sessiontree.agents import create_session_agent
from sessiontree.agents.offline import OfflineAgent
from sessiontree.agents.pydantic_ai import PydanticAIAgent
from sessiontree.config import Config
from sessiontree.testing.scripted_agent import ScriptedAgent
from sessiontree.tui.app import open_agent_session
from sessiontree.tui.chat.confirm import Confirmer
from sessiontree.tui.chat.session_link import OpenedSession
from sessiontree.tui.pickers.list_picker import ListPicker
from sessiontree.tui.pickers.session_picker import SessionPicker

from .support import ChatRig, Shop, assistant, running_chat, user

KEY = "not-a-real-key"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have providers set up."""
    for name in os.environ:
        if name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL")):
            monkeypatch.delenv(name)


def talked(shop: Shop) -> SessionManager:
    manager = shop.create()
    manager.append_message(user("hello"))
    manager.append_message(assistant("hi"))
    return manager


Opener = Callable[[Confirmer, ScriptedAgent], Awaitable[OpenedSession]]


def real_agents(manager: SessionManager, model: str | None = None) -> Opener:
    """Open the session as the program does."""

    async def open_session(confirmer: Confirmer, _: ScriptedAgent) -> OpenedSession:
        return await open_agent_session(manager, confirmer, Config(""), model)

    return open_session


def answers(rig: ChatRig) -> list[str]:
    return [block.text for block in rig.chat.transcript.blocks if block.kind == "answer"]


async def test_a_model_whose_provider_has_a_key_gets_the_real_agent(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = talked(shop)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    async with running_chat(manager, open_with=real_agents(manager, "offline")) as rig:
        assert isinstance(rig.session.agent, OfflineAgent)
        assert "offline agent" in rig.text
        file, messages = rig.session.session_file, list(rig.session.messages)
        await rig.send("/model claude-opus-5-5")
        await rig.until_said("Model: Claude Opus 5.5")
        await rig.until(lambda: rig.is_idle)
        assert isinstance(rig.session.agent, PydanticAIAgent)
        assert rig.session.agent.confirm == rig.chat.confirmer.confirm
        assert rig.session.session_file == file
        assert list(rig.session.messages) == messages
        assert answers(rig) == ["hi"]
        assert rig.chat.facts.model == "Claude Opus 5.5"
        assert not rig.chat.facts.is_offline
        context = await rig.session.read(SessionManager.build_session_context)
        assert context.models["default"] == "anthropic/claude-opus-5-5"


async def test_the_real_agent_can_give_way_to_the_offline_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = talked(shop)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    async with running_chat(manager, open_with=real_agents(manager)) as rig:
        assert isinstance(rig.session.agent, PydanticAIAgent)
        await rig.send("/model")
        await rig.until_screen(ListPicker)
        await rig.type("offline")
        await rig.until_screen(ListPicker)
        await rig.press("enter")
        await rig.until_said("Model: Offline agent")
        await rig.until(lambda: rig.is_idle)
        assert rig.chat.facts.is_offline
        await rig.ask("list")
        assert "offline agent" in answers(rig)[-1]
        assert [m["role"] for m in rig.session.messages[:3]] == ["user", "assistant", "user"]


async def test_without_a_key_one_line_says_what_to_set_and_nothing_changes(shop: Shop) -> None:
    manager = talked(shop)
    async with running_chat(manager, open_with=real_agents(manager)) as rig:
        agent = rig.session.agent
        entries = len(rig.session.manager.get_entries())
        await rig.send("/model claude-opus-5-5")
        await rig.until_said(
            '"anthropic" is not set up: set ANTHROPIC_API_KEY, then start sessiontree again'
        )
        assert rig.session.agent is agent
        assert len(rig.session.manager.get_entries()) == entries


async def test_the_list_begins_with_what_can_be_used_and_says_what_the_rest_needs(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = talked(shop)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with running_chat(manager, open_with=real_agents(manager)) as rig:
        await rig.send("/model")
        await rig.until_screen(ListPicker)
        rows = [line for line in rig.text.splitlines() if "openai/" in line or "needs" in line]
        usable = [row for row in rows if "openai/" in row]
        assert usable
        assert rows[: len(usable)] == usable
        await rig.type("claude")
        await rig.until_screen(ListPicker)
        assert "needs ANTHROPIC_API_KEY" in rig.text


async def test_a_word_that_names_no_model_is_said(shop: Shop) -> None:
    manager = talked(shop)
    async with running_chat(manager, open_with=real_agents(manager)) as rig:
        await rig.send("/model nonsense")
        await rig.until_said('Model "nonsense" is not known')


async def test_the_agent_of_a_session_is_its_models_if_that_can_be_used(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = shop.create()
    manager.append_model_change("mine/m")
    make = partial(create_session_agent, manager)
    assert make(None).is_offline
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert make(None).model.provider == "anthropic"
    monkeypatch.setenv("MINE_BASE_URL", "http://127.0.0.1:9/v1")
    assert make(None).model.ref == "mine/m"
    assert make("offline").is_offline
    manager.close()


async def test_a_session_of_the_offline_agent_goes_on_with_the_model_that_is_in_use(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = shop.create()
    other.append_model_change("offline/offline")
    other.append_message(user("list"))
    other.append_message(assistant("nothing"))
    other.set_session_name("Rules only")
    other.close()
    manager = talked(shop)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    async with running_chat(manager, open_with=real_agents(manager)) as rig:
        before = rig.session.model
        assert before is not None
        await rig.send("/resume Rules")
        await rig.until_screen(SessionPicker)
        await rig.press("enter")
        await rig.until_said("Resumed session")
        assert "This model thinks at most" in rig.said
        await rig.until(lambda: rig.is_idle)
        assert rig.session.model == before
        assert isinstance(rig.session.agent, PydanticAIAgent)
