"""Changes that the viewer makes: names, labels, and what is in the trash.

Only sessions of pi's family and of databases; other agents' are never written. A new name or label
does not change a file's time, and so no list's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sessiontree.errors import SessionNotFoundError, SessionTreeError
from sessiontree.maintenance.annotations import label_entry, rename_session
from sessiontree.serving.sessions import Row, ServedSessions, make_key
from sessiontree.stores.base import SessionStore, TrashedSession
from sessiontree.text.words import clean_line

LONGEST = 500
"""Characters of a name or label."""


class NotOursError(SessionTreeError):
    """A session of another agent, which Sessiontree only reads."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"Sessions of {agent} are read only: Sessiontree never changes them.")
        self.agent = agent


@dataclass(frozen=True, slots=True)
class Trashed:
    """A session in the trash of one of the stores. ``key`` names it to the viewer."""

    key: str
    agent: str
    item: TrashedSession


def rename(served: ServedSessions, row: Row, name: str) -> str:
    """Name a session, or clear its name; return the name. Raises SessionTreeError."""
    shown = rename_session(_store_of(served, row), row.ref, clean_line(name)[:LONGEST])
    served.forget()
    return shown or ""


def label(served: ServedSessions, row: Row, entry_id: str, text: str) -> None:
    """Label an entry, or remove its label. Raises SessionTreeError."""
    label_entry(_store_of(served, row), row.ref, entry_id, clean_line(text)[:LONGEST] or None)
    served.forget()


def remove(served: ServedSessions, row: Row) -> str:
    """Move a session to the trash; return its key there. Raises SessionTreeError."""
    store = _store_of(served, row)
    item = store.delete(row.ref)
    served.forget()
    return _key(store, item) if item is not None else ""


def restore(served: ServedSessions, key: str) -> str:
    """Take a session out of the trash; return its key in listings. Raises SessionTreeError."""
    for store in served.scope.stores:
        for item in store.list_trash():
            if _key(store, item) == key:
                ref = store.restore(item.id)
                served.forget()
                return make_key(store.profile.name, ref)
    raise SessionNotFoundError(key, "It is not in the trash any more.")


def list_trash(served: ServedSessions) -> Sequence[Trashed]:
    """List the trash of all stores, what was removed last first."""
    found = [
        Trashed(_key(store, item), store.profile.name, item)
        for store in served.scope.stores
        for item in store.list_trash()
    ]
    return sorted(found, key=lambda each: each.item.removed_at, reverse=True)


def _store_of(served: ServedSessions, row: Row) -> SessionStore:
    if not row.is_own:
        raise NotOursError(row.agent)
    return served.scope.store_of(row.ref)


def _key(store: SessionStore, item: TrashedSession) -> str:
    return make_key(store.profile.name, item.id)
