"""Records: values that a program keeps with a session, by key; the last one written counts.

Each is a ``custom`` entry, so that other agents pass it on and a model never sees it. The search
for one begins at the end and reads custom entries only.
"""

from __future__ import annotations

import math
from typing import Any

from sessiontree.model.codec import MAX_DEPTH
from sessiontree.session.live import LiveSession
from sessiontree.text.escaping import one_line

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
    """Keep a value, anything that JSON can hold, for this key; the id of its entry.

    TypeError or ValueError for anything else: what ``get_record`` gives must be what was set.
    """
    if not isinstance(key, str):
        raise TypeError(f"A record's key is a string, not {type(key).__name__}")
    require_json(value, f'The record "{one_line(key)}"')
    data = {"key": key, "value": value}
    return session.append("custom", {"customType": RECORD, "data": data})


def require_json(value: object, what: str) -> None:
    """Raise TypeError or ValueError, with the place, for a value that JSON would give back changed.

    Tuples pass: they come back as lists.
    """
    level: dict[int, tuple[str, object]] = {id(value): ("", value)}
    for _ in range(_DEPTH):
        below: dict[int, tuple[str, object]] = {}
        for place, holder in level.values():
            problem = _problem_of(holder)
            if problem:
                where = f" at {one_line(place)}" if place else ""
                kind = ValueError if isinstance(holder, int | float) else TypeError
                raise kind(f"{what}{where} is {problem}, which JSON cannot hold")
            if isinstance(holder, dict):
                below |= {id(item): (f"{place}.{key}", item) for key, item in holder.items()}
            elif isinstance(holder, list | tuple):
                below |= {id(item): (f"{place}[{n}]", item) for n, item in enumerate(holder)}
        level = below
        if not level:
            return
    raise ValueError(f"{what} is nested too deeply, or holds itself")


_DEPTH = MAX_DEPTH - 8  # the entry and its fields are around it
_MAX_BITS = 13_000
"""An int of more than 4,000 digits is read as a float."""


def _problem_of(value: object) -> str | None:
    """The reason why JSON can't give this value back, apart from what it contains; None without
    one."""
    match value:
        case None | bool() | str() | list() | tuple():
            return None
        case int():
            return "a number of thousands of digits" if value.bit_length() > _MAX_BITS else None
        case float():
            return None if math.isfinite(value) else str(value)
        case dict():
            wrong = next((key for key in value if not isinstance(key, str)), None)
            return None if wrong is None else f"a dictionary with the key {wrong!r}"
        case _:
            return f"of type {type(value).__name__}"
