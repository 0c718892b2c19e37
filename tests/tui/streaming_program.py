"""A chat whose agent streams a long answer, word by word, as a program of its own."""

from __future__ import annotations

import asyncio
import sys

from sessiontree import SessionManager
from sessiontree.profiles import get_profile
from sessiontree.runtime.agent_base import Draft, Request
from sessiontree.runtime.create import create_agent_session
from sessiontree.scope import Scope
from sessiontree.testing.scripted_agent import ScriptedAgent
from sessiontree.tui.app import ChatApp
from sessiontree.tui.chat.confirm import Confirmer
from sessiontree.tui.chat.screen import ChatSetup
from sessiontree.tui.chat.session_link import OpenedSession

WORDS = 400
WORDS_A_SECOND = 100


class Streaming(ScriptedAgent):
    """Says many words, at the pace of a quick model."""

    async def respond(self, draft: Draft, request: Request) -> None:
        for number in range(WORDS):
            end = "\n\n" if number % 50 == 49 else " "
            await draft.add_text(f"**word** {number}{end}" if number % 10 == 0 else f"word{end}")
            await asyncio.sleep(1 / WORDS_A_SECOND)
        await draft.add_text("THE END")
        draft.set_usage(1, 1)
        del request


async def open_session(_: Confirmer) -> OpenedSession:
    return OpenedSession(await create_agent_session(Streaming(), manager=manager))


if __name__ == "__main__":
    profile = get_profile(None)
    manager = SessionManager.create(sys.argv[1], profile=profile)
    scope = Scope(sys.argv[1], profile)
    ChatApp(ChatSetup(scope, "go"), open_session).run()
