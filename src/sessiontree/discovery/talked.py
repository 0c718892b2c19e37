"""Set a session file's mtime to the time of its last message.

Our listings use the messages' times (see ``last_used``); other agents and
``find_most_recent_session`` sort by mtime. A file that an import or a repair writes must not look
like the newest session to them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from sessiontree.model.ids import parse_timestamp
from sessiontree.storage.base import SessionStorage

_SAID = ("message", "custom_message", "compaction", "branch_summary")
_NS_PER_MS = 1_000_000


def last_talked_ns(entries: Iterable[tuple[object, object]], now_ms: int) -> int | None:
    """Return the time of the last message, given types and times of entries; None without any.

    A time in the future counts as now.
    """
    moments = (parse_timestamp(timestamp) for kind, timestamp in entries if kind in _SAID)
    last_ms = max((moment for moment in moments if moment is not None and moment > 0), default=None)
    return None if last_ms is None else min(last_ms, now_ms) * _NS_PER_MS


def set_time(storage: SessionStorage, path: str, time_ns: int | None) -> None:
    """Set a file's mtime, unless it is None. Best effort: the content is what matters."""
    if time_ns is not None:
        with contextlib.suppress(OSError):
            storage.touch(path, time_ns)
