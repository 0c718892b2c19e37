"""The entries that stand for a framework's object, and the objects that entries stand for.

An object becomes as many ``message`` entries as its readable form has messages, or one ``custom``
entry if it has none; the last of them has the packed object and the object's id:

    [{"type": "message", "message": {…}},
     {"type": "message", "message": {…}, "id": ID, "native": {HARNESS: …}, "nativeMessages": 2}]

So an object is there once its last entry is, and a branch from it has all of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any

from sessiontree.adapters.verbatim import NATIVE, UnpackError, pack, unpack
from sessiontree.logs import get_logger
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.messages import WireMessage
from sessiontree.session.manager import SessionManager

logger = get_logger(__name__)

COUNT = "nativeMessages"
"""The field that says how many entries stand for an object, if it is more than one."""


def entries_of(
    harness: str,
    value: Any,
    messages: Sequence[WireMessage],
    *,
    entry_id: str | None = None,
    parent_id: str | EllipsisType | None = ...,
) -> list[WireEntry]:
    """The entries to append for an object, a JSON value, with what is readable of it.

    By default they continue the conversation; with a ``parent_id`` the object needs an id as well.
    """
    if len(messages) < 2:
        packed = pack(value, messages[0] if messages else None)
    else:
        packed = pack(value, [*messages])
    made: list[WireEntry] = [{"type": "message", "message": message} for message in messages]
    if not made:
        made = [{"type": "custom", "customType": f"{harness}.object"}]
    last = made[-1]
    last[NATIVE] = {harness: packed}
    if len(made) > 1:
        last[COUNT] = len(made)
    if entry_id is not None:
        last["id"] = entry_id
    if parent_id is not ...:
        for number, entry in enumerate(made, 1):
            entry.setdefault("id", f"{entry_id}.{number}")
            entry["parentId"] = parent_id
            parent_id = entry["id"]
    return made


def fresh_id(manager: SessionManager) -> str:
    """An id that no entry of the session has."""
    while True:
        made = secrets.token_hex(6)
        if manager.get_entry(made) is None:
            return made


def wire(entry: Entry) -> WireEntry:
    """An entry's wire object, to look at."""
    return entry.data if entry.is_loaded else entry.decode()


def holds_object(data: WireEntry, harness: str) -> bool:
    """Whether an entry has an object of this framework."""
    native = data.get(NATIVE)
    return isinstance(native, dict) and harness in native


def object_of(data: WireEntry, before: Sequence[WireEntry], harness: str) -> Any:
    """The object of an entry; ``before`` are those that lead to it. Raises UnpackError."""
    count = data.get(COUNT, 1)
    if not isinstance(count, int) or not 1 <= count <= len(before) + 1:
        raise UnpackError(f"{COUNT} is {count!r}")
    packed = data[NATIVE][harness]
    if count == 1:
        return unpack(packed, data.get("message"))
    group = [*before[len(before) + 1 - count :], data]
    return unpack(packed, [each.get("message") for each in group])


def newest_first(path: Sequence[Entry], harness: str) -> Iterator[tuple[Entry, Any]]:
    """The objects on a path from the root, the last one first; each read when it is asked for.

    One that cannot be read is left out, with a warning in the log.
    """
    for at in range(len(path) - 1, -1, -1):
        data = wire(path[at])
        if not holds_object(data, harness):
            continue
        count = data.get(COUNT, 1)
        first = max(0, at + 1 - count) if isinstance(count, int) else at
        try:
            yield path[at], object_of(data, [wire(each) for each in path[first:at]], harness)
        except UnpackError as error:
            skip(path[at], harness, error)


def skip(entry: Entry, harness: str, error: Exception) -> None:
    """Warn of an object that is left out because it cannot be read."""
    reason = str(error).partition("\n")[0]
    logger.warning("entry %s: no %s object can be read from it (%s)", entry.id, harness, reason)
