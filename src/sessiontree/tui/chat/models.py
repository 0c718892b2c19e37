"""Choose a model in the chat, and switch to the agent that it needs.

If the model's provider is not set up, nothing changes and one line says what to set.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from sessiontree.agents import OFFLINE
from sessiontree.agents.offline import OFFLINE_MODEL
from sessiontree.agents.providers import is_set_up, variables_of
from sessiontree.errors import SessionTreeError
from sessiontree.runtime.models import Model
from sessiontree.tui.pickers.dialogs import Option
from sessiontree.tui.pickers.list_picker import ListPicker

if TYPE_CHECKING:
    from sessiontree.tui.chat.screen import ChatScreen


async def choose(chat: ChatScreen, wanted: str) -> None:
    """Switch to the model of this name, or to one that the user picks."""
    if not wanted:
        chosen = await chat.app.push_screen_wait(
            ListPicker("Which model?", lambda text: find_models(chat, text), current=_current(chat))
        )
        if chosen is None:
            return
        wanted = chosen
    with chat.status.busy("Changing the model"):
        model = await _use(chat, wanted)
        await chat.link.refresh_figures()
    chat.say_done(f"Model: {model.display_name}")


async def _use(chat: ChatScreen, wanted: str) -> Model:
    session, make_agent = chat.session, chat.link.opened.make_agent
    if make_agent is None:
        return await session.set_model(session.models.find(wanted))
    choice = await asyncio.to_thread(make_agent, wanted, session.cwd)
    if choice.is_offline and wanted.partition("/")[0] != OFFLINE:
        raise SessionTreeError(f"{choice.reason}, then start sessiontree again")
    if session.is_running and type(session.agent) is type(choice.agent):
        await session.set_model(choice.model)
    else:
        await session.set_agent(choice.agent, choice.model)
        chat.link.note_agent(choice)
    return choice.model


async def keep_real(chat: ChatScreen, before: Model | None) -> None:
    """After a move, replace the offline agent of the new session by the model in use before."""
    session = chat.session
    is_offline = session.model is not None and session.model.provider == OFFLINE
    if is_offline and before is not None and not chat.link.opened.is_offline:
        await session.set_model(before)


def _current(chat: ChatScreen) -> str | None:
    if chat.link.opened.is_offline:
        return OFFLINE_MODEL.ref
    return chat.session.model.ref if chat.session.model else None


def find_models(chat: ChatScreen, text: str) -> list[Option]:
    """Find the models whose names contain these words; those that are set up come first."""
    words = text.casefold().split()
    found = [
        model
        for model in chat.session.models
        if all(word in f"{model.ref} {model.name}".casefold() for word in words)
    ]
    if chat.link.opened.make_agent is None:
        return [Option(model.ref, model.display_name, model.ref) for model in found]
    found.sort(key=lambda model: not _is_usable(model))
    return [Option(model.ref, model.display_name, _hint(model)) for model in found]


def _is_usable(model: Model) -> bool:
    return model.provider == OFFLINE or is_set_up(model.provider, os.environ)


def _hint(model: Model) -> str:
    if _is_usable(model):
        return model.ref
    return f"needs {' or '.join(variables_of(model.provider))}"
