"""Tell the time: the only module that reads the wall clock, so that a test can set all of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], int]
"""Returns Unix milliseconds. Code that needs one takes it as an argument, so that tests can set
it."""
SecondsClock = Callable[[], float]
"""Gives Unix seconds, for ages of files and prompts."""

_EPOCH = datetime.fromtimestamp(0, UTC)


def now() -> datetime:
    """The time now, as a date and time in UTC; the last one there is if the clock is past it."""
    try:
        return _EPOCH + timedelta(microseconds=time.time_ns() // 1_000)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def now_ms() -> int:
    """The time now, in Unix milliseconds, as sessions spell it."""
    return time.time_ns() // 1_000_000


def now_s() -> float:
    """The time now, in Unix seconds."""
    return time.time_ns() / 1e9


def now_ns() -> int:
    """The time now, in Unix nanoseconds, as file systems spell it."""
    return time.time_ns()
