"""Make new identities: session ids and headers, also for a copy, and entries."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Container
from functools import lru_cache
from typing import Any, cast, get_args

from sessiontree.clock import Clock, now_ms
from sessiontree.errors import InvalidIdError
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.header import CURRENT_VERSION, Header, get_version, make_header
from sessiontree.model.ids import (
    ENTRY_ID_LENGTH,
    format_timestamp,
    new_session_id,
    new_uuid7,
)
from sessiontree.profiles import Dialect
from sessiontree.stores.base import Durability, MakesIds, SessionLog, SessionStore

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_CHOSEN_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
# Header fields that a copy must not inherit.
_OWN_FIELDS = ("previousSessionFiles",)


def make_session_id(dialect: Dialect, clock: Clock = now_ms) -> str:
    """A new session id as the dialect spells it; later ones sort behind, also within a moment."""
    global _last_id_ms
    with _id_lock:
        _last_id_ms = max(clock(), _last_id_ms + 1)
        make = new_uuid7 if dialect == "pi" else new_session_id
        return make(_last_id_ms, os.urandom)


_id_lock = threading.Lock()
_last_id_ms = 0


def next_session_id(store: SessionStore, dialect: Dialect) -> str:
    """Make the id of a new session in a store."""
    if isinstance(store, MakesIds):
        return store.make_session_id()
    return make_session_id(dialect, store.clock)


def require_id(session_id: str) -> str:
    """An id that a caller has chosen. Raises InvalidIdError if it could not name a file."""
    if (
        not isinstance(session_id, str)
        or not _CHOSEN_ID.fullmatch(session_id)
        or session_id in (".", "..")
    ):
        raise InvalidIdError(session_id)
    return session_id


def require_scope(scope: str | None) -> None:
    """Raise TypeError or ValueError for a value that no store can keep as a scope."""
    if scope is None:
        return
    if not isinstance(scope, str):
        raise TypeError(f"A scope is a string, not {type(scope).__name__}")
    try:
        is_kept = bool(scope) and b"\0" not in scope.encode()
    except UnicodeEncodeError:
        is_kept = False
    if not is_kept:
        raise ValueError(f"{scope!r} is not a scope: use text without NUL and lone surrogates")


def require_durability(durability: str) -> None:
    """Raise ValueError for an unknown word: data under a misspelt one would never be synced."""
    if durability not in get_args(Durability):
        known = " or ".join(map(repr, get_args(Durability)))
        raise ValueError(f"durability is {known}, not {durability!r}")


def new_header(
    store: SessionStore,
    cwd: str,
    *,
    session_id: str | None = None,
    parent_session: str | None = None,
    scope: str | None = None,
) -> Header:
    """The header of a new session in a store."""
    require_scope(scope)
    timestamp = format_timestamp(store.clock())
    made_id = session_id or next_session_id(store, store.dialect)
    header = make_header(made_id, timestamp, cwd, parent_session=parent_session)
    if scope is not None:
        cast("dict[str, Any]", header)["scope"] = scope
    return header


def derive_header(
    source: Header,
    title: str | None,
    cwd: str,
    dialect: Dialect,
    parent: str,
    store: SessionStore,
    *,
    scope: str | None = None,
) -> Header:
    """The header of a session made from another: its own identity, the other's fields."""
    require_scope(scope)
    wire: dict[str, Any] = {
        "type": "session",
        "version": max(get_version(source), CURRENT_VERSION),
        "id": next_session_id(store, dialect),
        "timestamp": format_timestamp(store.clock()),
        "cwd": cwd,
    }
    for key, value in source.items():
        if key not in wire and key not in _OWN_FIELDS:
            wire[key] = value
    wire.pop("title", None)
    if title:
        wire["title"] = title
    else:
        wire.pop("titleSource", None)
    if scope is not None:
        wire["scope"] = scope
    wire["parentSession"] = parent
    return cast("Header", wire)


def new_entry(log: SessionLog, entry_type: str, fields: WireEntry) -> Entry:
    """An entry that would be the child of the leaf, with an id that the session does not have."""
    tree = log.tree
    entry_id = _draw_id(tree.by_id)
    parent_id = tree.leaf_id
    time = _format_recent(log.store.clock())
    data: WireEntry = {
        "type": entry_type,
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": time,
        **fields,
    }
    if entry_type == "compaction" and data.get("firstKeptEntryId", "") is None:
        data["firstKeptEntryId"] = entry_id  # it keeps nothing from before it
    return Entry(entry_type, entry_id, parent_id, time, cached=data)


def draw_ids(count: int) -> list[str]:
    """Draw ids of eight hex digits in one call of the system; some may be taken."""
    return _EIGHT.findall(os.urandom(count * ENTRY_ID_LENGTH // 2).hex())


_EIGHT = re.compile("." * ENTRY_ID_LENGTH)


def _draw_id(taken: Container[str]) -> str:
    """Take an id that no entry of the session has, of those that were drawn in advance."""
    while True:
        try:
            made = _drawn.pop()  # in one step, since other threads draw, too
        except IndexError:
            made, *more = draw_ids(256)
            _drawn.extend(more)
        if made not in taken:
            return made


_drawn: list[str] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)  # else both would draw the same

_format_recent = lru_cache(maxsize=1)(format_timestamp)
"""Many entries are made within the same millisecond."""


def clean_name(name: str) -> str:
    """A session's name as it is kept: one line without control characters."""
    return " ".join(_CONTROL.sub(" ", name).split())
