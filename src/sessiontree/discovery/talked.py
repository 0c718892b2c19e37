"""Set a session file's mtime to the time of what was said in it last.

Listings here go by the messages (see ``last_used``); other agents and ``find_most_recent_session``
go by the file's time. A file that is written although nobody talked in it (an import) must not look
newest to them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from sessiontree.model.ids import parse_timestamp
from sessiontree.storage.base import SessionStorage

_SAID = ("message", "custom_message", "compaction", "branch_summary")
_NS_PER_MS = 1_000_000


def last_talked_ns(entries: Iterable[tuple[object, object]], now_ms: int) -> int | None:
    """The time of what was said last, given types and times of entries; None if nothing was.

    What claims to come from the future was said now.
    """
    moments = (parse_timestamp(timestamp) for kind, timestamp in entries if kind in _SAID)
    last_ms = max((moment for moment in moments if moment is not None and moment > 0), default=None)
    return None if last_ms is None else min(last_ms, now_ms) * _NS_PER_MS


def set_time(storage: SessionStorage, path: str, time_ns: int | None) -> None:
    """Give a file this time, if there is one. Best effort: the content is what matters."""
    if time_ns is not None:
        with contextlib.suppress(OSError):
            storage.touch(path, time_ns)
