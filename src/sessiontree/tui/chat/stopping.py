"""Esc and Ctrl+C in the chat.

Esc closes or stops the first of these that is active: the command list, a shell command, the agent;
pressed twice with none active it opens the tree. Ctrl+C copies, clears the editor, or leaves.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessiontree.tui.chat.screen import ChatScreen

_DOUBLE_S = 0.6
_LEAVE_S = 2.0
_LEAVES = "Ctrl+C again leaves"
_CLEARED = "Cleared: Up brings it back"


class ChatStopping:
    """The keys that stop, for one chat."""

    def __init__(self, chat: ChatScreen) -> None:
        self._chat = chat
        self._escaped_at = 0.0
        self._interrupted_at = 0.0

    async def escape(self) -> None:
        """Stop the first active thing; if there is none, Esc twice opens the tree."""
        chat, now = self._chat, time.monotonic()
        is_second = now - self._escaped_at < _DOUBLE_S
        self._escaped_at = 0.0
        if chat.editor.is_completing:
            chat.close_completions()
        elif chat.shell is not None and chat.is_running_shell:
            chat.shell.cancel()
        elif chat.link.is_open and (chat.session.is_running or chat.status.is_busy):
            await self._stop_agent()
        elif is_second and chat.link.is_open:
            chat.run_worker(chat.commands.tree(""), exit_on_error=False)
        else:
            self._escaped_at = now

    async def _stop_agent(self) -> None:
        """Stop the agent and put queued messages back into the editor."""
        chat, session = self._chat, self._chat.session
        waiting = await session.clear_queues()
        texts = [text for text in map(chat.commands.text_of, waiting) if text]
        if texts:
            chat.editor.add("\n\n".join(texts))
        chat.run_worker(session.abort(), exit_on_error=False)

    def interrupt(self) -> bool:
        """Copy, clear the editor, or (pressed twice) leave; return whether to leave."""
        chat = self._chat
        selected = chat.editor.selected_text or chat.get_selected_text()
        if selected:
            chat.app.copy_to_clipboard(selected)
            chat.say("Copied")
            return False
        now = time.monotonic()
        if chat.editor.text:
            chat.editor.recall.add(chat.editor.whole_text)
            chat.editor.empty()
            chat.status.say(f"{_CLEARED}, {_LEAVES}", for_s=_LEAVE_S, then=_CLEARED)
        elif now - self._interrupted_at < _LEAVE_S:
            return True
        else:
            chat.status.say(_LEAVES, for_s=_LEAVE_S)
        self._interrupted_at = now
        return False

    def note_typing(self) -> None:
        """Withdraw "Ctrl+C again leaves": with text in the editor it would clear that."""
        self._chat.status.unsay(_LEAVES)
