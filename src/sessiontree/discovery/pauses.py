"""Upkeep that waits for a pause between questions: threads share one processor."""

from __future__ import annotations

import threading
import time

PAUSE_S = 0.3
"""The time without a question that counts as a pause, as between two words."""
PATIENCE_S = 5.0
"""The longest that upkeep waits for a pause."""


class Pauses:
    """The pauses between the questions to a server. May be used from several threads."""

    def __init__(self) -> None:
        self._asked_at = float("-inf")
        self._is_urgent = threading.Event()

    def note_question(self) -> None:
        """Note that a question comes in now."""
        self._asked_at = time.monotonic()

    def hurry(self) -> None:
        """End the present wait, or the next one."""
        self._is_urgent.set()

    def wait(self, pause_s: float = PAUSE_S) -> None:
        """Wait until there was no question for so long, but at most ``PATIENCE_S``."""
        began = time.monotonic()
        while True:
            until = min(max(began, self._asked_at) + pause_s, began + PATIENCE_S)
            left = until - time.monotonic()
            if left <= 0 or self._is_urgent.wait(left):
                break
        self._is_urgent.clear()
