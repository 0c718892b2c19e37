"""The loop of a watch: look at a session, pause, look again, until it has changed.

A store says how to look and how to pause: by notifications where it has them, else for a moment.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

Seen = TypeVar("Seen")

POLL_S = 0.25
"""Seconds between two looks where nothing tells of changes."""
UNASKED_S = 2.0
"""Seconds between two looks where something does: it may miss a change."""


class LookingWatch(ABC, Generic[Seen]):
    """A `Watch` that compares looks. A subclass sets ``_seen`` to the first one."""

    _seen: Seen

    def __init__(self) -> None:
        self._stop = threading.Event()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait; whether the session has changed since the last ``wait``, or since the beginning."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._stop.is_set():
            found = self._look()
            if found != self._seen:
                self._seen = found
                return True
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._pause(left)
        return False

    def close(self) -> None:
        """Stop waiting, in whatever thread."""
        self._stop.set()

    @abstractmethod
    def _look(self) -> Seen:
        """Return a value that differs once the session has changed."""

    def _pause(self, left: float | None) -> None:
        """Wait for a notification, or a moment; ``left`` seconds at most."""
        self._stop.wait(POLL_S if left is None else min(POLL_S, left))

    @staticmethod
    def _longest_s(left: float | None) -> float:
        """Seconds to wait for a notification before looking unasked."""
        return UNASKED_S if left is None else min(UNASKED_S, left)
