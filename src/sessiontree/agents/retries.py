"""Retries of failed model calls: how many, and after which pauses.

Owns the numbers only; whether a failure is worth another try is `failures`' business.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Waits that double from one try to the next, with a random part, up to a limit."""

    attempts: int = 4
    """Calls in all, the first included."""
    first_wait_s: float = 1.0
    longest_wait_s: float = 30.0
    patience_s: float = 60.0
    """If a provider asks for a longer wait than this, the call fails at once and says so."""
    random: Callable[[], float] = random.random

    def wait_s(self, attempt: int, asked_s: float | None = None) -> float | None:
        """The pause after the failure of this attempt (from 1); None: give up.

        ``asked_s`` is what the provider asked for: no less than that is waited.
        """
        if attempt >= self.attempts or (asked_s is not None and asked_s > self.patience_s):
            return None
        wait = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (attempt - 1))
        # Half of it is random: clients that failed together should not come back together.
        return max(wait * (0.5 + self.random() / 2), asked_s or 0.0)
