"""Save an agent's messages in the session, each exactly once.

Owns the messages that are finished but not saved yet, and the count of the agent's messages that
the session has taken over. Synchronous; `drain` and what it calls run on the disk thread.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Any

from sessiontree.errors import SessionTreeError
from sessiontree.logs import get_logger
from sessiontree.runtime.events import Message
from sessiontree.runtime.masking import KeyMask
from sessiontree.session.manager import SessionManager

logger = get_logger(__name__)


class Recording:
    """One session, and the messages that are about to be saved in it."""

    def __init__(self, manager: SessionManager, taken: int = 0) -> None:
        self.manager = manager
        self.taken = taken
        """How many of ``agent.messages`` are in the session or on their way into it."""
        self.pending: deque[Message] = deque()
        """Finished but not saved, oldest first. Grows when saving fails; see `drain`."""
        self.deferred: list[Message] = []
        """Commands the user ran in mid-turn: they must not part a tool call from its result."""
        self.saved: deque[tuple[str, Message]] = deque()
        """What was saved and not yet told: entry ids with their messages."""

    def take(self, message: Message) -> None:
        """Take a message that the agent has finished."""
        self.pending.append(message)
        self.taken += 1

    def take_rest(self, messages: Sequence[Message], mask: KeyMask) -> None:
        """Save what the agent finished before this session listened."""
        for message in messages[self.taken :]:
            self.take(mask.value(message))

    def take_deferred(self) -> list[Message]:
        """The deferred messages may be saved now."""
        deferred, self.deferred = self.deferred, []
        self.pending.extend(deferred)
        return deferred

    def drain(self) -> None:
        """Save what is pending, in order.

        Raises the first SessionTreeError: that message and those behind it stay pending.
        """
        while self.pending:
            message = self.pending[0]
            self.saved.append((self._save(message), message))
            self.pending.popleft()

    def flush(self) -> None:
        """Save what is pending, and have it on the medium."""
        self.drain()
        self.manager.flush()

    def recover(self) -> None:
        """Try again after a failure."""
        self.manager.recover()
        self.drain()

    def _save(self, message: Message) -> str:
        try:
            return self._append(message)
        except SessionTreeError:
            raise
        except (TypeError, ValueError, RecursionError):
            # An agent put a value into a message that JSON can't hold; its plain form is saved
            # instead.
            logger.exception("a message holds what JSON can't; its plain form is saved")
            return self._append(_plain(message))

    def _append(self, message: Message) -> str:
        if message.get("role") == "custom" and isinstance(message.get("customType"), str):
            return self.manager.append_custom_message_entry(
                message["customType"],
                message.get("content", ""),
                bool(message.get("display", True)),
                message.get("details"),
            )
        return self.manager.append_message(message)


def _plain(message: Message) -> Message:
    plain: Any = json.loads(json.dumps(message, default=repr, skipkeys=True, allow_nan=True))
    return {**plain, "role": str(plain.get("role", "custom"))}
