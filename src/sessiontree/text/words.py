"""Format names and dates of sessions for a line of text. Pure: the clock is passed in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from sessiontree.text.escaping import HAZARDS

MAX_NAME_CHARS = 40

# A day within what datetime can do, so that no time zone leads out of it.
_FIRST_MOMENT = datetime(1, 1, 2, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)
_SURROGATES = re.compile(r"[\ud800-\udfff]")
# Characters without width or meaning in a name. Joiners of letters and emoji are not among them.
_INVISIBLE = re.compile("[\u200b\u2060-\u2064\ufeff]")


def clean_line(text: str | None) -> str:
    """Return the first line of a text, without unprintable characters."""
    if not text:
        return ""
    lines = text.strip().splitlines()
    line = _SURROGATES.sub("\ufffd", lines[0]) if lines else ""
    return _INVISIBLE.sub("", HAZARDS.sub("", line)).strip()


def shorten(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Shorten to ``limit`` characters, marking a cut with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def make_name(*candidates: str | None) -> str:
    """Return the first candidate with visible text, as a short line."""
    for candidate in candidates:
        line = clean_line(candidate)
        if line:
            return shorten(line)
    return ""


def to_moment(time_ns: int) -> datetime:
    """Convert a file's time, limited to what the calendar can express."""
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return _LAST_MOMENT if time_ns > 0 else _FIRST_MOMENT


def to_local(moment: datetime) -> datetime:
    """Convert to the user's time zone; unchanged at the ends of the calendar."""
    try:
        return moment.astimezone()
    except (OverflowError, ValueError, OSError):
        return moment


def to_utc(moment: datetime) -> datetime:
    """Convert to UTC; a naive time is local. Unchanged at the ends of the calendar."""
    try:
        return moment.astimezone(UTC)
    except (OverflowError, ValueError, OSError):
        return moment.replace(tzinfo=UTC)


def format_time_ago(moment: datetime, now: datetime) -> str:
    """Return ``just now``, ``5m ago``, ``2h ago``, ``3d ago``; after a week the date."""
    seconds = (now - moment).total_seconds()
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{int(seconds // 60)}m ago"
    if seconds < 86_400:
        return f"{int(seconds // 3600)}h ago"
    if seconds < 7 * 86_400:
        return f"{int(seconds // 86_400)}d ago"
    return f"{to_local(moment):%Y-%m-%d}"


def format_short_age(moment: datetime, now: datetime) -> str:
    """Return ``now``, ``5m``, ``2h``, ``3d``; then ``Nov 10``, or ``2025-11``."""
    shown = format_time_ago(moment, now)
    if not shown[:1].isdigit():
        return "now"
    if shown.endswith(" ago"):
        return shown.removesuffix(" ago")
    local = to_local(moment)
    # Not strftime's %b: month names would follow the locale, the rest of the screen doesn't.
    is_this_year = local.year == to_local(now).year
    return f"{_MONTHS[local.month - 1]} {local.day}" if is_this_year else shown[:7]


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*\n?|^#{1,6} +", re.MULTILINE)
_PAIRED = re.compile(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*|`([^`\n]+)`")


def without_marks(text: str) -> str:
    """A Markdown text without the marks of fences, headings, strong words and code, for a line."""
    return _PAIRED.sub(lambda found: found[1] or found[2], _FENCE.sub("", text))


_LONE = re.compile(r"(?<![\w*])\*\*(?=\w)|(?<=[\w.,:;!?)])\*\*(?![\w*])")
"""A mark whose partner was cut off."""


def without_marks_around(
    text: str, spans: Sequence[tuple[int, int]]
) -> tuple[str, list[tuple[int, int]]]:
    """Leave out the marks of a piece cut from a Markdown text, and move these spans in it."""
    cuts = [found.span() for found in _FENCE.finditer(text)]
    for found in _PAIRED.finditer(text):
        start, end = found.span(1 if found[1] is not None else 2)
        cuts += [(found.start(), start), (end, found.end())]
    cuts += [found.span() for found in _LONE.finditer(text)]
    kept: list[str] = []
    moved = list(range(len(text) + 1))
    at = removed = 0
    for start, end in sorted(cuts):
        if start < at:
            continue
        kept.append(text[at:start])
        for place in range(at, start):
            moved[place] = place - removed
        for place in range(start, end):
            moved[place] = start - removed
        removed += end - start
        at = end
    kept.append(text[at:])
    for place in range(at, len(text) + 1):
        moved[place] = place - removed
    return "".join(kept), [(moved[a], moved[b]) for a, b in spans]
