"""Tell the time in Unix milliseconds, as sessions spell it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Gives Unix milliseconds. Whatever has one takes it as an argument, so that tests can set it."""


def now_ms() -> int:
    """The time now, in Unix milliseconds."""
    return time.time_ns() // 1_000_000
