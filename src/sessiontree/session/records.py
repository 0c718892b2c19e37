"""Records: values that a program keeps with a session, by key; the last one written counts.

Each is a ``custom`` entry, so that other agents pass it on and a model never sees it. One is found
from the end, and of all entries only the custom ones are looked at.
"""

from __future__ import annotations

from typing import Any

from sessiontree.session.live import LiveSession

RECORD = "sessiontree.record"
_NEEDLE = RECORD.encode()


def get_record(session: LiveSession, key: str) -> Any:
    """The value that was set last for this key, on whatever branch; None if there is none."""
    for entry in reversed(session.tree.entries):
        if entry.type != "custom":
            continue
        raw = None if entry.is_loaded else entry.raw()
        if raw is not None and _NEEDLE not in raw:
            continue
        data = entry.decode()
        record = data.get("data")
        if data.get("customType") != RECORD or not isinstance(record, dict):
            continue
        if record.get("key") == key:
            return record.get("value")
    return None


def set_record(session: LiveSession, key: str, value: Any) -> str:
    """Keep a value, anything that JSON can hold, for this key; the id of its entry."""
    if not isinstance(key, str):
        raise TypeError(f"A record's key is a string, not {type(key).__name__}")
    data = {"key": key, "value": value}
    return session.append("custom", {"customType": RECORD, "data": data})
