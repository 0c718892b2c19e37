"""Put a whole session into a store, as imports and conversions do at their end."""

from __future__ import annotations

from collections.abc import Iterable

from sessiontree.core.trimming import restore_frames
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.header import Header
from sessiontree.stores.base import SessionLog, SessionStore


def whole_data(entry: Entry) -> WireEntry:
    """All that an entry says, with the texts and images that its store keeps elsewhere."""
    return restore_frames(entry.decode(), entry.fetch_blob)


def write_session(store: SessionStore, header: Header, entries: Iterable[WireEntry]) -> SessionLog:
    """Write a new session, all of it or nothing; return its open log. SessionExistsError."""
    log = store.create(header, is_new_id=False)
    try:
        log.append([Entry.from_wire(data) for data in entries])
        log.tree.leaf_id = log.tree.last_id
        log.flush()
    except BaseException:
        log.destroy()
        raise
    return log
