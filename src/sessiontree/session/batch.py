"""Entries that a caller brings: check them, add missing fields, link them to one another."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sessiontree.errors import EntryExistsError, EntryNotFoundError
from sessiontree.model.entries import LEAF_MARKER, Entry, WireEntry
from sessiontree.model.ids import format_timestamp, new_entry_id
from sessiontree.stores.base import SessionLog
from sessiontree.stores.identity import draw_ids

_MAX_ID = 128


def make_entries(
    log: SessionLog,
    wanted: Sequence[Mapping[str, Any]],
    leaf_id: str | None,
    *,
    keeps_leaf: bool = True,
) -> tuple[list[Entry], str | None]:
    """The entries for these objects, in their order, and where the leaf goes from ``leaf_id``.

    One without a parent hangs on the last one before it that has none either, the first of them on
    the leaf; the leaf follows these. One with a parent (an entry of the session, an earlier one of
    these, or None for a root) leaves the leaf alone: if the last is such a one, and the session
    ``keeps_leaf``, a leaf marker follows, since for every reader the last entry is the leaf.

    Raises EntryExistsError for an id that is taken, EntryNotFoundError for a parent that is not
    there, TypeError and ValueError for anything that is not an entry.
    """
    time = format_timestamp(log.store.clock())
    taken = _Taken(log.tree.by_id, len(wanted))
    free = taken.free
    made: list[Entry] = []
    for each in wanted:
        data: WireEntry
        message = each.get("message") if type(each) is dict and len(each) == 2 else None
        if free and type(message) is dict and each.get("type") == "message":
            # nearly all are nothing but a message, and this loop is what a batch costs
            entry_id = free.pop()
            data = {
                "type": "message",
                "id": entry_id,
                "parentId": leaf_id,
                "timestamp": time,
                "message": message,
            }
            made.append(Entry("message", entry_id, leaf_id, time, cached=data))
            leaf_id = entry_id
            continue
        entry_type = _type_of(each)
        if _OWN_FIELDS.isdisjoint(each):
            entry_id = taken.draw()
            own = {"type": entry_type, "id": entry_id, "parentId": leaf_id, "timestamp": time}
            made.append(Entry(entry_type, entry_id, leaf_id, time, cached={**own, **each}))
            leaf_id = entry_id
            continue
        is_placed = "parentId" in each or "parent_id" in each
        parent_id = _parent_of(each, taken) if is_placed else leaf_id
        data = _spell_out(each, entry_type, parent_id, taken, time)
        made.append(Entry(entry_type, data["id"], parent_id, data["timestamp"], cached=data))
        if not is_placed:
            leaf_id = data["id"]
    if keeps_leaf and leaf_id != made[-1].id:
        made.append(_make_marker(leaf_id, taken, time))
    return made, leaf_id


_OWN_FIELDS = frozenset(("id", "parentId", "parent_id", "timestamp"))
"""What an entry may bring along, and usually doesn't."""


def _spell_out(
    wanted: Mapping[str, Any], entry_type: str, parent_id: str | None, taken: _Taken, time: str
) -> WireEntry:
    """The wire object of an entry that brings some of its own fields."""
    chosen, stamp = wanted.get("id"), wanted.get("timestamp")
    own = {
        "type": entry_type,
        "id": taken.draw() if chosen is None else _checked_id(chosen, taken),
        "parentId": parent_id,
        "timestamp": stamp if isinstance(stamp, str) and stamp else time,
    }
    data = {**own, **wanted, **own}
    data.pop("parent_id", None)
    return data


class _Taken:
    """The ids of a session and of entries to be added to it."""

    def __init__(self, known: Mapping[str, Entry], count: int) -> None:
        self.known = known
        self.new: set[str] = set()
        # one call of the system for all of them, and one for the marker
        drawn = draw_ids(count + 1)
        self._drawn = set(drawn)
        if len(self._drawn) < len(drawn) or not known.keys().isdisjoint(drawn):
            drawn = list(self._drawn - known.keys())
        self.free = drawn
        """Drawn and not taken yet; ``pop`` takes one."""

    def __contains__(self, entry_id: object) -> bool:
        is_drawn = entry_id in self._drawn and entry_id not in self.free
        return is_drawn or entry_id in self.new or entry_id in self.known

    def add(self, entry_id: str) -> None:
        """Take an id that a caller has chosen."""
        self.new.add(entry_id)
        if entry_id in self._drawn and entry_id in self.free:
            self.free.remove(entry_id)

    def draw(self) -> str:
        """Take an id of eight hex digits that no entry has."""
        if self.free:
            return self.free.pop()
        made = new_entry_id(self, os.urandom)
        self.new.add(made)
        return made


def _make_marker(leaf_id: str | None, taken: _Taken, stamp: str) -> Entry:
    entry_id = taken.draw()
    data = {
        "type": "custom",
        "id": entry_id,
        "parentId": leaf_id,
        "timestamp": stamp,
        "customType": LEAF_MARKER,
    }
    return Entry("custom", entry_id, leaf_id, stamp, cached=data)


def _type_of(wanted: Mapping[str, Any]) -> str:
    if type(wanted) is not dict and not isinstance(wanted, Mapping):
        raise TypeError(f"An entry is a dictionary, not {type(wanted).__name__}")
    entry_type = wanted.get("type")
    if entry_type == "message":
        if not isinstance(wanted.get("message"), dict):
            raise TypeError('An entry of type "message" needs a "message" that is a dictionary')
        return "message"
    if not isinstance(entry_type, str) or not entry_type:
        raise ValueError('An entry needs a "type"')
    if entry_type in ("session", "title"):
        raise ValueError(f'"{entry_type}" is the type of a header, not of an entry')
    return entry_type


def _checked_id(entry_id: object, taken: _Taken) -> str:
    if not isinstance(entry_id, str) or not entry_id.isprintable() or not entry_id:
        raise ValueError(
            f"{entry_id!r} is not an entry id: use 1 to {_MAX_ID} printable characters"
        )
    if len(entry_id) > _MAX_ID:
        raise ValueError(f"An entry id has at most {_MAX_ID} characters, not {len(entry_id)}")
    if entry_id in taken:
        raise EntryExistsError(entry_id)
    taken.add(entry_id)
    return entry_id


def _parent_of(wanted: Mapping[str, Any], taken: _Taken) -> str | None:
    parent_id = wanted["parentId"] if "parentId" in wanted else wanted["parent_id"]
    if parent_id is None:
        return None
    if not isinstance(parent_id, str):
        raise TypeError(f"A parent is an entry's id or None, not {type(parent_id).__name__}")
    if parent_id not in taken:
        raise EntryNotFoundError(parent_id)
    return parent_id
