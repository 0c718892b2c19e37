"""Messages that wait for their moment.

Owns the order in which steering, follow-up and next-turn messages are handed out. Knows neither
agents nor sessions; holds plain values and is not thread-safe (one event loop).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from sessiontree.runtime.events import Message

Delivery: TypeAlias = Literal["one", "all"]
"""Whether one message leaves the queue at a time, or all that wait."""


class MessageQueue:
    """First in, first out.

    ``delivery`` decides what `take` hands out: ``"one"`` message at a time (each gets its own
    answer), or ``"all"`` that wait.
    """

    def __init__(self, delivery: Delivery = "one") -> None:
        self.delivery: Delivery = delivery
        self._messages: list[Message] = []

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(tuple(self._messages))

    def put(self, message: Message) -> None:
        """Add one message at the end."""
        self._messages.append(message)

    def take(self) -> list[Message]:
        """Remove and return the messages that are due now; [] if none wait."""
        if not self._messages:
            return []
        count = 1 if self.delivery == "one" else len(self._messages)
        taken, self._messages = self._messages[:count], self._messages[count:]
        return taken

    def clear(self) -> list[Message]:
        """Remove and return everything, whatever the delivery."""
        taken, self._messages = self._messages, []
        return taken

    def snapshot(self) -> tuple[Message, ...]:
        """Copy the waiting messages, for a later `restore`."""
        return tuple(self._messages)

    def restore(self, messages: Iterable[Message]) -> None:
        """Make exactly these messages wait."""
        self._messages = list(messages)
