"""How a session is named and dated in a line of text. Pure: no I/O, the clock is passed in."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MAX_NAME_CHARS = 40

# A day within what datetime can do, so that no time zone leads out of it.
_FIRST_MOMENT = datetime(1, 1, 2, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)
# Controls of both sets, line and paragraph separators, and what turns the direction of text round.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def clean_line(text: str | None) -> str:
    """The first line of a text, safe to show: no control characters, nothing unprintable."""
    if not text:
        return ""
    lines = text.strip().splitlines()
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", lines[0])).strip() if lines else ""


def shorten(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """At most ``limit`` characters; a cut is shown by an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def make_name(*candidates: str | None) -> str:
    """The first of the candidates that has something to show, as a short line."""
    for candidate in candidates:
        line = clean_line(candidate)
        if line:
            return shorten(line)
    return ""


def to_moment(time_ns: int) -> datetime:
    """A file's time as a moment; one that no calendar has becomes the nearest that it has."""
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return _LAST_MOMENT if time_ns > 0 else _FIRST_MOMENT


def format_time_ago(moment: datetime, now: datetime) -> str:
    """``just now``, ``5m ago``, ``2h ago``, ``3d ago``; after a week the date."""
    seconds = (now - moment).total_seconds()
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{int(seconds // 60)}m ago"
    if seconds < 86_400:
        return f"{int(seconds // 3600)}h ago"
    if seconds < 7 * 86_400:
        return f"{int(seconds // 86_400)}d ago"
    return f"{moment.astimezone():%Y-%m-%d}"
