"""Convert the times that a search is given, and those of its hits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

from sessiontree.model.ids import parse_timestamp
from sessiontree.text.words import to_utc

Since: TypeAlias = "datetime | float | str"
"""The time from which something counts: a datetime, Unix seconds, or ISO text."""


def to_ms(since: Since | None) -> int | None:
    """Unix milliseconds; a number is Unix seconds, a naive time is local. Raises ValueError."""
    if since is None:
        return None
    if isinstance(since, datetime):
        return round(to_utc(since).timestamp() * 1000)
    if isinstance(since, (int, float)):
        return round(since * 1000)
    time_ms = parse_timestamp(since)
    if time_ms is None:
        raise ValueError(f"not an ISO time: {since!r}")
    return time_ms


def to_datetime(time_ms: int | None) -> datetime | None:
    """A time in UTC; None for what no calendar has."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC) if time_ms is not None else None
    except (OverflowError, ValueError, OSError):
        return None
