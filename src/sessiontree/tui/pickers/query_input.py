"""The input line of a picker: letters make the query, the other keys move and choose.

Every key goes through this one queue, so that they take effect in the order they were pressed. If
Enter overtook the letters typed before it, a person would open the wrong session.
"""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.message import Message

from sessiontree.tui.ordered_keys import LineInput


class QueryInput(LineInput):
    """An input that tells its owner of certain keys, by the names of what they do."""

    class Pressed(Message):
        """One of the owner's keys was pressed."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, text: str, keys: Mapping[str, str], placeholder: str = "") -> None:
        super().__init__(text, placeholder=placeholder)
        self._keys = keys

    async def on_key(self, event: events.Key) -> None:
        """The owner's keys; the others are about the text."""
        action = self._keys.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            self.post_message(self.Pressed(action))
